//! Tables: one request in a line, whose columns have names in a header or places. Each format in [`presets`] is a table
//! that somebody publishes, in the words that a user has for a table of his own ([`Columns`], [`Units`]). `csv` is the table
//! that this library writes, and any other whose columns are given:
//!
//! | column | meaning |
//! |---|---|
//! | `time_ns`, `time_us`, `time_ms` or `time_s` | arrival, whole or with decimals |
//! | `op` | `R`, `W`, `D` (discard) or `F` (flush), or `read`, `write`, `discard` or `trim`, `flush` or `sync` |
//! | `offset`, `length` | in bytes; or |
//! | `sector`, `sectors` | in 512 bytes |
//! | `volume` | optional number, or name |
//! | `latency_us` | optional |
//!
//! Columns are in any order, separated by commas, semicolons, tabs or blanks, quoted or not. Other columns are ignored. The
//! offset and length of a flush may be empty. Lines that begin with `#` are comments; a header may begin with it.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, block_event, lines, plausible};
use crate::{
    Columns, Request, TimeUnit, Units,
    columns::{OpCodes, Place, Role, SECTOR},
    decode::{LineFormat, Notes, Sink},
    field::{Fields, clock, nanos, op, whole, whole_u32, words},
    objects,
    problem::{Decoded, Or, Problem},
    volume_names::Numbering,
};

/// The most columns; a trace does not have more.
const MAX_COLUMNS: usize = 256;
/// The most requests that one row may stand for.
const MAX_COUNT: u64 = 1 << 16;
/// The seconds of half a day: a clock that goes back by more has passed midnight.
const HALF_DAY_NS: u64 = 12 * 3_600 * 1_000_000_000;

/// A table that is published, and how it is recognised.
pub(crate) struct Preset {
    /// [`Columns`] and [`Units`], as a user would give them.
    pub(crate) columns: &'static str,
    pub(crate) units: &'static str,
    /// What separates columns; a blank stands for any number of them.
    pub(crate) separator: u8,
    /// The number of columns of each line, if it does not differ.
    pub(crate) width: Option<usize>,
    /// Whether it is recognised; a table that is like too many others has to be named.
    pub(crate) recognised: bool,
    /// The beginning of the first line, if it is always the same.
    pub(crate) begins: &'static str,
    /// Whether a blank follows each comma, if that distinguishes it from others.
    pub(crate) spaced: Option<bool>,
}

impl Preset {
    /// Whether a header names its columns.
    fn has_names(&self) -> bool {
        let places = self.columns.split(',').filter_map(|part| part.split_once('=')).map(|(_, places)| places);
        places.into_iter().any(|places| !places.starts_with(|first: char| first.is_ascii_digit()))
    }
}

/// A preset without a header, recognised by its lines.
pub(crate) const fn plain(columns: &'static str, units: &'static str, separator: u8, width: usize) -> Preset {
    Preset { columns, units, separator, width: Some(width), recognised: true, begins: "", spaced: None }
}

/// A preset whose columns have names.
pub(crate) const fn named(columns: &'static str, units: &'static str, separator: u8) -> Preset {
    Preset { columns, units, separator, width: None, recognised: true, begins: "", spaced: None }
}

/// The meaning of a column, and the factor to nanoseconds or bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Time(u64),
    Clock,
    End(u64),
    Op,
    Offset(u64),
    Size(u64),
    Volume,
    Name,
    Id,
    Latency(u64),
    Count,
    Other,
}

pub(crate) struct Table {
    separator: u8,
    /// The columns from the first one on; and those that are counted from the last one back.
    columns: Vec<Column>,
    back: Vec<Column>,
    /// The number of columns of each line, if all have as many.
    width: Option<usize>,
    header_left: bool,
    is_of_objects: bool,
    has_size: bool,
    has_time: bool,
    ops: Option<OpCodes>,
    numbering: Numbering,
    /// The time that a clock showed last, and the days that have passed.
    clock: (u64, u64),
    rows: u64,
    expected: String,
}

