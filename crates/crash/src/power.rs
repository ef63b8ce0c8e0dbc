//! Power losses and orderly closings: what a power loss now would leave, losses after which the run continues with what
//! was recovered, and recoveries that lose power themselves.

use peryton_engine::{Config, DeviceId, Engine, Journal, Opened, Tuning, WritePolicy};
use rand::RngExt;

use crate::{
    disk::{Disk, SECTOR, Tag},
    drive::{Drive, Interruptible},
    ends::{End, Left},
    resizing::suiting,
    world::{World, say, writes_through},
};

/// The most writes and flushes that an open or close makes; the power may go at any of them.
const MOST_CALLS: u32 = 32;

impl World {
    /// What a drive leaves that ends now, or the drive of the run: the disks, and what is known of what they hold.
    fn leave(&mut self, drive: Option<&Drive>, end: End) -> Result<(Vec<Disk>, Left), String> {
        let World { rng, outcome, .. } = self;
        let lost = self.flush_lost && drive.is_none();
        let drive = drive.unwrap_or(&self.drive);
        outcome.crash_points += 1;
        if end == End::Power {
            let disks = drive.disks_after_crash(rng);
            return Ok((self.in_charge(disks, None)?, Left::default()));
        }
        outcome.process_deaths += 1;
        let disks = drive.disks_after_process_death(rng);
        // A driver does not use its records in memory after a flush has failed.
        let left = match lost {
            true => Left::default(),
            false => Left { memory: drive.memory.clone(), answered: true, binds: false },
        };
        let mut disks = disks;
        let left = self.bring_back(&mut disks, left);
        Ok((self.in_charge(disks, left.memory.as_ref())?, left))
    }

    /// Brings back a device that died while the machine runs on, with or without the content of its cache.
    fn bring_back(&mut self, disks: &mut [Disk], mut left: Left) -> Left {
        let World { rng, fates, deaths, .. } = self;
        for (index, disk) in disks.iter_mut().enumerate() {
            if !disk.dead || deaths.without.contains(&DeviceId(index as u8)) {
                continue;
            }
            if fates.comes_back_whole() {
                disk.dead = false;
            } else {
                // The disk was taken out and put back, so the process's records do not match it: it could be another disk.
                *disk = disk.after_crash(std::iter::empty(), rng);
                left = Left::default();
            }
        }
        left
    }

    /// Checks what a power loss now would leave. The run then continues as if the power had stayed on.
    pub(crate) fn branch(&mut self) -> Result<(), String> {
        self.note_lost()?;
        let end = self.fates.next();
        let (mut disks, mut left) = self.leave(None, end)?;
        let config = self.config_to_open();
        say!(self, "--- branch: {end:?}");
        let Some(without) = self.revive(&mut disks, &mut left)? else { return Ok(()) };
        let (mut drive, opened) = self.recover(&config, disks, &without, &mut left)?;
        self.check_losses(Some(&drive))?;
        if opened.clean {
            return Err("a volume that lost power is said to have been closed".to_string());
        }
        let found = self.look(&mut drive, left.answered)?;
        if self.chance(8) {
            // Nothing is written between two recoveries, so each must find the same data.
            let end = self.fates.next();
            let (mut disks, mut left) = self.leave(Some(&drive), end)?;
            without.iter().for_each(|device| disks[device.index()].dead = true);
            let config = self.config_to_open();
            let (mut drive, _) = self.recover(&config, disks, &without, &mut left)?;
            let again = self.look(&mut drive, false)?;
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

    /// Reads and checks every sector of a recovered drive without changing the model.
    fn look(&mut self, drive: &mut Drive, answered: bool) -> Result<Vec<Option<Tag>>, String> {
        self.deaths.quiet = true;
        let looked = self.look_at(drive, answered);
        self.deaths.quiet = false;
        looked
    }

    fn look_at(&mut self, drive: &mut Drive, answered: bool) -> Result<Vec<Option<Tag>>, String> {
        drive.engine.check_invariants();
        drive.copies_agree()?;
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
                self.model.survives(sector, *tag, answered).map_err(|error| format!("after a crash {error}"))?;
            }
        }
        if self.chance(4) {
            drive.engine.check_invariants();
        }
        self.outcome.sectors += total as u64;
        Ok(found)
    }

