//! Tables as comma-separated values (RFC 4180, with line feeds alone at the ends of lines).

use std::{io, path::Path};

use csv::{ErrorKind, Writer};
use peryton_sim::Columns;

use crate::{failure::Failure, output};

/// The column of the design in full, whose many lines would be in the way of a spreadsheet.
const LEFT_OUT: &str = "design_toml";

/// Writes a table to a file; `-` is standard output. A figure that does not apply is an empty field.
pub fn write(path: &Path, table: &Columns) -> Result<(), Failure> {
    let columns: Vec<_> = table.columns().iter().filter(|(name, _)| name != LEFT_OUT).collect();
    output::stream(path, |out| {
        let mut out = Writer::from_writer(out);
        out.write_record(columns.iter().map(|(name, _)| name)).map_err(cause)?;
        for row in 0..table.rows() {
            let fields = columns.iter().map(|(_, column)| column.text(row).unwrap_or_default());
            out.write_record(fields).map_err(cause)?;
        }
        out.flush()
    })
}

/// The cause of an error: a reader that has gone is no failure, and is known by its kind.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
