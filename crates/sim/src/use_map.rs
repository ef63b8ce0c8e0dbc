//! Which parts of a volume were used and moved, and when: counts in a grid of addresses and times, which needs no knowledge of how
//! long the run will be. When time passes its last column, two columns become one.

use peryton_units::{Bytes, Nanos, Op};

/// The rows: parts of the addresses.
const ROWS: usize = 256;
/// The columns: parts of the time.
const COLUMNS: usize = 256;
/// The length of the first columns.
const BEGINS: Nanos = Nanos::from_ms(1);
/// The grid that is reported has at most this many rows and columns.
const SHOWN_ROWS: usize = 64;
const SHOWN_COLUMNS: usize = 128;

/// What is counted.
const LAYERS: usize = 5;
const READ: usize = 0;
const WRITTEN: usize = 1;
const MOVED_IN: usize = 2;
const MOVED_OUT: usize = 3;
const WRITTEN_HOME: usize = 4;

/// A grid of addresses and times: bytes that the host read and wrote, and that moved. The first row has the lowest addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct UseMap {
    /// The address at which the first row begins.
    pub from: Bytes,
    /// Bytes of a row.
    pub row: Bytes,
    /// Number of rows.
    pub rows: usize,
    /// The length of a column in seconds.
    pub column_s: f64,
    /// Number of columns.
    pub columns: usize,
    /// Bytes that the host read, row by row.
    pub read: Vec<u64>,
    /// Bytes that the host wrote.
    pub written: Vec<u64>,
    /// What is known of designs that move extents.
    pub moves: Option<MoveMap>,
}

/// The same grid of a design that moves extents between devices.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveMap {
    /// Bytes of extents that got a place on the fast device.
    pub moved_in: Vec<u64>,
    /// Bytes of extents that lost it.
    pub moved_out: Vec<u64>,
    /// Bytes of extents that were dirty and are not any more.
    pub written_home: Vec<u64>,
    /// The share of the row that was on the fast device at the end of the column, from 0 to 1.
    pub on_fast: Vec<f64>,
}

/// An extent's place.
const ON_FAST: u8 = 1;
const DIRTY: u8 = 2;

/// The grid as it grows.
#[derive(Debug)]
pub(crate) struct UseCounts {
    /// The addresses of all volumes, one after the other.
    volume: u64,
    row: u64,
    column: Nanos,
    since: Nanos,
    layers: [Vec<u64>; LAYERS],
    /// Bytes on the fast device: now by row, and at the end of each column.
    on_fast: Vec<u64>,
    on_fast_at: Vec<u64>,
    /// The column up to which that is known.
    reached: usize,
    extent: Option<u64>,
    /// Of each extent of each volume.
    extents: Vec<Vec<u8>>,
}

impl UseCounts {
    /// The grid of `volumes` volumes of this size; `extent`: that of designs that move extents.
    pub(crate) fn new(volume: Bytes, volumes: usize, extent: Option<Bytes>) -> UseCounts {
        let whole = volume.0.max(1).saturating_mul(volumes as u64);
        // A row is made of whole extents, so that each is in one row.
        let unit = extent.map_or(1, |extent| extent.0.max(1));
        let row = whole.div_ceil(ROWS as u64).max(1).div_ceil(unit) * unit;
        let of_volume = extent.map_or(0, |extent| volume.0.div_ceil(extent.0.max(1)) as usize);
        UseCounts {
            volume: volume.0.max(1),
            row,
            column: BEGINS,
            since: Nanos::ZERO,
            layers: std::array::from_fn(|_| vec![0; ROWS * COLUMNS]),
            on_fast: vec![0; ROWS],
            on_fast_at: vec![0; ROWS * COLUMNS],
            reached: 0,
            extent: extent.map(|extent| extent.0.max(1)),
            extents: (0..volumes).map(|_| vec![0; of_volume]).collect(),
        }
    }

    /// Starts the measured span: forgets what was counted, but not where extents are.
    pub(crate) fn begin(&mut self, now: Nanos) {
        self.layers.iter_mut().for_each(|layer| layer.fill(0));
        (self.since, self.column, self.reached) = (now, BEGINS, 0);
    }

    /// The column of this time.
    fn column_of(&mut self, now: Nanos) -> usize {
        let mut column = (now.saturating_sub(self.since).0 / self.column.0) as usize;
        while column >= COLUMNS {
            self.reach(COLUMNS);
            self.fold();
            column = (now.saturating_sub(self.since).0 / self.column.0) as usize;
        }
        self.reach(column);
        column
    }

