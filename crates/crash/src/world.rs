//! The state of one run: the design, the drive on its disks, the model of a correct disk, and the faults. The files
//! `host`, `offline`, `power` and `run` act on it.

use std::{collections::VecDeque, ops::Range};

use peryton_engine::{
    AdmitBy, Config, DeviceId, Engine, Excuse, Excuses, Formatting, Placement, Replacement, RequestError, Tuning,
    VolumeId, WritePolicy,
};
use peryton_format::snapshot::Room;
use peryton_units::{Bytes, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    deaths::Deaths,
    design::{Kind, Plan, admission_by, random_kind, random_past_hits, random_plan, random_room, random_write_unit},
    disk::{Disk, Entry, SECTOR, Tag},
    drive::{Direct, Drive},
    ends::{End, Fates},
    faults::Faults,
    model::Model,
    options::{Options, Outcome},
    resizing::Resizes,
    returns::Returns,
    succession::Successions,
};

/// Writes a line to the log of the run, if it has one.
macro_rules! say {
    ($world:expr, $($text:tt)*) => {
        if let Some(log) = $world.log {
            log(&format!($($text)*));
        }
    };
}
pub(crate) use say;

/// The tags of what was on the devices before they were formatted begin here; the tags of writes begin above them.
const BEFORE_FORMAT: Tag = 1;
const FIRST_TAG: Tag = 1 << 24;

pub(crate) struct World {
    pub(crate) rng: Pcg64Mcg,
    pub(crate) log: Option<fn(&str)>,
    /// The replacement policy of the whole run, if it is not drawn.
    pub(crate) replacement: Option<Replacement>,
    /// The admission rule of the whole run, if it is not drawn.
    pub(crate) admission: Option<AdmitBy>,
    /// Whether that rule judges write hits as well.
    pub(crate) past_hits: bool,
    /// Whether requests come in groups, and what is left of the one under way.
    pub(crate) grouped: bool,
    pub(crate) beside: bool,
    pub(crate) group: VecDeque<(Op, Range<usize>)>,
    pub(crate) plan: Plan,
    /// The design with which the volume is opened next.
    pub(crate) config: Config,
    pub(crate) drive: Drive,
    pub(crate) model: Model,
    pub(crate) outcome: Outcome,
    pub(crate) habits: Habits,
    pub(crate) generation: u64,
    pub(crate) faults: Faults,
    pub(crate) deaths: Deaths,
    pub(crate) fates: Fates,
    /// The time of a failed flush that lost data of which the host has not been notified.
    pub(crate) lost_at: Option<u32>,
    /// When the last flush was submitted that may notify the host of a loss by failing.
    pub(crate) flush_from: u32,
    /// Whether a flush has lost data since the volume was opened: the records in memory are not used then.
    pub(crate) flush_lost: bool,
    pub(crate) volume: VolumeId,
    /// Where snapshots lie on the fast device, if it has room for them.
    pub(crate) room: Option<Room>,
    /// What is drawn about them.
    pub(crate) room_rng: Pcg64Mcg,
    /// The replacement of devices in service.
    pub(crate) succession: Successions,
    /// The resizing of devices in service.
    pub(crate) resizes: Resizes,
    /// Devices that come back and leave in service.
    pub(crate) returns: Returns,
    /// The disks as they were at the end of the previous generation.
    pub(crate) before: Option<Vec<Disk>>,
}

/// A check reads the whole volume, so a large one is checked this many times more rarely.
const RARER_IF_LARGE: u32 = 8;

/// Devices that come back die so many times more often amid a group of requests.
const OFTEN_IN_GROUP: u32 = 8;

/// A device that lacks space gets some in one step of this many.
const SPACE_RETURNS_ONE_IN: u32 = 60;

/// One discard in this many is long in a volume with a large map.
const LONG_IF_LARGE: u32 = 4;

/// The behaviour of this run's host and power supply.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    pub(crate) depth: usize,
    /// The weights of read, write, discard and flush.
    pub(crate) mix: [u32; 4],
    pub(crate) most_sectors: usize,
    /// One discard in this many is of any length: it changes more of the map than one block of the journal holds. 0: none.
    pub(crate) long_discard_one_in: u32,
    /// One step in this many checks what a power loss at that moment would leave.
    pub(crate) branch_one_in: u32,
    pub(crate) retune_one_in: u32,
    /// The percentage of requests that go to a few hot extents.
    pub(crate) hot_percent: u32,
    /// For each device, the probability in percent that a command chosen for completion is completed.
    pub(crate) speed: Vec<u32>,
}

