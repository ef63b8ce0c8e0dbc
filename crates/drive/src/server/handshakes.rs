//! TLS handshakes, by a thread of their own: a signature takes up to milliseconds, and anybody can ask for one.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

use super::Handle;
use crate::nbd::{TlsError, TlsSession};

/// After each piece of a handshake the thread rests for so many times as long as that took: however many strangers knock,
/// they cost a quarter of a processor.
const RESTS: u32 = 3;

/// A handshake that goes on with what has come from the client.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) client: u32,
    pub(super) session: Box<TlsSession>,
    pub(super) bytes: Vec<u8>,
    /// Nobody waits for it any more.
    pub(super) gone: Arc<AtomicBool>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) client: u32,
    pub(super) session: Box<TlsSession>,
    pub(super) result: Result<(), TlsError>,
    /// Not looked at yet.
    pub(super) rest: Vec<u8>,
}

/// The way to that thread. It ends with the server. No more jobs wait than there are clients: each has one at most.
#[derive(Debug)]
pub(super) struct Handshakes(mpsc::Sender<Job>);

impl Handshakes {
    pub(super) fn new(handle: Handle) -> io::Result<Handshakes> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let work = move || {
            for job in jobs {
                let began = Instant::now();
                if !job.gone.load(Ordering::Relaxed) {
                    let done = job.go_on();
                    handle.send(Box::new(move |server| server.shook(done)));
                    thread::sleep(began.elapsed() * RESTS);
                } else {
                    let Job { client, session, .. } = job;
                    let done = Done { client, session, result: Ok(()), rest: Vec::new() };
                    handle.send(Box::new(move |server| server.shook(done)));
                }
            }
        };
        thread::Builder::new().name("handshakes".to_owned()).spawn(work)?;
        Ok(Handshakes(sender))
    }

    pub(super) fn begin(&self, job: Job) {
        self.0.send(job).expect("the thread of handshakes lives as long as this");
    }
}

impl Job {
    fn go_on(mut self) -> Done {
        let taken = self.session.receive(&self.bytes);
        let (result, rest) = match taken {
            Ok(taken) => (Ok(()), self.bytes.split_off(taken)),
            Err(error) => (Err(error), Vec::new()),
        };
        Done { client: self.client, session: self.session, result, rest }
    }
}
