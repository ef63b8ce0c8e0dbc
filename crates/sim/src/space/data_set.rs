//! A folder of rows, each added as soon as it is known.
//!
//! Rows are written in parts, `part-000001.parquet` and so on. A part gets its name when it is complete and on the device, so a
//! process that is killed leaves no half of one. Many small parts are merged into a larger one; if the process is killed before
//! it has removed those that went into it, the next opening does.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{error::SpaceError, point::Row};
use crate::{Column, Columns, parquet_table};

/// Parts with fewer rows than this are small.
const SMALL: usize = 1_024;
/// The most small parts before they are merged.
const MOST_SMALL: usize = 64;
/// The most rows of a part of a data set that is finished.
const MOST_ROWS: usize = 65_536;
/// What a part is called while it is being written. Readers of data sets leave out names that begin with an underscore.
const PARTIAL: &str = "_partial";
/// The file whose lock says that a sweep writes here.
const LOCK: &str = "_lock";

/// A folder of rows in Parquet, which one process writes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let parent = tempfile::tempdir()?;
/// let path = parent.path().join("rows");
/// let mut rows = peryton_sim::DataSet::open(&path)?;
/// assert!(rows.figures(&["iops".to_owned()])?.is_empty());
/// let row = serde_json::json!({ "point": "a1", "status": "ok", "iops": 12.5 });
/// rows.add(vec![row.as_object().cloned().expect("it is a row")])?;
/// drop(rows);
/// // It is there when the folder is opened again, without an error.
/// assert_eq!(peryton_sim::DataSet::open(&path)?.known("a1"), Some(true));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DataSet {
    path: PathBuf,
    /// Whether a point is there without an error.
    known: HashMap<String, bool>,
    parts: Vec<Part>,
    next: u32,
    /// Held as long as the folder is in use.
    _lock: File,
}

#[derive(Debug)]
struct Part {
    file: PathBuf,
    rows: usize,
}

/// The column with the hash of a point, and that with what came of it.
const POINT: &str = "point";
const STATUS: &str = "status";
/// The first columns; then come the values of the sweep, and the figures by name.
const FIRST: &[&str] =
    &[POINT, STATUS, "error", "design", "design_file", "design_hash", "trace", "trace_files_hash", "replay"];

