//! One simulation of a sweep, and the row that comes of it.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
    sync::Arc,
};

use peryton_device::flash::Images;
use peryton_trace::{Accounts, OpenOptions, Source, TraceError, TraceFiles};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content;
use crate::{
    Design, DesignError, DesignText, Fit, Options, Replay, Report, Sampling, build, columns::leaves,
    document::one_line, run_one,
};

/// A row of a data set: figures by their dotted names.
pub type Row = Map<String, Value>;

/// A trace of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointTrace {
    /// Its name in reports.
    pub name: String,
    /// Its files; several are merged by time.
    pub files: Vec<PathBuf>,
    /// The name of its format, if it has to be given.
    pub format: Option<String>,
    /// Which columns of a table are what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// The units of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether bad lines are skipped.
    pub skip_bad: bool,
    /// The names of the volumes to read; `None`: all.
    pub volumes: Option<Vec<String>>,
    /// Whether the volumes are put one after the other into one address space.
    pub concatenate: bool,
    /// Whether the volumes are numbered by file.
    pub files_as_volumes: bool,
    /// Whether the whole trace is sorted by time.
    #[serde(default)]
    pub sort: bool,
    /// Whether requests with times in whole seconds are spread over their second.
    #[serde(default)]
    pub spread: bool,
    /// The hash of the bytes of each file.
    pub hashes: Vec<String>,
}

/// One simulation of a sweep. It has everything that it needs but the files of its trace, so it may be simulated on another
/// machine, with the same result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The text of the design.
    pub design: String,
    /// The name of the design's file.
    pub design_name: String,
    /// The keys that are set in every point, with their values.
    pub set: BTreeMap<String, String>,
    /// The keys of the sweep, with their values in this point.
    pub keys: Vec<(String, String)>,
    /// The trace.
    pub trace: PointTrace,
    /// When requests arrive.
    pub replay: String,
    /// How many times faster than recorded.
    pub speed: Option<f64>,
    /// The volume is new: a tier begins empty.
    pub new_volume: bool,
    /// Requests before the measured ones.
    pub warm_up_requests: u64,
    /// The most requests.
    pub limit: Option<u64>,
    /// The share of the trace to simulate, if not the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<f64>,
    /// Requests past the end of the volume: `error`, `wrap` or `skip`.
    pub fit: String,
}

/// A point whose design was read.
#[derive(Debug)]
pub struct Prepared<'a> {
    point: &'a Point,
    design: Result<Design, DesignError>,
    /// The hash of the point: of the design with its values, the trace's files, the replay and the version of Peryton.
    pub hash: String,
    design_hash: String,
}

impl PointTrace {
    /// The files and the options for reading them.
    ///
    /// # Errors
    /// The format, a column or a unit is not known.
    pub fn opened_by(&self) -> Result<TraceFiles, String> {
        let format = self.format.as_deref().map(str::parse).transpose();
        let options = OpenOptions {
            format: format.map_err(|error| format!("format: {error}"))?,
            columns: self
                .columns
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(|error| format!("columns: {error}"))?,
            units: self.unit.as_deref().unwrap_or("").parse().map_err(|error| format!("unit: {error}"))?,
            skip_bad: self.skip_bad,
            volumes: self.volumes.clone(),
            concatenate: self.concatenate,
            files_as_volumes: self.files_as_volumes,
            sort: self.sort,
            spread: self.spread,
            ..OpenOptions::default()
        };
        Ok(TraceFiles { paths: self.files.clone(), options })
    }

    /// What distinguishes this trace from others, wherever its files are.
    fn identity(&self) -> String {
        let other = PointTrace { files: Vec::new(), ..self.clone() };
        serde_json::to_string(&other).expect("a trace has names and numbers")
    }
}

/// What to do with requests past the end of the volume.
pub(super) fn fit(word: &str) -> Result<Fit, String> {
    let named = Fit::NAMES.iter().find(|(name, _)| *name == word).map(|(_, fit)| *fit);
    named.ok_or_else(|| format!("'{}': use error, wrap or skip", one_line(word)))
}

/// The sample of a share of the trace.
pub(super) fn sample(share: Option<f64>) -> Result<Option<Sampling>, String> {
    share.map(|share| Sampling::new(share, 0)).transpose().map_err(|error| error.to_string())
}

impl Point {
    /// The options of the replay.
    ///
    /// # Errors
    /// The replay, its speed or the fit is wrong.
    pub fn options(&self) -> Result<Options, String> {
        let replay: Replay = self.replay.parse().map_err(|error| format!("{error}"))?;
        Ok(Options {
            replay: replay.at_speed(self.speed)?,
            fit: fit(&self.fit)?,
            new_volume: self.new_volume,
            warm_up_requests: self.warm_up_requests,
            limit: self.limit,
            sample: sample(self.sample)?,
            ..Options::default()
        })
    }

