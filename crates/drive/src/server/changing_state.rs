//! A change of a volume that is being served, for which it is closed for a moment: one state machine for all of them.
//!
//! ```text
//! emptying ──▶ proving ──▶ holding ──▶ away ──▶ the volume goes on, as it was or changed
//!    ▲            │           │
//!    └────────────┴───────────┘ a device refuses writes: refused; the volume does not rest: again, after a pause
//! ```

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Instant,
};

use peryton_engine::Tuning;
use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{design_file::DesignFile, figures::Snapshot, open::Device, shared_memory::Handoff};

/// The interval at which the emptying of a device is looked at.
pub(super) const EVERY: Nanos = Nanos::from_ms(100);
/// Requests wait no longer than this for the volume to come to rest.
pub(super) const HOLD_AT_MOST: Nanos = Nanos::from_s(2);
/// When the volume did not rest, it is tried again after this time.
pub(super) const PAUSE: Nanos = Nanos::from_s(5);
/// The most attempts.
pub(super) const MOST_TRIES: u32 = 6;
/// As long as more than this is dirty, requests go on while a device is emptied.
pub(super) const LITTLE: Bytes = Bytes::mib(4);
/// The pause after an attempt to open a volume again that had stopped; it doubles up to the longest.
const FIRST_PAUSE: Nanos = Nanos::from_s(1);
const LONGEST_PAUSE: Nanos = Nanos::from_s(60);

/// How a device is to be resized.
#[derive(Clone, Copy, Debug)]
pub struct NewSize {
    /// The bytes of data that the device is to have; `None`: all that fit.
    pub size: Option<u64>,
    /// The most bytes that are written back in a second; `None`: no bound.
    pub bytes_per_s: Option<u64>,
}

/// The kind of a change.
#[derive(Debug)]
pub(super) enum Aim {
    /// The device comes back with its data.
    Return(Device),
    /// This empty device takes the place of one that is gone.
    Fill(Device),
    /// The device leaves once it has no data of its own.
    Leave(Box<Leaving>),
    /// The device has another size.
    Resize { grows: bool },
    /// The volume had stopped at a failed flush.
    Reopen,
}

impl Aim {
    /// The device that is to come in.
    pub(super) fn comes(&self) -> Option<&Device> {
        match self {
            Aim::Return(device) | Aim::Fill(device) => Some(device),
            Aim::Leave(_) | Aim::Resize { .. } | Aim::Reopen => None,
        }
    }

    /// What the status calls it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Aim::Return(_) => "re_add",
            Aim::Fill(_) => "replace",
            Aim::Leave(_) => "remove",
            Aim::Resize { .. } => "resize",
            Aim::Reopen => "reopen",
        }
    }
}

/// A change in service that can be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stoppable {
    /// A device is being copied to its successor.
    Replace,
    /// A device is being emptied, and then leaves the volume.
    Remove,
    /// A device is being emptied in part, and then has less of the data, or gets more.
    Resize,
}

impl Stoppable {
    pub(super) fn name(self) -> &'static str {
        match self {
            Stoppable::Replace => "replace",
            Stoppable::Remove => "remove",
            Stoppable::Resize => "resize",
        }
    }
}

/// A device that is being emptied to leave.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The most bytes that are written back in a second; `None`: no bound.
    pub(super) bytes_per_s: Option<u64>,
    /// The tuning from before.
    pub(super) before: Tuning,
    /// How much was dirty when it began.
    pub(super) first: Bytes,
}

/// The stage of a change.
#[derive(Debug)]
pub(super) enum Stage {
    /// Requests go on, while a device is emptied or after a pause.
    Emptying {
        /// When the change is looked at again.
        due: Nanos,
    },
    /// Requests go on. Unchanged superblocks are written: if a device takes no writes, the change is refused.
    Proving(mpsc::Receiver<Result<Vec<String>, String>>),
    /// Requests wait until nothing is under way.
    Holding {
        /// Since when requests wait.
        since: Nanos,
    },
    /// Requests wait, and nothing is under way.
    Resting,
    /// Requests wait, and another thread has the engine.
    Away(Away),
}

/// What the loop needs while another thread has the engine.
#[derive(Debug)]
pub(super) struct Away {
    pub(super) since: Instant,
    pub(super) shared: Arc<Shared>,
    /// The state before, which is shown meanwhile.
    pub(super) status: Value,
    pub(super) snapshot: Box<Snapshot>,
}

/// The state that the two threads share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    given_up: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Shared {
    /// Ends the wait for the volume, because the server is to end.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Notes why the volume is not open again yet.
    pub(super) fn failed(&self, error: &str) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_owned());
    }

    pub(super) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A change under way.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) device: usize,
    /// Whether its new path is to be set in the design.
    pub(super) update_design: bool,
    pub(super) aim: Aim,
    pub(super) began: Nanos,
    pub(super) stage: Stage,
    /// How often the volume did not rest.
    pub(super) tries: u32,
}

