//! The page of `peryton profiles --validate`: measured traces beside the model of a device.

use maud::html;
use peryton_device::validate::Validation;

use super::{
    calibration::{chart, rows},
    figure::Figures,
    frame::{Head, page, sentence},
};
use crate::table::{self, Table};

/// The traces as a page.
pub fn validation(validations: &[Validation], repeat: &str) -> String {
    let mut figures = Figures::default();
    let traces: Vec<(&str, &Validation)> = validations.iter().map(|one| (one.drive.as_str(), one)).collect();
    let charts: Vec<_> = traces.iter().map(|(name, one)| chart(&mut figures, name, one)).collect();
    let furthest = validations.iter().max_by(|a, b| a.demerit_share.total_cmp(&b.demerit_share));
    let answer = furthest.map_or_else(String::new, |one| {
        sentence(&format!(
            "{}: the model takes {} ms on average, the device took {} ms, and their distributions are {} % of that apart",
            one.drive,
            table::number(one.model_mean_ms),
            table::number(one.mean_ms),
            table::number(one.demerit_share * 100.0)
        ))
    });
    let requests: usize = validations.iter().map(|one| one.requests).sum();
    let rests_on = match validations.len() {
        1 => format!("this rests on {requests} requests"),
        traces => format!("this is the furthest of {traces} traces, of {requests} requests in all"),
    };
    let body = html! {
        h2 { "Latencies" }
        p class="about" { "Share of the requests that took no longer. The demerit is the root mean square of the horizontal distance of the two curves." }
        div class="charts" { @for chart in &charts { (chart) } }
        h2 { "Figures" }
        (rows("trace", &traces))
        h2 { "The slowest requests" }
        (tails(&traces))
    };
    let verdict = [answer, sentence(&rests_on)];
    page(&Head { title: "Validation", verdict, warnings: Vec::new() }, repeat, &figures, &body)
}

fn tails(traces: &[(&str, &Validation)]) -> Table {
    let mut rows = table::figures(&["trace", "no longer take, %", "measured, ms", "model, ms"]);
    for (name, tail) in traces.iter().flat_map(|(name, one)| one.tail.iter().map(move |tail| (name, tail))) {
        let figures = [tail.share * 100.0, tail.measured_ms, tail.modelled_ms].map(table::number);
        rows.add_row([(*name).to_owned()].into_iter().chain(figures));
    }
    rows
}
