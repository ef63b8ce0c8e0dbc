//! Figures of a served volume for Prometheus and other scrapers, in OpenMetrics.
//!
//! Scrapes are answered by threads of their own. What they cost the thread that owns the volume is bounded: a copy of its counts
//! (`server/measure.rs`), at most once in `FRESH`, however many ask.

mod described;
mod drives;
mod exposition;
mod families;
mod machine;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use self::exposition::{Figures, plain};
pub use self::families::{FAMILIES, Family, Type, Unit};
pub(crate) use self::{described::Described, machine::Machine};
use crate::{
    http::{Answer, Refused, Request, Status},
    server::Handle,
};

/// How long a scrape waits for the volume's thread.
const VOLUME_TIME: Duration = Duration::from_secs(2);
/// Figures are this fresh: scrapes that come within this time after one show the same.
const FRESH: Duration = Duration::from_millis(100);
/// What Prometheus has asked for since 2018. Others get the older text format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where the figures come from, for all threads that answer.
#[derive(Debug)]
pub(crate) struct Source {
    handle: Handle,
    described: Arc<Described>,
    /// The last text, and when it was made.
    last: Mutex<Option<(Instant, Arc<str>)>>,
    refused: Arc<Refused>,
}

impl Source {
    /// `refused`: the counts of all listeners of the volume.
    pub(crate) fn new(handle: Handle, described: Arc<Described>, refused: Arc<Refused>) -> Source {
        Source { handle, described, last: Mutex::new(None), refused }
    }

    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Answers a scrape.
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let Some(text) = self.text() else {
            return Answer::refused(Status::Unavailable, "the volume is closed, or busy");
        };
        let asked = b"application/openmetrics-text";
        let asks = |value: &[u8]| value.to_ascii_lowercase().windows(asked.len()).any(|part| part == asked);
        if request.headers("accept").any(asks) {
            Answer::of(OPENMETRICS, text)
        } else {
            Answer::of(PLAIN, plain(&text))
        }
    }

    /// The figures now, or a moment ago; `None` if the volume is closed, or its thread does not answer.
    fn text(&self) -> Option<Arc<str>> {
        // A thread that asks meanwhile waits for the same figures.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((made, text)) = &*last
            && made.elapsed() < FRESH
        {
            return Some(Arc::clone(text));
        }
        let snapshot = self.handle.snapshot(VOLUME_TIME)?;
        let machine =
            Machine::look((0..self.described.devices.len()).map(|device| self.described.drives.number(device)));
        let figures =
            Figures { described: Arc::clone(&self.described), snapshot, machine, refused: self.refused.counts() };
        let text: Arc<str> = figures.text().into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }
}
