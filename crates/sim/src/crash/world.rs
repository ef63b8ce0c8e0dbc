//! One run: a host at a random design, power losses at random moments, recovery, and on with what was recovered.

use peryton_engine::{
    Command, Config, DeviceId, Engine, Formatting, Opened, Request, RequestError, Tuning, VolumeId, WritePolicy,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    Options, Outcome,
    deaths::Deaths,
    design::{Kind, Plan, random_plan, random_tuning},
    disk::{Disk, SECTOR, Tag},
    drive::{Direct, Drive, Fused, span},
    faults::Faults,
    model::Model,
};

/// Says something to whoever replays the run.
macro_rules! say {
    ($world:expr, $($text:tt)*) => {
        if let Some(log) = $world.log {
            log(&format!($($text)*));
        }
    };
}

/// Tags of what was on the devices before they were formatted begin here, those of writes above.
const BEFORE_FORMAT: Tag = 1;
const FIRST_TAG: Tag = 1 << 24;

/// The most calls that write or flush in an open or close; the power may go at any of them.
const MOST_CALLS: u32 = 32;

pub(super) struct World {
    pub(super) rng: Pcg64Mcg,
    pub(super) log: Option<fn(&str)>,
    pub(super) plan: Plan,
    /// The design as it is next opened.
    pub(super) config: Config,
    pub(super) drive: Drive,
    pub(super) model: Model,
    pub(super) outcome: Outcome,
    habits: Habits,
    generation: u64,
    pub(super) faults: Faults,
    pub(super) deaths: Deaths,
    /// The disks as they were when the last generation ended.
    pub(super) before: Option<Vec<Disk>>,
}

/// What this host and this power supply are like.
#[derive(Clone, Debug)]
struct Habits {
    depth: usize,
    /// Weights of read, write, discard and flush.
    mix: [u32; 4],
    most_sectors: usize,
    /// One step in so many is a look at what a crash now would leave.
    branch_one_in: u32,
    retune_one_in: u32,
    /// The share of requests to a few hot extents, in percent.
    hot_percent: u32,
    /// For each device how readily its commands complete, in percent.
    speed: Vec<u32>,
}

