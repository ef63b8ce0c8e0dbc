//! The page of `peryton plan --fleet`: what to buy for many volumes, with a row for each drive and a row for each volume.

use maud::{Markup, html};
use peryton_plan::fleet::{Correction, FleetPlan};
use peryton_units::{Bytes, person, person_ms};

use super::{
    figure::{Figures, Line, Scale},
    frame::{Head, counted, grouped, page, sentence, warned_below},
};
use crate::table::{self, Table};

/// The most drives whose load is drawn.
const MOST_LINES: usize = 8;

/// The plan as a page.
pub fn fleet(plan: &FleetPlan, (drives, volumes): (&Table, &Table), repeat: &str) -> String {
    let mut figures = Figures::default();
    let mut warnings = Vec::new();
    for sentence_of in &plan.infeasible {
        warnings.push(("infeasible".to_owned(), sentence(sentence_of)));
    }
    let body = html! {
        p class="about" {
            (grouped(plan.requests)) " requests of " (counted(plan.volumes.len(), "volume", "volumes")) " in " (person(plan.span_s)) " s; "
            (Bytes(plan.stored_bytes).to_string()) " are stored and " (Bytes(plan.touched_bytes).to_string()) " touched. Loads are added up in windows of "
            (person(plan.window_s)) " s."
        }
        @if !plan.drives.is_empty() {
            h2 { "Drives" }
            ul { @for line in beside(plan) { li { (sentence(&line)) } } }
            (busy(plan, &mut figures))
            p class="about" { (table::SORTED) " A drive is as busy as its busiest devices. " em { "If together" } " is what its volumes' peaks would make if they coincided." }
            (drives)
        }
        h2 { "Volumes" }
        (volumes)
        h2 { "What this rests on" }
        ul {
            li { "Drives were chosen and simulated in " (counted(plan.rounds, "round", "rounds")) ", among " (plan.drive_kinds) " kinds." }
            @for (label, correction) in &plan.corrections { li { (sentence(&format!("Corrected by simulations: {}", corrected(label, correction)))) } }
            @for assumption in &plan.assumptions { li { (sentence(assumption)) } }
        }
    };
    let title = format!("What to buy for {}", plan.fleet);
    let verdict = verdict(plan, warnings.len());
    page(&Head { title: &title, verdict, warnings }, repeat, &figures, &body)
}

fn verdict(plan: &FleetPlan, warnings: usize) -> [String; 2] {
    let answer = match (plan.meets, plan.usd) {
        (true, Some(usd)) => {
            let drives =
                bought(plan).into_iter().map(|(count, label)| format!("{count} × {label}")).collect::<Vec<_>>();
            format!(
                "Buy {} for {} USD: {}",
                counted(plan.drives.len(), "drive", "drives"),
                person(usd),
                drives.join(", ")
            )
        }
        _ => "No drives were found that keep the budgets".to_owned(),
    };
    let slowest = plan.volumes.iter().filter_map(|volume| Some((volume.mean_ms?, &volume.volume)));
    let slowest = slowest.max_by(|a, b| a.0.total_cmp(&b.0));
    let rests = match slowest {
        Some((ms, name)) => format!(
            "All volumes of a drive were simulated together; the slowest volume is {name}, with {} on average{}",
            person_ms(ms),
            warned_below(warnings)
        ),
        None => format!("Nothing was simulated{}", warned_below(warnings)),
    };
    [sentence(&answer), sentence(&rests)]
}

/// How busy the busiest drives are over time.
fn busy(plan: &FleetPlan, figures: &mut Figures) -> Markup {
    let mut order: Vec<_> = plan.drives.iter().collect();
    order.sort_by(|a, b| b.busiest.total_cmp(&a.busiest).then(a.drive.cmp(&b.drive)));
    let line = |(colour, drive): (usize, &&peryton_plan::fleet::FleetDrive)| {
        let points = drive.busy.iter().enumerate().map(|(index, busy)| (index as f64 * plan.window_s, busy * 100.0));
        Line::new(&format!("drive {}", drive.drive), colour, points)
    };
    let lines = order.iter().take(MOST_LINES).enumerate().map(line).collect();
    let note = if order.len() > MOST_LINES { "the busiest drives, by prediction" } else { "by prediction" };
    let scales = (Scale::new("time", "s"), Scale::new("busy", "%"));
    figures.lines(("How busy the drives are", note), scales, vec![("busy".to_owned(), lines)], &[])
}

/// Drives by what they are, with how many there are of each.
pub fn bought(plan: &FleetPlan) -> Vec<(usize, &str)> {
    let mut kinds: Vec<(usize, &str)> = Vec::new();
    for drive in &plan.drives {
        match kinds.iter_mut().find(|(_, label)| *label == drive.label) {
            Some((count, _)) => *count += 1,
            None => kinds.push((1, &drive.label)),
        }
    }
    kinds.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    kinds
}

/// What the drives cost beside other ways, in sentences.
pub fn beside(plan: &FleetPlan) -> Vec<String> {
    let mut all = Vec::new();
    let Some(usd) = plan.usd else { return all };
    if let Some(alone) = plan.alone_usd {
        all.push(format!("each volume on a drive of its own: {} USD", person(alone)));
    }
    match plan.flash_alone_usd {
        Some(flash) => all.push(format!("flash alone: {} USD", person(flash))),
        None => all.push("flash alone does not carry them".to_owned()),
    }
    match plan.least_usd {
        _ if plan.exact => all.push("no way to share the kinds of drives that were tried costs less".to_owned()),
        Some(least) => all.push(format!(
            "no way to share costs less than {} USD, {} % less",
            person(least),
            person((1.0 - least / usd).max(0.0) * 100.0)
        )),
        None => {}
    }
    all
}

/// What simulations changed in the predictions of a kind of drive.
pub fn corrected(label: &str, Correction { alone, waits }: &Correction) -> String {
    format!(
        "on {label}, requests alone take {} times what was predicted, and wait {} times as long",
        person(*alone),
        person(*waits)
    )
}
