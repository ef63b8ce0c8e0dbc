//! Remarks on a report, for the terminal and for the page.

use peryton_sim::Report;

/// What a reader has to know of a report before believing its figures.
pub fn remarks(report: &Report) -> impl Iterator<Item = String> {
    let counted = [
        (report.wrapped_requests, "lay past the end of the volume and were wrapped"),
        (report.skipped_requests, "lay past the end of the volume and were skipped"),
        (report.failed_requests, "were answered with an error"),
    ];
    counted.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} requests {what}"))
}
