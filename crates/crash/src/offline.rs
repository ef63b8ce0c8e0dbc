//! What happens to the devices while the power is off: metadata rots, wrong disks stand in for the right ones, a dead
//! device answers again, and an empty device replaces it.

use peryton_engine::{DeviceId, Engine, Formatting, Logging, OpenError, Placement, ReadmitError, VolumeId, closed};
use peryton_units::Bytes;
use rand::{Rng, RngExt};

use crate::{
    design::Kind,
    disk::{Disk, SECTOR, Tag},
    drive::{Direct, Interruptible},
    ends::{End, Left},
    world::World,
};

/// The tag that stands for a write by a program other than Peryton.
const STRANGE: Tag = Tag::MAX - 1;
/// The tag that stands for data that has rotted.
const ROTTEN: Tag = Tag::MAX - 2;
/// What the error says by which a log is refused that has such data.
const NAMEABLE: &str = "part of the data in the log is damaged";
/// What the error says by which a volume is refused whose metadata does not say what the missing device has.
const UNTRACKED: &str = "no metadata says which data it has";

impl World {
    /// Flips bits in the metadata of one device or makes its sectors unreadable. Recovery must use the other device's
    /// copy.
    pub(crate) fn damage_metadata(&mut self, disks: &mut [Disk]) {
        // With a device missing, the other has the only copy of the metadata.
        // Of two superblocks one may be the only one that says which of two devices is in charge.
        let is_alone = self.succession.is_under_way || self.resizes.is_cut_short;
        if !self.faults.rots || is_alone || !self.deaths.without.is_empty() || self.has_dead() || self.chance(2) {
            return;
        }
        // If commits went to the fast device alone, only the slow device's metadata has another copy.
        let first = usize::from(!self.faults.mirrored || disks.len() == 1);
        if first >= disks.len() {
            return;
        }
        let index = self.rng.random_range(first..disks.len());
        let used = self.drive.engine.device_bytes()[index];
        let disk = &mut disks[index];
        let ends = [0, (used.0 / SECTOR) - 8];
        let blocks: Vec<usize> =
            disk.written_blocks().into_iter().filter(|block| !ends.contains(&disk.sector_of(*block))).collect();
        for block in blocks {
            match self.rng.random_range(0..4) {
                // Most blocks are not full, so half of the flips hit their beginning.
                0 => {
                    let bytes = if self.rng.random_bool(0.5) { 128 } else { 4096 };
                    disk.flip(block, self.rng.random_range(0..bytes * 8));
                }
                1 => {
                    let sector = disk.sector_of(block) + self.rng.random_range(0..8);
                    disk.bad.insert(sector);
                }
                _ => {}
            }
        }
        // Makes one of the device's two superblocks unreadable.
        if self.rng.random_bool(0.5) {
            let end = ends[self.rng.random_range(0..2)];
            disk.bad.insert(end + self.rng.random_range(0..8));
        }
        self.say(&format!("--- metadata of device {index} rots"));
    }

    /// Changes some of the data in a log that was closed. Reads of it must fail, and nothing may move it to the primary. Does nothing
    /// if the engine refuses the log because of it.
    pub(crate) fn rot_log(&mut self, disks: &mut [Disk]) {
        let Placement::Logging(Logging { log, .. }) = self.config.placement else { return };
        if !self.faults.log_rots || !self.deaths.without.is_empty() || self.has_dead() || self.chance(2) {
            return;
        }
        let mut copy = disks.to_vec();
        for _ in 0..self.rng.random_range(1..4) {
            copy[log.index()].rot(ROTTEN, &mut self.rng);
        }
        if self.try_open(copy.clone()).is_ok() {
            disks.clone_from_slice(&copy);
            self.deaths.rotten = true;
            self.say("--- data in the log rots");
        }
    }

    /// Whether an error rightly refuses the volume, which ends the run: data of a log has rotted, and `repair` would name what is
    /// lost; or the power failed during a recovery without a device, when only what was volatile knew what that device has.
    pub(crate) fn is_rightly_refused(&self, error: &str) -> bool {
        self.deaths.rotten && error.contains(NAMEABLE) || self.deaths.forgotten && error.contains(UNTRACKED)
    }

