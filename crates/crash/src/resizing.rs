//! Devices grow and shrink while the volume is served. Whenever the power goes or the process dies meanwhile, the volume has its old size
//! or its new one, and everything is there.

use peryton_engine::{Config, DeviceId, Opened, ResizeEnd, ResizePlan, ResizeStage, Tuning};
use peryton_format::superblock::Superblock;
use peryton_units::{Bytes, Nanos};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    design::{Kind, Plan},
    disk::{Disk, SECTOR},
    drive::Interruptible,
    ends::{End, Left},
    world::{World, say},
};

/// One run in this many resizes devices.
const ONE_IN: u32 = 4;
/// The most writes and flushes of a switch; the power may go at any of them.
const MOST_CALLS: u32 = 64;
/// The drive becomes empty beyond the new end within this many rounds.
const MOST_ROUNDS: u32 = 2_000;

/// What is drawn about it. It has random numbers of its own, so that the other runs are the same as before it was simulated.
#[derive(Debug)]
pub(crate) struct Resizes {
    rng: Pcg64Mcg,
    /// One step in this many begins to resize a device; 0: none does.
    begins_one_in: u32,
    /// One step in this many opens the volume with the new size, once it can be.
    switches_one_in: u32,
    /// Whether the power has just gone, or the process died, while the superblocks were written.
    pub(crate) is_cut_short: bool,
}

impl Resizes {
    pub(crate) fn new(seed: u64, resizes: Option<bool>, kind: Kind) -> Resizes {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7265_7369_7a65);
        let drawn = rng.random_range(0..ONE_IN) == 0;
        let begins = [10, 30, 100][rng.random_range(0..3)];
        let can = kind != Kind::Logging;
        Resizes {
            begins_one_in: if can && resizes.unwrap_or(drawn) { begins } else { 0 },
            switches_one_in: [1, 5, 30][rng.random_range(0..3)],
            is_cut_short: false,
            rng,
        }
    }

    /// Whether devices are resized.
    pub(crate) fn are_drawn(&self) -> bool {
        self.begins_one_in > 0
    }

    /// How much larger a disk is than what a new volume uses of it.
    pub(crate) fn more(&mut self, plan: &Plan, device: DeviceId) -> Bytes {
        // What follows the first device of a row would get other addresses.
        match self.are_drawn() && (plan.kind != Kind::Linear || device != DeviceId(0)) {
            true => Bytes(plan.extent * self.rng.random_range(0..2 * u64::from(plan.fast_extents) + 2)),
            false => Bytes::ZERO,
        }
    }
}

impl World {
    /// Begins to resize a device now and then, opens the volume with the new size, or stops.
    pub(crate) fn maybe_resize(&mut self) -> Result<(), String> {
        self.end_resize();
        if !self.resizes.are_drawn() {
            return Ok(());
        }
        let Some(resize) = self.drive.engine.resizing() else {
            self.begin_resize();
            return Ok(());
        };
        if resize.stage == ResizeStage::Ready && self.resizes.rng.random_range(0..self.resizes.switches_one_in) == 0 {
            self.switch()?;
        } else if self.resizes.rng.random_range(0..400) == 0 {
            self.drive.call(|engine, now, _| engine.stop_resizing(now));
            say!(self, "--- resizing is stopped");
        }
        self.end_resize();
        Ok(())
    }

    fn begin_resize(&mut self) {
        let count = self.devices();
        let clear = self.drive.engine.gone() == 0 && self.drive.disks.len() == count && !self.has_dead();
        let clear = clear && !self.returns.is_leaving();
        let Resizes { rng, begins_one_in, .. } = &mut self.resizes;
        if !clear || rng.random_range(0..*begins_one_in) > 0 {
            return;
        }
        let index = if rng.random_bool(0.7) { 0 } else { count - 1 };
        let (device, room) = (DeviceId(index as u8), self.drive.disks[index].size());
        let most = self.drive.engine.largest(device, room).0 / self.plan.extent;
        let size = Bytes(self.plan.extent * rng.random_range(1..most + 3));
        let rate = [Bytes::ZERO, Bytes::mib(1)][rng.random_range(0..2)];
        let plan = ResizePlan { device, size, room, rate };
        let before = self.config.devices[index];
        let begun = self.drive.call(|engine, now, out| engine.resize(now, plan, out));
        say!(self, "--- device {index} of {before} is to have {size}: {begun:?}");
    }

    fn end_resize(&mut self) {
        let Some(end) = self.drive.engine.take_resize_end() else { return };
        say!(self, "--- resizing has ended: {end:?}");
        self.outcome.resizes += u64::from(end == ResizeEnd::Resized);
    }

