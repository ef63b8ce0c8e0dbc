//! Which parts of the volume are used when: requests by address and time, in a bounded number of cells.

use std::collections::VecDeque;

use super::report::{LiveColumn, LiveMap};
use crate::heat::Heat;

/// The most cells of a column.
const MOST_CELLS: usize = 64;
/// The rows that a column is for, and the most columns: the last five minutes, and the last hour.
const MAPS: [(u64, usize); 2] = [(2, 150), (30, 120)];

/// Requests by the cell in which they begin.
#[derive(Clone, Debug)]
struct Column {
    number: u64,
    begin_unix_ms: u64,
    reads: [u32; MOST_CELLS],
    writes: [u32; MOST_CELLS],
}

#[derive(Debug)]
struct Map {
    rows_per_column: u64,
    most: usize,
    columns: VecDeque<Column>,
}

/// The maps of a volume.
#[derive(Debug)]
pub(super) struct HeatMaps {
    /// Parts of the counts in a cell.
    parts: usize,
    cells: usize,
    cell_bytes: u64,
    maps: [Map; 2],
}

impl HeatMaps {
    pub(super) fn new(heat: &Heat) -> HeatMaps {
        let parts = heat.reads().len().div_ceil(MOST_CELLS).max(1);
        let map = |(rows_per_column, most)| Map { rows_per_column, most, columns: VecDeque::new() };
        HeatMaps {
            parts,
            cells: heat.reads().len().div_ceil(parts),
            cell_bytes: heat.part_bytes().0 * parts as u64,
            maps: MAPS.map(map),
        }
    }

    /// Adds what was counted in the row with this number, which began then.
    pub(super) fn add(&mut self, row: u64, begin_unix_ms: u64, before: &Heat, after: &Heat) {
        for map in &mut self.maps {
            let number = row.div_ceil(map.rows_per_column);
            if map.columns.back().is_none_or(|last| last.number != number) {
                if map.columns.len() == map.most {
                    map.columns.pop_front();
                }
                map.columns.push_back(Column {
                    number,
                    begin_unix_ms,
                    reads: [0; MOST_CELLS],
                    writes: [0; MOST_CELLS],
                });
            }
            let Some(column) = map.columns.back_mut() else { continue };
            let counted = |cells: &mut [u32; MOST_CELLS], before: &[u64], after: &[u64]| {
                for (part, (before, after)) in before.iter().zip(after).enumerate() {
                    let more = after.saturating_sub(*before).min(u64::from(u32::MAX)) as u32;
                    cells[part / self.parts] = cells[part / self.parts].saturating_add(more);
                }
            };
            counted(&mut column.reads, before.reads(), after.reads());
            counted(&mut column.writes, before.writes(), after.writes());
        }
    }

    /// What has changed since this row.
    pub(super) fn since(&self, row: u64) -> Vec<LiveMap> {
        let map = |map: &Map| LiveMap {
            cell_bytes: self.cell_bytes,
            cells: self.cells as u64,
            rows_per_column: map.rows_per_column,
            most_columns: map.most as u64,
            columns: map
                .columns
                .iter()
                .filter(|column| column.number * map.rows_per_column > row)
                .map(|column| LiveColumn {
                    number: column.number,
                    begin_unix_ms: column.begin_unix_ms,
                    reads: packed(&column.reads[..self.cells]),
                    writes: packed(&column.writes[..self.cells]),
                })
                .collect(),
        };
        self.maps.iter().map(map).collect()
    }
}

/// Counts in which a negative number stands for this many zeros.
fn packed(cells: &[u32]) -> Vec<i64> {
    let mut all: Vec<i64> = Vec::new();
    for cell in cells {
        match (*cell, all.last_mut()) {
            (0, Some(last)) if *last < 0 => *last -= 1,
            (0, _) => all.push(-1),
            (count, _) => all.push(i64::from(count)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;

    use super::*;
    use crate::status::Asked;

    #[test]
    fn cells_count_what_began_in_them_and_columns_are_bounded() {
        let size = Bytes::gib(1);
        let mut before = Heat::new(size);
        let mut maps = HeatMaps::new(&before);
        for row in 1..=5000_u64 {
            let mut after = before.clone();
            after.record(Asked::Write, Bytes(size.0 - 1));
            after.record(Asked::Read, Bytes::mib(16 * (row % 4)));
            maps.add(row, row * 1000, &before, &after);
            before = after;
        }
        let [minutes, hour] = &maps.since(0)[..] else { panic!("two maps") };
        assert_eq!((minutes.columns.len(), hour.columns.len()), (150, 120));
        assert_eq!((minutes.cells, minutes.cell_bytes), (64, 16 << 20));
        let last = minutes.columns.last().unwrap();
        assert_eq!((last.number, last.begin_unix_ms), (2500, 4_999_000));
        // Rows 4999 and 5000.
        assert_eq!((&last.reads, &last.writes), (&vec![1, -2, 1, -60], &vec![-63, 2]));
        // The last column of the hour is for rows 4981 to 5010 and has 20 of them.
        assert_eq!(hour.columns.last().unwrap().writes, [-63, 20]);
        // A reader who has row 4999 gets the columns again that have changed since.
        let counts = |row| maps.since(row).iter().map(|map| map.columns.len()).collect::<Vec<_>>();
        assert_eq!((counts(4999), counts(5000), counts(4998)), (vec![1, 1], vec![0, 1], vec![1, 1]));
    }

    #[test]
    fn small_volumes_have_as_many_cells_as_parts() {
        for size in [1_u64, 511, 100_000, (1 << 20) + 1, 3 << 40] {
            let heat = Heat::new(Bytes(size));
            let maps = HeatMaps::new(&heat);
            assert!(maps.cells <= MOST_CELLS && maps.cells as u64 * maps.cell_bytes >= size, "{size}: {maps:?}");
            assert!((maps.cells as u64 - 1) * maps.cell_bytes < size, "{size}: a cell is beyond the end");
        }
    }

    #[test]
    fn counts_that_began_again_are_no_traffic() {
        let (mut before, after) = (Heat::new(Bytes::mib(1)), Heat::new(Bytes::mib(1)));
        before.record(Asked::Read, Bytes(0));
        let mut maps = HeatMaps::new(&before);
        maps.add(1, 0, &before, &after);
        assert_eq!(maps.since(0)[0].columns[0].reads, [-64]);
    }
}
