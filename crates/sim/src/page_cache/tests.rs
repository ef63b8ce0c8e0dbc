//! The page cache without a drive: what it asks for and when it answers.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn design(size: u64) -> PageCacheDesign {
    PageCacheDesign {
        size: Bytes(size),
        dirty_expire: Nanos::from_s(30),
        writeback_interval: Nanos::from_s(5),
        dirty_background: 0.1,
        dirty_limit: 0.2,
        bytes_per_s: 1_000_000_000,
        latency: Nanos::from_us(2),
    }
}

/// A cache before a drive that answers when it is asked to.
struct Host {
    cache: PageCache,
    now: Nanos,
    asked: u32,
    /// Commands that the drive has not answered.
    drive: Vec<(u32, Request)>,
    /// What the drive has been sent, and the requests that were answered, with the time.
    sent: Vec<(Nanos, Request)>,
    answered: Vec<(Nanos, u32)>,
}

impl Host {
    fn new(design: &PageCacheDesign) -> Host {
        Host {
            cache: PageCache::new(design, 2, Bytes(1 << 40)),
            now: Nanos::ZERO,
            asked: 0,
            drive: Vec::new(),
            sent: Vec::new(),
            answered: Vec::new(),
        }
    }

    fn effects(&mut self) {
        while let Some(effect) = self.cache.next_effect() {
            match effect {
                Effect::Submit { id, request, .. } => {
                    self.drive.push((id, request));
                    self.sent.push((self.now, request));
                }
                Effect::Reply { id, .. } => self.answered.push((self.now, id)),
            }
        }
        self.cache.pages.check();
    }

    fn ask(&mut self, op: Op, offset: u64, len: u64) -> u32 {
        let id = self.asked;
        self.asked += 1;
        self.cache.ask(self.now, 0, id, Request { op, offset: Bytes(offset), len: Bytes(len) });
        self.effects();
        id
    }

    /// The drive answers a command, counted from the oldest.
    fn answer(&mut self, nth: usize) {
        let (id, _) = self.drive.remove(nth);
        self.cache.answered(self.now, id, false);
        self.effects();
    }

    /// Lets time pass, while the drive answers at once.
    fn until(&mut self, end: Nanos) {
        loop {
            while !self.drive.is_empty() {
                self.answer(0);
            }
            let next = self.cache.deadline();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            self.cache.tick(self.now);
            self.effects();
        }
    }

    fn of(&self, op: Op) -> Vec<(u64, u64)> {
        let all = self.sent.iter().map(|(_, request)| request).filter(|request| request.op == op);
        all.map(|request| (request.offset.0, request.len.0)).collect()
    }
}

#[test]
fn a_second_read_takes_the_time_of_a_copy_and_asks_the_drive_for_nothing() {
    let mut host = Host::new(&design(16 * MIB));
    host.ask(Op::Read, 8192, 100_000);
    // Whole sectors.
    assert_eq!(host.of(Op::Read), [(8192, 100_352)]);
    host.until(Nanos::from_ms(10));
    let again = host.ask(Op::Read, 8192, 50_000);
    host.until(Nanos::from_ms(20));
    assert_eq!(host.sent.len(), 1);
    // 50 µs at 1 GB/s, and 2 µs.
    assert_eq!(host.answered.last(), Some(&(Nanos::from_ms(10) + Nanos::from_us(52), again)));
    let report = host.cache.report();
    assert_eq!((report.read_requests, report.read_hits), (2, 1));
}

#[test]
fn what_is_being_read_is_not_read_twice_and_what_is_absent_is_read_alone() {
    let mut host = Host::new(&design(16 * MIB));
    let first = host.ask(Op::Read, 0, 8192);
    let second = host.ask(Op::Read, 4096, 8192);
    assert_eq!(host.of(Op::Read), [(0, 8192), (8192, 4096)]);
    // The second waits for both.
    host.answer(1);
    assert!(host.answered.is_empty());
    host.until(Nanos::from_ms(1));
    let mut ids: Vec<u32> = host.answered.iter().map(|(_, id)| *id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [first, second]);
}

#[test]
fn writes_are_held_back_until_they_are_old_and_go_in_one_run() {
    let mut host = Host::new(&design(16 * MIB));
    for page in [3, 1, 2, 9] {
        host.ask(Op::Write, page * 4096, 4096);
    }
    host.until(Nanos::from_s(20));
    // Written again: it never reached the drive.
    host.ask(Op::Write, 4096, 4096);
    host.until(Nanos::from_s(29));
    assert!(host.sent.is_empty());
    assert_eq!(host.answered.len(), 5);
    host.until(Nanos::from_s(60));
    assert_eq!(host.of(Op::Write), [(4096, 3 * 4096), (9 * 4096, 4096)]);
    let report = host.cache.report();
    assert_eq!(
        (report.rewritten_bytes, report.written_back_by.expired_bytes, report.left_dirty_bytes),
        (4096, 4 * 4096, 0)
    );
    // At the look after they were 30 s old, and looks end when nothing is dirty.
    assert!(host.sent.iter().all(|(at, _)| (Nanos::from_s(30)..=Nanos::from_s(35)).contains(at)), "{:?}", host.sent);
    assert_eq!(host.cache.deadline(), Nanos::MAX);
}

