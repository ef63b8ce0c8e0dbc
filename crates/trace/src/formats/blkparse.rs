//! blkparse's default text: `8,0 3 11 0.009507758 697 Q W 223490 + 8 [kjournald]`, times in seconds, sectors of 512
//! bytes (blkparse(1), default format). Queue events (`Q`) are read. If the start of the trace has none, issues (`D`),
//! inserts (`I`) or completions (`C`) are read; [`OpenOptions::event`](crate::OpenOptions) overrides this. Remaps
//! (`A`), merges, plugs, messages and the summary at the end are ignored. The volume is the [device
//! number](crate::device_number).
//!
//! Formats of `blkparse -f` with the same fields are read too: without the process, with commas, and with a size that no
//! `+` announces. Such a size is in bytes (`%N`) or sectors (`%n`), as the first ones show; where they could be both,
//! [`Units`](crate::Units) must say.

use std::borrow::Cow;

use super::{
    Head, Input, Opened, ReadOptions,
    block_event::{BlockEvent, Choice, Rwbs, device},
    likeness, lines,
};
use crate::{
    columns::SECTOR,
    decode::{LineFormat, Sink},
    field::{Fields, nanos, whole, words},
    problem::{Decoded, Or, Problem},
};

/// No request has more sectors: 1,280 KiB is the kernel's usual limit.
const MOST_SECTORS: u64 = 2_560;

pub(crate) struct Blkparse {
    choice: Choice,
    summary: bool,
    /// The unit of a size without `+`, in bytes, if it is known.
    unit: Option<u64>,
}

/// The beginning of a line, up to the action, and the words after it.
struct Event<'a, W> {
    volume: u32,
    at: u64,
    action: &'a [u8],
    rest: W,
}

impl Blkparse {
    pub(crate) fn new(options: Option<&ReadOptions>, head: Head<'_>) -> Blkparse {
        let actions = head.lines().filter_map(|line| match line.contains(&b' ') {
            true => event(words(line)).ok().map(|event| event.action),
            false => event(csv(line)?).ok().map(|event| event.action),
        });
        let choice = Choice::new(options.and_then(|options| options.event), actions.filter_map(kind));
        let given = options.and_then(|options| options.units.size).map(|unit| unit.0);
        Blkparse { choice, summary: false, unit: given.or_else(|| unit_of(head)) }
    }
}

/// The unit of sizes without `+` in the head, in bytes: sectors if some are no multiple of 512, bytes if they would be larger
/// than requests are.
fn unit_of(head: Head<'_>) -> Option<u64> {
    let size = |line| {
        let mut rest = event(words(line)).ok()?.rest.skip(2);
        rest.next().and_then(whole).filter(|size| *size > 0)
    };
    let sizes: Vec<u64> = match head.first_line().contains(&b' ') {
        true => head.lines().filter_map(size).collect(),
        false => {
            let size = |line| event(csv(line)?).ok()?.rest.nth(2).and_then(whole).filter(|size| *size > 0);
            head.lines().filter_map(size).collect()
        }
    };
    match sizes.iter().all(|size| size % SECTOR.0 == 0) {
        false => Some(SECTOR.0),
        true if sizes.iter().any(|size| *size > MOST_SECTORS) => Some(1),
        true => None,
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    let mut blkparse = Blkparse::new(None, head);
    // What cannot be told is asked when it is read.
    blkparse.unit = blkparse.unit.or(Some(1));
    likeness(head, &mut blkparse)
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let blkparse = Blkparse::new(Some(options), Head::of(&mut input)?);
    lines(input, blkparse, options)
}

fn kind(action: &[u8]) -> Option<BlockEvent> {
    match action {
        b"Q" => Some(BlockEvent::Queue),
        b"D" => Some(BlockEvent::Issue),
        b"I" => Some(BlockEvent::Insert),
        b"C" => Some(BlockEvent::Complete),
        _ => None,
    }
}

/// The fields of a line with commas, of which the first separates the numbers of the device.
fn csv(line: &[u8]) -> Option<impl Iterator<Item = &[u8]> + Clone> {
    let after = memchr::memchr(b',', line)? + 1;
    let end = after + memchr::memchr(b',', &line[after..])?;
    Some(std::iter::once(&line[..end]).chain(Fields::new(&line[end + 1..], b',')))
}

#[inline]
fn event<'a, W: Iterator<Item = &'a [u8]>>(mut rest: W) -> Result<Event<'a, W>, Problem> {
    let volume = rest.next().and_then(device).or_problem("the device is not major,minor")?;
    rest.next().and_then(whole).or_problem("the CPU is not a whole number")?;
    rest.next().and_then(whole).or_problem("the sequence is not a whole number")?;
    let at = rest.next().and_then(|word| nanos(word, 1_000_000_000)).or_problem("the time is not in seconds")?;
    let word = rest.next().or_problem("no action")?;
    // The process may be left out.
    let action = if whole(word).is_some() { rest.next().or_problem("no action")? } else { word };
    match action.first().is_some_and(u8::is_ascii_alphabetic) {
        true => Ok(Event { volume, at, action, rest }),
        false => Err("the process id is not a whole number".into()),
    }
}

