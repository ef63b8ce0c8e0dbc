//! Reports as columns of a table, for spreadsheets, Parquet and data frames.

#[cfg(feature = "parquet")]
use std::cmp::Ordering;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use crate::Report;

/// The values of a column; a figure that does not apply to a row is `None`.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Whole numbers.
    Whole(Vec<Option<u64>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// True or false.
    Truth(Vec<Option<bool>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// A table of named columns of the same length. The names are the dotted names of the figures in the JSON, in its order, such
/// as `latency_us.read.p99`; lists are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    columns: Vec<(String, Column)>,
    at: HashMap<String, usize>,
    rows: usize,
}

impl Columns {
    /// A row for each report.
    pub fn of_reports(reports: &mut [Report]) -> Columns {
        let mut table = Columns::default();
        for report in reports {
            // What would be left out anyway need not be converted.
            let intervals = std::mem::take(&mut report.intervals);
            let histograms = std::mem::take(&mut report.latency_histogram_us);
            table.add(&[], &*report);
            (report.intervals, report.latency_histogram_us) = (intervals, histograms);
        }
        table
    }

    /// A row for each of these.
    pub fn of(rows: &[impl Serialize]) -> Columns {
        let mut table = Columns::default();
        rows.iter().for_each(|row| table.add(&[], row));
        table
    }

    /// A row for each interval of each report; the first columns are `report`, the report's place in the list from 0, and
    /// `design`, the name of its design.
    pub fn of_intervals(reports: &[Report]) -> Columns {
        let mut table = Columns::default();
        for (number, report) in reports.iter().enumerate() {
            for interval in &report.intervals {
                table.add(&keys(number, report), interval);
            }
        }
        table
    }

    /// A row for each bucket of the histograms of each report: `report`, `design`, `kind` (`read`, `write`, `flush`, `discard`,
    /// `write_then_flush`), `from_us`, `to_us` and `count`.
    pub fn of_histograms(reports: &[Report]) -> Columns {
        let (mut numbers, mut designs, mut kinds) = (vec![], vec![], vec![]);
        let (mut from, mut to, mut count) = (vec![], vec![], vec![]);
        for (number, report) in reports.iter().enumerate() {
            for (kind, histogram) in report.latency_histogram_us.named() {
                numbers.extend(histogram.count.iter().map(|_| Some(number as u64)));
                designs.extend(histogram.count.iter().map(|_| Some(report.design.clone())));
                kinds.extend(histogram.count.iter().map(|_| Some(kind.to_owned())));
                from.extend(histogram.from.iter().copied().map(Some));
                to.extend(histogram.to.iter().copied().map(Some));
                count.extend(histogram.count.iter().copied().map(Some));
            }
        }
        let rows = count.len();
        let columns = vec![
            ("report".to_owned(), Column::Whole(numbers)),
            ("design".to_owned(), Column::Text(designs)),
            ("kind".to_owned(), Column::Text(kinds)),
            ("from_us".to_owned(), Column::Number(from)),
            ("to_us".to_owned(), Column::Number(to)),
            ("count".to_owned(), Column::Whole(count)),
        ];
        Columns::of_columns(columns, rows)
    }

    /// A table of columns of the same length.
    pub(crate) fn of_columns(columns: Vec<(String, Column)>, rows: usize) -> Columns {
        let at = columns.iter().enumerate().map(|(index, (name, _))| (name.clone(), index)).collect();
        Columns { columns, at, rows }
    }

    /// The rows of tables one after the other. A column that a table does not have is absent in its rows.
    #[cfg(feature = "parquet")]
    pub(crate) fn joined(tables: Vec<Columns>) -> Columns {
        let mut all = Columns::default();
        for table in tables {
            for (name, column) in table.columns {
                let index = all.at.get(&name).copied().unwrap_or_else(|| {
                    all.columns.push((name.clone(), column.empty()));
                    all.at.insert(name, all.columns.len() - 1);
                    all.columns.len() - 1
                });
                let into = &mut all.columns[index].1;
                into.lengthen(all.rows);
                into.append(column);
            }
            all.rows += table.rows;
        }
        let rows = all.rows;
        all.columns.iter_mut().for_each(|(_, column)| column.lengthen(rows));
        all
    }

    /// These rows, in this order, without columns that are absent in all of them.
    #[cfg(feature = "parquet")]
    pub(crate) fn rows_at(&self, rows: &[usize]) -> Columns {
        let columns = self.columns.iter().map(|(name, column)| (name.clone(), column.rows_at(rows)));
        Columns::of_columns(columns.filter(|(_, column)| !column.is_absent()).collect(), rows.len())
    }

    /// The same columns in an order of their names.
    #[cfg(feature = "parquet")]
    pub(crate) fn sorted_by_name(mut self, order: impl Fn(&str, &str) -> Ordering) -> Columns {
        self.columns.sort_by(|(a, _), (b, _)| order(a, b));
        Columns::of_columns(self.columns, self.rows)
    }

    /// A row for each warning of each report: `report`, `design`, `code`, `message` and `remedy`.
    pub fn of_warnings(reports: &[Report]) -> Columns {
        let mut table = Columns::default();
        for (number, report) in reports.iter().enumerate() {
            for warning in &report.warnings {
                table.add(&keys(number, report), warning);
            }
        }
        table
    }

    /// A row for each volume of each report with several: `report`, `design`, `volume` (from 0), and the volume's figures.
    pub fn of_volumes(reports: &[Report]) -> Columns {
        let mut table = Columns::default();
        for (number, report) in reports.iter().enumerate() {
            for (volume, figures) in report.volumes.iter().enumerate() {
                let [report, design] = keys(number, report);
                table.add(&[report, design, ("volume", Value::from(volume))], figures);
            }
        }
        table
    }

    /// The same table with the number of each row, from 0, as the first column.
    pub fn numbered(mut self, name: &str) -> Columns {
        let numbers = (0..self.rows as u64).map(Some).collect();
        self.columns.insert(0, (name.to_owned(), Column::Whole(numbers)));
        Columns::of_columns(self.columns, self.rows)
    }

    /// The columns with their names.
    pub fn columns(&self) -> &[(String, Column)] {
        &self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn add(&mut self, first: &[(&str, Value)], row: &impl Serialize) {
        let value = serde_json::to_value(row).expect("a report has names and finite numbers");
        for (name, key) in first {
            self.put(name, key.clone());
        }
        leaves("", value, &mut |name, leaf| self.put(name, leaf));
        self.rows += 1;
        let rows = self.rows;
        self.columns.iter_mut().for_each(|(_, column)| column.lengthen(rows));
    }

    fn put(&mut self, name: &str, value: Value) {
        let index = self.at.get(name).copied().unwrap_or_else(|| {
            self.columns.push((name.to_owned(), Column::like(&value)));
            self.at.insert(name.to_owned(), self.columns.len() - 1);
            self.columns.len() - 1
        });
        let column = &mut self.columns[index].1;
        column.lengthen(self.rows);
        column.push(value);
    }
}

/// Calls `put` with each figure and its dotted name; lists have no place in a row.
pub(crate) fn leaves(name: &str, value: Value, put: &mut impl FnMut(&str, Value)) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                leaves(&name, value, put);
            }
        }
        Value::Array(_) | Value::Null => {}
        leaf => put(name, leaf),
    }
}