#[test]
fn a_flush_writes_back_what_was_dirty_before_it_alone() {
    let mut host = Host::new(&design(16 * MIB));
    host.ask(Op::Write, 0, 4096);
    host.ask(Op::Write, 1 << 20, 512);
    let flush = host.ask(Op::Flush, 0, 0);
    assert_eq!(host.of(Op::Write), [(0, 4096), (1 << 20, 512)]);
    host.ask(Op::Write, 0, 4096);
    host.ask(Op::Write, 2 << 20, 4096);
    host.answer(1);
    assert!(host.of(Op::Flush).is_empty(), "a write that it covers is under way");
    host.answer(0);
    assert_eq!(host.of(Op::Flush).len(), 1);
    assert!(!host.answered.iter().any(|(_, id)| *id == flush), "the drive has not flushed");
    host.answer(0);
    assert!(host.answered.iter().any(|(_, id)| *id == flush));
    assert_eq!(host.of(Op::Write).len(), 2, "what became dirty after it stays in memory");
    // With nothing dirty a flush goes on at once.
    let mut host = Host::new(&design(16 * MIB));
    host.ask(Op::Flush, 0, 0);
    assert_eq!(host.of(Op::Flush).len(), 1);
}

#[test]
fn many_dirty_pages_are_written_before_they_are_old_and_then_writes_wait() {
    let mut host = Host::new(&design(16 * MIB));
    // A page in two, so that none has a neighbour; the drive answers nothing.
    for page in 0..1_200_u64 {
        host.ask(Op::Write, page * 8192, 4096);
        let due = host.cache.deadline();
        if due < Nanos::from_s(1) {
            host.now = host.now.max(due);
            host.cache.tick(host.now);
            host.effects();
        }
    }
    // A tenth of 4096 pages may be dirty, and as many commands are under way as there may be.
    assert_eq!(host.drive.len(), MOST_WRITES);
    assert_eq!(host.cache.report().written_back_by.background_bytes, MOST_WRITES as u64 * 4096);
    // A fifth may be dirty or on its way; the next writes wait.
    assert!(host.answered.len() < 850 && host.cache.stats.throttled_writes > 300, "{}", host.answered.len());
    host.until(Nanos::from_s(1));
    assert_eq!(host.answered.len(), 1_200);
    assert!(host.cache.pages.dirty_count() <= 410);
}

#[test]
fn a_discard_drops_what_is_dirty() {
    let mut host = Host::new(&design(16 * MIB));
    host.ask(Op::Write, 0, 65_536);
    host.ask(Op::Discard, 0, 1 << 30);
    host.until(Nanos::from_s(60));
    assert!(host.of(Op::Write).is_empty());
    let report = host.cache.report();
    assert_eq!((report.dropped_dirty_bytes, report.left_dirty_bytes), (65_536, 0));
    assert_eq!(host.of(Op::Discard), [(0, 1 << 30)]);
}

#[test]
fn a_request_of_more_than_a_quarter_goes_past() {
    let mut host = Host::new(&design(MIB));
    host.ask(Op::Write, 0, 4096);
    host.ask(Op::Write, 0, MIB);
    assert_eq!(host.of(Op::Write), [(0, MIB)]);
    host.until(Nanos::from_s(60));
    assert_eq!(host.of(Op::Write).len(), 1, "what it covers is not written back");
}

/// The sectors that a request touches.
fn sectors(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / SECTOR..(offset + len).div_ceil(SECTOR)
}

proptest! {
    /// The fear: a request that is never answered, a write that never reaches the drive, a read of what was never written or read.
    #[test]
    fn every_request_is_answered_once_and_all_that_was_written_reaches_the_drive(
        steps in prop::collection::vec((0u8..12, 0u64..600, 1u64..60, any::<u8>()), 1..300),
        small in any::<bool>(),
    ) {
        let mut host = Host::new(&PageCacheDesign { dirty_limit: if small { 0.15 } else { 0.9 }, ..design(MIB) });
        let mut unwritten: std::collections::BTreeSet<u64> = std::collections::BTreeSet::new();
        let mut seen = 0;
        for (kind, at, len, choice) in steps {
            let (offset, len) = (at * 1536, len * 1024);
            match kind {
                0..4 => { host.ask(Op::Read, offset, len); }
                4..8 => {
                    host.ask(Op::Write, offset, len);
                    unwritten.extend(sectors(offset, len));
                }
                8 => { host.ask(Op::Flush, 0, 0); }
                9 => {
                    host.now += Nanos::from_ms(1 + u64::from(choice) * 20);
                    host.cache.tick(host.now);
                    host.effects();
                }
                _ if !host.drive.is_empty() => host.answer(usize::from(choice) % host.drive.len()),
                _ => {}
            }
            // What was sent to the drive is written; a write that waits for room has not made pages dirty.
            for (_, request) in &host.sent[seen..] {
                if request.op == Op::Write {
                    sectors(request.offset.0, request.len.0).for_each(|sector| { unwritten.remove(&sector); });
                }
            }
            seen = host.sent.len();
        }
        host.ask(Op::Flush, 0, 0);
        host.until(host.now + Nanos::from_s(100));
        for (_, request) in &host.sent[seen..] {
            if request.op == Op::Write {
                sectors(request.offset.0, request.len.0).for_each(|sector| { unwritten.remove(&sector); });
            }
        }
        prop_assert!(unwritten.is_empty(), "{unwritten:?}");
        let mut ids: Vec<u32> = host.answered.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..host.asked).collect::<Vec<_>>());
        let report = host.cache.report();
        prop_assert_eq!(report.left_dirty_bytes, 0);
        prop_assert!(report.read_hit_bytes <= report.read_bytes + 1024 * report.read_requests);
        let by = report.written_back_by;
        prop_assert_eq!(report.written_back_bytes, by.expired_bytes + by.background_bytes + by.flush_bytes + by.memory_bytes);
    }
}
