//! The control socket: status, settings, events and drills for the socket's owner.

mod activity;
mod protocol;

use std::{
    io::{self, BufReader, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use peryton_engine::MapOf;
use peryton_units::Bytes;
use serde_json::{Value, json};
use thiserror::Error;

pub use self::protocol::{Ask, LONGEST_LINE, Misunderstood, read_line};
use self::protocol::{well, wrong};
use crate::{
    events::Events,
    listen::{ListenError, OwnPath, bind_unix},
    server::{Handle, NewSize, Successor},
};

/// The most clients at once. A further client replaces the one that has been idle longest.
const MOST_CLIENTS: usize = 32;
/// The most clients that follow events at once. They are never idle, so without this bound they could occupy every
/// place.
const MOST_FOLLOWERS: usize = 16;
/// A client that sends no request, or takes no answer, for this long is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// The open control socket of a volume. It closes when it is dropped, or earlier, when the volume is closed.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    listening: Listening,
}

/// A handle that ends the control socket before another server may open the volume.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    stopping: Arc<AtomicBool>,
    path: Arc<Mutex<Option<OwnPath>>>,
}

impl Listening {
    /// Closes the socket and removes its path. Further calls do nothing.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        let Some(own) = self.path.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        // Wakes the listener, so that it sees the end.
        drop(UnixStream::connect(&own.path));
    }
}

impl Control {
    pub(crate) fn listen(path: &Path, handle: &Handle, events: &Events) -> Result<Control, ListenError> {
        let (listener, own) = bind_unix(path)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (stop, handle, events) = (Arc::clone(&stopping), handle.clone(), events.clone());
        thread::spawn(move || accept(&listener, &stop, &handle, &events));
        let listening = Listening { stopping, path: Arc::new(Mutex::new(Some(own))) };
        Ok(Control { path: path.to_owned(), listening })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listening(&self) -> Listening {
        self.listening.clone()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.listening.end();
    }
}

/// The activity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Idle since this time.
    Nothing(Instant),
    Asking,
    Following,
}

#[derive(Debug)]
struct Place {
    number: u64,
    stream: UnixStream,
    doing: Doing,
}

/// The connected clients.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<Vec<Place>>>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a client. Returns `false` if there is no free place and no idle client to replace.
    fn enter(&self, number: u64, stream: UnixStream) -> bool {
        let mut places = self.lock();
        if places.len() >= MOST_CLIENTS {
            let idle = places.iter().enumerate().filter_map(|(index, place)| match place.doing {
                Doing::Nothing(since) => Some((since, index)),
                Doing::Asking | Doing::Following => None,
            });
            let Some((_, index)) = idle.min() else { return false };
            let _ = places.swap_remove(index).stream.shutdown(Shutdown::Both);
        }
        places.push(Place { number, stream, doing: Doing::Nothing(Instant::now()) });
        true
    }

    fn leave(&self, number: u64) {
        self.lock().retain(|place| place.number != number);
    }

    /// Sets a client's activity. Returns `false` if too many clients follow events.
    fn set(&self, number: u64, doing: Doing) -> bool {
        let mut places = self.lock();
        let followers = places.iter().filter(|place| place.doing == Doing::Following).count();
        if doing == Doing::Following && followers >= MOST_FOLLOWERS {
            return false;
        }
        if let Some(place) = places.iter_mut().find(|place| place.number == number) {
            place.doing = doing;
        }
        true
    }
}

fn accept(listener: &UnixListener, stopping: &AtomicBool, handle: &Handle, events: &Events) {
    let places = Places::default();
    for (number, stream) in (0..).zip(listener.incoming()) {
        if stopping.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut stream) = stream else {
            // The process has no file descriptors left: wait rather than spin.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        let set = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        let Ok(other) = set.and_then(|()| stream.try_clone()) else { continue };
        if !places.enter(number, other) {
            // The client may not be reading, but a line always fits into an empty socket.
            let _ = say(&mut stream, &wrong("too many control clients: try again later"));
            continue;
        }
        let (own, handle, events) = (places.clone(), handle.clone(), events.clone());
        let work = move || {
            // An error means that the client has gone, which needs no handling.
            let _ = serve(stream, &handle, &events, &|doing| own.set(number, doing));
            own.leave(number);
        };
        if thread::Builder::new().spawn(work).is_err() {
            places.leave(number);
        }
    }
}

fn say(stream: &mut UnixStream, answer: &Value) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn serve(mut stream: UnixStream, handle: &Handle, events: &Events, now: &dyn Fn(Doing) -> bool) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(4096, stream.try_clone()?);
    loop {
        now(Doing::Nothing(Instant::now()));
        let Some(asked) = read_line(&mut reader)? else { return Ok(()) };
        now(Doing::Asking);
        let answer = match asked {
            Err(Misunderstood::TooLong) => {
                return say(&mut stream, &wrong(&format!("a line has at most {LONGEST_LINE} bytes")));
            }
            Err(Misunderstood::NotARequest(why)) => wrong(&why),
            Ok(Ask::Events { follow: true, .. }) if !now(Doing::Following) => {
                wrong("too many clients follow the events: ask without --follow, or try again later")
            }
            Ok(Ask::Events { after, follow }) => {
                send_events(&mut stream, events, after, follow)?;
                continue;
            }
            Ok(Ask::Map {}) => {
                send_map(&mut stream, handle)?;
                continue;
            }
            Ok(ask) => answer(handle, ask),
        };
        say(&mut stream, &answer)?;
    }
}

