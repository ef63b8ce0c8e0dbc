//! The common part of all readers: the loop over lines or records, the check of each request, and the count of bad
//! lines.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    Account, BATCH, Request, Skipped, TraceError,
    error::{shown, shown_hex},
    input::Input,
    problem::{Decoded, Problem},
};

/// The largest read or write, in bytes: no block layer transfers more in one request, so a larger size comes from a
/// wrong column.
pub const MAX_TRANSFER: Bytes = Bytes(4 << 30);
/// The end of offsets, in bytes, as in every operating system.
const MAX_OFFSET: u64 = i64::MAX as u64;
/// The time between two requests of a trace without times.
pub(crate) const STEP: Nanos = Nanos(1_000);
/// The most bad lines whose messages are kept.
pub(crate) const SHOWN_SKIPPED: usize = 5;

/// What readers say besides requests.
#[derive(Default)]
pub(crate) struct Notes {
    /// Good lines or records that are no requests of the workload, by reason.
    left_out: BTreeMap<&'static str, u64>,
    /// Number of requests without a time.
    untimed: u64,
    /// How long each request took on the device that was traced, in nanoseconds; `None` if the caller does not ask for it.
    pub(crate) latencies: Option<Vec<u64>>,
}

/// Receives the requests of a reader and refuses those that no volume could serve.
pub(crate) struct Sink<'a> {
    out: &'a mut Vec<Request>,
    notes: &'a mut Notes,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(out: &'a mut Vec<Request>, notes: &'a mut Notes) -> Sink<'a> {
        Sink { out, notes }
    }

    /// Adds a request; `at` is a time on the trace's own clock, in nanoseconds.
    #[inline]
    pub(crate) fn push(&mut self, at: u64, volume: u32, op: Op, offset: u64, len: u64) -> Decoded {
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        if offset.checked_add(len).is_none_or(|end| end > MAX_OFFSET) {
            return Err("the request ends past 2^63 bytes".into());
        }
        if len > MAX_TRANSFER.0 && op != Op::Discard {
            return Err("a transfer of more than 4 GiB".into());
        }
        self.out.push(Request { at: Nanos(at), offset: Bytes(offset), len: Bytes(len), volume, op });
        Ok(())
    }

    /// Adds a request whose offset and length are in sectors of 512 bytes.
    #[inline]
    pub(crate) fn push_sectors(&mut self, at: u64, volume: u32, op: Op, sector: u64, sectors: u64) -> Decoded {
        let bytes = |n: u64| n.checked_mul(512);
        match (bytes(sector), bytes(sectors)) {
            (Some(offset), Some(len)) => self.push(at, volume, op, offset, len),
            _ => Err("the request ends past 2^63 bytes".into()),
        }
    }

    /// Adds a request for an object of a trace of objects: its id takes the place of the offset.
    #[inline]
    pub(crate) fn push_object(&mut self, at: u64, volume: u32, op: Op, id: u64, size: u64) -> Decoded {
        if size > MAX_OFFSET {
            return Err("the size of the object is out of range".into());
        }
        self.out.push(Request { at: Nanos(at), offset: Bytes(id), len: Bytes(size), volume, op });
        Ok(())
    }

    /// The time of a request in a trace without times: each comes [`STEP`] after the one before it.
    #[inline]
    pub(crate) fn time_of(&mut self, number: u64) -> Option<u64> {
        self.notes.untimed += 1;
        number.checked_mul(STEP.0)
    }

    /// Says how long the request that was added last took.
    #[inline]
    pub(crate) fn took(&mut self, latency: u64) {
        if let Some(latencies) = &mut self.notes.latencies {
            latencies.push(latency);
        }
    }

    /// Takes back the requests from the given one on.
    fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
        if let Some(latencies) = &mut self.notes.latencies {
            latencies.truncate(len);
        }
    }

    /// Whether anybody asks how long requests took.
    pub(crate) fn is_timed(&self) -> bool {
        self.notes.latencies.is_some()
    }

    /// Counts a good line or record that is no request of the workload; `reason` is what there were so many of.
    #[cold]
    pub(crate) fn leave_out(&mut self, reason: &'static str) -> Decoded {
        *self.notes.left_out.entry(reason).or_default() += 1;
        Ok(())
    }
}

/// A text format: at most one request in a line.
pub(crate) trait LineFormat: Send {
    /// The shape of a line, for the message about a bad one.
    fn expected(&self) -> Cow<'static, str>;
    /// Reads one line, without its end. The format may keep state; a bad line must leave it usable.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded;
    /// Whether it is a trace of objects.
    fn is_of_objects(&self) -> bool {
        false
    }
}

/// A binary format of records of one size.
pub(crate) trait RecordFormat: Send {
    /// The shape of a record, for the message about a bad one.
    const EXPECTED: &'static str;
    /// The size in bytes.
    fn size(&self) -> usize;
    /// Reads one record of that size.
    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Decoded;
    /// Whether it is a trace of objects.
    const IS_OF_OBJECTS: bool = false;
}

