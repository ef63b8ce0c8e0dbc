//! Measures a device for `peryton calibrate`: which device it is and what may be done to it, the steps with their progress, what is kept.

mod fio;
mod raw;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use peryton_device::{
    Io,
    fit::{Kind, knee},
    measure::{self, About, Budget, Course, MOST_DEPTH, MOST_SIZE, Measurement, Order, Progress, Subject},
    validate::Measured,
};
use peryton_drive::{Access, CpuPriority, DirectDevice, MeasureError, device_about};
use peryton_units::{Bytes, Nanos};
use signal_hook::consts::{SIGINT, SIGTERM};

pub use fio::{Flushes, measurement as of_fio};
pub use raw::{Kept, read};

use crate::{failure::Failure, table, terminal};

/// Rounds of a measurement; half of them are fitted.
const ROUNDS: u32 = 8;
/// The name of a scratch file in a folder.
const SCRATCH: &str = ".peryton-calibrate";

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// A block device or an image, a folder, or a file that is not there yet.
    pub path: &'a Path,
    /// Whether what a device holds may be overwritten.
    pub destructive: bool,
    /// The size of a scratch file.
    pub scratch: Bytes,
    /// The time for all steps.
    pub time: Nanos,
    /// What the device is; none: by the latencies of some reads.
    pub kind: Option<Kind>,
    pub seed: u64,
    /// Where the measurement is kept.
    pub keep: Option<&'a Path>,
}

struct Real(DirectDevice);

impl Subject for Real {
    fn now(&mut self) -> Nanos {
        self.0.now()
    }

    fn begin(&mut self, slot: u32, io: Io) -> Result<(), String> {
        self.0.begin(slot, io.op, io.at, io.len);
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<(u32, Nanos)>) -> Result<(), String> {
        self.0.wait(done).map_err(|error| error.to_string())
    }

    fn rest(&mut self, time: Nanos) {
        self.0.rest(time);
    }
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Failure {
        match error {
            MeasureError::Refused { .. } => Failure::bad_input(error),
            MeasureError::System { .. } => Failure::failed(error),
        }
    }
}

/// Measures a device, or what is missing in an earlier measurement of it. What was measured is kept when the user interrupts it.
///
/// # Errors
/// The device cannot be measured so, or fails.
pub fn measure(wanted: &Wanted<'_>, earlier: Option<Measurement>) -> Result<Measurement, Failure> {
    let (path, access) = target(wanted)?;
    let deepest = earlier.iter().flat_map(|earlier| &earlier.steps).map(|step| step.depth).max().unwrap_or(0);
    let slots = deepest.clamp(MOST_DEPTH / 4, MOST_DEPTH);
    let mut subject = Real(DirectDevice::open(&path, access, slots, MOST_SIZE)?);
    let mut device = about(&path, access, &subject.0);
    introduce(&device, &subject.0);
    let preferred = CpuPriority::raise();
    if preferred.is_none() {
        terminal::remark(
            "no real-time priority is permitted: what other programs take of the processors is measured as well",
        );
    }
    let stop = interruptible()?;
    let stopped = || stop.load(Relaxed);
    let mut tell = |progress: Progress<'_>| remark(&progress);
    let failed = |message: String| Failure::failed(message);
    let factor = if device.scratch { 4 } else { 2 };
    let budget = Budget { whole: wanted.time, most_written: device.size.saturating_mul(factor) };
    let courses = if device.scratch || earlier.is_none() {
        measure::sustain(&mut subject, &device, (wanted.seed, budget), &stopped, &mut tell).map_err(failed)?
    } else {
        Vec::new()
    };
    let mut measurement = match earlier {
        Some(earlier) => {
            same(&earlier.device, &device)?;
            earlier
        }
        None => {
            let some = measure::probe(&mut subject, &device, &stopped).map_err(failed)?;
            device.kind = wanted.kind.unwrap_or_else(|| kind(&some));
            let mut new = Measurement::new(device, wanted.seed, ROUNDS);
            new.courses = courses;
            new
        }
    };
    // What cannot be written at the end is better known now.
    raw::keep(wanted.keep, &measurement)?;
    let mut kept = Ok(());
    let mut after_round = |measurement: &Measurement| {
        if kept.is_ok() {
            kept = raw::keep(wanted.keep, measurement);
        }
    };
    let result = measure::measure(&mut subject, &mut measurement, budget, &stopped, &mut tell, &mut after_round);
    drop(subject);
    drop(preferred);
    kept?;
    raw::keep(wanted.keep, &measurement)?;
    if let Err(what) = result {
        let rounds = measurement.complete_rounds();
        let kept = wanted.keep.map(|path| format!("; {} has the rounds before", path.display())).unwrap_or_default();
        return Err(Failure::failed(format!("{what} (in round {} of {}{kept})", rounds + 1, measurement.rounds)));
    }
    if stopped() {
        terminal::remark(&format!(
            "interrupted after {} of {} rounds",
            measurement.complete_rounds(),
            measurement.rounds
        ));
    }
    // From here on a signal ends the program.
    stop.store(true, Relaxed);
    Ok(measurement)
}

