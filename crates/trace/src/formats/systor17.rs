//! SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size` with a header, seconds and bytes; the response may be empty
//! (Lee et al., "Understanding storage traffic characteristics on enterprise virtual desktop infrastructure", SYSTOR
//! 2017). The volume is the LUN.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Sink},
    field::{Fields, nanos, whole, whole_u32},
};

pub(crate) struct Systor17;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, Systor17)
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Systor17, options)
}

impl LineFormat for Systor17 {
    const EXPECTED: &'static str = "Timestamp,Response,R|W,LUN,Offset,Size (SYSTOR '17)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.is_empty() || line.starts_with(b"Timestamp,") {
            return Ok(());
        }
        let mut fields = Fields::new(line, b',');
        let mut next = || fields.next().unwrap_or(&[]);
        let at = nanos(next(), 1_000_000_000).or_problem("the time is not a number of seconds")?;
        let response = next();
        if !response.is_empty() && nanos(response, 1_000_000_000).is_none() {
            return Err("the response is not a number of seconds".into());
        }
        let op = match next() {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err("the type is neither R nor W".into()),
        };
        let lun = whole_u32(next()).or_problem("the LUN is not a whole number")?;
        let offset = whole(next()).or_problem("the offset is not a whole number")?;
        let size = whole(next()).or_problem("the size is not a whole number")?;
        if fields.next().is_some() {
            return Err("more than six columns".into());
        }
        sink.push(at, lun, op, offset, size)
    }
}