fn answer(handle: &Handle, ask: Ask) -> Value {
    let ended = || wrong("the volume is closed");
    let result = match ask {
        Ask::Status {} => return handle.status().map_or_else(ended, |status| well(&json!({ "status": status }))),
        Ask::Activity {} => return handle.activity().map_or_else(ended, |activity| well(&activity::shown(&activity))),
        Ask::Set { settings, unset } => handle.set(settings, unset).map(|done| json!({ "settings": done })),
        Ask::Fault { fault } => handle.fault(fault).map(|faults| json!({ "faults": faults })),
        Ask::Heal {} => handle.heal().map(|()| json!({ "faults": [] })),
        Ask::Mark {} => return if handle.mark() { well(&json!({})) } else { ended() },
        Ask::Evict { offset, length } => handle.evict(offset, length).map(|()| json!({})),
        Ask::Writeback {} => handle.clean().map(|state| json!({ "cleaning": state })),
        Ask::Replace { device, path, bytes_per_s, accept_loss, force, update_design } => {
            let new = Successor { path, bytes_per_s, accept_loss, force, update_design };
            handle.replace(&device, new).map(|change| json!({ "change": change }))
        }
        Ask::ReAdd { device, path, update_design } => {
            handle.readmit(&device, path, update_design).map(|readmitted| json!({ "readmitted": readmitted }))
        }
        Ask::Remove { device, bytes_per_s } => {
            handle.evacuate(&device, bytes_per_s).map(|change| json!({ "change": change }))
        }
        Ask::Resize { device, size, bytes_per_s } => {
            let new = NewSize { size, bytes_per_s };
            handle.resize(&device, new).map(|change| json!({ "change": change }))
        }
        Ask::StopChange { kind } => handle.stop_change(kind).map(|()| json!({})),
        Ask::Stop {} => {
            handle.stop();
            Ok(json!({}))
        }
        Ask::Events { .. } | Ask::Map {} => unreachable!("these have answers of many lines"),
    };
    result.map_or_else(|error| wrong(&error), |more| well(&more))
}

/// Sends the map, a line for each part that has entries, and a last line with the number of entries. What is written meanwhile may be in one part
/// and not yet in another.
fn send_map(stream: &mut UnixStream, handle: &Handle) -> io::Result<()> {
    let (mut next, mut entries, mut of) = (Some(Bytes::ZERO), 0, MapOf::default());
    while let Some(from) = next {
        let Some((devices, part)) = handle.map_part(from) else { return say(stream, &wrong("the volume is closed")) };
        entries += part.rows.len();
        if !part.rows.is_empty() {
            say(stream, &json!({ "devices": devices, "map": part.rows }))?;
        }
        (next, of) = (part.next, part.of);
    }
    say(stream, &well(&json!({ "entries": entries, "of": of })))
}

/// Sends one line for each event, and a last line with their number.
fn send_events(stream: &mut UnixStream, events: &Events, mut after: u64, follow: bool) -> io::Result<()> {
    let wait = if follow { Duration::from_secs(1) } else { Duration::ZERO };
    let mut sent = 0_u64;
    while let Some(new) = events.since(after, wait) {
        for event in &new {
            after = event.number;
            sent += 1;
            say(stream, &serde_json::to_value(event)?)?;
        }
        if !follow {
            break;
        }
        if new.is_empty() && has_gone(stream) {
            return Ok(());
        }
    }
    say(stream, &well(&json!({ "events": sent, "last": after })))
}

/// Whether the other end has closed the connection.
fn has_gone(stream: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(stream, &mut byte, flags), Ok((0, _)))
}

/// Why a request to a control socket failed. One line each.
#[derive(Debug, Error)]
pub enum ControlError {
    /// The socket cannot be reached.
    #[error("{}: {source}: give the control socket of a volume that is being served", path.display())]
    Connect {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The connection broke, or the answer is not valid.
    #[error("{}: {problem}", path.display())]
    Answer {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The volume refuses the request.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to a control socket and passes each line of the answer to `line`, until it returns `false` or the
/// last line, which contains `ok`, has come.
///
/// # Errors
/// Nothing listens at the path, the answer is not valid, or the volume refuses.
pub fn ask(path: &Path, ask: &Ask, mut line: impl FnMut(Value) -> bool) -> Result<(), ControlError> {
    let failed = |source| ControlError::Connect { path: path.to_owned(), source };
    let wrong = |problem: String| ControlError::Answer { path: path.to_owned(), problem };
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    let request = serde_json::to_value(ask).map_err(|error| wrong(error.to_string()))?;
    say(&mut stream, &request).map_err(failed)?;
    let mut lines = io::BufRead::lines(BufReader::new(stream));
    loop {
        let text = match lines.next() {
            None => return Err(wrong("it hung up: the volume may have been closed".to_owned())),
            Some(text) => text.map_err(|error| wrong(error.to_string()))?,
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|_| wrong("no answer of a Peryton volume".to_owned()))?;
        match value.get("ok").and_then(Value::as_bool) {
            Some(false) => {
                let why = value.get("error").and_then(Value::as_str).unwrap_or("refused");
                return Err(ControlError::Refused(why.to_owned()));
            }
            Some(true) => {
                line(value);
                return Ok(());
            }
            None if !line(value) => return Ok(()),
            None => {}
        }
    }
}
