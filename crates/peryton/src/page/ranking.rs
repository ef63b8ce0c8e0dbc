//! The page of `peryton energy`: devices by the energy and money that a workload needs.

use maud::{Markup, html};
use peryton_plan::energy::{Answer, Ranked};

use super::{
    chart::{self, Best},
    figure::{Figures, Line, Scale},
    frame::{Head, counted, grouped, page, sentence, warned_below},
    weights::{self, Axis, Candidate},
};
use crate::table::{self, Table};

const AXES: &[Axis] = &[
    Axis::less("Energy", "kWh"),
    Axis::less("Purchase and electricity", "USD"),
    Axis::less("Mean power", "W"),
    Axis { weight: 0, ..Axis::less("Devices", "devices") },
];

/// The most devices with bars and lines.
const MOST_DRAWN: usize = 8;

/// The answer as a page. `first` says by what the list is ordered.
pub fn ranking(
    answer: &Answer,
    (devices, owned): (&Table, &Option<(String, Table)>),
    first: &str,
    repeat: &str,
) -> String {
    let mut figures = Figures::default();
    let warnings = warnings(answer);
    let rows = &answer.devices;
    let candidate = |row: &Ranked| Candidate {
        name: format!("{} × {}", row.devices, row.figures.device),
        meets: None,
        values: vec![Some(row.energy_j / 3.6e6), row.total_usd, Some(row.mean_power_w), Some(row.devices as f64)],
    };
    let candidates: Vec<Candidate> = rows.iter().map(candidate).collect();
    let bars = |title: &str, unit: &str, of: &dyn Fn(&Ranked) -> Option<f64>| {
        let rows: Vec<(&str, Option<f64>)> =
            rows.iter().take(MOST_DRAWN).map(|row| (row.figures.device.as_str(), of(row))).collect();
        // One bar compares nothing; the table has it.
        if rows.iter().filter(|row| row.1.is_some()).count() < 2 {
            return html! {};
        }
        chart::bars(title, unit, Some(Best::Least), &rows)
    };
    let body = html! {
        (about(answer))
        h2 { "Side by side" }
        @if rows.len() > MOST_DRAWN { p class="about" { "The first " (MOST_DRAWN) " of " (rows.len()) "; the table has all." } }
        div class="cards" {
            (bars("Energy", "kWh over the run time", &|row| Some(row.energy_j / 3.6e6)))
            (bars("Mean power", "W, all devices", &|row| Some(row.mean_power_w)))
            (bars("Purchase and electricity", "USD over the run time", &|row| row.total_usd))
            (bars("Devices", "needed", &|row| Some(row.devices as f64)))
        }
        @if let Some(choice) = weights::choice(AXES, &candidates, ["Purchase and electricity", "Energy"]) {
            h2 { "What matters to you" }
            p class="about" { (weights::EXPLAINED) }
            (figures.weigh("Choice by weights", "each kind of device alone", choice))
        }
        (over_years(answer, &mut figures))
        h2 { "Devices" }
        p class="about" { (table::SORTED) }
        (devices)
        @if let Some((about, rows)) = owned {
            p class="about" { (sentence(about)) }
            (rows)
        }
        h2 { "Assumed" }
        ul {
            @for assumption in &answer.assumptions { li { (sentence(assumption)) } }
            @for left in &answer.left_out { li { (sentence(left)) } }
        }
    };
    let title = match &answer.trace {
        Some(trace) => format!("Devices by {first} for {}", trace.name),
        None => format!("Devices by {first}"),
    };
    let verdict = verdict(answer, first, warnings.len());
    page(&Head { title: &title, verdict, warnings }, repeat, &figures, &body)
}

fn warnings(answer: &Answer) -> Vec<(String, String)> {
    let decisive = answer.decisive_estimates.iter().map(|one| {
        let text = format!(
            "the figure {} of {}, which rests on estimates, would put {} first if it were {:.0} % {}",
            one.figure,
            one.device,
            one.first,
            one.off_by.abs() * 100.0,
            if one.off_by < 0.0 { "lower" } else { "higher" }
        );
        ("decisive_estimate".to_owned(), sentence(&text))
    });
    let no_fleet = answer.no_fleet.iter().map(|text| ("no_fleet".to_owned(), sentence(text)));
    decisive.chain(no_fleet).collect()
}

fn years(answer: &Answer) -> String {
    let days = answer.run_time_s / 86_400.0;
    if days < 730.0 {
        format!("{} days", table::number(days))
    } else {
        format!("{} years", table::number(days / 365.25))
    }
}

fn verdict(answer: &Answer, first: &str, warnings: usize) -> [String; 2] {
    let need = |row: &Ranked| match (first, row.total_usd) {
        ("cost", Some(usd)) => format!("{} USD to buy and run", table::number(usd)),
        _ => format!("{} kWh", table::number(row.energy_j / 3.6e6)),
    };
    let said = match &answer.devices[..] {
        [] => "No device can carry this load".to_owned(),
        [only] => {
            format!("{} × {} carries it with {} in {}", only.devices, only.figures.device, need(only), years(answer))
        }
        [best, next, ..] => format!(
            "{} × {} needs least: {} in {}, before {} × {} with {}",
            best.devices,
            best.figures.device,
            need(best),
            years(answer),
            next.devices,
            next.figures.device,
            need(next)
        ),
    };
    let from = match &answer.trace {
        Some(trace) => format!("what {} asks for ({} requests)", trace.name, grouped(trace.requests)),
        None => "the figures on the command line".to_owned(),
    };
    let estimated = answer.devices.iter().filter(|row| !row.figures.estimates.is_empty()).count();
    let rests = format!(
        "This rests on {from} and on published or modelled figures of {}, {estimated} of them with estimates{}",
        counted(answer.devices.len(), "device", "devices"),
        warned_below(warnings)
    );
    [sentence(&said), sentence(&rests)]
}

fn about(answer: &Answer) -> Markup {
    let demand = &answer.demand;
    html! {
        p class="about" {
            (table::number(demand.capacity_mb / 1e3)) " GB to store, " (table::number(demand.peak_mb_per_s)) " MB/s at the peak and "
            (table::number(demand.average_mb_per_s)) " MB/s on average; run time " (years(answer)) ", electricity at "
            (table::number(answer.electricity_usd_per_kwh)) " USD/kWh."
            @if let Some(trace) = &answer.trace { " Trace hash " code { (trace.hash) } "." }
        }
    }
}

/// What buying and running costs against time.
fn over_years(answer: &Answer, figures: &mut Figures) -> Markup {
    const LONG: f64 = 10.0;
    let line = |(index, row): (usize, &Ranked)| {
        let usd = row.devices_usd?;
        let a_year = row.mean_power_w * 8_766.0 / 1e3 * answer.electricity_usd_per_kwh;
        let points = (0..=20).map(|step| f64::from(step) * LONG / 20.0).map(|year| (year, usd + a_year * year));
        Some(Line::new(&row.figures.device, index, points))
    };
    let lines: Vec<Line> = answer.devices.iter().take(MOST_DRAWN).enumerate().filter_map(line).collect();
    if lines.len() < 2 {
        return html! {};
    }
    let axes = (Scale::new("time", "years"), Scale::new("", "USD").log());
    let chart = figures.lines(
        ("Cost against time", "USD: purchase and electricity"),
        axes,
        vec![("cost".to_owned(), lines)],
        &[],
    );
    html! { div class="charts" { (chart) } }
}