    /// Notes what is on the fast device at the end of each column before this one.
    fn reach(&mut self, column: usize) {
        while self.reached < column {
            for row in 0..ROWS {
                self.on_fast_at[row * COLUMNS + self.reached] = self.on_fast[row];
            }
            self.reached += 1;
        }
    }

    /// Makes one column of two.
    fn fold(&mut self) {
        for row in 0..ROWS {
            for column in 0..COLUMNS {
                let (to, from) = (row * COLUMNS + column, row * COLUMNS + 2 * column);
                let is_there = 2 * column < COLUMNS;
                for layer in &mut self.layers {
                    layer[to] = if is_there { layer[from] + layer[from + 1] } else { 0 };
                }
                self.on_fast_at[to] = if is_there { self.on_fast_at[from + 1] } else { 0 };
            }
        }
        self.column = Nanos(self.column.0.saturating_mul(2));
        self.reached /= 2;
    }

    /// Counts a request of the host.
    pub(crate) fn used(&mut self, now: Nanos, volume: usize, op: Op, offset: Bytes, len: Bytes) {
        let layer = match op {
            Op::Read => READ,
            Op::Write => WRITTEN,
            Op::Flush | Op::Discard => return,
        };
        self.count(now, layer, volume, offset.0.min(self.volume), len.0.min(self.volume));
    }

    fn count(&mut self, now: Nanos, layer: usize, volume: usize, offset: u64, len: u64) {
        let column = self.column_of(now);
        let mut at = self.volume.saturating_mul(volume as u64).saturating_add(offset);
        let mut left = len;
        while left > 0 {
            let row = (at / self.row) as usize;
            if row >= ROWS {
                return;
            }
            let part = left.min(self.row - at % self.row);
            self.layers[layer][row * COLUMNS + column] += part;
            at += part;
            left -= part;
        }
    }

    /// Notes where an extent is before the run, which moves nothing.
    pub(crate) fn is_at(&mut self, volume: usize, extent: u32, on_fast: bool, dirty: bool) {
        let Some(bytes) = self.extent else { return };
        let Some(known) = self.extents.get_mut(volume).and_then(|all| all.get_mut(extent as usize)) else { return };
        let was = std::mem::replace(known, if on_fast { ON_FAST } else { 0 } | if dirty { DIRTY } else { 0 });
        let row = ((self.volume * volume as u64 + u64::from(extent) * bytes) / self.row) as usize;
        if let Some(here) = self.on_fast.get_mut(row) {
            match (was & ON_FAST != 0, on_fast) {
                (false, true) => *here += bytes,
                (true, false) => *here = here.saturating_sub(bytes),
                _ => {}
            }
        }
    }

    /// Counts that an extent is somewhere else now, or not dirty any more.
    pub(crate) fn moved(&mut self, now: Nanos, volume: usize, extent: u32, on_fast: bool, dirty: bool) {
        let Some(bytes) = self.extent else { return };
        let Some(was) = self.extents.get(volume).and_then(|all| all.get(extent as usize)).copied() else { return };
        let at = u64::from(extent) * bytes;
        // Before the place changes, because the columns that have ended had the place of before.
        self.column_of(now);
        match (was & ON_FAST != 0, on_fast) {
            (false, true) => self.count(now, MOVED_IN, volume, at, bytes),
            (true, false) => self.count(now, MOVED_OUT, volume, at, bytes),
            _ => {}
        }
        if was & DIRTY != 0 && !dirty {
            self.count(now, WRITTEN_HOME, volume, at, bytes);
        }
        self.is_at(volume, extent, on_fast, dirty);
    }

