//! Figures of a served volume for Prometheus and other scrapers, in OpenMetrics.
//!
//! Scrapes are answered by threads of their own. What they cost the thread that owns the volume is bounded: a copy of its counts
//! (`server/measure.rs`), at most once in `FRESH`, however many ask.

mod address;
mod described;
mod exposition;
mod families;
mod http;
mod machine;
mod places;
mod stream;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub(crate) use self::described::{Described, DescribedDevice};
pub use self::{
    address::Address,
    families::{FAMILIES, Family, Type, Unit},
};
use self::{
    exposition::{Figures, plain},
    http::{Asked, Format},
    machine::Machine,
    places::{Place, Places, Refused},
    stream::{Listener, Stream},
};
use crate::{listen::ListenError, server::Handle};

/// The time for a request to arrive as a whole.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// The time for the answer to be taken, once it is known.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a scrape waits for the volume's thread.
const VOLUME_TIME: Duration = Duration::from_secs(2);
/// Figures are this fresh: scrapes that come within this time after one show the same.
pub(crate) const FRESH: Duration = Duration::from_millis(100);
/// This many connections may come in a burst, and one in each [`INTERVAL`] after that: fifty a second. Further ones wait in the
/// kernel's queue.
const BURST: u32 = 8;
const INTERVAL: Duration = Duration::from_millis(20);
/// The pause after a connection could not be accepted, because there are no file descriptors, for example.
const REST: Duration = Duration::from_millis(100);

/// The open address for scrapers of a volume. It closes when it is dropped, or earlier, when the volume is closed.
#[derive(Debug)]
pub struct Metrics {
    address: Address,
    listening: Listening,
}

/// A handle that ends the listening before another server may open the volume.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    stopping: Arc<AtomicBool>,
    listener: Arc<Listener>,
}

impl Listening {
    /// Closes the address. Further calls do nothing.
    pub(crate) fn end(&self) {
        if !self.stopping.swap(true, Ordering::Relaxed) {
            self.listener.end();
        }
    }
}

impl Metrics {
    pub(crate) fn listen(address: &Address, handle: &Handle, described: Described) -> Result<Metrics, ListenError> {
        let listener = Arc::new(Listener::bind(address)?);
        let address = listener.address(address);
        let stopping = Arc::new(AtomicBool::new(false));
        let listening = Listening { stopping: Arc::clone(&stopping), listener: Arc::clone(&listener) };
        let source = Arc::new(Source {
            handle: handle.clone(),
            described: Arc::new(described),
            last: Mutex::new(None),
            refused: Refused::default(),
        });
        thread::spawn(move || accept(&listener, &stopping, &source));
        Ok(Metrics { address, listening })
    }

    /// The address that scrapers use; the port is the one that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn listening(&self) -> Listening {
        self.listening.clone()
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.listening.end();
    }
}

/// Where the figures come from, for all threads.
#[derive(Debug)]
struct Source {
    handle: Handle,
    described: Arc<Described>,
    /// The last text, and when it was made.
    last: Mutex<Option<(Instant, Arc<str>)>>,
    refused: Refused,
}

impl Source {
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
        let machine = Machine::look(self.described.devices.iter().map(|device| device.number));
        let figures =
            Figures { described: Arc::clone(&self.described), snapshot, machine, refused: self.refused.counts() };
        let text: Arc<str> = figures.text().into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Some(text)
    }
}

fn accept(listener: &Listener, stopping: &AtomicBool, source: &Arc<Source>) {
    let places = Places::default();
    // When the next connection would be due if they came evenly.
    let mut due = Instant::now();
    while !stopping.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now() + BURST * INTERVAL));
        let Ok(stream) = listener.accept() else {
            // It has ended, or the process has no file descriptors left: wait rather than spin.
            if !stopping.load(Ordering::Relaxed) {
                thread::sleep(REST);
            }
            continue;
        };
        due = due.max(Instant::now()) + INTERVAL;
        let Some(place) = places.enter(&stream, stopping) else { continue };
        let source = Arc::clone(source);
        // If the system refuses a thread, the connection is closed and its place is free again.
        let _ = thread::Builder::new().name("metrics".to_owned()).spawn(move || serve(stream, &place, &source));
    }
}

/// Answers a request, and closes the connection.
fn serve(mut stream: Stream, place: &Place, source: &Source) {
    let asked = match http::read(&mut stream, Instant::now() + REQUEST_TIME) {
        Ok(Some(asked)) => asked,
        Ok(None) => return source.refused.hung_up(place.is_displaced()),
        Err(error) => return source.refused.broken(&error, place.is_displaced()),
    };
    let text = matches!(asked, Asked::Metrics { .. }).then(|| source.text()).flatten();
    let (status, format, body, with_body) = match (asked, &text) {
        (Asked::Metrics { format: Format::OpenMetrics, with_body }, Some(text)) => {
            ("200 OK", Format::OpenMetrics, text.to_string(), with_body)
        }
        (Asked::Metrics { format: Format::Plain, with_body }, Some(text)) => {
            ("200 OK", Format::Plain, plain(text), with_body)
        }
        (Asked::Metrics { with_body, .. }, None) => {
            source.refused.unavailable();
            ("503 Service Unavailable", Format::Plain, "the volume is closed, or busy\n".to_owned(), with_body)
        }
        (Asked::Refused(status, why), _) => {
            source.refused.misunderstood();
            (status, Format::Plain, why.to_owned(), true)
        }
    };
    let sent: io::Result<()> =
        http::answer(&mut stream, Instant::now() + ANSWER_TIME, (status, format, &body, with_body));
    match sent {
        Ok(()) => stream.close(),
        Err(error) => source.refused.broken(&error, place.is_displaced()),
    }
}
