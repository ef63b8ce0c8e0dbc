//! DiskSim's validation format: `R|W Hit|Miss|Doub|Trip sector sectors service think`, one line for each request that was
//! measured on a real disk, sectors of 512 bytes, service and think time in µs with decimals. One request was in flight
//! at a time; the next one came after the think time that followed its completion. In the trace, requests arrive when
//! they arrived on the real disk: at the sum of the service and think times before.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{LineFormat, Sink},
    field::{nanos, whole, words},
    problem::{Decoded, Or},
};

#[derive(Default)]
pub(crate) struct DisksimValidate {
    now: u64,
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, &mut DisksimValidate::default())
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, DisksimValidate::default(), options)
}

impl LineFormat for DisksimValidate {
    fn expected(&self) -> Cow<'static, str> {
        "R|W Hit|Miss sector sectors service_us think_us (DiskSim validation)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut words = words(line);
        let op = match words.next() {
            None => return Ok(()),
            Some(b"R") => Op::Read,
            Some(b"W") => Op::Write,
            Some(_) => return Err("neither R nor W".into()),
        };
        // Informative: besides Hit and Miss there are Doub and Trip, of requests that needed two or three accesses.
        if !words.next().is_some_and(|seen| seen.len() >= 3 && seen.iter().all(u8::is_ascii_alphabetic)) {
            return Err("the second column is no word such as Hit or Miss".into());
        }
        let sector = words.next().and_then(whole).or_problem("the sector is not a whole number")?;
        let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
        let mut time = |problem| words.next().and_then(|word| nanos(word, 1_000)).or_problem(problem);
        let service = time("the service time is not a number of microseconds")?;
        let think = time("the think time is not a number of microseconds")?;
        if words.next().is_some() {
            return Err("more than six columns".into());
        }
        let next = self.now.checked_add(service).and_then(|then| then.checked_add(think));
        let next = next.or_problem("the sum of the times is out of range")?;
        sink.push_sectors(self.now, 0, op, sector, sectors)?;
        sink.took(service);
        self.now = next;
        Ok(())
    }
}
