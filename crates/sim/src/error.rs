use std::io;

use peryton_device::ProfileError;
use peryton_engine::ConfigError;
use peryton_trace::{TraceError, VolumeNames};
use peryton_units::{Bytes, Nanos, Op};
use thiserror::Error;

/// An error in a design: its place, the problem, and the remedy. Every message is one line.
#[derive(Debug, Error)]
pub enum DesignError {
    /// The file cannot be read.
    #[error("{file}: {source}: give the path of a design file (TOML)")]
    Read {
        /// The design file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a design.
    #[error("{file}: {why}: expected a design file (TOML)")]
    NotADesign {
        /// The design file.
        file: String,
        /// What the file is instead.
        why: &'static str,
    },
    /// The file is not TOML.
    #[error("{place}: not valid TOML: {problem}")]
    Syntax {
        /// File and line.
        place: String,
        /// The parser's message.
        problem: String,
    },
    /// A key has a value that cannot be used.
    #[error("{place}: {key}: {problem}")]
    Key {
        /// File and line, or the override.
        place: String,
        /// The dotted key.
        key: String,
        /// The problem, and the remedy.
        problem: String,
    },
    /// An override cannot be read.
    #[error("--set {text}: {problem}")]
    Override {
        /// The override.
        text: String,
        /// The problem.
        problem: String,
    },
    /// A profile cannot be found, read or built.
    #[error("{place}: {source}")]
    Profile {
        /// File, line and key.
        place: String,
        /// The profile's error.
        source: Box<ProfileError>,
    },
    /// The engine refuses the design.
    #[error("{place}: {source}")]
    Config {
        /// File, and line if it is known.
        place: String,
        /// The engine's error.
        source: ConfigError,
    },
}

/// An error in a simulation. Every message is one line.
#[derive(Debug, Error)]
pub enum SimError {
    /// The design cannot be built.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An error in one volume of a trace.
    #[error("volume {volume}: {source}")]
    OfVolume {
        /// Its name.
        volume: String,
        /// The error.
        source: Box<SimError>,
    },
    /// A request is past the end of the volume.
    #[error(
        "request {request} of the trace ({op} of {len} at {offset}) lies past the end of the volume of {volume}: use a \
         larger volume, or --fit wrap (offsets modulo the volume) or --fit skip"
    )]
    PastTheEnd {
        /// The number of the request, counted from 1.
        request: u64,
        /// The operation.
        op: Op,
        /// Its offset.
        offset: Bytes,
        /// Its length.
        len: Bytes,
        /// The size of the volume.
        volume: Bytes,
    },
    /// The state at the start of a recording is not one of this design.
    #[error(
        "the recorded state at the start cannot be opened with this design ({problem}): begin with an empty drive (--empty)"
    )]
    State {
        /// What the engine says.
        problem: String,
    },
    /// The trace has several volumes.
    #[error(
        "request {request} of the trace is of volume {}, those before of volume {}: {}choose one with --volumes, take each alone \
         with --each-volume, or lay them out one after the other with --concatenate",
        names.name(*volume),
        names.name(*before),
        names.advice(&[*before, *volume]).map_or_else(String::new, |advice| format!("{advice}; or "))
    )]
    SeveralVolumes {
        /// The number of the request, counted from 1.
        request: u64,
        /// The volume of the previous requests.
        before: u32,
        /// The volume of this request.
        volume: u32,
        /// What the trace calls its volumes.
        names: VolumeNames,
    },
    /// The trace has more volumes than the drive.
    #[error(
        "request {request} of the trace is of volume {}, a further one, but the design has {most}: raise volume.count, or \
         choose some with --volumes",
        names.name(*volume)
    )]
    TooManyVolumes {
        /// The number of the request, counted from 1.
        request: u64,
        /// The volume of this request.
        volume: u32,
        /// The number of volumes of the drive.
        most: usize,
        /// What the trace calls its volumes.
        names: VolumeNames,
    },
    /// The trace has fewer volumes than the drive.
    #[error(
        "the trace has requests of {found} volume(s), the design has {wanted}: lower volume.count, or give every volume \
         the same requests with volume.requests = \"same\""
    )]
    TooFewVolumes {
        /// Number of volumes with requests.
        found: usize,
        /// The number of volumes in the design.
        wanted: usize,
    },
    /// A request is past the end of a design that is simulated for a share of its data.
    #[error(
        "request {request} of the trace ends at {end}, past the end of the {volume} that the design's [load] leaves of the volume: \
         --set load.span=SIZE gives the address space of this trace; without [load] the whole design is simulated"
    )]
    PastTheSpan {
        /// The number of the request, counted from 1.
        request: u64,
        /// Its end.
        end: Bytes,
        /// The size of the simulated volume.
        volume: Bytes,
    },
    /// No request was replayed.
    #[error("no request of the trace was replayed ({skipped} were skipped as past the end of the volume)")]
    NoRequests {
        /// The number of requests past the end of the volume.
        skipped: u64,
    },
    /// The simulated time would be longer than the clock has.
    #[error("--speed {speed}: the simulated time is more than 290 years: give a higher speed")]
    TooSlow {
        /// The speed.
        speed: f64,
    },
    /// The trace ended within the warm-up.
    #[error("the trace ended after {answered} requests, within the warm-up of {wanted}: shorten --warm-up-requests")]
    WarmUpTooLong {
        /// The number of warm-up requests.
        wanted: u64,
        /// Number of requests answered.
        answered: u64,
    },
    /// The measured span has too many intervals.
    #[error(
        "--interval {length}: the simulated time has more than {most} intervals of this length, the most for this design: \
         use a longer one ({least} or more reaches the {so_far} simulated so far)"
    )]
    TooManyIntervals {
        /// The length that was asked for.
        length: Nanos,
        /// The most intervals.
        most: u64,
        /// The shortest length with which the simulation would have come as far as it did.
        least: Nanos,
        /// The simulated time so far.
        so_far: Nanos,
    },
    /// An interval of no length.
    #[error("--interval 0s: give a time above 0, such as 1s")]
    NoInterval,
    /// A sample that says nothing about the design, or too little.
    #[error("--sample {sample}: {problem}")]
    Sample {
        /// The share that was asked for.
        sample: String,
        /// The problem, and the remedy.
        problem: String,
    },
    /// The engine waits for an event that never comes: a defect of Peryton.
    #[error(
        "the simulation stalled at {at} with {in_flight} requests unanswered: this is a defect of Peryton, please \
         report it with the design and the trace"
    )]
    Stalled {
        /// The time on the simulated clock.
        at: Nanos,
        /// Requests in flight.
        in_flight: u32,
    },
}

impl SimError {
    /// Whether the cause is the user's input, and not the machine or Peryton.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, SimError::Stalled { .. })
    }

    /// The same error, of a design that is simulated for a share of its data.
    pub(crate) fn of_load(self) -> SimError {
        match self {
            SimError::PastTheEnd { request, offset, len, volume, .. } => {
                SimError::PastTheSpan { request, end: Bytes(offset.0.saturating_add(len.0)), volume }
            }
            other => other,
        }
    }
}
