//! Sweeps: every design under every trace and replay, with values of keys from lists and ranges.
//!
//! A [`Space`] says what is to be simulated, and a [`Point`] is one simulation of it. [`sweep_into`] simulates the points on all
//! threads and adds a row for each to a [`DataSet`], a folder of Parquet files, as soon as it is done. A point that is in the
//! folder is not simulated again, so a sweep that was killed continues where it was.

mod axis;
mod content;
#[cfg(feature = "parquet")]
mod data_set;
#[cfg(not(feature = "parquet"))]
#[path = "no_data_set.rs"]
mod data_set;
mod error;
mod point;
mod read;
mod run;
mod written;

pub use axis::{Axis, Scale, Unit, Values};
pub use content::file_hash;
pub use data_set::DataSet;
pub use error::{MOST_POINTS, SpaceError};
pub use point::{Point, PointTrace, Prepared, Row};
pub use read::Space;
pub use run::{SweepDone, SweepProgress, sweep_into};
