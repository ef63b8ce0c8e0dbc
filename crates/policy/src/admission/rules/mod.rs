//! The admission rules, one file each. `docs/extending.md` says how to add one.

#[macro_use]
mod declare;
mod custom;
mod rule;

pub use custom::CustomAdmission;
use custom::CustomRule;
pub(super) use rule::AdmissionRule;
pub use rule::{Access, Unit, WriteHits};

// One line for each rule: its file, which is also its name in design files, its type, and its description in the
// documentation. The first one is the default.
admission_rules! {
    all: All, "Every miss is admitted.";
    size: Size, "Requests of no more than `threshold` bytes.";
    hotness: Hotness, "Extents referenced more than `threshold` times while in a history as long as the cache has extents (2Q's second queue).";
    hottest_share: HottestShare, "Extents whose reference count is among the highest `threshold` (a share, such as 0.1) of that history.";
    probability: Probability, "A random `threshold` (from 0 to 1) of all misses.";
    flashiness: Flashiness, "Extents that are expected to be read at least `threshold` times before they are written (Flashield).";
}

named!(AdmitBy);
