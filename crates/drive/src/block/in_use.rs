//! Who uses a block device or a file already, so that it must not be overwritten: mounted file systems, swap space, and devices
//! that are made of it (md, LVM, LUKS and others of device mapper, bcache).

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{Linux, Node, Number, names};

impl Linux {
    /// Who uses the device or file at this path, and what to do about it; `None` if Linux knows of no user.
    pub fn in_use(&self, path: &Path) -> Option<String> {
        match Number::at(path) {
            Some(number) => self.block_device_in_use(number),
            None => self.file_in_use(path),
        }
    }

    pub(super) fn block_device_in_use(&self, number: Number) -> Option<String> {
        let node = self.node(number)?;
        if let Some(used) = self.node_in_use(&node) {
            return Some(used);
        }
        // Who uses a part uses the whole, and the other way around; but two partitions have nothing to do with each other.
        let of_partition =
            |part: Node| self.node_in_use(&part).map(|used| format!("has the partition {}, which {used}", part.name));
        let of_disk =
            |disk: Node| self.node_in_use(&disk).map(|used| format!("is a partition of {}, which {used}", disk.name));
        node.partitions().into_iter().find_map(of_partition).or_else(|| node.disk().and_then(of_disk))
    }

    /// What uses this node itself, as the end of a sentence about it.
    fn node_in_use(&self, node: &Node) -> Option<String> {
        let number = node.number()?;
        if let Some(folder) = self.mounted_at(number) {
            return Some(format!("is mounted at {folder}: unmount it first, or name another device"));
        }
        if self.is_swap(|path| Number::at(path) == Some(number)) {
            return Some("is used as swap space: swapoff it first, or name another device".to_owned());
        }
        if let Some(holder) = node.list("holders").into_iter().next() {
            return Some(self.part_of(&holder));
        }
        // What bcache has registered may be waiting for another part of it, and has no holder then.
        node.folder.join("bcache").exists().then(|| "is a device of bcache: name another device".to_owned())
    }

    /// A device is part of the device of this name.
    fn part_of(&self, holder: &str) -> String {
        let node = self.named(holder);
        let read = |file: &str| node.as_ref().and_then(|node| node.read(file));
        let instead = |name: &str| format!("name {name}, or another device");
        if holder.starts_with("md") {
            let level = read("md/level").map(|level| format!(" ({level})")).unwrap_or_default();
            return format!("is a member of the md array {holder}{level}: {}", instead(&format!("/dev/{holder}")));
        }
        if holder.starts_with("bcache") {
            return format!("is a device of {holder}: name another device");
        }
        let (Some(uuid), Some(name)) = (read("dm/uuid"), read("dm/name")) else {
            return format!("is part of {holder}: name another device");
        };
        let mapped = instead(&format!("/dev/mapper/{name}"));
        match uuid.split('-').next().unwrap_or_default() {
            "LVM" => format!("is an LVM physical volume with the logical volume {name}: {mapped}"),
            "CRYPT" => format!("is the encrypted volume that is open as {name}: {mapped}"),
            "mpath" => format!("is a path of the multipath device {name}: {mapped}"),
            _ => format!("is part of the device-mapper device {name}: {mapped}"),
        }
    }

    /// Where a file system is mounted that lies on the device.
    fn mounted_at(&self, number: Number) -> Option<String> {
        let mounts = fs::read_to_string(self.proc.join("self/mountinfo")).ok()?;
        mounts.lines().find_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut fields = mount.split(' ');
            let on = fields.nth(2).and_then(Number::parse);
            let folder = unescaped(fields.nth(1)?);
            // A file system on several devices (Btrfs) has a number of its own.
            let source = unescaped(file_system.split(' ').nth(1)?);
            let is_there =
                on == Some(number) || source.starts_with('/') && Number::at(Path::new(&source)) == Some(number);
            is_there.then_some(folder)
        })
    }

    fn is_swap(&self, is_it: impl Fn(&Path) -> bool) -> bool {
        let swaps = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        swaps
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .any(|path| is_it(&PathBuf::from(unescaped(path))))
    }

    /// A file may be swap space, or a loop device.
    fn file_in_use(&self, path: &Path) -> Option<String> {
        let identity = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
        let it = identity(path)?;
        if self.is_swap(|path| identity(path) == Some(it)) {
            return Some("is used as swap space: swapoff it first, or name another file".to_owned());
        }
        names(&self.sys.join("block")).into_iter().filter(|name| name.starts_with("loop")).find_map(|name| {
            let file = fs::read_to_string(self.sys.join("block").join(&name).join("loop/backing_file")).ok()?;
            (identity(Path::new(file.trim_end_matches('\n'))) == Some(it)).then(|| {
                format!(
                    "is the file of the loop device {name}: name /dev/{name}, or detach that first (losetup --detach)"
                )
            })
        })
    }
}

/// The file beneath a loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackingFile {
    pub(crate) path: PathBuf,
    /// Whether the device has all of it.
    pub(crate) is_whole: bool,
}

