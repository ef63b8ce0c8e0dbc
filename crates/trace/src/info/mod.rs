//! What a trace is like: counts, sizes, arrivals, sequentiality, footprint and working set, in one pass and bounded memory.

mod characteristics;
mod distribution;
mod pages;
mod render;
mod sequential;

pub use characteristics::{Characteristics, Footprint, Intervals, Sizes, VolumeRow};
pub use distribution::{Distribution, SizeBucket, SizeDistribution};
pub use pages::{DEFAULT_MAX_PAGES, PAGE, WorkingSet};
pub use sequential::{STREAMS, Sequentiality};
