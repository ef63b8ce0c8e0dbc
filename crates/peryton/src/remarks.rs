//! Remarks on a report, for the page.

use peryton_sim::Report;

/// The facts that a reader should know before using the figures of a report.
pub fn remarks(report: &Report) -> impl Iterator<Item = String> {
    report.warnings.iter().map(ToString::to_string)
}
