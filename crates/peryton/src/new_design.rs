//! The design that `peryton create` writes: short, with comments, for people to change later.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf, absolute},
};

use peryton_device::{Class, Model, Profile};
use peryton_drive::Linux;
use peryton_engine::PlacementKind;
use peryton_units::Bytes;

use crate::failure::Failure;

/// Where the writes of a cache go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Write {
    /// To the fast device, and to the slow one later: the fastest; losing the fast device loses what was not written back
    Back,
    /// To both devices: losing the fast device loses nothing
    Through,
    /// To the slow device, past the cache: losing the fast device loses nothing
    Around,
}

/// A design that is to be written.
#[derive(Debug)]
pub struct NewDesign {
    /// How data are placed on the devices.
    pub mode: PlacementKind,
    /// The fast device and the slow one, or the only one.
    pub devices: Vec<NewDevice>,
    /// The size of the volume; `None`: it follows from the devices.
    pub volume: Option<Bytes>,
    /// Where writes go; `None`: back, or the placement is no cache.
    pub write: Option<Write>,
}

/// A device of a design that is to be written.
#[derive(Debug, Default)]
pub struct NewDevice {
    /// The block device or the file; `None`: the design is for simulations.
    pub path: Option<Named>,
    /// How fast it is in simulations.
    pub profile: Option<Profile>,
    /// The part that is used; `None`: all of it, or what the volume needs.
    pub size: Option<Bytes>,
}

/// The path by which a design names a device.
#[derive(Debug)]
pub struct Named {
    path: String,
    /// What it was called on the command line, if that is not the same.
    given: Option<String>,
    /// Whether the name may be that of another device later.
    may_change: bool,
}

/// Folders with names that are not given in the order in which devices are found.
const STABLE: [&str; 3] = ["/dev/disk/", "/dev/mapper/", "/dev/md/"];

impl Named {
    /// `may_be_made`: a file that is not there yet will be made.
    pub fn of(path: &Path, linux: &Linux, may_be_made: bool) -> Result<Named, Failure> {
        let wrong = |problem: &str| Failure::bad_input(format!("{}: {problem}", path.display()));
        let is_block = match fs::metadata(path) {
            Ok(about) => about.file_type().is_block_device(),
            Err(error) if may_be_made && error.kind() == std::io::ErrorKind::NotFound && !path.starts_with("/dev") => {
                false
            }
            Err(error) => return Err(wrong(&format!("{error}: name a device or a file that is there"))),
        };
        let given = absolute(path).map_err(|error| wrong(&error.to_string()))?;
        let is_stable = !is_block || STABLE.iter().any(|folder| given.starts_with(folder));
        let found = if is_stable { None } else { linux.stable_name(path) };
        let may_change = !is_stable && found.is_none();
        let chosen = found.unwrap_or_else(|| given.clone());
        let text = |path: &PathBuf| path.to_str().map(str::to_owned);
        let name = text(&chosen).ok_or_else(|| wrong("is not text, so no design can name it: give it another name"))?;
        Ok(Named { path: name, given: text(&given).filter(|_| given != chosen), may_change })
    }
}

/// A text as a TOML string without line breaks: one of JSON, in which one more character is escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A size, exactly: a text with its unit, or a number.
fn exact(size: Bytes) -> String {
    let text = size.exact();
    if text.parse::<u64>().is_ok() { text } else { quoted(&text) }
}

/// The names of the devices of a design.
pub fn names(mode: PlacementKind) -> &'static [&'static str] {
    if mode == PlacementKind::Single { &["device"] } else { &["fast", "slow"] }
}

impl NewDesign {
    /// Whether every device has a path, so that the volume can be formatted.
    pub fn can_be_served(&self) -> bool {
        self.devices.iter().all(|device| device.path.is_some())
    }

