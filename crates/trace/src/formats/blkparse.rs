//! blkparse's default text: `8,0 3 11 0.009507758 697 Q W 223490 + 8 [kjournald]`, times in seconds, sectors of 512
//! bytes (blkparse(1), default format). Queue events (`Q`) are read. If the start of the trace has none, issues (`D`),
//! inserts (`I`) or completions (`C`) are read; [`OpenOptions::event`](crate::OpenOptions) overrides this. Remaps
//! (`A`), merges, plugs, messages and the summary at the end are ignored. The volume is the [device
//! number](crate::device_number).

use super::{
    Head, Input, Opened, ReadOptions,
    block_event::{BlockEvent, Choice, Rwbs, device},
    likeness, lines,
};
use crate::{
    decode::{Decoded, LineFormat, Or, Sink},
    field::{nanos, whole, words},
};

pub(crate) struct Blkparse {
    choice: Choice,
    summary: bool,
}

impl Blkparse {
    pub(crate) fn new(given: Option<BlockEvent>, head: Head<'_>) -> Blkparse {
        let kinds = head.lines().filter_map(|line| {
            let mut words = words(line);
            device(words.next()?)?;
            kind(words.nth(4)?)
        });
        Blkparse { choice: Choice::new(given, kinds), summary: false }
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, Blkparse::new(None, head))
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let blkparse = Blkparse::new(options.event, Head::of(&mut input)?);
    lines(input, blkparse, options)
}

fn kind(action: &[u8]) -> Option<BlockEvent> {
    match action {
        b"Q" => Some(BlockEvent::Queue),
        b"D" => Some(BlockEvent::Issue),
        b"I" => Some(BlockEvent::Insert),
        b"C" => Some(BlockEvent::Complete),
        _ => None,
    }
}

impl LineFormat for Blkparse {
    const EXPECTED: &'static str =
        "major,minor cpu sequence seconds pid action RWBS sector + sectors [process] (blkparse)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut words = words(line);
        let Some(first) = words.next() else {
            return Ok(());
        };
        let Some(volume) = device(first) else {
            // "CPU0 (8,0):" begins the summary; it runs to the end, or to the next device's events.
            self.summary |= first.starts_with(b"CPU") || first == b"Total" || first == b"Throughput";
            return if self.summary { Ok(()) } else { Err("the device is not major,minor".into()) };
        };
        words.next().and_then(whole).or_problem("the CPU is not a whole number")?;
        words.next().and_then(whole).or_problem("the sequence is not a whole number")?;
        let at = words.next().and_then(|word| nanos(word, 1_000_000_000)).or_problem("the time is not in seconds")?;
        words.next().and_then(whole).or_problem("the process id is not a whole number")?;
        let action = words.next().or_problem("no action")?;
        if !kind(action).is_some_and(|event| self.choice.takes(event)) {
            return Ok(());
        }
        let rwbs = words.next().and_then(Rwbs::parse).or_problem("the RWBS letters are not the kernel's")?;
        let Some(sector) = words.next().filter(|word| !word.starts_with(b"[")) else {
            return rwbs.push(sink, at, volume, 0, 0); // A flush has no sectors: "FN [jbd2]".
        };
        if sector.starts_with(b"(") || words.clone().next().is_some_and(|word| word.starts_with(b"(")) {
            return Ok(()); // A SCSI command from a program: "D R 36 (12 00 00 00 24 00) [smartd]".
        }
        let sector = whole(sector).or_problem("the sector is not a whole number")?;
        if words.next() != Some(b"+") {
            // A completed flush: "C FWS 0 [0]" has no length.
            return rwbs.push(sink, at, volume, sector, 0);
        }
        let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
        rwbs.push(sink, at, volume, sector, sectors)
    }
}
