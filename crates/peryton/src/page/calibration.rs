//! The page of `peryton calibrate`: both halves of the measurement beside the model that was fitted to one of them.

use maud::html;
use peryton_device::{
    fit::{Fit, StepFit},
    measure::{Course, Order},
    validate::Validation,
};

use super::{
    figure::{Figures, Line, Scale},
    frame::{Head, page, sentence},
};
use crate::table::{self, Column, Table};

/// The largest share of the mean that a demerit may have for a model to be trusted on this drive.
pub const TRUSTED: f64 = 0.15;

/// The two halves as a page.
pub fn calibration(
    name: &str,
    fit: &Fit,
    (courses, steps): (&[Course], &Table),
    remarks: &[String],
    repeat: &str,
) -> String {
    let (fitted, other) = (&fit.fitted, &fit.other);
    let mut figures = Figures::default();
    let halves = [("the half that was fitted", fitted), ("the half that was not", other)];
    let without = "the half that was not, without a model";
    let mut charts: Vec<_> = halves.iter().map(|(title, half)| chart(&mut figures, title, half)).collect();
    charts.push(chart_of(&mut figures, without, "the fitted half", &fit.null));
    if !fit.steps.is_empty() {
        charts.push(of_steps(&mut figures, &fit.steps));
    }
    if !courses.is_empty() {
        charts.push(sustained(&mut figures, courses));
    }
    let share = other.demerit_share * 100.0;
    let verdict = [
        sentence(&format!(
            "on requests that it was not fitted to, the model of {name} is {} % of the mean latency away from the device",
            table::number(share)
        )),
        sentence(&format!(
            "this rests on {} requests that were fitted and {} that were not",
            fitted.requests, other.requests
        )),
    ];
    let mut warnings = Vec::new();
    if other.demerit_share > TRUSTED {
        let text = format!(
            "the distance is more than {} % of the mean: docs/twin.md says what may be missing",
            TRUSTED * 100.0
        );
        warnings.push(("demerit".to_owned(), sentence(&text)));
    }
    if let Some(text) = no_better(fit) {
        warnings.push(("no better than none".to_owned(), sentence(&text)));
    }
    let halves = [halves[0], halves[1], (without, &fit.null)];
    let body = html! {
        h2 { "Latencies" }
        p class="about" { "Share of the requests that took no longer. The demerit is the root mean square of the horizontal distance of the two curves." }
        div class="charts" { @for chart in &charts { (chart) } }
        h2 { "Figures" }
        (rows("half", &halves))
        p class="about" { "Without a model, what stands under it are the latencies of the fitted half, reads and writes apart." }
        @for remark in remarks { p class="about" { (sentence(remark)) } }
        @if !fit.steps.is_empty() {
            h2 { "Steps" }
            p class="about" { "Means are those of the half that was not fitted." }
            (steps)
        }
    };
    page(&Head { title: &format!("Calibration of {name}"), verdict, warnings }, repeat, &figures, &body)
}

/// Said of a model that tells no more of the half that it has not seen than the latencies of the fitted half do. Both halves of a measurement
/// with steps have the same load, so that these are as near as chance allows; a model is for other loads.
pub fn no_better(fit: &Fit) -> Option<String> {
    let classes = fit.no_better();
    (fit.steps.is_empty() && !classes.is_empty()).then(|| {
        let names = classes.iter().map(|class| match *class {
            "all" => "all requests",
            "read" => "reads",
            _ => "writes",
        });
        format!(
            "this profile is no better than none for {}: the latencies of the fitted half alone are as near to those of the other half",
            names.collect::<Vec<_>>().join(" and ")
        )
    })
}

fn curves(half: &Validation, model: &str) -> Vec<Line> {
    let line = |name: &str, colour: usize, cdf: &[f64]| {
        let points = cdf.iter().enumerate().map(|(i, &ms)| (ms, (i as f64 + 0.5) / cdf.len() as f64 * 100.0));
        Line::new(name, colour, points)
    };
    vec![line("measured", 0, &half.measured_cdf), line(model, 1, &half.modelled_cdf)]
}

fn axes() -> (Scale, Scale) {
    (Scale::new("latency", "ms").log(), Scale::new("", "%").up_to(100.0))
}

pub(super) fn chart(figures: &mut Figures, title: &str, half: &Validation) -> maud::Markup {
    chart_of(figures, title, "model", half)
}

fn chart_of(figures: &mut Figures, title: &str, model: &str, half: &Validation) -> maud::Markup {
    figures.lines((title, "%"), axes(), vec![("all".to_owned(), curves(half, model))], &[])
}

/// The half that was not fitted, step by step.
fn of_steps(figures: &mut Figures, steps: &[StepFit]) -> maud::Markup {
    let name = |step: &StepFit| match step.other.requests {
        0 => format!("{}; fitted", step.step),
        _ => step.step.clone(),
    };
    let views = steps.iter().map(|step| (name(step), curves(step.shown(), "model"))).collect();
    figures.lines(("a step, the half that was not fitted where there is one", "%"), axes(), views, &[])
}

/// How fast writes were as they went on.
fn sustained(figures: &mut Figures, courses: &[Course]) -> maud::Markup {
    let view = |course: &Course| {
        let mut written = 0;
        let points: Vec<_> = course
            .intervals
            .iter()
            .map(|interval| {
                written += interval.written;
                (written as f64 / (1u64 << 30) as f64, interval.written as f64 * 1e3 / interval.took.max(1) as f64)
            })
            .collect();
        let name = if course.what.order == Order::Sequential { "sequential" } else { "random" };
        (format!("{name}, {}", course.what.size), vec![Line::new("MB/s", 0, points)])
    };
    let axes = (Scale::new("written", "GiB"), Scale::new("", "MB/s"));
    figures.lines(("sustained writes", "MB/s"), axes, courses.iter().map(view).collect(), &[])
}

pub(super) fn rows(of: &str, halves: &[(&str, &Validation)]) -> Table {
    let titles = ["requests", "number", "measured, ms", "model, ms", "demerit, ms", "demerit, % of the mean"];
    let names = [of, titles[0]].map(|title| Column::names(title, 1));
    let mut rows =
        Table::of(names.into_iter().chain(titles[1..].iter().map(|title| Column::figures(*title, 1))).collect());
    for (title, half) in halves {
        let all = ("all", half.requests, half.mean_ms, half.model_mean_ms, half.demerit_ms);
        let classes = half.classes.iter().map(|c| (c.class, c.requests, c.mean_ms, c.model_mean_ms, c.demerit_ms));
        for (class, requests, mean, model, demerit) in classes.chain([all]) {
            let figures = [mean, model, demerit, demerit / mean * 100.0].map(table::number);
            rows.add_row([(*title).to_owned(), class.to_owned(), requests.to_string()].into_iter().chain(figures));
        }
    }
    rows
}