/// Has every write go to both devices, and what misses come in at once.
pub(crate) fn writes_through(tuning: &mut Tuning) {
    (tuning.write, tuning.promotion_threshold) = (WritePolicy::Through, 0);
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options) -> Result<World, String> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let kind = random_kind(&mut rng);
        let kind = options.kind.unwrap_or(kind);
        let mut plan = random_plan(kind, &mut rng);
        plan.divide(seed);
        if options.large_map {
            plan.enlarge(seed);
        }
        if options.shares_log {
            plan.share_log(seed);
        }
        plan.config.tuning.write_unit = random_write_unit(seed, plan.unit_of());
        plan.config.tuning.replacement = options.replacement.unwrap_or(plan.config.tuning.replacement);
        let past_hits = options.past_hits && random_past_hits(seed);
        if let Some(by) = options.admission {
            plan.config.tuning.admission = admission_by(by, past_hits, plan.config.tuning.admission);
        }
        if options.beside {
            writes_through(&mut plan.config.tuning);
        }
        let config = plan.config.clone();
        let engine = Engine::new(config.clone()).map_err(|error| format!("the design is refused: {error}"))?;
        let behind = config.sizes().map_err(|error| format!("the design is refused: {error}"))?.behind;
        let mut resizes = Resizes::new(seed, options.resizes, kind);
        // A disk that is larger than what the volume uses has room for them where data may be later, and nothing spoils them there.
        let has_room = options.room.unwrap_or_else(|| random_room(seed)) && !resizes.are_drawn();
        let zeroed = rng.random_bool(0.5);
        let mut disks: Vec<Disk> = Vec::new();
        let mut first = BEFORE_FORMAT;
        for (device, size) in (0..).map(DeviceId).zip(engine.device_bytes()) {
            let content = |sector: u64| if zeroed { 0 } else { first + sector as Tag };
            let room = if has_room { behind[device.index()] } else { Bytes::ZERO };
            let disk = Disk::new(*size + resizes.more(&plan, device), room, engine.data_at(device), content);
            first += disk.data().1 as Tag;
            disks.push(disk);
        }
        let sectors = (engine.volume_size().0 / SECTOR) as usize;
        // On the first device, which is the fast one.
        let fast = plan.config.placement.hybrid().filter(|_| has_room);
        let room = fast.map(|pair| Room {
            at: engine.device_bytes()[pair.fast.index()],
            half: Bytes(behind[pair.fast.index()].0 / 2 - 4096),
        });
        let before = Self::before(&config, &disks, sectors);
        let volume = VolumeId(u128::from(seed) + 1);
        let new = Formatting { volume, unix_s: 1, zeroed, notes: String::new() };
        Engine::format(&config, new, &mut Direct::new(&mut disks))
            .map_err(|error| format!("the volume cannot be formatted: {error}"))?;
        let fates = Fates::new(options.ends, seed);
        let (mut drive, opened) =
            Drive::open(&config, disks, &[], None).map_err(|(error, _)| format!("a new volume: {error}"))?;
        if fates.keeps() {
            drive.keep_in_memory();
        }
        let most = (plan.extent / SECTOR) as usize;
        let mixes = [[40, 50, 7, 3], [30, 60, 0, 10], [45, 45, 9, 1], [20, 50, 20, 10], [75, 5, 5, 15]];
        let mix = mixes[rng.random_range(0..mixes.len())];
        let habits = Habits {
            depth: rng.random_range(1..16),
            mix,
            most_sectors: most * rng.random_range(plan.reach.div_ceil(6)..=plan.reach),
            long_discard_one_in: if options.large_map { LONG_IF_LARGE } else { 0 },
            branch_one_in: [4, 8, 16][rng.random_range(0..3)] * if options.large_map { RARER_IF_LARGE } else { 1 },
            retune_one_in: [50, 200, 1000][rng.random_range(0..3)],
            hot_percent: [20, 50, 90][rng.random_range(0..3)],
            speed: (0..2).map(|_| [100, 100, 30, 5][rng.random_range(0..4)]).collect(),
        };
        let model = Model::new(before.into_iter(), FIRST_TAG);
        let faults =
            Faults::new(kind, options.faults.unwrap_or(rng.random_range(0..3) == 0), options.failing, &mut rng);
        let deaths = Deaths::new(kind, config.tuning.write == WritePolicy::Back);
        let world = World {
            rng,
            log: options.log,
            replacement: options.replacement,
            admission: options.admission,
            past_hits,
            grouped: options.grouped,
            beside: options.beside,
            group: VecDeque::new(),
            plan,
            config,
            drive,
            model,
            outcome: Outcome::default(),
            habits,
            generation: opened.generation,
            faults,
            deaths,
            fates,
            lost_at: None,
            flush_from: 0,
            flush_lost: false,
            volume,
            room,
            room_rng: Pcg64Mcg::seed_from_u64(seed ^ 0x726f_6f6d),
            succession: Successions::new(seed, options.replaces),
            resizes,
            returns: Returns::new(seed, options.returns),
            before: None,
        };
        say!(
            world,
            "seed {seed}, {:?}: {:?}\n{:?}\n{:?}\n{:?}",
            world.fates.ends,
            world.plan.config.placement,
            world.config,
            world.habits,
            world.faults
        );
        Ok(world)
    }

    /// The content of a new volume. Where its data has a place on a device, that is what the device held before.
    fn before(config: &Config, disks: &[Disk], sectors: usize) -> Vec<Tag> {
        let whole = |disk: &Disk| {
            let (from, len) = disk.data();
            let mut data = vec![0; len];
            disk.read(Bytes(from * SECTOR), &mut data);
            data
        };
        let part = |device: &DeviceId| {
            let mut data = whole(&disks[device.index()]);
            data.truncate((config.devices[device.index()].0 / SECTOR) as usize);
            data
        };
        let mut content = match &config.placement {
            Placement::Single { device } => whole(&disks[device.index()]),
            Placement::Linear { devices } => {
                devices.iter().map(|device| whole(&disks[device.index()])).collect::<Vec<_>>().concat()
            }
            Placement::Tiering(_) => vec![0; sectors],
            Placement::Caching(pair) | Placement::Partitioned(pair) => whole(&disks[pair.slow.index()]),
            Placement::Logging(logging) => logging.primaries.iter().map(part).collect::<Vec<_>>().concat(),
        };
        content.truncate(sectors);
        content
    }

    pub(crate) fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }

    pub(crate) fn say(&self, text: &str) {
        if let Some(log) = self.log {
            log(text);
        }
    }

    pub(crate) fn pick_device(&mut self) -> usize {
        self.rng.random_range(0..self.devices())
    }

    /// The number of the volume's devices. Behind them there may be a disk that is to take the place of one.
    pub(crate) fn devices(&self) -> usize {
        self.config.devices.len()
    }

    pub(crate) fn has_dead(&self) -> bool {
        self.drive.disks[..self.devices()].iter().any(|disk| disk.dead)
    }

    /// Whether the engine has given up every dead device, and another device still answers.
    pub(crate) fn is_given_up(&self) -> bool {
        let some = self.drive.disks[..self.devices()].iter().any(|disk| !disk.dead);
        some && (0..self.devices())
            .all(|index| !self.drive.disks[index].dead || self.drive.engine.is_gone(DeviceId(index as u8)))
    }

    pub(crate) fn maybe_break_sector(&mut self) {
        if self.faults.bad_one_in == 0 || self.faults.calm || !self.chance(self.faults.bad_one_in) {
            return;
        }
        let index = self.rng.random_range(0..self.devices());
        // Behind the volume's data are its last superblock, and on a larger disk nothing yet.
        let (from, _) = self.drive.disks[index].data();
        let len = (self.drive.engine.device_bytes()[index].0 - 4096) / SECTOR - from;
        let sector = from + self.rng.random_range(0..len);
        self.drive.disks[index].bad.insert(sector);
        self.say(&format!("sector {sector} of device {index} goes bad"));
    }

    /// Lets a device die now and then: every command to it fails from then on.
    pub(crate) fn maybe_die(&mut self) {
        // What a group has begun is where the copies of an extent differ most.
        let often = self.returns.is_drawn() && !self.group.is_empty();
        let one_in = self.faults.dies_one_in.div_ceil(if often { OFTEN_IN_GROUP } else { 1 });
        if one_in == 0 || self.has_dead() || !self.chance(one_in) {
            return;
        }
        let index = self.pick_device();
        self.drive.disks[index].dead = true;
        self.deaths.flushed_since = false;
        self.say(&format!("device {index} dies"));
        if self.returns.is_drawn() {
            self.model.device_died();
        }
        if self.chance(2) {
            // The driver learns of the death and reports it to the engine.
            self.drive.device_failed(DeviceId(index as u8));
        }
    }

    /// Lets a device lack space now and then, for a while. It is not given up for that.
    pub(crate) fn maybe_lack_space(&mut self) -> Result<(), String> {
        if self.faults.full_one_in == 0 {
            return Ok(());
        }
        let before = self.faults.full;
        let engine = &self.drive.engine;
        if let Some(device) = before.filter(|device| engine.is_gone(*device) && !engine.was_evacuated(*device)) {
            return Err(format!("device {} lacks space, and is given up", device.index()));
        }
        if !self.chance(if before.is_some() { SPACE_RETURNS_ONE_IN } else { self.faults.full_one_in }) {
            return Ok(());
        }
        let full = if before.is_some() { None } else { Some(DeviceId(self.pick_device() as u8)) };
        self.faults.full = full;
        let mut excuses = Excuses::default();
        if let Some(device) = full {
            excuses.set(device, Some(Excuse::LacksSpace));
        }
        self.drive.engine.excuse(excuses);
        self.say(&format!("lacks space: {full:?}"));
        Ok(())
    }

    /// Notes what the engine says is lost, unless a move is under way: it may have read the data before the device died.
    pub(crate) fn note_lost(&mut self) -> Result<(), String> {
        match self.drive.engine.is_idle() {
            true => self.model.note_lost(&self.drive.engine.losses(usize::MAX)),
            false => Ok(()),
        }
    }

    /// Checks what must hold at any time about lost data.
    pub(crate) fn check_losses(&mut self, drive: Option<&Drive>) -> Result<(), String> {
        let engine = &drive.unwrap_or(&self.drive).engine;
        self.deaths.never_back &= engine.tuning().write != WritePolicy::Back;
        if self.deaths.never_back && !engine.is_gone(DeviceId(1)) && !self.faults.fails_at_all() {
            let lost = engine.losses(9);
            if lost.bytes > Bytes::ZERO {
                return Err(format!("a cache that never wrote back has lost {lost:?}"));
            }
        }
        Ok(())
    }

    /// Checks a request that failed in a run whose only fault is a device's death: its range must be reported as lost,
    /// unless the loss is not settled yet.
    pub(crate) fn must_be_named(&self, drive: &Drive, error: RequestError, from: u64, to: u64) -> Result<(), String> {
        if !self.deaths.quiet {
            return Ok(());
        }
        let settled = drive.engine.losses(usize::MAX);
        let dying = self.has_dead() && self.deaths.without.is_empty();
        let no_room = error == RequestError::NoSpace && self.deaths.kind == Kind::Tiering;
        if dying || no_room || self.faults.fails_at_all() || !self.faults.deaths_only {
            return Ok(());
        }
        let named = settled.ranges.iter().any(|range| range.start.0 < to && from < range.end.0);
        if named { Ok(()) } else { Err(format!("bytes {from} to {to} failed ({error}), but only {settled:?} is lost")) }
    }

    /// The disks as the last call of a process has left them.
    pub(crate) fn cut(&mut self, disks: &[Disk], in_flight: Option<(DeviceId, Entry)>, end: End) -> Vec<Disk> {
        let after = |index: usize, disk: &Disk, rng: &mut Pcg64Mcg| {
            let here = in_flight.iter().filter(|(device, _)| device.index() == index).map(|(_, entry)| entry.clone());
            match end {
                End::Power => disk.after_crash(here, rng),
                End::Process => disk.after_process_death(here, rng),
            }
        };
        disks.iter().enumerate().map(|(index, disk)| after(index, disk, &mut self.rng)).collect()
    }
}
