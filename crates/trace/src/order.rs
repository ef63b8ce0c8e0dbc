//! The order of requests in time: one stage for every source.
//!
//! Real traces have small inversions: a line is written when a request completes, or each CPU writes its own buffer.
//! Requests are sorted by arrival within a window of [`REORDER_WINDOW`]; equal times keep the order of the file. A trace
//! whose first requests are in no such order, and one that is to be sorted, are read to their end first, sorted in runs of
//! [`SORT_RUN`] in a temporary file, and merged. A request that comes later than the window reaches is an error that names
//! it. So time never goes back in the output, and no request gets a time that is not its own.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
};

use peryton_units::{Bytes, Nanos, Op};

use crate::{Account, BATCH, Request, TraceError, decode::Decode, join::Merge};

/// The number of requests that are held back for sorting: more than blktrace's default buffers of one CPU hold (512
/// KiB, about 11,000 events), in under 3 MB of memory.
pub const REORDER_WINDOW: usize = 32_768;
/// The most empty lists that are kept.
const MOST_SPARE: usize = 2 * REORDER_WINDOW / BATCH;
/// The number of requests that are sorted in memory at a time when a whole trace is sorted: 32 MiB.
pub const SORT_RUN: usize = 1 << 20;
/// The most runs that are merged, each with a file and a buffer of its own: a trace of 500 million requests, and 16 GiB of
/// temporary files.
pub const MAX_RUNS: usize = 1 << 9;

/// How a source is put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sorting {
    /// It promises to be in order, and is held to it.
    Promised,
    /// Within the window.
    Window,
    /// As a whole, before the first request.
    Whole,
}

pub(crate) struct Order {
    sorting: Sorting,
    /// Requests that were read and not returned, in lists of at most a [`BATCH`], which are handed out whole.
    pending: VecDeque<Vec<Request>>,
    /// Number of pending requests.
    held: usize,
    /// So many lists in front are in their final order.
    ready: usize,
    /// Empty lists.
    spare: Vec<Vec<Request>>,
    /// The sorted runs of a trace that is sorted as a whole.
    merged: Option<Merge>,
    begun: bool,
    /// Whether a pending request stands after a later one.
    is_disordered: bool,
    base: Option<u64>,
    /// The latest arrival that was returned, and the latest that was read.
    returned: u64,
    latest: u64,
    /// Number of requests that were read, and of those that stood after a later one.
    read: u64,
    moved: u64,
    ended: bool,
    /// An error, returned after the good requests before it.
    failed: Option<TraceError>,
}

impl Order {
    pub(crate) fn new(sorting: Sorting) -> Order {
        Order {
            sorting,
            pending: VecDeque::new(),
            held: 0,
            ready: 0,
            spare: Vec::new(),
            merged: None,
            begun: false,
            is_disordered: false,
            base: None,
            returned: 0,
            latest: 0,
            read: 0,
            moved: 0,
            ended: false,
            failed: None,
        }
    }

    /// Says how many requests were moved, and when the trace begins.
    pub(crate) fn add_to(&self, account: &mut Account) {
        account.read += self.read;
        account.moved += self.moved;
        account.start = self.start();
    }

    /// The arrival of the first request on the trace's own clock.
    pub(crate) fn start(&self) -> Nanos {
        Nanos(self.base.unwrap_or(0))
    }

    /// Clears `batch` and puts the next requests into it, with arrivals counted from the first. `fill` appends requests
    /// in the order of the file and returns whether there may be more; `name` is the trace's in messages.
    pub(crate) fn next_batch(
        &mut self,
        name: &str,
        batch: &mut Vec<Request>,
        mut fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        batch.clear();
        if self.sorting == Sorting::Promised {
            // A selection of volumes may leave nothing of a part that is not the last.
            while batch.is_empty() && !self.ended {
                match fill(batch) {
                    Ok(more) => self.ended = !more,
                    Err(error) => (self.ended, self.failed) = (true, Some(error)),
                }
            }
            self.check(name, batch, 0);
        } else {
            self.next_sorted(name, batch, fill)?;
        }
        let Some(first) = batch.first() else {
            return self.failed.take().map_or(Ok(()), Err);
        };
        let base = *self.base.get_or_insert(first.at.0);
        self.returned = batch.last().expect("there is a first").at.0;
        if base > 0 {
            batch.iter_mut().for_each(|request| request.at.0 -= base);
        }
        Ok(())
    }

