//! The cases that are explored: one extent of four blocks and two to compete with it, two places for them on the fast device.

use peryton_engine::{
    Admission, AdmitBy, Bypass, Cleaning, Config, DeviceId, Engine, Formatting, Hybrid, Threshold, Tuning, VolumeId,
    WriteHits, WritePolicy,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{SeedableRng, seq::SliceRandom};
use rand_pcg::Pcg64Mcg;

use crate::{
    design::{Kind, placement_on},
    disk::{self, Disk, SECTOR, Tag},
    drive::Direct,
    explore::course::Happening::{self, Asks, Cleans, Dies, Evicts, IsReportedDead},
};

/// An extent has four blocks of eight sectors: a read of two that are missing may take what lies between them, and leave the fourth.
const EXTENT: u32 = 32;
const BLOCK: u32 = 8;

/// The tags of what was on the devices before they were formatted begin here.
const BEFORE_FORMAT: Tag = 1;

/// A new volume, and what it holds.
pub(super) struct New {
    pub(super) disks: Vec<Disk>,
    pub(super) content: Vec<Tag>,
}

/// What is explored: from this start, these events in this order, with this many failures.
#[derive(Clone)]
pub struct Case {
    /// What kind of drive it is, in words.
    pub name: &'static str,
    pub(super) config: Config,
    pub(super) before: Vec<Happening>,
    pub(super) events: Vec<Happening>,
    /// How many commands fail at most.
    pub(super) failures: u32,
    /// Whether the search ends where all requests are answered, whatever the drive still does by itself.
    pub(super) ends_early: bool,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { name, before, events, failures, .. } = self;
        write!(f, "{name}: after {before:?}: {events:?}, {failures} failures")
    }
}

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// For every day.
    Quick,
    /// All pairs of requests and moves, with failures.
    Deep,
}

/// A kind of drive.
struct Drive {
    name: &'static str,
    config: Config,
}

fn drives() -> Vec<Drive> {
    let extent = Bytes(u64::from(EXTENT) * SECTOR);
    let of = |name, kind, write, admission: Admission| {
        let tuning = Tuning {
            promotion_threshold: 0,
            demotion_low: 0,
            demotion_high: u32::from(kind == Kind::Tiering),
            write,
            admission,
            bypass: Bypass { sequential: None, congested: false },
            snapshot_interval: None,
            // What is dirty stays so until the case asks for it to be written back.
            cleaning: Cleaning::UNBOUNDED,
            writeback_delay: Nanos(u64::MAX >> 1),
            max_moves: 2,
            ..Tuning::default()
        };
        let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent };
        Drive {
            name,
            config: Config { devices: vec![extent * 2, extent * 3], placement: placement_on(kind, pair), tuning },
        }
    };
    let all = Admission::default();
    // Requests of one block or two come in; longer ones go past, writes to what is there included.
    let threshold = Threshold::Fixed(f64::from(2 * BLOCK) * SECTOR as f64);
    let short = Admission { by: AdmitBy::Size, threshold, write_hits: WriteHits::Bypass, ..Admission::default() };
    vec![
        of("write-back", Kind::Caching, WritePolicy::Back, all.clone()),
        of("write-through", Kind::Caching, WritePolicy::Through, all.clone()),
        of("write-around", Kind::Caching, WritePolicy::Around, all.clone()),
        of("tiering", Kind::Tiering, WritePolicy::Back, all),
        of("bypass", Kind::Caching, WritePolicy::Back, short),
    ]
}

/// What the volume has been through before. An extent that competes is there already, and was read from
/// either device, so that the drive knows which one is slow.
fn starts() -> Vec<Vec<Happening>> {
    let read = |block| Asks(Op::Read, block * BLOCK, BLOCK);
    let write = |block| Asks(Op::Write, block * BLOCK, BLOCK);
    let whole = |op| Asks(op, 0, EXTENT);
    let starts = [
        vec![read(0), Evicts(0, EXTENT)],
        vec![read(1)],
        vec![write(1)],
        vec![whole(Op::Read)],
        vec![whole(Op::Read), write(1)],
        vec![write(1), read(3)],
        vec![write(0), write(2), Asks(Op::Flush, 0, 0)],
    ];
    let there = Asks(Op::Read, 2 * EXTENT, BLOCK);
    starts.map(|start| [&[there, there], &start[..]].concat()).to_vec()
}

