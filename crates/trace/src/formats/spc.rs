//! SPC trace files, as UMass distributes Financial and WebSearch: `ASU,LBA,size,opcode,seconds[,…]`, the LBA in sectors
//! of 512 bytes, the size in bytes (SPC Trace File Format Specification 1.0.1; its optional further fields are
//! ignored). The volume is the application storage unit.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Sink},
    field::{Fields, nanos, whole, whole_u32},
};

pub(crate) struct Spc;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, Spc)
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Spc, options)
}

impl LineFormat for Spc {
    const EXPECTED: &'static str = "ASU,LBA,bytes,R|W,seconds (SPC, UMass)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        // Revision 1.0.1 allows blanks around fields.
        let mut fields = Fields::new(line, b',').map(<[u8]>::trim_ascii);
        let mut next = || fields.next().unwrap_or(&[]);
        let asu = whole_u32(next()).or_problem("the ASU is not a whole number")?;
        let lba = whole(next()).or_problem("the LBA is not a whole number")?;
        let size = whole(next()).or_problem("the size is not a whole number")?;
        let op = match next() {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err("the opcode is neither R nor W".into()),
        };
        let at = nanos(next(), 1_000_000_000).or_problem("the time is not a number of seconds")?;
        let offset = lba.checked_mul(512).or_problem("the request ends past 2^63 bytes")?;
        sink.push(at, asu, op, offset, size)
    }
}