/// The columns that `csv` knows by name, with their roles and units.
const NAMES: [(&str, Role, u64); 12] = [
    ("time_ns", Role::Time, 1),
    ("time_us", Role::Time, 1_000),
    ("time_ms", Role::Time, 1_000_000),
    ("time_s", Role::Time, 1_000_000_000),
    ("op", Role::Op, 1),
    ("offset", Role::Offset, 1),
    ("sector", Role::Offset, 512),
    ("length", Role::Size, 1),
    ("sectors", Role::Size, 512),
    ("volume", Role::Volume, 1),
    ("latency_us", Role::Latency, 1_000),
    ("id", Role::Id, 1),
];

/// The names in a header, without quotes, blanks around them and the sign of a comment.
fn header_names(header: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let header = header.strip_prefix(b"#").unwrap_or(header);
    split(header, separator).iter().map(|name| name.trim_ascii().to_ascii_lowercase()).collect()
}

/// What separates the columns of this line: the most frequent of tab, semicolon and comma, or blanks.
pub(crate) fn separator_of(line: &[u8]) -> u8 {
    let count = |separator: u8| line.iter().filter(|&&byte| byte == separator).count();
    let most =
        [b',', b';', b'\t'].into_iter().rev().max_by_key(|&separator| count(separator)).expect("three to choose from");
    if count(most) > 0 { most } else { b' ' }
}

impl Table {
    fn new(
        head: Head<'_>,
        columns: &Columns,
        units: &Units,
        separator: u8,
        numbering: Numbering,
    ) -> Result<Table, Problem> {
        let header = head.first_line();
        let by_name = columns.roles.iter().any(|(_, place)| matches!(place, Place::Name(_)));
        let names = header_names(header, separator);
        if names.len() > MAX_COLUMNS {
            return Err("a header of more than 256 columns".into());
        }
        let mut table = Table {
            separator,
            columns: Vec::new(),
            back: Vec::new(),
            width: None,
            // A header that begins with the sign of a comment is passed over as one.
            header_left: by_name && !header.starts_with(b"#"),
            is_of_objects: false,
            has_size: false,
            has_time: false,
            ops: units.op.clone(),
            numbering,
            clock: (0, 0),
            rows: 0,
            expected: "the columns that the header names".to_owned(),
        };
        let volume_is_name = |place: &Place| {
            let header = by_name && !header.starts_with(b"#");
            units.volume_is_name.unwrap_or_else(|| !has_numbers(head, separator, header, place, &names))
        };
        for (role, place) in &columns.roles {
            let time = |unit: Option<TimeUnit>| {
                let by_its_name = match place {
                    Place::Name(name) => NAMES.iter().find(|known| known.0 == name).map(|known| known.2),
                    Place::Number(_) => None,
                };
                unit.map(TimeUnit::as_nanos).or(by_its_name).ok_or_else(|| {
                    let name = role.name();
                    Problem(format!("the unit of {name} is not known: give --unit {name}=ns, us, ms or s").into())
                })
            };
            let bytes = |unit: Option<peryton_units::Bytes>| {
                let by_its_name = match place {
                    Place::Name(name) => NAMES.iter().find(|known| known.0 == name).map(|known| known.2),
                    Place::Number(_) => None,
                };
                unit.map(|unit| unit.0).or(by_its_name).unwrap_or(1)
            };
            let column = match role {
                Role::Time if units.time == Some(TimeUnit::Clock) => Column::Clock,
                Role::Time => Column::Time(time(units.time)?),
                Role::End => Column::End(time(units.time)?),
                Role::Op => Column::Op,
                Role::Offset => Column::Offset(bytes(units.offset)),
                Role::Size => Column::Size(bytes(units.size)),
                Role::Volume if volume_is_name(place) => Column::Name,
                Role::Volume => Column::Volume,
                Role::Id => Column::Id,
                Role::Latency => Column::Latency(time(units.latency)?),
                Role::Count => Column::Count,
            };
            table.place(column, place, &names)?;
        }
        let has = |role: Role| columns.roles.iter().any(|(known, _)| *known == role);
        (table.is_of_objects, table.has_size) = (has(Role::Id), has(Role::Size));
        table.has_time = has(Role::Time) || has(Role::End);
        if by_name {
            table.columns.resize(table.columns.len().max(names.len()), Column::Other);
            table.width = Some(table.columns.len());
        }
        Ok(table)
    }

