//! The description of a space in TOML.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use peryton_trace::Accounts;
use peryton_units::{Bytes, Nanos};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    axis::{Axis, Scale, Unit, Values},
    content,
    error::{MOST_POINTS, SpaceError},
    point::{self, Point, PointTrace},
    written::{
        By, Draw, FILE, FIT, Kind, REPLAY, SHARE, SPEED, WHOLE, Written, WrittenRange, WrittenTrace, YES_NO, list,
        table,
    },
};
use crate::{
    DesignText, Replay,
    design::meant_by,
    document::one_line,
    is_design_key,
    key_values::{combination, override_text},
};

/// The largest description: a list of as many points as there may be.
const MOST_BYTES: u64 = 16 << 20;

/// What is to be simulated: designs, traces and replays, each with each, and for each the values of some keys of the design.
///
/// ```
/// use peryton_sim::Space;
///
/// let text = "designs = [{ name = 'one', devices = { only = { profile = 'fixed' } }, placement = { mode = 'single' } }]\n\
///             traces = ['sqlite-ext4.parquet']\n\
///             replay = ['timed', 'qd=4']\n\
///             fit = 'wrap'\n\
///             [keys]\n\
///             devices.only.size = { from = '1GiB', to = '4GiB', points = 3, scale = 'log' }\n";
/// let space = Space::parse(text, "the example", "../../examples/traces".as_ref())?;
/// assert_eq!(space.len(), 6);
/// assert_eq!(space.point(1).keys, [("devices.only.size".to_owned(), "2GiB".to_owned())]);
/// # Ok::<(), peryton_sim::SpaceError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Space {
    designs: Vec<(String, String)>,
    traces: Vec<PointTrace>,
    replays: Vec<Replayed>,
    set: BTreeMap<String, String>,
    keys: Vec<Axis>,
    drawn: Drawn,
}

/// How requests of a trace are replayed.
#[derive(Clone, Debug)]
struct Replayed {
    replay: String,
    speed: Option<f64>,
    new_volume: bool,
    warm_up_requests: u64,
    limit: Option<u64>,
    sample: Option<f64>,
    fit: String,
}

/// The values of the keys in each point.
#[derive(Clone, Debug)]
enum Drawn {
    /// Every combination; those of the last key change first.
    Grid(Vec<Vec<String>>),
    /// For each combination where its values are in the ranges of the keys.
    Shares(Vec<Vec<f64>>),
}

/// Where errors are.
struct Reading<'a> {
    place: &'a str,
    folder: &'a Path,
}

impl Space {
    /// Reads a file; paths in it are relative to its folder. The files of the traces are read, to recognise them again.
    ///
    /// # Errors
    /// The file, a design or a trace cannot be read, or the description is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Space, SpaceError> {
        let path = path.as_ref();
        let failed = |source| SpaceError::Wrong {
            place: path.display().to_string(),
            problem: format!("{source}: give a file that describes a sweep (TOML)"),
        };
        if path.metadata().map_err(failed)?.len() > MOST_BYTES {
            return Err(failed(std::io::Error::other("is too large")));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Space::parse(&text, &path.display().to_string(), path.parent().unwrap_or(Path::new("")))
    }

    /// Reads a text; `place` names it in errors, and paths in it are relative to `folder`.
    ///
    /// # Errors
    /// Those of [`Space::load`].
    pub fn parse(text: &str, place: &str, folder: &Path) -> Result<Space, SpaceError> {
        let mut space = Space::read(text, place, folder, true)?;
        let total = space.len();
        if total > MOST_POINTS {
            return Err(SpaceError::TooMany { place: place.to_owned(), points: total });
        }
        space.check(place)?;
        space.hash_traces()?;
        Ok(space)
    }

    /// Reads a text whose keys an optimiser gives values ([`Space::at`]): ranges need not say how many values a grid has.
    ///
    /// # Errors
    /// Those of [`Space::load`]; `[draw]` has no place in it.
    pub fn to_optimise(text: &str, place: &str, folder: &Path) -> Result<Space, SpaceError> {
        let mut space = Space::read(text, place, folder, false)?;
        space.check(place)?;
        space.hash_traces()?;
        Ok(space)
    }