    /// Checks that the engine refuses disks that do not belong to the volume, and that the error names the device.
    pub(crate) fn impostors(&mut self, disks: &[Disk], closed: bool) -> Result<(), String> {
        if disks.iter().any(|disk| disk.dead) {
            self.before = None;
            return Ok(());
        }
        let stand_in = self.rng.random_range(0..disks.len());
        let device = stand_in;
        if let Some(before) = self.before.take()
            && disks.len() > 1
            && self.chance(2)
        {
            let mut mixed = disks.to_vec();
            mixed[stand_in] = before[stand_in].clone();
            match self.try_open(mixed) {
                Err(OpenError::Stale { device: named, .. } | OpenError::Replaced { device: named })
                    if named == device => {}
                // The new device is not the one in charge according to this copy.
                Err(OpenError::Aside { device: named }) if named != device => {}
                other => return Err(format!("a copy of device {device} from a generation before: {other:?}")),
            }
        }
        self.before = self.chance(2).then(|| disks.to_vec());
        if disks.len() > 1 && self.chance(16) {
            let mut foreign = disks.to_vec();
            let volume = VolumeId(u128::from(self.rng.next_u64()) << 64);
            let new = Formatting { volume, unix_s: 1, zeroed: false, notes: String::new() };
            Engine::format(&self.plan.config, new, &mut Direct::new(&mut foreign))
                .map_err(|error| format!("formatting again: {error}"))?;
            let mut mixed = disks.to_vec();
            mixed[stand_in] = foreign[stand_in].clone();
            match self.try_open(mixed) {
                Err(OpenError::Foreign { .. }) => {}
                other => return Err(format!("device {device} of another volume: {other:?}")),
            }
        }
        if disks.len() > 1 && self.chance(8) {
            let mut missing = disks.to_vec();
            missing[stand_in].dead = true;
            match self.try_open(missing) {
                Err(OpenError::Missing { device: named }) if named == device => {}
                other => return Err(format!("without device {device}: {other:?}")),
            }
        }
        let (from, _) = disks[stand_in].data();
        let unreadable = disks[stand_in].is_bad(Bytes(from * SECTOR), Bytes::kib(4));
        if closed && !unreadable && self.chance(2) {
            let mut changed = disks.to_vec();
            // Sector 2 is where ext4 has its superblock.
            changed[stand_in].scribble(2, STRANGE);
            match self.try_open(changed) {
                Err(OpenError::Changed { device: named }) if named == device => {}
                other => return Err(format!("device {device}, written to by another program: {other:?}")),
            }
        }
        Ok(())
    }

    fn try_open(&self, mut disks: Vec<Disk>) -> Result<(), OpenError> {
        Engine::open(self.config.clone(), &mut Direct::new(&mut disks)).map(|_| ())
    }

    /// Decides which devices the volume is opened without, now that the power is back and a dead device answers again.
    /// Returns `None` if the run cannot continue.
    pub(crate) fn revive(&mut self, disks: &mut [Disk], left: &mut Left) -> Result<Option<Vec<DeviceId>>, String> {
        let mut without = self.deaths.without.clone();
        for device in &without {
            disks[device.index()].dead = true;
        }
        let died = (0..disks.len()).filter(|index| self.drive.disks[*index].dead && !disks[*index].dead);
        // Of two, the one that the other has durably given up is the one that is refused.
        let died = died.min_by_key(|index| !self.drive.engine.is_durably_gone(DeviceId(*index as u8)));
        let Some(died) = died else { return Ok(Some(without)) };
        let durable = self.drive.engine.is_durably_gone(DeviceId(died as u8)) && disks.len() > 1;
        let mut copy = disks.to_vec();
        let mut storage = Direct { disks: &mut copy, memory: left.memory.as_ref() };
        let opened = Engine::open_without(self.config.clone(), &mut storage, &without);
        // If the engine gave both up, one of them may say so of the other although it never flushed that.
        let is_gone = |device: usize| self.drive.engine.is_gone(DeviceId(device as u8));
        let (died, refused) = match opened.map(|_| ()) {
            Ok(()) if durable => return Err(format!("device {died} was given up, and is accepted with what it held")),
            Ok(()) => (died, false),
            Err(OpenError::LeftOut { device: named, .. }) if is_gone(named) && (named == died || !durable) => {
                (named, true)
            }
            Err(error) => return Err(format!("device {died} is back, given up: {durable}; {error}")),
        };
        let device = DeviceId(died as u8);
        // A lost log takes its map with it: the primary alone has an older image.
        let image = self.deaths.kind == Kind::Logging && device == DeviceId(0);
        // Where the others are away, a volume is opened with the device that answers again.
        let others = without.len() + 1 < disks.len();
        if disks.len() > 1 && (refused || !image && self.chance(2) && others) {
            let mut copy = disks.to_vec();
            copy[died].dead = true;
            without.push(device);
            let mut storage = Direct { disks: &mut copy, memory: left.memory.as_ref() };
            let mut opened = Engine::open_without(self.config.clone(), &mut storage, &without);
            if let Err(OpenError::Aside { device: named }) = opened
                && let Some(other) = self.other_disk(named)
            {
                self.say(&format!("--- device {named} is the other disk again"));
                disks[named] = other;
                let mut copy = disks.to_vec();
                copy[died].dead = true;
                let mut storage = Direct { disks: &mut copy, memory: left.memory.as_ref() };
                opened = Engine::open_without(self.config.clone(), &mut storage, &without);
            }
            match opened {
                Ok(_) if image => return Ok(None),
                Ok(_) => {
                    self.say(&format!("--- device {died} stays away"));
                    disks[died].dead = true;
                    left.binds = left.memory.is_some();
                }
                // A cache does not know what was dirty on the lost device, unless it never wrote back.
                Err(OpenError::Untracked { .. }) if !refused && !self.deaths.never_back => {
                    without.pop();
                }
                Err(error) => return Err(format!("without device {died}: {error}")),
            }
        }
        Ok(Some(without))
    }

