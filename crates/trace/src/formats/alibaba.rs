//! Alibaba Cloud block traces of 2020: `device_id,opcode,offset,length,timestamp`, bytes and microseconds (Li et al.,
//! "An In-Depth Analysis of Cloud Block Storage Workloads in Large-Scale Production", IISWC 2020). The volume is the device.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Sink},
    field::{Fields, whole, whole_u32},
};

pub(crate) struct Alibaba;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, Alibaba)
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Alibaba, options)
}

impl LineFormat for Alibaba {
    const EXPECTED: &'static str = "device,R|W,offset,length,microseconds (Alibaba 2020)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.is_empty() || line.starts_with(b"device_id,") {
            return Ok(());
        }
        let mut fields = Fields::new(line, b',');
        let mut next = || fields.next().unwrap_or(&[]);
        let device = whole_u32(next()).or_problem("the device is not a whole number")?;
        let op = match next() {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err("the opcode is neither R nor W".into()),
        };
        let offset = whole(next()).or_problem("the offset is not a whole number")?;
        let length = whole(next()).or_problem("the length is not a whole number")?;
        let us = whole(next()).or_problem("the time is not a whole number")?;
        if fields.next().is_some() {
            return Err("more than five columns".into());
        }
        sink.push(us.checked_mul(1_000).or_problem("the time is out of range")?, device, op, offset, length)
    }
}
