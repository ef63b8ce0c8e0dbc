//! Why there is no plan.

use peryton_device::ProfileError;
use peryton_sim::SimError;
use peryton_trace::TraceError;
use peryton_units::Bytes;
use thiserror::Error;

/// Why there is no plan. Every message is one line.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A profile cannot be read.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A simulation failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A folder of profiles, or a file of models, cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A folder without profiles.
    #[error("{path}: no device profiles (*.toml) in this folder")]
    EmptyFolder {
        /// Which.
        path: String,
    },
    /// Two devices have the same name.
    #[error("two devices are called '{name}': {first} and {second}; rename one")]
    SameName {
        /// Which.
        name: String,
        /// Where one is from.
        first: String,
        /// Where the other is from.
        second: String,
    },
    /// A device without a price cannot be bought.
    #[error("device '{name}' has no price: give price_usd in {origin}, or --price {name}=USD")]
    NoPrice {
        /// Which.
        name: String,
        /// Where it is from.
        origin: String,
    },
    /// There are no devices.
    #[error(
        "no devices of {era} have a price: name devices with --devices, give prices with --price NAME=USD, or other years with --era"
    )]
    NoDevices {
        /// The years that were asked for.
        era: String,
    },
    /// The trace says nothing of its rate.
    #[error(
        "the trace has {requests} reads and writes over {span_s} s: there is no rate to plan for, use one with two requests at least, at \
         different times"
    )]
    NoRate {
        /// Reads and writes.
        requests: u64,
        /// From first to last.
        span_s: f64,
    },
    /// The trace has several volumes.
    #[error(
        "the trace has requests of {volumes} volumes: choose one with --volumes, or lay them out one after the other with --concatenate"
    )]
    SeveralVolumes {
        /// How many.
        volumes: usize,
    },
    /// The capacity is less than what the trace uses.
    #[error(
        "--capacity {capacity} is less than the {reach} that the trace's addresses span: leave it out, or give more"
    )]
    Capacity {
        /// What was given.
        capacity: Bytes,
        /// What the trace reaches over.
        reach: Bytes,
    },
    /// Less is said to be in use than the trace touches.
    #[error(
        "--active {active} is less than the {touched} that the trace touches: give more, or a trace that touches less"
    )]
    ActiveLess {
        /// What was given.
        active: Bytes,
        /// What the trace touches.
        touched: Bytes,
    },
    /// More is said to be in use than is stored.
    #[error("--active {active} is more than the {capacity} stored: give less, or raise --capacity")]
    ActiveMore {
        /// What was given.
        active: Bytes,
        /// What is stored.
        capacity: Bytes,
    },
    /// Nothing can hold the data.
    #[error("no set of up to {most} devices of a kind holds {capacity}: raise --most, or give larger devices")]
    NoCandidate {
        /// The most devices of a kind.
        most: u32,
        /// What is to be held.
        capacity: Bytes,
    },
    /// No candidate could be simulated.
    #[error("none of the {candidates} designs could be simulated; the first: {first}")]
    NoneRuns {
        /// How many there were.
        candidates: usize,
        /// Why the first could not.
        first: String,
    },
    /// A file that is none of models.
    #[error("{path}: not models of peryton plan ({what}): delete it, or name another file")]
    Models {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// A model cannot be fitted.
    #[error("the models of device '{device}' cannot be fitted: {what}")]
    Fit {
        /// Which.
        device: String,
        /// Why.
        what: String,
    },
    /// A figure out of its range.
    #[error("{key} is {value}: use {remedy}")]
    Range {
        /// Which.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        remedy: &'static str,
    },
}
