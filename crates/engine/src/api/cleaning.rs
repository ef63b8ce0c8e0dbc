//! How dirty extents of a cache are written back: the settings, and the state that a driver reports.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::api::error::TuningError;

/// Millionths in a whole.
const WHOLE_PPM: u32 = 1_000_000;

/// What bounds the dirty extents of a cache (caching, write-back). The bounds hold in this order: the share of dirty extents,
/// their age, the response times of the host.
///
/// ```
/// use peryton_engine::{Cleaning, Tuning};
/// use peryton_units::Nanos;
///
/// let cleaning = Cleaning { max_foreground_p99: Some(Nanos::from_ms(20)), ..Cleaning::default() };
/// assert_eq!((cleaning.dirty_target_ppm, cleaning.max_age), (400_000, Nanos::from_s(600)));
/// Tuning { cleaning, ..Tuning::default() }.check()?;
/// # Ok::<(), peryton_engine::TuningError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// The most extents of the fast device that may be dirty, in millionths. A write that would make one more dirty goes to
    /// the slow device as well, or there alone. With 1,000,000 there is no bound.
    pub dirty_target_ppm: u32,
    /// The longest time for which an extent stays dirty. [`Tuning::writeback_delay`](crate::Tuning::writeback_delay) counts
    /// instead if it is longer.
    pub max_age: Nanos,
    /// While the 99th percentile of the host's response times is above this, cleaning that can wait slows down; while it is
    /// below, cleaning need not wait until the slow device is idle. `None`: it waits for that.
    pub max_foreground_p99: Option<Nanos>,
    /// The slow device is idle when the host has not used it for this long. `None`: a second, or
    /// [`Tuning::writeback_delay`](crate::Tuning::writeback_delay) if that is shorter. It is a gap between requests, and not how long data
    /// stay: a model that is smaller than its drive has the drive's.
    pub idle_after: Option<Nanos>,
}

/// When a slow device is idle, unless a write-back may begin sooner.
const IDLE_AFTER: Nanos = Nanos::from_s(1);

impl Default for Cleaning {
    fn default() -> Cleaning {
        Cleaning { dirty_target_ppm: 400_000, max_age: Nanos::from_s(600), max_foreground_p99: None, idle_after: None }
    }
}

impl Cleaning {
    /// No bounds but [`Tuning::writeback_delay`](crate::Tuning::writeback_delay): dirty extents are written back when the slow
    /// device is idle, or when they are evicted.
    pub const UNBOUNDED: Cleaning =
        Cleaning { dirty_target_ppm: WHOLE_PPM, max_age: Nanos(u64::MAX), max_foreground_p99: None, idle_after: None };

    /// How long the host leaves the slow device alone until that is idle.
    pub fn idle_after(&self, writeback_delay: Nanos) -> Nanos {
        self.idle_after.unwrap_or(writeback_delay.min(IDLE_AFTER))
    }

    pub(crate) fn check(&self) -> Result<(), TuningError> {
        let wrong = |key, value: String, remedy| Err(TuningError::Range { key, value, remedy });
        if self.dirty_target_ppm == 0 || self.dirty_target_ppm > WHOLE_PPM {
            let share = f64::from(self.dirty_target_ppm) / f64::from(WHOLE_PPM);
            let remedy = "use a share above 0 and up to 1, or write = \"through\" if nothing may be dirty";
            return wrong("placement.writeback.dirty_target", share.to_string(), remedy);
        }
        if self.max_foreground_p99 == Some(Nanos::ZERO) {
            let remedy = "use a time above 0, or leave it out";
            return wrong("placement.writeback.max_foreground_p99", "0".to_owned(), remedy);
        }
        Ok(())
    }

    /// The most extents of `usable` that may be dirty; `None` if there is no bound.
    pub(crate) fn most_dirty(&self, usable: u32) -> Option<u32> {
        let most = u64::from(usable) * u64::from(self.dirty_target_ppm) / u64::from(WHOLE_PPM);
        (self.dirty_target_ppm < WHOLE_PPM).then_some((most as u32).max(1))
    }
}

/// Why dirty extents are, or are not, written back now; the later ones take precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CleaningState {
    /// Nothing is dirty, or what is dirty waits for further writes to the same places.
    #[default]
    Resting,
    /// The slow device has nothing else to do, or the response times of the host allow it.
    Idle,
    /// The oldest dirty extent will soon have the highest age.
    Aging,
    /// The share of dirty extents nears the highest.
    Filling,
    /// An extent has been dirty for longer than the highest age.
    Overdue,
    /// No further extent may become dirty.
    Full,
    /// Everything that was dirty at some time is to be clean ([`Engine::write_all_back`](crate::Engine::write_all_back)).
    Asked,
}

/// The dirty extents of a cache and what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningReport {
    /// Why dirty extents are, or are not, written back now.
    pub state: CleaningState,
    /// Whether commands of write-backs are under way.
    pub is_under_way: bool,
    /// Number of dirty extents.
    pub dirty_extents: u32,
    /// Their bytes.
    pub dirty: Bytes,
    /// The most bytes that may be dirty; `None` if there is no bound.
    pub most_dirty: Option<Bytes>,
    /// How long the extent has been dirty that has been so longest; since the volume was opened, if it was dirty before.
    pub oldest: Option<Nanos>,
    /// How much longer than the highest age that is.
    pub overdue: Option<Nanos>,
    /// Bytes that are written back in a second; while nothing is, as last measured. `None` before the first measurement.
    pub bytes_per_s: Option<u64>,
    /// The time until nothing is dirty, if nothing else is written; `None` if it cannot be estimated.
    pub clean_in: Option<Nanos>,
    /// Whether writes go to the slow device because no further extent may become dirty.
    pub throttles: bool,
}
