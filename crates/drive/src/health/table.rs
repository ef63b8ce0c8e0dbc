//! What is known of the drives beneath a volume: written by their threads, copied by all others.

use std::{
    path::PathBuf,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{energy::Domain, report::DriveHealth};
use crate::block::{Beneath, Linux, PhysicalDrive};

/// A drive beneath a volume.
#[derive(Clone, Debug)]
pub(crate) struct DriveRow {
    pub(crate) about: PhysicalDrive,
    /// The volume's devices that lie on it, one bit each.
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
    /// At the most so much energy it has drawn since the first reading, by the descriptors of its power states, in microjoules.
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
}

#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) drives: Vec<DriveRow>,
    /// What the machine's processors and memory have used, or why that is not known.
    pub(crate) energy: Option<Result<Vec<Domain>, String>>,
}

/// The table. Nobody holds its lock while waiting for a drive.
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
            let Beneath { drives, without, is_mirror, is_block_device } = beneath;
            let place = |about: PhysicalDrive| rows_of(&mut rows.drives, about, index);
            let drives: Vec<usize> = drives.into_iter().map(place).collect();
            let cannot_rest = match () {
                () if path.is_none() => Some("it is not there".to_owned()),
                () if !is_block_device => Some("it is a file, whose drive others use".to_owned()),
                () if drives.is_empty() => {
                    Some(without.first().cloned().unwrap_or_else(|| "it has no drive".to_owned()))
                }
                () => drives.iter().find_map(|drive| rows.drives[*drive].about.never_rests()),
            };
            rows.devices.push(DeviceRow { drives, is_mirror, without, cannot_rest });
        }
        Table { every, rows: Mutex::new(rows), ..Table::default() }
    }

    pub(crate) fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies of the drives' rows.
    pub(crate) fn drives(&self) -> Vec<DriveRow> {
        self.rows().drives.clone()
    }

    /// Why a device cannot rest.
    pub(crate) fn cannot_rest(&self, device: usize) -> Option<String> {
        self.rows().devices.get(device)?.cannot_rest.clone()
    }

    /// Whether all devices on a drive are to rest.
    pub(crate) fn may_rest(&self, drive: usize) -> bool {
        let devices = self.rows().drives[drive].devices;
        self.rests.load(Ordering::Acquire) & devices == devices
    }

    /// The drives of a device, and what is known of them, for the status.
    pub(crate) fn status(&self, device: usize) -> Value {
        let rows = self.rows();
        let Some(about) = rows.devices.get(device) else { return Value::Null };
        let Some(every) = self.every else { return json!({ "not_read": ["--health is off"] }) };
        let drives: Vec<Value> = about.drives.iter().map(|drive| rows.drives[*drive].status(every)).collect();
        json!({ "drives": drives, "not_read": about.without })
    }

    /// What the machine's domains have used, in microjoules, as far as that is known.
    pub(crate) fn machine_energy_uj(&self) -> Vec<(String, u64)> {
        match &self.rows().energy {
            Some(Ok(domains)) => domains.iter().map(|domain| (domain.name.clone(), domain.used_uj)).collect(),
            _ => Vec::new(),
        }
    }

    /// The energy of the machine, for the status.
    pub(crate) fn energy(&self) -> Value {
        match &self.rows().energy {
            None => Value::Null,
            Some(Err(why)) => json!({ "not_read": why }),
            Some(Ok(domains)) => {
                let of = |domain: &Domain| (domain.name.clone(), json!(domain.used_uj as f64 / 1e6));
                json!({ "machine_j": domains.iter().map(of).collect::<serde_json::Map<_, _>>() })
            }
        }
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
        DeviceRow { drives: drives.to_vec(), is_mirror, without: vec![], cannot_rest: None }
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

    #[test]
    fn files_are_said_to_have_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let table = Table::new(&Linux::default(), &[Some(file.path().to_owned()), None], Some(Duration::from_secs(1)));
        assert!(table.cannot_rest(0).unwrap().contains("file"));
        assert!(table.cannot_rest(1).unwrap().contains("not there"));
        assert!(table.status(0)["drives"].is_array() && table.energy().is_null());
    }
}
