//! What to run, and what came of it.

use crate::design::Kind;

/// What to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only this placement; otherwise the seed chooses.
    pub kind: Option<Kind>,
    /// Whether devices fail as well; otherwise the seed decides.
    pub faults: Option<bool>,
    /// Is told every step.
    pub log: Option<fn(&str)>,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Moments at which the power went.
    pub crash_points: u64,
    /// Those that were during recovery or closing.
    pub recoveries_cut_short: u64,
    /// How often the run went on with what was recovered.
    pub generations: u64,
    /// Commands that were completed.
    pub commands: u64,
    /// Reads of the host that were checked.
    pub reads: u64,
    /// Sectors that were checked after a crash.
    pub sectors: u64,
    /// Commits, checkpoints and moves while running, and commits that were replayed by recoveries.
    pub commits: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Promotions, demotions and write-backs.
    pub moves: u64,
    /// Commits that recoveries found in the journal.
    pub commits_replayed: u64,
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.crash_points += other.crash_points;
        self.recoveries_cut_short += other.recoveries_cut_short;
        self.generations += other.generations;
        self.commands += other.commands;
        self.reads += other.reads;
        self.sectors += other.sectors;
        self.commits += other.commits;
        self.checkpoints += other.checkpoints;
        self.moves += other.moves;
        self.commits_replayed += other.commits_replayed;
    }
}
