//! Selective caching: the log takes only blocks that are overwritten often enough (Griffin, section 5.1).
//!
//! The counters are a table of fixed size, 6 MiB. A block that collides with another replaces it in the table, and its
//! own counts begin at zero.

const ROWS: usize = 1 << 20;
/// Multiplicative hashing (Knuth, volume 3, section 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    tag: u16,
    writes: u8,
    overwrites: u8,
    read_since: bool,
}

impl Row {
    /// Counts one more write; also returns whether the overwrite ratio is then above the threshold.
    fn counted(mut self, threshold_ppm: u32) -> (Row, bool) {
        if self.writes == u8::MAX {
            // When the counter is full, all counts are halved, so that older writes weigh less.
            self.writes /= 2;
            self.overwrites /= 2;
        }
        self.writes += 1;
        self.overwrites += u8::from(!self.read_since);
        self.read_since = false;
        (self, u64::from(self.overwrites) * 1_000_000 > u64::from(threshold_ppm) * u64::from(self.writes))
    }
}

#[derive(Debug)]
pub(in crate::log) struct Overwrites {
    /// The table; empty until selective caching is used.
    rows: Vec<Row>,
}

impl Overwrites {
    pub(in crate::log) fn new() -> Overwrites {
        Overwrites { rows: Vec::new() }
    }

    fn find(block: u64) -> (usize, u16) {
        let hash = block.wrapping_mul(GOLDEN);
        ((hash >> 44) as usize & (ROWS - 1), (hash >> 16) as u16)
    }

    /// Counts a write to the block. Returns whether its overwrite ratio, this write included, is above the threshold.
    pub(in crate::log) fn written(&mut self, block: u64, threshold_ppm: u32) -> bool {
        if self.rows.is_empty() {
            self.rows = vec![Row::default(); ROWS];
        }
        let (index, tag) = Self::find(block);
        let row = &mut self.rows[index];
        if row.tag != tag || row.writes == 0 {
            *row = Row { tag, writes: 1, overwrites: 0, read_since: false };
            return false;
        }
        let (counted, above) = row.counted(threshold_ppm);
        *row = counted;
        above
    }

    /// Returns what [`Overwrites::written`] would return, without counting.
    pub(in crate::log) fn peek(&self, block: u64, threshold_ppm: u32) -> bool {
        let (index, tag) = Self::find(block);
        let Some(row) = self.rows.get(index).filter(|row| row.tag == tag && row.writes > 0) else { return false };
        row.counted(threshold_ppm).1
    }

    /// Records a read of the block: a write that follows does not overwrite unread data.
    pub(in crate::log) fn read(&mut self, block: u64) {
        if self.rows.is_empty() {
            return;
        }
        let (index, tag) = Self::find(block);
        let row = &mut self.rows[index];
        if row.tag == tag {
            row.read_since = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_counts_overwrites_with_no_read_between() {
        let mut counters = Overwrites::new();
        assert!(!counters.written(7, 500_000), "0 of 1");
        assert!(!counters.written(7, 500_000), "1 of 2 is not above one half");
        assert!(counters.written(7, 500_000), "2 of 3");
        counters.read(7);
        assert!(!counters.written(7, 500_000), "2 of 4");
        assert!(counters.written(7, 500_000), "3 of 5");
    }

    #[test]
    fn counters_never_overflow() {
        let mut counters = Overwrites::new();
        for _ in 0..10_000 {
            counters.written(1, 0);
        }
        assert!(counters.written(1, 900_000));
    }
}
