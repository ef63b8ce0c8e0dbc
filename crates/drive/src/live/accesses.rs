//! How often each part of the volume was accessed as its mapping table counts it, which knows of accesses before this start.

use peryton_engine::MapPart;
use peryton_units::Bytes;

use super::{heat_map::HeatMaps, report::LiveAccesses};
use crate::heat::Heat;

/// Reads the table in parts, one at a time, so that the volume's thread never waits for a whole one.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    next: Option<Bytes>,
    counting: LiveAccesses,
}

impl Accesses {
    /// Where the part begins that is to be read next.
    pub(super) fn next(&self) -> Bytes {
        self.next.unwrap_or_default()
    }

    /// Adds a part of the table of a volume of this size. Returns the counts once the whole table has been read.
    pub(super) fn add(&mut self, size: Bytes, part: &MapPart) -> Option<LiveAccesses> {
        if self.next.is_none() {
            self.counting = LiveAccesses::none(size);
        }
        let LiveAccesses { cell_bytes, cells } = &mut self.counting;
        let last = cells.len() - 1;
        for row in &part.rows {
            // A volume that has grown meanwhile has more than these.
            let cell = (row.offset / *cell_bytes).min(last as u64) as usize;
            cells[cell] = cells[cell].saturating_add(u64::from(row.accesses.unwrap_or(0)));
        }
        self.next = part.next;
        self.next.is_none().then(|| std::mem::take(&mut self.counting))
    }
}

impl LiveAccesses {
    /// Of a volume of this size of which nothing is known yet.
    pub(super) fn none(size: Bytes) -> LiveAccesses {
        let (cells, cell_bytes) = HeatMaps::new(&Heat::new(size)).shape();
        LiveAccesses { cell_bytes, cells: vec![0; cells] }
    }
}

#[cfg(test)]
mod tests {
    use peryton_engine::MapRow;

    use super::*;

    #[test]
    fn a_table_in_parts_is_told_when_it_is_whole_and_read_again() {
        let row = |offset: u64, accesses: Option<u32>| MapRow { offset, accesses, ..MapRow::default() };
        let part = |rows: Vec<MapRow>, next: Option<u64>| MapPart { rows, next: next.map(Bytes), ..MapPart::default() };
        let mut accesses = Accesses::default();
        let size = Bytes::mib(64);
        for _ in 0..2 {
            assert_eq!(accesses.next(), Bytes::ZERO);
            let first = part(vec![row(0, Some(3)), row(65_536, Some(4)), row(2 << 20, None)], Some(32 << 20));
            assert_eq!(accesses.add(size, &first), None);
            assert_eq!(accesses.next(), Bytes::mib(32));
            let whole = accesses.add(size, &part(vec![row(63 << 20, Some(5)), row(1 << 40, Some(1))], None)).unwrap();
            assert_eq!((whole.cell_bytes, whole.cells.len()), (1 << 20, 64));
            assert_eq!((whole.cells[0], whole.cells[63], whole.cells.iter().sum::<u64>()), (7, 6, 13));
        }
    }
}