    /// Lets requests wait, and opens the volume with the new size.
    fn switch(&mut self) -> Result<(), String> {
        if self.has_dead() {
            return Ok(());
        }
        self.drive.call(|engine, now, out| engine.rest(now, true, out));
        self.settle()?;
        for round in 0.. {
            if self.drive.engine.can_resize_now() {
                break;
            }
            if self.drive.engine.resizing().is_none() || self.drive.engine.is_in_doubt() || self.has_dead() {
                self.drive.call(|engine, now, out| engine.rest(now, false, out));
                return Ok(());
            }
            if round == MOST_ROUNDS && !self.faults.active {
                return Err(format!("{:?} does not come to its end", self.drive.engine.resizing()));
            }
            if round == MOST_ROUNDS {
                self.drive.call(|engine, now, _| engine.stop_resizing(now));
                return Ok(());
            }
            self.tick(Nanos::from_ms(50));
            self.settle()?;
        }
        let resize = self.drive.engine.resizing().expect("it can be resized now");
        let mut sizes = self.config.devices.clone();
        sizes[resize.plan.device.index()] = resize.plan.size;
        let grown = (resize.plan.device, resize.volume);
        let cut_short = self.resizes.rng.random_bool(0.5);
        let left = if cut_short { self.resizes.rng.random_range(0..MOST_CALLS) } else { u32::MAX };
        say!(self, "--- the volume is opened with {sizes:?}, cut short: {cut_short}");
        let mut storage = Interruptible::new(&mut self.drive.disks, None, left);
        let result = self.drive.engine.resize_now(&mut storage);
        let (interrupted, closed) = (storage.interrupted, storage.has_closed);
        let in_flight = storage.in_flight.take();
        match result {
            Ok(opened) if !interrupted => self.has_switched(&opened, sizes, grown),
            _ if interrupted => {
                let end = self.fates.next();
                say!(self, "--- {end:?} meanwhile, with {in_flight:?} in flight");
                self.outcome.crash_points += 1;
                self.outcome.recoveries_cut_short += 1;
                let mut disks = self.cut(&self.drive.disks.clone(), in_flight, end);
                if in_force(&disks).is_some_and(|found| found == sizes) {
                    // The next opening flushes before it relies on what a disk says. If the power fails before that, the old size may be
                    // in force again, which is the same as if it had failed in the first place.
                    for disk in &mut disks {
                        disk.write_out();
                    }
                    self.takes_size(sizes, grown, &disks);
                }
                let left = match end {
                    End::Process if !self.flush_lost => {
                        Left { memory: self.drive.memory.clone().filter(|_| !closed), answered: true, binds: false }
                    }
                    End::Power | End::Process => Left::default(),
                };
                self.reopen_after(disks, left)
            }
            Ok(_) => unreachable!("it is handled above"),
            Err(error) if self.faults.active => {
                say!(self, "--- that has failed: {error}");
                let disks = self.cut(&self.drive.disks.clone(), None, End::Power);
                if in_force(&disks).is_some_and(|found| found == sizes) {
                    self.takes_size(sizes, grown, &disks);
                }
                self.reopen_after(disks, Left::default())
            }
            Err(error) => Err(format!("the volume cannot be opened with the new size: {error}")),
        }
    }

    fn has_switched(&mut self, opened: &Opened, sizes: Vec<Bytes>, grown: (DeviceId, Bytes)) -> Result<(), String> {
        say!(self, "--- opened: {opened:?}");
        if !opened.clean {
            return match self.faults.active {
                // It was opened as after a crash, with its old size.
                true => self.crash(),
                false => Err("a volume that was closed to be resized is not clean".to_owned()),
            };
        }
        let disks = self.drive.disks.clone();
        self.takes_size(sizes, grown, &disks);
        let (engine, sectors) = (&self.drive.engine, self.model.sectors() as u64);
        if engine.volume_size().0 != sectors * SECTOR || engine.data_bytes() != self.config.devices {
            return Err(format!("the volume has {} and not {sectors} sectors", engine.volume_size()));
        }
        engine.check_invariants();
        (self.lost_at, self.flush_lost, self.generation) = (None, false, opened.generation);
        self.drive.memory = None;
        if self.fates.keeps() {
            self.drive.keep_in_memory();
        }
        Ok(())
    }

    /// Opens the volume after a switch that was cut short. A generation may have been announced in it, whose number is given again: copies
    /// of disks from before are not always those of a generation before.
    fn reopen_after(&mut self, disks: Vec<Disk>, left: Left) -> Result<(), String> {
        self.before = None;
        self.resizes.is_cut_short = true;
        self.reopen(disks, left, None)?;
        self.resizes.is_cut_short = false;
        self.before = None;
        Ok(())
    }

    /// The new size is in force, and the volume has `volume` bytes. A cache's origin holds what the disk holds there; a superblock was there
    /// that may be blanked.
    fn takes_size(&mut self, sizes: Vec<Bytes>, (device, volume): (DeviceId, Bytes), disks: &[Disk]) {
        self.config = suiting(Config { devices: sizes, ..self.config.clone() });
        let before = if self.plan.kind == Kind::Linear { self.config.devices[0].0 / SECTOR } else { 0 };
        let added = (self.model.sectors() as u64)..volume.0 / SECTOR;
        let disk = &disks[device.index()];
        let holds = |sector: u64| match self.plan.kind {
            Kind::Tiering => [0, 0],
            _ => disk.both(disk.data().0 + sector - before),
        };
        self.model.grow(added.map(holds).collect());
    }
}

/// The same design, with thresholds that suit a device that has shrunk.
pub(crate) fn suiting(config: Config) -> Config {
    match config.sizes() {
        Ok(_) => config,
        Err(_) => {
            let tuning = Tuning { demotion_low: 0, demotion_high: 0, ..config.tuning };
            Config { tuning, ..config }
        }
    }
}

/// The sizes that the newest superblock says.
fn in_force(disks: &[Disk]) -> Option<Vec<Bytes>> {
    let superblock = |disk: &Disk| {
        let mut block = vec![0; 4096];
        disk.read_bytes(Bytes::ZERO, &mut block);
        Superblock::decode(&block).ok()
    };
    let newest = disks.iter().filter_map(superblock).max_by_key(Superblock::age)?;
    Some(newest.geometry.devices)
}
