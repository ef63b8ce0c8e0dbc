//! Long work without the interpreter's lock, which Ctrl-C ends and progress bars follow.
//!
//! The work runs on a pool of threads of its own, while the calling thread waits, looks for signals and shows progress. To
//! end work, a panic that no one reports unwinds it ([`Running::check`]), since callbacks of progress and sources of
//! requests are called often and cannot all return errors. The pool lives as long as the call: after a fork, threads of an
//! older pool would be missing.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use peryton_trace::{Account, Request, Source, TraceError};
use pyo3::prelude::*;

use crate::error::{failed, input};

/// How often signals are looked for and progress is shown.
const TURN: Duration = Duration::from_millis(50);

/// Work under way.
#[derive(Default)]
pub(crate) struct Running {
    stopped: AtomicBool,
    seen: Mutex<Seen>,
    done: Mutex<bool>,
    ended: Condvar,
}

#[derive(Clone, Default, PartialEq)]
struct Seen {
    step: String,
    done: u64,
    of: u64,
}

/// The panic that ends work.
struct Stopped;

/// The panic that ends work because a function of Python raised an exception.
struct Raised(PyErr);

/// Ends the work with an exception that a function of Python raised.
pub(crate) fn raise(error: PyErr) -> ! {
    resume_unwind(Box::new(Raised(error)))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Ends the work if that was asked for. Call it from the work only.
    pub(crate) fn check(&self) {
        if self.stopped.load(Relaxed) {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Reports progress, and ends the work if that was asked for. `of` is 0 if the amount of work is not known.
    pub(crate) fn report(&self, step: &str, done: u64, of: u64) {
        self.check();
        let mut seen = locked(&self.seen);
        if seen.step != step {
            step.clone_into(&mut seen.step);
        }
        (seen.done, seen.of) = (done, of);
    }

    /// Waits for a turn, or until the work has ended; returns whether it has.
    fn wait(&self) -> bool {
        let done = locked(&self.done);
        let (done, _) = self.ended.wait_timeout(done, TURN).unwrap_or_else(PoisonError::into_inner);
        *done
    }

    fn end(&self) {
        *locked(&self.done) = true;
        self.ended.notify_all();
    }
}

/// Does work on `jobs` threads (0: one for each core) and shows its progress by calling `progress(step, done, of)`.
///
/// # Errors
/// An exception of a signal's handler, of `progress`, or of a function of Python that the work called; a panic.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    jobs: usize,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<Running>) -> T + Send,
) -> PyResult<T> {
    // A thread that Python knows attaches to it quickly when it calls a policy of Python.
    let handles = Mutex::new(Vec::new());
    let spawn = |thread: rayon::ThreadBuilder| {
        let mut builder = std::thread::Builder::new().name(format!("peryton-{}", thread.index()));
        if let Some(size) = thread.stack_size() {
            builder = builder.stack_size(size);
        }
        let handle = builder.spawn(|| Python::attach(|py| py.detach(|| thread.run())))?;
        locked(&handles).push(handle);
        Ok(())
    };
    let pool = py.detach(|| rayon::ThreadPoolBuilder::new().num_threads(jobs).spawn_handler(spawn).build());
    let pool = pool.map_err(|error| failed(format!("no threads can be started: {error}")))?;
    let running = Arc::new(Running::default());
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = catch_unwind(AssertUnwindSafe(|| pool.install(|| work(&running))));
            running.end();
            result
        });
        let mut shown = Seen::default();
        let mut interrupted = None;
        while !py.detach(|| running.wait()) {
            if interrupted.is_none()
                && let Err(error) = turn(py, &running, progress, &mut shown)
            {
                running.stopped.store(true, Relaxed);
                interrupted = Some(error);
            }
        }
        let result = py.detach(|| worker.join()).unwrap_or_else(Err);
        match (interrupted, result) {
            (Some(error), _) => Err(error),
            (None, Ok(value)) => Ok(value),
            (None, Err(panic)) => Err(exception(panic)),
        }
    });
    // Dropping the pool does not wait for its threads, but they detach from Python when they end, and must have done that
    // before the interpreter ends.
    py.detach(|| {
        drop(pool);
        for handle in locked(&handles).drain(..) {
            // A panic of the work was handed on above.
            let _ = handle.join();
        }
    });
    result
}

/// Looks for signals and shows progress.
fn turn(py: Python<'_>, running: &Running, progress: Option<&Bound<'_, PyAny>>, shown: &mut Seen) -> PyResult<()> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(()) };
    let seen = locked(&running.seen).clone();
    if seen != *shown {
        progress.call1((seen.step.as_str(), seen.done, seen.of))?;
        *shown = seen;
    }
    Ok(())
}

/// The exception of a panic.
fn exception(panic: Box<dyn Any + Send>) -> PyErr {
    let panic = match panic.downcast::<Raised>() {
        Ok(raised) => return raised.0,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().cloned();
    match text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())) {
        // A policy that breaks its contract is the usual reason.
        Some(text) => failed(text),
        None => failed("the work ended early"),
    }
}

/// A source that ends when the work is to end, and that reports how far it was read.
pub(crate) struct Stoppable {
    /// The requests.
    pub(crate) source: Box<dyn Source>,
    /// The work that reads them.
    pub(crate) running: Arc<Running>,
    /// The step to report, if the work does not report by itself, and the number of requests, if it is known.
    pub(crate) step: Option<(&'static str, u64)>,
    /// Number of requests read.
    pub(crate) read: u64,
}

impl Source for Stoppable {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        match self.step {
            Some((step, of)) => self.running.report(step, self.read, of),
            None => self.running.check(),
        }
        self.source.next_batch(batch)?;
        self.read += batch.len() as u64;
        Ok(())
    }

    fn account(&self) -> Account {
        self.source.account()
    }
}

/// The number of threads that a caller asks for; 0 is one for each core.
pub(crate) fn threads(jobs: Option<usize>) -> PyResult<usize> {
    const MOST: usize = 1024;
    match jobs {
        None => Ok(0),
        Some(jobs) if (1..=MOST).contains(&jobs) => Ok(jobs),
        Some(jobs) => Err(input(format!("jobs {jobs}: use 1 to {MOST}, or None for one on each core"))),
    }
}
