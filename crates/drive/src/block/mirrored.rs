//! Whether the data of a device survive the loss of one drive, as far as Linux knows.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use super::{Linux, Node, Number};

/// Whether a device is on more than one drive, so that the loss of one loses nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirrored {
    /// It is on an array of this kind, such as `raid1`.
    Yes(String),
    /// It is on such an array, which lacks a drive at present.
    Degraded(String),
    /// Linux knows of none.
    No,
}

/// An array of md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its level, such as `raid5`.
    pub level: String,
    /// How many drives it has when it is whole.
    pub drives: u32,
}

/// Levels of md that lose nothing with one drive.
const LEVELS: [&str; 5] = ["raid1", "raid10", "raid4", "raid5", "raid6"];
/// Devices are stacked no deeper than this.
const DEEPEST: usize = 8;

impl Linux {
    /// Whether the block device at this path, or the one on which the file at this path lies, is on a mirror.
    pub fn mirrored(&self, path: &Path) -> Mirrored {
        self.node_beneath(path).map_or(Mirrored::No, |node| self.node_mirrored(&node, DEEPEST))
    }

    /// The array of md that the block device at this path, or the one on which the file at this path lies, is or is a part of.
    pub fn array(&self, path: &Path) -> Option<Array> {
        Linux::node_array(&self.node_beneath(path)?)
    }

    /// The block device at this path, or the one on which the file at this path lies.
    fn node_beneath(&self, path: &Path) -> Option<Node> {
        let of_file = || fs::metadata(path).ok().map(|about| Number::of(about.dev()));
        self.node(Number::at(path).or_else(of_file)?)
    }

    fn node_array(node: &Node) -> Option<Array> {
        let node = node.disk().unwrap_or_else(|| node.clone());
        Some(Array { level: node.read("md/level")?, drives: node.read("md/raid_disks")?.parse().ok()? })
    }

    fn node_mirrored(&self, node: &Node, depth: usize) -> Mirrored {
        let node = node.disk().unwrap_or_else(|| node.clone());
        if let Some(level) = node.read("md/level").filter(|level| LEVELS.contains(&level.as_str())) {
            let whole = node.read("md/degraded").is_none_or(|lacks| lacks == "0");
            return if whole { Mirrored::Yes(level) } else { Mirrored::Degraded(level) };
        }
        let beneath = node.list("slaves");
        // LVM keeps metadata of each part of a RAID volume that survives a loss.
        let is_lvm_raid = |name: &String| {
            let name = self.named(name).and_then(|node| node.read("dm/name"));
            name.is_some_and(|name| name.contains("_rmeta_"))
        };
        if beneath.iter().any(is_lvm_raid) {
            return Mirrored::Yes("LVM RAID".to_owned());
        }
        // A device on several, one after the other, is as safe as the least safe of them.
        let each = beneath.iter().map(|name| match (depth, self.named(name)) {
            (0, _) | (_, None) => Mirrored::No,
            (_, Some(node)) => self.node_mirrored(&node, depth - 1),
        });
        each.max_by_key(|mirrored| match mirrored {
            Mirrored::Yes(_) => 0,
            Mirrored::Degraded(_) => 1,
            Mirrored::No => 2,
        })
        .unwrap_or(Mirrored::No)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Made, *};

    fn mirrored(made: &Made, name: &str) -> Mirrored {
        made.linux.node_mirrored(&made.linux.named(name).unwrap(), DEEPEST)
    }

    #[test]
    fn an_array_is_found_beneath_partitions_and_logical_volumes() {
        let made = Made::new();
        made.device("md0", "9:0", &[("md/level", "raid1"), ("md/degraded", "0")]).device("md0/md0p1", "259:1", &[]);
        made.device("md1", "9:1", &[("md/level", "raid0")]).device(
            "md2",
            "9:2",
            &[("md/level", "raid10"), ("md/degraded", "1")],
        );
        made.device("sda", "8:0", &[]).device("dm-0", "253:0", &[]).device("dm-1", "253:1", &[]);
        made.holds("dm-0", "md0/md0p1").holds("dm-1", "md0").holds("dm-1", "sda").holds("md1", "sda");
        assert_eq!(mirrored(&made, "md0"), Mirrored::Yes("raid1".into()));
        assert_eq!(mirrored(&made, "md0p1"), Mirrored::Yes("raid1".into()));
        assert_eq!(mirrored(&made, "dm-0"), Mirrored::Yes("raid1".into()));
        assert_eq!(mirrored(&made, "dm-1"), Mirrored::No, "half of it is on one drive");
        assert_eq!((mirrored(&made, "md1"), mirrored(&made, "sda")), (Mirrored::No, Mirrored::No));
        assert_eq!(mirrored(&made, "md2"), Mirrored::Degraded("raid10".into()));
        made.device("md3", "9:3", &[("md/level", "raid6"), ("md/raid_disks", "6")]).device("md3/md3p1", "259:3", &[]);
        let array = |name: &str| Linux::node_array(&made.linux.named(name).unwrap());
        let six = Array { level: "raid6".into(), drives: 6 };
        assert_eq!((array("md3"), array("md3p1"), array("sda")), (Some(six.clone()), Some(six), None));
    }

    #[test]
    fn raid_of_lvm_is_known_by_its_metadata() {
        let made = Made::new();
        made.device("dm-2", "253:2", &[]);
        for (number, name) in [(3, "vg-fast_rimage_0"), (4, "vg-fast_rmeta_0"), (5, "vg-fast_rimage_1")] {
            made.device(&format!("dm-{number}"), &format!("253:{number}"), &[("dm/name", name)]);
            made.holds("dm-2", &format!("dm-{number}"));
        }
        assert_eq!(mirrored(&made, "dm-2"), Mirrored::Yes("LVM RAID".into()));
    }
}
