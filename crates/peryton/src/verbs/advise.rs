//! `peryton advise`: other settings and devices for a drive in service, simulated on its own recorded requests.

use std::sync::Arc;

use peryton_drive::control::Ask;
use peryton_plan::{
    constraint::Metric,
    evaluate::{Account, Metrics, evaluate},
    tune::Knob,
};
use peryton_sim::{KeyValues, Options, SimError, design_keys};
use rayon::prelude::*;
use serde::Serialize;

use super::twin::RecordedArgs;
use crate::{
    completing,
    failure::Failure,
    figure_arg::figures,
    naming::Served,
    output, page,
    table::{self, Column, Table},
    terminal,
    twin::{Recording, Requests, Setup, Twin},
};

/// Options of `peryton advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton advise my.toml
  peryton advise my.toml --objective p99 --apply
  peryton advise my.recording --empty --try devices.ssd.size=16GiB,32GiB
  peryton advise my.recording --try devices.ssd.profile=intel-320-300gb --profile hdd=my-disk.toml

Each setting is simulated alone, from the state in which the volume was opened, on the recorded requests. The error of \
every prediction is the distance between the measurement and the twin with unchanged settings; a smaller difference \
counts as none.")]
pub struct Args {
    #[command(flatten)]
    recorded: RecordedArgs,
    /// The figure by which to choose
    #[arg(long, value_name = "FIGURE", default_value = "latency", value_parser = figures())]
    objective: Metric,
    /// Try these values of a key; several keys may be given
    ///
    /// Try these values of a key, in place of its usual ones if it has some; several keys may be given.
    #[arg(long = "try", value_name = "KEY=VALUE,VALUE...", add = completing::key_values())]
    tries: Vec<String>,
    /// Try the keys of --try and no others
    #[arg(long, requires = "tries")]
    only: bool,
    /// The most simulations of other settings
    #[arg(long, value_name = "N", default_value_t = 48)]
    evaluations: u16,
    /// Change the live setting that improves the figure most
    ///
    /// Change the setting that improves the figure most, if it may change while the volume is served and the difference is larger
    /// than the error of the twin. peryton set undoes it.
    #[arg(long)]
    apply: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Fewer requests than this say too little for a change of settings.
const LEAST_TO_APPLY: usize = 300;
/// The least that a prediction may be wrong by, however well the twin agrees: two runs of one workload differ by as much.
const LEAST_ERROR: f64 = 0.02;
/// Advice is not applied if the twin differs from its drive by more than this.
const MOST_ERROR: f64 = 0.30;

/// The result.
#[derive(Debug, Serialize)]
struct Advice {
    peryton_version: &'static str,
    command: String,
    trace_hash: String,
    requests: usize,
    objective: Metric,
    /// How far predictions of the objective may be wrong, as a share; absent if the drive does not measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    /// The drive as it is, as the twin sees it.
    now: Metrics,
    /// The others, the best first.
    others: Vec<Other>,
    /// Settings that could not be simulated.
    refused: u32,
    /// What was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
    /// Why the comparison of twin and drive may limit this.
    reasons: Vec<String>,
    design_toml: String,
}

/// Another setting.
#[derive(Debug, Serialize)]
struct Other {
    /// The key, and its value.
    setting: String,
    overrides: Vec<String>,
    /// Whether it can be changed while the volume is served.
    live: bool,
    /// How much better the objective becomes, as a share of what it is; negative if it becomes worse.
    gain: f64,
    verdict: Gain,
    #[serde(flatten)]
    metrics: Metrics,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Gain {
    Better,
    Worse,
    /// The twin is not as exact as that.
    NoDifference,
}

/// A change that was made.
#[derive(Debug, Serialize)]
struct Applied {
    settings: Vec<String>,
    undo: String,
}

/// Simulates, prints, and changes what was asked for.
pub fn run(args: &Args) -> Result<(), Failure> {
    let served = args.recorded.served();
    if args.apply && served.is_none() {
        return Err(Failure::bad_input(
            "--apply: is for a volume that is being served: name it in place of a recording",
        ));
    }
    // The volume that is served comes first.
    if let Err(error) = rustix::process::nice(19) {
        tracing::debug!(%error, "the priority stays as it is");
    }
    let recording = args.recorded.read()?;
    let setup = Setup::of(&recording, &args.recorded.models()?)?;
    let twin = Twin::of(&recording, &args.recorded.models()?, args.recorded.replay)?;
    let mut advice = advise(args, &recording, &setup, twin)?;
    if let Some(volume) = served.filter(|_| args.apply) {
        advice.applied = apply(&volume, &recording, &advice)?;
    }
    output::print_result(&advice, args.json, false, || shown(args, &advice))
}

fn candidates(args: &Args, setup: &Setup) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut knobs = if args.only { Vec::new() } else { Knob::list(&setup.design, false) };
    for text in &args.tries {
        let bad =
            || Failure::bad_input(format!("--try {text}: write KEY=VALUE,VALUE such as placement.max_moves=4,16"));
        let KeyValues { key, values } = KeyValues::parse(text).ok_or_else(bad)?;
        knobs.retain(|knob| knob.name != key);
        knobs.insert(0, Knob::given(&key, &values.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    let mut all = Vec::new();
    for knob in &knobs {
        for choice in knob.choices.iter().filter(|choice| !choice.overrides.is_empty()) {
            if knob.given {
                // What the user named has to be possible; what is merely usual is left out if it is not.
                setup.with(&choice.overrides)?;
            }
            all.push((format!("{} = {}", knob.name, choice.label), choice.overrides.clone()));
        }
    }
    all.truncate(usize::from(args.evaluations));
    Ok(all)
}

/// The options of the simulations. Settings that changed in the meantime are in force from the start.
struct Trial<'a> {
    setup: &'a Setup,
    requests: Requests,
    options: Options,
    latest: Vec<String>,
}

impl Trial<'_> {
    fn of(&self, overrides: &[String]) -> Result<Metrics, SimError> {
        let all: Vec<String> = self.latest.iter().chain(overrides).cloned().collect();
        let design = self.setup.design_with(&all)?;
        let account = Account { usd_per_kwh: design.electricity_usd_per_kwh, ..Account::default() };
        evaluate(&design, &|| Ok(Box::new(self.requests.clone())), &self.options, &account)
    }
}

fn advise(args: &Args, recording: &Recording, setup: &Setup, twin: Twin) -> Result<Advice, Failure> {
    let latest = recording.changes.last().map(|change| change.settings.clone()).unwrap_or_default();
    let (recorded, warm_up_requests) = (Some(Arc::new(setup.as_recorded(recording, false)?)), recording.warm_up);
    let options = Options { replay: args.recorded.replay, recorded, warm_up_requests, ..Options::default() };
    let trial = Trial { setup, requests: Requests::of(&recording.rows), options, latest };
    let now = trial.of(&[])?;
    let candidates = candidates(args, setup)?;
    let bar = terminal::bar(candidates.len() as u64);
    let one = |(setting, overrides): &(String, Vec<String>)| {
        let metrics = trial.of(overrides);
        bar.inc(1);
        metrics.ok().map(|metrics| (setting.clone(), overrides.clone(), metrics))
    };
    // Threads have the priority of the thread that makes them, and those that there are have another one.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(rayon::current_num_threads()).build();
    let threads = threads.map_err(Failure::failed)?;
    let found: Vec<_> = threads.install(|| candidates.par_iter().map(one).collect());
    bar.finish_and_clear();
    let refused = found.iter().filter(|found| found.is_none()).count() as u32;
    let error = earned(args.objective, &twin);
    let mut others: Vec<Other> = found
        .into_iter()
        .flatten()
        .filter_map(|(setting, overrides, metrics)| {
            let gain = gain(args.objective, &now, &metrics)?;
            let verdict = match error {
                Some(error) if gain.abs() > error => {
                    if gain > 0.0 {
                        Gain::Better
                    } else {
                        Gain::Worse
                    }
                }
                _ => Gain::NoDifference,
            };
            Some(Other { setting, live: overrides.iter().all(|text| is_live(text)), overrides, gain, verdict, metrics })
        })
        .collect();
    others.sort_by(|one, other| other.gain.total_cmp(&one.gain));
    Ok(Advice {
        peryton_version: peryton_version::VERSION,
        command: page::command_line(),
        trace_hash: twin.trace_hash,
        requests: recording.rows.len(),
        objective: args.objective,
        error,
        now,
        others,
        refused,
        applied: None,
        reasons: twin.reasons,
        design_toml: twin.design_toml,
    })
}

/// How much better the figure becomes, as a share of what it is.
fn gain(objective: Metric, now: &Metrics, then: &Metrics) -> Option<f64> {
    let (before, after) = (objective.of(now)?, objective.of(then)?);
    let gain = (before - after) / before;
    let gain = if objective.more_is_better() { -gain } else { gain };
    gain.is_finite().then_some(gain)
}

/// How far the twin of the drive as it is was from the drive, in this figure; `None`: the drive does not measure it. Other settings
/// shift requests between kinds and devices, so that errors which cancel each other today count.
fn earned(objective: Metric, twin: &Twin) -> Option<f64> {
    let figure = match objective {
        Metric::Latency => "all requests: mean",
        Metric::P50 => "all requests: median",
        Metric::P99 => "all requests: p99",
        Metric::Read => "reads: mean",
        Metric::Write => "writes: mean",
        Metric::Flush => "flushes: mean",
        Metric::Lifetime => "wear, written a day",
        // Prices are known.
        Metric::Dollars => return Some(0.0),
        // No drive in service measures its power, nor the time from a write to its flush.
        _ => return None,
    };
    let is_it = |row: &&crate::twin::Figure| {
        row.figure == figure || objective == Metric::Lifetime && row.figure.ends_with(figure)
    };
    let found = twin.figures.iter().filter(is_it).filter_map(|row| row.difference).map(f64::abs);
    let parts = match objective {
        Metric::Latency => twin.apart.mean.max(twin.apart.devices),
        Metric::P50 => twin.apart.median.max(twin.apart.devices),
        Metric::P99 => twin.apart.p99.max(twin.apart.devices),
        Metric::Read | Metric::Write | Metric::Flush => twin.apart.devices,
        _ => 0.0,
    };
    found.max_by(f64::total_cmp).map(|error| error.max(parts).max(LEAST_ERROR))
}

fn is_live(setting: &str) -> bool {
    let path = setting.split('=').next().unwrap_or_default().trim();
    design_keys().find(|key| key.is_at(path)).is_some_and(|key| key.live)
}

/// Changes the best live setting, if the twin is near enough to its drive.
fn apply(volume: &Served, recording: &Recording, advice: &Advice) -> Result<Option<Applied>, Failure> {
    let is_exact = advice.error.is_some_and(|error| error <= MOST_ERROR);
    if !is_exact || recording.dropped > 0 || recording.rows.len() < LEAST_TO_APPLY {
        return Ok(None);
    }
    let Some(best) = advice.others.iter().find(|other| other.live && other.verdict == Gain::Better) else {
        return Ok(None);
    };
    let mut before = Vec::new();
    let settings = volume.value(&Ask::Status {}, "status")?["settings"].take();
    before.extend(settings.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)));
    let key = |text: &str| text.split('=').next().unwrap_or_default().trim().to_owned();
    let undo = best.overrides.iter().map(|setting| {
        let was = before.iter().find(|text| key(text) == key(setting));
        was.map_or_else(|| format!("--unset {}", key(setting)), |was| page::quoted(was))
    });
    let undo = format!("peryton set {} {}", page::quoted(&volume.to_string()), undo.collect::<Vec<_>>().join(" "));
    volume.ask(&Ask::Set { settings: best.overrides.clone(), unset: Vec::new() }, |_| true)?;
    Ok(Some(Applied { settings: best.overrides.clone(), undo }))
}

