//! The file of a measurement (`--keep`, `--from`): JSON, as docs/twin.md describes it.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use peryton_device::measure::Measurement;

use crate::{failure::Failure, output};

/// No measurement within its bounds has a longer file.
const MOST_BYTES: u64 = 256 << 20;

/// Reads a measurement.
///
/// # Errors
/// The file cannot be read, or is none.
pub fn read(path: &Path) -> Result<Measurement, Failure> {
    let bad = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut text = String::new();
    let most = BufReader::new(file.take(MOST_BYTES + 1)).read_to_string(&mut text);
    most.map_err(|error| bad(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(bad("more than 256 MiB: expected a measurement of --keep".to_owned()));
    }
    let measurement: Measurement = serde_json::from_str(&text)
        .map_err(|error| bad(format!("it is no measurement that --keep has written: {error}")))?;
    measurement.check().map_err(|error| bad(error.to_string()))?;
    Ok(measurement)
}

/// Writes what there is, if it is to be kept.
pub(super) fn keep(path: Option<&Path>, measurement: &Measurement) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    // Its numbers would take a line each in the layout of other results.
    let text = serde_json::to_string(measurement).map_err(Failure::failed)? + "\n";
    output::write(path, text)
}