/// The columns that say which report a row belongs to. Names of designs need not be unique.
fn keys(number: usize, report: &Report) -> [(&'static str, Value); 2] {
    [("report", Value::from(number)), ("design", Value::from(report.design.as_str()))]
}

impl Column {
    fn like(value: &Value) -> Column {
        match value {
            Value::Number(number) if number.is_u64() => Column::Whole(Vec::new()),
            Value::Number(_) => Column::Number(Vec::new()),
            Value::Bool(_) => Column::Truth(Vec::new()),
            _ => Column::Text(Vec::new()),
        }
    }

    fn push(&mut self, value: Value) {
        match self {
            Column::Whole(column) => column.push(value.as_u64()),
            Column::Number(column) => column.push(value.as_f64()),
            Column::Truth(column) => column.push(value.as_bool()),
            Column::Text(column) => column.push(match value {
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            }),
        }
    }

    /// Fills up with absent values.
    fn lengthen(&mut self, rows: usize) {
        match self {
            Column::Whole(column) if column.len() < rows => column.resize(rows, None),
            Column::Number(column) if column.len() < rows => column.resize(rows, None),
            Column::Truth(column) if column.len() < rows => column.resize(rows, None),
            Column::Text(column) if column.len() < rows => column.resize(rows, None),
            _ => {}
        }
    }

    /// The value in a row; `None` if it is absent.
    #[cfg(feature = "parquet")]
    pub(crate) fn value(&self, row: usize) -> Option<Value> {
        match self {
            Column::Whole(column) => column[row].map(Value::from),
            Column::Number(column) => column[row].map(Value::from),
            Column::Truth(column) => column[row].map(Value::from),
            Column::Text(column) => column[row].clone().map(Value::from),
        }
    }

    #[cfg(feature = "parquet")]
    fn empty(&self) -> Column {
        self.rows_at(&[])
    }

    /// The values in these rows.
    #[cfg(feature = "parquet")]
    fn rows_at(&self, rows: &[usize]) -> Column {
        fn taken<T: Clone>(values: &[Option<T>], rows: &[usize]) -> Vec<Option<T>> {
            rows.iter().map(|row| values[*row].clone()).collect()
        }
        match self {
            Column::Whole(values) => Column::Whole(taken(values, rows)),
            Column::Number(values) => Column::Number(taken(values, rows)),
            Column::Truth(values) => Column::Truth(taken(values, rows)),
            Column::Text(values) => Column::Text(taken(values, rows)),
        }
    }

    #[cfg(feature = "parquet")]
    fn is_absent(&self) -> bool {
        match self {
            Column::Whole(values) => values.iter().all(Option::is_none),
            Column::Number(values) => values.iter().all(Option::is_none),
            Column::Truth(values) => values.iter().all(Option::is_none),
            Column::Text(values) => values.iter().all(Option::is_none),
        }
    }

    /// Adds the values of another column. Figures have one type in all tables; if another version had another one, numbers
    /// stay numbers and everything else is absent.
    #[cfg(feature = "parquet")]
    fn append(&mut self, other: Column) {
        match (self, other) {
            (Column::Whole(values), Column::Whole(more)) => values.extend(more),
            (Column::Number(values), Column::Number(more)) => values.extend(more),
            (Column::Truth(values), Column::Truth(more)) => values.extend(more),
            (Column::Text(values), Column::Text(more)) => values.extend(more),
            (Column::Number(values), Column::Whole(more)) => {
                values.extend(more.into_iter().map(|number| number.map(|number| number as f64)));
            }
            (mine, other) => {
                let rows = mine.len() + other.len();
                mine.lengthen(rows);
            }
        }
    }

    #[cfg(feature = "parquet")]
    fn len(&self) -> usize {
        match self {
            Column::Whole(values) => values.len(),
            Column::Number(values) => values.len(),
            Column::Truth(values) => values.len(),
            Column::Text(values) => values.len(),
        }
    }

    /// The value in a row as text; `None` if it is absent.
    pub fn text(&self, row: usize) -> Option<String> {
        match self {
            Column::Whole(column) => column[row].map(|number| number.to_string()),
            // The digits of the JSON.
            Column::Number(column) => column[row].map(|number| Value::from(number).to_string()),
            Column::Truth(column) => column[row].map(|truth| truth.to_string()),
            Column::Text(column) => column[row].clone(),
        }
    }
}
