//! What Linux says of block devices: who uses one, what lies beneath it (drives, mirrors), and which names it has. All of it is read from files, so
//! that tests can make them.

mod beneath;
mod in_use;
mod mirrored;
mod stable_name;

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

pub use beneath::{Beneath, PhysicalDrive, Protocol};
pub(crate) use in_use::BackingFile;
pub use mirrored::{Array, Mirrored};
use peryton_units::Bytes;

/// What Linux says of the device at a path, or of the device beneath the file at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceAbout {
    /// Its name, such as `sda1`; none where there is no block device, as beneath tmpfs.
    pub name: Option<String>,
    /// What its maker calls it.
    pub model: Option<String>,
    /// Its size.
    pub size: Option<Bytes>,
    /// Whether seeks are slow on it.
    pub rotational: Option<bool>,
    /// Whether the path is a block device.
    pub is_block_device: bool,
}

/// The units in which flash may map its data, if these are larger than the usual ones.
const LARGE_UNITS: std::ops::RangeInclusive<u64> = 8 << 10..=1 << 20;

/// The files in which Linux describes its block devices.
#[derive(Clone, Debug)]
pub struct Linux {
    sys: PathBuf,
    proc: PathBuf,
    dev: PathBuf,
}

impl Default for Linux {
    fn default() -> Linux {
        Linux { sys: "/sys".into(), proc: "/proc".into(), dev: "/dev".into() }
    }
}

/// A block device in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    /// Its name, such as `sda1`.
    name: String,
    /// Its folder.
    folder: PathBuf,
}

/// The number of a block device: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number(u32, u32);

impl Number {
    fn of(number: u64) -> Number {
        Number(rustix::fs::major(number), rustix::fs::minor(number))
    }

    /// The number of the block device at a path.
    fn at(path: &Path) -> Option<Number> {
        let about = fs::metadata(path).ok()?;
        about.file_type().is_block_device().then(|| Number::of(about.rdev()))
    }

    fn parse(text: &str) -> Option<Number> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Number(major.parse().ok()?, minor.parse().ok()?))
    }
}

impl Linux {
    /// Whether seeks are slow on the block device at this path.
    pub fn is_rotational(&self, path: &Path) -> bool {
        let node = Number::at(path).and_then(|number| self.node(number));
        node.is_some_and(|node| {
            // A partition has no queue of its own.
            node.read("queue/rotational").or_else(|| node.read("../queue/rotational")).as_deref() == Some("1")
        })
    }

    /// The unit in which the flash at this path is best written, if the kernel says that it is larger than a block of 4 KiB: the
    /// device's `minimum_io_size`, which is the granularity that NVMe drives report for writes. Of disks and arrays the same file
    /// says something else (a chunk, for example). A partition that does not begin at such a unit has none.
    pub fn write_unit(&self, path: &Path) -> Option<Bytes> {
        self.write_unit_of(&self.node(Number::at(path)?)?)
    }

    fn write_unit_of(&self, node: &Node) -> Option<Bytes> {
        let disk = node.disk().unwrap_or_else(|| node.clone());
        let unit: u64 = disk.read("queue/minimum_io_size")?.parse().ok()?;
        let starts_at = node.read("start").and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0) * 512;
        let is_flash = disk.read("queue/rotational").as_deref() == Some("0") && disk.list("slaves").is_empty();
        let is_large = unit.is_power_of_two() && LARGE_UNITS.contains(&unit);
        (is_flash && is_large && starts_at.is_multiple_of(unit)).then_some(Bytes(unit))
    }

    /// What is said of the block device with this number: of the device itself, and the model of the disk that it is part of.
    pub(crate) fn described(&self, number: u64) -> Option<DeviceAbout> {
        let node = self.node(Number::of(number))?;
        let disk = node.disk().unwrap_or_else(|| node.clone());
        let sectors = node.read("size").and_then(|text| text.parse::<u64>().ok());
        Some(DeviceAbout {
            model: disk.read("device/model").filter(|model| !model.is_empty()),
            size: sectors.and_then(|sectors| sectors.checked_mul(512)).map(Bytes),
            rotational: disk.read("queue/rotational").map(|text| text == "1"),
            name: Some(node.name),
            is_block_device: true,
        })
    }

    /// The folder of a block device.
    fn node(&self, number: Number) -> Option<Node> {
        let link = self.sys.join(format!("dev/block/{}:{}", number.0, number.1));
        let folder = fs::canonicalize(link).ok()?;
        Some(Node { name: folder.file_name()?.to_string_lossy().into_owned(), folder })
    }

    /// The node of the device with a name that Linux uses, such as `md0`.
    fn named(&self, name: &str) -> Option<Node> {
        let folder = fs::canonicalize(self.sys.join("class/block").join(name)).ok()?;
        Some(Node { name: name.to_owned(), folder })
    }
}

impl Node {
    /// The content of a file in its folder, without blanks at its ends.
    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(file)).ok().map(|text| text.trim().to_owned())
    }

    /// The names in a folder below, in order.
    fn list(&self, below: &str) -> Vec<String> {
        names(&self.folder.join(below))
    }

    fn number(&self) -> Option<Number> {
        Number::parse(&self.read("dev")?)
    }

    fn is_partition(&self) -> bool {
        self.folder.join("partition").exists()
    }

    /// The disk that it is a partition of.
    fn disk(&self) -> Option<Node> {
        let folder = self.is_partition().then(|| self.folder.parent()).flatten()?.to_path_buf();
        Some(Node { name: folder.file_name()?.to_string_lossy().into_owned(), folder })
    }

    /// Its partitions, in the order of their names.
    fn partitions(&self) -> Vec<Node> {
        let below = self.list("").into_iter().map(|name| Node { folder: self.folder.join(&name), name });
        below.filter(Node::is_partition).collect()
    }
}

