//! Rows of columns as requests: what files in Parquet and columns in memory share.

use std::borrow::Cow;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use peryton_units::{Bytes, Nanos, Op};

use super::column::{is_number, is_text, numbers, words};
use crate::Request;

/// The indices of the columns, and the factor that converts each to bytes or nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    time: (usize, u64),
    op: usize,
    volume: Option<usize>,
    offset: (usize, u64),
    length: (usize, u64),
}

const TIMES: &[(&str, u64)] = &[("time_ns", 1), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];
const OFFSETS: &[(&str, u64)] = &[("offset", 1), ("sector", 512)];
const LENGTHS: &[(&str, u64)] = &[("length", 1), ("sectors", 512)];

impl Columns {
    /// Finds the columns of a trace in a schema, and checks their types.
    pub(super) fn of(schema: &Schema) -> Result<Columns, String> {
        let columns = Columns {
            time: pick(schema, TIMES)?,
            op: find(schema, "op")?,
            volume: schema.index_of("volume").ok(),
            offset: pick(schema, OFFSETS)?,
            length: pick(schema, LENGTHS)?,
        };
        for column in columns.indices() {
            let field = schema.field(column);
            let word = column == columns.op && is_text(field.data_type());
            if !word && !is_number(field.data_type()) {
                return Err(format!(
                    "column '{}' has type {}, expected whole numbers",
                    field.name(),
                    field.data_type()
                ));
            }
        }
        Ok(columns)
    }

    /// The indices of the columns that are read.
    pub(super) fn indices(&self) -> Vec<usize> {
        let Columns { time, op, volume, offset, length } = self;
        [time.0, *op, offset.0, length.0].into_iter().chain(*volume).collect()
    }

    /// Whether the rows are in order of time after one at `latest`, which becomes the time of the last. Rows without a time say
    /// so when they are read.
    pub(super) fn are_in_order(&self, rows: &RecordBatch, latest: &mut u64) -> bool {
        let Ok(times) = numbers(rows.column(self.time.0), self.time.1) else { return true };
        let sorted = times.is_sorted() && times.first().is_none_or(|first| first >= latest);
        *latest = times.last().copied().unwrap_or(*latest);
        sorted
    }

    /// Appends the rows to `batch`, with `start` added to their times. `before` is the number of rows before these, for
    /// errors.
    pub(super) fn fill(
        &self,
        rows: &RecordBatch,
        before: u64,
        start: u64,
        batch: &mut Vec<Request>,
    ) -> Result<(), String> {
        let at = |name: &'static str| {
            move |(row, what): (usize, String)| format!("row {}: {name} {what}", before + row as u64 + 1)
        };
        let time = numbers(rows.column(self.time.0), self.time.1).map_err(at("time"))?;
        let op = ops(rows.column(self.op)).map_err(at("op"))?;
        let offset = numbers(rows.column(self.offset.0), self.offset.1).map_err(at("offset"))?;
        let length = numbers(rows.column(self.length.0), self.length.1).map_err(at("length"))?;
        let volume = match self.volume {
            Some(column) => numbers(rows.column(column), 1).map_err(at("volume"))?,
            None => Cow::Borrowed(&[][..]),
        };
        if let Some(row) = volume.iter().position(|&v| v > u64::from(u32::MAX)) {
            return Err(at("volume")((row, format!("is {}, expected at most {}", volume[row], u32::MAX))));
        }
        if let Some(row) = (0..rows.num_rows()).find(|&i| offset[i].checked_add(length[i]).is_none()) {
            return Err(at("offset")((row, format!("{} + length {} passes 2^64", offset[row], length[row]))));
        }
        let columns = time.iter().zip(op.iter()).zip(offset.iter()).zip(length.iter()).enumerate();
        batch.extend(columns.map(|(row, (((&time, &op), &offset), &len))| Request {
            at: Nanos(time.saturating_add(start)),
            offset: Bytes(offset),
            len: Bytes(len),
            volume: volume.get(row).map_or(0, |&v| v as u32),
            op: Op::ALL[usize::from(op & 3)],
        }));
        Ok(())
    }
}

/// The first of the named columns that exists in the file, and its factor.
fn pick(schema: &Schema, names: &[(&str, u64)]) -> Result<(usize, u64), String> {
    let found = names.iter().find_map(|(name, scale)| Some((schema.index_of(name).ok()?, *scale)));
    found.ok_or_else(|| missing(schema, &names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("' or '")))
}

fn find(schema: &Schema, name: &str) -> Result<usize, String> {
    schema.index_of(name).map_err(|_| missing(schema, name))
}

fn missing(schema: &Schema, names: &str) -> String {
    let present = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    format!(
        "has no column '{names}' (it has: {present}): rename the column, or convert the trace from its original format"
    )
}

/// Checked codes of operations.
fn ops(array: &ArrayRef) -> Result<Cow<'_, [u8]>, (usize, String)> {
    if let Some(words) = words(array)? {
        let mut codes = Vec::with_capacity(words.len());
        for (row, word) in words.into_iter().enumerate() {
            let op = match word.to_ascii_lowercase().as_str() {
                "r" | "read" => Op::Read,
                "w" | "write" => Op::Write,
                "d" | "discard" | "trim" | "unmap" => Op::Discard,
                "f" | "flush" => Op::Flush,
                _ => return Err((row, format!("is '{word}', expected read, write, discard or flush"))),
            };
            codes.push(op as u8);
        }
        return Ok(Cow::Owned(codes));
    }
    let codes = match array.as_any().downcast_ref::<arrow_array::UInt8Array>() {
        Some(codes) if codes.null_count() == 0 => Cow::Borrowed(&codes.values()[..]),
        _ => Cow::Owned(numbers(array, 1)?.iter().map(|&code| u8::try_from(code).unwrap_or(u8::MAX)).collect()),
    };
    match codes.iter().position(|&code| Op::from_code(code).is_none()) {
        Some(row) => {
            Err((row, format!("has code {}, expected 0 (read), 1 (write), 2 (discard) or 3 (flush)", codes[row])))
        }
        None => Ok(codes),
    }
}
