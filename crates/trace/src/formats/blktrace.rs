//! blktrace's binary (Linux, `include/uapi/linux/blktrace_api.h`): records with a magic number, either byte order, and
//! `pdu_len` bytes after each, from a file of one CPU or a pipe (`blktrace -o -`). Version 7 has `struct blk_io_trace` of 48
//! bytes, version 8 (Linux 6.19 and later) `struct blk_io_trace2` of 64:
//!
//! | version | magic | sequence | time | sector | bytes | action | pid | device | cpu | error | pdu_len |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | 7 | 0 | 4 | 8 | 16 | 24 | 28, `u32` | 32 | 36 | 40 | 44 | 46 |
//! | 8 | 0 | 4 | 8 | 16 | 24 | 32, `u64` | 28 | 40 | 44 | 48 | 50 |
//!
//! Times in ns, sectors of 512 bytes. The choice of events is [blkparse's](super::blkparse); commands that programs send to a
//! driver (`SG_IO`) are left out. The volume is the device number.
//!
//! `NAME.blktrace.0`, `.1`, … are the CPUs of one trace, compressed or not: opening one of them, or `NAME`, merges all.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use peryton_units::Op;

use super::{
    Head, Input, Opened, ReadOptions,
    block_event::{BlockEvent, Choice},
};
use crate::{
    Account, BATCH, Request, TraceError,
    decode::{BadLines, Decode, Notes, Sink, bad_record},
    problem::{Decoded, Problem},
};

const EXPECTED: &str = "a record with the magic 0x65617407 or 0x65617408 (blktrace, versions 7 and 8)";
/// Magic number, without the version in the last byte.
const MAGIC: u32 = 0x6561_7400;

// `enum blktrace_cat`, in the upper part of an action.
const TC_WRITE: u64 = 1 << (16 + 1);
const TC_FLUSH: u64 = 1 << (16 + 2);
const TC_PC: u64 = 1 << (16 + 9);
const TC_NOTIFY: u64 = 1 << (16 + 10);
const TC_DISCARD: u64 = 1 << (16 + 13);
// Those of version 8: zones are appended to and reset, and zeroes written.
const TC_ZONE_APPEND: u64 = 1 << (16 + 16);
const TC_ZONE_RESET: u64 = 3 << (16 + 17);
const TC_ZONE_OTHER: u64 = 7 << (16 + 19);
const TC_WRITE_ZEROES: u64 = 1 << (16 + 22);
/// The record is followed by a control group's id.
const TA_CGROUP: u64 = 1 << 8;

/// How records are written.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Layout {
    big_endian: bool,
    version: u8,
}

impl Layout {
    /// That of a record, of any version.
    fn of(bytes: &[u8]) -> Option<Layout> {
        let word: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        let little = u32::from_le_bytes(word);
        let (big_endian, word) =
            if little & !0xff == MAGIC { (false, little) } else { (true, u32::from_be_bytes(word)) };
        (word & !0xff == MAGIC).then_some(Layout { big_endian, version: word as u8 })
    }

    /// The size of a record of a version that is read.
    fn size(self) -> Option<usize> {
        match self.version {
            7 => Some(48),
            8 => Some(64),
            _ => None,
        }
    }

    fn magic(self) -> [u8; 4] {
        let word = MAGIC | u32::from(self.version);
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    fn number(self, record: &[u8], at: usize, size: usize) -> u64 {
        let bytes = &record[at..at + size];
        let add = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        if self.big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }
}

/// The longest record.
const RECORD: usize = 64;

struct Event {
    size: usize,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    device: u32,
    pdu: u16,
}

impl Event {
    /// `None` without the magic number of a known version, or if the record is cut.
    fn parse(record: &[u8]) -> Option<Event> {
        let layout = Layout::of(record)?;
        let size = layout.size().filter(|&size| record.len() >= size)?;
        let number = |at, size| layout.number(record, at, size);
        let (action, device, pdu) = match layout.version {
            7 => (number(28, 4), number(36, 4), number(46, 2)),
            _ => (number(32, 8), number(40, 4), number(50, 2)),
        };
        Some(Event {
            size,
            time: number(8, 8),
            sector: number(16, 8),
            bytes: number(24, 4) as u32,
            action,
            device: device as u32,
            pdu: pdu as u16,
        })
    }

    fn kind(&self) -> Option<BlockEvent> {
        if self.action & TC_NOTIFY != 0 {
            return None;
        }
        // `enum blktrace_act`.
        match self.action & 0xffff & !TA_CGROUP {
            1 => Some(BlockEvent::Queue),
            7 => Some(BlockEvent::Issue),
            8 => Some(BlockEvent::Complete),
            11 => Some(BlockEvent::Insert),
            _ => None,
        }
    }