    /// Cuts the power; the run continues with what is recovered.
    pub(crate) fn crash(&mut self) -> Result<(), String> {
        let end = self.fates.next();
        let unflushed: Vec<usize> = self.drive.disks.iter().map(Disk::unflushed).collect();
        say!(
            self,
            "--- {end:?}, with {} commands in flight and {unflushed:?} writes not flushed",
            self.drive.pending.len()
        );
        let (disks, left) = self.leave(None, end)?;
        self.reopen(disks, left, Some(false))
    }

    /// Opens the volume after a power loss or a close. `closed` says whether it was closed in good order, if that is
    /// known.
    pub(crate) fn reopen(&mut self, mut disks: Vec<Disk>, mut left: Left, closed: Option<bool>) -> Result<(), String> {
        self.lost_at = None;
        self.flush_lost = false;
        self.returns.ended();
        self.check_evacuated(&disks)?;
        let Some(mut without) = self.revive(&mut disks, &mut left)? else {
            self.deaths.over = true;
            return Ok(());
        };
        if self.deaths.without.is_empty() {
            self.deaths.stale = !without.is_empty() && (self.deaths.flushed_since || left.answered);
        }
        let closed =
            if self.maybe_replace(&mut disks, &mut without, &mut left, closed == Some(true))? { None } else { closed };
        self.impostors(&disks, closed == Some(true))?;
        self.damage_metadata(&mut disks);
        self.spoil_snapshots(&mut disks);
        if closed == Some(true) {
            self.rot_log(&mut disks);
        }
        self.count_drive();
        self.config = self.config_to_open();
        self.faults.mirrored = self.config.tuning.journal == Journal::Mirrored;
        self.faults.full = None;
        let config = self.config.clone();
        let before = self.outcome.recoveries_cut_short;
        let (drive, opened) = self.recover(&config, disks, &without, &mut left)?;
        self.model.crashed(left.answered);
        self.deaths.without = without;
        self.deaths.flushed_since |= left.answered && !self.deaths.without.is_empty();
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
        self.model.lost_may_be_back();
        self.note_lost()
    }

    fn count_drive(&mut self) {
        let stats = self.drive.engine.stats();
        self.outcome.commits += stats.commits;
        self.outcome.checkpoints += stats.checkpoints;
        self.outcome.moves += stats.moves.promotions + stats.moves.demotions + stats.moves.writebacks;
    }

    /// Opens a volume; now and then the power goes during recovery.
    fn recover(
        &mut self,
        config: &Config,
        mut disks: Vec<Disk>,
        without: &[DeviceId],
        left: &mut Left,
    ) -> Result<(Drive, Opened), String> {
        let mut losses = if self.chance(3) { self.rng.random_range(1..4) } else { 0 };
        while losses > 0 {
            losses -= 1;
            let mut storage =
                Interruptible::new(&mut disks, left.memory.as_ref(), self.rng.random_range(0..MOST_CALLS));
            let opened = Engine::open_without(config.clone(), &mut storage, without);
            if !storage.interrupted {
                let (engine, opened) = opened.map_err(|error| format!("the volume cannot be opened: {error}"))?;
                return self.recovered(Drive::new(engine, disks), opened, left);
            }
            let in_flight = storage.in_flight.take();
            let end = if left.binds { End::Process } else { self.fates.next() };
            say!(self, "--- {end:?} during recovery, with {in_flight:?} in flight");
            self.outcome.crash_points += 1;
            self.outcome.recoveries_cut_short += 1;
            disks = self.cut(&disks, in_flight, end);
            match end {
                End::Power => {
                    let recorded = |device: &DeviceId| self.drive.engine.is_durably_gone(*device);
                    let known = without.iter().all(|device| recorded(device) || self.deaths.without.contains(device));
                    self.deaths.forgotten |= !known;
                    *left = Left::default();
                }
                End::Process => self.outcome.process_deaths += 1,
            }
            without.iter().for_each(|device| disks[device.index()].dead = true);
        }
        let (drive, opened) = Drive::open(config, disks, without, left.memory.as_ref())
            .map_err(|(error, _)| format!("the volume cannot be opened: {error}"))?;
        self.recovered(drive, opened, left)
    }