    /// The grid at the end of the run: the rows from the first to the last that was used, and the columns up to `now`.
    pub(crate) fn report(mut self, now: Nanos) -> UseMap {
        let last = self.column_of(now);
        self.reach((last + 1).min(COLUMNS));
        let used = |row: &usize| {
            let range = row * COLUMNS..(row + 1) * COLUMNS;
            self.layers.iter().any(|layer| layer[range.clone()].iter().any(|bytes| *bytes > 0))
        };
        let first = (0..ROWS).find(used).unwrap_or(0);
        let end = (0..ROWS).rev().find(used).unwrap_or(0) + 1;
        let (by_row, by_column) = ((end - first).div_ceil(SHOWN_ROWS), (last + 1).div_ceil(SHOWN_COLUMNS));
        let (rows, columns) = ((end - first).div_ceil(by_row), (last + 1).div_ceil(by_column));
        let cells = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let rows_of = |row: usize| first + row * by_row..(first + (row + 1) * by_row).min(ROWS);
        let sum = |layer: usize| -> Vec<u64> {
            let cell = |(row, column): (usize, usize)| -> u64 {
                let columns = column * by_column..((column + 1) * by_column).min(COLUMNS);
                let of_row = |row: usize| self.layers[layer][row * COLUMNS..][columns.clone()].iter().sum::<u64>();
                rows_of(row).map(of_row).sum()
            };
            cells().map(cell).collect()
        };
        let share = |(row, column): (usize, usize)| {
            let at_end = ((column + 1) * by_column).min(last + 1) - 1;
            let here: u64 = rows_of(row).map(|row| self.on_fast_at[row * COLUMNS + at_end]).sum();
            (here as f64 / (self.row * rows_of(row).len() as u64) as f64).min(1.0)
        };
        let moves = self.extent.map(|_| MoveMap {
            moved_in: sum(MOVED_IN),
            moved_out: sum(MOVED_OUT),
            written_home: sum(WRITTEN_HOME),
            on_fast: cells().map(share).collect(),
        });
        UseMap {
            from: Bytes(first as u64 * self.row),
            row: Bytes(self.row * by_row as u64),
            rows,
            column_s: self.column.as_s_f64() * by_column as f64,
            columns,
            read: sum(READ),
            written: sum(WRITTEN),
            moves,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nothing_is_lost_or_leaves_its_place_however_long_the_run() {
        for long in [Nanos::from_us(10), Nanos::from_s(3), Nanos::from_s(900_000)] {
            let mut counts = UseCounts::new(Bytes::mib(256), 1, Some(Bytes::kib(64)));
            counts.is_at(0, 5, true, false);
            let mut bytes = 0;
            for n in 0..1000u64 {
                let now = Nanos(long.0 / 1000 * n);
                counts.used(now, 0, Op::Read, Bytes::mib(100 + n % 20), Bytes::kib(8));
                counts.used(now, 0, Op::Write, Bytes::mib(101) - Bytes(100), Bytes(4096));
                counts.used(now, 0, Op::Flush, Bytes::ZERO, Bytes::ZERO);
                counts.moved(now, 0, 1600, n % 2 == 0, n % 2 == 0);
                bytes += 8 << 10;
            }
            let map = counts.report(long);
            assert_eq!((map.read.iter().sum::<u64>(), map.written.iter().sum::<u64>()), (bytes, 4_096_000));
            assert!(map.rows <= SHOWN_ROWS && map.columns <= SHOWN_COLUMNS && map.read.len() == map.rows * map.columns);
            assert!(map.from == Bytes::mib(100) && map.row.0 * map.rows as u64 <= 21 << 20, "{map:?}");
            assert!(map.column_s * map.columns as f64 >= long.as_s_f64());
            let moves = map.moves.unwrap();
            let sum = |layer: &[u64]| layer.iter().sum::<u64>();
            assert_eq!((sum(&moves.moved_in), sum(&moves.moved_out)), (500 << 16, 500 << 16));
            assert_eq!(sum(&moves.written_home), 500 << 16);
            assert!(moves.on_fast.iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }

    #[test]
    fn what_is_there_stays_there_until_it_moves() {
        let mut counts = UseCounts::new(Bytes::mib(256), 1, Some(Bytes::mib(1)));
        counts.is_at(0, 7, true, false);
        counts.begin(Nanos::from_s(1));
        counts.used(Nanos::from_s(1), 0, Op::Read, Bytes::mib(7), Bytes(1));
        counts.moved(Nanos::from_s(3), 0, 7, false, false);
        let map = counts.report(Nanos::from_s(5));
        let moves = map.moves.unwrap();
        let on_fast = |s: f64| moves.on_fast[(s / map.column_s) as usize];
        assert_eq!((map.rows, on_fast(0.0), on_fast(1.9), on_fast(2.1), on_fast(3.9)), (1, 1.0, 1.0, 0.0, 0.0));
    }

    #[test]
    fn a_request_past_the_end_and_an_empty_run_are_no_panic() {
        let mut counts = UseCounts::new(Bytes(1000), 2, None);
        counts.used(Nanos::MAX, 1, Op::Write, Bytes(999), Bytes(u64::MAX));
        counts.moved(Nanos::ZERO, 3, 9, true, true);
        assert!(counts.report(Nanos::MAX).moves.is_none());
        assert_eq!(UseCounts::new(Bytes(1), 1, None).report(Nanos::ZERO).read, [0]);
    }
}
