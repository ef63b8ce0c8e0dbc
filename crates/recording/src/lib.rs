//! The file in which a drive in service records what its clients do and how long that took.
//!
//! A recording is a sequence of chunks ([`chunk`](mod@chunk)). Each has a checksum, a number and the count of requests that had been
//! dropped by then. The file can therefore be read up to its last whole chunk after its writer was killed, and past a damaged
//! chunk. Chunks contain requests ([`Row`]), what the drive was when the recording began ([`Head`], [`StateRead`]), what it
//! counted until then ([`Figures`]), and changes of its settings.
//!
//! The crate does no I/O but [`Scan`], which reads from any stream, and [`Files`], which opens the files of a recording.

#![warn(clippy::missing_errors_doc)]

pub mod chunk;
mod described;
mod distribution;
mod files;
mod rows;
mod scan;
mod varint;

pub use chunk::chunk;
pub use described::{DeviceFigures, End, Figures, Head, RecordedDevice, SettingsChange, StateRead, StateReads};
pub use distribution::Distribution;
pub use files::{Files, full_file};
pub use rows::{Flags, Row, Rows};
pub use scan::{Content, Scan, ScannedChunk};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
