//! The drives that a path leads to: through partitions, md, device mapper, loop devices and file systems.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{Linux, Node, Number};

/// Devices are stacked no deeper than this.
const DEEPEST: usize = 8;
/// No more drives of a path are looked at; an array of more has its health watched elsewhere.
const MOST_DRIVES: usize = 32;

/// The protocol that a drive understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// NVMe.
    Nvme,
    /// SCSI, and ATA by way of it.
    Scsi,
}

/// A drive beneath a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalDrive {
    /// The name that Linux uses, such as `nvme0n1`.
    pub name: String,
    /// The path of its device node.
    pub node: PathBuf,
    /// The protocol that it understands.
    pub protocol: Protocol,
    /// Whether Linux starts the drive again when it says that it was stopped.
    pub is_restarted: bool,
}

/// What lies beneath a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beneath {
    /// The drives, each once, in the order of their names.
    pub drives: Vec<PhysicalDrive>,
    /// Why there is no drive, or less than all of them: a line for each reason.
    pub without: Vec<String>,
    /// Whether what is written is written to each of the drives in full: a mirror.
    pub is_mirror: bool,
    /// Whether the path is a block device, and not a file in a file system that others use as well.
    pub is_block_device: bool,
}

#[derive(Default)]
struct Found {
    drives: BTreeMap<String, PhysicalDrive>,
    without: Vec<String>,
    is_mirror: bool,
}

impl Linux {
    /// The drives beneath the block device or file at this path.
    pub fn beneath(&self, path: &Path) -> Beneath {
        let mut found = Found::default();
        let is_block_device = Number::at(path).is_some();
        self.look_beneath(path, DEEPEST, &mut found);
        found.without.sort_unstable();
        found.without.dedup();
        if found.drives.len() > MOST_DRIVES {
            found.without.push(format!("it has {} drives, of which {MOST_DRIVES} are read", found.drives.len()));
        }
        let is_mirror = found.is_mirror && found.drives.len() > 1;
        let drives = found.drives.into_values().take(MOST_DRIVES).collect();
        Beneath { drives, without: found.without, is_mirror, is_block_device }
    }

    fn look_beneath(&self, path: &Path, depth: usize, found: &mut Found) {
        let Ok(about) = fs::metadata(path) else {
            return found.without.push(format!("{}: it cannot be looked at", path.display()));
        };
        let number = Number::at(path).unwrap_or_else(|| Number::of(about.dev()));
        match self.node(number) {
            Some(node) => self.look_at(&node, depth, found),
            // Such numbers belong to no device: tmpfs, overlay, network file systems, btrfs.
            None => found.without.push(format!("{} is not on a block device of its own", path.display())),
        }
    }

    fn look_at(&self, node: &Node, depth: usize, found: &mut Found) {
        let node = node.disk().unwrap_or_else(|| node.clone());
        let Some(depth) = depth.checked_sub(1) else {
            return found.without.push(format!("{}: too many devices are stacked", node.name));
        };
        let beneath = node.list("slaves");
        if !beneath.is_empty() {
            found.is_mirror |= node.read("md/level").as_deref() == Some("raid1");
            for name in beneath {
                match self.named(&name) {
                    Some(node) => self.look_at(&node, depth, found),
                    None => found.without.push(format!("{name}: Linux does not describe it")),
                }
            }
            return;
        }
        if let Some(file) = node.read("loop/backing_file") {
            return self.look_beneath(Path::new(&file), depth, found);
        }
        match self.drive(&node) {
            Ok(drive) => drop(found.drives.insert(node.name, drive)),
            Err(why) => found.without.push(why),
        }
    }

