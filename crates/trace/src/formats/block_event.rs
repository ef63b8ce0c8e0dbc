//! The common part of blkparse, blktrace and ftrace: the events of Linux's block layer.

use std::{fmt, str::FromStr};

use peryton_units::Op;

use crate::{decode::Sink, problem::Decoded};

/// The point in the life of a Linux block request at which a trace recorded it. One kind is read and the others are
/// ignored, so that no request is counted twice.
///
/// ```
/// use peryton_trace::{BlockEvent, OpenOptions};
///
/// // Read the requests as they went to the driver, in place of those of the file system.
/// let options = OpenOptions { event: Some("issue".parse()?), ..OpenOptions::default() };
/// assert_eq!(options.event, Some(BlockEvent::Issue));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockEvent {
    /// A file system or program hands a bio to the block layer: the workload itself, before merging (`Q`, `block_bio_queue`).
    Queue,
    /// A merged and sorted request goes to the driver (`D`, `block_rq_issue`).
    Issue,
    /// A request goes to the I/O scheduler (`I`, `block_rq_insert`).
    Insert,
    /// The device has completed the request (`C`, `block_rq_complete`).
    Complete,
}

impl BlockEvent {
    /// The events in the order of preference, if none is chosen.
    pub const ALL: [BlockEvent; 4] = [BlockEvent::Queue, BlockEvent::Issue, BlockEvent::Insert, BlockEvent::Complete];

    /// The name on the command line: `queue`, `issue`, `insert` or `complete`.
    pub const fn name(self) -> &'static str {
        match self {
            BlockEvent::Queue => "queue",
            BlockEvent::Issue => "issue",
            BlockEvent::Insert => "insert",
            BlockEvent::Complete => "complete",
        }
    }
}

impl fmt::Display for BlockEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for BlockEvent {
    type Err = String;
    fn from_str(text: &str) -> Result<BlockEvent, String> {
        let known = || format!("'{text}' is not a block event: use queue, issue, insert or complete");
        BlockEvent::ALL.into_iter().find(|event| event.name() == text).ok_or_else(known)
    }
}

/// The kind of event that a reader keeps: the given one, otherwise the most preferred of those in the head, otherwise
/// the first in the trace.
#[derive(Clone, Copy)]
pub(crate) struct Choice(Option<BlockEvent>);

impl Choice {
    pub(crate) fn new(given: Option<BlockEvent>, in_head: impl Iterator<Item = BlockEvent>) -> Choice {
        // The declared order is the order of preference.
        Choice(given.or_else(|| in_head.min()))
    }

    #[inline]
    pub(crate) fn takes(&mut self, event: BlockEvent) -> bool {
        *self.0.get_or_insert(event) == event
    }
}

/// Parses `8,0` as a device number.
pub(crate) fn device(word: &[u8]) -> Option<u32> {
    let comma = word.iter().position(|&byte| byte == b',')?;
    crate::device_number(crate::field::whole_u32(&word[..comma])?, crate::field::whole_u32(&word[comma + 1..])?)
}

/// The operation of letters that are the kernel's to the last: `Some(None)` if it transfers no data.
pub(crate) fn rwbs_op(letters: &[u8]) -> Option<Option<Op>> {
    let flags = letters.iter().rposition(|letter| !b"FASMP".contains(letter)).map_or(0, |last| last + 1);
    let op = match &letters[..flags] {
        b"" if letters.first() == Some(&b'F') => &b"F"[..],
        b"R" | b"W" | b"D" | b"DE" | b"N" | b"FR" | b"FW" | b"FD" | b"FN" | b"ZA" | b"ZR" | b"ZRA" | b"WZ" => {
            &letters[..flags]
        }
        _ => return None,
    };
    Rwbs::parse(op).map(|letters| letters.op)
}

/// The operation given by the letters of `blk_fill_rwbs` (Linux, `kernel/trace/blktrace.c`).
pub(crate) struct Rwbs {
    /// Whether the cache is to be flushed first: the letter F before the operation.
    preflush: bool,
    op: Option<Op>,
}

