//! MixCP as MixedStore has it (sections 4.2 to 4.4): regressions that are trained for each device, beside a plan by simulation. They
//! are off by too much to plan by; this program shows by how much (`scripts/findings/mixcp.py`).
//!
//! usage: mixcp [--devices NAME,NAME...] [--trace FILE] [--latency TIME] [--lifetime TIME] [--most N] [--speed X]
//!              [--models FILE] [--training-traces N]
//!
//! Without a trace it prints the models and their quality, otherwise the plan with `predicted` and `prediction_error` in each design, and
//! `regression`: what the regressions would choose. As the paper plans, devices are filled to the brim and every request is measured.

mod choice;
mod models;
mod predict;
mod regression;
mod training;

use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use peryton_device::{Era, PriceList};
use peryton_plan::{
    capacity::{Ask, Candidate, Catalogue, Enumerate, Flash, Protection, Workload, plan},
    constraint::{Constraint, Metric, strain},
    evaluate::{Account, Metrics, evaluate},
};
use peryton_sim::{Design, Options, Replay};
use peryton_trace::{Accounts, OpenOptions, TraceFiles};
use peryton_units::Nanos;
use serde_json::{Value, json};

use crate::{models::Models, training::Training};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the command line says, by option.
struct Said(BTreeMap<String, String>);

impl Said {
    fn get<T: FromStr>(&self, option: &str) -> Result<Option<T>, Error>
    where
        T::Err: std::fmt::Display,
    {
        let read = |text: &String| text.parse().map_err(|error| format!("{option} {text}: {error}").into());
        self.0.get(option).map(read).transpose()
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let said = Said(words.chunks(2).map(|pair| (pair[0].clone(), pair.get(1).cloned().unwrap_or_default())).collect());
    let devices: Vec<String> =
        said.0.get("--devices").into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
    let catalogue = Catalogue::named(&devices, &PriceList::default(), &Era::default())?;
    let kept: Option<PathBuf> = said.get("--models")?;
    let mut models = kept.as_deref().map_or_else(|| Ok(Models::default()), Models::load)?;
    let training =
        Training { traces: said.get("--training-traces")?.unwrap_or(training::TRAINING_TRACES), ..Training::default() };
    let (trained, changed) = models.train(&catalogue.kinds, &training, &|_, _, _| {})?;
    if let Some(path) = kept.filter(|_| changed) {
        models.save(&path)?;
    }
    let Some(path) = said.get::<PathBuf>("--trace")? else {
        println!("{}", serde_json::to_string_pretty(&trained)?);
        return Ok(());
    };
    let files = TraceFiles { paths: vec![path], options: OpenOptions::default() };
    let skipped = Accounts::default();
    files.source(&skipped)?;
    let trace = || files.again(&skipped);
    let workload = Workload::measure("trace", &trace)?;
    let speed = said.get("--speed")?.unwrap_or(1.0);
    let ask = Ask {
        constraints: Constraint::gather(said.get::<Nanos>("--latency")?, said.get::<Nanos>("--lifetime")?, &[])?,
        objective: Metric::Dollars,
        capacity: None,
        active: None,
        most: said.get("--most")?.unwrap_or(8),
        runners_up: 3,
        protection: Protection { fill_limit: 1.0, ..Protection::default() },
        flash: Flash::Whole,
        flash_need: false,
        account: Account::default(),
        duty: 1.0,
        options: Options { replay: Replay::Timed { speed }, ..Options::default() },
    };
    let plan = plan(&ask, &catalogue, &workload, &|_, _, _| {})?;
    let enumerate = Enumerate {
        capacity: workload.reach,
        most: ask.most,
        spin_down: false,
        protection: ask.protection,
        flash: ask.flash,
    };
    let candidates = Candidate::all(&catalogue, &enumerate);
    let predictions = predict::all(&trained, &catalogue, &workload, speed, &candidates)?;
    let predicted = |candidate: &Candidate| {
        let at = candidates.iter().position(|known| known == candidate)?;
        predictions[at].as_ref()
    };
    let chosen = choice::of(&ask.constraints, &catalogue, &candidates, &predictions);
    let meets = match chosen {
        None => None,
        Some(index) => {
            let design = candidates[index].text(&catalogue, workload.reach);
            let design = Design::parse(&design, "chosen", &[])?;
            let metrics: Metrics = evaluate(&design, &trace, &ask.options, &ask.account)?;
            Some(strain(&ask.constraints, &metrics) <= 1.0)
        }
    };
    let (mut of_means, mut of_lives) = (Vec::new(), Vec::new());
    let mut value = serde_json::to_value(&plan)?;
    for (found, json) in plan.simulated.iter().zip(value["simulated"].as_array_mut().into_iter().flatten()) {
        let Some(predicted) = predicted(&found.candidate) else { continue };
        let mean = predicted.mean_ms / found.metrics.mean_ms - 1.0;
        let years =
            predicted.lifetime_years.zip(found.metrics.lifetime_years).map(|(ours, theirs)| ours / theirs - 1.0);
        of_means.push(mean.abs());
        of_lives.extend(years.map(f64::abs));
        json["predicted"] = serde_json::to_value(predicted)?;
        json["prediction_error"] = json!({ "mean_ms": mean, "lifetime_years": years });
    }
    let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
    let design = chosen.map(|index| candidates[index].name(&catalogue));
    value["regression"] = json!({
        "choice": design,
        "choice_label": chosen.map(|index| candidates[index].label(&catalogue)),
        "choice_meets": meets,
        "agrees": design.is_some() && design == plan.best.as_ref().map(|best| best.design.clone()),
        "mean_error": mean(&of_means),
        "lifetime_error": mean(&of_lives),
    });
    println!("{}", serde_json::to_string_pretty::<Value>(&value)?);
    Ok(())
}