impl Linux {
    /// The file beneath a loop device, or beneath a partition of one.
    pub(crate) fn backing_file(&self, number: u64) -> Option<BackingFile> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let node = self.sys.join(format!("dev/block/{major}:{minor}"));
        let read = |name: &str| fs::read_to_string(node.join(name)).ok();
        let (at, is_part) = match read("loop/backing_file") {
            Some(path) => (path, false),
            None => (read("../loop/backing_file")?, true),
        };
        let is_zero = |name: &str| read(name).is_some_and(|text| text.trim() == "0");
        let is_whole = !is_part && is_zero("loop/offset") && is_zero("loop/sizelimit");
        Some(BackingFile { path: at.trim_end_matches('\n').into(), is_whole })
    }
}

/// Linux writes blanks and the like in paths as octal numbers.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let number = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Number, tests::Made},
        *,
    };

    fn used(made: &Made, minor: u32) -> String {
        made.linux.block_device_in_use(Number(8, minor)).unwrap_or_else(|| "free".to_owned())
    }

    #[test]
    fn mounts_are_found_on_the_device_on_its_partitions_and_on_its_disk() {
        let made = Made::new();
        made.device("sda", "8:0", &[]).device("sda/sda1", "8:1", &[]).device("sda/sda2", "8:2", &[]);
        assert_eq!((used(&made, 0), used(&made, 1), used(&made, 9)), ("free".into(), "free".into(), "free".into()));
        made.append("self/mountinfo", "36 35 8:1 / /srv/my\\040data rw,relatime shared:1 - ext4 /dev/sda1 rw");
        assert_eq!(used(&made, 1), "is mounted at /srv/my data: unmount it first, or name another device");
        assert!(
            used(&made, 0).starts_with("has the partition sda1, which is mounted at /srv/my data"),
            "{}",
            used(&made, 0)
        );
        assert_eq!(used(&made, 2), "free", "another partition of the disk");
        let made = Made::new();
        made.device("sda", "8:0", &[]).device("sda/sda1", "8:1", &[]);
        made.append("self/mountinfo", "36 35 8:0 / /mnt rw - ext4 /dev/sda rw");
        assert!(used(&made, 1).starts_with("is a partition of sda, which is mounted at /mnt"), "{}", used(&made, 1));
    }

    #[test]
    fn what_is_made_of_a_device_is_named_with_its_kind() {
        let dm = |uuid| [("dm/uuid", uuid), ("dm/name", "vg-home")];
        for (holder, files, said) in [
            ("md127", vec![("md/level", "raid1")], "a member of the md array md127 (raid1): name /dev/md127"),
            (
                "dm-0",
                dm("LVM-abc").to_vec(),
                "an LVM physical volume with the logical volume vg-home: name /dev/mapper/vg-home",
            ),
            ("dm-0", dm("CRYPT-LUKS2-abc").to_vec(), "the encrypted volume that is open as vg-home"),
            ("dm-0", dm("mpath-3600").to_vec(), "a path of the multipath device vg-home"),
            ("dm-0", dm("").to_vec(), "part of the device-mapper device vg-home"),
            ("bcache0", vec![], "a device of bcache0"),
            ("drbd1", vec![], "part of drbd1"),
        ] {
            let made = Made::new();
            made.device("sda", "8:0", &[]).device("sda/sda1", "8:1", &[]).device(holder, "250:1", &files);
            made.holds(holder, "sda/sda1");
            assert!(used(&made, 1).starts_with(&format!("is {said}")), "{}", used(&made, 1));
            assert!(
                used(&made, 0).starts_with(&format!("has the partition sda1, which is {said}")),
                "{}",
                used(&made, 0)
            );
            assert!(!used(&made, 1).contains("--force"), "{}", used(&made, 1));
        }
        let made = Made::new();
        made.device("sda", "8:0", &[("bcache/state", "clean")]);
        assert!(used(&made, 0).starts_with("is a device of bcache"), "{}", used(&made, 0));
    }

    #[test]
    fn files_that_are_swap_space_or_loop_devices_are_in_use() {
        let made = Made::new();
        let file = made.linux.dev.join("a file");
        fs::write(&file, "").unwrap();
        assert_eq!(made.linux.in_use(&file), None);
        let escaped = file.display().to_string().replace(' ', "\\040");
        let folder = made.linux.sys.join("block/loop3/loop");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("backing_file"), format!("{}\n", file.display())).unwrap();
        assert!(made.linux.in_use(&file).is_some_and(|used| used.contains("the file of the loop device loop3")));
        made.append("swaps", &format!("{escaped} file 1024 0 -2"));
        assert!(made.linux.in_use(&file).is_some_and(|used| used.contains("swap")));
        assert_eq!(made.linux.in_use(&made.linux.dev.join("none")), None);
    }

    #[test]
    fn paths_of_any_bytes_are_read() {
        assert_eq!(unescaped("/a\\040b\\134"), "/a b\\");
        assert_eq!(unescaped("/a\\9\\04"), "/a\\9\\04");
        assert_eq!(unescaped("\\303\\244\\"), "ä\\");
    }
}