    /// The names are a sign by themselves, and the more of them there are, the better they fit.
    fn likeness_by_name(&self) -> u32 {
        100 + self.columns.iter().filter(|column| **column != Column::Other).count() as u32
    }

    fn place(&mut self, column: Column, place: &Place, names: &[Vec<u8>]) -> Result<(), Problem> {
        let (side, index) = match place {
            Place::Name(name) => {
                let wanted = name.to_ascii_lowercase();
                let mut found = names.iter().enumerate().filter(|(_, known)| **known == *wanted.as_bytes());
                let Some((index, _)) = found.next() else {
                    return Err(Problem(format!("the header has no column {name}").into()));
                };
                if found.next().is_some() {
                    return Err(Problem(format!("the header has more than one column {name}").into()));
                }
                (&mut self.columns, index)
            }
            Place::Number(number @ 1..) => (&mut self.columns, *number as usize - 1),
            Place::Number(number) => (&mut self.back, number.unsigned_abs() as usize - 1),
        };
        if index >= MAX_COLUMNS {
            return Err("more than 256 columns".into());
        }
        side.resize(side.len().max(index + 1), Column::Other);
        if side[index] != Column::Other {
            return Err("one column cannot be two things".into());
        }
        side[index] = column;
        Ok(())
    }
}

