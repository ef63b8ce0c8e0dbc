//! The known health and state of the drives beneath a volume: written by the threads of the drives, copied by all other threads.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::report::DriveHealth;
use crate::block::{Beneath, Linux, PhysicalDrive};

/// A drive beneath a volume.
#[derive(Clone, Debug)]
pub(crate) struct DriveRow {
    pub(crate) about: PhysicalDrive,
    /// The volume's devices that lie on it, one bit each; none if it is not beneath the volume any more.
    pub(crate) devices: u32,
    /// The last reading that had all figures.
    pub(crate) health: Option<DriveHealth>,
    /// When that was.
    pub(crate) read: Option<Instant>,
    /// Why the last reading failed, or brought nothing.
    pub(crate) error: Option<String>,
    /// When the reading began that has not ended yet.
    pub(crate) asked: Option<Instant>,
    /// The bytes written to its flash at the first reading, and at the last.
    pub(crate) nand: Option<(u64, u64)>,
    /// At the most this much energy it has drawn since the first reading, by the descriptors of its power states, in microjoules.
    pub(crate) most_energy_uj: Option<u64>,
}

impl DriveRow {
    /// A drive of which nothing is known yet, beneath these devices.
    pub(super) fn new(about: PhysicalDrive, devices: u32) -> DriveRow {
        DriveRow {
            about,
            devices,
            health: None,
            read: None,
            error: None,
            asked: None,
            nand: None,
            most_energy_uj: None,
        }
    }
}

/// A device of the volume.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRow {
    /// The places of its drives in the table.
    pub(crate) drives: Vec<usize>,
    pub(crate) is_mirror: bool,
    /// Why there are no drives, or not all.
    pub(crate) without: Vec<String>,
    /// Why it cannot be put into standby.
    pub(crate) cannot_rest: Option<String>,
    /// The number of the block device, if it is one.
    pub(crate) number: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) drives: Vec<DriveRow>,
}

/// The table. No thread holds its lock while it waits for a drive.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// How often drives are read; `None`: never.
    pub(crate) every: Option<Duration>,
    rows: Mutex<Rows>,
    /// Devices that are to rest, one bit each. The loop clears a device's bit when it uses the device.
    pub(crate) rests: AtomicU32,
    /// Devices all of whose drives count what is written to their flash, one bit each.
    pub(crate) counts_programs: AtomicU32,
}

