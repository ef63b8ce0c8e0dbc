//! Block events as printed by ftrace's `trace` and `trace_pipe`, `trace-cmd report` and `perf script`: `rm-15776 [001]
//! ..... 7079.382691: block_bio_queue: 7,0 RM 20971776 + 8 [rm]`, times in seconds, sectors of 512 bytes.
//!
//! `block_bio_queue` is read. If the start of the trace has none, `block_rq_issue`, `block_rq_insert` or
//! `block_rq_complete` is read, in this order, so that no request is counted twice;
//! [`OpenOptions::event`](crate::OpenOptions) overrides this. Events of other subsystems, headers and call stacks are
//! ignored. The volume is the [device number](crate::device_number).

use std::borrow::Cow;

use memchr::memmem;

use super::{
    Head, Input, Opened, ReadOptions,
    block_event::{BlockEvent, Choice, Rwbs, device},
    likeness, lines,
};
use crate::{
    decode::{LineFormat, Sink},
    field::{nanos, whole, words},
    problem::{Decoded, Or},
};

pub(crate) struct Ftrace {
    choice: Choice,
    /// Whether the first event has been seen; after it, every line must be an event.
    begun: bool,
    finder: memmem::Finder<'static>,
}

const EVENTS: [(&[u8], BlockEvent); 4] = [
    (b"bio_queue", BlockEvent::Queue),
    (b"rq_issue", BlockEvent::Issue),
    (b"rq_insert", BlockEvent::Insert),
    (b"rq_complete", BlockEvent::Complete),
];

impl Ftrace {
    pub(crate) fn new(given: Option<BlockEvent>, head: Head<'_>) -> Ftrace {
        let finder = memmem::Finder::new(b"block_");
        let kinds = head.lines().filter_map(|line| event(&finder, line).map(|event| event.0));
        Ftrace { choice: Choice::new(given, kinds), begun: false, finder }
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, &mut Ftrace::new(None, head))
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let ftrace = Ftrace::new(options.event, Head::of(&mut input)?);
    lines(input, ftrace, options)
}

/// The kind of a block event, its time and its arguments.
#[inline]
fn event<'a>(finder: &memmem::Finder<'_>, line: &'a [u8]) -> Option<(BlockEvent, &'a [u8], &'a [u8])> {
    // A process may have the name of an event, but its name is not followed by a time and a colon.
    for at in finder.find_iter(line) {
        let rest = &line[at + b"block_".len()..];
        let Some(colon) = memchr::memchr(b':', rest) else { continue };
        let Some(&(_, kind)) = EVENTS.iter().find(|(name, _)| *name == &rest[..colon]) else { continue };
        let before = line[..at].strip_suffix(b"block:").unwrap_or(&line[..at]).trim_ascii_end();
        if let Some(time) = timestamp(before) {
            return Some((kind, time, &rest[colon + 1..]));
        }
    }
    None
}

/// The last word before an event, without its colon.
fn timestamp(before: &[u8]) -> Option<&[u8]> {
    let word = before.strip_suffix(b":")?;
    let start = word.iter().rposition(|byte| matches!(byte, b' ' | b'\t')).map_or(0, |blank| blank + 1);
    word[start..].first().is_some_and(u8::is_ascii_digit).then_some(&word[start..])
}

/// Whether tracers print such a line besides block events.
fn is_other(line: &[u8]) -> bool {
    let is_time = |word: &[u8]| {
        word.strip_suffix(b":").is_some_and(|time| time.contains(&b'.') && nanos(time, 1_000_000_000).is_some())
    };
    let line = line.trim_ascii_end();
    match line {
        [] | [b'#', ..] => true,
        // "CPU:1 [LOST 12 EVENTS]", "CPU 3 is empty", "cpus=2".
        _ if line.starts_with(b"CPU") || line.starts_with(b"cpus=") => true,
        // A stack: " => submit_bio" or "\tffffffff8148 submit_bio+0x1 ([kernel.kallsyms])".
        _ if line.trim_ascii_start().starts_with(b"=>") => true,
        [b' ' | b'\t', ..] if words(line).next().is_some_and(|word| word.iter().all(u8::is_ascii_hexdigit)) => true,
        _ => words(line).any(is_time),
    }
}

impl LineFormat for Ftrace {
    fn expected(&self) -> Cow<'static, str> {
        "process-pid [cpu] flags seconds: block_…: major,minor RWBS sector + sectors (ftrace)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let Some((kind, time, rest)) = event(&self.finder, line) else {
            return if !self.begun || is_other(line) { Ok(()) } else { Err("not an event".into()) };
        };
        self.begun = true;
        if !self.choice.takes(kind) {
            return Ok(());
        }
        if !time.contains(&b'.') {
            return Err("the time has no decimals: record with a trace clock in seconds, such as mono".into());
        }
        let at = nanos(time, 1_000_000_000).or_problem("the time is not in seconds")?;
        let mut words = words(rest);
        let volume = words.next().and_then(device).or_problem("the device is not major,minor")?;
        let rwbs = words.next().and_then(Rwbs::parse).or_problem("the RWBS letters are not the kernel's")?;
        // Requests have their bytes and command before the sector, as in "8,0 W 4096 () 1234 + 8 [fio]".
        let mut sector: &[u8] = &[];
        for word in words.by_ref() {
            if word == b"+" {
                let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
                let sector = whole(sector).or_problem("the sector is not a whole number")?;
                return rwbs.push(sink, at, volume, sector, sectors);
            }
            sector = word;
        }
        Err("no sector + sectors".into())
    }
}
