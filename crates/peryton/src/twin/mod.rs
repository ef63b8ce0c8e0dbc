//! The twin of a drive in service: its recording replayed on models of its devices, beside what it measured.
//!
//! `recording.rs` reads a recording, `predict.rs` replays it with the drive's own engine and settings, `compare.rs` sets prediction
//! beside measurement, and `reasons.rs` says why they differ where they do.

mod compare;
mod predict;
mod reasons;
mod recording;

use std::path::PathBuf;

use peryton_drive::control::Ask;
use peryton_sim::Replay;
use serde::Serialize;

pub use self::predict::Requests;
pub use self::{
    compare::{Apart, Figure, Overhead, Verdict},
    predict::{Models, Prediction, Setup},
    recording::Recording,
};
use crate::{failure::Failure, naming::Served};

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Twin {
    /// The version that made it.
    pub peryton_version: &'static str,
    /// The command that made it.
    pub command: String,
    /// The recording.
    pub recording: About,
    /// A hash of the replayed requests.
    pub trace_hash: String,
    /// The replay.
    pub replay: String,
    /// What the host adds to a request, fitted to the first half of the requests.
    pub overhead: Overhead,
    /// The figures. Those of response times are of the second half, which nothing was fitted to.
    pub figures: Vec<Figure>,
    /// How far reads, writes and flushes, and the devices' commands, are apart, each for itself.
    pub apart: Apart,
    /// The likeliest reasons for what disagrees, and what limits the comparison.
    pub reasons: Vec<String>,
    /// The design in full, as it was simulated.
    pub design_toml: String,
}

/// What the recording is.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// The file.
    pub path: PathBuf,
    /// The volume.
    pub name: String,
    /// The version of Peryton that recorded it.
    pub peryton_version: String,
    /// Its files: when it is full, the oldest one goes.
    pub files: usize,
    /// Requests that are replayed: those before the drive's last counts.
    pub requests: usize,
    /// Replies at the start that only warm the twin up, because the state of the start is not known.
    pub warm_up: u64,
    /// Requests after the last counts, which are left out.
    pub uncounted: usize,
    /// Requests that are missing because they could not be written.
    pub dropped: u64,
    /// Bytes of the file that belong to no whole chunk.
    pub damaged_bytes: u64,
    /// The time from the start of the server, or from the first request that is still there, to the last counts.
    pub span_s: f64,
    /// Whether the state of the volume at the start is part of it.
    pub has_state: bool,
}

impl Twin {
    /// Replays the recording and compares.
    pub fn of(recording: &Recording, models: &Models, replay: Replay) -> Result<Twin, Failure> {
        let setup = Setup::of(recording, models)?;
        let prediction = Prediction::of(recording, &setup, replay)?;
        Ok(Twin::compared(recording, &setup, &prediction, replay))
    }

    /// The comparison of a recording with its replay.
    pub fn compared(recording: &Recording, setup: &Setup, prediction: &Prediction, replay: Replay) -> Twin {
        let overhead = Overhead::fitted(recording, prediction);
        let (figures, apart) = compare::figures(recording, setup, prediction, &overhead);
        let reasons = reasons::of(recording, setup, prediction, &figures, &overhead);
        Twin {
            peryton_version: peryton_version::VERSION,
            command: crate::page::command_line(),
            recording: About {
                path: recording.path.clone(),
                name: recording.head.name.clone(),
                peryton_version: recording.head.peryton_version.clone(),
                files: recording.files,
                requests: recording.rows.len(),
                warm_up: recording.warm_up,
                uncounted: recording.uncounted,
                dropped: recording.dropped,
                damaged_bytes: recording.damaged_bytes,
                span_s: recording.figures.at.as_s_f64(),
                has_state: recording.has_state(),
            },
            trace_hash: prediction.report.trace_hash.to_string(),
            replay: replay.to_string(),
            overhead,
            figures,
            apart,
            reasons,
            design_toml: prediction.report.design_toml.clone(),
        }
    }
}

/// The recording of a volume that is being served.
pub fn recording_of_served(volume: &Served) -> Result<Recording, Failure> {
    let status = volume.value(&Ask::Status {}, "status")?;
    let found = status["recording"]["path"].as_str().map(PathBuf::from);
    let found = found.ok_or_else(|| {
        Failure::bad_input(format!("'{volume}' is being served without a recording: serve it with --record FILE"))
    })?;
    Recording::read(&found)
}