/// What random reads were measured on: those of a disk are slow, and wait for anything up to a turn.
fn kind(reads: &[Measured]) -> Kind {
    let mut took: Vec<u64> = reads.iter().map(|read| read.latency.0).collect();
    took.sort_unstable();
    let at = |tenth: usize| took.get(took.len() * tenth / 10).copied().unwrap_or_default();
    let varies = at(9).saturating_sub(at(1)) * 10 > at(5) * 3;
    if varies { Kind::of(reads) } else { Kind::Flash }
}

/// What is opened, and for what.
fn target(wanted: &Wanted<'_>) -> Result<(PathBuf, Access), Failure> {
    let path = wanted.path;
    let shown = path.display();
    let scratch = |path: PathBuf| {
        if wanted.destructive {
            let what = format!(
                "{shown}: --destructive is for devices: a scratch file is new and harms nothing, so leave it out"
            );
            return Err(Failure::bad_input(what));
        }
        Ok((path, Access::Scratch(wanted.scratch)))
    };
    match path.metadata() {
        Ok(about) if about.is_dir() => scratch(path.join(format!("{SCRATCH}-{}", std::process::id()))),
        Ok(about) if about.is_file() && wanted.destructive => Err(Failure::bad_input(format!(
            "{shown}: --destructive is for block devices, and this is a file: name a folder or a new file, in which a scratch file is made"
        ))),
        Ok(_) if wanted.destructive => Ok((path.to_owned(), Access::Overwrite)),
        Ok(_) => Ok((path.to_owned(), Access::Read)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.starts_with("/dev") => {
            scratch(path.to_owned())
        }
        Err(error) => Err(Failure::bad_input(format!("{shown}: {error}"))),
    }
}

fn about(path: &Path, access: Access, open: &DirectDevice) -> About {
    let is_scratch = matches!(access, Access::Scratch(_));
    // The scratch file has no name any more.
    let known = device_about(if is_scratch {
        path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
    } else {
        path
    });
    About {
        path: path.display().to_string(),
        model: known.model,
        kind: Kind::Flash,
        rotational: known.rotational,
        size: open.size,
        capacity: known.size.filter(|&size| size >= open.size),
        block: open.block,
        scratch: is_scratch,
        written: access != Access::Read,
        direct: open.is_direct,
    }
}

fn introduce(device: &About, open: &DirectDevice) {
    let mut line = format!("{}: {}", device.path, device.size);
    if device.scratch {
        line += " as a scratch file";
    }
    if let Some(model) = &device.model {
        let _ = write!(line, ", {model}");
    }
    if let Some(rotational) = device.rotational {
        line += if rotational { ", rotational according to the system" } else { ", not rotational" };
    }
    line += match (device.written, device.scratch) {
        (true, true) => "; reads and writes it",
        (true, false) => "; reads and OVERWRITES it",
        (false, _) => "; only reads it",
    };
    let _ = write!(line, "; by {}", open.method());
    terminal::remark(&line);
    if !device.direct {
        terminal::remark("the file system has no O_DIRECT: the measurement shows the page cache in front of it");
    }
}

/// Refuses to go on with a measurement of another device.
fn same(earlier: &About, now: &About) -> Result<(), Failure> {
    let differs = |what: &str| {
        let message = format!("the measurement of --from is of another device than {}: {what} differs", now.path);
        Err(Failure::bad_input(message))
    };
    if earlier.size != now.size {
        return differs("its size");
    }
    if earlier.model != now.model {
        return differs("its model");
    }
    if earlier.written != now.written || earlier.scratch != now.scratch {
        return differs("whether it is written");
    }
    Ok(())
}

/// A flag that the first Ctrl-C sets; after that, the second one ends the program.
fn interruptible() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::failed)?;
    }
    Ok(stop)
}

