//! TLS handshakes on a thread of their own: a signature takes up to milliseconds, and anyone who can connect can
//! request one.

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

use crate::nbd::{TlsError, TlsSession};

/// After each part of a handshake the thread pauses this many times as long as the part took. So handshakes cost at
/// most a quarter of a processor, however many clients connect.
const RESTS: u32 = 3;

/// A handshake to continue with the client's input.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) client: u32,
    pub(super) session: Box<TlsSession>,
    pub(super) bytes: Vec<u8>,
    /// Whether the result is no longer needed.
    pub(super) gone: Arc<AtomicBool>,
}

/// The result of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) client: u32,
    pub(super) session: Box<TlsSession>,
    pub(super) result: Result<(), TlsError>,
    /// The input that was not consumed.
    pub(super) rest: Vec<u8>,
}

/// The access to the handshake thread, which ends with the server. At most one job waits for each client.
#[derive(Debug)]
pub(crate) struct Handshakes(mpsc::Sender<Job>);

impl Handshakes {
    /// Starts the thread, which calls `shook` with each result.
    pub(super) fn new(shook: impl Fn(Done) + Send + 'static) -> io::Result<Handshakes> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let work = move || {
            for job in jobs {
                let began = Instant::now();
                if !job.gone.load(Ordering::Relaxed) {
                    let done = job.go_on();
                    shook(done);
                    thread::sleep(began.elapsed() * RESTS);
                } else {
                    let Job { client, session, .. } = job;
                    let done = Done { client, session, result: Ok(()), rest: Vec::new() };
                    shook(done);
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
