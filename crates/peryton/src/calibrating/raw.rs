//! The file of a measurement (`--keep`, `--from`): JSON, as docs/twin.md describes it.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use peryton_device::measure::Measurement;

use super::fio::Output;
use crate::{failure::Failure, output};

/// The key by which fio's output is known, and how far into it that is looked for.
const FIO: &str = "\"fio version\"";
const MOST_HEAD: usize = 200;

/// No measurement within its bounds has a longer file.
const MOST_BYTES: u64 = 256 << 20;

/// What `--from` names.
#[derive(Debug)]
pub enum Kept {
    /// A measurement of `--keep`.
    Rounds(Box<Measurement>),
    /// The output of fio.
    Fio(Output),
}

/// Reads a measurement, or the output of fio.
///
/// # Errors
/// The file cannot be read or is neither.
pub fn read(path: &Path) -> Result<Kept, Failure> {
    let bad = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut text = String::new();
    let most = BufReader::new(file.take(MOST_BYTES + 1)).read_to_string(&mut text);
    most.map_err(|error| bad(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(bad("more than 256 MiB: expected a measurement of --keep".to_owned()));
    }
    // fio writes warnings before its JSON.
    let from = text.find('{').unwrap_or(0);
    if text[from..].get(..MOST_HEAD.min(text.len() - from)).is_some_and(|head| head.contains(FIO)) {
        let mut outputs = serde_json::Deserializer::from_str(&text[from..]).into_iter();
        return match outputs.next() {
            Some(Ok(output)) => Ok(Kept::Fio(output)),
            Some(Err(error)) => Err(bad(format!("it is not the output of fio --output-format=json: {error}"))),
            None => Err(bad("it is empty".to_owned())),
        };
    }
    let measurement: Measurement = serde_json::from_str(&text).map_err(|error| {
        bad(format!(
            "it is neither a measurement that --keep has written nor the output of fio --output-format=json: {error}"
        ))
    })?;
    measurement.check().map_err(|error| bad(error.to_string()))?;
    Ok(Kept::Rounds(Box::new(measurement)))
}

/// Writes what there is, if it is to be kept.
pub(super) fn keep(path: Option<&Path>, measurement: &Measurement) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    // Its numbers would take a line each in the layout of other results.
    let text = serde_json::to_string(measurement).map_err(Failure::failed)? + "\n";
    output::write(path, text)
}