/// A line for each step of the first round, and one for each further round.
fn remark(progress: &Progress<'_>) {
    let step = progress.step.name();
    let mean = table::number(progress.mean.0 as f64 / 1e3);
    match progress.round {
        None => terminal::remark(&format!(
            "sustained {step}: {} written, mean {mean} us",
            Bytes(progress.requests >> 20 << 20)
        )),
        Some(0) => {
            terminal::remark(&format!("round 1 of {ROUNDS}: {step}: {} requests, mean {mean} us", progress.requests))
        }
        Some(round) if progress.number == 0 => terminal::remark(&format!("round {} of {ROUNDS}", round + 1)),
        Some(_) => {}
    }
}

/// Why flushes are not fitted where the model has mechanisms.
const NO_VALUE_FOR_FLUSHES: &str = "in this kind of model a flush takes what its buffer or cache has to write";

/// What flushes took in the rounds that were fitted and in the others, in a sentence.
pub fn flushed(measurement: &Measurement, kind: Kind) -> Option<String> {
    let [(fitted, some), (others, more)] = [measurement.flush(true)?, measurement.flush(false)?];
    let [fitted, others] = [fitted, others].map(|mean| table::number(mean.0 as f64 / 1e3));
    let size = Bytes(4096).max(measurement.device.block);
    let said = match kind {
        Kind::Fixed => "the first is the model's 'flush'",
        _ => NO_VALUE_FOR_FLUSHES,
    };
    let count = some + more;
    Some(format!(
        "flushes, each after a write of {size}: {count}, {fitted} us on average in the rounds that were fitted and {others} in the others; {said}"
    ))
}

/// What sustained writes showed, in sentences.
pub fn sustained(courses: &[Course]) -> Vec<String> {
    courses.iter().filter_map(sentence).collect()
}

fn sentence(course: &Course) -> Option<String> {
    let written: u64 = course.intervals.iter().map(|interval| interval.written).sum();
    let took: u64 = course.intervals.iter().map(|interval| interval.took).sum();
    if took == 0 {
        return None;
    }
    let name = if course.what.order == Order::Sequential { "sequential" } else { "random" };
    let size = course.what.size;
    let rate = table::number(written as f64 * 1e3 / took as f64);
    let longest = course.intervals.iter().map(|interval| interval.longest).max().unwrap_or(0);
    let longest = table::number(longest as f64 / 1e6);
    let mut text = format!(
        "sustained {name} writes of {size}: {rate} MB/s over {}, the longest took {longest} ms",
        Bytes(written >> 20 << 20)
    );
    if let Some(knee) = knee(&course.intervals) {
        let _ = write!(
            text,
            "; {} MB/s at first and {} after {}, as from a write cache that is full",
            table::number(knee.before_mb_per_s),
            table::number(knee.then_mb_per_s),
            Bytes(knee.after.0 >> 20 << 20)
        );
    }
    Some(text)
}