impl DataSet {
    /// Opens the folder of a sweep, or makes it.
    ///
    /// # Errors
    /// Another process writes into it, there is something else in it, or it cannot be read or made.
    pub fn open(path: impl Into<PathBuf>) -> Result<DataSet, SpaceError> {
        let path: PathBuf = path.into();
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SpaceError::Io { path, source }
        };
        fs::create_dir_all(&path).map_err(failed(&path))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed(&path))? {
            found.push(entry.map_err(failed(&path))?.file_name().to_string_lossy().into_owned());
        }
        found.sort();
        // An optimiser keeps its trials here as well (`_study.journal`).
        let is_ours = |name: &String| number(name).is_some() || name.starts_with('_');
        if let Some(other) = found.iter().find(|name| !is_ours(name)) {
            return Err(SpaceError::NotADataSet { path, found: other.clone() });
        }
        let lock = path.join(LOCK);
        let lock = File::options().create(true).append(true).open(&lock).map_err(failed(&lock))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SpaceError::InUse { path }),
            Err(error) => return Err(SpaceError::Io { path, source: error.into() }),
        }
        let mut set = DataSet { path, known: HashMap::new(), parts: Vec::new(), next: 1, _lock: lock };
        for name in found.iter().filter(|name| name.starts_with(PARTIAL)) {
            set.removed(&set.path.join(name))?;
        }
        let mut numbered: Vec<(u32, &String)> = found.iter().filter_map(|name| Some((number(name)?, name))).collect();
        // A merged part is newer than those that went into it.
        numbered.sort_unstable_by(|a, b| b.cmp(a));
        for (number, name) in numbered {
            let file = set.path.join(name);
            let table = read(&file, is_key)?;
            let points = points(&table, &file)?;
            set.next = set.next.max(number + 1);
            if points.iter().all(|(point, _)| set.known.contains_key(point)) {
                set.removed(&file)?;
                continue;
            }
            set.parts.push(Part { file, rows: points.len() });
            // Of a point that was simulated again after an error, the newer row counts.
            for (point, is_ok) in points {
                set.known.entry(point).or_insert(is_ok);
            }
        }
        set.parts.reverse();
        Ok(set)
    }

    /// Whether a point is there without an error; `None` if it is not there.
    pub fn known(&self, point: &str) -> Option<bool> {
        self.known.get(point).copied()
    }

    /// The figures of these names in each row, beside its point; of a point with several rows, the newest.
    ///
    /// # Errors
    /// The parts cannot be read.
    pub fn figures(&self, names: &[String]) -> Result<Vec<Row>, SpaceError> {
        if self.parts.is_empty() {
            return Ok(Vec::new());
        }
        let wanted = |name: &str| is_key(name) || name == "error" || names.iter().any(|known| known == name);
        let table = self.merged(&self.parts, wanted)?;
        let row = |row: usize| {
            let pairs = table.columns().iter().filter_map(|(name, column)| Some((name.clone(), column.value(row)?)));
            pairs.collect::<Row>()
        };
        Ok((0..table.rows()).map(row).collect())
    }

    /// Adds rows; they are on the device when this returns.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn add(&mut self, rows: Vec<Row>) -> Result<(), SpaceError> {
        if rows.is_empty() {
            return Ok(());
        }
        let table = Columns::of(&rows);
        for (point, is_ok) in points(&table, &self.path)? {
            self.known.insert(point, is_ok);
        }
        self.write(&table.arranged())?;
        let small = |part: &&Part| part.rows < SMALL;
        if self.parts.iter().filter(small).count() >= MOST_SMALL {
            let (small, large) = std::mem::take(&mut self.parts).into_iter().partition(|part| part.rows < SMALL);
            self.parts = large;
            let table = self.merged(&small, |_| true)?;
            self.write(&table.arranged())?;
            small.iter().try_for_each(|part| self.removed(&part.file))?;
        }
        Ok(())
    }

    /// Puts all rows in the order of these points, into as few parts as possible; others follow, by their hash. After this, the
    /// same rows are the same bytes, however they came.
    ///
    /// # Errors
    /// The parts cannot be read or written.
    pub fn finish(&mut self, order: &HashMap<String, usize>) -> Result<(), SpaceError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let parts = std::mem::take(&mut self.parts);
        let table = self.merged(&parts, |_| true)?;
        let points = points(&table, &self.path)?;
        let place = |row: &usize| order.get(&points[*row].0).copied().unwrap_or(usize::MAX);
        let mut rows: Vec<usize> = (0..points.len()).collect();
        rows.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| points[*a].0.cmp(&points[*b].0)));
        for rows in rows.chunks(MOST_ROWS) {
            self.write(&table.rows_at(rows).arranged())?;
        }
        parts.iter().try_for_each(|part| self.removed(&part.file))?;
        // Without gaps, the names are the same as well.
        let parts = std::mem::take(&mut self.parts);
        for (number, part) in (1..).zip(parts) {
            let file = self.path.join(name(number));
            fs::rename(&part.file, &file).map_err(|source| SpaceError::Io { path: file.clone(), source })?;
            self.parts.push(Part { file, ..part });
            self.next = number + 1;
        }
        Ok(())
    }

    /// The rows of parts with the wanted columns, each point once: its newest row.
    fn merged(&self, parts: &[Part], wanted: impl Fn(&str) -> bool) -> Result<Columns, SpaceError> {
        let tables = parts.iter().map(|part| read(&part.file, &wanted)).collect::<Result<Vec<_>, _>>()?;
        let table = Columns::joined(tables);
        let (points, mut seen) = (points(&table, &self.path)?, HashSet::new());
        let newest = |row: &usize| seen.insert(points[*row].0.as_str());
        let mut rows: Vec<usize> = (0..points.len()).rev().filter(newest).collect();
        rows.reverse();
        Ok(table.rows_at(&rows))
    }

    fn write(&mut self, table: &Columns) -> Result<(), SpaceError> {
        let (partial, file) = (self.path.join(PARTIAL), self.path.join(name(self.next)));
        let failed = |source| SpaceError::Io { path: partial.clone(), source };
        let out = File::create(&partial).map_err(failed)?;
        let out = parquet_table::write(table, BufWriter::new(out)).map_err(failed)?;
        let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
        out.sync_all().map_err(failed)?;
        fs::rename(&partial, &file).map_err(|source| SpaceError::Io { path: file.clone(), source })?;
        self.next += 1;
        self.parts.push(Part { file, rows: table.rows() });
        let folder = File::open(&self.path).and_then(|folder| folder.sync_all());
        folder.map_err(|source| SpaceError::Io { path: self.path.clone(), source })
    }

    fn removed(&self, file: &Path) -> Result<(), SpaceError> {
        fs::remove_file(file).map_err(|source| SpaceError::Io { path: file.to_owned(), source })
    }
}

fn name(number: u32) -> String {
    format!("part-{number:06}.parquet")
}

fn number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn read(file: &Path, wanted: impl Fn(&str) -> bool) -> Result<Columns, SpaceError> {
    let open = File::open(file).and_then(|file| parquet_table::read(file, wanted));
    open.map_err(|source| SpaceError::Io { path: file.to_owned(), source })
}

/// Whether this is a column that [`points`] needs.
fn is_key(column: &str) -> bool {
    column == POINT || column == STATUS
}

