//! How a run comes to its end: the power goes, or the process dies and the devices keep what was completed.

use peryton_engine::Opened;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::memory::Memory;

/// What ends a generation of a run that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The power goes.
    Power,
    /// The process dies.
    Process,
    /// The one or the other.
    Both,
}

impl Ends {
    /// All of them.
    pub const ALL: [Ends; 3] = [Ends::Power, Ends::Process, Ends::Both];
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Power,
    Process,
}

/// Draws ends. It has random numbers of its own, so that a run in which only the power goes is what it would be without it.
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

    /// Whether the process keeps in memory what the next one has to know.
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

/// What is left of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    /// What it kept in memory, if that is still there.
    pub(crate) memory: Option<Memory>,
    /// Everything that was answered has to be there; otherwise what was flushed.
    pub(crate) answered: bool,
    /// Without what is in memory, which device is to be left out is not known.
    pub(crate) binds: bool,
}

impl Left {
    /// Whether a process that died while it opened the volume had made all of it durable.
    pub(crate) fn is_used_up(&self, opened: &Opened) -> bool {
        let found = self.memory.as_ref().and_then(|memory| memory.found(opened.volume));
        found.is_some_and(|found| found.label.generation + 1 < opened.generation)
    }
}