    /// The text of the design. Writing to a text cannot fail.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# {}\n# Written by `peryton create`. `peryton keys` lists every key, with its default and whether it may change while the\n\
             # volume is served (`peryton set`). The mode and the extents stay as they were when the volume was made.\n",
            about(self.mode)
        );
        if let Some(size) = self.volume {
            let _ = write!(text, "\n[volume]\nsize = {}\n", exact(size));
        }
        for (name, device) in names(self.mode).iter().zip(&self.devices) {
            device.write(name, &mut text);
        }
        text.push_str("\n[placement]\n");
        text.push_str(self.placement());
        if self.mode == PlacementKind::Caching {
            text.push_str(self.writes());
        }
        match self.mode {
            PlacementKind::Caching | PlacementKind::Tiering => text.push_str(
                "# The unit that moves between the devices. Small ones suit small requests that lie apart, and take memory: 36 bytes for each\n\
                 # extent of the volume (a TiB: 36 MiB with 1MiB, 576 MiB with 64KiB, 2.25 GiB with 16KiB).\n# extent = \"1MiB\"\n",
            ),
            PlacementKind::Partitioned => {
                text.push_str("# The unit that moves between the devices.\n# extent = \"4KiB\"\n");
            }
            PlacementKind::Logging | PlacementKind::Linear | PlacementKind::Single => {}
        }
        for (name, device) in names(self.mode).iter().zip(&self.devices) {
            if device.profile.as_ref().is_some_and(|profile| profile.class == Class::Hdd) {
                let _ = write!(
                    text,
                    "\n# Puts the disk into standby when it is idle.\n# [power.{name}]\n# spin_down_after = \"5min\"\n"
                );
            }
        }
        text
    }

    fn writes(&self) -> &'static str {
        match self.write.unwrap_or(Write::Back) {
            Write::Back => {
                "# A write is answered when the fast device has it. If that is one drive, and it dies, what was not written back is lost:\n\
                 # put two drives beneath it (md RAID 1), or say \"through\", which loses nothing.\n\
                 write = \"back\"\n\
                 # At most this share of the cache is dirty, and none of it for longer than this.\n\
                 # writeback = { dirty_target = 0.4, max_age = \"10min\" }\n"
            }
            Write::Through => {
                "# A write is answered when both devices have it. \"back\" is faster, and needs two mirrored drives as the fast device.\n\
                 write = \"through\"\n"
            }
            Write::Around => {
                "# Writes go past the cache. \"through\" keeps a copy of them in it.\n\
                 write = \"around\"\n"
            }
        }
    }

    fn placement(&self) -> &'static str {
        match self.mode {
            PlacementKind::Caching => "mode = \"caching\"\nfast = \"fast\"\nslow = \"slow\"\n",
            PlacementKind::Tiering => "mode = \"tiering\"\nfast = \"fast\"\nslow = \"slow\"\n",
            PlacementKind::Partitioned => "mode = \"partitioned\"\nfast = \"fast\"\nslow = \"slow\"\n",
            PlacementKind::Logging => "mode = \"logging\"\nprimary = \"fast\"\nlog = \"slow\"\n",
            PlacementKind::Linear => {
                "mode = \"linear\"\n# In the order of their addresses.\ndevices = [\"fast\", \"slow\"]\n"
            }
            PlacementKind::Single => "mode = \"single\"\n",
        }
    }
}

impl NewDevice {
    fn write(&self, name: &str, text: &mut String) {
        let _ = write!(text, "\n[devices.{name}]\n");
        match &self.path {
            Some(named) => named.write(text),
            None => text.push_str("# A block device or an image file; without a path it can be simulated, and not served.\n# path = \"/dev/sdb\"\n"),
        }
        match &self.profile {
            Some(profile) => {
                let _ = writeln!(
                    text,
                    "# The model in simulations; `peryton profiles` lists them.\nprofile = {}",
                    quoted(profile.origin())
                );
            }
            None => text
                .push_str("# Without a profile it can be served, and not simulated; `peryton profiles` lists them.\n"),
        }
        match self.size {
            Some(size) => {
                let _ = writeln!(text, "# The part that is used.\nsize = {}", exact(size));
            }
            None => text.push_str("# Without a size, all of the device is used.\n"),
        }
        if self.profile.as_ref().is_some_and(|profile| matches!(profile.model, Model::Flash(_))) {
            let _ = write!(
                text,
                "\n[devices.{name}.model]\n# Simulate a drive in use, not a new one.\nprecondition = \"random\"\n"
            );
        }
    }
}

