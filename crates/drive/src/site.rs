//! The paths of the listener: metrics, and the page with its figures and settings.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    http::{Answer, Answers, Method, Refused, Request, Status, Token, check_host, check_origin},
    live::Live,
    metrics::Source,
    server::Handle,
};

/// The page of a volume, which the program that serves it makes.
#[derive(Clone, Debug)]
pub struct LivePage {
    /// The page, whose script asks for `live.json` and sends settings to `settings`.
    pub html: Arc<str>,
    /// What a browser lets it do (`Content-Security-Policy`).
    pub policy: Arc<str>,
    /// With it, settings may be changed.
    pub token: Option<Arc<Token>>,
}

/// The page and what belongs to it.
#[derive(Debug)]
pub(crate) struct PageSite {
    pub(crate) page: LivePage,
    pub(crate) live: Live,
    pub(crate) handle: Handle,
    /// Held while settings are being changed, so that one thread at most waits for the volume's.
    pub(crate) changing: Mutex<()>,
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

/// The body of a request for other settings.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// `key=value`.
    #[serde(default)]
    settings: Vec<String>,
    /// Keys that return to the value in the design.
    #[serde(default)]
    unset: Vec<String>,
}

fn wrong(status: Status, error: &str) -> Answer {
    Answer::json(status, json!({ "ok": false, "error": error }).to_string())
}

impl PageSite {
    fn answer(&self, request: &Request, metrics: &Source) -> Result<Answer, Answer> {
        let (path, is_post) = (request.path.as_str(), request.method == Method::Post);
        match (path, is_post) {
            ("/settings", true) => self.change(request),
            ("/settings", false) => Err(Answer::refused(Status::NotAllowed, "settings are changed by POST")),
            ("/" | "/live.json" | "/metrics", true) => Err(Answer::refused(Status::NotAllowed, "only GET")),
            ("/metrics", false) => Ok(metrics.answer(request)),
            ("/", false) => Ok(Answer::page(Arc::clone(&self.page.html), Arc::clone(&self.page.policy))),
            ("/live.json", false) => {
                check_origin(request)?;
                let challenge = self.page.token.as_ref().map(|token| token.challenge());
                let report = self.live.report(request.number("since"), request.number("events"), challenge);
                let report =
                    report.ok_or_else(|| Answer::refused(Status::Unavailable, "the volume is being opened"))?;
                let text = serde_json::to_string(&report);
                let text = text.map_err(|error| Answer::refused(Status::Unavailable, &error.to_string()))?;
                Ok(Answer::json(Status::Ok, text))
            }
            _ => Err(Answer::refused(Status::NotFound, "see /, /live.json and /metrics")),
        }
    }

    /// Changes settings as the control socket does.
    fn change(&self, request: &Request) -> Result<Answer, Answer> {
        let Some(token) = &self.page.token else {
            return Err(wrong(
                Status::Forbidden,
                "this page shows only: peryton serve --http-token FILE lets it change settings",
            ));
        };
        check_origin(request)?;
        token.check(request)?;
        let kind = request.header("content-type")?.and_then(|kind| kind.split(';').next());
        if !kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json")) {
            return Err(wrong(Status::Unsupported, "send application/json"));
        }
        let change: Change = serde_json::from_slice(&request.body).map_err(|error| {
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            wrong(
                Status::BadRequest,
                &format!("{problem}: expected {{\"settings\":[\"key=value\"],\"unset\":[\"key\"]}}"),
            )
        })?;
        let Ok(_changing) = self.changing.try_lock() else {
            return Err(wrong(Status::Unavailable, "other settings are being made durable: try again"));
        };
        match self.handle.set(change.settings, change.unset) {
            Ok(all) => Ok(Answer::json(Status::Ok, json!({ "ok": true, "settings": Value::from(all) }).to_string())),
            Err(error) => Err(wrong(Status::BadRequest, &error)),
        }
    }
}