fn shown(args: &Args, advice: &Advice) -> String {
    let figure = |title: &str, matters| Column::figures(title, matters);
    let mut rows = Table::of(vec![
        Column::names("setting", 0),
        figure("mean ms", 1),
        figure("p99 ms", 2),
        figure("lifetime years", 4),
        figure("W", 5),
        figure("US dollars", 6),
        figure("gain", 1),
        Column::names("", 1),
    ]);
    let mut add = |setting: &str, metrics: &Metrics, gain: String, verdict: &str| {
        rows.add_row([
            setting.to_owned(),
            table::number(metrics.mean_ms),
            table::number(metrics.p99_ms),
            table::optional(metrics.lifetime_years),
            table::optional(metrics.power_w),
            table::optional(metrics.dollars),
            gain,
            verdict.to_owned(),
        ]);
    };
    add("as it is", &advice.now, table::NONE.to_owned(), "");
    let shown = advice.others.iter().filter(|other| other.verdict != Gain::NoDifference);
    for other in shown {
        let verdict = match (other.verdict, other.live) {
            (Gain::Better, true) => "better, live",
            (Gain::Better, false) => "better",
            _ => "worse",
        };
        add(&other.setting, &other.metrics, shown_gain(other.gain), verdict);
    }
    let mut text = rows.shown();
    let same = advice.others.iter().filter(|other| other.verdict == Gain::NoDifference).count();
    if same > 0 {
        text += &format!("{same} other settings make no difference that the twin could see.\n");
    }
    text += &match advice.error {
        Some(error) => format!(
            "\nThe twin of the drive as it is was within {:.1} % of what the drive measured ({}; reads, writes, flushes and the devices' commands \
             each for itself); a smaller difference counts as none.\n",
            error * 100.0,
            advice.objective
        ),
        None => format!("\nThe drive does not measure {}, so that no difference can be trusted.\n", advice.objective),
    };
    for reason in &advice.reasons {
        text += &format!("! {}.\n", super::twin::capital(reason));
    }
    match &advice.applied {
        Some(applied) => {
            text += &format!("Changed: {}. To undo it: {}\n", applied.settings.join(" "), applied.undo);
        }
        None if args.apply => {
            text += &match advice.error {
                Some(error) if error > MOST_ERROR => format!(
                    "Nothing was changed: the twin is {:.1} % away from the drive, and at most {:.0} % are trusted.\n",
                    error * 100.0,
                    MOST_ERROR * 100.0
                ),
                _ => format!(
                    "Nothing was changed: requests are missing in the recording, it has fewer than {LEAST_TO_APPLY}, or no setting that can change live is \
                     better by more than the twin may be wrong.\n"
                ),
            };
        }
        None => {}
    }
    text +=
        &format!("{} requests; trace {}, Peryton {}.\n", advice.requests, advice.trace_hash, advice.peryton_version);
    text
}

/// A gain in percent; a figure that is ten times as large, or more, as that many times.
fn shown_gain(gain: f64) -> String {
    if gain > -9.0 { format!("{:+.1} %", gain * 100.0) } else { format!("{:.0} times", 1.0 - gain) }
}