/// The first line that is neither blank nor a comment.
fn first_row(head: Head<'_>) -> &[u8] {
    head.lines().find(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#")).unwrap_or(&[])
}

/// Whether a column of the head has numbers of volumes and nothing else.
fn has_numbers(head: Head<'_>, separator: u8, header: bool, place: &Place, names: &[Vec<u8>]) -> bool {
    let rows = head.lines().filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
    rows.skip(usize::from(header)).all(|line| {
        let fields = split(line, separator);
        let field = match place {
            Place::Name(name) => {
                let wanted = name.to_ascii_lowercase();
                names.iter().position(|known| **known == *wanted.as_bytes()).and_then(|index| fields.get(index))
            }
            Place::Number(number @ 1..) => fields.get(*number as usize - 1),
            Place::Number(number) => fields.iter().nth_back(number.unsigned_abs() as usize - 1),
        };
        field.is_none_or(|field| whole_u32(field.trim_ascii()).is_some())
    })
}

/// The fields of a line without quotes.
pub(crate) fn fields(line: &[u8], separator: u8) -> Vec<&[u8]> {
    match separator {
        b' ' => words(line).collect(),
        _ => Fields::new(line, separator).map(<[u8]>::trim_ascii).collect(),
    }
}

/// The table that a preset describes.
fn published(preset: &Preset, head: Head<'_>, units: &Units, numbering: Numbering) -> Result<Table, Problem> {
    let columns: Columns = preset.columns.parse().map_err(|problem: String| Problem(problem.into()))?;
    let own: Units = preset.units.parse().map_err(|problem: String| Problem(problem.into()))?;
    let mut table = Table::new(head, &columns, &units.or(&own), preset.separator, numbering)?;
    table.width = table.width.or(preset.width);
    table.expected = format!("{columns} (by name or number of column), {own}");
    // A file without a header by its kind may have one, which has no number where there should be a time.
    table.header_left |= preset.width.is_some() && !first_row(head).iter().any(u8::is_ascii_digit);
    Ok(table)
}

/// The table that `csv` is: the given columns, and those that the header names.
fn own(head: Head<'_>, options: &ReadOptions) -> Result<Table, Problem> {
    let mut columns = options.columns.clone().unwrap_or_default();
    let by_number =
        !columns.roles.is_empty() && columns.roles.iter().all(|(_, place)| matches!(place, Place::Number(_)));
    let header = if by_number { first_row(head) } else { head.first_line() };
    let separator = separator_of(header.strip_prefix(b"#").unwrap_or(header));
    let names = header_names(header, separator);
    let given: Vec<Role> = columns.roles.iter().map(|(role, _)| *role).collect();
    let known = names.iter().filter_map(|name| NAMES.iter().find(|known| known.0.as_bytes() == name.as_slice()));
    for (name, role, _) in known.filter(|_| !by_number) {
        let taken = given.contains(role) || (*role == Role::Id && given.contains(&Role::Offset));
        if !taken {
            if columns.roles.iter().any(|(known, _)| known == role) {
                return Err(Problem(format!("the header has more than one column for {}", role.name()).into()));
            }
            columns.roles.push((*role, Place::Name((*name).to_owned())));
        }
    }
    let missing = |what: &str, roles: &[Role]| match columns.roles.iter().any(|(role, _)| roles.contains(role)) {
        true => Ok(()),
        false => Err(Problem(format!("the header has no column {what}").into())),
    };
    if options.columns.is_none() {
        missing("time_ns, time_us, time_ms or time_s", &[Role::Time])?;
        missing("op", &[Role::Op])?;
        missing("length (bytes) or sectors (512 bytes)", &[Role::Size])?;
    }
    missing("offset (bytes) or sector (512 bytes)", &[Role::Offset, Role::Id])?;
    if columns.roles.iter().all(|(role, _)| *role != Role::Size && *role != Role::Id) {
        return Err("the size of requests is not known: give --columns size=…".into());
    }
    let mut table = Table::new(head, &columns, &options.units, separator, Numbering::new(&options.names))?;
    if by_number {
        // A header is a line without a number where the columns have one.
        let first = fields(header, separator);
        let has_digits = |place: &Place| match place {
            Place::Number(number @ 1..) => first.get(*number as usize - 1),
            Place::Number(number) => first.iter().nth_back(number.unsigned_abs() as usize - 1),
            Place::Name(_) => None,
        };
        let numbers =
            columns.roles.iter().filter(|(role, _)| matches!(role, Role::Time | Role::End | Role::Offset | Role::Size));
        let mut numbers = numbers.filter_map(|(_, place)| has_digits(place));
        table.header_left = numbers.next().is_some_and(|field| !field.first().is_some_and(u8::is_ascii_digit));
        table.expected = format!("the columns {columns}");
    }
    Ok(table)
}

/// The likeness of the head to a published table.
pub(crate) fn looks_like_preset(preset: &Preset, head: Head<'_>) -> u32 {
    let first = head.first_line();
    let spaced = first.windows(2).any(|pair| pair == b", ");
    let other = !preset.recognised || preset.spaced.is_some_and(|wanted| wanted != spaced);
    if other || !head.is_text() || !first.starts_with(preset.begins.as_bytes()) {
        return 0;
    }
    let Ok(mut table) = published(preset, head, &Units::default(), Numbering::default()) else { return 0 };
    if preset.separator != b' ' && separator_of(first) != preset.separator {
        return 0;
    }
    let by_name = preset.has_names();
    let likeness = super::likeness(head, &mut table);
    if by_name && likeness >= 50 {
        return table.likeness_by_name();
    }
    likeness
}

/// The reason to doubt that the head is of a published table, which it is like.
pub(crate) fn doubt(preset: &Preset, head: Head<'_>) -> Option<String> {
    let mut table = published(preset, head, &Units::default(), Numbering::default()).ok()?;
    let (mut requests, mut notes): (Vec<Request>, _) = (Vec::new(), Notes::default());
    for line in head.lines() {
        // What is bad was judged by the likeness.
        let _ = table.line(line, &mut Sink::new(&mut requests, &mut notes));
    }
    let has_decimals = |time: usize| {
        let mut rows = head.lines().filter_map(|line| fields(line, preset.separator).get(time).copied());
        rows.any(|field| field.contains(&b'.') && nanos(field, 1).is_some())
    };
    if table.columns.iter().position(|column| *column == Column::Time(1)).is_some_and(has_decimals) {
        return Some("its times have decimals, which whole nanoseconds have not".to_owned());
    }
    let sectors = table.columns.contains(&Column::Offset(SECTOR.0));
    if table.columns.iter().any(|column| matches!(column, Column::Latency(_))) {
        // Who measures writes a line when a request ends.
        requests.sort_by_key(|request| request.at);
    }
    if table.is_of_objects { None } else { plausible::doubt(&requests, sectors, usize::MAX) }
}

pub(crate) fn preset_reader(preset: &Preset, mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let table = published(preset, head, &options.units, Numbering::new(&options.names));
    let remedy = || format!("the table has {}", preset.columns);
    let table = table.map_err(|problem| head.unfit(&name, &problem.0, &remedy()))?;
    lines(input, table, options)
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if !head.is_text() {
        return 0;
    }
    match own(head, &ReadOptions::default()) {
        // The header alone is sufficient, but a file of another format may have a header too.
        Ok(mut table) => match super::likeness(head, &mut table) {
            50.. => table.likeness_by_name(),
            _ => 60,
        },
        Err(_) => 0,
    }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "name the columns time_us (or _ns, _ms, _s), op, offset and length, or sector and sectors, or say which they \
                  are with --columns time=…,op=…,offset=…,size=…";
    let table = own(head, options).map_err(|problem| head.unfit(&name, &problem.0, remedy))?;
    lines(input, table, options)
}

/// The fields of a line with quoted fields; separators inside quotes do not count.
fn split(line: &[u8], separator: u8) -> Vec<Cow<'_, [u8]>> {
    if !line.contains(&b'"') {
        return fields(line, separator).into_iter().map(Cow::Borrowed).collect();
    }
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

impl LineFormat for Table {
    fn expected(&self) -> Cow<'static, str> {
        self.expected.clone().into()
    }

    fn is_of_objects(&self) -> bool {
        self.is_of_objects
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.trim_ascii().is_empty() || line[0] == b'#' || std::mem::take(&mut self.header_left) {
            return Ok(());
        }
        if memchr::memchr(b'"', line).is_some() {
            let fields = split(line, self.separator);
            return self.either(fields.iter().map(|field| field.as_ref()), sink);
        }
        match self.separator {
            b' ' => self.either(words(line), sink),
            separator => self.either(Fields::new(line, separator), sink),
        }
    }
}