    fn read(text: &str, place: &str, folder: &Path, has_points: bool) -> Result<Space, SpaceError> {
        let reading = Reading { place, folder };
        let written: Written = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            let place = line.map_or_else(|| place.to_owned(), |line| format!("{place}:{line}"));
            SpaceError::Wrong { place, problem: one_line(error.message()) }
        })?;
        let keys = reading.axes(&reading.design_keys("keys", written.keys)?)?;
        let has = "[draw] has by = 'grid', 'random' or 'latin-hypercube', points (1 or more) and seed (0 or more)";
        let draw = written.draw.map(|draw| table(draw, has)).transpose();
        let drawn = match (draw.map_err(|problem| reading.wrong("draw", problem))?, has_points) {
            (Some(_), false) => return Err(reading.wrong("draw", "an optimiser chooses the points: leave [draw] out")),
            (None, false) => Drawn::Grid(Vec::new()),
            (draw, true) => reading.drawn(&keys, draw)?,
        };
        let space = Space {
            designs: reading.designs(list(written.designs))?,
            traces: reading.traces(list(written.traces))?,
            replays: reading.replays(
                reading
                    .several("replay", written.replay.as_ref(), &REPLAY)?
                    .unwrap_or_else(|| vec!["timed".to_owned()]),
                &reading.perhaps("speed", written.speed.as_ref(), &SPEED)?,
                &reading.several("new", written.new.as_ref(), &YES_NO)?.unwrap_or_else(|| vec![false]),
                &reading
                    .several("warm_up_requests", written.warm_up_requests.as_ref(), &WHOLE)?
                    .unwrap_or_else(|| vec![0]),
                &reading.perhaps("limit", written.limit.as_ref(), &WHOLE)?,
                &reading.perhaps("sample", written.sample.as_ref(), &SHARE)?,
                &written.fit.map_or_else(
                    || Ok("error".to_owned()),
                    |fit| FIT.one(&fit).map_err(|problem| reading.wrong("fit", problem)),
                )?,
            )?,
            set: reading.set(&reading.design_keys("set", written.set)?)?,
            keys,
            drawn,
        };
        match space.keys.iter().find(|axis| space.set.contains_key(&axis.key)) {
            Some(axis) => Err(reading.wrong(&format!("set.{}", axis.key), "the key is in [keys] as well: remove one")),
            None => Ok(space),
        }
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        let each = [self.designs.len(), self.traces.len(), self.replays.len(), self.combinations()];
        each.into_iter().fold(1, usize::saturating_mul)
    }

    /// Whether there is nothing to simulate, which no description says.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys with their values.
    pub fn keys(&self) -> &[Axis] {
        &self.keys
    }

    /// The traces.
    pub fn traces(&self) -> &[PointTrace] {
        &self.traces
    }

    /// A point, in the order of designs, traces, replays and values.
    ///
    /// # Panics
    /// There is no such point.
    pub fn point(&self, index: usize) -> Point {
        assert!(index < self.len(), "the space has {} points", self.len());
        let (rest, combination) = (index / self.combinations(), index % self.combinations());
        self.point_of(rest, self.values(combination))
    }

    /// The points of some values of the keys: one for each design, trace and replay.
    pub fn at(&self, values: &BTreeMap<String, String>) -> Vec<Point> {
        let keys = self.keys.iter().filter_map(|axis| Some((axis.key.clone(), values.get(&axis.key)?.clone())));
        let keys: Vec<(String, String)> = keys.collect();
        let others = self.designs.len() * self.traces.len() * self.replays.len();
        (0..others).map(|rest| self.point_of(rest, keys.clone())).collect()
    }

    /// Number of designs, and the first point of one.
    pub(super) fn designs(&self) -> usize {
        self.designs.len()
    }

    pub(super) fn first_of(&self, design: usize) -> usize {
        design * self.traces.len() * self.replays.len() * self.combinations()
    }

    fn point_of(&self, rest: usize, keys: Vec<(String, String)>) -> Point {
        let (rest, replay) = (rest / self.replays.len(), &self.replays[rest % self.replays.len()]);
        let (design, trace) = (&self.designs[rest / self.traces.len()], &self.traces[rest % self.traces.len()]);
        Point {
            design: design.1.clone(),
            design_name: design.0.clone(),
            set: self.set.clone(),
            keys,
            trace: trace.clone(),
            replay: replay.replay.clone(),
            speed: replay.speed,
            new_volume: replay.new_volume,
            warm_up_requests: replay.warm_up_requests,
            limit: replay.limit,
            sample: replay.sample,
            fit: replay.fit.clone(),
        }
    }

    fn combinations(&self) -> usize {
        match &self.drawn {
            Drawn::Grid(values) => values.iter().map(Vec::len).fold(1, usize::saturating_mul),
            Drawn::Shares(shares) => shares.len(),
        }
    }

    fn values(&self, number: usize) -> Vec<(String, String)> {
        let values = match &self.drawn {
            Drawn::Shares(shares) => {
                self.keys.iter().zip(&shares[number]).map(|(axis, share)| axis.at(*share)).collect()
            }
            Drawn::Grid(values) => combination(values, number),
        };
        self.keys.iter().map(|axis| axis.key.clone()).zip(values).collect()
    }

    /// Looks at what every point has in common.
    fn check(&self, place: &str) -> Result<(), SpaceError> {
        for trace in &self.traces {
            let files = trace.opened_by().map_err(|problem| SpaceError::Wrong { place: place.to_owned(), problem })?;
            files.source(&Accounts::default())?;
        }
        if !matches!(&self.drawn, Drawn::Grid(values) if values.is_empty())
            && let Some(key) = self.ignored().first()
        {
            let problem = "does not apply to any of the designs: remove it".to_owned();
            return Err(SpaceError::Wrong { place: format!("{place}: keys.{key}"), problem });
        }
        Ok(())
    }

    fn hash_traces(&mut self) -> Result<(), SpaceError> {
        for trace in &mut self.traces {
            trace.hashes = trace.files.iter().map(|path| content::file_hash(path)).collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

impl Reading<'_> {
    fn wrong(&self, key: &str, problem: impl Into<String>) -> SpaceError {
        SpaceError::Wrong { place: format!("{}: {key}", self.place), problem: problem.into() }
    }

    /// The values of a key, if there are any.
    fn several<T>(&self, key: &str, value: Option<&toml::Value>, kind: &Kind<T>) -> Result<Option<Vec<T>>, SpaceError> {
        value.map(|value| kind.several(value)).transpose().map_err(|problem| self.wrong(key, problem))
    }

    /// The values of a key that may be left out; without it there is one, `None`.
    fn perhaps<T>(&self, key: &str, value: Option<&toml::Value>, kind: &Kind<T>) -> Result<Vec<Option<T>>, SpaceError> {
        let several = self.several(key, value, kind)?;
        Ok(several.map_or_else(|| vec![None], |several| several.into_iter().map(Some).collect()))
    }

    /// A table of keys of designs.
    fn design_keys(&self, name: &str, value: Option<toml::Value>) -> Result<toml::Table, SpaceError> {
        let has = format!("[{name}] is a table of keys of designs, which peryton keys lists");
        let read = value.map(|value| table(value, &has)).transpose().map_err(|problem| self.wrong(name, problem))?;
        Ok(read.unwrap_or_default())
    }

    fn designs(&self, written: Vec<toml::Value>) -> Result<Vec<(String, String)>, SpaceError> {
        if written.is_empty() {
            return Err(self.wrong("designs", "there is no design: give a file"));
        }
        let mut designs: Vec<(String, String)> = Vec::new();
        for (number, design) in (1..).zip(written) {
            let (name, text) = match design {
                toml::Value::String(path) => {
                    let path = self.folder.join(path);
                    let text = DesignText::read(&path)?;
                    (text.name().to_owned(), text.text().to_owned())
                }
                toml::Value::Table(table) => {
                    let name = table.get("name").and_then(|name| name.as_str());
                    let name = name.map_or_else(|| format!("design {number}"), str::to_owned);
                    (name, toml::to_string(&table).map_err(|error| self.wrong("designs", error.to_string()))?)
                }
                _ => return Err(self.wrong("designs", "give the path of a design file, or a table with its keys")),
            };
            if let Some((_, known)) = designs.iter().find(|(known, _)| *known == name) {
                let same = if *known == text { "is given twice" } else { "is the name of two designs" };
                return Err(
                    self.wrong("designs", format!("'{name}' {same}: rows could not be distinguished; rename one"))
                );
            }
            designs.push((name, text));
        }
        Ok(designs)
    }

    fn traces(&self, written: Vec<toml::Value>) -> Result<Vec<PointTrace>, SpaceError> {
        if written.is_empty() {
            return Err(self.wrong("traces", "there is no trace: give a file"));
        }
        written.into_iter().map(|trace| self.trace(trace)).collect()
    }

    fn trace(&self, trace: toml::Value) -> Result<PointTrace, SpaceError> {
        let trace = match trace {
            toml::Value::String(path) => {
                let table = toml::Table::from_iter([("files".to_owned(), toml::Value::String(path))]);
                toml::Value::Table(table)
            }
            other => other,
        };
        let has = "give a file, or a table with files, name, format, columns, unit, skip_bad, volumes, concatenate, files_as_volumes, \
                   sort, spread";
        let trace: WrittenTrace = table(trace, has).map_err(|problem| self.wrong("traces", problem))?;
        let files = FILE.several(&trace.files).map_err(|problem| self.wrong("traces", format!("files: {problem}")))?;
        let files: Vec<PathBuf> = files.into_iter().map(PathBuf::from).collect();
        for file in &files {
            if file.as_os_str() == "-" {
                return Err(self.wrong("traces", "standard input can be read only once: save the trace in a file"));
            }
            if file.to_string_lossy().contains("://") && !file.exists() {
                let problem = format!(
                    "{}: is an address: the command reads files; peryton.sweep in Python fetches it",
                    file.display()
                );
                return Err(self.wrong("traces", problem));
            }
        }
        let files: Vec<PathBuf> = files.into_iter().map(|file| self.folder.join(file)).collect();
        let mut found = PointTrace {
            name: String::new(),
            files,
            format: trace.format,
            skip_bad: trace.skip_bad,
            columns: trace.columns,
            unit: trace.unit,
            volumes: trace.volumes.map(|volumes| volumes.iter().map(named).collect()),
            concatenate: trace.concatenate,
            files_as_volumes: trace.files_as_volumes,
            sort: trace.sort,
            spread: trace.spread,
            hashes: Vec::new(),
        };
        let files = found.opened_by().map_err(|problem| self.wrong("traces", problem))?;
        found.name = trace.name.unwrap_or_else(|| files.name());
        Ok(found)
    }

    #[allow(clippy::too_many_arguments)]
    fn replays(
        &self,
        replays: Vec<String>,
        speeds: &[Option<f64>],
        new_volumes: &[bool],
        warm_up_requests: &[u64],
        limits: &[Option<u64>],
        samples: &[Option<f64>],
        fit: &str,
    ) -> Result<Vec<Replayed>, SpaceError> {
        point::fit(fit).map_err(|problem| self.wrong("fit", problem))?;
        for sample in samples {
            point::sample(*sample).map_err(|problem| self.wrong("sample", problem))?;
        }
        let mut found = Vec::new();
        for replay in replays {
            let parsed: Replay = replay.parse().map_err(|error| self.wrong("replay", format!("{error}")))?;
            // Only a timed replay has a speed.
            let own = if matches!(parsed, Replay::Timed { .. }) { speeds } else { &[None] };
            for speed in own {
                let problem = |text: String| self.wrong("speed", text.replace("--speed ", "").replace("--replay ", ""));
                parsed.at_speed(*speed).map_err(problem)?;
                let amounts = pairs(warm_up_requests, &pairs(limits, samples));
                for (new_volume, (requests, (limit, sample))) in pairs(new_volumes, &amounts) {
                    found.push(Replayed {
                        replay: replay.clone(),
                        speed: *speed,
                        new_volume,
                        warm_up_requests: requests,
                        limit,
                        sample,
                        fit: fit.to_owned(),
                    });
                }
            }
        }
        Ok(found)
    }

    fn set(&self, table: &toml::Table) -> Result<BTreeMap<String, String>, SpaceError> {
        let mut found = Vec::new();
        self.flat("set", "", table, &|_| false, &mut found)?;
        Ok(found.into_iter().map(|(key, value)| (key, override_text(value))).collect())
    }

    fn axes(&self, table: &toml::Table) -> Result<Vec<Axis>, SpaceError> {
        let mut found = Vec::new();
        self.flat("keys", "", table, &|table| table.contains_key("from"), &mut found)?;
        found.into_iter().map(|(key, value)| Ok(Axis { values: self.values(&key, value)?, key })).collect()
    }

    /// The values of a table by their dotted keys, whether these are written as one key or as tables.
    fn flat<'t>(
        &self,
        within: &str,
        before: &str,
        table: &'t toml::Table,
        is_value: &dyn Fn(&toml::Table) -> bool,
        found: &mut Vec<(String, &'t toml::Value)>,
    ) -> Result<(), SpaceError> {
        for (name, value) in table {
            let key = if before.is_empty() { name.clone() } else { format!("{before}.{name}") };
            match value {
                toml::Value::Table(table) if !is_value(table) => self.flat(within, &key, table, is_value, found)?,
                _ if !is_design_key(&key) => {
                    let problem = format!("no design has such a key: {}", meant_by(&key));
                    return Err(self.wrong(&format!("{within}.{key}"), problem));
                }
                _ if found.iter().any(|(known, _)| *known == key) => {
                    return Err(self.wrong(&format!("{within}.{key}"), "is given twice: remove one"));
                }
                value => found.push((key, value)),
            }
        }
        Ok(())
    }

    fn values(&self, key: &str, value: &toml::Value) -> Result<Values, SpaceError> {
        let wrong = |problem: &str| self.wrong(&format!("keys.{key}"), problem);
        match value {
            toml::Value::Array(list) if list.is_empty() => Err(wrong("there are no values to simulate: give some")),
            toml::Value::Array(list) => Ok(Values::List { values: list.iter().map(override_text).collect() }),
            toml::Value::Table(_) => {
                let has = "a range has from, to, and step, points or scale (linear, log)";
                let range: WrittenRange = table(value.clone(), has).map_err(|problem| wrong(&problem))?;
                self.range(key, &range)
            }
            _ => Err(wrong(
                "give a list of values, or a range { from = ..., to = ... }; a single value belongs in [set]",
            )),
        }
    }

    fn range(&self, key: &str, range: &WrittenRange) -> Result<Values, SpaceError> {
        let wrong = |problem: &str| self.wrong(&format!("keys.{key}"), problem);
        let (unit, numbers) = number(&[&range.from, &range.to]).map_err(|problem| wrong(&problem))?;
        let (from, to) = (numbers[0], numbers[1]);
        if from >= to {
            return Err(wrong("from is not below to"));
        }
        if range.scale == Scale::Log && from <= 0.0 {
            return Err(wrong("a range with scale = 'log' begins above 0"));
        }
        if range.points.is_some_and(|points| !(2..=MOST_POINTS).contains(&points)) {
            return Err(wrong("points: give 2 or more"));
        }
        let step = match &range.step {
            Some(step) => {
                let (of, step) = number(&[step]).map_err(|problem| wrong(&format!("step: {problem}")))?;
                let fits = of == unit || (of == Unit::Whole && unit == Unit::Number);
                if !fits || step[0] <= 0.0 {
                    return Err(wrong("step: give a step above 0 in the unit of the range"));
                }
                Some(step[0])
            }
            // Devices and extents have whole blocks.
            None => match unit {
                Unit::Size if from >= (1 << 20) as f64 => Some((1 << 20) as f64),
                Unit::Size => Some(4096.0),
                Unit::Whole | Unit::Time => Some(1.0),
                Unit::Number => None,
            },
        };
        // A step that was given, and whole numbers, are a grid; what sizes and times are rounded to is none.
        let is_grid =
            range.scale == Scale::Linear && range.points.is_none() && (range.step.is_some() || unit == Unit::Whole);
        let (mut to, mut points) = (to, range.points);
        if let (true, Some(step)) = (is_grid, step) {
            let steps = ((to - from) / step + 1e-9).floor();
            if steps >= MOST_POINTS as f64 {
                // Values of this many can only be drawn.
                return Ok(Values::Range { unit, from, to, step: Some(step), points: None, scale: range.scale });
            }
            (to, points) = (from + steps * step, Some(steps as usize + 1));
        }
        Ok(Values::Range { unit, from, to, step, points, scale: range.scale })
    }

    fn drawn(&self, keys: &[Axis], draw: Option<Draw>) -> Result<Drawn, SpaceError> {
        let draw = draw.unwrap_or(Draw { by: By::Grid, points: None, seed: None });
        if draw.by == By::Grid {
            if draw.points.is_some() || draw.seed.is_some() {
                return Err(
                    self.wrong("draw", "a grid has every combination: points and seed are for random, latin-hypercube")
                );
            }
            let how = "say how many values a grid has, with points or step; or draw some with [draw]";
            let grid = |axis: &Axis| axis.grid().ok_or_else(|| self.wrong(&format!("keys.{}", axis.key), how));
            return Ok(Drawn::Grid(keys.iter().map(grid).collect::<Result<_, _>>()?));
        }
        let points = draw.points.filter(|points| (1..=MOST_POINTS).contains(points));
        let points = points.ok_or_else(|| {
            self.wrong("draw.points", format!("say how many combinations to draw, 1 to {MOST_POINTS}"))
        })?;
        if keys.is_empty() {
            return Err(self.wrong("draw", "there are no keys to draw values of: give some in [keys]"));
        }
        let mut random = Pcg64Mcg::seed_from_u64(draw.seed.unwrap_or(1));
        let mut shares = vec![Vec::with_capacity(keys.len()); points];
        for _ in keys {
            // Each of as many equal parts of the range has one value, in an order of its own (McKay, Beckman and Conover, 1979).
            let mut parts: Vec<usize> = (0..points).collect();
            for index in (1..points).rev() {
                parts.swap(index, random.random_range(0..=index));
            }
            for (row, part) in shares.iter_mut().zip(parts) {
                let within: f64 = random.random();
                row.push(match draw.by {
                    By::LatinHypercube => (part as f64 + within) / points as f64,
                    By::Random | By::Grid => within,
                });
            }
        }
        Ok(Drawn::Shares(shares))
    }
}

fn pairs<A: Clone, B: Clone>(first: &[A], second: &[B]) -> Vec<(A, B)> {
    first.iter().flat_map(|a| second.iter().map(|b| (a.clone(), b.clone()))).collect()
}

/// Numbers of one unit.
fn number(values: &[&toml::Value]) -> Result<(Unit, Vec<f64>), String> {
    let mut units = Vec::new();
    let mut numbers = Vec::new();
    for value in values {
        let (unit, number) = match value {
            toml::Value::Integer(number) => (Unit::Whole, *number as f64),
            toml::Value::Float(number) if number.is_finite() => (Unit::Number, *number),
            toml::Value::String(text) if text.ends_with(|c: char| c.is_alphabetic()) => {
                match (text.parse::<Bytes>(), text.parse::<Nanos>()) {
                    (Ok(size), _) => (Unit::Size, size.0 as f64),
                    (_, Ok(time)) => (Unit::Time, time.0 as f64),
                    (Err(error), _) => return Err(error.to_string()),
                }
            }
            other => return Err(format!("{}: give a number, a size or a time", one_line(&other.to_string()))),
        };
        units.push(unit);
        numbers.push(number);
    }
    let unit = match units[..] {
        [Unit::Whole, Unit::Number] | [Unit::Number, Unit::Whole] => Unit::Number,
        [first, ..] if units.iter().all(|unit| *unit == first) => first,
        _ => return Err("from and to have different units".to_owned()),
    };
    Ok((unit, numbers))
}

/// A volume as it is written: a number or a name.
fn named(volume: &toml::Value) -> String {
    volume.as_str().map_or_else(|| volume.to_string(), str::to_owned)
}