impl Named {
    fn write(&self, text: &mut String) {
        if let Some(given) = &self.given {
            let _ = writeln!(
                text,
                "# It was given as {}. This name stays the same when devices are found in another order.",
                quoted(given)
            );
        }
        if self.may_change {
            text.push_str(
                "# Linux has no name for it that stays the same: after a restart this may be another device.\n",
            );
        }
        let _ = writeln!(text, "path = {}", quoted(&self.path));
    }
}

fn about(mode: PlacementKind) -> &'static str {
    match mode {
        PlacementKind::Single => "One device alone.",
        PlacementKind::Linear => "Two devices one after the other, without moves.",
        PlacementKind::Tiering => {
            "Tiering: what is used often is on the fast device, and the rest on the slow one; the volume is as large as both."
        }
        PlacementKind::Caching => {
            "Caching: the slow device holds the volume, and the fast one copies of what is used often."
        }
        PlacementKind::Partitioned => {
            "Partitioned (MixedStore): each write goes to the device that answers sooner; the fast one's are written back later."
        }
        PlacementKind::Logging => {
            "Logging (Griffin): the fast device holds the volume; writes go to a log on the slow one first, which spares the fast one."
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_sim::{DesignText, InService};
    use peryton_units::Bytes;

    use super::*;

    #[test]
    fn a_path_of_any_text_is_a_string_of_toml() {
        for path in ["/dev/sda", "a \"b\"\n# c", "\u{7f}\t\u{1}ä\\"] {
            let table: toml::Table = format!("path = {}", quoted(path)).parse().unwrap();
            assert!(table["path"].as_str() == Some(path) && quoted(path).lines().count() == 1, "{path:?}");
        }
    }

    /// The fear: what is written is no design, or another one than was asked for; or a setting in a comment is none.
    #[test]
    fn every_design_that_is_written_can_be_read_with_and_without_what_its_comments_offer() {
        let folder = tempfile::tempdir().unwrap();
        let (fast, slow) = (folder.path().join("a \"fast\"\n# one"), folder.path().join("slow"));
        fs::write(&fast, "x").and_then(|()| fs::write(&slow, "x")).unwrap();
        let sizes = [("device", 9), ("fast", 2), ("slow", 9)].map(|(name, gib)| (name.to_owned(), Bytes::gib(gib)));
        let known = InService { sizes: sizes.into(), ..InService::default() };
        let writes = [Some(Write::Through), Some(Write::Around)].map(|write| (PlacementKind::Caching, write));
        for (mode, write) in PlacementKind::ALL.map(|mode| (mode, None)).into_iter().chain(writes) {
            let device = |path| NewDevice {
                path: Some(Named::of(path, &Linux::default(), false).unwrap()),
                ..NewDevice::default()
            };
            let paths = [fast.as_path(), slow.as_path()];
            let devices = paths.into_iter().take(names(mode).len()).map(device).collect();
            let text = NewDesign { mode, devices, volume: None, write }.text();
            assert!(text.lines().all(|line| line.len() <= 140), "{text}");
            let is_offer = |line: &&str| line.starts_with("# ") && line.contains(" = ");
            let offers = text.lines().filter(is_offer).count();
            let taken: Vec<&str> = text.lines().map(|line| if is_offer(&line) { &line[2..] } else { line }).collect();
            for text in [text.clone(), taken.join("\n")] {
                let design = DesignText::new(text.as_str(), "new").in_service(&[], &known).unwrap();
                assert_eq!(design.placement.kind(), mode, "{text}");
                let read: Vec<_> = design.devices.iter().map(|device| device.path.as_deref()).collect();
                assert_eq!(read, paths.map(Some)[..read.len()], "{text}");
            }
            let least = match (mode, write) {
                (PlacementKind::Caching, None) => 2,
                (PlacementKind::Logging | PlacementKind::Linear | PlacementKind::Single, _) => 0,
                _ => 1,
            };
            assert_eq!(offers, least, "{text}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error =
            format!("{:?}", Named::of(Path::new("/dev/none-of-that-name"), &Linux::default(), true).unwrap_err());
        assert!(error.contains("/dev/none-of-that-name") && error.contains("is there"), "{error}");
    }
}