impl Rwbs {
    /// `None` for letters that the kernel does not write.
    pub(crate) fn parse(letters: &[u8]) -> Option<Rwbs> {
        if letters.len() > 8 || !letters.iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        let (preflush, rest) = match letters {
            // An F before an operation; the F of a flush stands alone or before flags.
            [b'F', rest @ ..] if matches!(rest, [b'R' | b'W' | b'D' | b'F' | b'N' | b'Z', ..]) => (true, rest),
            all => (false, all),
        };
        let op = match rest {
            [b'R', ..] => Some(Op::Read),
            // WZ is WRITE ZEROES in version 8 of blktrace.
            [b'W', b'Z', ..] => Some(Op::Discard),
            // Zone append is a write, zone reset discards the zone; opening and closing zones transfers nothing.
            [b'W', ..] | [b'Z', b'A', ..] => Some(Op::Write),
            // N stands for operations without a letter; with sectors it is WRITE ZEROES.
            [b'D', ..] | [b'Z', b'R', ..] | [b'N', ..] => Some(Op::Discard),
            [b'F', ..] => Some(Op::Flush),
            [b'Z', ..] => None,
            _ => return None,
        };
        Some(Rwbs { preflush, op })
    }

    /// Whether it moves data from or to the device.
    pub(crate) fn transfers(&self) -> bool {
        matches!(self.op, Some(Op::Read | Op::Write)) && !self.preflush
    }

    /// Pushes the requests: a preflush is a flush of its own before the data, if there is data. FUA is a write.
    pub(crate) fn push(&self, sink: &mut Sink<'_>, at: u64, volume: u32, sector: u64, sectors: u64) -> Decoded {
        if self.preflush || self.op == Some(Op::Flush) {
            sink.push(at, volume, Op::Flush, 0, 0)?;
        }
        match self.op {
            Some(op) if op != Op::Flush && sectors > 0 => sink.push_sectors(at, volume, op, sector, sectors),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Notes;

    fn ops(letters: &str, sectors: u64) -> Option<Vec<(Op, u64)>> {
        let mut out = Vec::new();
        Rwbs::parse(letters.as_bytes())?
            .push(&mut Sink::new(&mut out, &mut Notes::default()), 5, 1, 8, sectors)
            .ok()?;
        Some(out.iter().map(|request| (request.op, request.len.0)).collect())
    }

    #[test]
    fn letters_mean_what_the_kernel_means() {
        let (write, read, flush, discard) = ((Op::Write, 4096), (Op::Read, 4096), (Op::Flush, 0), (Op::Discard, 4096));
        for (letters, sectors, expected) in [
            ("R", 8, vec![read]),
            ("RAM", 8, vec![read]),
            ("WSM", 8, vec![write]),
            ("WFS", 8, vec![write]),
            ("FWFSM", 8, vec![flush, write]),
            ("FWS", 0, vec![flush]),
            ("F", 0, vec![flush]),
            ("FF", 0, vec![flush]),
            ("FN", 0, vec![flush]),
            ("FS", 0, vec![flush]),
            ("D", 8, vec![discard]),
            ("DE", 8, vec![discard]),
            ("N", 0, vec![]),
            ("ZA", 8, vec![write]),
            ("ZO", 8, vec![]),
        ] {
            // A flush without data is FF or FWS in newer kernels and F or FN in older ones; each is one flush.
            assert_eq!(ops(letters, sectors), Some(expected), "{letters}");
        }
        for letters in ["", "X", "r", "W1", "WWWWWWWWW"] {
            assert!(ops(letters, 8).is_none(), "{letters}");
        }
    }

    #[test]
    fn letters_in_a_table_are_the_kernels_to_the_last() {
        for (letters, op) in
            [("R", Op::Read), ("RAM", Op::Read), ("WS", Op::Write), ("WFS", Op::Write), ("WSM", Op::Write)]
        {
            assert_eq!(rwbs_op(letters.as_bytes()), Some(Some(op)), "{letters}");
        }
        assert_eq!((rwbs_op(b"F"), rwbs_op(b"DS")), (Some(Some(Op::Flush)), Some(Some(Op::Discard))));
        for letters in ["", "RENAME", "WARM", "X", "r"] {
            assert_eq!(rwbs_op(letters.as_bytes()), None, "{letters}");
        }
    }

    #[test]
    fn a_device_number_does_not_overflow() {
        assert_eq!(device(b"8,16"), Some(8 << 20 | 16));
        for word in ["8", "8,", ",8", "4096,0", "0,1048576", "99999999999,0"] {
            assert_eq!(device(word.as_bytes()), None, "{word}");
        }
    }
}