impl Change {
    pub(super) fn new(device: usize, aim: Aim, now: Nanos) -> Change {
        Change { device, update_design: false, aim, began: now, stage: Stage::Emptying { due: now }, tries: 0 }
    }

    /// Whether requests wait.
    pub(super) fn holds(&self) -> bool {
        matches!(self.stage, Stage::Holding { .. } | Stage::Resting | Stage::Away(_))
    }

    /// What the status calls its stage.
    pub(super) fn state(&self) -> &'static str {
        match self.stage {
            Stage::Emptying { .. } => "emptying",
            Stage::Proving(_) => "proving",
            Stage::Holding { .. } | Stage::Resting => "holding",
            Stage::Away(_) => "closed",
        }
    }
}

/// How a change has ended.
pub(super) type Outcome = Result<Value, String>;

/// The changes of a volume.
#[derive(Debug)]
pub(crate) struct Changing {
    pub(super) now: Option<Change>,
    /// How the last one ended.
    pub(super) outcome: Option<Outcome>,
    /// How long requests have waited in this change, once the volume is open again.
    pub(super) pause_s: Option<f64>,
    /// How the last one of any kind ended, for the status.
    pub(super) last: Value,
    /// The paths of the devices in the design.
    pub(super) paths: Vec<PathBuf>,
    /// The design's file, if paths may be set there.
    pub(super) design: Option<DesignFile>,
    /// Where records for the next server are left.
    pub(super) handoff: Handoff,
    /// A volume that has stopped is not opened again before this time; the pause after the next failure.
    pub(super) reopen_due: Nanos,
    reopen_pause: Nanos,
}

impl Changing {
    pub(crate) fn new(handoff: Handoff) -> Changing {
        Changing {
            now: None,
            outcome: None,
            pause_s: None,
            last: Value::Null,
            paths: Vec::new(),
            design: None,
            handoff,
            reopen_due: Nanos::ZERO,
            reopen_pause: FIRST_PAUSE,
        }
    }

    /// The change for which another thread has the engine.
    #[inline]
    pub(super) fn away(&self) -> Option<&Away> {
        match &self.now {
            Some(Change { stage: Stage::Away(away), .. }) => Some(away),
            _ => None,
        }
    }

    /// Whether the engine can be handed to another thread now.
    #[inline]
    pub(super) fn rests(&self) -> bool {
        self.now.as_ref().is_some_and(|change| matches!(change.stage, Stage::Resting))
    }

    /// Whether a device is being resized.
    pub(super) fn is_resizing(&self) -> Option<&Change> {
        self.now.as_ref().filter(|change| matches!(change.aim, Aim::Resize { .. }))
    }

    /// Notes that a stopped volume could not be opened again. Returns the pause before the next attempt.
    pub(super) fn reopening_failed(&mut self, now: Nanos) -> Nanos {
        let pause = self.reopen_pause;
        self.reopen_due = now.saturating_add(pause);
        self.reopen_pause = Nanos((pause.0 * 2).min(LONGEST_PAUSE.0));
        pause
    }

    /// Notes that a stopped volume is open again.
    pub(super) fn reopening_succeeded(&mut self) {
        (self.reopen_due, self.reopen_pause) = (Nanos::ZERO, FIRST_PAUSE);
    }

    /// When the change goes on, if it waits for a time only.
    pub(super) fn deadline(&self, now: Nanos) -> Option<Nanos> {
        match self.now.as_ref().map(|change| &change.stage) {
            None => (self.reopen_due > now).then_some(self.reopen_due),
            Some(Stage::Emptying { due }) => Some(*due),
            Some(Stage::Holding { since }) => Some(since.saturating_add(HOLD_AT_MOST)),
            Some(Stage::Proving(_) | Stage::Resting | Stage::Away(_)) => None,
        }
    }

    /// The kernel has refused the new size.
    pub(super) fn block_device_stays(&mut self, path: String) {
        if self.last["kind"] == "resize" {
            self.last["block_device_keeps_its_size"] = path.into();
        }
    }
}

/// How far a change of a device is, for the status: how many of how many bytes are done, of which these were moved at this rate at most.
pub(super) fn progress(
    (kind, device, state): (&str, &str, &str),
    (bytes, done, moved): (Bytes, Bytes, Bytes),
    (most_bytes_per_s, took, left): (Option<u64>, Nanos, Option<Nanos>),
) -> Value {
    let took = took.as_s_f64();
    json!({
        "kind": kind, "device": device, "state": state, "bytes": bytes, "done_bytes": done,
        "bytes_per_s": if took > 0.0 { (moved.0 as f64 / took) as u64 } else { 0 },
        "most_bytes_per_s": most_bytes_per_s.filter(|rate| *rate > 0),
        "took_s": took, "left_s": left.map(Nanos::as_s_f64),
    })
}
