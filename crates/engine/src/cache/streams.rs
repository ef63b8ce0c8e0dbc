//! Sequential streams of reads and of writes, found among the misses of the fast device. A long stream does not enter
//! the cache: a disk serves it well, and it would evict data that are used again.
//!
//! An access continues a stream if it begins where the stream has ended, or a little further. Several queues may change
//! the order, and a late access adds nothing. A stream may pass over cached extents, because this module sees no hits.

use peryton_units::{Bytes, Nanos, Op};

/// The most streams of each operation that are followed at a time.
const MOST_STREAMS: usize = 64;
/// The most extents that a stream may pass over, if all of them are cached.
const MOST_PASSED: u32 = 64;
/// An access may come this many times its length too early, and twice as many too late.
const MOST_EARLY: u64 = 4;
/// An extent counts as used lately until long streams have touched this many times as many extents as the cache has slots.
const REMEMBERED_CACHES: u32 = 4;
/// This distance is measured in as many equal parts, each with the time at which it was full.
const MARKS: usize = 8;
/// The most extents by which an access may come too late.
const MOST_LATE: u32 = 4;

/// The streams of one operation. The columns are separate, so that all streams are compared at once.
#[derive(Clone, Debug)]
struct Table {
    /// The extent of the latest access of each stream.
    at: [u32; MOST_STREAMS],
    /// Where in its extent the latest access ended.
    end: [u32; MOST_STREAMS],
    bytes: [u64; MOST_STREAMS],
    /// Streams that have gone on since the hand last passed, one bit each.
    used: u64,
    hand: usize,
}

impl Table {
    fn new() -> Table {
        let [at, end] = [[u32::MAX; MOST_STREAMS], [0; MOST_STREAMS]];
        Table { at, end, bytes: [0; MOST_STREAMS], used: 0, hand: 0 }
    }

    /// Notes where the latest access of a stream was.
    #[inline]
    fn is_at(&mut self, index: usize, place: Position) {
        (self.at[index], self.end[index]) = (place.extent, place.within + place.len);
    }

    /// The streams that have ended near this extent, one bit each.
    fn near(&self, extent: u32) -> u64 {
        let is_near = |at: u32| extent.wrapping_add(MOST_LATE).wrapping_sub(at) <= MOST_LATE + MOST_PASSED;
        // Most misses are part of no stream. Several comparisons are made at once.
        if !self.at.iter().fold(false, |any, at| any | is_near(*at)) {
            return 0;
        }
        (0..).zip(&self.at).fold(0, |near, (index, at)| near | u64::from(is_near(*at)) << index)
    }

    fn follow(&mut self, place: Position, is_cached: impl Fn(u32) -> bool) -> Followed {
        let position = |extent: u32, within: u32| u64::from(extent) * u64::from(place.extent_bytes) + u64::from(within);
        let begins = position(place.extent, place.within);
        let reach = MOST_EARLY * u64::from(place.len);
        // The stream that has gone on for longest, if it is part of several, and whether it is late for it.
        let mut longest: Option<(u64, usize, bool)> = None;
        let mut near = self.near(place.extent);
        while near != 0 {
            let index = near.trailing_zeros() as usize;
            near &= near - 1;
            let (at, end, bytes) = (self.at[index], self.end[index], self.bytes[index]);
            if at == u32::MAX || longest.is_some_and(|(most, ..)| most >= bytes) {
                continue;
            }
            let ended = position(at, end);
            let late = begins < ended;
            let is_part = match late {
                true => ended - begins <= 2 * reach,
                false => {
                    let passes = end == place.extent_bytes && place.within == 0 && at < place.extent;
                    begins - ended <= reach || passes && (at + 1..place.extent).all(&is_cached)
                }
            };
            if is_part {
                longest = Some((bytes, index, late));
            }
        }
        match longest {
            None => self.begin(place),
            Some((bytes, _, true)) => Followed { bytes: Bytes(bytes), enters: false },
            Some((bytes, index, false)) => {
                self.used |= 1 << index;
                let enters = self.at[index] != place.extent;
                let bytes = bytes + u64::from(place.len);
                self.is_at(index, place);
                self.bytes[index] = bytes;
                Followed { bytes: Bytes(bytes), enters }
            }
        }
    }

    /// A new stream takes the place of one that has not gone on for long.
    fn begin(&mut self, place: Position) -> Followed {
        while self.used >> self.hand & 1 == 1 {
            self.used &= !(1 << self.hand);
            self.hand = (self.hand + 1) % MOST_STREAMS;
        }
        let index = self.hand;
        self.hand = (self.hand + 1) % MOST_STREAMS;
        let bytes = u64::from(place.len);
        self.is_at(index, place);
        self.bytes[index] = bytes;
        Followed { bytes: Bytes(bytes), enters: true }
    }
}

/// The stream that an access is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Followed {
    /// How many bytes it has had so far.
    pub(in crate::cache) bytes: Bytes,
    /// Whether the access is its first one to this extent.
    pub(in crate::cache) enters: bool,
}

/// An access to `len` bytes of an extent, from `within` on.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Position {
    pub(in crate::cache) extent: u32,
    pub(in crate::cache) within: u32,
    pub(in crate::cache) len: u32,
    /// The length of an extent.
    pub(in crate::cache) extent_bytes: u32,
}

/// The streams of reads and of writes.
#[derive(Clone, Debug)]
pub(in crate::cache) struct Streams {
    tables: Box<[Table; 2]>,
    /// Extents that long streams have come to since the last of `marks`.
    passed: u32,
    /// When long streams had come to another part of the extents that are remembered, the oldest first.
    marks: [Nanos; MARKS],
}

