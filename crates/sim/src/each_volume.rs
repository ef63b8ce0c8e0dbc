//! Each volume of a trace on a drive of its own.

use peryton_trace::{ByVolume, OneVolume};
use rayon::prelude::*;

use crate::{
    CurveRow, Curves, Design, MiniatureError, Options, Report, SimError,
    run::{run, with_shared_images},
};

/// Replays each volume of a trace alone on each design, on all cores; the reports come by volume in the order of their numbers, and for
/// each in the order of the designs. They name the volume in `design` and in `sweep`. `progress` gets numbers of requests.
///
/// ```
/// use peryton_sim::{Design, Options, run_each_volume};
/// use peryton_trace::{ByVolume, OpenOptions, read};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(text, "one", &[])?;
/// let trace = &b"time_us,volume,op,offset,length\n0,7,R,0,512\n5,2,R,0,512\n9,7,W,0,512\n"[..];
/// let volumes = ByVolume::of(&mut read("t.csv", trace, &OpenOptions::default())?)?;
/// let reports = run_each_volume(&[design], "t.csv", volumes, &Options::default(), &|_requests| {})?;
/// let found: Vec<_> = reports.iter().map(|report| (report.design.as_str(), report.requests)).collect();
/// assert_eq!(found, [("one volume=2", 1), ("one volume=7", 2)]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`run`], with the volume, and those of reading temporary files.
pub fn run_each_volume(
    designs: &[Design],
    trace_name: &str,
    volumes: ByVolume,
    options: &Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Report>, SimError> {
    let designs = with_shared_images(designs);
    each(volumes, |volume| {
        let found = run(&designs, trace_name, &|| Ok(volume.open()), options, &|_| {});
        progress(volume.requests().len() as u64);
        let mut reports = found.map_err(|source| at(volume, source))?;
        for report in &mut reports {
            report.design += &format!(" volume={}", volume.name());
            report.sweep.insert("volume".to_owned(), volume.name().to_owned());
        }
        Ok(reports)
    })
}

impl Curves {
    /// The rows of each volume of a trace alone, on all cores, by volume in the order of their numbers.
    ///
    /// # Errors
    /// Those of [`Curves::of`], and those of reading temporary files.
    pub fn of_each_volume(&self, volumes: ByVolume) -> Result<Vec<CurveRow>, MiniatureError> {
        self.check()?;
        each(volumes, |volume| {
            let mut rows = match self.of(&|| Ok(volume.open()), &|_| {}) {
                // It has no row, like a volume that is not there.
                Err(MiniatureError::NoAccesses) => Vec::new(),
                rows => rows?,
            };
            rows.iter_mut().for_each(|row| row.volume = Some(volume.name().to_owned()));
            Ok(rows)
        })
        .and_then(|rows| if rows.is_empty() { Err(MiniatureError::NoAccesses) } else { Ok(rows) })
    }
}

fn at(volume: &OneVolume, source: SimError) -> SimError {
    SimError::OfVolume { volume: volume.name().to_owned(), source: Box::new(source) }
}

/// What each volume gives, in the order of their numbers. Those of one part are in memory at a time.
fn each<T: Send, E: Send + From<peryton_trace::TraceError>>(
    volumes: ByVolume,
    one: impl Fn(&OneVolume) -> Result<Vec<T>, E> + Sync,
) -> Result<Vec<T>, E> {
    let mut found: Vec<(u32, Vec<T>)> = Vec::new();
    for part in volumes.parts() {
        let part = part?;
        let rows: Result<Vec<_>, E> = part.par_iter().map(|volume| Ok((volume.number(), one(volume)?))).collect();
        found.extend(rows?);
    }
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().flat_map(|(_, rows)| rows).collect())
}