    fn recovered(&mut self, mut drive: Drive, opened: Opened, left: &Left) -> Result<(Drive, Opened), String> {
        self.outcome.commits_replayed += opened.commits;
        say!(self, "--- opened: {opened:?}");
        if left.memory.is_some() && opened.taken_over.is_none() && !opened.clean && !left.is_used_up(&opened) {
            return Err(format!("what the process left in memory is not taken over: {opened:?}"));
        }
        if self.fates.keeps() {
            drive.keep_in_memory();
        }
        Ok((drive, opened))
    }

    /// Draws the design with which the volume is opened next: settings that may change between two openings have
    /// changed.
    fn config_to_open(&mut self) -> Config {
        let mut tuning: Tuning = self.drive.engine.tuning().clone();
        if self.chance(3) {
            // With this threshold nothing is promoted, so that reads return what was recovered.
            tuning.promotion_threshold = u32::MAX / 2;
        }
        if self.chance(6) {
            tuning.write = [WritePolicy::Back, WritePolicy::Through, WritePolicy::Around][self.rng.random_range(0..3)];
        }
        if self.chance(6) {
            tuning.journal = [Journal::Mirrored, Journal::Named][self.rng.random_range(0..2)];
        }
        if self.beside {
            writes_through(&mut tuning);
        }
        suiting(Config { tuning, ..self.config.clone() })
    }

    /// Closes the volume in good order, unless the power goes meanwhile, and opens it again.
    pub(crate) fn close(&mut self) -> Result<(), String> {
        self.settle()?;
        say!(self, "--- closing");
        let cut_short = self.chance(3);
        let left = if cut_short { self.rng.random_range(0..MOST_CALLS) } else { u32::MAX };
        let in_doubt = self.drive.engine.is_in_doubt();
        let mut storage = Interruptible::new(&mut self.drive.disks, None, left);
        let result = self.drive.engine.close(&mut storage);
        let (interrupted, in_flight) = (storage.interrupted, storage.in_flight.take());
        if in_doubt && !interrupted {
            // The host was not notified of the data that a failed flush lost.
            return match result {
                Ok(()) => Err("a volume is closed though a flush has failed".to_string()),
                Err(_) => self.crash(),
            };
        }
        if interrupted {
            let end = self.fates.next();
            say!(self, "--- {end:?} while closing, with {in_flight:?} in flight");
            self.outcome.crash_points += 1;
            let disks = self.cut(&self.drive.disks.clone(), in_flight, end);
            let mut disks = disks;
            self.outcome.recoveries_cut_short += 1;
            let left = match end {
                End::Process if !self.flush_lost => {
                    Left { memory: self.drive.memory.clone(), answered: true, binds: false }
                }
                End::Power | End::Process => Left::default(),
            };
            let left = self.bring_back(&mut disks, left);
            let disks = self.in_charge(disks, left.memory.as_ref())?;
            return self.reopen(disks, left, None);
        }
        result.map_err(|_| "the volume cannot be closed".to_string())?;
        self.model.closed();
        self.deaths.flushed_since |= self.has_dead();
        let disks = self.cut(&self.drive.disks.clone(), None, End::Power);
        let disks = self.in_charge(disks, None)?;
        self.reopen(disks, Left::default(), Some(true))
    }
}