/// A reader of requests on the trace's own clock.
pub(crate) trait Decode: Send {
    /// Appends about a [`BATCH`] of requests; none at the end. Before an error, the good requests before it are
    /// appended.
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError>;
    /// Adds what was skipped and left out to `account`.
    fn add_to(&self, account: &mut Account);
    /// Whether it is a trace of objects: the offset of each request is the id of an object, the length its size.
    fn is_of_objects(&self) -> bool {
        false
    }
    /// The latencies of requests, which are kept from the first call on: those of the requests since the call before.
    /// `None` if this reader does not know them.
    fn latencies(&mut self) -> Option<Vec<u64>> {
        None
    }
}

/// Stops at the first bad line, or counts it.
pub(crate) struct BadLines {
    skip: bool,
    skipped: Skipped,
}

impl BadLines {
    pub(crate) fn new(skip: bool) -> BadLines {
        BadLines { skip, skipped: Skipped::default() }
    }

    #[cold]
    pub(crate) fn note(&mut self, error: TraceError) -> Result<(), TraceError> {
        if !self.skip {
            return Err(error);
        }
        self.skipped.count += 1;
        if self.skipped.first.len() < SHOWN_SKIPPED {
            self.skipped.first.push(error.to_string());
        }
        Ok(())
    }

    pub(crate) fn add_to(&self, account: &mut Account) {
        let into = &mut account.skipped;
        into.count += self.skipped.count;
        let room = SHOWN_SKIPPED.saturating_sub(into.first.len());
        into.first.extend(self.skipped.first.iter().take(room).cloned());
    }
}

impl Notes {
    pub(crate) fn add_to(&self, account: &mut Account) {
        self.left_out.iter().for_each(|(reason, count)| *account.left_out.entry(reason).or_default() += count);
        account.untimed += self.untimed;
    }
}

/// A text trace.
pub(crate) struct Lines<F> {
    name: Arc<str>,
    input: Input,
    format: F,
    bad: BadLines,
    notes: Notes,
}

impl<F: LineFormat> Lines<F> {
    pub(crate) fn new(input: Input, format: F, skip_bad: bool) -> Lines<F> {
        Lines { name: input.name().clone(), input, format, bad: BadLines::new(skip_bad), notes: Notes::default() }
    }
}

impl<F: LineFormat> Decode for Lines<F> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let enough = out.len() + BATCH;
        let mut sink = Sink::new(out, &mut self.notes);
        while sink.out.len() < enough {
            let (number, line) = match self.input.next_line() {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(()),
                Err(error @ TraceError::LongLine { .. }) => {
                    self.bad.note(error)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let before = sink.out.len();
            if let Err(problem) = self.format.line(line, &mut sink) {
                // A line counts as a whole or not at all.
                sink.truncate(before);
                let error = TraceError::Line {
                    path: self.name.to_string(),
                    line: number,
                    content: shown(line),
                    problem: problem.0.into_owned(),
                    expected: self.format.expected(),
                };
                self.bad.note(error)?;
            }
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.bad.add_to(account);
        self.notes.add_to(account);
    }

    fn is_of_objects(&self) -> bool {
        self.format.is_of_objects()
    }

    fn latencies(&mut self) -> Option<Vec<u64>> {
        Some(self.notes.latencies.replace(Vec::new()).unwrap_or_default())
    }
}

/// A binary trace of records of one size.
pub(crate) struct Records<F> {
    name: Arc<str>,
    input: Input,
    format: F,
    bad: BadLines,
    notes: Notes,
}

impl<F: RecordFormat> Records<F> {
    pub(crate) fn new(input: Input, format: F, skip_bad: bool) -> Records<F> {
        Records { name: input.name().clone(), input, format, bad: BadLines::new(skip_bad), notes: Notes::default() }
    }
}

impl<F: RecordFormat> Decode for Records<F> {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let enough = out.len() + BATCH;
        let Records { name, input, format, bad, notes } = self;
        let size = format.size();
        let mut sink = Sink::new(out, notes);
        while sink.out.len() < enough {
            let byte = input.position();
            let records = input.peek_records(size)?;
            if records.is_empty() {
                return Ok(());
            }
            let taken = records.len().min((enough - sink.out.len()) * size);
            for (index, record) in records[..taken].chunks(size).enumerate() {
                let decoded = if record.len() == size {
                    format.record(record, &mut sink)
                } else {
                    Err("the trace ends inside a record".into())
                };
                if let Err(problem) = decoded {
                    bad.note(bad_record(name, byte + (index * size) as u64, record, problem, F::EXPECTED))?;
                }
            }
            input.skip(taken)?;
        }
        Ok(())
    }

    fn add_to(&self, account: &mut Account) {
        self.bad.add_to(account);
        self.notes.add_to(account);
    }

    fn is_of_objects(&self) -> bool {
        F::IS_OF_OBJECTS
    }
}

#[cold]
pub(crate) fn bad_record(name: &str, byte: u64, record: &[u8], problem: Problem, expected: &'static str) -> TraceError {
    let (path, problem) = (name.to_owned(), problem.0.into_owned());
    TraceError::Record { path, byte, content: shown_hex(record), problem, expected }
}
