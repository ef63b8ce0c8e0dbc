//! fio's I/O logs, versions 2 and 3 (fio(1), "Trace file format"). Version 2: `file action offset length`, with times only
//! from `wait` (µs after the previous wait). Version 3: `timestamp file action offset length`, timestamps in µs since
//! the log's start, as fio writes them. `sync`, `datasync` and the like are flushes, `trim` is a discard. Files are volumes,
//! numbered from 0 in the order in which they appear.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Problem, Sink},
    field::{nanos, whole, words},
};

/// The most files in one log; more would come from a wrong column.
const MAX_FILES: usize = 65_536;
/// The longest name that fio allows, in bytes.
const MAX_NAME: usize = 256;

pub(crate) struct Fio {
    version: u8,
    files: rustc_hash::FxHashMap<Box<[u8]>, u32>,
    now: u64,
}

impl Fio {
    /// `None` if the first line does not name a supported version.
    pub(crate) fn new(head: Head<'_>) -> Option<Fio> {
        let mut words = words(head.first_line());
        let version = match [words.next()?, words.next()?, words.next()?, words.next()?] {
            [b"fio", b"version", b"2", b"iolog"] => 2,
            [b"fio", b"version", b"3", b"iolog"] => 3,
            _ => return None,
        };
        Some(Fio { version, files: rustc_hash::FxHashMap::default(), now: 0 })
    }

    fn volume(&mut self, name: &[u8]) -> Result<u32, Problem> {
        if let Some(&known) = self.files.get(name) {
            return Ok(known);
        }
        if name.len() > MAX_NAME {
            return Err("a file name longer than 256 bytes".into());
        }
        if self.files.len() == MAX_FILES {
            return Err("more than 65536 different files".into());
        }
        let number = self.files.len() as u32;
        self.files.insert(name.into(), number);
        Ok(number)
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if Fio::new(head).is_some() { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "the first line must be 'fio version 2 iolog' or 'fio version 3 iolog'";
    let fio = Fio::new(head).ok_or_else(|| head.unfit(&name, "not an I/O log of fio that can be read", remedy))?;
    lines(input, fio, options)
}

impl LineFormat for Fio {
    const EXPECTED: &'static str = "[us] file read|write|trim|sync|… offset length (fio iolog 2 or 3)";

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
            at = nanos(first, 1_000).or_problem("the timestamp is not a number of microseconds")?;
            first = words.next().or_problem("no file")?;
        }
        let action = words.next().or_problem("no action")?;
        let op = match action {
            b"add" | b"open" | b"close" => {
                self.volume(first)?;
                return Ok(());
            }
            b"wait" if self.version == 2 => {
                let wait = words.next().and_then(|word| nanos(word, 1_000)).or_problem("the wait is not in µs")?;
                self.now = self.now.checked_add(wait).or_problem("the sum of the waits is out of range")?;
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
        let volume = self.volume(first)?;
        sink.push(at, volume, op, offset, length)
    }
}
