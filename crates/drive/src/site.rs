//! The paths of the listener: metrics, and the page with its figures.

use std::sync::Arc;

use crate::{
    http::{Answer, Answers, Refused, Request, Status, check_host, check_origin},
    live::Live,
    metrics::Source,
};

/// The page of a volume, which the program that serves it makes.
#[derive(Clone, Debug)]
pub struct LivePage {
    /// The page, whose script asks for `live.json`.
    pub html: Arc<str>,
    /// What a browser lets it do (`Content-Security-Policy`).
    pub policy: Arc<str>,
}

/// The page and what belongs to it.
#[derive(Debug)]
pub(crate) struct PageSite {
    pub(crate) page: LivePage,
    pub(crate) live: Live,
}

/// What is at an address.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) metrics: Source,
    /// Without it there are metrics only.
    pub(crate) page: Option<PageSite>,
    /// Whether requests come over TCP, so that any program, and any page in a browser, of this machine may have sent them.
    pub(crate) is_tcp: bool,
}

impl Answers for Site {
    fn answer(&self, request: &Request) -> Answer {
        let host = if self.is_tcp { check_host(request) } else { Ok(()) };
        let answer = host.and_then(|()| match &self.page {
            Some(page) => page.answer(request, &self.metrics),
            None if request.path == "/metrics" => Ok(self.metrics.answer(request)),
            None => Err(Answer::refused(Status::NotFound, "see /metrics; the page is served with --http")),
        });
        answer.unwrap_or_else(|refused| refused)
    }

    fn refused(&self) -> &Refused {
        self.metrics.refused()
    }
}

impl PageSite {
    fn answer(&self, request: &Request, metrics: &Source) -> Result<Answer, Answer> {
        match request.path.as_str() {
            "/metrics" => Ok(metrics.answer(request)),
            "/" => Ok(Answer::page(Arc::clone(&self.page.html), Arc::clone(&self.page.policy))),
            "/live.json" => {
                check_origin(request)?;
                let report = self.live.report(request.number("since"), request.number("events"));
                let report =
                    report.ok_or_else(|| Answer::refused(Status::Unavailable, "the volume is being opened"))?;
                let text = serde_json::to_string(&report);
                let text = text.map_err(|error| Answer::refused(Status::Unavailable, &error.to_string()))?;
                Ok(Answer::json(text))
            }
            _ => Err(Answer::refused(Status::NotFound, "see /, /live.json and /metrics")),
        }
    }
}
