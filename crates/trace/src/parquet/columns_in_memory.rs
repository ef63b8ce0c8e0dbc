//! Traces that are columns in memory, such as data frames.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::rows::Columns;
use crate::{
    Account, BATCH, Request, Source, TraceError,
    order::{Order, Sorting},
};

/// A trace in columns of Arrow, with the names and types that [`ParquetSource`](crate::ParquetSource) reads from files, in any
/// order: requests are read in the order of time. Clones and sources share the columns; nothing is copied but the batch of requests that is read.
///
/// ```
/// use arrow_array::RecordBatch;
/// use peryton_trace::{Characteristics, ColumnTrace, Request, record_batch};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let write = |n| Request { at: Nanos::from_us(n), offset: Bytes::kib(4 * n), len: Bytes::kib(4), volume: 0, op: Op::Write };
/// let rows: RecordBatch = record_batch(&(0..10_000).map(write).collect::<Vec<_>>());
/// let trace = ColumnTrace::new("ten thousand writes", rows.schema_ref(), vec![rows.clone()])?;
/// assert_eq!(Characteristics::of(&mut trace.source())?.requests, 10_000);
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnTrace {
    name: Arc<str>,
    schema: Arc<Schema>,
    batches: Arc<[RecordBatch]>,
    columns: Columns,
    sorting: Sorting,
}

impl ColumnTrace {
    /// A trace of these rows, all with this schema; `name` is its name in messages and reports.
    ///
    /// # Errors
    /// A column is missing or has a type that does not fit. Values are checked when they are read.
    pub fn new(name: &str, schema: &Arc<Schema>, batches: Vec<RecordBatch>) -> Result<ColumnTrace, TraceError> {
        let columns = Columns::of(schema).map_err(|message| wrong(name, message))?;
        if let Some(other) = batches.iter().find(|batch| batch.schema_ref() != schema) {
            return Err(wrong(name, format!("a part of it has other columns: {}", other.schema_ref())));
        }
        let mut latest = 0;
        let sorting = match batches.iter().all(|batch| columns.are_in_order(batch, &mut latest)) {
            true => Sorting::Promised,
            false => Sorting::Whole,
        };
        Ok(ColumnTrace { name: name.into(), schema: Arc::clone(schema), batches: batches.into(), columns, sorting })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// The schema of the columns.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The columns.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// The requests, from the first one.
    pub fn source(&self) -> ColumnSource {
        let rows = ColumnRows { trace: self.clone(), part: 0, row: 0, before: 0 };
        ColumnSource { rows, order: Order::new(self.sorting), requests: 0 }
    }
}

/// The requests of a [`ColumnTrace`], in the order of time.
pub struct ColumnSource {
    rows: ColumnRows,
    order: Order,
    requests: u64,
}

impl Source for ColumnSource {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let ColumnSource { rows, order, requests } = self;
        let name = Arc::clone(&rows.trace.name);
        order.next_batch(&name, batch, |out| rows.fill(out))?;
        *requests += batch.len() as u64;
        Ok(())
    }

    fn account(&self) -> Account {
        let mut account = Account { requests: self.requests, ..Account::default() };
        self.order.add_to(&mut account);
        account
    }
}

/// The rows in the order of the columns.
struct ColumnRows {
    trace: ColumnTrace,
    /// The record batch that is read, and its next row.
    part: usize,
    row: usize,
    /// Number of rows in the record batches before it.
    before: u64,
}

impl ColumnRows {
    /// Appends the next rows; false at the end.
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<bool, TraceError> {
        while let Some(part) = self.trace.batches.get(self.part) {
            let rows = (part.num_rows() - self.row).min(BATCH);
            if rows == 0 {
                self.before += part.num_rows() as u64;
                (self.part, self.row) = (self.part + 1, 0);
                continue;
            }
            let first = self.before + self.row as u64;
            let filled = self.trace.columns.fill(&part.slice(self.row, rows), first, 0, out);
            self.row += rows;
            return match filled {
                Ok(()) => Ok(true),
                Err(message) => {
                    self.part = self.trace.batches.len();
                    Err(wrong(&self.trace.name, message))
                }
            };
        }
        Ok(false)
    }
}

