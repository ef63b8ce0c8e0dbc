use peryton_units::{Bytes, Nanos};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::sample::Sample;

/// The unit of footprints and working sets.
pub use peryton_units::PAGE;

/// The number of pages (in chunks of 64) up to which footprints are exact: 1 TiB of them, in 1.2 GiB of memory. Above,
/// half of the chunks are dropped by a hash of their address, as often as necessary, and the rest is scaled up: an
/// estimate from at least half as many pages.
pub const DEFAULT_MAX_PAGES: u64 = 1 << 28;

/// Pages in a chunk. There are few, because a chunk takes the same memory if only one of its pages was accessed.
const CHUNK_PAGES: u64 = 64;

/// Windows of the working-set curve, in seconds; each is a multiple of the one before.
const WINDOWS: [u64; 6] = [1, 10, 60, 600, 3_600, 86_400];

/// The most pages of one request that are counted: 1 GiB, more than any real transfer. It bounds the work for a hostile
/// request.
const MAX_REQUEST_PAGES: u64 = 1 << 18;

/// Distinct pages accessed within consecutive windows of a given length, from the start of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WorkingSet {
    /// Length of the windows, in seconds.
    pub window_s: u64,
    /// Distinct pages in a window on average, including windows without requests.
    pub mean_pages: f64,
    /// Distinct pages in the window with the most of them.
    pub max_pages: u64,
}

/// The state of each accessed page.
pub(crate) struct PageTable {
    chunks: FxHashMap<(u32, u64), u32>,
    states: Vec<[u32; CHUNK_PAGES as usize]>,
    max_chunks: usize,
    /// The sample of chunks.
    sample: Sample,
    windows: [Window; WINDOWS.len()],
    now_s: u64,
    overwrites: u64,
    /// The chunk of the last lookup, because successive requests are often neighbours.
    last: ((u32, u64), Option<u32>),
}

/// Flags in the state of a page: read, written; the rest is the second of the last access plus one (enough for 34
/// years).
const READ: u32 = 1 << 31;
const WRITTEN: u32 = 1 << 30;
const SEEN: u32 = WRITTEN - 1;

#[derive(Clone, Copy, Default)]
struct Window {
    /// First second of the current window.
    start_s: u64,
    pages: u64,
    pages_before: u64,
    max: u64,
}

/// Numbers of distinct pages, by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unique {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) both: u64,
}

impl PageTable {
    pub(crate) fn new(max_pages: u64) -> PageTable {
        let max_chunks = (max_pages / CHUNK_PAGES).clamp(1, u64::from(u32::MAX)) as usize;
        PageTable {
            chunks: FxHashMap::default(),
            states: Vec::new(),
            max_chunks,
            sample: Sample::default(),
            windows: [Window::default(); WINDOWS.len()],
            now_s: 0,
            overwrites: 0,
            last: ((0, u64::MAX), None),
        }
    }

    /// Records a read or write. A time before the last one counts as the last one.
    pub(crate) fn touch(&mut self, at: Nanos, volume: u32, offset: Bytes, len: Bytes, write: bool) {
        self.advance(at.0 / 1_000_000_000);
        if len.0 == 0 {
            return;
        }
        let first = offset.0 / PAGE.0;
        let last = (offset.0.saturating_add(len.0 - 1) / PAGE.0).min(first + MAX_REQUEST_PAGES - 1);
        let mut page = first;
        while page <= last {
            let chunk_end = page | (CHUNK_PAGES - 1);
            let end = last.min(chunk_end);
            if let Some(index) = self.chunk(volume, page / CHUNK_PAGES) {
                self.touch_chunk(index, page % CHUNK_PAGES, end % CHUNK_PAGES, write);
            }
            page = end + 1;
        }
    }

    fn touch_chunk(&mut self, index: u32, from: u64, to: u64, write: bool) {
        let weight = self.sample.weight();
        let seen = (self.now_s.min(u64::from(SEEN) - 1) + 1) as u32;
        let flag = if write { WRITTEN } else { READ };
        let states = &mut self.states[index as usize][from as usize..=to as usize];
        for state in states {
            if write && *state & WRITTEN != 0 {
                self.overwrites += weight;
            }
            let before = u64::from(*state & SEEN);
            // A page is new in a window if its last access was before the window's start; then it is new in all shorter
            // ones, too.
            for window in &mut self.windows {
                if before > window.start_s {
                    break;
                }
                window.pages += weight;
            }
            *state = *state & (READ | WRITTEN) | flag | seen;
        }
    }

    /// The index of a chunk's states; `None` if it is not sampled.
    fn chunk(&mut self, volume: u32, chunk: u64) -> Option<u32> {
        let key = (volume, chunk);
        if self.last.0 == key {
            return self.last.1;
        }
        let found = match self.chunks.get(&key) {
            Some(&index) => Some(index),
            None => self.insert(key),
        };
        self.last = (key, found);
        found
    }

    fn insert(&mut self, key: (u32, u64)) -> Option<u32> {
        while self.sample.contains(key.0, key.1) {
            if self.states.len() < self.max_chunks {
                let index = self.states.len() as u32;
                self.states.push([0; CHUNK_PAGES as usize]);
                self.chunks.insert(key, index);
                return Some(index);
            }
            self.halve();
        }
        None
    }

    fn halve(&mut self) {
        self.sample.halve();
        let mut kept: Vec<_> = self.chunks.iter().map(|(&key, &index)| (index, key)).collect();
        kept.retain(|&(_, (volume, chunk))| self.sample.contains(volume, chunk));
        // In the order of their places, so that each state moves forward or stays.
        kept.sort_unstable();
        self.chunks.clear();
        for (to, &(from, key)) in kept.iter().enumerate() {
            self.states[to] = self.states[from as usize];
            self.chunks.insert(key, to as u32);
        }
        self.states.truncate(kept.len());
        self.last = ((0, u64::MAX), None);
    }

    /// Ends the windows that are complete at `second`.
    fn advance(&mut self, second: u64) {
        if second <= self.now_s {
            return;
        }
        self.now_s = second;
        for (window, length) in self.windows.iter_mut().zip(WINDOWS) {
            if second - window.start_s >= length {
                window.max = window.max.max(window.pages);
                window.pages_before += window.pages;
                window.pages = 0;
                window.start_s = second / length * length;
            }
        }
    }

    /// The share of pages in the sample; below one, figures are estimates.
    pub(crate) fn sampled_share(&self) -> f64 {
        self.sample.share()
    }

    pub(crate) fn unique(&self) -> Unique {
        let mut unique = Unique::default();
        for state in self.states.iter().flatten() {
            let (read, written) = (state & READ != 0, state & WRITTEN != 0);
            unique.read += u64::from(read);
            unique.written += u64::from(written);
            unique.both += u64::from(read && written);
        }
        let weight = self.sample.weight();
        Unique { read: unique.read * weight, written: unique.written * weight, both: unique.both * weight }
    }

    /// Number of writes to a page that was written before.
    pub(crate) fn overwrites(&self) -> u64 {
        self.overwrites
    }

    /// The working-set curve: the windows that are no longer than the trace, and always the shortest.
    pub(crate) fn working_sets(&self) -> Vec<WorkingSet> {
        let rows = self.windows.iter().zip(WINDOWS);
        let rows = rows.filter(|(_, length)| *length == 1 || self.now_s >= *length);
        let row = |(window, length): (&Window, u64)| WorkingSet {
            window_s: length,
            mean_pages: (window.pages_before + window.pages) as f64 / (window.start_s / length + 1) as f64,
            max_pages: window.max.max(window.pages),
        };
        rows.map(row).collect()
    }
}
