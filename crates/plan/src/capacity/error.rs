//! The errors of planning.

use peryton_device::ProfileError;
use peryton_sim::SimError;
use peryton_trace::TraceError;
use peryton_units::Bytes;
use thiserror::Error;

use crate::metric::Metric;

/// The most devices of a kind that a plan may have.
pub(super) const MOST_OF_A_KIND: u32 = 256;

/// The reason why no plan was made. Every message is one line.
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
    /// A folder of profiles cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The path of the folder or file.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A folder without profiles.
    #[error("{path}: no device profiles (*.toml) in this folder")]
    EmptyFolder {
        /// The path of the folder.
        path: String,
    },
    /// Two devices have the same name.
    #[error("two devices are called '{name}': {first} and {second}; rename one")]
    SameName {
        /// The common name.
        name: String,
        /// Origin of the first device.
        first: String,
        /// Origin of the second device.
        second: String,
    },
    /// A device without a price cannot be bought.
    #[error("device '{name}' has no price: give price_usd in {origin}, or --price {name}=USD")]
    NoPrice {
        /// The device's name.
        name: String,
        /// Origin of the device.
        origin: String,
    },
    /// A list of prices names something that is no device and no class.
    #[error(
        "{origin}: no device or class is called '{name}': peryton profiles lists the devices, and each has its class"
    )]
    UnknownPrice {
        /// The list.
        origin: String,
        /// The name.
        name: String,
    },
    /// The catalogue has no devices of these years with a price.
    #[error(
        "no devices of {era} have a price: name devices with --devices, give prices with --price NAME=USD, or other years with --era"
    )]
    NoDevices {
        /// The years given by `--era`.
        era: String,
    },
    /// The trace is too short to have a rate.
    #[error(
        "the trace has {requests} reads and writes over {span_s} s: there is no rate to plan for, use one with two requests at least, at \
         different times"
    )]
    NoRate {
        /// Number of reads and writes.
        requests: u64,
        /// Seconds from the first request to the last.
        span_s: f64,
    },
    /// The trace has no times.
    #[error(
        "the trace has no times, so nothing says how much load it is: give the pace with --replay qd=N, or with --speed, of which 1 is a \
         million requests a second"
    )]
    NoTimes,
    /// The trace has several volumes.
    #[error(
        "the trace has requests of {volumes} volumes: choose one with --volumes, or lay them out one after the other with --concatenate"
    )]
    SeveralVolumes {
        /// Number of volumes.
        volumes: usize,
    },
    /// The requested capacity is less than the trace uses.
    #[error(
        "--capacity {capacity} is less than the {reach} that the trace's addresses span: leave it out, or give more"
    )]
    Capacity {
        /// The requested capacity.
        capacity: Bytes,
        /// The address space that the trace spans.
        reach: Bytes,
    },
    /// The amount of data said to be in use is less than the trace touches.
    #[error(
        "--active {active} is less than the {touched} that the trace touches: give more, or a trace that touches less"
    )]
    ActiveLess {
        /// The amount given.
        active: Bytes,
        /// The amount that the trace touches.
        touched: Bytes,
    },
    /// The amount of data said to be in use is more than the amount stored.
    #[error("--active {active} is more than the {capacity} stored: give less, or raise --capacity")]
    ActiveMore {
        /// The amount given.
        active: Bytes,
        /// The amount stored.
        capacity: Bytes,
    },
    /// No candidate has room for the data.
    #[error(
        "no set of up to {most} devices of a kind holds {capacity}: {}give larger devices, or plan for a part of the data",
        if *most < MOST_OF_A_KIND { format!("raise --most (at most {MOST_OF_A_KIND}), ") } else { String::new() }
    )]
    NoCandidate {
        /// The most devices of a kind.
        most: u32,
        /// The amount of data.
        capacity: Bytes,
    },
    /// The report of no design has a figure.
    #[error("the report of no design has {metric}: {remedy}")]
    Unknown {
        /// The figure.
        metric: Metric,
        /// What to do.
        remedy: &'static str,
    },
    /// No candidate could be simulated.
    #[error("none of the {candidates} designs could be simulated; the first: {first}")]
    NoneRuns {
        /// Number of candidates.
        candidates: usize,
        /// The error of the first candidate.
        first: String,
    },
    /// The load does not write so much in a day.
    #[error("--per-day {per_day}: the trace writes {a_day} if it goes on for a day: give less, or a higher --speed")]
    PerDay {
        /// What was given.
        per_day: Bytes,
        /// What the trace writes in a day.
        a_day: Bytes,
    },
    /// The design gives other figures from its file than in the search.
    #[error(
        "design '{design}' has a mean of {planned} ms in the search and {again} ms from its file: this is an error of the planner"
    )]
    Differs {
        /// The design.
        design: String,
        /// Its mean response time in the search.
        planned: f64,
        /// The same from its file.
        again: f64,
    },
    /// A setting is out of its range.
    #[error("{key} is {value}: use {remedy}")]
    Range {
        /// The setting.
        key: &'static str,
        /// The value given.
        value: String,
        /// The values that are accepted.
        remedy: &'static str,
    },
}
