//! blktrace's binary: `struct blk_io_trace` (Linux, `include/uapi/linux/blktrace_api.h`), 48 bytes with a magic number,
//! either byte order, and `pdu_len` bytes after each, from a file of one CPU or a pipe (`blktrace -o -`). Times in ns,
//! sectors of 512 bytes. The choice of events is [blkparse's](super::blkparse); commands that programs send to a driver
//! (`SG_IO`) are ignored. The volume is the device number.
//!
//! `NAME.blktrace.0`, `.1`, … are the CPUs of one trace: opening one of them, or `NAME`, merges all.

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
    BATCH, Request, TraceError,
    decode::{BadLines, Decode, Decoded, Problem, Sink, Skipped, bad_record},
};

const EXPECTED: &str = "struct blk_io_trace with the magic 0x65617407 (blktrace, version 7)";
/// Magic number, and the version in the last byte.
const MAGIC: u32 = 0x6561_7407;
const RECORD: usize = 48;

// `enum blktrace_cat`, in the upper half of an action.
const TC_WRITE: u32 = 1 << (16 + 1);
const TC_FLUSH: u32 = 1 << (16 + 2);
const TC_PC: u32 = 1 << (16 + 9);
const TC_NOTIFY: u32 = 1 << (16 + 10);
const TC_DISCARD: u32 = 1 << (16 + 13);
/// The record is followed by a control group's id.
const TA_CGROUP: u32 = 1 << 8;

#[derive(Clone, Copy)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    fn of(bytes: &[u8]) -> Option<Endian> {
        let word: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        match (u32::from_le_bytes(word), u32::from_be_bytes(word)) {
            (MAGIC, _) => Some(Endian::Little),
            (_, MAGIC) => Some(Endian::Big),
            _ => None,
        }
    }

    /// The version, whether known or not.
    fn version(bytes: &[u8]) -> Option<u32> {
        let word: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        let words = [u32::from_le_bytes(word), u32::from_be_bytes(word)];
        words.into_iter().find(|word| word & !0xff == MAGIC & !0xff).map(|word| word & 0xff)
    }

    fn magic(self) -> [u8; 4] {
        match self {
            Endian::Little => MAGIC.to_le_bytes(),
            Endian::Big => MAGIC.to_be_bytes(),
        }
    }
}

struct Event {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
    pdu: u16,
}

impl Event {
    /// `None` without the magic number.
    fn parse(record: &[u8]) -> Option<Event> {
        let endian = Endian::of(record)?;
        let number = |at: usize, size: usize| {
            let bytes = &record[at..at + size];
            let add = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
            match endian {
                Endian::Little => bytes.iter().rev().fold(0, add),
                Endian::Big => bytes.iter().fold(0, add),
            }
        };
        Some(Event {
            time: number(8, 8),
            sector: number(16, 8),
            bytes: number(24, 4) as u32,
            action: number(28, 4) as u32,
            device: number(36, 4) as u32,
            pdu: number(46, 2) as u16,
        })
    }

    fn kind(&self) -> Option<BlockEvent> {
        if self.action & (TC_NOTIFY | TC_PC) != 0 {
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
        if self.action & TC_FLUSH != 0 {
            sink.push(self.time, self.device, Op::Flush, 0, 0)?;
        }
        if self.bytes == 0 {
            return Ok(());
        }
        let op = match self.action {
            action if action & TC_DISCARD != 0 => Op::Discard,
            action if action & TC_WRITE != 0 => Op::Write,
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
    if Endian::version(head.bytes).is_some() { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let choice = Choice::new(options.event, kinds(Head::of(&mut input)?));
    Ok(Box::new(Blktrace::new(input, choice, options.skip_bad)))
}

/// The kinds of events in the head of a trace.
pub(crate) fn kinds(head: Head<'_>) -> impl Iterator<Item = BlockEvent> {
    let mut rest = head.bytes;
    std::iter::from_fn(move || {
        let event = Event::parse(rest.get(..RECORD)?)?;
        rest = rest.get(RECORD + usize::from(event.pdu)..).unwrap_or(&[]);
        Some(event.kind())
    })
    .flatten()
}

pub(crate) struct Blktrace {
    name: Arc<str>,
    input: Input,
    choice: Choice,
    bad: BadLines,
}

impl Blktrace {
    pub(crate) fn new(input: Input, choice: Choice, skip_bad: bool) -> Blktrace {
        Blktrace { name: input.name().clone(), input, choice, bad: BadLines::new(skip_bad) }
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
            let event = if record.len() == RECORD { Event::parse(record) } else { None };
            let Some(event) = event else {
                let cut = record.len() < RECORD;
                let problem = match Endian::version(record) {
                    _ if cut => "the trace ends inside a record".into(),
                    Some(version) if version != MAGIC & 0xff => Problem(format!("version {version}").into()),
                    _ => "no magic number".into(),
                };
                let endian = Endian::of(record);
                self.bad.note(bad_record(&self.name, byte, record, problem, EXPECTED))?;
                self.input.skip(1)?;
                // Records have no fixed distance: go on at the next magic number.
                self.input.skip_to(&endian.unwrap_or(Endian::Little).magic())?;
                continue;
            };
            let before = out.len();
            let wanted = event.kind().is_some_and(|kind| self.choice.takes(kind));
            if wanted && let Err(problem) = event.push(&mut Sink::new(out)) {
                out.truncate(before);
                self.bad.note(bad_record(&self.name, byte, record, problem, EXPECTED))?;
            }
            if !self.input.skip(RECORD + usize::from(event.pdu))? {
                let problem = "the trace ends inside the data after a record";
                self.bad.note(bad_record(&self.name, byte, &[], problem.into(), EXPECTED))?;
            }
        }
        Ok(())
    }

    fn skipped(&self, into: &mut Skipped) {
        self.bad.add_to(into);
    }
}

/// The files of all CPUs, in the order of the CPUs, if `path` is one of them or their common name; otherwise `None`.
pub(crate) fn siblings(path: &Path) -> Option<Vec<PathBuf>> {
    let file = path.file_name()?.to_str()?;
    let stem = match file.rsplit_once(".blktrace.") {
        Some((stem, cpu)) if cpu.bytes().all(|byte| byte.is_ascii_digit()) => stem,
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
            let cpu = name.to_str()?.strip_prefix(&prefix)?.parse().ok()?;
            // A CPU without requests leaves an empty file.
            (entry.metadata().ok()?.len() > 0).then(|| (cpu, path.with_file_name(&name)))
        })
        .collect();
    found.sort();
    (!found.is_empty()).then(|| found.into_iter().map(|(_, path)| path).collect())
}