/// The names in a folder, in order; none if it is not there.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine in a folder: disks with what sysfs says of them, mounts and swap space.
    pub(super) struct Made {
        pub(super) linux: Linux,
        _folder: tempfile::TempDir,
    }

    impl Made {
        pub(super) fn new() -> Made {
            let folder = tempfile::tempdir().unwrap();
            let below = |name: &str| folder.path().join(name);
            let linux = Linux { sys: below("sys"), proc: below("proc"), dev: below("dev") };
            for at in ["sys/dev/block", "sys/class/block", "sys/block", "proc/self", "dev/disk/by-id"] {
                fs::create_dir_all(below(at)).unwrap();
            }
            fs::write(below("proc/swaps"), "Filename\tType\tSize\tUsed\tPriority\n").unwrap();
            fs::write(below("proc/self/mountinfo"), "22 1 0:20 / /proc rw - proc proc rw\n").unwrap();
            Made { linux, _folder: folder }
        }

        /// A device whose name may be `sda/sda1`, a partition.
        pub(super) fn device(&self, name: &str, number: &str, files: &[(&str, &str)]) -> &Made {
            let folder = self.linux.sys.join("devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            let last = name.rsplit('/').next().unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
            if name != last {
                fs::write(folder.join("partition"), "1\n").unwrap();
            }
            for (file, content) in files {
                fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
                fs::write(folder.join(file), format!("{content}\n")).unwrap();
            }
            std::os::unix::fs::symlink(&folder, self.linux.sys.join("dev/block").join(number)).unwrap();
            std::os::unix::fs::symlink(&folder, self.linux.sys.join("class/block").join(last)).unwrap();
            self
        }

        /// `holder` uses `used`.
        pub(super) fn holds(&self, holder: &str, used: &str) -> &Made {
            let last = |name: &str| name.rsplit('/').next().unwrap().to_owned();
            for (folder, name) in [(format!("{used}/holders"), last(holder)), (format!("{holder}/slaves"), last(used))]
            {
                let folder = self.linux.sys.join("devices").join(folder);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(name), "").unwrap();
            }
            self
        }

        pub(super) fn append(&self, file: &str, line: &str) {
            let path = self.linux.proc.join(file);
            fs::write(&path, fs::read_to_string(&path).unwrap() + line + "\n").unwrap();
        }
    }

    #[test]
    fn large_units_are_those_of_flash_that_says_so() {
        let made = Made::new();
        let queue = |rotational, unit| [("queue/rotational", rotational), ("queue/minimum_io_size", unit)];
        made.device("nvme0n1", "259:0", &queue("0", "65536"));
        made.device("nvme0n1/nvme0n1p1", "259:1", &[("start", "2048")]);
        made.device("nvme0n1/nvme0n1p2", "259:2", &[("start", "63")]);
        made.device("nvme1n1", "259:3", &queue("0", "4096"));
        made.device("sda", "8:0", &queue("1", "65536"));
        made.device("md0", "9:0", &queue("0", "65536")).holds("md0", "nvme1n1");
        made.device("nvme2n1", "259:4", &queue("0", "rubbish"));
        let unit = |major, minor| made.linux.write_unit_of(&made.linux.node(Number(major, minor)).unwrap());
        assert_eq!(unit(259, 0), Some(Bytes::kib(64)));
        assert_eq!(unit(259, 1), Some(Bytes::kib(64)), "a partition that begins at a unit");
        assert_eq!(unit(259, 2), None, "and one that does not");
        for (major, minor) in [(259, 3), (8, 0), (9, 0), (259, 4)] {
            assert_eq!(unit(major, minor), None, "{major}:{minor}");
        }
    }

    #[test]
    fn a_partition_is_described_by_its_own_size_and_the_model_of_its_disk() {
        let made = Made::new();
        let about = [("queue/rotational", "1"), ("device/model", "EXAMPLE 9000  "), ("size", "4096")];
        made.device("sda", "8:0", &about).device("sda/sda1", "8:1", &[("size", "1024")]);
        let found = made.linux.described(rustix::fs::makedev(8, 1)).unwrap();
        assert_eq!((found.name.as_deref(), found.model.as_deref()), (Some("sda1"), Some("EXAMPLE 9000")));
        assert_eq!((found.size, found.rotational), (Some(Bytes::kib(512)), Some(true)));
        assert_eq!(made.linux.described(rustix::fs::makedev(8, 9)), None);
    }

    #[test]
    fn a_partition_rotates_as_its_disk_does() {
        let made = Made::new();
        made.device("sda", "8:0", &[("queue/rotational", "1")]).device("sda/sda1", "8:1", &[]);
        made.device("nvme0n1", "259:0", &[("queue/rotational", "0")]);
        let rotates = |number| {
            let node = made.linux.node(number).unwrap();
            node.read("queue/rotational").or_else(|| node.read("../queue/rotational")).as_deref() == Some("1")
        };
        assert!(rotates(Number(8, 0)) && rotates(Number(8, 1)) && !rotates(Number(259, 0)));
        assert!(!made.linux.is_rotational(Path::new("/dev/null")) && !made.linux.is_rotational(Path::new("/none")));
    }
}
