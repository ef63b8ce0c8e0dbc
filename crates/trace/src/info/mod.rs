//! The characteristics of a trace: counts, sizes, arrivals, sequentiality, footprint and working set, in one pass and
//! bounded memory.

mod characteristics;
mod distribution;
mod mrc;
mod objects;
mod overwrites;
mod pages;
mod render;
mod sample;
mod sequential;

pub use characteristics::{Characteristics, Footprint, Intervals, Sizes, VolumeRow};
pub use distribution::{Distribution, SizeBucket, SizeDistribution};
pub use mrc::{BlockAccess, GrowingCurve, MissRatioCurve, MissRatios, Ratios, Tally, block_accesses};
pub use objects::ObjectCharacteristics;
pub use overwrites::{CurvePoint, DEFAULT_MAX_BLOCKS, IntervalShare, Overwrites, RewriteIntervals};
pub use pages::{DEFAULT_MAX_PAGES, PAGE, WorkingSet};
pub use peryton_units::block_hash;
pub(crate) use peryton_units::mixed;
pub use sequential::{STREAMS, Sequentiality};
