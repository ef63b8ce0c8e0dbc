//! Devices are replaced while the volume is served: a disk that was used for something else is filled and put in charge. Whenever the
//! power goes or the process dies meanwhile, one of the two disks is in charge, and the other one is refused.

use peryton_engine::{DeviceId, OpenError, SuccessionEnd, SuccessionPlan, SuccessionStage};
use peryton_units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    disk::{Disk, Tag},
    drive::{Direct, Drive},
    memory::Memory,
    world::{World, say},
};

/// The tags of what was on the new disks lie below those of writes.
const USED_BEFORE: Tag = 1 << 23;
/// One run in this many replaces devices.
const ONE_IN: u32 = 3;

/// What is drawn about the replacement of devices. It has random numbers of its own, so that the other runs are the same as before it
/// was simulated.
#[derive(Debug)]
pub(crate) struct Successions {
    rng: Pcg64Mcg,
    /// One step in this many begins to replace a device; 0: none does.
    begins_one_in: u32,
    /// One step in this many puts the new one in charge, once everything is copied.
    succeeds_one_in: u32,
    /// Whether a device was being replaced when the last generation ended.
    pub(crate) is_under_way: bool,
    /// The device that was being replaced then, and the one of its two disks that was not found in charge.
    other: Option<(usize, Disk)>,
    /// The probability in percent that a command of the new disk that is chosen for completion is completed.
    pub(crate) speed: u32,
}

impl Successions {
    pub(crate) fn new(seed: u64, replaces: Option<bool>) -> Successions {
        let mut rng = Pcg64Mcg::seed_from_u64(seed ^ 0x7375_6363);
        let drawn = rng.random_range(0..ONE_IN) == 0;
        let begins = [10, 30, 100][rng.random_range(0..3)];
        Successions {
            begins_one_in: if replaces.unwrap_or(drawn) { begins } else { 0 },
            succeeds_one_in: [1, 5, 30][rng.random_range(0..3)],
            is_under_way: false,
            other: None,
            speed: [100, 100, 30, 5][rng.random_range(0..4)],
            rng,
        }
    }
}

impl World {
    /// Of more than two devices, one alone may have recorded which of two disks is in charge. Without that device it is the other disk.
    pub(crate) fn other_disk(&mut self, device: usize) -> Option<Disk> {
        self.succession.other.take_if(|(named, _)| *named == device).map(|(_, disk)| disk)
    }

    /// Begins to replace a device now and then, puts the new one in charge, or stops.
    pub(crate) fn maybe_succeed(&mut self) {
        self.end_succession();
        self.take_away();
        let count = self.devices();
        let Successions { rng, begins_one_in, succeeds_one_in, .. } = &mut self.succession;
        if *begins_one_in == 0 || count < 2 {
            return;
        }
        let Some(succession) = self.drive.engine.succession(0) else {
            let clear = self.drive.engine.gone() == 0 && self.drive.disks.len() == count;
            if !clear || self.drive.disks.iter().any(|disk| disk.dead) || rng.random_range(0..*begins_one_in) > 0 {
                return;
            }
            let index = rng.random_range(0..count);
            let before = if rng.random_bool(0.5) { 0 } else { USED_BEFORE };
            let disk = self.drive.disks[index].another(|sector| if before > 0 { before + sector as Tag } else { 0 });
            let plan = SuccessionPlan {
                device: DeviceId(index as u8),
                size: disk.size(),
                rate: [Bytes::ZERO, Bytes::mib(20)][rng.random_range(0..2)],
                // The model knows nothing of sectors that read as zeros because the old disk could not read them.
                accept_loss: false,
            };
            self.drive.disks.push(disk);
            let begun = self.drive.call(|engine, now, out| engine.replace_in_service(now, plan, out));
            say!(self, "--- device {index} is to be replaced: {begun:?}");
            if begun.is_err() {
                self.drive.disks.pop();
            }
            return;
        };
        if succession.stage == SuccessionStage::Copied && rng.random_range(0..*succeeds_one_in) == 0 {
            let begun = self.drive.call(|engine, now, out| engine.succeed(now, out));
            say!(self, "--- the successor of device {} is to be in charge: {begun:?}", succession.plan.device.0);
        } else if rng.random_range(0..400) == 0 {
            self.drive.call(|engine, now, out| engine.stop_replacing(now, out));
            say!(self, "--- replacing is stopped");
        }
        self.end_succession();
    }

    fn end_succession(&mut self) {
        let Some(end) = self.drive.engine.take_succession_end() else { return };
        say!(self, "--- replacing has ended: {end:?}");
        self.outcome.successions += u64::from(end == SuccessionEnd::Succeeded);
    }

    /// Takes the disk away that is not part of the volume, once nothing is under way on it.
    fn take_away(&mut self) {
        let count = self.devices();
        let is_used = self.drive.pending.iter().any(|pending| pending.disk().index() >= count);
        if !is_used && self.drive.engine.succession(0).is_none() {
            self.drive.disks.truncate(count);
        }
    }

    /// Of a disk and the one that takes its place, the one that is part of the volume. The other one has to be refused.
    pub(crate) fn in_charge(&mut self, mut disks: Vec<Disk>, memory: Option<&Memory>) -> Result<Vec<Disk>, String> {
        self.succession.is_under_way = disks.len() > self.devices();
        self.succession.other = None;
        if !self.succession.is_under_way {
            return Ok(disks);
        }
        let spare = disks.pop().expect("there is one more than the volume has");
        let succession = self.drive.engine.succession(0);
        // It may have ended since the last step.
        let Some(succession) = succession else { return Ok(disks) };
        let device = succession.plan.device.index();
        let mut others = disks.clone();
        others[device] = spare;
        let is_refused = |disks: &[Disk]| {
            let mut disks = disks.to_vec();
            // A disk that has died says something else, and what it holds is looked at when it is back.
            disks.iter_mut().for_each(|disk| disk.dead = false);
            let opened = Drive::try_open(&self.config, &mut Direct { disks: &mut disks, memory });
            let of_device = |named: &usize| *named == device;
            let refused = matches!(
                &opened,
                Err(OpenError::Replaced { device: named } | OpenError::Aside { device: named }
                    | OpenError::NotFormatted { device: named } | OpenError::Damaged { device: named, .. })
                    if of_device(named)
            );
            (refused, opened)
        };
        let (own, other) = (is_refused(&disks), is_refused(&others));
        let (chosen, other) = match (own, other) {
            ((false, _), (true, _)) => (disks, others.swap_remove(device)),
            ((true, _), (false, _)) => (others, disks.swap_remove(device)),
            // The device that was to record it has died meanwhile, and is not part of the volume any more.
            ((false, _), (false, _)) if self.drive.engine.gone() != 0 => return Ok(disks),
            ((_, one), (_, other)) => {
                return Err(format!("of device {device} and its successor not one is in charge: {one:?}, {other:?}"));
            }
        };
        self.succession.other = Some((device, other));
        disks = chosen;
        // What says so may be in a cache. The next opening flushes all disks before it relies on that. If the power fails before, the other
        // disk may be in charge, which is the same as if it had failed in the first place.
        if succession.stage == SuccessionStage::Succeeding {
            disks.iter_mut().for_each(Disk::write_out);
        }
        Ok(disks)
    }
}
