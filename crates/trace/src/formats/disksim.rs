//! DiskSim's ASCII format, also used by MQSim: `arrival device sector sectors flags`, sectors of 512 bytes.
//!
//! DiskSim gives arrivals in milliseconds with decimals, MQSim in nanoseconds without. A file with a decimal point in
//! its first times is read as milliseconds, another as nanoseconds; [`Units`](crate::Units)
//! overrides this. Flags are hexadecimal with bit 0 set for a read in both. The volume is the device.
//!
//! Five numbers in a line are many things: a head with many devices, with more requests a second than a drive serves, or
//! whose places and sizes could all be bytes is doubted.

use std::borrow::Cow;

use peryton_units::{Bytes, Op};

use super::{Head, Input, Opened, ReadOptions, likeness, lines, plausible};
use crate::{
    TimeUnit, Units,
    columns::SECTOR,
    decode::{LineFormat, Notes, Sink},
    field::{hex_u32, nanos, whole, whole_u32, words},
    problem::{Decoded, Or},
};

/// More devices than this are not one machine's, where requests are few.
const FEW_DEVICES: usize = 64;

pub(crate) struct Disksim {
    unit: TimeUnit,
    given: bool,
    /// The units of places and sizes, in bytes.
    offset: u64,
    size: u64,
}

impl Disksim {
    pub(crate) fn new(units: &Units, head: Head<'_>) -> Disksim {
        let decimals = || head.lines().filter_map(|line| words(line).next()).any(|time| time.contains(&b'.'));
        let usual = || if decimals() { TimeUnit::Milliseconds } else { TimeUnit::Nanoseconds };
        let bytes = |unit: Option<Bytes>| unit.unwrap_or(SECTOR).0;
        let (offset, size) = (bytes(units.offset), bytes(units.size));
        Disksim { unit: units.time.unwrap_or_else(usual), given: units.time.is_some(), offset, size }
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if !head.is_text() { 0 } else { likeness(head, &mut Disksim::new(&Units::default(), head)) }
}

pub(crate) fn doubt(head: Head<'_>) -> Option<String> {
    let (mut requests, mut notes) = (Vec::new(), Notes::default());
    let mut format = Disksim::new(&Units::default(), head);
    for line in head.lines() {
        // What is bad was judged by the likeness.
        let _ = format.line(line, &mut Sink::new(&mut requests, &mut notes));
    }
    plausible::doubt(&requests, true, FEW_DEVICES)
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let disksim = Disksim::new(&options.units, Head::of(&mut input)?);
    lines(input, disksim, options)
}

impl LineFormat for Disksim {
    fn expected(&self) -> Cow<'static, str> {
        "arrival device sector sectors flags (DiskSim: ms with decimals; MQSim: whole ns)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut words = words(line);
        let Some(time) = words.next() else {
            return Ok(());
        };
        if !self.given && self.unit == TimeUnit::Nanoseconds && time.contains(&b'.') {
            return Err("a time with decimals after times without: give --unit time=ns or ms".into());
        }
        let at = nanos(time, self.unit.as_nanos()).or_problem("the arrival is not a time")?;
        let device = words.next().and_then(whole_u32).or_problem("the device is not a whole number")?;
        let sector = words.next().and_then(whole).or_problem("the sector is not a whole number")?;
        let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
        let flags = words.next().and_then(hex_u32).or_problem("the flags are not a hexadecimal number")?;
        if words.next().is_some() {
            return Err("more than five columns".into());
        }
        let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        let bytes = |count: u64, unit: u64| count.checked_mul(unit).or_problem("the request ends past 2^63 bytes");
        sink.push(at, device, op, bytes(sector, self.offset)?, bytes(sectors, self.size)?)
    }
}