/// Requests of every kind: of one block, of some, of all, of a part of one, across the end of the extent.
fn requests() -> Vec<Happening> {
    let mut all = Vec::new();
    for op in [Op::Write, Op::Read] {
        for (first, count) in [(BLOCK, BLOCK), (0, 2 * BLOCK), (0, EXTENT), (BLOCK + 2, 3), (EXTENT - BLOCK, 2 * BLOCK)]
        {
            all.push(Asks(op, first, count));
        }
    }
    all.extend([Asks(Op::Discard, 0, EXTENT), Asks(Op::Discard, BLOCK, BLOCK), Asks(Op::Flush, 0, 0)]);
    all
}

/// This many of the moves are of drives whose devices live.
const QUIET: usize = 4;
/// A device that dies has many orders: for every day, among this many pairs of requests only one knows such moves.
const DEATHS_ONE_IN: usize = 4;

/// What moves an extent, or has it moved.
fn moves() -> Vec<Vec<Happening>> {
    vec![
        vec![],
        vec![Cleans],
        vec![Evicts(0, EXTENT)],
        vec![Asks(Op::Write, EXTENT, BLOCK)],
        vec![Dies(0)],
        vec![IsReportedDead(1)],
    ]
}

impl Case {
    /// The cases of this depth, in an order in which their kinds take turns. All of them are every pair of requests, with every move between
    /// them, from every start, on every kind of drive; for every day, of each pair on each drive one start and one move.
    pub fn all(depth: Depth) -> Vec<Case> {
        let mut cases = Vec::new();
        let (starts, requests, moves) = (starts(), requests(), moves());
        for (start, before) in starts.iter().enumerate() {
            for (moving, event) in moves.iter().enumerate() {
                for (one, first) in requests.iter().enumerate() {
                    for (other, second) in requests.iter().enumerate() {
                        for (of, Drive { name, config }) in drives().into_iter().enumerate() {
                            let of_moves = if (one + other) % DEATHS_ONE_IN == 0 { moves.len() } else { QUIET };
                            let turn = (one + 2 * other + of) % starts.len() == start
                                && (3 * one + other + of) % of_moves == moving;
                            if depth == Depth::Deep || turn {
                                cases.push(Case {
                                    name,
                                    config,
                                    before: before.clone(),
                                    events: [&[*first][..], event, &[*second]].concat(),
                                    failures: u32::from(depth == Depth::Deep || event.is_empty()),
                                    ends_early: depth == Depth::Quick,
                                });
                            }
                        }
                    }
                }
            }
        }
        cases.shuffle(&mut Pcg64Mcg::seed_from_u64(0));
        cases
    }

    /// The cases in which faults were that have been mended: what each of them takes, in every order.
    pub fn known() -> Vec<Case> {
        let read = |first, count| Asks(Op::Read, first, count);
        let write = |first, count| Asks(Op::Write, first, count);
        let there = read(2 * EXTENT, BLOCK);
        let case = |name, of: &str, before: &[Happening], events: &[Happening], failures| {
            let drive = drives().into_iter().find(|drive| drive.name == of).expect("there is such a drive");
            let (before, events) = (before.to_vec(), events.to_vec());
            Case { name, config: drive.config, before, events, failures, ends_early: true }
        };
        vec![
            // The read has two commands for its extent, and the one that takes the place of a failed one is over first.
            case(
                "a note of what a read takes from the slow device although the copy is newer",
                "write-back",
                &[there, there, write(BLOCK, BLOCK), read(3 * BLOCK, BLOCK)],
                &[read(3 * BLOCK, BLOCK), read(0, EXTENT)],
                1,
            ),
        ]
    }

    /// A new volume.
    pub(super) fn format(&self) -> Result<New, String> {
        disk::forget_bytes();
        let engine = Engine::new(self.config.clone()).map_err(|error| format!("the design is refused: {error}"))?;
        let (mut disks, mut first) = (Vec::new(), BEFORE_FORMAT);
        for (device, size) in (0..).map(DeviceId).zip(engine.device_bytes()) {
            let disk = Disk::new(*size, Bytes::ZERO, engine.data_at(device), |sector| first + sector as Tag);
            first += disk.data().1 as Tag;
            disks.push(disk);
        }
        let content = self.content(&disks, (engine.volume_size().0 / SECTOR) as usize);
        let new = Formatting { volume: VolumeId(7), unix_s: 1, zeroed: false, notes: String::new() };
        Engine::format(&self.config, new, &mut Direct::new(&mut disks))
            .map_err(|error| format!("the volume cannot be formatted: {error}"))?;
        Ok(New { disks, content })
    }

    /// What the volume holds at first.
    fn content(&self, disks: &[Disk], sectors: usize) -> Vec<Tag> {
        if self.config.placement.kind() == Kind::Tiering {
            return vec![0; sectors];
        }
        let (from, len) = disks[1].data();
        let mut content = vec![0; len];
        disks[1].read(Bytes(from * SECTOR), &mut content);
        content.truncate(sectors);
        content
    }
}
