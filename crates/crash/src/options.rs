//! What a caller can choose about a run, and the counts that a run returns.

use peryton_engine::{AdmitBy, Replacement};

use crate::{design::Kind, ends::Ends};

/// How devices fail, of the ways that a seed may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Commands of every kind fail, and some of the other faults may come with them.
    Commands,
    /// Flushes fail and lose what they should have covered, and nothing else does.
    Flushes,
    /// One device dies, and nothing else fails.
    Deaths,
    /// Flushes fail and devices die, and nothing else fails.
    Both,
    /// Writes of the host fail on either device, and nothing else does.
    Writes,
    /// Now and then a device lacks space for a while, and writes to it fail. Nothing else does.
    Space,
}

impl Failing {
    /// Every way.
    pub const ALL: [Failing; 6] =
        [Failing::Commands, Failing::Flushes, Failing::Deaths, Failing::Both, Failing::Writes, Failing::Space];
}

/// What a caller can choose about a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Use this placement; if absent, the seed chooses.
    pub kind: Option<Kind>,
    /// Whether devices fail as well; if absent, the seed decides.
    pub faults: Option<bool>,
    /// Where devices fail, how; if absent, the seed decides.
    pub failing: Option<Failing>,
    /// Use this replacement policy; if absent, the seed chooses one of the older ones.
    pub replacement: Option<Replacement>,
    /// Use this admission rule; if absent, the seed chooses one of the older ones.
    pub admission: Option<AdmitBy>,
    /// Whether writes go past copies as well in half of the runs, where the admission rule is chosen here and can do so.
    pub past_hits: bool,
    /// Whether the fast device has room for snapshots of what the cache has learnt; otherwise the seed decides.
    pub room: Option<bool>,
    /// Half of the requests come in groups for one extent: a part is written, others are read, then the whole is written and read, and
    /// read again after other extents took room; or parts are written again and again, each time before a flush. Some groups go on over
    /// many extents.
    pub grouped: bool,
    /// Whether the drive always writes through, and half of the requests come in groups for single blocks of one extent, which overlap.
    pub beside: bool,
    /// Whether the slow device has so many extents that a checkpoint of the map takes several blocks.
    pub large_map: bool,
    /// Whether a log has several primaries.
    pub shares_log: bool,
    /// How runs come to their end; otherwise the seed decides.
    pub ends: Option<Ends>,
    /// Whether devices are replaced while the volume is served; otherwise the seed decides.
    pub replaces: Option<bool>,
    /// Whether devices grow and shrink while the volume is served; otherwise the seed decides.
    pub resizes: Option<bool>,
    /// Whether devices come back and leave while the volume is served; otherwise the seed decides.
    pub returns: Option<bool>,
    /// Called with a line of text for each step.
    pub log: Option<fn(&str)>,
}

impl Options {
    /// The seed decides everything, as by default; for constants.
    pub const DRAWN: Options = Options {
        kind: None,
        faults: None,
        failing: None,
        replacement: None,
        admission: None,
        past_hits: false,
        room: None,
        grouped: false,
        beside: false,
        large_map: false,
        shares_log: false,
        ends: None,
        replaces: None,
        resizes: None,
        returns: None,
        log: None,
    };
}

/// The counts of one run or of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power losses and deaths of the process that were checked.
    pub crash_points: u64,
    /// How many of them were deaths of the process, with the machine still running.
    pub process_deaths: u64,
    /// How many of them happened during recovery or closing.
    pub recoveries_cut_short: u64,
    /// How often the run continued with what was recovered.
    pub generations: u64,
    /// Device commands that were completed.
    pub commands: u64,
    /// Flushes that failed and lost something.
    pub flushes_lost: u64,
    /// Reads of the host that were checked.
    pub reads: u64,
    /// Sectors that were checked after a power loss.
    pub sectors: u64,
    /// Commits made while the drive was running.
    pub commits: u64,
    /// Checkpoints written while the drive was running.
    pub checkpoints: u64,
    /// Promotions, demotions and write-backs.
    pub moves: u64,
    /// Commits that recoveries found in the journal and replayed.
    pub commits_replayed: u64,
    /// Devices that were replaced while the volume was served.
    pub successions: u64,
    /// Devices that have got another size while the volume was served.
    pub resizes: u64,
    /// Devices that came back while the volume was served, or in whose place an empty one came.
    pub returns: u64,
    /// Devices that were evacuated.
    pub evacuations: u64,
}

impl std::ops::AddAssign for Outcome {
    fn add_assign(&mut self, other: Outcome) {
        self.crash_points += other.crash_points;
        self.process_deaths += other.process_deaths;
        self.recoveries_cut_short += other.recoveries_cut_short;
        self.generations += other.generations;
        self.commands += other.commands;
        self.flushes_lost += other.flushes_lost;
        self.reads += other.reads;
        self.sectors += other.sectors;
        self.commits += other.commits;
        self.checkpoints += other.checkpoints;
        self.moves += other.moves;
        self.commits_replayed += other.commits_replayed;
        self.successions += other.successions;
        self.resizes += other.resizes;
        self.returns += other.returns;
        self.evacuations += other.evacuations;
    }
}
