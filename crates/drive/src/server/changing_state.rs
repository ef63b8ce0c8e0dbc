//! A change of the devices of a volume that is being served, for the server: one that comes back, one that an empty one replaces after it
//! was lost, or one that is evacuated.

use std::path::PathBuf;

use peryton_engine::Tuning;
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use crate::{design_file::DesignFile, open::Device};

/// How often it is looked how far an evacuation is.
pub(super) const EVERY: Nanos = Nanos::from_ms(100);
/// Requests wait no longer than this for the volume to come to rest.
pub(super) const HOLD_AT_MOST: Nanos = Nanos::from_s(10);
/// When an evacuation did not come to its end because the volume did not rest, it is tried again after this time.
pub(super) const PAUSE: Nanos = Nanos::from_s(5);
/// So often it is tried.
pub(super) const MOST_TRIES: u32 = 6;
/// As long as more than this is dirty, requests go on while a device is emptied.
pub(super) const LITTLE: Bytes = Bytes::mib(4);

/// What is to happen to the device.
#[derive(Debug)]
pub(super) enum What {
    /// It comes back with what it holds.
    Return(Device),
    /// This one, which is empty, takes its place.
    Empty(Device),
    /// It leaves once nothing is on it alone.
    Leave(Box<Leaving>),
}

/// A device that is being emptied.
#[derive(Debug)]
pub(super) struct Leaving {
    /// The most bytes that are written home in a second; `None`: no bound.
    pub(super) bytes_per_s: Option<u64>,
    /// The tuning from before.
    pub(super) before: Tuning,
    /// How much was dirty when it began.
    pub(super) first: Bytes,
    /// When it is looked at again.
    pub(super) due: Nanos,
    pub(super) tries: u32,
}

/// A change under way.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) device: usize,
    /// Whether its new path is to be set in the design.
    pub(super) update_design: bool,
    pub(super) what: What,
    pub(super) began: Nanos,
    /// Since when requests wait.
    pub(super) held: Option<Nanos>,
}

/// How a change has ended.
pub(super) type Outcome = Result<Value, String>;

/// The changes of devices.
#[derive(Debug, Default)]
pub(super) struct Changing {
    pub(super) now: Option<Change>,
    /// How the last one ended.
    pub(super) outcome: Option<Outcome>,
    /// How the last evacuation ended, for the status.
    pub(super) last_evacuation: Value,
    /// The paths of the devices in the design.
    pub(super) paths: Vec<PathBuf>,
    /// The design's file, if paths may be set there.
    pub(super) design: Option<DesignFile>,
}

impl Changing {
    /// When it goes on, if only time keeps it from that.
    pub(super) fn deadline(&self) -> Option<Nanos> {
        let change = self.now.as_ref()?;
        let held = change.held.map(|since| since.saturating_add(HOLD_AT_MOST));
        let leaving = match &change.what {
            What::Leave(leaving) => Some(leaving.due),
            What::Return(_) | What::Empty(_) => None,
        };
        [held, leaving].into_iter().flatten().min()
    }
}

/// The end of an evacuation, for the status.
pub(super) fn evacuation_ended(name: &str, why: Option<&str>) -> Value {
    json!({ "device": name, "succeeded": why.is_none(), "why": why })
}
