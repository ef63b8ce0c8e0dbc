//! A model of the host's own cache, for its hints. While a page is in that cache the host does not read it from the
//! drive; once it is dropped, the next read goes to the drive (Griffin, section 7). Traces are recorded below that
//! cache, so the model removes no request: it only computes when pages would have been dropped.

use std::{collections::VecDeque, ops::Range};

use peryton_units::{Bytes, Op};
use rustc_hash::FxHashMap;

/// The unit in which hosts cache.
const PAGE: u64 = 4096;
/// The reciprocal share of a full cache that is dropped at once, as kernels do between two watermarks, so that
/// neighbours leave together.
const BATCH: usize = 32;
/// The most hints for one request. The engine ignores hints for which it has no space.
const MOST_HINTS: usize = 8;
/// The most hints that wait for the next requests; the oldest are removed.
const MOST_WAITING: usize = 4096;
/// The most pages of one request that are cached: the last ones of a longer request.
const MOST_PAGES: u64 = 1 << 18;

/// A least-recently-used list of pages.
#[derive(Debug)]
pub(crate) struct HostCache {
    pages: usize,
    /// The last use of each cached page, and whether the page was written while cached.
    cached: FxHashMap<u64, (u64, bool)>,
    /// Uses in their order, including outdated ones: those followed by a later use of the same page.
    uses: VecDeque<(u64, u64)>,
    clock: u64,
    waiting: VecDeque<Range<u64>>,
}

impl HostCache {
    pub(crate) fn new(size: Bytes) -> HostCache {
        let pages = (size.0 / PAGE).max(1) as usize;
        HostCache { pages, cached: FxHashMap::default(), uses: VecDeque::new(), clock: 0, waiting: VecDeque::new() }
    }

    /// Notes a read or write of the host: the pages are in its cache, and others may be dropped for them.
    pub(crate) fn touch(&mut self, op: Op, at: Bytes, len: Bytes) {
        if !matches!(op, Op::Read | Op::Write) || len == Bytes::ZERO {
            return;
        }
        let (first, end) = (at.0 / PAGE, (at.0 + len.0).div_ceil(PAGE));
        for page in first.max(end.saturating_sub(MOST_PAGES))..end {
            self.clock += 1;
            let (used, written) = self.cached.entry(page).or_insert((0, false));
            *used = self.clock;
            *written |= op == Op::Write;
            self.uses.push_back((page, self.clock));
        }
        if self.cached.len() > self.pages {
            self.make_room();
        }
        // Outdated uses take space too; they are limited to as many as the pages themselves.
        if self.uses.len() > 2 * self.pages.max(self.cached.len()) {
            let cached = &self.cached;
            self.uses.retain(|(page, used)| cached.get(page).is_some_and(|(latest, _)| latest == used));
        }
    }

    fn make_room(&mut self) {
        let keep = self.pages - (self.pages / BATCH).min(self.pages - 1);
        let mut dropped = Vec::new();
        while self.cached.len() > keep {
            let (page, used) = self.uses.pop_front().expect("every cached page has a use");
            if self.cached.get(&page).is_some_and(|(latest, _)| *latest == used) {
                let (_, written) = self.cached.remove(&page).expect("just seen");
                // The log has no new data of a page that was only read.
                if written {
                    dropped.push(page);
                }
            }
        }
        dropped.sort_unstable();
        for page in dropped {
            match self.waiting.back_mut() {
                Some(last) if last.end == page => last.end += 1,
                _ => self.waiting.push_back(page..page + 1),
            }
        }
        let over = self.waiting.len().saturating_sub(MOST_WAITING);
        self.waiting.drain(..over);
    }

    /// The next few ranges that the host has dropped.
    pub(crate) fn hints(&mut self) -> impl Iterator<Item = Range<Bytes>> + '_ {
        let count = self.waiting.len().min(MOST_HINTS);
        self.waiting.drain(..count).map(|pages| Bytes(pages.start * PAGE)..Bytes(pages.end * PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(from: u64, count: u64) -> (Bytes, Bytes) {
        (Bytes(from * PAGE), Bytes(count * PAGE))
    }

    fn touch(cache: &mut HostCache, op: Op, from: u64, count: u64) -> Vec<(u64, u64)> {
        let (at, len) = pages(from, count);
        cache.touch(op, at, len);
        cache.hints().map(|range| (range.start.0 / PAGE, range.end.0 / PAGE)).collect()
    }

    #[test]
    fn written_pages_leave_together_the_longest_unused_first() {
        let mut cache = HostCache::new(Bytes(64 * PAGE));
        assert!(touch(&mut cache, Op::Write, 0, 60).is_empty());
        assert!(touch(&mut cache, Op::Read, 0, 10).is_empty());
        // 65 pages: three must go, 62 may stay. The first ten were used again.
        assert_eq!(touch(&mut cache, Op::Write, 100, 5), [(10, 13)]);
    }

    #[test]
    fn what_was_only_read_gives_no_hint() {
        let mut cache = HostCache::new(Bytes(16 * PAGE));
        assert!(touch(&mut cache, Op::Read, 0, 100).is_empty());
        assert_eq!(cache.cached.len(), 16);
        assert!(touch(&mut cache, Op::Discard, 0, 100).is_empty());
    }

    #[test]
    fn a_hot_page_does_not_make_the_list_grow() {
        let mut cache = HostCache::new(Bytes(8 * PAGE));
        for _ in 0..10_000 {
            touch(&mut cache, Op::Write, 3, 1);
        }
        assert!(cache.uses.len() <= 17);
    }

    #[test]
    fn a_request_larger_than_memory_is_no_trouble() {
        let mut cache = HostCache::new(Bytes(8 * PAGE));
        cache.touch(Op::Write, Bytes(0), Bytes(1 << 60));
        assert!(cache.cached.len() <= 8 && cache.waiting.len() <= MOST_WAITING);
    }
}
