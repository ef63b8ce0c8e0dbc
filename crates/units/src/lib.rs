//! The types that all crates of Peryton share: time, bytes, and the operation of a request.
//!
//! Time and bytes on the I/O path are integers. Human units (`"8GiB"`, `"400us"`) are parsed and printed here and
//! nowhere else, so that a design file, a profile, a command-line option and an error message agree.
//!
//! ```
//! use peryton_units::{Bytes, Nanos};
//!
//! let size: Bytes = "1.5GiB".parse()?;
//! let delay: Nanos = "400us".parse()?;
//! assert_eq!(size, Bytes::mib(1536));
//! assert_eq!((size.to_string(), delay.to_string()), ("1536MiB".to_owned(), "400us".to_owned()));
//! assert!("4 parsecs".parse::<Bytes>().is_err());
//! # Ok::<(), peryton_units::ParseUnitError>(())
//! ```

#![warn(clippy::missing_errors_doc)]

mod bytes;
mod duration;
mod histogram;
mod numbering;
mod op;
mod page;
mod parse;
mod person;
mod prefetch;
mod random;
#[cfg(feature = "schema")]
mod schema;

pub use bytes::Bytes;
pub use duration::Nanos;
pub use histogram::{Bucket, Histogram};
pub use numbering::Numbering;
pub use op::Op;
pub use page::{PAGE, pages};
pub use parse::ParseUnitError;
pub use person::{MOST_YEARS, person, person_ms, person_years};
pub use prefetch::prefetch;
pub use random::{SplitMix64, block_hash, mixed};

/// A Julian year.
pub const SECONDS_PER_YEAR: f64 = 31_557_600.0;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
