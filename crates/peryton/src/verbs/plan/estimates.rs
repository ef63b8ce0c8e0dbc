//! What a plan rests on.

use std::collections::BTreeMap;

use peryton_plan::{capacity::Plan, evaluate::Metrics};
use peryton_sim::{Options, Sensitivity, Subject, TraceFactory};

use crate::{failure::Failure, sensitivity};

/// The best design and the runners-up, simulated again.
pub(super) fn sensitivity(
    plan: &Plan,
    options: &Options,
    trace: &TraceFactory<'_>,
) -> Result<Sensitivity<Metrics>, Failure> {
    let subject =
        |found: &peryton_plan::capacity::Found| Subject { name: found.design.clone(), toml: found.design_toml.clone() };
    let subjects: Vec<Subject> = plan.chosen().map(subject).collect();
    Ok(sensitivity::run(&subjects, trace, options, &|design, report| Metrics::of(design, report, &plan.account))?)
}

/// For people.
pub(super) fn shown(plan: &Plan) -> String {
    let mut text = sensitivity::estimates(&plan.estimated_values, plan.sensitivity.is_some());
    let (Some(found), Some(best)) = (&plan.sensitivity, &plan.best) else { return text };
    let now: BTreeMap<String, Metrics> =
        plan.chosen().map(|found| (found.design.clone(), found.metrics.clone())).collect();
    text += &sensitivity::shown(found, &now, |of| [Some(of.mean_ms), Some(of.p99_ms), of.lifetime_years, of.power_w]);
    let mut decisive = String::new();
    for swing in &found.swings {
        let Some((then, meets)) = plan.best_with(&swing.designs) else { continue };
        let (value, off_by) = (sensitivity::value(swing), sensitivity::off_by(swing));
        if !meets {
            decisive += &format!("! {value} {off_by} %: none of these designs would meet the budgets\n");
        } else if then.design != best.design {
            decisive += &format!("! {value} {off_by} %: buy {} instead\n", then.label);
        }
    }
    if decisive.is_empty() {
        decisive = format!("Whichever of them is 30 % off, {} stays the best of these\n", best.label);
    }
    text + &decisive
}