impl LineFormat for Blkparse {
    fn expected(&self) -> Cow<'static, str> {
        "major,minor cpu sequence seconds pid action RWBS sector + sectors [process] (blkparse)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let mut first = words(line);
        let Some(word) = first.next() else {
            return Ok(());
        };
        if !word.first().is_some_and(u8::is_ascii_digit) {
            // "CPU0 (8,0):" begins the summary; it runs to the end, or to the next device's events.
            self.summary |= word.starts_with(b"CPU") || word == b"Total" || word == b"Throughput";
            return if self.summary { Ok(()) } else { Err("the device is not major,minor".into()) };
        }
        match first.next() {
            Some(_) => self.event(event(words(line))?, sink),
            None => self.event(event(csv(line).or_problem("the device is not major,minor")?)?, sink),
        }
    }
}

impl Blkparse {
    #[inline]
    fn event<'a, W: Iterator<Item = &'a [u8]> + Clone>(&mut self, event: Event<'a, W>, sink: &mut Sink<'_>) -> Decoded {
        let Event { volume, at, action, rest: mut words } = event;
        if !kind(action).is_some_and(|event| self.choice.takes(event)) {
            return Ok(());
        }
        let rwbs = words.next().and_then(Rwbs::parse).or_problem("the RWBS letters are not the kernel's")?;
        let Some(sector) = words.next().filter(|word| !word.starts_with(b"[")) else {
            return rwbs.push(sink, at, volume, 0, 0); // A flush has no sectors: "FN [jbd2]".
        };
        let next = words.next();
        if [Some(sector), next].iter().flatten().any(|word| word.starts_with(b"(")) {
            // A SCSI command from a program: "D R 36 (12 00 00 00 24 00) [smartd]".
            return sink.leave_out("commands of programs to a driver");
        }
        let sector = whole(sector).or_problem("the sector is not a whole number")?;
        match next {
            Some(b"+") => {
                let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
                rwbs.push(sink, at, volume, sector, sectors)
            }
            // A completed flush has no length: "C FWS 0 [0]".
            Some(word) if word.starts_with(b"[") && rwbs.transfers() => sink.leave_out("requests without data"),
            Some(word) if !word.starts_with(b"[") => {
                let size = whole(word).or_problem("the size is not a whole number")?;
                let unit =
                    self.unit.or_problem("the size may be bytes or sectors: give --unit size=bytes or size=sectors")?;
                let bytes = size.checked_mul(unit).or_problem("the request ends past 2^63 bytes")?;
                match bytes % SECTOR.0 {
                    0 => rwbs.push(sink, at, volume, sector, bytes / SECTOR.0),
                    _ => {
                        Err("the size is not a multiple of 512 bytes: give --unit size=sectors if it is one of sectors"
                            .into())
                    }
                }
            }
            None if rwbs.transfers() => Err("a request without a size".into()),
            _ => rwbs.push(sink, at, volume, sector, 0),
        }
    }
}
