//! Which devices a volume has changes while it is served: a device that died comes back or an empty one takes its place, and the fast
//! device of a cache is evacuated and pulled. The power goes and the process dies at any step of it. A device that was evacuated is not
//! needed and not believed afterwards, and one that was used without the others is refused.

use peryton_engine::{DeviceId, Engine, OpenError, ReadmitError, Tuning, Without, closed};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    design::Kind,
    disk::{Disk, Entry},
    drive::{Direct, Interruptible},
    ends::{End, Left},
    memory::Memory,
    world::{World, say},
};

/// One run in this many changes its devices.
const ONE_IN: u32 = 3;
/// The most writes and flushes that a change makes; the power may go at any of them.
const MOST_CALLS: u32 = 96;
/// The fast device of every design with two.
const FAST: DeviceId = DeviceId(0);

/// What is drawn about changes of the devices. It has random numbers of its own, so that the other runs are the same as before they
/// were simulated.
#[derive(Debug)]
pub(crate) struct Returns {
    rng: Pcg64Mcg,
    /// One step in this many changes something; 0: none does.
    one_in: u32,
    /// The steps until the fast device is to leave, and the tuning from before.
    leaving: Option<(u32, Tuning)>,
}

impl Returns {
    pub(crate) fn new(seed: u64, returns: Option<bool>) -> Returns {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7265_7475_726e);
        let drawn = rng.random_range(0..ONE_IN) == 0;
        let one_in = [20, 60, 200][rng.random_range(0..3)];
        Returns { one_in: if returns.unwrap_or(drawn) { one_in } else { 0 }, leaving: None, rng }
    }

    /// Whether devices come back in this run.
    pub(crate) fn is_drawn(&self) -> bool {
        self.one_in > 0
    }

    /// Whether a device is to leave.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// A generation has ended, and what was under way in it.
    pub(crate) fn ended(&mut self) {
        self.leaving = None;
    }
}

/// What a device is to its volume, as the superblocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Membership {
    Part,
    /// The volume opens without it if it is left out by name.
    GivenUp,
    /// The volume opens without it by itself, whether it is there or not.
    Evacuated,
}

/// How a change of the devices has ended.
enum Changed {
    /// As it should, or it was refused for this reason.
    Done(Option<String>),
    /// The power has gone, or the process has died, with this in flight. `closed`: everything that was answered is durable.
    Interrupted { in_flight: Option<(DeviceId, Entry)>, closed: bool },
}

impl World {
    /// Now and then a device comes back, or leaves.
    pub(crate) fn maybe_change_devices(&mut self) -> Result<(), String> {
        // The driver begins one change at a time.
        let is_changing = self.drive.disks.len() > self.devices() || self.drive.engine.resizing().is_some();
        if self.returns.one_in == 0 || is_changing {
            return Ok(());
        }
        if self.returns.leaving.is_some() {
            return self.go_on_leaving();
        }
        if self.returns.rng.random_range(0..self.returns.one_in) > 0 {
            return Ok(());
        }
        let gone: Vec<DeviceId> =
            (0..self.devices() as u8).map(DeviceId).filter(|device| self.drive.engine.is_gone(*device)).collect();
        match gone[..] {
            [] => self.begin_to_leave(),
            [device] => return self.comes_back(device),
            _ => {}
        }
        Ok(())
    }

    /// Whether nothing is in doubt and every dead device is durably given up, so that the volume can be closed for a moment.
    fn can_change(&self) -> bool {
        let engine = &self.drive.engine;
        let recorded = (0..self.devices() as u8)
            .map(DeviceId)
            .all(|device| !self.drive.disks[device.index()].dead || engine.is_durably_gone(device));
        !engine.is_in_doubt() && self.lost_at.is_none() && !self.flush_lost && recorded && self.is_given_up()
    }

