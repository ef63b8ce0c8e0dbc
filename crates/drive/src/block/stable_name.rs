//! Names of devices that stay the same when the machine starts again with other disks: those in `/dev/disk/by-id`.

use std::path::{Path, PathBuf};

use super::{Linux, Number, names};

/// The beginnings of names, the best one first: bus, model and serial number, which are printed on the device; then what identifies
/// arrays and mapped devices; then bare numbers.
const BEST_FIRST: [&str; 14] = [
    "nvme-eui.",
    "nvme-",
    "ata-",
    "scsi-",
    "usb-",
    "virtio-",
    "mmc-",
    "md-uuid-",
    "dm-uuid-",
    "dm-name-",
    "google-",
    "wwn-",
    "md-name-",
    "",
];
/// These say what lies on the device, which formatting overwrites.
const OF_CONTENT: [&str; 1] = ["lvm-pv-uuid-"];

impl Linux {
    /// The best stable name of the block device at this path; `None` if it is no block device, or has none.
    pub fn stable_name(&self, path: &Path) -> Option<PathBuf> {
        let number = Number::at(path)?;
        self.stable_name_of(|other| Number::at(other) == Some(number))
    }

    fn stable_name_of(&self, is_it: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let folder = self.dev.join("disk/by-id");
        let found = names(&folder).into_iter().filter(|name| !OF_CONTENT.iter().any(|kind| name.starts_with(kind)));
        let rank = |name: &String| {
            let rank = BEST_FIRST.iter().position(|kind| name.starts_with(kind)).unwrap_or(BEST_FIRST.len());
            // The number of an NVMe namespace says less than model and serial number.
            (if rank == 0 { BEST_FIRST.len() } else { rank }, name.len(), name.clone())
        };
        found.filter(|name| is_it(&folder.join(name))).min_by_key(rank).map(|name| folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::Made;

    #[test]
    fn the_name_with_model_and_serial_number_is_preferred() {
        let made = Made::new();
        let folder = made.linux.dev.join("disk/by-id");
        let best = |names: &[&str]| {
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir_all(&folder).unwrap();
            names.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
            let found = made.linux.stable_name_of(|path| !path.ends_with("ata-OTHER"));
            found.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).unwrap_or_default()
        };
        assert_eq!(best(&["ata-OTHER", "wwn-0x5000", "ata-ST8000_Z1", "scsi-0ATA"]), "ata-ST8000_Z1");
        assert_eq!(best(&["nvme-eui.0025", "nvme-SSD_990_S1_1", "nvme-SSD_990_S1"]), "nvme-SSD_990_S1");
        assert_eq!(best(&["md-name-host:0", "md-uuid-1:2"]), "md-uuid-1:2");
        assert_eq!(best(&["lvm-pv-uuid-x", "wwn-0x5000"]), "wwn-0x5000");
        assert_eq!(best(&["nvme-eui.0025"]), "nvme-eui.0025");
        assert_eq!(best(&["lvm-pv-uuid-x"]), "");
        assert_eq!(made.linux.stable_name(&folder.join("lvm-pv-uuid-x")), None, "a file has none");
    }
}