    /// Whether a map says what a missing device has.
    pub(crate) fn has_map(&self) -> bool {
        matches!(self.deaths.kind, Kind::Tiering | Kind::Caching | Kind::Partitioned)
    }

    /// Whether the device is one of several primaries of a log.
    pub(crate) fn is_primary(&self, device: DeviceId) -> bool {
        matches!(&self.config.placement, Placement::Logging(logging)
            if logging.primaries.len() > 1 && logging.primaries.contains(&device))
    }

    /// Now and then takes back a device that answers again, with the data that it holds, or replaces it by an empty one. The
    /// power may be lost meanwhile. Returns whether it tried.
    pub(crate) fn maybe_replace(
        &mut self,
        disks: &mut Vec<Disk>,
        without: &mut Vec<DeviceId>,
        left: &mut Left,
        closed: bool,
    ) -> Result<bool, String> {
        let [device] = without[..] else { return Ok(false) };
        if !(self.has_map() || self.is_primary(device)) || !self.chance(3) {
            return Ok(false);
        }
        let index = device.index();
        disks[index].dead = false;
        // Data that the device had not flushed when it was given up may be older than what was answered. The model allows
        // that after a power loss only.
        let returns = self.chance(2) && !self.deaths.flushed_since && !left.answered && !closed;
        if !returns && !self.has_map() {
            // An empty primary reads as zeros where data went, which the model does not know.
            disks[index].dead = true;
            return Ok(false);
        }
        if !returns {
            disks[index].bad.clear();
        }
        let calls = if self.chance(2) && !left.binds { self.rng.random_range(0..48) } else { u32::MAX };
        let mut storage = Interruptible::new(disks, left.memory.as_ref(), calls);
        let done = if returns {
            match closed::readmit(self.config.clone(), &mut storage, device) {
                Ok(_) => Ok(()),
                // The map has rotted; the device has not been given up yet; its
                // generation was only announced; an interrupted replacement has blanked its superblocks; or a write to a primary was in
                // doubt.
                Err(
                    ReadmitError::Open(OpenError::NotFormatted { .. } | OpenError::Damaged { .. })
                    | ReadmitError::Damaged { .. }
                    | ReadmitError::NotGone { .. }
                    | ReadmitError::PrimaryOfLog { .. }
                    | ReadmitError::Older { .. },
                ) => {
                    disks[index].dead = true;
                    return Ok(false);
                }
                Err(error) => Err(error.to_string()),
            }
        } else {
            let replaced = closed::replace(self.config.clone(), &mut storage, device, false);
            replaced.map(|_| ()).map_err(|error| error.to_string())
        };
        let (interrupted, in_flight) = (storage.interrupted, storage.in_flight.take());
        *disks = self.cut(disks, in_flight, End::Power);
        left.memory = None;
        left.answered &= done.is_ok();
        match done {
            Ok(()) if returns => self.say(&format!("--- device {index} is back with what it held")),
            Ok(()) => self.say(&format!("--- device {index} is replaced")),
            Err(_) if interrupted => {
                let what = if returns { "comes back" } else { "is replaced" };
                self.say(&format!("--- the power goes while device {index} {what}"));
                let mut copy = disks.clone();
                let opened = Engine::open(self.config.clone(), &mut Direct::new(&mut copy));
                // One that was evacuated is not needed for that, and may still be away.
                if opened.map_or(true, |(_, opened)| opened.gone != 0) {
                    disks[index].dead = true;
                    return Ok(true);
                }
            }
            Err(error) => return Err(format!("device {index} cannot come back: {error}")),
        }
        self.may_have_lost(device, !returns);
        without.clear();
        Ok(true)
    }
}