    /// Reads the design. Designs with equal flash share its images. A value that the design refuses makes a row with an error.
    pub fn prepared(&self, images: Option<&Arc<Images>>) -> Prepared<'_> {
        let pairs = self.set.iter().chain(self.keys.iter().map(|(key, value)| (key, value)));
        let overrides: Vec<String> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        let mut design = DesignText::new(self.design.clone(), self.design_name.clone()).design(&overrides);
        if let Ok(design) = &mut design {
            design.images = images.map(Arc::clone);
        }
        // Keys that do not apply to the design make no difference. A design that is refused is known by what it was made of.
        let content = match &design {
            Ok(design) => design.toml.clone(),
            Err(_) => format!("{}\n{overrides:?}", self.design),
        };
        let design_hash = content::of_parts(&[&content]);
        let (speed, fit) = (format!("{:?}", self.speed), self.fit.as_str());
        let mut amount = format!("{} {} {:?}", self.new_volume, self.warm_up_requests, self.limit);
        if let Some(sample) = self.sample {
            amount += &format!(" {sample:?}");
        }
        let build = build();
        let parts = [
            build.version,
            build.sources,
            &self.design_name,
            &content,
            &self.trace.identity(),
            &self.replay,
            &speed,
            &amount,
            fit,
        ];
        Prepared { point: self, hash: content::of_parts(&parts), design_hash, design }
    }
}

impl Prepared<'_> {
    /// The keys that do not apply to the design.
    pub(super) fn ignored(&self) -> impl Iterator<Item = &str> {
        let ignored = self.design.iter().flat_map(|design| &design.ignored_overrides);
        let swept = ignored.filter_map(|index| index.checked_sub(self.point.set.len()));
        swept.map(|index| self.point.keys[index].0.as_str())
    }

    /// The error of the design, if it is refused.
    pub(super) fn refused(&self) -> Option<&DesignError> {
        self.design.as_ref().err()
    }

    /// Simulates the point. The row has the figures of the report, or an error; it depends on the point alone. `wrapped` is
    /// given the requests before they are simulated, and may end the work by a panic that is no text.
    pub fn row(&self, wrapped: &dyn Fn(Box<dyn Source>) -> Box<dyn Source>) -> Row {
        let mut row = self.begun();
        // A panic that is a text is a defect of Peryton: the other points need not suffer from it.
        let found = catch_unwind(AssertUnwindSafe(|| self.simulated(wrapped)));
        let found = found.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            match text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())) {
                Some(text) => Err(format!("a defect of Peryton, please report it: {}", one_line(&text))),
                None => resume_unwind(panic),
            }
        });
        match found {
            Ok(report) => {
                row.insert("status".to_owned(), "ok".into());
                let warned: Vec<&str> = report.warnings.iter().map(|warning| warning.code).collect();
                row.insert("warning_codes".to_owned(), warned.join(" ").into());
                let figures = serde_json::to_value(&report).expect("a report has names and finite numbers");
                leaves("", figures, &mut |name, figure| {
                    row.insert(name.to_owned(), figure);
                });
            }
            Err(error) => {
                row.insert("status".to_owned(), "error".into());
                row.insert("error".to_owned(), error.into());
            }
        }
        row
    }

    /// What a row says whatever comes of the simulation.
    fn begun(&self) -> Row {
        let point = self.point;
        let mut row = Row::new();
        let mut put = |name: &str, value: Value| row.insert(name.to_owned(), value);
        put("point", self.hash.as_str().into());
        put("design_file", point.design_name.as_str().into());
        put("design_hash", self.design_hash.as_str().into());
        put("trace", point.trace.name.as_str().into());
        put("trace_files_hash", content::of_parts(&[&point.trace.identity()]).into());
        put(
            "replay",
            point.options().map_or_else(|_| point.replay.clone(), |options| options.replay.to_string()).into(),
        );
        put("peryton_version", build().version.into());
        let ignored: Vec<&str> = self.ignored().collect();
        for (key, value) in point.keys.iter().filter(|(key, _)| !ignored.contains(&key.as_str())) {
            put(&format!("sweep.{key}"), value.as_str().into());
        }
        if let Ok(design) = &self.design {
            put("seed", design.seed.into());
        }
        row
    }

    fn simulated(&self, wrapped: &dyn Fn(Box<dyn Source>) -> Box<dyn Source>) -> Result<Report, String> {
        let design = self.design.as_ref().map_err(ToString::to_string)?;
        let options = self.point.options()?;
        let files = self.point.trace.opened_by()?;
        let source = files.again(&Accounts::default()).map_err(|error: TraceError| error.to_string())?;
        let report = run_one(design, &self.point.trace.name, wrapped(source), &options, &|_| {});
        let report = report.map_err(|error| error.to_string())?;
        // Neither fits a row.
        Ok(Report { intervals: Vec::new(), latency_histogram_us: Default::default(), ..report })
    }
}
