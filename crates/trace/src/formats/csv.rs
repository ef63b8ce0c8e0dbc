//! Plain CSV with named columns, in any order, separated by commas, semicolons or tabs, quoted or not:
//!
//! | column | meaning |
//! |---|---|
//! | `time_ns`, `time_us`, `time_ms` or `time_s` | arrival, whole or with decimals |
//! | `op` | `R`, `W`, `D` (discard) or `F` (flush), or `read`, `write`, `discard` or `trim`, `flush` or `sync` |
//! | `offset`, `length` | in bytes; or |
//! | `sector`, `sectors` | in 512 bytes |
//! | `volume` | optional number |
//!
//! Other columns are ignored. The offset and length of a flush may be empty.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    decode::{Decoded, LineFormat, Or, Problem, Sink},
    field::{Fields, nanos, op, whole, whole_u32},
};

/// The most columns; a block trace does not have more.
const MAX_COLUMNS: usize = 256;

#[derive(Clone, Copy)]
enum Column {
    Time(u64),
    Op,
    Offset(u64),
    Length(u64),
    Volume,
    Other,
}

pub(crate) struct Csv {
    separator: u8,
    columns: Vec<Column>,
    header_seen: bool,
}

impl Csv {
    /// Reads the header. The error is the problem if the header lacks a column or has one twice.
    pub(crate) fn new(head: Head<'_>) -> Result<Csv, Problem> {
        let header = head.first_line();
        let count = |separator: u8| header.iter().filter(|&&byte| byte == separator).count();
        let separator = [b',', b';', b'\t'].into_iter().rev().max_by_key(|&separator| count(separator));
        let separator = separator.expect("three to choose from");
        let mut columns = Vec::new();
        for field in split(header, separator).iter() {
            if columns.len() == MAX_COLUMNS {
                return Err("a header of more than 256 columns".into());
            }
            columns.push(match field.trim_ascii().to_ascii_lowercase().as_slice() {
                b"time_ns" => Column::Time(1),
                b"time_us" => Column::Time(1_000),
                b"time_ms" => Column::Time(1_000_000),
                b"time_s" => Column::Time(1_000_000_000),
                b"op" => Column::Op,
                b"offset" => Column::Offset(1),
                b"length" => Column::Length(1),
                b"sector" => Column::Offset(512),
                b"sectors" => Column::Length(512),
                b"volume" => Column::Volume,
                _ => Column::Other,
            });
        }
        let one = |what: &str, is: fn(&Column) -> bool| match columns.iter().filter(|column| is(column)).count() {
            1 => Ok(()),
            0 => Err(Problem(format!("the header has no column {what}").into())),
            _ => Err(Problem(format!("the header has more than one column {what}").into())),
        };
        one("time_ns, time_us, time_ms or time_s", |column| matches!(column, Column::Time(_)))?;
        one("op", |column| matches!(column, Column::Op))?;
        one("offset (bytes) or sector (512 bytes)", |column| matches!(column, Column::Offset(_)))?;
        one("length (bytes) or sectors (512 bytes)", |column| matches!(column, Column::Length(_)))?;
        if columns.iter().filter(|column| matches!(column, Column::Volume)).count() > 1 {
            return Err("the header has more than one column volume".into());
        }
        Ok(Csv { separator, columns, header_seen: false })
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if !head.is_text() {
        return 0;
    }
    match Csv::new(head) {
        // The header alone is sufficient, but a file of another format may have a header too.
        Ok(csv) => likeness(head, csv).max(60),
        Err(_) => 0,
    }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "name the columns time_us (or _ns, _ms, _s), op, offset and length, or sector and sectors";
    let csv = Csv::new(head).map_err(|problem| head.unfit(&name, &problem.0, remedy))?;
    lines(input, csv, options)
}

/// The fields of a line with quoted fields; separators inside quotes do not count.
fn split(line: &[u8], separator: u8) -> Vec<Cow<'_, [u8]>> {
    let mut fields = vec![Vec::new()];
    let mut quoted = false;
    for &byte in line {
        match byte {
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => fields.push(Vec::new()),
            _ => fields.last_mut().expect("at least one").push(byte),
        }
    }
    fields.into_iter().map(Cow::Owned).collect()
}

impl LineFormat for Csv {
    const EXPECTED: &'static str = "a header of time_ns|us|ms|s, op, offset and length (bytes) or sector and sectors, [volume]; then as it says (csv)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if !self.header_seen {
            self.header_seen = !line.trim_ascii().is_empty();
            return Ok(());
        }
        if memchr::memchr(b'"', line).is_some() {
            let fields = split(line, self.separator);
            return self.request(fields.iter().map(|field| field.as_ref()), sink);
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.request(Fields::new(line, self.separator), sink)
    }
}

impl Csv {
    #[inline]
    fn request<'a>(&self, mut fields: impl Iterator<Item = &'a [u8]>, sink: &mut Sink<'_>) -> Decoded {
        let (mut at, mut kind, mut offset, mut length, mut volume) = (0, Op::Read, None, None, 0);
        for column in &self.columns {
            let field = fields.next().or_problem("fewer columns than the header")?.trim_ascii();
            let bytes = |unit: u64| whole(field).and_then(|value| value.checked_mul(unit));
            match *column {
                Column::Time(unit) => at = nanos(field, unit).or_problem("the time is not a number from 0")?,
                Column::Op => {
                    kind = op(field).or_problem("the op is none of R, W, D, F, read, write, discard, flush")?
                }
                Column::Offset(unit) => offset = bytes(unit),
                Column::Length(unit) => length = bytes(unit),
                Column::Volume => volume = whole_u32(field).or_problem("the volume is not a whole number")?,
                Column::Other => {}
            }
        }
        if fields.next().is_some() {
            return Err("more columns than the header".into());
        }
        if kind == Op::Flush {
            return sink.push(at, volume, kind, 0, 0);
        }
        let offset = offset.or_problem("the offset is not a whole number")?;
        let length = length.or_problem("the length is not a whole number")?;
        sink.push(at, volume, kind, offset, length)
    }
}
