//! The page of `peryton calibrate`: both halves of the measurement beside the model that was fitted to one of them.

use maud::html;
use peryton_device::validate::Validation;

use super::{
    figure::{Figures, Line, Scale},
    frame::{Head, page, sentence},
    sorted::{self, Column},
};
use crate::table;

/// The largest share of the mean that a demerit may have for a model to be trusted on this drive.
pub const TRUSTED: f64 = 0.15;

/// The two halves as a page.
pub fn calibration(name: &str, fitted: &Validation, other: &Validation, repeat: &str) -> String {
    let mut figures = Figures::default();
    let halves = [("the half that was fitted", fitted), ("the half that was not", other)];
    let charts: Vec<_> = halves.iter().map(|(title, half)| chart(&mut figures, title, half)).collect();
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
            "the distance is more than {} % of the mean: docs/calibrating.md says what may be missing",
            TRUSTED * 100.0
        );
        warnings.push(("demerit".to_owned(), sentence(&text)));
    }
    let body = html! {
        h2 { "Latencies" }
        p class="about" { "Share of the requests that took no longer. The demerit is the root mean square of the horizontal distance of the two curves." }
        div class="charts" { @for chart in &charts { (chart) } }
        h2 { "Figures" }
        (rows("half", &halves))
    };
    page(&Head { title: &format!("Calibration of {name}"), verdict, warnings }, repeat, &figures, &body)
}

pub(super) fn chart(figures: &mut Figures, title: &str, half: &Validation) -> maud::Markup {
    let line = |name: &str, colour: usize, cdf: &[f64]| {
        let points = cdf.iter().enumerate().map(|(i, &ms)| (ms, (i as f64 + 0.5) / cdf.len() as f64 * 100.0));
        Line::new(name, colour, points)
    };
    let lines = vec![line("measured", 0, &half.measured_cdf), line("model", 1, &half.modelled_cdf)];
    let axes = (Scale::new("latency", "ms").log(), Scale::new("", "%").up_to(100.0));
    figures.lines((title, "%"), axes, vec![("all".to_owned(), lines)], &[])
}

pub(super) fn rows(of: &str, halves: &[(&str, &Validation)]) -> maud::Markup {
    let (mut words, mut kinds, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    let mut columns: [Vec<Option<f64>>; 4] = Default::default();
    for (title, half) in halves {
        let all = ("all", half.requests, half.mean_ms, half.model_mean_ms, half.demerit_ms);
        let classes = half.classes.iter().map(|c| (c.class, c.requests, c.mean_ms, c.model_mean_ms, c.demerit_ms));
        for (class, requests, mean, model, demerit) in classes.chain([all]) {
            words.push((*title).to_owned());
            kinds.push(class.to_owned());
            counts.push(Some(requests as f64));
            for (column, value) in columns.iter_mut().zip([mean, model, demerit, demerit / mean * 100.0]) {
                column.push(Some(value));
            }
        }
    }
    let [mean, model, demerit, share] = &columns;
    sorted::table(&[
        Column::words(of, &words),
        Column::words("requests", &kinds),
        Column::figures("number", &counts),
        Column::figures("measured, ms", mean),
        Column::figures("model, ms", model),
        Column::figures("demerit, ms", demerit),
        Column::figures("demerit, % of the mean", share),
    ])
}
