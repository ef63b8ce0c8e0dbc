//! The errors of planning for a fleet.

use peryton_device::ProfileError;
use peryton_sim::SimError;
use peryton_trace::SourceError;
use thiserror::Error;

/// The most volumes of a fleet.
pub const MOST_VOLUMES: usize = 20_000;

/// The reason why there is no plan for a fleet. Every message is one line.
#[derive(Debug, Error)]
pub enum FleetPlanError {
    /// The folder cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// Its path.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The folder has no recordings, or one.
    #[error("{path}: {} in this folder, and a fleet has two or more: give a folder with a recording of each volume, or a trace that names its volumes", match .files { 0 => "no recordings", _ => "one recording" })]
    FewRecordings {
        /// Its path.
        path: String,
        /// Number of files.
        files: usize,
    },
    /// A recording cannot be read.
    #[error("{}{}", with_name(.name, .source), if *.in_folder { ": take the file out of the folder if it is no recording" } else { "" })]
    Recording {
        /// Its name.
        name: String,
        /// Why.
        source: Box<SourceError>,
        /// Whether it is one of a folder.
        in_folder: bool,
    },
    /// A recording in a folder has several volumes.
    #[error(
        "{name} has requests of the volumes {first} and {second}: a folder has a recording of each volume; give such a trace alone, or choose one with --volumes"
    )]
    SeveralVolumes {
        /// Its name.
        name: String,
        /// A volume.
        first: String,
        /// Another one.
        second: String,
    },
    /// A recording has no times.
    #[error("{name} has no times, so nothing says which loads coincide: a fleet is planned from recordings with times")]
    NoTimes {
        /// Its name.
        name: String,
    },
    /// There is one volume.
    #[error("{name} has requests of one volume: use --trace, or a trace that names its volumes")]
    OneVolume {
        /// What the recordings are called.
        name: String,
    },
    /// There are too many volumes.
    #[error("there are {volumes} volumes, more than {MOST_VOLUMES}: plan for a part of them (--volumes)")]
    ManyVolumes {
        /// Their number.
        volumes: usize,
    },
    /// A budget or an objective that cannot be computed for a fleet.
    #[error("{what}: is no {kind} of a fleet: use {known}")]
    NotOfFleet {
        /// What was asked.
        what: String,
        /// Budget or objective.
        kind: &'static str,
        /// What there is.
        known: &'static str,
    },
    /// A setting is out of its range.
    #[error("{key} is {value}: use {remedy}")]
    Range {
        /// The setting.
        key: &'static str,
        /// The value given.
        value: String,
        /// What is accepted.
        remedy: &'static str,
    },
    /// A model refuses its parameters.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A simulation failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// What another machine was asked could not be done.
    #[error("{0}")]
    Elsewhere(String),
}

/// An error of a recording, which may name the file already.
fn with_name(name: &str, source: &SourceError) -> String {
    let text = source.to_string();
    if text.contains(name) { text } else { format!("{name}: {text}") }
}
