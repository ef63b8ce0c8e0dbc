//! The page of `peryton twin`: prediction beside measurement.

use maud::html;

use super::{
    figure::Figures,
    frame::{Head, page, sentence},
};
use crate::{table::Table, twin::Twin};

/// The comparison as a page.
pub fn twin(twin: &Twin, figures: &Table) -> String {
    let disagreeing = twin.figures.iter().filter(|figure| figure.disagrees()).count();
    let compared = twin.figures.iter().filter(|figure| figure.difference.is_some()).count();
    let verdict = [
        sentence(&format!("{} of {compared} figures that both have agree", compared.saturating_sub(disagreeing))),
        sentence(&format!(
            "this rests on {} requests in {:.0} s; response times are of the half of them that nothing was fitted to",
            twin.recording.requests, twin.recording.span_s
        )),
    ];
    let warnings =
        twin.reasons.iter().enumerate().map(|(index, text)| (format!("reason-{index}"), sentence(text))).collect();
    let body = html! {
        h2 { "Figures" }
        (figures)
        h2 { "Design" }
        p class="about" { "Trace " (twin.trace_hash) ", replay " (twin.replay) "." }
        pre { code { (twin.design_toml) } }
    };
    let head = Head { title: &format!("The twin of {}", twin.recording.name), verdict, warnings };
    page(&head, &twin.command, &Figures::default(), &body)
}
