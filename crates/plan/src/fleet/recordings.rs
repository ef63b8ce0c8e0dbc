//! The recordings of a fleet: a folder with one for each volume, or one trace whose requests name their volumes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use peryton_trace::{Accounts, OpenOptions, Remark, Request, Source, SourceError, TraceFiles};
use peryton_units::Nanos;
use rayon::prelude::*;

use super::{
    error::{FleetPlanError, MOST_VOLUMES},
    load::{Meter, VolumeLoad},
};

/// The parts of one trace that are measured apart: each reads it and takes every volume whose number is its own by this modulus.
pub const PARTS: usize = 16;

/// The recordings of many volumes.
#[derive(Clone, Debug)]
pub struct Recordings {
    /// What they are called.
    pub name: String,
    /// One for each volume, or one with all of them.
    files: Vec<TraceFiles>,
    names: Vec<String>,
    /// The number of each of them in its folder: those of some volumes may be taken alone.
    numbers: Vec<u32>,
    is_folder: bool,
    /// How much faster than recorded they are replayed.
    speed: f64,
    accounts: Vec<Accounts>,
}

/// The part of a fleet's time that is simulated, for a volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) volume: u32,
    /// Its clock is so much ahead of the fleet's.
    pub(super) shift: Nanos,
    pub(super) from: Nanos,
    pub(super) to: Nanos,
}