impl Table {
    /// Looks for the drives beneath these paths; `None` for a device that is not there.
    pub(crate) fn new(linux: &Linux, paths: &[Option<PathBuf>], every: Option<Duration>) -> Table {
        let mut rows = Rows::default();
        for (index, path) in paths.iter().enumerate() {
            let beneath = path.as_ref().map(|path| linux.beneath(path)).unwrap_or_default();
            let mut row = DeviceRow::new(path.as_deref(), &beneath);
            let place = |about: PhysicalDrive| rows_of(&mut rows.drives, about, index);
            row.drives = beneath.drives.into_iter().map(place).collect();
            rows.devices.push(row);
        }
        Table { every, rows: Mutex::new(rows), ..Table::default() }
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies of the rows of the drives that are beneath the volume.
    pub(crate) fn drives(&self) -> Vec<DriveRow> {
        self.rows().drives.iter().filter(|row| row.devices != 0).cloned().collect()
    }

    /// The number of a device, if it is a block device that is there.
    pub(crate) fn number(&self, device: usize) -> Option<u64> {
        self.rows().devices.get(device)?.number
    }

    /// Another device is in this place, or none: looks for the drives beneath it. `is_free` says of a place in the table that no thread
    /// writes to it. Returns the places whose drives are not watched any more, and those whose drives are to be watched; no place is at
    /// `most` or above.
    pub(super) fn follow(
        &self,
        device: usize,
        (path, beneath): (Option<&Path>, Beneath),
        is_free: impl Fn(usize) -> bool,
        most: usize,
    ) -> (Vec<usize>, Vec<usize>) {
        let mut rows = self.rows();
        let Rows { devices, drives, .. } = &mut *rows;
        let bit = 1 << device;
        let mut row = DeviceRow::new(path, &beneath);
        let (mut over, mut wanted) = (Vec::new(), Vec::<(PhysicalDrive, u32)>::new());
        for (place, old) in drives.iter_mut().enumerate().filter(|(_, old)| old.devices != 0) {
            let is_beneath = beneath.drives.iter().any(|drive| drive.name == old.about.name);
            if old.devices & bit == 0 && !is_beneath {
                continue;
            }
            over.push(place);
            let others = std::mem::take(&mut old.devices) & !bit;
            if others != 0 && !is_beneath {
                wanted.push((old.about.clone(), others));
            } else if is_beneath {
                wanted.push((old.about.clone(), others | bit));
            }
        }
        for drive in beneath.drives {
            match wanted.iter_mut().find(|(about, _)| about.name == drive.name) {
                Some((about, _)) => *about = drive,
                None => wanted.push((drive, bit)),
            }
        }
        devices.iter_mut().for_each(|row| row.drives.retain(|place| !over.contains(place)));
        let mut new = Vec::new();
        for (about, of) in wanted {
            let free = (0..drives.len()).find(|place| drives[*place].devices == 0 && is_free(*place));
            let place = free.unwrap_or(drives.len());
            if place >= most {
                row.without.push(format!("{}: too many drives are watched", about.name));
                continue;
            }
            let drive = DriveRow::new(about, of);
            if place < drives.len() {
                drives[place] = drive
            } else {
                drives.push(drive)
            }
            new.push(place);
            let on_it = devices.iter_mut().enumerate().filter(|(index, _)| of >> index & 1 == 1);
            on_it.for_each(|(_, row)| row.drives.push(place));
        }
        row.drives = std::mem::take(&mut devices[device].drives);
        devices[device] = row;
        self.counts_programs.fetch_and(!bit, Ordering::AcqRel);
        (over, new)
    }

    /// Why a device cannot rest.
    pub(crate) fn cannot_rest(&self, device: usize) -> Option<String> {
        self.rows().devices.get(device)?.cannot_rest.clone()
    }

    /// Whether all devices on a drive are to rest.
    pub(crate) fn may_rest(&self, drive: usize) -> bool {
        let devices = self.rows().drives[drive].devices;
        devices != 0 && self.rests.load(Ordering::Acquire) & devices == devices
    }

    /// The drives of a device, and what is known of them, for the status.
    pub(crate) fn status(&self, device: usize) -> Value {
        let rows = self.rows();
        let Some(about) = rows.devices.get(device) else { return Value::Null };
        let Some(every) = self.every else { return json!({ "not_read": ["--health is off"] }) };
        let drives: Vec<Value> = about.drives.iter().map(|drive| rows.drives[*drive].status(every)).collect();
        json!({ "drives": drives, "not_read": about.without })
    }
}

impl DeviceRow {
    /// A device with what is beneath it, but for the places of its drives.
    fn new(path: Option<&Path>, beneath: &Beneath) -> DeviceRow {
        let Beneath { drives, without, is_mirror, is_block_device } = beneath;
        let cannot_rest = match () {
            () if path.is_none() => Some("it is not there".to_owned()),
            () if !is_block_device => Some("it is a file, whose drive others use".to_owned()),
            () if drives.is_empty() => Some(without.first().cloned().unwrap_or_else(|| "it has no drive".to_owned())),
            () => drives.iter().find_map(PhysicalDrive::never_rests),
        };
        let number =
            path.and_then(|path| std::fs::metadata(path).ok()).filter(|about| about.file_type().is_block_device());
        let number = number.map(|about| about.rdev());
        DeviceRow { drives: Vec::new(), is_mirror: *is_mirror, without: without.clone(), cannot_rest, number }
    }
}

/// The place of a drive in the table.
fn rows_of(drives: &mut Vec<DriveRow>, about: PhysicalDrive, device: usize) -> usize {
    let bit = 1 << device;
    if let Some(place) = drives.iter().position(|row| row.about.name == about.name) {
        drives[place].devices |= bit;
        return place;
    }
    drives.push(DriveRow::new(about, bit));
    drives.len() - 1
}

impl Rows {
    /// What was written to the flash beneath a device since its drives were first read; `None` if one of them does not count that.
    pub(crate) fn programmed(&self, device: usize) -> Option<u64> {
        let about = &self.devices[device];
        let each = about.drives.iter().map(|drive| {
            let (first, last) = self.drives[*drive].nand?;
            Some(last.saturating_sub(first))
        });
        let each: Vec<u64> = each.collect::<Option<_>>()?;
        // Each drive of a mirror has all that is written.
        if about.is_mirror { each.into_iter().max() } else { each.into_iter().reduce(u64::saturating_add) }
    }

