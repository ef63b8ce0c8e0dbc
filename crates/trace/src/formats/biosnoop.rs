//! biosnoop of bcc and libbpf-tools: `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`, times in seconds or of the
//! clock (`-t`), printed when a request ends, sectors of 512 bytes. Lines are read from their end, because the name of a
//! process may have blanks and the disk may be missing. A request arrives its latency before its line; `QUE` is added to it
//! where it is. The volume is the disk.

use std::borrow::Cow;

use super::{Head, Input, Opened, ReadOptions, block_event::rwbs_op, likeness, lines};
use crate::{
    decode::{LineFormat, Sink},
    field::{clock, nanos, whole, words},
    problem::{Decoded, Or},
    volume_names::Numbering,
};

/// The name of a disk that the tool does not know.
const UNKNOWN: &[u8] = b"?";

pub(crate) struct Biosnoop {
    disks: Numbering,
    /// Whether there is a column with the time in the queue, which is part of a request's.
    queue: bool,
    begun: bool,
}

impl Biosnoop {
    fn new(head: Head<'_>, options: &ReadOptions) -> Biosnoop {
        let queue = head.lines().any(|line| line.starts_with(b"TIME") && words(line).any(|word| word == b"QUE(ms)"));
        Biosnoop { disks: Numbering::new(&options.names), queue, begun: false }
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    let has = |line: &[u8], name: &[u8]| words(line).any(|word| word == name);
    let header = head.lines().find(|line| line.starts_with(b"TIME"));
    if !header.is_some_and(|line| has(line, b"COMM") && has(line, b"DISK") && has(line, b"LAT(ms)")) {
        return 0;
    }
    // A tool that prints no places is recognised as well, so that the message can say so.
    likeness(head, &mut Biosnoop::new(head, &ReadOptions::default())).max(60)
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let header = head.lines().find(|line| line.starts_with(b"TIME"));
    if header.is_some_and(|line| !words(line).any(|word| word == b"SECTOR")) {
        let remedy = "record with biosnoop of bcc or libbpf-tools, which print SECTOR and BYTES";
        return Err(head.unfit(&name, "biosnoop of bpftrace, which prints neither places nor sizes", remedy));
    }
    let biosnoop = Biosnoop::new(head, options);
    lines(input, biosnoop, options)
}

impl LineFormat for Biosnoop {
    fn expected(&self) -> Cow<'static, str> {
        "seconds process pid disk R|W sector bytes [queue_ms] latency_ms (biosnoop)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let Some(first) = words(line).next() else { return Ok(()) };
        if !first[0].is_ascii_digit() {
            return if self.begun { Err("the time is not a number".into()) } else { Ok(()) };
        }
        let end = nanos(first, 1_000_000_000).or_else(|| clock(first)).or_problem("the time is not in seconds")?;
        let mut back = words(line).rev();
        let mut ms = |problem| back.next().and_then(|word| nanos(word, 1_000_000)).or_problem(problem);
        let mut latency = ms("the latency is not a number of milliseconds")?;
        if self.queue {
            latency += ms("the time in the queue is not a number of milliseconds")?;
        }
        let bytes = back.next().and_then(whole).or_problem("the size is not a whole number")?;
        let sector = back.next().and_then(whole).or_problem("the sector is not a whole number")?;
        let op = back.next().and_then(rwbs_op).or_problem("the kind is not the kernel's letters")?;
        let disk = back.next().filter(|word| whole(word).is_none()).unwrap_or(UNKNOWN);
        self.begun = true;
        let Some(op) = op else { return sink.leave_out("requests without data") };
        let offset = sector.checked_mul(512).or_problem("the request ends past 2^63 bytes")?;
        let disk = self.disks.number(disk)?;
        sink.push(end.saturating_sub(latency), disk, op, offset, bytes)?;
        sink.took(latency);
        Ok(())
    }
}