fn wrong(name: &str, problem: String) -> TraceError {
    TraceError::Columns { trace: name.to_owned(), problem: super::one_line(&problem) }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
    use peryton_units::{Bytes, Nanos, Op};

    use super::*;

    fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn all(trace: &ColumnTrace) -> Result<Vec<Request>, TraceError> {
        let (mut source, mut batch, mut found) = (trace.source(), Vec::new(), Vec::new());
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(found);
            }
            assert!(batch.len() <= BATCH);
            found.append(&mut batch);
        }
    }

    #[test]
    fn the_columns_of_a_data_frame_are_a_trace_however_they_are_cut() {
        let count = 2 * BATCH + 7;
        let time: Vec<f64> = (0..count).map(|n| 100.0 + n as f64 / 1e3).collect();
        let op: Vec<&str> = (0..count).map(|n| if n % 3 == 0 { "W" } else { "read" }).collect();
        let sector: Vec<i64> = (0..count as i64).map(|n| 8 * n).collect();
        let whole = rows(vec![
            ("noise", Arc::new(Int64Array::from(vec![-1; count]))),
            ("time_s", Arc::new(Float64Array::from(time))),
            ("op", Arc::new(StringViewArray::from(op))),
            ("sector", Arc::new(Int64Array::from(sector))),
            ("sectors", Arc::new(Int64Array::from(vec![16; count]))),
        ]);
        let parts = [0, 1, BATCH + 1, BATCH + 1, count];
        let parts = parts.windows(2).map(|ends| whole.slice(ends[0], ends[1] - ends[0])).collect();
        let one = ColumnTrace::new("whole", whole.schema_ref(), vec![whole.clone()]).unwrap();
        let cut = ColumnTrace::new("cut", whole.schema_ref(), parts).unwrap();
        let found = all(&one).unwrap();
        assert_eq!((found.len() as u64, one.requests(), cut.requests()), (count as u64, count as u64, count as u64));
        assert_eq!(all(&cut).unwrap(), found);
        let third =
            Request { at: Nanos::from_ms(3), offset: Bytes(24 * 512), len: Bytes::kib(8), volume: 0, op: Op::Write };
        assert_eq!(found[3], third);
    }

    /// The fear: the span of a data frame that is not sorted is 0.0 s.
    #[test]
    fn rows_in_any_order_are_read_in_the_order_of_time() {
        let count = 3 * BATCH as i64;
        let numbers =
            |value: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..count).rev().map(value))) };
        let batch = rows(vec![
            ("time_ms", numbers(|n| 50 + n)),
            ("op", numbers(|_| 1)),
            ("offset", numbers(|n| 4096 * n)),
            ("length", numbers(|_| 4096)),
        ]);
        let trace = ColumnTrace::new("frame", batch.schema_ref(), vec![batch.clone()]).unwrap();
        let found = all(&trace).unwrap();
        assert!(
            found.iter().zip(0..).all(|(request, n)| request.at == Nanos::from_ms(n) && request.offset.0 == 4096 * n)
        );
        assert_eq!(found.len() as i64, count);
        let mut source = trace.source();
        source.next_batch(&mut Vec::new()).unwrap();
        assert_eq!((source.account().moved as i64, source.account().start), (count - 1, Nanos::from_ms(50)));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_row() {
        let numbers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let trace = |offset: Vec<i64>| {
            let zero = vec![0; offset.len()];
            let length = vec![512; offset.len()];
            let batch = rows(vec![
                ("time_ns", numbers(zero.clone())),
                ("op", numbers(zero)),
                ("offset", numbers(offset)),
                ("length", numbers(length)),
            ]);
            ColumnTrace::new("frame", batch.schema_ref(), vec![batch.clone()]).unwrap()
        };
        let mut offsets = vec![0; BATCH + 2];
        offsets[BATCH + 1] = -5;
        let error = all(&trace(offsets)).unwrap_err().to_string();
        assert_eq!(error, format!("frame: row {}: offset is -5, expected a number from 0 to {}", BATCH + 2, u64::MAX));
        let batch = rows(vec![("time_ns", numbers(vec![0]))]);
        let error = ColumnTrace::new("frame", batch.schema_ref(), vec![batch.clone()]).unwrap_err().to_string();
        assert!(error.starts_with("frame: has no column 'op' (it has: time_ns): rename the column"), "{error}");
    }
}