/// The points of a table, and whether each was simulated without an error.
fn points(table: &Columns, file: &Path) -> Result<Vec<(String, bool)>, SpaceError> {
    let column = |name: &str| match table.columns().iter().find(|(known, _)| known == name) {
        Some((_, Column::Text(texts))) => Ok(texts),
        _ => {
            let source = io::Error::other(format!("has no column '{name}': no sweep wrote it"));
            Err(SpaceError::Io { path: file.to_owned(), source })
        }
    };
    let pairs = column(POINT)?.iter().zip(column(STATUS)?);
    Ok(pairs.map(|(point, status)| (point.clone().unwrap_or_default(), status.as_deref() == Some("ok"))).collect())
}

impl Columns {
    /// The same columns in an order that does not depend on that of the rows.
    fn arranged(self) -> Columns {
        let rank = |name: &str| {
            let first = FIRST.iter().position(|first| *first == name);
            first.unwrap_or(FIRST.len() + usize::from(!name.starts_with("sweep.")))
        };
        self.sorted_by_name(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn row(point: u32, status: &str) -> Row {
        let figure = format!("only.{}", point % 7);
        let row = json!({ "point": format!("{point:04}"), "status": status, "iops": f64::from(point), figure: point });
        row.as_object().unwrap().clone()
    }

    fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name() != LOCK)
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        found.sort();
        found
    }

    /// The fear: rows are lost or doubled where parts are merged, or the bytes depend on the order in which rows came.
    #[test]
    fn rows_in_any_order_become_the_same_bytes() {
        let parent = tempfile::tempdir().unwrap();
        let order: HashMap<String, usize> = (0..300).map(|point| (format!("{point:04}"), point as usize)).collect();
        let mut results = Vec::new();
        for (name, step) in [("a", 1), ("b", 7), ("c", 11)] {
            let path = parent.path().join(name);
            for half in 0..2 {
                let mut set = DataSet::open(&path).unwrap();
                for number in half * 150..(half + 1) * 150 {
                    let point = number * step % 300;
                    assert_eq!(set.known(&format!("{point:04}")), None);
                    set.add(vec![row(point, "ok")]).unwrap();
                }
                assert!(set.parts.len() < MOST_SMALL, "{}", set.parts.len());
                if half == 1 {
                    set.finish(&order).unwrap();
                }
            }
            let set = DataSet::open(&path).unwrap();
            assert_eq!(set.known.len(), 300);
            results.push(files(&path));
        }
        assert_eq!(results[0].len(), 1);
        assert_eq!(results[0], results[1]);
        assert_eq!(results[0], results[2]);
    }

    #[test]
    fn a_process_that_died_while_it_merged_leaves_no_row_twice() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path();
        let mut set = DataSet::open(path).unwrap();
        (0..3).for_each(|point| set.add(vec![row(point, "ok")]).unwrap());
        let (left, bytes) = files(path).swap_remove(1);
        set.finish(&HashMap::new()).unwrap();
        drop(set);
        // The merged part has the newest number; one that went into it was not removed, and another write broke off.
        fs::rename(path.join(name(1)), path.join(name(9))).unwrap();
        fs::write(path.join(left), bytes).unwrap();
        fs::write(path.join(PARTIAL), b"PAR1 and no more").unwrap();
        let set = DataSet::open(path).unwrap();
        assert_eq!(files(path).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), [name(9)]);
        assert_eq!((set.known.len(), set.next), (3, 10));
    }

    #[test]
    fn a_point_that_was_simulated_again_has_its_newest_row() {
        let parent = tempfile::tempdir().unwrap();
        let mut set = DataSet::open(parent.path()).unwrap();
        set.add(vec![row(1, "error")]).unwrap();
        assert_eq!(set.known("0001"), Some(false));
        set.add(vec![row(1, "ok"), row(2, "ok")]).unwrap();
        drop(set);
        let mut set = DataSet::open(parent.path()).unwrap();
        assert_eq!(set.known("0001"), Some(true));
        set.finish(&HashMap::new()).unwrap();
        let table = read(&parent.path().join(name(1)), |_| true).unwrap();
        assert_eq!(points(&table, Path::new("")).unwrap(), [("0001".to_owned(), true), ("0002".to_owned(), true)]);
    }

    #[test]
    fn folders_in_use_or_of_others_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let set = DataSet::open(parent.path().join("mine")).unwrap();
        let error = DataSet::open(parent.path().join("mine")).unwrap_err().to_string();
        assert!(error.contains("another sweep writes"), "{error}");
        drop(set);
        DataSet::open(parent.path().join("mine")).unwrap();
        let error = DataSet::open(parent.path()).unwrap_err().to_string();
        assert!(error.contains("'mine', which no sweep wrote"), "{error}");
    }
}
