//! Remarks on a report, for the page.

use peryton_sim::Report;

/// What a reader has to know of a report before believing its figures.
pub fn remarks(report: &Report) -> impl Iterator<Item = String> {
    report.warnings.iter().map(ToString::to_string)
}