    fn push(&self, sink: &mut Sink<'_>) -> Decoded {
        if self.action & TC_PC != 0 {
            return sink.leave_out("commands of programs to a driver");
        }
        if self.action & TC_FLUSH != 0 {
            sink.push(self.time, self.device, Op::Flush, 0, 0)?;
        }
        if self.bytes == 0 || self.action & TC_ZONE_OTHER != 0 {
            return Ok(());
        }
        let op = match self.action {
            action if action & (TC_DISCARD | TC_ZONE_RESET | TC_WRITE_ZEROES) != 0 => Op::Discard,
            action if action & (TC_WRITE | TC_ZONE_APPEND) != 0 => Op::Write,
            _ => Op::Read,
        };
        let Some(offset) = self.sector.checked_mul(512) else {
            return Err("the request ends past 2^63 bytes".into());
        };
        sink.push(self.time, self.device, op, offset, u64::from(self.bytes))
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    // Another version is recognised as well, so that the message can name it.
    if Layout::of(head.bytes).is_some() { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let choice = Choice::new(options.event, kinds(Head::of(&mut input)?));
    Ok(Box::new(Blktrace::new(input, choice, options.skip_bad)))
}

/// The kinds of events in the head of a trace.
pub(crate) fn kinds(head: Head<'_>) -> impl Iterator<Item = BlockEvent> {
    let mut rest = head.bytes;
    std::iter::from_fn(move || {
        let event = Event::parse(rest)?;
        rest = rest.get(event.size + usize::from(event.pdu)..).unwrap_or(&[]);
        Some(event.kind().filter(|_| event.action & TC_PC == 0))
    })
    .flatten()
}

pub(crate) struct Blktrace {
    name: Arc<str>,
    input: Input,
    choice: Choice,
    bad: BadLines,
    notes: Notes,
    /// That of the last good record.
    layout: Option<Layout>,
}

impl Blktrace {
    pub(crate) fn new(input: Input, choice: Choice, skip_bad: bool) -> Blktrace {
        Blktrace {
            name: input.name().clone(),
            input,
            choice,
            bad: BadLines::new(skip_bad),
            notes: Notes::default(),
            layout: None,
        }
    }
}

impl Decode for Blktrace {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let enough = out.len() + BATCH;
        while out.len() < enough {
            let byte = self.input.position();
            let record = self.input.peek(RECORD)?;
            if record.is_empty() {
                return Ok(());
            }
            let Some(event) = Event::parse(record) else {
                let layout = Layout::of(record);
                let problem = match layout {
                    Some(layout) if layout.size().is_none() => Problem(format!("version {}", layout.version).into()),
                    None if record.len() >= 4 => "no magic number".into(),
                    _ => "the trace ends inside a record".into(),
                };
                self.bad.note(bad_record(&self.name, byte, record, problem, EXPECTED))?;
                self.input.skip(1)?;
                // Records have no fixed distance: go on at the next magic number.
                let layout = layout.filter(|layout| layout.size().is_some()).or(self.layout);
                self.input.skip_to(&layout.unwrap_or(Layout { big_endian: false, version: 7 }).magic())?;
                continue;
            };
            self.layout = Layout::of(record);
            let before = out.len();
            let wanted = event.kind().is_some_and(|kind| self.choice.takes(kind));
            if wanted && let Err(problem) = event.push(&mut Sink::new(out, &mut self.notes)) {
                out.truncate(before);
                self.bad.note(bad_record(&self.name, byte, record, problem, EXPECTED))?;
            }
            if !self.input.skip(event.size + usize::from(event.pdu))? {
                let problem = "the trace ends inside the data after a record";
                self.bad.note(bad_record(&self.name, byte, &[], problem.into(), EXPECTED))?;
            }
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.bad.add_to(account);
        self.notes.add_to(account);
    }
}

/// What may come after the number of a CPU.
const COMPRESSED: [&str; 6] = ["", ".gz", ".zst", ".xz", ".bz2", ".lzma"];

/// The files of all CPUs, in the order of the CPUs, if `path` is one of them or their common name; otherwise `None`.
pub(crate) fn siblings(path: &Path) -> Option<Vec<PathBuf>> {
    let cpu = |text: &str| -> Option<u32> {
        let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
        COMPRESSED.contains(&&text[end..]).then(|| text[..end].parse().ok()).flatten()
    };
    let file = path.file_name()?.to_str()?;
    let stem = match file.rsplit_once(".blktrace.") {
        Some((stem, rest)) if cpu(rest).is_some() => stem,
        _ if !path.exists() => file,
        _ => return None,
    };
    let prefix = format!("{stem}.blktrace.");
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(directory)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let cpu = cpu(name.to_str()?.strip_prefix(&prefix)?)?;
            // A CPU without requests leaves an empty file.
            (entry.metadata().ok()?.len() > 0).then(|| (cpu, path.with_file_name(&name)))
        })
        .collect();
    found.sort();
    // A file may lie beside its compressed copy.
    let mut kept: Vec<(u32, PathBuf)> = Vec::new();
    for (cpu, file) in found {
        match kept.last_mut().filter(|(last, _)| *last == cpu) {
            Some((_, last)) if file == path => *last = file,
            Some(_) => {}
            None => kept.push((cpu, file)),
        }
    }
    (!kept.is_empty()).then(|| kept.into_iter().map(|(_, path)| path).collect())
}

/// Whether the input is blktrace's binary, whatever its name says.
pub(crate) fn is_binary(input: &mut Input) -> Result<bool, TraceError> {
    Ok(looks_like(Head::of(input)?) > 0)
}
