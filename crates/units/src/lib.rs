//! The words that every room of Peryton shares: simulated time, bytes, power, and what a request asks for.
//!
//! Time and bytes on the I/O path are integers. Human units (`"8GiB"`, `"400us"`) are parsed and printed here and
//! nowhere else, so that a design file, a profile, a command-line option and an error message agree.

mod bytes;
mod duration;
mod op;
mod parse;
mod prefetch;

pub use bytes::Bytes;
pub use duration::Nanos;
pub use op::Op;
pub use parse::ParseUnitError;
pub use prefetch::prefetch;

/// A Julian year.
pub const SECONDS_PER_YEAR: f64 = 31_557_600.0;
