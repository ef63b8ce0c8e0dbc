//! Traces drawn from a specification: a TOML file that describes arrival, size, place and sequentiality of requests.
//!
//! [`SynthSpec`] is the file, [`SynthSource`] the stream of requests. The same specification gives the same requests on
//! every machine. Memory does not grow with the number of requests.

mod address;
mod arrival;
mod error;
mod files;
mod permutation;
mod random;
mod size;
mod source;
mod spec;
mod zipf;

pub use address::{Address, Region};
pub use arrival::Arrival;
pub use error::SynthError;
pub use files::{FileAccess, Files};
pub use size::Size;
pub use source::SynthSource;
pub use spec::{Flush, OpSpec, Phase, Rewrite, SynthSpec};