    /// The share of its life, in parts per million, that the most worn drive of a device has used up, and for how many hours it had power.
    pub(crate) fn worn(&self, device: usize) -> Option<(u32, Option<u64>)> {
        let drives = self.devices[device].drives.iter().filter_map(|drive| self.drives[*drive].health.as_ref());
        let most = drives.filter_map(|health| Some((health.used_ppm()?, health))).max_by_key(|(used, _)| *used)?;
        Some((most.0, most.1.power_on_hours))
    }
}

impl DriveRow {
    fn status(&self, every: Duration) -> Value {
        let ago = |then: Option<Instant>| then.map(|then| then.elapsed().as_secs_f64());
        // A drive that does not answer for so long will hardly answer any more.
        let hangs = ago(self.asked).filter(|since| *since > every.as_secs_f64().max(60.0));
        let mut error = self.error.clone();
        if let Some(since) = hangs {
            error = Some(format!("the drive has not answered for {since:.0} s"));
        }
        json!({
            "drive": self.about.name,
            "read_s_ago": ago(self.read),
            "error": error,
            "health": self.health,
            "most_energy_j": self.most_energy_uj.map(|energy| energy as f64 / 1e6),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Protocol;

    fn drive(name: &str) -> PhysicalDrive {
        PhysicalDrive { name: name.to_owned(), node: name.into(), protocol: Protocol::Nvme, is_restarted: false }
    }

    fn device(drives: &[usize], is_mirror: bool) -> DeviceRow {
        DeviceRow { drives: drives.to_vec(), is_mirror, without: vec![], cannot_rest: None, number: None }
    }

    /// Three drives: a mirror of the first two, and a stripe of the last two.
    fn rows() -> Rows {
        let mut rows = Rows::default();
        for (device, name) in [(0, "nvme0n1"), (0, "nvme1n1"), (1, "nvme1n1"), (1, "nvme2n1")] {
            rows_of(&mut rows.drives, drive(name), device);
        }
        rows.devices = vec![device(&[0, 1], true), device(&[1, 2], false), device(&[], false)];
        rows
    }

    #[test]
    fn the_flash_of_a_mirror_counts_once_and_of_a_stripe_together() {
        let mut rows = rows();
        assert_eq!(rows.drives.len(), 3);
        assert_eq!((rows.drives[0].devices, rows.drives[1].devices), (1, 3));
        (rows.drives[0].nand, rows.drives[1].nand) = (Some((100, 150)), Some((1000, 1070)));
        assert_eq!((rows.programmed(0), rows.programmed(1), rows.programmed(2)), (Some(70), None, None));
        rows.drives[2].nand = Some((0, 7));
        assert_eq!(rows.programmed(1), Some(77));
    }

    #[test]
    fn the_most_worn_drive_counts() {
        let mut rows = rows();
        assert_eq!(rows.worn(0), None);
        for (place, used, hours) in [(0, 3, 10), (1, 12, 4)] {
            rows.drives[place].health =
                Some(DriveHealth { percentage_used: Some(used), power_on_hours: Some(hours), ..DriveHealth::of("") });
        }
        assert_eq!(
            (rows.worn(0), rows.worn(1), rows.worn(2)),
            (Some((120_000, Some(4))), Some((120_000, Some(4))), None)
        );
    }

    #[test]
    fn a_drive_rests_when_all_devices_on_it_do() {
        let table = Table { rows: Mutex::new(rows()), ..Table::default() };
        table.rests.store(1, Ordering::Release);
        assert_eq!([0, 1, 2].map(|drive| table.may_rest(drive)), [true, false, false]);
        table.rests.store(3, Ordering::Release);
        assert_eq!([0, 1, 2].map(|drive| table.may_rest(drive)), [true, true, true]);
    }

    /// The fear: what the drive of a device says that was taken out goes on being said of the one in its place, or the drive of another
    /// device is not watched any more.
    #[test]
    fn the_drives_of_a_new_device_take_the_place_of_the_old_ones() {
        let table = Table { rows: Mutex::new(rows()), ..Table::default() };
        table.counts_programs.store(3, Ordering::Release);
        let beneath =
            |names: &[&str]| Beneath { drives: names.iter().map(|name| drive(name)).collect(), ..Beneath::default() };
        // The mirror, half of which is part of the stripe, by one new drive.
        let (over, new) = table.follow(0, (None, beneath(&["nvme3n1"])), |_| false, 64);
        assert_eq!((over, new), (vec![0, 1], vec![3, 4]));
        let of = |device: usize| -> Vec<String> {
            let rows = table.rows();
            rows.devices[device].drives.iter().map(|place| rows.drives[*place].about.name.clone()).collect()
        };
        assert_eq!((of(0), of(1)), (vec!["nvme3n1".to_owned()], vec!["nvme2n1".to_owned(), "nvme1n1".to_owned()]));
        assert_eq!((table.drives().len(), table.counts_programs.load(Ordering::Acquire)), (3, 2));
        assert!(!table.may_rest(0), "it is not beneath the volume any more");
        // Places are used again when their threads have ended, and there are no more than may be.
        let (over, new) = table.follow(0, (None, beneath(&["nvme4n1", "nvme5n1"])), |place| place == 0, 5);
        assert_eq!((over, new), (vec![4], vec![0]));
        assert_eq!((of(0), table.rows().devices[0].without.len()), (vec!["nvme4n1".to_owned()], 1));
    }

    #[test]
    fn files_are_said_to_have_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let table = Table::new(&Linux::default(), &[Some(file.path().to_owned()), None], Some(Duration::from_secs(1)));
        assert!(table.cannot_rest(0).unwrap().contains("file"));
        assert!(table.cannot_rest(1).unwrap().contains("not there"));
        assert!(table.status(0)["drives"].is_array());
    }
}
