//! FIU (SRCMap, I/O Deduplication): `time pid process lba size W|R major minor [md5 …]`, times in ns, sectors of 512
//! bytes. SRCMap's have no digests, I/O Deduplication's have one MD5 for each 512 or 4096 bytes (Verma et al., FAST 2010;
//! Koller and Rangaswami, FAST 2010). Times with decimals are seconds, as in derived versions.
//!
//! The volume is the [device number](crate::device_number). Process names may have blanks in them.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{LineFormat, Sink},
    device_number,
    field::{nanos, whole, whole_u32, words},
    problem::{Decoded, Or},
};

pub(crate) struct Fiu;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, &mut Fiu)
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Fiu, options)
}

impl LineFormat for Fiu {
    fn expected(&self) -> Cow<'static, str> {
        "ns pid process sector sectors R|W major minor [md5] (FIU)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut front = words(line);
        let Some(time) = front.next() else {
            return Ok(());
        };
        let unit = if time.contains(&b'.') { 1_000_000_000 } else { 1 };
        let at = nanos(time, unit).or_problem("the time is not a number of nanoseconds")?;
        front.next().and_then(whole).or_problem("the process id is not a whole number")?;
        // Parsed from the end, because a process name may contain any text.
        let mut back = front.rev().skip_while(|word| is_digest(word));
        let minor = back.next().and_then(whole_u32).or_problem("the minor device number is not a whole number")?;
        let major = back.next().and_then(whole_u32).or_problem("the major device number is not a whole number")?;
        let op = match back.next() {
            Some(b"R" | b"r" | b"Read" | b"read") => Op::Read,
            Some(b"W" | b"w" | b"Write" | b"write") => Op::Write,
            _ => return Err("neither R nor W".into()),
        };
        let sectors = back.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
        let sector = back.next().and_then(whole).or_problem("the sector is not a whole number")?;
        back.next().or_problem("no process name")?;
        let device = device_number(major, minor).or_problem("no such device number")?;
        sink.push_sectors(at, device, op, sector, sectors)
    }
}

/// An MD5 has 32 hexadecimal digits.
fn is_digest(word: &[u8]) -> bool {
    word.len() >= 32 && word.iter().all(u8::is_ascii_hexdigit)
}