    /// Closes the volume in good order, and lets `change` happen to the closed volume. Then it is opened again, whether that was refused
    /// or not.
    fn change(
        &mut self,
        leaving: Option<DeviceId>,
        change: impl FnOnce(&Engine, &mut Interruptible<'_>) -> Result<(), String>,
    ) -> Result<Changed, String> {
        let calls = match self.returns.rng.random_bool(0.5) {
            true => self.returns.rng.random_range(0..MOST_CALLS),
            false => u32::MAX,
        };
        let engine = &mut self.drive.engine;
        let mut storage = Interruptible::new(&mut self.drive.disks, None, calls);
        let closed = engine.close(&mut storage);
        if storage.interrupted {
            return Ok(Changed::Interrupted { in_flight: storage.in_flight.take(), closed: false });
        }
        closed.map_err(|_| "a volume at rest cannot be closed".to_owned())?;
        self.model.closed();
        let refused = change(engine, &mut storage).err();
        if storage.interrupted {
            return Ok(Changed::Interrupted { in_flight: storage.in_flight.take(), closed: true });
        }
        let without = leaving.filter(|_| refused.is_none()).map_or(Without::None, Without::Leaving);
        let opened = engine.open_again(&mut storage, without);
        if storage.interrupted {
            return Ok(Changed::Interrupted { in_flight: storage.in_flight.take(), closed: true });
        }
        let opened = opened.map_err(|error| format!("the volume cannot be opened again: {error}"))?;
        if !opened.clean || opened.generation <= self.generation {
            return Err(format!("opened after {} as {opened:?}", self.generation));
        }
        self.generation = opened.generation;
        if self.fates.keeps() {
            self.drive.keep_in_memory();
        }
        self.drive.tick(peryton_units::Nanos::ZERO);
        Ok(Changed::Done(refused))
    }

    /// A device that died answers again, and comes back with what it holds, or an empty one takes its place.
    fn comes_back(&mut self, device: DeviceId) -> Result<(), String> {
        let (index, kind) = (device.index(), self.deaths.kind);
        let without_map = kind == Kind::Linear || self.is_primary(device);
        let possible = without_map || self.has_map();
        if !possible || !self.can_change() {
            return Ok(());
        }
        self.settle()?;
        if !self.can_change() {
            return Ok(());
        }
        let returns = without_map || self.returns.rng.random_range(0..4) > 0;
        if returns && self.deaths.stale && !self.drive.engine.was_evacuated(device) {
            return Ok(());
        }
        say!(self, "--- device {index} is attached again, and {}", if returns { "comes back" } else { "is empty" });
        let disk = &mut self.drive.disks[index];
        disk.dead = false;
        // It has written its cache out meanwhile. What may be missing without that is tested by devices that come back with the power.
        disk.write_out();
        if !returns {
            disk.bad.clear();
        }
        if returns && self.returns.rng.random_range(0..4) == 0 {
            self.used_alone(device)?;
        }
        let was_in_doubt = self.drive.engine.is_in_doubt();
        let changed = self.change(None, |engine, storage| {
            if !returns {
                return engine.take_in(storage, device).map(|_| ()).map_err(|error| error.to_string());
            }
            match engine.take_back(storage, device) {
                Ok(_) => Ok(()),
                // The map has rotted; its generation was only announced; an interrupted
                // replacement has blanked its superblocks; or a write to a primary was in doubt.
                Err(
                    error @ (ReadmitError::Open(OpenError::NotFormatted { .. } | OpenError::Damaged { .. })
                    | ReadmitError::Damaged { .. }
                    | ReadmitError::PrimaryOfLog { .. }
                    | ReadmitError::Older { .. }),
                ) => Err(error.to_string()),
                Err(error) => Err(format!("unexpectedly: {error}")),
            }
        })?;
        match changed {
            Changed::Interrupted { in_flight, closed } => return self.cut_short(device, in_flight, closed),
            Changed::Done(Some(why)) if why.starts_with("unexpectedly") || !returns => {
                return Err(format!("device {index} cannot come back: {why}"));
            }
            Changed::Done(Some(why)) => {
                say!(self, "--- it is refused: {why}");
                self.drive.disks[index].dead = true;
                if self.is_primary(device) {
                    // The log has kept what had migrated to it, and the opening has found that.
                    self.model.lost_may_be_back();
                }
                if !self.drive.engine.is_gone(device) {
                    return Err(format!("device {index} is refused, and part of the volume"));
                }
                self.deaths.without = vec![device];
            }
            Changed::Done(None) => {
                if self.drive.engine.gone() != 0 {
                    return Err(format!("device {index} is back, and the volume is without it"));
                }
                if self.drive.engine.is_in_doubt() && !was_in_doubt {
                    return Err(format!("device {index} is back, and no flush has failed, but the volume is in doubt"));
                }
                self.outcome.returns += 1;
                if returns {
                    self.model.lost_may_be_back();
                }
                self.note_lost()?;
                self.is_back(device, !returns);
            }
        }
        self.looks_right()
    }

    fn is_back(&mut self, device: DeviceId, is_empty: bool) {
        self.deaths.without.clear();
        self.deaths.flushed_since = false;
        self.may_have_lost(device, is_empty);
    }

    /// Notes what may be lost now that a device is part of the volume again.
    pub(crate) fn may_have_lost(&mut self, device: DeviceId, is_empty: bool) {
        self.deaths.replaced |= is_empty || self.faults.flushes_only;
        // While the slow device was away, the fast one alone took the writes, and it has the only copy until they are written back.
        self.deaths.never_back &= device == FAST;
    }

    /// Checks that a device is refused that was opened without the others meanwhile. This is a copy of it.
    fn used_alone(&mut self, device: DeviceId) -> Result<(), String> {
        let mut copy = self.drive.disks.clone();
        let mut alone = copy.clone();
        let others: Vec<DeviceId> = (0..self.devices() as u8).map(DeviceId).filter(|other| *other != device).collect();
        others.iter().for_each(|other| alone[other.index()].dead = true);
        if Engine::open_without(self.config.clone(), &mut Direct::new(&mut alone), &others).is_err() {
            return Ok(());
        }
        copy[device.index()] = alone.swap_remove(device.index());
        match closed::readmit(self.config.clone(), &mut Direct::new(&mut copy), device) {
            Err(ReadmitError::UsedAlone { device: named }) if named == device.index() => Ok(()),
            other => Err(format!("device {} was used alone, and is accepted with what it held: {other:?}", device.0)),
        }
    }

    /// The power went, or the process died, while a device was to come back or to leave: it has, or it has not.
    fn cut_short(
        &mut self,
        device: DeviceId,
        in_flight: Option<(DeviceId, Entry)>,
        closed: bool,
    ) -> Result<(), String> {
        let (index, end) = (device.index(), self.fates.next());
        say!(self, "--- {end:?} while the devices change, with {in_flight:?} in flight");
        self.outcome.crash_points += 1;
        self.outcome.recoveries_cut_short += 1;
        self.outcome.process_deaths += u64::from(end == End::Process);
        let disks = self.drive.disks.clone();
        let mut disks = self.cut(&disks, in_flight, end);
        let left = match end {
            // Once the volume is closed, nothing in memory counts.
            End::Process if !closed => Left { memory: self.drive.memory.clone(), answered: true, binds: false },
            End::Process | End::Power => Left::default(),
        };
        let found = self.membership(&disks, device, left.memory.as_ref())?;
        let was_given_up = self.drive.engine.is_gone(device) && !self.drive.engine.was_evacuated(device);
        if found == Membership::GivenUp && !was_given_up {
            return Err(format!("device {index} was evacuated, and is needed"));
        }
        let is_part = found == Membership::Part;
        // The next opening flushes all disks before it relies on what they say. If the power fails before that, it may be as if it had failed
        // in the first place.
        for disk in &mut disks {
            disk.write_out();
        }
        self.drive.disks[index].dead = !is_part;
        if is_part {
            self.is_back(device, true);
        } else {
            disks[index].dead = true;
            self.deaths.without = vec![device];
        }
        self.reopen(disks, left, None)?;
        // The disks may have announced the next generation, so this is not how they were in one before it.
        self.before = None;
        Ok(())
    }

    /// What the device is to the volume as it is on these disks.
    fn membership(&self, disks: &[Disk], device: DeviceId, memory: Option<&Memory>) -> Result<Membership, String> {
        let open = |dead: bool, without: &[DeviceId]| {
            let mut copy = disks.to_vec();
            copy[device.index()].dead = dead;
            let mut storage = Direct { disks: &mut copy, memory };
            Engine::open_without(self.config.clone(), &mut storage, without).map(|(_, opened)| opened)
        };
        let bit = 1 << device.index();
        match (open(false, &[]), open(true, &[])) {
            (Ok(opened), Err(_)) if opened.gone == 0 => Ok(Membership::Part),
            (Ok(one), Ok(other)) if one.evacuated == bit && other.evacuated == bit && one.gone == bit => {
                Ok(Membership::Evacuated)
            }
            // A replacement that was interrupted may have blanked its superblocks.
            (
                Err(OpenError::LeftOut { device: named, .. } | OpenError::NotFormatted { device: named }),
                Err(OpenError::Missing { .. }),
            ) if named == device.index() => {
                open(true, &[device]).map_err(|error| format!("the volume cannot be opened: {error}"))?;
                Ok(Membership::GivenUp)
            }
            (with, without) => Err(format!("device {} is there: {with:?}; it is not: {without:?}", device.0)),
        }
    }

    /// Checks, when the volume is about to be opened, that one of its devices that was evacuated is neither needed nor believed.
    pub(crate) fn check_evacuated(&self, disks: &[Disk]) -> Result<(), String> {
        for device in self.deaths.without.iter().filter(|device| self.drive.engine.was_evacuated(**device)) {
            match self.membership(disks, *device, None)? {
                Membership::Evacuated => {}
                Membership::Part => {
                    return Err(format!("device {} was evacuated, and is accepted with what it held", device.0));
                }
                Membership::GivenUp => return Err(format!("device {} was evacuated, and is needed", device.0)),
            }
        }
        Ok(())
    }

    fn begin_to_leave(&mut self) {
        let can = self.drive.engine.can_evacuate(FAST).is_ok();
        if !can || self.has_dead() || !self.can_change() {
            return;
        }
        let slowly = self.returns.rng.random_bool(0.3);
        let (before, leaving) = (self.drive.engine.tuning().clone(), self.drive.engine.leaving_tuning(slowly));
        if self.drive.retune(leaving) {
            say!(self, "--- the fast device is to leave");
            self.returns.leaving = Some((self.returns.rng.random_range(0..60), before));
        }
    }

    fn go_on_leaving(&mut self) -> Result<(), String> {
        let Some((steps, _)) = &mut self.returns.leaving else { return Ok(()) };
        if *steps > 0 {
            *steps -= 1;
            if self.returns.rng.random_range(0..5) == 0 {
                self.drive.call(|engine, now, out| engine.write_all_back(now, out));
            } else if self.returns.rng.random_range(0..20) == 0 {
                self.drive.engine.pause_writing_back();
            }
            return Ok(());
        }
        let Some((_, before)) = self.returns.leaving.take() else { return Ok(()) };
        let left = self.leaves();
        if !matches!(left, Ok(false)) {
            return left.map(|_| ());
        }
        say!(self, "--- the fast device stays");
        self.drive.retune(before);
        self.answers()
    }

    /// Requests are held back, what is dirty goes to the origin, and the fast device leaves. Returns whether the run has come to a new generation.
    fn leaves(&mut self) -> Result<bool, String> {
        self.drive.retune(self.drive.engine.leaving_tuning(false));
        self.settle()?;
        for _ in 0..self.returns.rng.random_range(0..20) {
            self.drive.call(|engine, now, out| engine.write_all_back(now, out));
            self.settle()?;
        }
        if self.drive.engine.gone() != 0 || self.has_dead() || !self.can_change() {
            return Ok(false);
        }
        if let Err(error) = self.drive.engine.is_evacuated(FAST) {
            say!(self, "--- it cannot leave: {error}");
            return Ok(false);
        }
        match self.change(Some(FAST), |_, _| Ok(()))? {
            Changed::Interrupted { in_flight, closed } => self.cut_short(FAST, in_flight, closed)?,
            Changed::Done(_) => {
                self.outcome.evacuations += 1;
                self.drive.disks[FAST.index()].dead = true;
                self.deaths.without = vec![FAST];
                let lost = self.drive.engine.losses(9);
                if !self.drive.engine.was_evacuated(FAST) || lost.bytes.0 > 0 {
                    return Err(format!("the fast device was evacuated, but {lost:?} is lost"));
                }
            }
        }
        self.looks_right()?;
        Ok(true)
    }

    fn looks_right(&mut self) -> Result<(), String> {
        self.drive.engine.check_invariants();
        self.check_losses(None)?;
        let reads = self.returns.rng.random_range(0..3) == 0 || self.drive.engine.losses(1).bytes.0 > 0;
        if reads && !self.deaths.over { self.read_everything() } else { Ok(()) }
    }
}
