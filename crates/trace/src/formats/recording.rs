//! Recordings of drives in service (`peryton serve --record`; `docs/twin.md`). Of their chunks, those with requests are read here. A
//! request that was to be durable before its answer is followed by the flush that the drive made of it.

use std::io::{self, Read};

use peryton_recording::{Content, Flags, Scan, chunk::MAGIC};
use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions};
use crate::{
    Account, BATCH, Request, TraceError,
    decode::{BadLines, Decode, Notes, Sink},
};

/// The most bytes that are taken from the input at once.
const PIECE: usize = 16 << 10;

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if head.bytes.starts_with(&MAGIC) { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    if looks_like(head) == 0 {
        return Err(head.unfit(&name, "not a recording", "peryton serve --record writes them"));
    }
    let name = name.to_string();
    let (bad, notes) = (BadLines::new(options.skip_bad), Notes::default());
    Ok(Box::new(Recording { scan: Scan::new(Bytes(input)), name, bad, notes }))
}

/// An input as a stream of bytes.
struct Bytes(Input);

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let failed = |error: TraceError| io::Error::other(error.to_string());
        let bytes = self.0.peek(into.len().min(PIECE)).map_err(failed)?;
        let len = bytes.len();
        into[..len].copy_from_slice(bytes);
        self.0.skip(len).map_err(failed)?;
        Ok(len)
    }
}

struct Recording {
    scan: Scan<Bytes>,
    name: String,
    bad: BadLines,
    notes: Notes,
}

impl Decode for Recording {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let until = out.len() + BATCH;
        while out.len() < until {
            let found = self.scan.next_chunk().map_err(|source| TraceError::Io { path: self.name.clone(), source })?;
            let Some(found) = found else { return Ok(()) };
            let Content::Requests(rows) = found.content() else { continue };
            for row in rows {
                let mut sink = Sink::new(out, &mut self.notes);
                let mut pushed = sink.push(row.at.0, 0, row.op, row.offset.0, row.len.0);
                if pushed.is_ok() {
                    sink.took(row.latency.0);
                    if row.flags.has(Flags::DURABLE) {
                        pushed = sink.push(row.at.0, 0, Op::Flush, 0, 0);
                        sink.took(row.latency.0);
                    }
                }
                let Err(problem) = pushed else { continue };
                self.bad.note(TraceError::Line {
                    path: self.name.clone(),
                    line: found.number,
                    content: format!("{row:?}"),
                    problem: problem.0.into_owned(),
                    expected: "requests that a volume can serve".into(),
                })?;
            }
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.bad.add_to(account);
        self.notes.add_to(account);
    }

    fn latencies(&mut self) -> Option<Vec<u64>> {
        Some(self.notes.latencies.replace(Vec::new()).unwrap_or_default())
    }
}