impl World {
    pub(super) fn new(seed: u64, options: &Options) -> Result<World, String> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let kind = Kind::of(&mut rng);
        let kind = options.kind.unwrap_or(kind);
        let plan = random_plan(kind, &mut rng);
        let config = plan.config.clone();
        let engine = Engine::new(config.clone()).map_err(|error| format!("the design is refused: {error}"))?;
        let zeroed = rng.random_bool(0.5);
        let mut disks: Vec<Disk> = Vec::new();
        let mut first = BEFORE_FORMAT;
        for (device, size) in (0..).map(peryton_engine::DeviceId).zip(engine.device_bytes()) {
            let content = |sector: u64| if zeroed { 0 } else { first + sector as Tag };
            let disk = Disk::new(*size, engine.data_at(device), content);
            first += disk.data().1 as Tag;
            disks.push(disk);
        }
        let sectors = (engine.volume_size().0 / SECTOR) as usize;
        let before = Self::before(kind, &disks, sectors);
        let new = Formatting { volume: VolumeId(u128::from(seed) + 1), unix_s: 1, zeroed, notes: String::new() };
        Engine::format(&config, new, &mut Direct { disks: &mut disks })
            .map_err(|error| format!("the volume cannot be formatted: {error}"))?;
        let (drive, opened) =
            Drive::open(&config, disks, &[]).map_err(|(error, _)| format!("a new volume: {error}"))?;
        let most = (plan.extent / SECTOR) as usize;
        let mixes = [[40, 50, 7, 3], [30, 60, 0, 10], [45, 45, 9, 1], [20, 50, 20, 10], [75, 5, 5, 15]];
        let mix = mixes[rng.random_range(0..mixes.len())];
        let habits = Habits {
            depth: rng.random_range(1..16),
            mix,
            most_sectors: most * rng.random_range(plan.reach.div_ceil(6)..=plan.reach),
            branch_one_in: [4, 8, 16][rng.random_range(0..3)],
            retune_one_in: [50, 200, 1000][rng.random_range(0..3)],
            hot_percent: [20, 50, 90][rng.random_range(0..3)],
            speed: (0..2).map(|_| [100, 100, 30, 5][rng.random_range(0..4)]).collect(),
        };
        let model = Model::new(before.into_iter(), FIRST_TAG);
        let faults = Faults::new(kind, options.faults.unwrap_or(rng.random_range(0..3) == 0), &mut rng);
        let world = World {
            rng,
            log: options.log,
            plan,
            config,
            drive,
            model,
            outcome: Outcome::default(),
            habits,
            generation: opened.generation,
            faults,
            deaths: Deaths::new(kind),
            before: None,
        };
        say!(
            world,
            "seed {seed}: {:?}\n{:?}\n{:?}\n{:?}",
            world.plan.config.placement,
            world.config,
            world.habits,
            world.faults
        );
        Ok(world)
    }

    /// What the volume holds when it is new: where data has a home, what the home held before.
    fn before(kind: Kind, disks: &[Disk], sectors: usize) -> Vec<Tag> {
        let whole = |disk: &Disk| {
            let (from, len) = disk.data();
            let mut data = vec![0; len];
            disk.read(Bytes(from * SECTOR), &mut data);
            data
        };
        let mut content = match kind {
            Kind::Single => whole(&disks[0]),
            Kind::Linear => [whole(&disks[0]), whole(&disks[1])].concat(),
            Kind::Tiering => vec![0; sectors],
            Kind::Caching | Kind::Partitioned | Kind::Logging => whole(&disks[1]),
        };
        content.truncate(sectors);
        content
    }

    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.rng.random_range(0..one_in) == 0
    }

    /// Runs for some steps, then loses power or closes, and opens again; several times.
    pub(super) fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.random_range(2..6) {
            let steps = [20, 100, 300][self.rng.random_range(0..3)];
            for _ in 0..steps {
                self.step()?;
            }
            // A drive with a dead device does not come to rest before it is given up.
            if self.chance(4) && self.is_given_up() {
                self.close()?
            } else {
                self.crash()?
            }
            if self.deaths.over {
                return Ok(());
            }
            if self.chance(2) {
                self.read_everything()?;
            }
        }
        self.faults.calm = true;
        self.settle()?;
        self.read_everything()
    }

    fn step(&mut self) -> Result<(), String> {
        let roll = self.rng.random_range(0..100);
        if roll < 45 && self.drive.requests.len() < self.habits.depth {
            self.request();
        } else if roll < 92 && !self.drive.pending.is_empty() {
            self.complete_one();
        } else {
            let span = Nanos(self.rng.next_u64() % 200_000_000);
            self.tick(span);
        }
        self.answers()?;
        if self.chance(self.habits.retune_one_in) {
            let tuning = random_tuning(self.plan.fast_extents, &mut self.rng);
            let done = self.drive.retune(tuning);
            say!(self, "retuned: {done}, {:?}", self.drive.engine.tuning());
            self.faults.mirrored &= self.drive.engine.tuning().mirror_journal;
            self.answers()?;
        }
        self.maybe_break_sector();
        self.maybe_die();
        self.check_losses(None)?;
        if self.chance(16) {
            self.drive.engine.check_invariants();
        }
        if self.chance(self.habits.branch_one_in) {
            self.branch()?;
        }
        Ok(())
    }

    // The host.

    fn request(&mut self) {
        let total = self.model.sectors();
        let extent = (self.plan.extent / SECTOR) as usize;
        let mut roll = self.rng.random_range(0..self.habits.mix.iter().sum());
        let mut op = Op::Flush;
        for (weight, kind) in self.habits.mix.into_iter().zip([Op::Read, Op::Write, Op::Discard, Op::Flush]) {
            if roll < weight {
                op = kind;
                break;
            }
            roll -= weight;
        }
        let hot = (extent * 4).min(total);
        let is_hot = self.rng.random_range(0..100) < self.habits.hot_percent;
        let mut start = self.rng.random_range(0..if is_hot { hot } else { total });
        let mut len = self.rng.random_range(1..=self.habits.most_sectors);
        if self.chance(3) {
            start -= start % extent;
            len = extent * self.rng.random_range(1..=self.plan.reach);
        } else if self.chance(2) {
            len = 1 + len % 4;
        }
        let len = len.min(total - start);
        let request = Request { op, offset: Bytes(start as u64 * SECTOR), len: Bytes(len as u64 * SECTOR) };
        let range = span(&request);
        let from = self.model.tick();
        let data = match op {
            Op::Write if self.chance(16) => vec![0; range.len()],
            Op::Write => self.model.new_tags(range.clone()),
            Op::Read => vec![Tag::MAX; range.len()],
            Op::Discard | Op::Flush => vec![0; range.len()],
        };
        if matches!(op, Op::Write | Op::Discard) {
            self.model.begin(range.clone(), &data, from, self.drive.oldest_read());
        }
        say!(self, "{from}: {op:?} {range:?}, tags from {:?}", data.first());
        self.drive.submit(request, from, data);
    }

    fn complete_one(&mut self) {
        let mut index = self.rng.random_range(0..self.drive.pending.len());
        for _ in 0..4 {
            let device = self.drive.pending[index].device();
            if self.rng.random_range(0..100) < self.habits.speed[device.index()] {
                break;
            }
            index = self.rng.random_range(0..self.drive.pending.len());
        }
        let fails = self.faults.fails(&mut self.rng);
        let (command, failed) = self.drive.complete(index, fails, &mut self.rng);
        self.outcome.commands += 1;
        say!(self, "    done{}: {}", if failed { ", FAILED" } else { "" }, brief(&command));
    }

    fn tick(&mut self, span: Nanos) {
        say!(self, "    {} ms pass", span.0 / 1_000_000);
        self.drive.tick(span);
    }

    /// Looks at what was answered.
    fn answers(&mut self) -> Result<(), String> {
        for (_, asked, result) in std::mem::take(&mut self.drive.answered) {
            let now = self.model.tick();
            let range = span(&asked.request);
            say!(self, "{now}: {:?} {range:?} of {} is answered {result:?}", asked.request.op, asked.from);
            if let Err(error) = result {
                self.expect_error(error, &asked.request)?;
                let Request { op, offset, len } = asked.request;
                if op == Op::Read {
                    self.must_be_named(&self.drive, error, offset.0, (offset + len).0)?;
                }
            }
            match asked.request.op {
                Op::Read if result.is_ok() => {
                    self.outcome.reads += 1;
                    self.model.read(range, &asked.data, asked.from)?;
                }
                Op::Read => {}
                Op::Write => self.model.end(range, &asked.data, asked.from, result.is_ok()),
                Op::Discard => self.model.end(range, &asked.data, asked.from, false),
                Op::Flush if result.is_ok() => self.model.flushed(asked.from),
                Op::Flush => {}
            }
        }
        Ok(())
    }

    fn expect_error(&self, error: RequestError, request: &Request) -> Result<(), String> {
        // A tiering drive with one device has less room for what is written.
        let little_room = error == RequestError::NoSpace
            && request.op != Op::Read
            && (self.has_dead() || !self.deaths.without.is_empty());
        if self.faults.active && (little_room || matches!(error, RequestError::Device | RequestError::Lost)) {
            return Ok(());
        }
        Err(format!("{:?} of {:?} failed though nothing else did: {error}", request.op, span(request)))
    }

    // The power.

    /// What would be left if the power went now? The run goes on as if it had not.
    fn branch(&mut self) -> Result<(), String> {
        self.outcome.crash_points += 1;
        let disks = self.drive.disks_after_crash(&mut self.rng);
        let config = self.config_to_open();
        say!(self, "--- branch: the power goes");
        let mut disks = disks;
        let Some(without) = self.revive(&mut disks)? else { return Ok(()) };
        let (mut drive, opened) = self.recover(&config, disks, &without)?;
        self.check_losses(Some(&drive))?;
        if opened.clean {
            return Err("a volume that lost power is said to have been closed".to_string());
        }
        let found = self.look(&mut drive)?;
        if self.chance(8) {
            // Nothing was written since: what was found once is found again.
            let mut disks = drive.disks_after_crash(&mut self.rng);
            without.iter().for_each(|device| disks[device.index()].dead = true);
            let config = self.config_to_open();
            self.outcome.crash_points += 1;
            let (mut drive, _) = self.recover(&config, disks, &without)?;
            let again = self.look(&mut drive)?;
            for (sector, pair) in found.iter().zip(&again).enumerate() {
                if let (Some(first), Some(second)) = pair
                    && first != second
                {
                    let what = "after a crash, and another value after one more with no write between";
                    return Err(format!("sector {sector} held {first} {what}: {second}"));
                }
            }
        }
        say!(self, "--- the run goes on");
        Ok(())
    }

    /// Reads everything on a recovered drive and checks it, without touching the model.
    fn look(&mut self, drive: &mut Drive) -> Result<Vec<Option<Tag>>, String> {
        self.deaths.quiet = true;
        let looked = self.look_at(drive);
        self.deaths.quiet = false;
        looked
    }

    fn look_at(&mut self, drive: &mut Drive) -> Result<Vec<Option<Tag>>, String> {
        drive.engine.check_invariants();
        let total = self.model.sectors();
        let extent = (self.plan.extent / SECTOR) as usize;
        let step = if self.chance(2) && !self.faults.active { total } else { extent };
        let mut found = Vec::with_capacity(total);
        while found.len() < total {
            let range = found.len()..(found.len() + step).min(total);
            match drive.read_now(range.clone(), &mut self.rng) {
                Ok(data) => found.extend(data.into_iter().map(Some)),
                Err(error) if self.faults.active => {
                    let (from, to) = (range.start as u64 * SECTOR, range.end as u64 * SECTOR);
                    self.must_be_named(drive, error, from, to)?;
                    found.extend(range.map(|_| None));
                }
                Err(error) => return Err(format!("after a crash sectors {range:?} cannot be read: {error}")),
            }
        }
        for (sector, tag) in found.iter().enumerate() {
            if let Some(tag) = tag {
                self.model.survives(sector, *tag).map_err(|error| format!("after a crash {error}"))?;
            }
        }
        if self.chance(4) {
            drive.engine.check_invariants();
        }
        self.outcome.sectors += total as u64;
        Ok(found)
    }

    /// The power goes; the run goes on with what is recovered.
    fn crash(&mut self) -> Result<(), String> {
        self.outcome.crash_points += 1;
        let unflushed: Vec<usize> = self.drive.disks.iter().map(Disk::unflushed).collect();
        say!(
            self,
            "--- the power goes, with {} commands in flight and {unflushed:?} writes not flushed",
            self.drive.pending.len()
        );
        let disks = self.drive.disks_after_crash(&mut self.rng);
        self.reopen(disks, Some(false))
    }

    /// Opens the volume again, and goes on. `closed`: whether it was, if that is known.
    fn reopen(&mut self, mut disks: Vec<Disk>, closed: Option<bool>) -> Result<(), String> {
        self.model.crashed();
        let Some(mut without) = self.revive(&mut disks)? else {
            self.deaths.over = true;
            return Ok(());
        };
        let closed = if self.maybe_replace(&mut disks, &mut without)? { None } else { closed };
        self.impostors(&disks, closed == Some(true))?;
        self.damage_metadata(&mut disks);
        self.count_drive();
        self.config = self.config_to_open();
        self.faults.mirrored = self.config.tuning.mirror_journal;
        let config = self.config.clone();
        let before = self.outcome.recoveries_cut_short;
        let (drive, opened) = self.recover(&config, disks, &without)?;
        self.deaths.without = without;
        self.check_losses(Some(&drive))?;
        let interrupted = self.outcome.recoveries_cut_short > before;
        if closed.is_some_and(|closed| opened.clean != closed && !(closed && interrupted)) {
            return Err(format!("closed: {closed:?}, but opened as {opened:?}"));
        }
        if opened.generation <= self.generation {
            return Err(format!("generation {} came after {}", opened.generation, self.generation));
        }
        self.generation = opened.generation;
        self.outcome.generations += 1;
        drive.engine.check_invariants();
        self.drive = drive;
        Ok(())
    }

    fn count_drive(&mut self) {
        let ledger = self.drive.engine.stats();
        self.outcome.commits += ledger.commits;
        self.outcome.checkpoints += ledger.checkpoints;
        self.outcome.moves += ledger.moves.promotions + ledger.moves.demotions + ledger.moves.writebacks;
    }

    /// Opens a volume, losing power meanwhile now and then.
    fn recover(
        &mut self,
        config: &Config,
        mut disks: Vec<Disk>,
        without: &[DeviceId],
    ) -> Result<(Drive, Opened), String> {
        let mut losses = if self.chance(3) { self.rng.random_range(1..4) } else { 0 };
        while losses > 0 {
            losses -= 1;
            let mut storage = Fused::new(&mut disks, self.rng.random_range(0..MOST_CALLS));
            let opened = Engine::open_without(config.clone(), &mut storage, without);
            if !storage.blown {
                let (engine, opened) = opened.map_err(|error| format!("the volume cannot be opened: {error}"))?;
                return Ok((Drive::new(engine, disks), self.recovered(opened)));
            }
            let in_flight = storage.in_flight.take();
            say!(self, "--- the power goes during recovery, with {in_flight:?} in flight");
            self.outcome.crash_points += 1;
            self.outcome.recoveries_cut_short += 1;
            disks = self.cut(&disks, in_flight);
            without.iter().for_each(|device| disks[device.index()].dead = true);
        }
        let (drive, opened) = Drive::open(config, disks, without)
            .map_err(|(error, _)| format!("the volume cannot be opened: {error}"))?;
        Ok((drive, self.recovered(opened)))
    }

    fn recovered(&mut self, opened: Opened) -> Opened {
        self.outcome.commits_replayed += opened.commits;
        say!(self, "--- opened: {opened:?}");
        opened
    }

    pub(super) fn cut(
        &mut self,
        disks: &[Disk],
        in_flight: Option<(peryton_engine::DeviceId, super::disk::Entry)>,
    ) -> Vec<Disk> {
        let after = |index: usize, disk: &Disk, rng: &mut Pcg64Mcg| {
            let here = in_flight.iter().filter(|(device, _)| device.index() == index).map(|(_, entry)| entry.clone());
            disk.after_crash(here, rng)
        };
        disks.iter().enumerate().map(|(index, disk)| after(index, disk, &mut self.rng)).collect()
    }

    /// The design as someone opens it: what may change between two times may have changed.
    fn config_to_open(&mut self) -> Config {
        let mut tuning: Tuning = self.drive.engine.tuning().clone();
        if self.chance(3) {
            // Nothing moves: what is found is what was recovered.
            tuning.promotion_threshold = u32::MAX / 2;
        }
        if self.chance(6) {
            tuning.write = [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around][self.rng.random_range(0..3)];
        }
        if self.chance(6) {
            tuning.mirror_journal = self.rng.random_bool(0.5);
        }
        Config { tuning, ..self.config.clone() }
    }

    /// Closes the volume in good order, unless the power goes meanwhile, and opens it again.
    fn close(&mut self) -> Result<(), String> {
        self.settle()?;
        say!(self, "--- closing");
        let cut_short = self.chance(3);
        let left = if cut_short { self.rng.random_range(0..MOST_CALLS) } else { u32::MAX };
        let mut storage = Fused::new(&mut self.drive.disks, left);
        let result = self.drive.engine.close(&mut storage);
        let (blown, in_flight) = (storage.blown, storage.in_flight.take());
        if blown {
            say!(self, "--- the power goes while closing, with {in_flight:?} in flight");
            self.outcome.crash_points += 1;
            let disks = self.cut(&self.drive.disks.clone(), in_flight);
            self.outcome.recoveries_cut_short += 1;
            return self.reopen(disks, None);
        }
        result.map_err(|_| "the volume cannot be closed".to_string())?;
        self.model.closed();
        let disks = self.cut(&self.drive.disks.clone(), None);
        self.reopen(disks, Some(true))
    }

    /// Completes all that is under way.
    fn settle(&mut self) -> Result<(), String> {
        let calm = std::mem::replace(&mut self.faults.calm, true);
        let settled = self.settle_calmly();
        self.faults.calm = calm;
        settled
    }

    fn settle_calmly(&mut self) -> Result<(), String> {
        for _ in 0..100_000 {
            if !self.drive.pending.is_empty() {
                self.complete_one();
            } else if self.drive.requests.is_empty() && self.drive.engine.is_idle() {
                return Ok(());
            } else {
                self.tick(Nanos::from_ms(500));
            }
            self.answers()?;
        }
        let (requests, idle) = (self.drive.requests.len(), self.drive.engine.is_idle());
        Err(format!("{requests} requests are never answered; the engine is idle: {idle}"))
    }

    /// Reads the whole volume as a host would, with nothing else asked.
    fn read_everything(&mut self) -> Result<(), String> {
        self.deaths.quiet = self.drive.requests.is_empty() && self.drive.engine.is_idle();
        let read = self.read_all();
        self.deaths.quiet = false;
        read
    }

    fn read_all(&mut self) -> Result<(), String> {
        let total = self.model.sectors();
        let step = self.habits.most_sectors;
        for start in (0..total).step_by(step) {
            let len = step.min(total - start);
            let request =
                Request { op: Op::Read, offset: Bytes(start as u64 * SECTOR), len: Bytes(len as u64 * SECTOR) };
            let from = self.model.tick();
            say!(self, "{from}: Read {:?}", span(&request));
            self.drive.submit(request, from, vec![Tag::MAX; len]);
            self.answers()?;
            for _ in 0..10_000 {
                if self.drive.requests.is_empty() {
                    break;
                }
                if self.drive.pending.is_empty() {
                    self.tick(Nanos::from_ms(500))
                } else {
                    self.complete_one()
                }
                self.answers()?;
            }
            if !self.drive.requests.is_empty() {
                return Err(format!("a read of {:?} is never answered", span(&request)));
            }
        }
        Ok(())
    }
}

fn brief(command: &Command) -> String {
    let text = format!("{command:?}");
    text.replace("DeviceId", "dev").replace("IoId", "").replace("Bytes", "").replace("RequestId", "")
}
