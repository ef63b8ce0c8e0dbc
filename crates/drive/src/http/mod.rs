//! The listener for browsers and scrapers: one request on a connection, and a bound for each thing that a client can make this
//! process hold or wait for. It knows nothing of what it serves ([`Answers`]).

mod address;
mod answer;
mod origin;
mod places;
mod request;
mod stream;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::address::Address;
pub(crate) use self::{
    answer::{Answer, Status},
    origin::{check_host, check_origin},
    places::Refused,
    request::Request,
};
use self::{
    places::{Place, Places},
    stream::{Listener, Stream},
};
use crate::listen::ListenError;

/// The time for a request to arrive as a whole.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// The time for the answer to be taken, once it is known.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// This many connections may come in a burst, and one in each [`INTERVAL`] after that: fifty a second. Further ones wait in the
/// kernel's queue.
const BURST: u32 = 8;
const INTERVAL: Duration = Duration::from_millis(20);
/// The pause after a connection could not be accepted, because there are no file descriptors, for example.
const REST: Duration = Duration::from_millis(100);

/// What answers requests. It is called by several threads at once.
pub(crate) trait Answers: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Answer;
    /// The counts of connections that got no answer.
    fn refused(&self) -> &Refused;
}

/// The open address for browsers and scrapers of a volume. It closes when it is dropped, or earlier, when the volume is closed.
#[derive(Debug)]
pub struct Http {
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

impl Http {
    pub(crate) fn listen(address: &Address, answers: Arc<impl Answers>) -> Result<Http, ListenError> {
        let listener = Arc::new(Listener::bind(address)?);
        let address = listener.address(address);
        let stopping = Arc::new(AtomicBool::new(false));
        let listening = Listening { stopping: Arc::clone(&stopping), listener: Arc::clone(&listener) };
        thread::spawn(move || accept(&listener, &stopping, &answers));
        Ok(Http { address, listening })
    }

    /// The address that clients use; the port is the one that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn listening(&self) -> Listening {
        self.listening.clone()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.listening.end();
    }
}

fn accept(listener: &Listener, stopping: &AtomicBool, answers: &Arc<impl Answers>) {
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
        let answers = Arc::clone(answers);
        // If the system refuses a thread, the connection is closed and its place is free again.
        let _ = thread::Builder::new().name("http".to_owned()).spawn(move || serve(stream, &place, &*answers));
    }
}

/// Answers a request, and closes the connection.
fn serve(mut stream: Stream, place: &Place, answers: &impl Answers) {
    let refused = answers.refused();
    let (answer, is_head) = match request::read(&mut stream, Instant::now() + REQUEST_TIME) {
        Ok(Some(Ok(request))) => (answers.answer(&request), request.is_head),
        Ok(Some(Err(answer))) => (answer, false),
        Ok(None) => return refused.hung_up(place.is_displaced()),
        Err(error) => return refused.broken(&error, place.is_displaced()),
    };
    refused.answered(answer.status);
    let sent: io::Result<()> = answer.send(&mut stream, Instant::now() + ANSWER_TIME, is_head);
    match sent {
        Ok(()) => stream.close(),
        Err(error) => refused.broken(&error, place.is_displaced()),
    }
}