impl Streams {
    pub(in crate::cache) fn new() -> Streams {
        Streams { tables: Box::new([Table::new(), Table::new()]), passed: 0, marks: [Nanos::ZERO; MARKS] }
    }

    /// A long stream has come to another extent.
    pub(in crate::cache) fn passes(&mut self, now: Nanos, cache_extents: u32) {
        self.passed += 1;
        if self.passed > cache_extents.saturating_mul(REMEMBERED_CACHES) / MARKS as u32 {
            self.passed = 0;
            self.marks.rotate_left(1);
            self.marks[MARKS - 1] = now;
        }
    }

    /// The time since which long streams have come to about [`REMEMBERED_CACHES`] times as many extents as the cache has.
    pub(in crate::cache) fn horizon(&self) -> Nanos {
        self.marks[0]
    }

    /// Takes a miss into account. Returns the stream that it is part of.
    pub(in crate::cache) fn follow(&mut self, op: Op, place: Position, is_cached: impl Fn(u32) -> bool) -> Followed {
        self.tables[usize::from(op == Op::Write)].follow(place, is_cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const EXTENT: u32 = 65536;

    proptest! {
        #[test]
        fn the_streams_near_an_extent_are_those_that_a_look_at_all_of_them_finds(
            accesses in prop::collection::vec((0u32..40, 0u32..3000), 0..400),
        ) {
            let mut table = Table::new();
            for (step, extent) in accesses {
                // Some go on where the last one was, some are elsewhere.
                let extent = if step < 20 { table.at[table.hand].wrapping_add(step) % 100_000 } else { extent };
                let expected = (0..).zip(table.at).filter(|(_, at)| {
                    (i64::from(*at) - i64::from(MOST_LATE)..=i64::from(*at) + i64::from(MOST_PASSED)).contains(&i64::from(extent))
                });
                let expected = expected.fold(0, |near, (index, _): (u32, u32)| near | 1_u64 << index);
                // A place that no stream has had yet is at the highest extent, which is none.
                let unused = (0..).zip(table.at).filter(|(_, at)| *at == u32::MAX);
                let unused = unused.fold(0, |unused, (index, _): (u32, u32)| unused | 1_u64 << index);
                prop_assert_eq!(table.near(extent) & !unused, expected & !unused);
                table.follow(place(extent, 0, EXTENT), |_| true);
            }
        }
    }

    fn place(extent: u32, within: u32, len: u32) -> Position {
        Position { extent, within, len, extent_bytes: EXTENT }
    }

    fn read(streams: &mut Streams, extent: u32) -> u64 {
        streams.follow(Op::Read, place(extent, 0, EXTENT), |_| false).bytes.0 / u64::from(EXTENT)
    }

    #[test]
    fn as_many_streams_as_there_are_places_are_told_apart() {
        let mut streams = Streams::new();
        for step in 0..100 {
            for stream in 0..MOST_STREAMS as u32 {
                assert_eq!(read(&mut streams, 10_000 * stream + step), u64::from(step) + 1);
            }
        }
    }

    #[test]
    fn accesses_here_and_there_do_not_end_a_stream_and_are_none() {
        let mut streams = Streams::new();
        for step in 0..1000 {
            assert_eq!(read(&mut streams, step), u64::from(step) + 1);
            for other in 0..20 {
                assert_eq!(read(&mut streams, 1_000_000 + (step * 20 + other) * 7919 % 999_983 * 100), 1);
            }
        }
    }

    #[test]
    fn a_stream_passes_over_what_is_cached_and_over_nothing_else() {
        let mut streams = Streams::new();
        let from = |streams: &mut Streams, extent| {
            streams.follow(Op::Read, place(extent, 0, EXTENT), |at| at % 10 != 9).bytes.0
        };
        assert_eq!(from(&mut streams, 0) / u64::from(EXTENT), 1);
        assert_eq!(from(&mut streams, 9) / u64::from(EXTENT), 2, "1 to 8 are cached");
        assert_eq!(from(&mut streams, 39) / u64::from(EXTENT), 1, "19 is not");
    }

    #[test]
    fn what_does_not_begin_where_a_stream_has_ended_is_none() {
        let mut streams = Streams::new();
        let mut follow = |extent, within| streams.follow(Op::Write, place(extent, within, 4096), |_| false).bytes.0;
        assert_eq!([follow(5, 0), follow(5, 4096), follow(5, 4096), follow(5, 0)], [4096, 8192, 8192, 8192]);
        assert_eq!(follow(5, 32768), 4096, "it leaves too much out");
        assert_eq!(follow(6, 0), 4096, "so does this");
        assert_eq!(follow(9, EXTENT - 4096), 4096);
        assert_eq!(follow(10, 0), 8192);
        // Blocks that are written again and again, at random, are no stream.
        let mut streams = Streams::new();
        let longest = (0..100_000_u32).map(|n| {
            let block = n.wrapping_mul(2_654_435_761) >> 16 & 0xfff;
            streams.follow(Op::Write, place(block >> 4, (block & 15) * 4096, 4096), |_| false).bytes.0
        });
        assert!(longest.max().is_some_and(|longest| longest < 1 << 20));
    }

    #[test]
    fn streams_whose_order_is_changed_are_still_found() {
        let mut streams = Streams::new();
        let mut longest = 0;
        for pair in 0..200 {
            for extent in [2 * pair + 1, 2 * pair] {
                longest = longest.max(read(&mut streams, extent));
            }
        }
        assert!(longest >= 199, "{longest} of 400 extents");
    }
}
