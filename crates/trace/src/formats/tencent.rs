//! Tencent Cloud Block Storage: `timestamp,offset,size,iotype,volume`, seconds, sectors of 512 bytes, type 0 is a read and
//! 1 a write (Zhang et al., "OSCA", USENIX ATC 2020). All requests of a second have the same time.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Sink},
    field::{Fields, whole, whole_u32},
};

pub(crate) struct Tencent;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, Tencent)
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Tencent, options)
}

impl LineFormat for Tencent {
    const EXPECTED: &'static str = "seconds,sector,sectors,0|1,volume (Tencent CBS)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.is_empty() || line.get(..9).is_some_and(|start| start.eq_ignore_ascii_case(b"timestamp")) {
            return Ok(());
        }
        let mut fields = Fields::new(line, b',');
        let mut next = || fields.next().unwrap_or(&[]);
        let seconds = whole(next()).or_problem("the time is not a whole number")?;
        let sector = whole(next()).or_problem("the sector is not a whole number")?;
        let sectors = whole(next()).or_problem("the number of sectors is not a whole number")?;
        let op = match next() {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err("the type is neither 0 (read) nor 1 (write)".into()),
        };
        let volume = whole_u32(next()).or_problem("the volume is not a whole number")?;
        if fields.next().is_some() {
            return Err("more than five columns".into());
        }
        let at = seconds.checked_mul(1_000_000_000).or_problem("the time is out of range")?;
        sink.push_sectors(at, volume, op, sector, sectors)
    }
}
