//! The listener for scrapers: one request on a connection, and a bound for each thing that a client can make this
//! process hold or wait for. It knows nothing of what it serves ([`Answers`]).

mod address;
mod answer;
mod host;
mod refused;
mod request;
mod stream;

use std::{
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
    refused::Refused,
    request::Request,
};
use self::{
    host::check_host,
    stream::{Listener, Stream},
};
use crate::listen::ListenError;

/// The time for a request to arrive as a whole.
const REQUEST_TIME: Duration = Duration::from_secs(2);
/// The time for the answer to be taken, once it is known.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// The most connections at once, each on a thread of its own. Further ones wait in the kernel's queue.
const MOST_CONNECTIONS: u32 = 8;
/// The least time from one connection of a thread to its next: fifty a second in all.
const PACE: Duration = Duration::from_millis(160);
/// The memory of a server of a block device is locked, the threads' stacks as well.
const STACK: usize = 256 << 10;

/// What answers requests. It is called by several threads at once.
pub(crate) trait Answers: Send + Sync + 'static {
    fn answer(&self, request: &Request) -> Answer;
    /// The counts of connections that got no answer.
    fn refused(&self) -> &Refused;
}

/// The open address for scrapers of a volume. It closes when it is dropped, or earlier, when the volume is closed.
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
        for _ in 0..MOST_CONNECTIONS {
            let (listener, stopping, answers) = (Arc::clone(&listener), Arc::clone(&stopping), Arc::clone(&answers));
            // With fewer threads, fewer connections are served at once.
            let thread = thread::Builder::new().name("http".to_owned()).stack_size(STACK);
            let _ = thread.spawn(move || accept(&listener, &stopping, &*answers));
        }
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

/// Serves connections, one after the other.
fn accept(listener: &Listener, stopping: &AtomicBool, answers: &impl Answers) {
    while !stopping.load(Ordering::Relaxed) {
        let accepted = listener.accept();
        let began = Instant::now();
        match accepted {
            Ok(stream) => serve(stream, answers),
            // It has ended, or the process has no file descriptors left.
            Err(_) if stopping.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
        thread::sleep((began + PACE).saturating_duration_since(Instant::now()));
    }
}

/// Answers a request, and closes the connection.
fn serve(mut stream: Stream, answers: &impl Answers) {
    let refused = answers.refused();
    let (answer, is_head) = match request::read(&mut stream, Instant::now() + REQUEST_TIME) {
        Ok(Some(Ok(request))) => {
            let host = if stream.is_tcp() { check_host(&request) } else { Ok(()) };
            (host.map_or_else(|refused| refused, |()| answers.answer(&request)), request.is_head)
        }
        Ok(Some(Err(answer))) => (answer, false),
        Ok(None) => return,
        Err(error) => return refused.broken(&error),
    };
    refused.answered(answer.status);
    match answer.send(&mut stream, Instant::now() + ANSWER_TIME, is_head) {
        Ok(()) => stream.close(),
        Err(error) => refused.broken(&error),
    }
}
