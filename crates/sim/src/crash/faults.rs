//! What goes wrong besides the power: commands that fail, sectors that cannot be read, metadata that rots, and disks that
//! are not the ones that belong there.

use peryton_engine::{Engine, Formatting, OpenError, VolumeId};
use peryton_units::Bytes;
use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

use super::{
    design::Kind,
    disk::{Disk, SECTOR, Tag},
    drive::Direct,
    world::World,
};

/// How things fail in this run.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    pub(super) active: bool,
    /// Nothing fails for now.
    pub(super) calm: bool,
    /// One command in so many fails, and has an effect on some sectors at most; 0 for none.
    fail_one_in: u32,
    /// One step in so many a sector of data goes bad; 0 for none.
    bad_one_in: u32,
    /// One step in so many a device dies; 0 for none.
    pub(super) dies_one_in: u32,
    /// A death is all that goes wrong.
    pub(super) deaths_only: bool,
    /// Metadata of one device rots while the power is off.
    rots: bool,
    /// Each commit since the last checkpoint of a recovery went to both devices.
    pub(super) mirrored: bool,
}

/// What a stranger writes.
const STRANGE: Tag = Tag::MAX - 1;

impl Faults {
    pub(super) fn new(kind: Kind, active: bool, rng: &mut Pcg64Mcg) -> Faults {
        if active && rng.random_bool(0.3) {
            let dies_one_in = [60, 150, 400][rng.random_range(0..3)];
            let none = Faults::new(kind, false, rng);
            return Faults { active: true, dies_one_in, deaths_only: true, ..none };
        }
        let mut pick = |from: [u32; 4]| if active { from[rng.random_range(0..4)] } else { 0 };
        Faults {
            deaths_only: false,
            active,
            calm: false,
            fail_one_in: pick([0, 30, 100, 300]),
            bad_one_in: if kind == Kind::Logging { 0 } else { pick([0, 0, 30, 200]) },
            dies_one_in: pick([0, 0, 0, 150]),
            // A log has no second copy: what rots in it may keep the volume from being opened.
            rots: pick([0, 0, 1, 1]) == 1 && kind != Kind::Logging,
            mirrored: false,
        }
    }

    /// Whether anything but a device's death goes wrong.
    pub(super) fn fails_at_all(&self) -> bool {
        self.fail_one_in > 0 || self.bad_one_in > 0 || self.rots
    }

    pub(super) fn fails(&self, rng: &mut Pcg64Mcg) -> bool {
        self.fail_one_in > 0 && !self.calm && rng.random_range(0..self.fail_one_in) == 0
    }
}

impl World {
    pub(super) fn pick_device(&mut self) -> usize {
        self.rng.random_range(0..self.drive.disks.len())
    }

    pub(super) fn maybe_break_sector(&mut self) {
        if self.faults.bad_one_in == 0 || self.faults.calm || !self.chance(self.faults.bad_one_in) {
            return;
        }
        let index = self.rng.random_range(0..self.drive.disks.len());
        let (from, len) = self.drive.disks[index].data();
        let sector = from + self.rng.random_range(0..len as u64);
        self.drive.disks[index].bad.insert(sector);
        self.say(&format!("sector {sector} of device {index} goes bad"));
    }

    /// Bits flip in the metadata of one device, or its sectors cannot be read: the other device's copy must do.
    pub(super) fn damage_metadata(&mut self, disks: &mut [Disk]) {
        // What one device has alone has no copy.
        if !self.faults.rots || !self.deaths.without.is_empty() || self.has_dead() || self.chance(2) {
            return;
        }
        // What was written to the fast device alone has no copy.
        let first = usize::from(!self.faults.mirrored || disks.len() == 1);
        if first >= disks.len() {
            return;
        }
        let index = self.rng.random_range(first..disks.len());
        let disk = &mut disks[index];
        let ends = [0, (disk.size().0 / SECTOR) - 8];
        let blocks: Vec<usize> =
            disk.written_blocks().into_iter().filter(|block| !ends.contains(&disk.sector_of(*block))).collect();
        for block in blocks {
            match self.rng.random_range(0..4) {
                // Most blocks are not full: half of the bits are flipped where something is.
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
        // One of its two superblocks.
        if self.rng.random_bool(0.5) {
            let end = ends[self.rng.random_range(0..2)];
            disk.bad.insert(end + self.rng.random_range(0..8));
        }
        self.say(&format!("--- metadata of device {index} rots"));
    }

    /// Disks that do not belong there must be refused, and by name.
    pub(super) fn impostors(&mut self, disks: &[Disk], closed: bool) -> Result<(), String> {
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
                Err(OpenError::Stale { device: named, .. }) if named == device => {}
                other => return Err(format!("a copy of device {device} from a generation before: {other:?}")),
            }
        }
        self.before = self.chance(2).then(|| disks.to_vec());
        if disks.len() > 1 && self.chance(16) {
            let mut foreign = disks.to_vec();
            let volume = VolumeId(u128::from(self.rng.next_u64()) << 64);
            let new = Formatting { volume, unix_s: 1, zeroed: false, notes: String::new() };
            Engine::format(&self.plan.config, new, &mut Direct { disks: &mut foreign })
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
            // Where a file system has its superblock.
            changed[stand_in].scribble(2, STRANGE);
            match self.try_open(changed) {
                Err(OpenError::Changed { device: named }) if named == device => {}
                other => return Err(format!("device {device}, written to by somebody else: {other:?}")),
            }
        }
        Ok(())
    }

    fn try_open(&self, mut disks: Vec<Disk>) -> Result<(), OpenError> {
        Engine::open(self.config.clone(), &mut Direct { disks: &mut disks }).map(|_| ())
    }

    pub(super) fn say(&self, text: &str) {
        if let Some(log) = self.log {
            log(text);
        }
    }
}