    fn drive(&self, node: &Node) -> Result<PhysicalDrive, String> {
        let name = &node.name;
        let starts = |prefix: &str| name.starts_with(prefix);
        let none = |what: &str| Err(format!("{name}: {what}"));
        let protocol = match () {
            () if starts("nvme") => Protocol::Nvme,
            () if starts("sd") => Protocol::Scsi,
            () if starts("vd") || starts("xvd") => return none("a virtual disk; its host knows the drive beneath it"),
            () if starts("ram") || starts("zram") => return none("memory, which has no health to read"),
            () if starts("nbd") || starts("rbd") || starts("drbd") => return none("the drive is on another machine"),
            () if starts("ublk") => return none("served by a program, which knows the drive beneath it"),
            () if starts("mmcblk") => return none("health of flash cards is not read"),
            () => return none("no drive whose health can be read"),
        };
        let scsi = node.list("device/scsi_disk").into_iter().next();
        let restarts = scsi.and_then(|disk| node.read(&format!("device/scsi_disk/{disk}/allow_restart")));
        Ok(PhysicalDrive {
            // In sysfs `!` stands for `/`.
            node: self.dev.join(name.replace('!', "/")),
            name: name.clone(),
            protocol,
            is_restarted: restarts.as_deref() == Some("1"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Made, *};

    fn beneath(made: &Made, minor: u32) -> Beneath {
        let mut found = Found::default();
        made.linux.look_at(&made.linux.node(Number(8, minor)).unwrap(), DEEPEST, &mut found);
        let is_mirror = found.is_mirror && found.drives.len() > 1;
        Beneath {
            drives: found.drives.into_values().collect(),
            without: found.without,
            is_mirror,
            is_block_device: true,
        }
    }

    fn names(beneath: &Beneath) -> Vec<&str> {
        beneath.drives.iter().map(|drive| drive.name.as_str()).collect()
    }

    #[test]
    fn each_drive_beneath_a_stack_is_found_once() {
        let made = Made::new();
        made.device("nvme0n1", "8:0", &[]).device("nvme0n1/nvme0n1p2", "8:1", &[]);
        made.device("sda", "8:2", &[("device/scsi_disk/0:0:0:0/allow_restart", "1")]).device("sda/sda1", "8:3", &[]);
        made.device("md127", "8:4", &[("md/level", "raid1")]).device("dm-0", "8:5", &[]).device("dm-1", "8:6", &[]);
        made.holds("md127", "nvme0n1/nvme0n1p2").holds("md127", "sda/sda1").holds("dm-0", "md127");
        made.holds("dm-1", "sda/sda1").holds("dm-1", "sda");
        let all = beneath(&made, 5);
        assert_eq!((names(&all), all.is_mirror), (vec!["nvme0n1", "sda"], true));
        assert_eq!(all.drives[0].node, made.linux.dev.join("nvme0n1"));
        assert_eq!((all.drives[0].protocol, all.drives[1].protocol), (Protocol::Nvme, Protocol::Scsi));
        assert_eq!((all.drives[0].is_restarted, all.drives[1].is_restarted), (false, true));
        let one = beneath(&made, 6);
        assert_eq!((names(&one), one.is_mirror), (vec!["sda"], false));
        assert_eq!(names(&beneath(&made, 1)), ["nvme0n1"]);
    }

    #[test]
    fn it_says_where_there_is_no_drive() {
        for (name, said) in [("vda", "its host"), ("ram0", "memory"), ("nbd3", "another machine"), ("sr0", "no drive")]
        {
            let made = Made::new();
            made.device(name, "8:0", &[]);
            let none = beneath(&made, 0);
            assert!(none.drives.is_empty() && none.without[0].contains(said), "{none:?}");
        }
        let made = Made::new();
        let none = made.linux.beneath(Path::new("/none"));
        assert!(none.drives.is_empty() && none.without[0].contains("/none"), "{none:?}");
        let file = made.linux.dev.join("a file");
        fs::write(&file, "").unwrap();
        let none = made.linux.beneath(&file);
        assert!(none.drives.is_empty() && !none.is_block_device && none.without[0].contains("a file"), "{none:?}");
    }

    #[test]
    fn devices_that_are_stacked_in_a_circle_end() {
        let made = Made::new();
        made.device("dm-0", "8:0", &[]).device("dm-1", "8:1", &[]).holds("dm-0", "dm-1").holds("dm-1", "dm-0");
        assert!(beneath(&made, 0).without[0].contains("stacked"));
    }
}
