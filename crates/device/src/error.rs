use peryton_units::Bytes;
use thiserror::Error;

/// A model that cannot be built from its parameters. The message names the key, what was found and what is expected.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BuildError {
    /// A value out of its range.
    #[error("{key} = {found}: expected {expected}")]
    Range {
        /// The key in the model's table.
        key: &'static str,
        /// Its value.
        found: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// More of the device is to be used than it has, or nothing.
    #[error("cannot use {used} of a device of {capacity}: choose a size from 1B to {capacity}")]
    Used {
        /// The number of bytes asked for.
        used: Bytes,
        /// The capacity of the device.
        capacity: Bytes,
    },
    /// The tables of the translation layer would grow beyond their bound.
    #[error(
        "the map of {used} of flash is too large to simulate: use at most {limit} (size), a larger mapping_unit, or \
         precondition = \"fresh\""
    )]
    TooLarge {
        /// The number of bytes asked for.
        used: Bytes,
        /// The most that is possible with this mapping unit and precondition.
        limit: Bytes,
    },
    /// The system has no memory for the tables.
    #[error(
        "no memory for the map of {used} of flash ({bytes}): use less of the device (size), or a larger mapping_unit"
    )]
    NoMemory {
        /// The number of bytes asked for.
        used: Bytes,
        /// The memory that its tables need.
        bytes: Bytes,
    },
}

/// A profile that cannot be found, read or built; one line that names the place.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// No such profile.
    #[error("profile '{name}' is neither shipped nor a file{hint} (`peryton profiles` lists the shipped ones)")]
    Unknown {
        /// The name that was given.
        name: String,
        /// The nearest name, as a question; empty if there is none.
        hint: String,
    },
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a profile.
    #[error("{place}: {what}")]
    Parse {
        /// File and line.
        place: String,
        /// What was found, and what is expected.
        what: String,
    },
    /// The model refuses its parameters.
    #[error("profile '{name}': {source}")]
    Build {
        /// The profile.
        name: String,
        /// The model's error.
        source: BuildError,
    },
}