    fn next_sorted(
        &mut self,
        name: &str,
        batch: &mut Vec<Request>,
        fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        if self.ready == 0 && self.merged.is_none() {
            self.refill(name, fill)?;
        }
        if let Some(merged) = &mut self.merged {
            return merged.fill(batch);
        }
        if let Some(ready) = self.ready.checked_sub(1)
            && let Some(first) = self.pending.pop_front()
        {
            (self.ready, self.held) = (ready, self.held - first.len());
            let spare = std::mem::replace(batch, first);
            if self.spare.len() < MOST_SPARE {
                self.spare.push(spare);
            }
        }
        Ok(())
    }

    fn refill(
        &mut self,
        name: &str,
        mut fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        self.read_until(name, 2 * REORDER_WINDOW, &mut fill);
        let first = !std::mem::replace(&mut self.begun, true);
        if first && !self.ended && (self.sorting == Sorting::Whole || self.is_in_no_order()) {
            self.sort_whole(name, fill)?;
        } else if std::mem::take(&mut self.is_disordered) {
            let mut all = self.take_pending();
            all.sort_by_key(|request| request.at);
            self.hold(all);
        }
        self.ready = if self.ended { self.pending.len() } else { self.lists_of(self.held - REORDER_WINDOW) };
        Ok(())
    }

    /// Adds requests behind those that are pending.
    fn hold(&mut self, requests: Vec<Request>) {
        self.held += requests.len();
        match requests.len() {
            0 => self.spare.push(requests),
            1..=BATCH => self.pending.push_back(requests),
            _ => self.pending.extend(requests.chunks(BATCH).map(<[Request]>::to_vec)),
        }
    }

    fn take_pending(&mut self) -> Vec<Request> {
        self.held = 0;
        self.pending.drain(..).flatten().collect()
    }

    /// The number of lists in front that have so many requests.
    fn lists_of(&mut self, requests: usize) -> usize {
        let (mut lists, mut left) = (0, requests);
        while left > 0 {
            let list = &mut self.pending[lists];
            if list.len() > left {
                let rest = list.split_off(left);
                self.pending.insert(lists + 1, rest);
            }
            left -= self.pending[lists].len();
            lists += 1;
        }
        lists
    }

    /// Reads until so many requests are pending, or there are no more.
    fn read_until(
        &mut self,
        name: &str,
        most: usize,
        fill: &mut impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) {
        while !self.ended && self.held < most {
            let goes_on = self.pending.back().is_some_and(|list| list.len() < BATCH);
            let list = if goes_on { self.pending.pop_back() } else { self.spare.pop() };
            let mut list = list.unwrap_or_default();
            let from = list.len();
            self.held -= from;
            match fill(&mut list) {
                Ok(more) => self.ended = !more,
                Err(error) => {
                    self.ended = true;
                    self.failed = Some(error);
                }
            }
            self.check(name, &mut list, from);
            self.hold(list);
        }
    }

    /// Counts the requests from `from` on that stand after a later one, and ends the trace before one that comes too late.
    fn check(&mut self, name: &str, requests: &mut Vec<Request>, from: usize) {
        let new = &requests[from..];
        let sorted =
            new.is_sorted_by_key(|request| request.at) && new.first().is_none_or(|first| first.at.0 >= self.latest);
        if sorted {
            self.latest = new.last().map_or(self.latest, |last| last.at.0);
            self.read += new.len() as u64;
            return;
        }
        let floor = if self.sorting == Sorting::Promised { u64::MAX } else { self.returned };
        for index in from..requests.len() {
            let at = requests[index].at.0;
            self.read += 1;
            if at < self.latest {
                self.moved += 1;
                self.is_disordered = true;
                if at < floor {
                    self.ended = true;
                    let by = Nanos(self.latest - at);
                    self.failed = Some(TraceError::Late { path: name.to_owned(), request: self.read, by });
                    requests.truncate(index);
                    return;
                }
            }
            self.latest = self.latest.max(at);
        }
    }

