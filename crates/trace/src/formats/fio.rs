//! fio's I/O logs, versions 2 and 3 (fio(1), "Trace file format"), with times as fio's `iolog.c` reads them. Version 2: `file
//! action offset length`, with times only from `wait`, whose number is milliseconds since the start, not a pause: what
//! follows comes then, or at once if it is later already. Version 3: `timestamp file action offset length`, timestamps in µs
//! since the log's start; [`Units`](crate::Units) overrides the unit of both. `sync`, `datasync` and the like are flushes,
//! `trim` is a discard. A volume is a file.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, lines};
use crate::{
    TimeUnit,
    decode::{LineFormat, Sink},
    field::{nanos, whole, words},
    problem::{Decoded, Or},
    volume_names::Numbering,
};

pub(crate) struct Fio {
    version: u8,
    unit: Option<TimeUnit>,
    files: Numbering,
    now: u64,
}

impl Fio {
    /// `None` if the first line does not name a supported version.
    pub(crate) fn new(head: Head<'_>, options: &ReadOptions) -> Option<Fio> {
        let mut words = words(head.first_line());
        let version = match [words.next()?, words.next()?, words.next()?, words.next()?] {
            [b"fio", b"version", b"2", b"iolog"] => 2,
            [b"fio", b"version", b"3", b"iolog"] => 3,
            _ => return None,
        };
        Some(Fio { version, unit: options.units.time, files: Numbering::new(&options.names), now: 0 })
    }

    fn time(&self, text: &[u8], usual: TimeUnit) -> Option<u64> {
        nanos(text, self.unit.unwrap_or(usual).as_nanos())
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if Fio::new(head, &ReadOptions::default()).is_some() { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "the first line must be 'fio version 2 iolog' or 'fio version 3 iolog'";
    let fio = Fio::new(head, options);
    let fio = fio.ok_or_else(|| head.unfit(&name, "not an I/O log of fio that can be read", remedy))?;
    lines(input, fio, options)
}

impl LineFormat for Fio {
    fn expected(&self) -> Cow<'static, str> {
        "[us] file read|write|trim|sync|… offset length (fio iolog 2 or 3)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut words = words(line);
        let Some(mut first) = words.next() else {
            return Ok(());
        };
        if first == b"fio" && line.trim_ascii().starts_with(b"fio version ") {
            return Ok(());
        }
        let mut at = self.now;
        if self.version == 3 {
            at =
                self.time(first, TimeUnit::Microseconds).or_problem("the timestamp is not a number of microseconds")?;
            first = words.next().or_problem("no file")?;
        }
        let action = words.next().or_problem("no action")?;
        let op = match action {
            b"add" | b"open" | b"close" => {
                self.files.number(first)?;
                return Ok(());
            }
            b"wait" if self.version == 2 => {
                let until = words.next().and_then(|word| self.time(word, TimeUnit::Milliseconds));
                self.now = self.now.max(until.or_problem("the wait is not a number of milliseconds")?);
                return Ok(());
            }
            // fio ignores it, because version 3 has times.
            b"wait" => return sink.leave_out("waits, which fio ignores in version 3"),
            b"unlink" => {
                return Ok(());
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Op::Flush,
            _ => return Err("an unknown action".into()),
        };
        let offset = words.next().and_then(whole).or_problem("the offset is not a whole number")?;
        let length = words.next().and_then(whole).or_problem("the length is not a whole number")?;
        if words.next().is_some() {
            return Err("too many columns".into());
        }
        let volume = self.files.number(first)?;
        sink.push(at, volume, op, offset, length)
    }
}
