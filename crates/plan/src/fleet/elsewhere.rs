//! Parts of the work that other machines do: each has all that it needs but the files, as a point of a sweep.

use std::collections::BTreeMap;

use peryton_sim::{PointTrace, file_hash};
use peryton_trace::TraceFiles;
use serde::{Deserialize, Serialize};

use super::{
    error::FleetPlanError,
    load::VolumeLoad,
    recordings::Recordings,
    verify::{DriveDone, DriveTask},
};

/// A part of the work: volumes to measure, or a drive to simulate. What it gives does not depend on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetPoint {
    /// The files that it needs, with their hashes, and how they are read.
    pub trace: PointTrace,
    names: Vec<String>,
    numbers: Vec<u32>,
    is_folder: bool,
    speed: f64,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Measure(usize),
    Simulate(DriveTask),
}

/// Makes the parts of the work of a fleet; each file is hashed once.
pub struct FleetPoints<'a> {
    recordings: &'a Recordings,
    /// How the files are read.
    reading: PointTrace,
    hashes: BTreeMap<std::path::PathBuf, String>,
}

impl<'a> FleetPoints<'a> {
    /// `reading`: the options for reading the files.
    pub fn new(recordings: &'a Recordings, reading: PointTrace) -> FleetPoints<'a> {
        FleetPoints { recordings, reading, hashes: BTreeMap::new() }
    }

    /// The measurements of all volumes.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn measurements(&mut self) -> Result<Vec<FleetPoint>, FleetPlanError> {
        (0..self.recordings.parts())
            .map(|part| {
                let at = if self.recordings.is_folder() { 0 } else { part };
                self.point(&[part], What::Measure(at))
            })
            .collect()
    }

    /// The simulations of drives.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn simulations(&mut self, drives: &[DriveTask]) -> Result<Vec<FleetPoint>, FleetPlanError> {
        drives
            .iter()
            .map(|drive| {
                let volumes: Vec<usize> = if self.recordings.is_folder() { drive.numbers().collect() } else { vec![0] };
                self.point(&volumes, What::Simulate(drive.clone()))
            })
            .collect()
    }

    fn point(&mut self, files: &[usize], what: What) -> Result<FleetPoint, FleetPlanError> {
        let mut trace = PointTrace { files: Vec::new(), hashes: Vec::new(), ..self.reading.clone() };
        let (mut names, mut numbers) = (Vec::new(), Vec::new());
        for file in files {
            let (path, name, number) = self.recordings.file(*file);
            let hash = match self.hashes.get(path) {
                Some(hash) => hash.clone(),
                None => {
                    let hash = file_hash(path).map_err(|error| FleetPlanError::Elsewhere(error.to_string()))?;
                    self.hashes.insert(path.to_owned(), hash.clone());
                    hash
                }
            };
            trace.files.push(path.to_owned());
            trace.hashes.push(hash);
            names.extend(name.map(str::to_owned));
            numbers.push(number);
        }
        let (is_folder, speed) = (self.recordings.is_folder(), self.recordings.speed());
        Ok(FleetPoint { trace, names, numbers, is_folder, speed, what })
    }
}

impl FleetPoint {
    /// Does the work, on this thread; gives JSON.
    ///
    /// # Errors
    /// A file cannot be read, or a simulation fails.
    pub fn row(&self) -> Result<String, FleetPlanError> {
        let elsewhere = |error: String| FleetPlanError::Elsewhere(error);
        let read = self.trace.opened_by().map_err(elsewhere)?;
        let files =
            read.paths.iter().map(|path| TraceFiles { paths: vec![path.clone()], options: read.options.clone() });
        let (names, numbers) = (self.names.clone(), self.numbers.clone());
        let recordings =
            Recordings::of_files(self.trace.name.clone(), files.collect(), names, numbers, self.is_folder, self.speed);
        let json = match &self.what {
            What::Measure(part) => serde_json::to_string(&recordings.measure_part(*part)?),
            What::Simulate(drive) => {
                serde_json::to_string(&recordings.simulate(std::slice::from_ref(drive), &|_, _| {})?)
            }
        };
        json.map_err(|error| elsewhere(error.to_string()))
    }

    /// What a measurement gave.
    ///
    /// # Errors
    /// It is no such JSON.
    pub fn loads(row: &str) -> Result<Vec<VolumeLoad>, FleetPlanError> {
        serde_json::from_str(row).map_err(|error| FleetPlanError::Elsewhere(format!("row: {error}")))
    }

    /// What a simulation gave.
    ///
    /// # Errors
    /// It is no such JSON.
    pub fn drives(row: &str) -> Result<Vec<DriveDone>, FleetPlanError> {
        serde_json::from_str(row).map_err(|error| FleetPlanError::Elsewhere(format!("row: {error}")))
    }
}