impl Recordings {
    /// The recordings in a folder, each of one volume, in the order of their names; or a trace with the numbers of volumes.
    ///
    /// # Errors
    /// A folder that cannot be read, or has fewer than two files or too many.
    pub fn at(path: &Path, options: &OpenOptions, speed: f64) -> Result<Recordings, FleetPlanError> {
        let shown = path.display().to_string();
        let name = path.file_name().map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned());
        let of = |path: PathBuf| TraceFiles { paths: vec![path], options: options.clone() };
        if !path.is_dir() {
            let files = vec![of(path.to_owned())];
            return Ok(Recordings::of_files(name, files, Vec::new(), vec![0], false, speed));
        }
        let io = |source| FleetPlanError::Io { path: shown.clone(), source };
        let mut paths = Vec::new();
        for entry in fs::read_dir(path).map_err(io)? {
            let entry = entry.map_err(io)?;
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if !is_hidden && !entry.path().is_dir() {
                paths.push(entry.path());
            }
        }
        paths.sort();
        if paths.len() < 2 {
            return Err(FleetPlanError::FewRecordings { path: shown, files: paths.len() });
        }
        if paths.len() > MOST_VOLUMES {
            return Err(FleetPlanError::ManyVolumes { volumes: paths.len() });
        }
        let whole =
            |path: &PathBuf| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let stem = |path: &PathBuf| whole(path).split('.').next().unwrap_or_default().to_owned();
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        paths.iter().for_each(|path| *count.entry(stem(path)).or_default() += 1);
        let names = paths.iter().map(|path| if count[&stem(path)] == 1 { stem(path) } else { whole(path) }).collect();
        let numbers = (0..paths.len() as u32).collect();
        let files = paths.into_iter().map(of).collect();
        Ok(Recordings::of_files(name, files, names, numbers, true, speed))
    }

    /// The files with these numbers, which may be copies on another machine.
    pub(super) fn of_files(
        name: String,
        files: Vec<TraceFiles>,
        names: Vec<String>,
        numbers: Vec<u32>,
        is_folder: bool,
        speed: f64,
    ) -> Recordings {
        let accounts = files.iter().map(|_| Accounts::default()).collect();
        Recordings { name, files, names, numbers, is_folder, speed, accounts }
    }

    /// The file of a part, or of a volume: its path, its name and its number.
    pub(super) fn file(&self, number: usize) -> (&Path, Option<&str>, u32) {
        let index = if self.is_folder { number } else { 0 };
        (&self.files[index].paths[0], self.names.get(index).map(String::as_str), self.numbers[index])
    }

    pub(super) fn is_folder(&self) -> bool {
        self.is_folder
    }

    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// How many parts can be measured apart from each other.
    pub fn parts(&self) -> usize {
        if self.is_folder { self.files.len() } else { PARTS }
    }

    /// Measures the volumes of a part.
    ///
    /// # Errors
    /// A recording that cannot be read, or has several volumes where there should be one.
    pub fn measure_part(&self, part: usize) -> Result<Vec<VolumeLoad>, FleetPlanError> {
        let mut meters = match self.is_folder {
            true => self.measured(part, 1, |_| Some(0))?,
            false => self.measured(0, 1, |request| (request.volume as usize % PARTS == part).then_some(0))?,
        };
        Ok(meters.remove(0))
    }

    /// Measures all volumes on all cores; they come in the order of their numbers.
    ///
    /// # Errors
    /// Those of [`Recordings::measure_part`], a fleet of one volume or of too many.
    pub fn measure(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Vec<VolumeLoad>, FleetPlanError> {
        let done = std::sync::atomic::AtomicU64::new(0);
        let loads: Vec<Vec<VolumeLoad>> = match self.is_folder {
            true => (0..self.files.len())
                .into_par_iter()
                .map(|part| {
                    let found = self.measure_part(part);
                    progress(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, self.files.len() as u64);
                    found
                })
                .collect::<Result<_, _>>()?,
            false => self.measured(0, PARTS, |request| Some(request.volume as usize % PARTS))?,
        };
        self.checked(loads.into_iter().flatten().collect())
    }

    /// The volumes that were measured, in the order of their numbers.
    ///
    /// # Errors
    /// A fleet of one volume, or of too many.
    pub fn checked(&self, mut loads: Vec<VolumeLoad>) -> Result<Vec<VolumeLoad>, FleetPlanError> {
        loads.sort_by_key(|load| load.number);
        match loads.len() {
            0 | 1 => Err(FleetPlanError::OneVolume { name: self.name.clone() }),
            volumes if volumes > MOST_VOLUMES => Err(FleetPlanError::ManyVolumes { volumes }),
            _ => Ok(loads),
        }
    }

    /// What a person should know of how the recordings were read, with the name of each.
    pub fn remarks(&self) -> Vec<(String, Remark)> {
        let of = |(files, accounts): (&TraceFiles, &Accounts)| {
            let remarks = accounts.get().map_or_else(Vec::new, |account| account.remarks());
            remarks.into_iter().map(|remark| (files.name(), remark)).collect::<Vec<_>>()
        };
        self.files.iter().zip(&self.accounts).flat_map(of).collect()
    }

    /// Reads a file to its end: `each` gets its batches, and the time of its first request on its own clock.
    fn read(
        &self,
        file: usize,
        mut each: impl FnMut(&dyn Source, Nanos, &[Request]) -> Result<(), FleetPlanError>,
    ) -> Result<(), FleetPlanError> {
        let of_file = |source: SourceError| {
            let (name, in_folder) = (self.files[file].name(), self.is_folder);
            FleetPlanError::Recording { name, source: Box::new(source), in_folder }
        };
        let mut source = self.files[file].source(&self.accounts[file]).map_err(of_file)?;
        let (mut batch, mut start) = (Vec::new(), None);
        loop {
            source.next_batch(&mut batch).map_err(|error| of_file(SourceError::Trace(error)))?;
            if batch.is_empty() {
                return Ok(());
            }
            if source.account().untimed > 0 {
                return Err(FleetPlanError::NoTimes { name: self.files[file].name() });
            }
            let start = *start.get_or_insert_with(|| source.account().start);
            each(&*source, start, &batch)?;
        }
    }

    /// The time of a request on the clock of its recording.
    fn clock(&self, start: Nanos, request: &Request) -> Nanos {
        let at = Nanos(start.0.saturating_add(request.at.0));
        if self.speed == 1.0 { at } else { Nanos((at.0 as f64 / self.speed) as u64) }
    }

    /// The volumes of a file in so many groups, of which `group` gives that of a request.
    fn measured(
        &self,
        file: usize,
        groups: usize,
        group: impl Fn(&Request) -> Option<usize> + Sync,
    ) -> Result<Vec<Vec<VolumeLoad>>, FleetPlanError> {
        let mut meters: Vec<BTreeMap<u32, Meter>> = (0..groups).map(|_| BTreeMap::new()).collect();
        let mut only: Option<u32> = None;
        let mut names = None;
        self.read(file, |source, start, batch| {
            if self.is_folder {
                let first = *only.get_or_insert(batch[0].volume);
                if let Some(other) = batch.iter().find(|request| request.volume != first) {
                    let name = |volume: u32| source.account().names.name(volume);
                    let (first, second) = (name(first), name(other.volume));
                    return Err(FleetPlanError::SeveralVolumes { name: self.files[file].name(), first, second });
                }
            }
            meters.par_iter_mut().enumerate().for_each(|(number, meters)| {
                for request in batch.iter().filter(|request| group(request) == Some(number)) {
                    meters.entry(request.volume).or_insert_with(Meter::new).add(self.clock(start, request), request);
                }
            });
            if meters.iter().map(BTreeMap::len).sum::<usize>() > MOST_VOLUMES {
                return Err(FleetPlanError::ManyVolumes { volumes: MOST_VOLUMES + 1 });
            }
            names = Some(source.account().names);
            Ok(())
        })?;
        let names = names.unwrap_or_default();
        let ended = |(volume, meter): (u32, Meter)| match self.is_folder {
            true => meter.ended(self.names[file].clone(), self.numbers[file]),
            false => meter.ended(names.name(volume), volume),
        };
        Ok(meters.into_iter().map(|meters| meters.into_iter().filter_map(ended).collect()).collect())
    }

    /// The requests of several drives, each a part of its volumes' time; their times begin with that.
    pub(super) fn requests(&self, drives: &[Vec<Taken>]) -> Result<Vec<Vec<Request>>, FleetPlanError> {
        let mut all: Vec<Vec<Request>> = match self.is_folder {
            true => drives
                .par_iter()
                .map(|drive| {
                    let mut requests = Vec::new();
                    for taken in drive {
                        let file = self.numbers.iter().position(|number| *number == taken.volume);
                        let file = file.expect("a volume is one of the folder");
                        self.read(file, |_, start, batch| {
                            requests.extend(batch.iter().filter_map(|request| self.taken(taken, start, request)));
                            Ok(())
                        })?;
                    }
                    Ok::<_, FleetPlanError>(requests)
                })
                .collect::<Result<_, _>>()?,
            false => {
                let places: BTreeMap<u32, (usize, Taken)> = drives
                    .iter()
                    .enumerate()
                    .flat_map(|(drive, all)| all.iter().map(move |taken| (taken.volume, (drive, *taken))))
                    .collect();
                let mut all = vec![Vec::new(); drives.len()];
                self.read(0, |_, start, batch| {
                    for request in batch {
                        let Some((drive, taken)) = places.get(&request.volume) else { continue };
                        all[*drive].extend(self.taken(taken, start, request));
                    }
                    Ok(())
                })?;
                all
            }
        };
        // Of each volume they are in order; of equal times those of the first volume come first.
        all.par_iter_mut().for_each(|requests| requests.sort_by_key(|request| (request.at, request.volume)));
        Ok(all)
    }

    fn taken(&self, taken: &Taken, start: Nanos, request: &Request) -> Option<Request> {
        let at = self.clock(start, request).saturating_sub(taken.shift);
        let is_within = at >= taken.from && at < taken.to;
        is_within.then(|| Request { at: at - taken.from, volume: taken.volume, ..*request })
    }
}