    /// Whether requests stand further from their place than half of the window, so that more of it would not do.
    fn is_in_no_order(&self) -> bool {
        if self.sorting == Sorting::Promised || self.moved == 0 {
            return false;
        }
        let times: Vec<Nanos> = self.pending.iter().flatten().map(|request| request.at).collect();
        let mut places: Vec<usize> = (0..times.len()).collect();
        places.sort_by_key(|&place| times[place]);
        places.iter().enumerate().any(|(to, from)| to.abs_diff(*from) > REORDER_WINDOW / 2)
    }

    /// Reads the trace to its end. If it is longer than a run, its sorted runs are merged from a temporary file.
    fn sort_whole(
        &mut self,
        name: &str,
        mut fill: impl FnMut(&mut Vec<Request>) -> Result<bool, TraceError>,
    ) -> Result<(), TraceError> {
        self.sorting = Sorting::Whole;
        let mut runs: Vec<Box<dyn Decode>> = Vec::new();
        loop {
            self.read_until(name, SORT_RUN, &mut fill);
            let mut run = self.take_pending();
            run.sort_by_key(|request| request.at);
            if runs.is_empty() && self.ended {
                self.hold(run);
                return Ok(());
            }
            if runs.len() == MAX_RUNS {
                let path = name.to_owned();
                let problem = format!("more than {} requests cannot be sorted", MAX_RUNS * SORT_RUN);
                return Err(TraceError::Options { path, problem, remedy: "sort it by time before".to_owned() });
            }
            runs.push(Box::new(Run::write(&run)?));
            if self.ended {
                self.merged = Some(Merge::new(runs));
                return Ok(());
            }
        }
    }
}

/// The bytes of a request in a temporary file.
pub(crate) const ROW: usize = 32;

pub(crate) fn row(request: &Request) -> [u8; ROW] {
    let Request { at, offset, len, volume, op } = request;
    let mut row = [0; ROW];
    row[..8].copy_from_slice(&at.0.to_le_bytes());
    row[8..16].copy_from_slice(&offset.0.to_le_bytes());
    row[16..24].copy_from_slice(&len.0.to_le_bytes());
    row[24..28].copy_from_slice(&volume.to_le_bytes());
    row[28] = *op as u8;
    row
}

fn from_row(row: &[u8]) -> Request {
    let word = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
    let volume = u32::from_le_bytes(row[24..28].try_into().expect("4 bytes"));
    let op = Op::from_code(row[28]).expect("it was written as the code of an operation");
    Request { at: Nanos(word(0)), offset: Bytes(word(8)), len: Bytes(word(16)), volume, op }
}

/// Reads so many requests from a temporary file.
pub(crate) fn from_rows(file: &mut impl Read, count: usize, each: &mut impl FnMut(Request)) -> Result<(), TraceError> {
    let mut rows = vec![0; ROW * count];
    file.read_exact(&mut rows).map_err(on_file)?;
    rows.chunks_exact(ROW).map(from_row).for_each(each);
    Ok(())
}

/// Sorted requests in a temporary file.
struct Run(BufReader<File>);

pub(crate) fn on_file(source: io::Error) -> TraceError {
    TraceError::Io { path: format!("a temporary file in {} for sorting", std::env::temp_dir().display()), source }
}

impl Run {
    fn write(requests: &[Request]) -> Result<Run, TraceError> {
        let write = || {
            let mut out = BufWriter::new(tempfile::tempfile()?);
            for request in requests {
                out.write_all(&row(request))?;
            }
            let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            Ok(Run(BufReader::new(file)))
        };
        write().map_err(on_file)
    }
}

