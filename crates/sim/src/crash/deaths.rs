//! Devices that die, and come back with what they held: the volume goes on with the other, and refuses them.

use peryton_engine::{DeviceId, Engine, OpenError, RequestError, WritePolicy};
use peryton_units::Bytes;
use rand::RngExt;

use super::{
    design::Kind,
    disk::Disk,
    drive::{Direct, Drive, Fused},
    world::World,
};

/// What has become of a run's devices.
#[derive(Clone, Debug)]
pub(super) struct Deaths {
    pub(super) kind: Kind,
    /// The volume is opened without these.
    pub(super) without: Vec<DeviceId>,
    /// A cache that never wrote back: nothing can be lost with it.
    pub(super) never_back: bool,
    /// Nothing else is asked while this is read.
    pub(super) quiet: bool,
    /// What is left is an older image: there is nothing to compare it with.
    pub(super) over: bool,
}

impl Deaths {
    pub(super) fn new(kind: Kind) -> Deaths {
        Deaths { kind, without: Vec::new(), never_back: kind == Kind::Caching, quiet: false, over: false }
    }
}

impl World {
    /// Every command to a device fails from now on.
    pub(super) fn maybe_die(&mut self) {
        let one_in = self.faults.dies_one_in;
        if one_in == 0 || self.has_dead() || !self.chance(one_in) {
            return;
        }
        let index = self.pick_device();
        self.drive.disks[index].dead = true;
        self.say(&format!("device {index} dies"));
        if self.chance(2) {
            // The driver knows.
            self.drive.device_failed(DeviceId(index as u8));
        }
    }

    pub(super) fn has_dead(&self) -> bool {
        self.drive.disks.iter().any(|disk| disk.dead)
    }

    /// Whether everything that the volume has is on devices that answer.
    pub(super) fn is_given_up(&self) -> bool {
        let some = self.drive.disks.iter().any(|disk| !disk.dead);
        some && (0..self.drive.disks.len())
            .all(|index| !self.drive.disks[index].dead || self.drive.engine.is_gone(DeviceId(index as u8)))
    }

    /// What has to hold at any time.
    pub(super) fn check_losses(&mut self, drive: Option<&Drive>) -> Result<(), String> {
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

    /// A request failed where nothing but a device's death goes wrong: what it is about must be named as lost, unless
    /// that is not known yet.
    pub(super) fn must_be_named(&self, drive: &Drive, error: RequestError, from: u64, to: u64) -> Result<(), String> {
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

    /// Which of the devices the volume is opened without, now that the power is back and a dead one answers again.
    /// `None` where the run cannot go on.
    pub(super) fn revive(&mut self, disks: &mut [Disk]) -> Result<Option<Vec<DeviceId>>, String> {
        let mut without = self.deaths.without.clone();
        for device in &without {
            disks[device.index()].dead = true;
        }
        let died = (0..disks.len()).find(|index| self.drive.disks[*index].dead && !disks[*index].dead);
        let Some(died) = died else { return Ok(Some(without)) };
        let device = DeviceId(died as u8);
        let durable = self.drive.engine.is_durably_gone(device) && disks.len() > 1;
        let mut copy = disks.to_vec();
        let opened = Engine::open_without(self.config.clone(), &mut Direct { disks: &mut copy }, &without);
        let refused = match opened.map(|_| ()) {
            Ok(()) if durable => return Err(format!("device {died} was given up, and is accepted with what it held")),
            Ok(()) => false,
            Err(OpenError::LeftOut { device: named, .. }) if named == died && self.drive.engine.is_gone(device) => true,
            Err(error) => return Err(format!("device {died} is back, given up: {durable}; {error}")),
        };
        // A log that is gone takes what its map said with it: the primary alone has an older image.
        let image = self.deaths.kind == Kind::Logging && device == DeviceId(0);
        if disks.len() > 1 && (refused || !image && self.chance(2)) {
            let mut copy = disks.to_vec();
            copy[died].dead = true;
            without.push(device);
            match Engine::open_without(self.config.clone(), &mut Direct { disks: &mut copy }, &without) {
                Ok(_) if image => return Ok(None),
                Ok(_) => {
                    self.say(&format!("--- device {died} stays away"));
                    disks[died].dead = true;
                }
                // Nobody can tell what was dirty, unless nothing ever was.
                Err(OpenError::Untracked { .. }) if !refused && !self.deaths.never_back => {
                    without.pop();
                }
                Err(error) => return Err(format!("without device {died}: {error}")),
            }
        }
        Ok(Some(without))
    }

    /// Makes what came back, with what it held, an empty member of the volume again, now and then; the power may go
    /// meanwhile. Says whether it tried.
    pub(super) fn maybe_replace(&mut self, disks: &mut Vec<Disk>, without: &mut Vec<DeviceId>) -> Result<bool, String> {
        let has_map = matches!(self.deaths.kind, Kind::Tiering | Kind::Caching | Kind::Partitioned);
        let [device] = without[..] else { return Ok(false) };
        if !has_map || !self.chance(3) {
            return Ok(false);
        }
        let index = device.index();
        disks[index].dead = false;
        disks[index].bad.clear();
        let left = if self.chance(2) { self.rng.random_range(0..48) } else { u32::MAX };
        let mut storage = Fused::new(disks, left);
        let replaced = Engine::replace(self.config.clone(), &mut storage, device, false).map(|_| ());
        let (blown, in_flight) = (storage.blown, storage.in_flight.take());
        *disks = self.cut(disks, in_flight);
        match replaced {
            Ok(()) => self.say(&format!("--- device {index} is replaced")),
            Err(_) if blown => {
                self.say("--- the power goes while a device is replaced");
                let mut copy = disks.clone();
                if Engine::open(self.config.clone(), &mut Direct { disks: &mut copy }).is_err() {
                    disks[index].dead = true;
                    return Ok(true);
                }
            }
            Err(error) => return Err(format!("device {index} cannot be replaced: {error}")),
        }
        // What only the disk had is lost in a cache, too.
        self.deaths.never_back &= device != DeviceId(1);
        without.clear();
        Ok(true)
    }
}
