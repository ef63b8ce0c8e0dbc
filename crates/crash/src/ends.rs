//! How a generation of a run ends if it is not closed: by a power loss, or by the death of the process, after which the
//! devices still have every completed write.

use peryton_engine::Opened;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::memory::Memory;

/// How generations of a run end that are not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// By a power loss.
    Power,
    /// By the death of the process.
    Process,
    /// By either, at random.
    Both,
}

impl Ends {
    /// Every choice.
    pub const ALL: [Ends; 3] = [Ends::Power, Ends::Process, Ends::Both];
}

/// How a generation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Power,
    Process,
}

/// Draws how generations end. It has random numbers of its own, so that a run with power losses only is the same as before
/// process deaths were simulated.
#[derive(Clone, Debug)]
pub(crate) struct Fates {
    pub(crate) ends: Ends,
    rng: Pcg64Mcg,
}

impl Fates {
    pub(crate) fn new(ends: Option<Ends>, seed: u64) -> Fates {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6465_6174_6873);
        let drawn = [Ends::Power, Ends::Power, Ends::Process, Ends::Both][rng.random_range(0..4)];
        Fates { ends: ends.unwrap_or(drawn), rng }
    }

    /// Whether the process keeps its records in memory that outlives it.
    pub(crate) fn keeps(&self) -> bool {
        self.ends != Ends::Power
    }

    pub(crate) fn next(&mut self) -> End {
        match self.ends {
            Ends::Power => End::Power,
            Ends::Process => End::Process,
            Ends::Both => [End::Power, End::Process][self.rng.random_range(0..2)],
        }
    }

    /// Whether a device that died comes back with what was in its cache.
    pub(crate) fn comes_back_whole(&mut self) -> bool {
        self.rng.random_bool(0.5)
    }
}

/// What a process has left behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    /// Its records in memory, if they are still there.
    pub(crate) memory: Option<Memory>,
    /// Whether every answered write has to be there; otherwise only every flushed one.
    pub(crate) answered: bool,
    /// Whether the next opening needs the records in memory, because only they say which device to leave out.
    pub(crate) binds: bool,
}

impl Left {
    /// Whether a process that died while it opened the volume had made everything durable before.
    pub(crate) fn is_used_up(&self, opened: &Opened) -> bool {
        let found = self.memory.as_ref().and_then(|memory| memory.found(opened.volume));
        found.is_some_and(|found| found.label.generation + 1 < opened.generation)
    }
}
