//! DiskSim's ASCII format, also used by MQSim: `arrival device sector sectors flags`, sectors of 512 bytes.
//!
//! DiskSim gives arrivals in milliseconds with decimals, MQSim in nanoseconds without. A file with a decimal point in
//! its first times is read as milliseconds, another as nanoseconds; [`OpenOptions::time_unit`](crate::OpenOptions)
//! overrides this. Flags are hexadecimal with bit 0 set for a read in both. The volume is the device.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    TimeUnit,
    decode::{Decoded, LineFormat, Or, Sink},
    field::{hex_u32, nanos, whole, whole_u32, words},
};

pub(crate) struct Disksim {
    unit: TimeUnit,
    given: bool,
}

impl Disksim {
    pub(crate) fn new(unit: Option<TimeUnit>, head: Head<'_>) -> Disksim {
        let decimals = || head.lines().filter_map(|line| words(line).next()).any(|time| time.contains(&b'.'));
        let usual = || if decimals() { TimeUnit::Milliseconds } else { TimeUnit::Nanoseconds };
        Disksim { unit: unit.unwrap_or_else(usual), given: unit.is_some() }
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if !head.is_text() { 0 } else { likeness(head, Disksim::new(None, head)) }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let disksim = Disksim::new(options.time_unit, Head::of(&mut input)?);
    lines(input, disksim, options)
}

impl LineFormat for Disksim {
    const EXPECTED: &'static str = "arrival device sector sectors flags (DiskSim: ms with decimals; MQSim: whole ns)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut words = words(line);
        let Some(time) = words.next() else {
            return Ok(());
        };
        if !self.given && self.unit == TimeUnit::Nanoseconds && time.contains(&b'.') {
            return Err("a time with decimals after times without: give the time unit".into());
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
        sink.push_sectors(at, device, op, sector, sectors)
    }
}