/// What a row says.
struct Row {
    at: u64,
    end: Option<u64>,
    op: Option<Op>,
    offset: Option<u64>,
    size: Option<u64>,
    volume: u32,
    id: u64,
    latency: Option<u64>,
    count: u64,
}

impl Table {
    #[inline]
    fn either<'a>(&mut self, fields: impl Iterator<Item = &'a [u8]>, sink: &mut Sink<'_>) -> Decoded {
        if self.back.is_empty() {
            self.request(fields, sink)
        } else {
            self.read_from_both_ends(&fields.collect::<Vec<_>>(), sink)
        }
    }

    #[inline]
    fn request<'a>(&mut self, mut fields: impl Iterator<Item = &'a [u8]>, sink: &mut Sink<'_>) -> Decoded {
        let mut row = self.row(sink);
        for index in 0..self.columns.len() {
            let Some(field) = fields.next() else {
                // Traces of objects leave out what a request has not, at the end of the line.
                if self.is_of_objects && self.width.is_none() && index > 1 {
                    break;
                }
                return Err("fewer columns than there should be".into());
            };
            self.take(self.columns[index], field.trim_ascii(), &mut row)?;
        }
        if let Some(width) = self.width {
            let more = fields.count();
            if self.columns.len() + more != width {
                return Err(Problem(format!("{} columns, not {width}", self.columns.len() + more).into()));
            }
        }
        self.push(&row, sink)
    }

    #[cold]
    fn read_from_both_ends(&mut self, fields: &[&[u8]], sink: &mut Sink<'_>) -> Decoded {
        if fields.len() < self.columns.len().max(self.back.len()) {
            return Err("fewer columns than there should be".into());
        }
        let mut row = self.row(sink);
        for (index, field) in fields.iter().enumerate().take(self.columns.len()) {
            self.take(self.columns[index], field.trim_ascii(), &mut row)?;
        }
        for (index, field) in fields.iter().rev().enumerate().take(self.back.len()) {
            self.take(self.back[index], field.trim_ascii(), &mut row)?;
        }
        self.push(&row, sink)
    }

    #[inline]
    fn row(&self, sink: &mut Sink<'_>) -> Row {
        let at = if self.has_time { 0 } else { sink.time_of(self.rows).unwrap_or(u64::MAX) };
        let size = if self.has_size { None } else { Some(1) };
        Row { at, end: None, op: Some(Op::Read), offset: None, size, volume: 0, id: 0, latency: None, count: 1 }
    }

    #[inline]
    fn take(&mut self, column: Column, field: &[u8], row: &mut Row) -> Decoded {
        let bytes = |unit: u64| whole(field).and_then(|value| value.checked_mul(unit));
        match column {
            Column::Time(unit) => row.at = nanos(field, unit).or_problem("the time is not a number from 0")?,
            Column::Op => row.op = self.operation(field)?,
            Column::Offset(unit) => row.offset = bytes(unit),
            Column::Size(unit) => match (bytes(unit), row.size) {
                (Some(size), before) => row.size = Some(size.saturating_add(before.unwrap_or(0))),
                (None, _) => row.size = None,
            },
            Column::Volume => {
                row.volume = whole_u32(field).or_problem("the volume is not a whole number: give --unit volume=name")?
            }
            Column::Other => {}
            _ => self.take_rare(column, field, row)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn take_rare(&mut self, column: Column, field: &[u8], row: &mut Row) -> Decoded {
        match column {
            Column::Name => row.volume = self.numbering.number(field)?,
            Column::Id => row.id = objects::id(field),
            Column::Clock => row.at = self.clock(field)?,
            Column::End(unit) => row.end = Some(nanos(field, unit).or_problem("the time is not a number from 0")?),
            // Some traces have none for requests that were not completed.
            Column::Latency(_) if field.is_empty() => {}
            Column::Latency(unit) => row.latency = Some(nanos(field, unit).or_problem("the latency is not a number")?),
            Column::Count => {
                let count = whole(field).filter(|&count| count <= MAX_COUNT);
                row.count = count.or_problem("the number of requests is not a whole number of at most 65536")?;
            }
            _ => unreachable!("it is taken where rows are read"),
        }
        Ok(())
    }

    #[inline]
    fn operation(&self, field: &[u8]) -> Result<Option<Op>, Problem> {
        if let Some(codes) = &self.ops {
            return codes.op(field).or_problem("the op is none of those that --unit op=… names");
        }
        match op(field) {
            Some(op) => Ok(Some(op)),
            None => spoken(field).or_problem(
                "the op is none of R, W, D, F, read, write, discard, flush: say which is which, as with \
                --unit op=read:1+write:0",
            ),
        }
    }

    fn clock(&mut self, field: &[u8]) -> Result<u64, Problem> {
        let now = clock(field).or_problem("the time is not hours:minutes:seconds")?;
        let (last, days) = &mut self.clock;
        *days += u64::from(*last > now + HALF_DAY_NS);
        *last = now;
        Ok(*days * 2 * HALF_DAY_NS + now)
    }

    #[inline]
    fn push(&mut self, row: &Row, sink: &mut Sink<'_>) -> Decoded {
        self.rows += 1;
        let Some(op) = row.op else { return sink.leave_out("requests without data") };
        let at = match row.end {
            Some(end) => end.saturating_sub(row.latency.unwrap_or(0)),
            None => row.at,
        };
        for _ in 0..row.count {
            if self.is_of_objects {
                let size = row.size.unwrap_or(0);
                sink.push_object(at, row.volume, op, row.id, size)?;
            } else if op == Op::Flush {
                sink.push(at, row.volume, op, 0, 0)?;
            } else {
                let offset = row.offset.or_problem("the offset is not a whole number")?;
                let length = row.size.or_problem("the length is not a whole number")?;
                sink.push(at, row.volume, op, offset, length)?;
            }
            if let Some(latency) = row.latency {
                sink.took(latency);
            }
        }
        Ok(())
    }
}

/// The words that key-value stores, object stores and Linux have for operations.
fn spoken(word: &[u8]) -> Option<Option<Op>> {
    Some(match word.to_ascii_lowercase().as_slice() {
        b"get" | b"gets" | b"get_lease" => Some(Op::Read),
        b"set" | b"set_lease" | b"put" | b"add" | b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr"
        | b"copy" | b"post" => Some(Op::Write),
        b"delete" => Some(Op::Discard),
        b"head" => None,
        _ => return block_event::rwbs_op(word),
    })
}