impl Decode for Run {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let mut rows = [0; ROW * 256];
        let mut filled = 0;
        while filled < rows.len() {
            match self.0.read(&mut rows[filled..]).map_err(on_file)? {
                0 => break,
                count => filled += count,
            }
        }
        out.extend(rows[..filled].chunks_exact(ROW).map(from_row));
        Ok(())
    }

    fn add_to(&self, _: &mut Account) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(times: &[u64], sorting: Sorting) -> Result<(Vec<Request>, u64), String> {
        let mut order = Order::new(sorting);
        let mut chunks = times.chunks(1000);
        let (mut all, mut batch, mut serial) = (Vec::new(), Vec::new(), 0);
        loop {
            let next = order.next_batch("t", &mut batch, |out| {
                let Some(chunk) = chunks.next() else { return Ok(false) };
                out.extend(chunk.iter().map(|&at| {
                    serial += 1;
                    Request { at: Nanos(at), offset: Bytes(serial - 1), len: Bytes(1), volume: 0, op: Op::Read }
                }));
                Ok(true)
            });
            next.map_err(|error| error.to_string())?;
            assert!(batch.len() <= BATCH);
            if batch.is_empty() {
                return Ok((all, order.moved));
            }
            all.append(&mut batch);
        }
    }

    fn assert_sorted(times: &[u64], requests: &[Request]) {
        let mut expected: Vec<(u64, u64)> = times.iter().zip(0..).map(|(&at, serial)| (at, serial)).collect();
        expected.sort();
        let base = expected[0].0;
        let read: Vec<_> = requests.iter().map(|request| (request.at.0 + base, request.offset.0)).collect();
        assert!(read == expected, "the requests are those of the file, in order, at their own times");
    }

    #[test]
    fn inversions_inside_the_window_are_sorted_and_counted() {
        // Times displaced by up to half a window, with ties.
        let times: Vec<u64> = (0..200_000u64).map(|i| 500 + (i ^ 0x3fff) / 2).collect();
        let (requests, moved) = ordered(&times, Sorting::Window).unwrap();
        assert_sorted(&times, &requests);
        let latest = times.iter().scan(0, |latest, &at| Some(at < std::mem::replace(latest, (*latest).max(at))));
        assert_eq!(moved, latest.filter(|moved| *moved).count() as u64);
    }

    /// The fear: 300,000 rows in reverse have a span of 6.55 s instead of 30, and nothing says so.
    #[test]
    fn a_trace_in_reverse_is_sorted_as_a_whole() {
        let times: Vec<u64> = (0..300_000u64).rev().map(|i| i * 100_000).collect();
        let (requests, moved) = ordered(&times, Sorting::Window).unwrap();
        assert_sorted(&times, &requests);
        assert_eq!((moved, requests.last().unwrap().at), (299_999, Nanos(299_999 * 100_000)));
    }

    /// The fear: two days one after the other in the wrong order lose the second one's times.
    #[test]
    fn a_request_beyond_the_window_is_named_and_can_be_sorted() {
        let mut times: Vec<u64> = (1_000_000..1_000_000 + 3 * SORT_RUN as u64).collect();
        times.extend(1..=5);
        let message = ordered(&times, Sorting::Window).unwrap_err();
        let expected = format!("t: request {} arrives ", 3 * SORT_RUN + 1);
        assert!(message.starts_with(&expected) && message.contains("--sort"), "{message}");
        let (requests, moved) = ordered(&times, Sorting::Whole).unwrap();
        assert_sorted(&times, &requests);
        assert_eq!(moved, 5);
    }

    #[test]
    fn a_promise_of_order_is_held_to() {
        let times: Vec<u64> = (10..100_000).collect();
        let (requests, moved) = ordered(&times, Sorting::Promised).unwrap();
        assert_sorted(&times, &requests);
        assert_eq!(moved, 0);
        let message = ordered(&[7, 8, 6], Sorting::Promised).unwrap_err();
        assert!(message.starts_with("t: request 3 arrives "), "{message}");
    }

    #[test]
    fn what_comes_before_an_error_is_yielded() {
        let mut order = Order::new(Sorting::Window);
        let mut calls = 0;
        let mut batch = Vec::new();
        let mut next = |batch: &mut Vec<Request>| {
            order.next_batch("t", batch, |out| {
                calls += 1;
                if calls > 1 {
                    return Err(TraceError::Empty { path: "t".into(), expected: "x".into() });
                }
                out.push(Request { at: Nanos(7), offset: Bytes(0), len: Bytes(1), volume: 0, op: Op::Read });
                Ok(true)
            })
        };
        assert!(next(&mut batch).is_ok() && batch.len() == 1);
        assert!(next(&mut batch).is_err());
        assert!(next(&mut batch).is_ok() && batch.is_empty());
    }
}
