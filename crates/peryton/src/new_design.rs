//! The design that `peryton format --fast DEVICE --slow DEVICE` writes: short, with comments, for people to change later.

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf, absolute},
};

use peryton_drive::Linux;

use crate::failure::Failure;

/// What the devices are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// The slow device holds the volume, and the fast one copies of what is used often
    Caching,
    /// What is used often is on the fast device, and the rest on the slow one; the volume is as large as both
    Tiering,
    /// Writes go to the device that answers sooner; copies on the fast one go home
    Partitioned,
    /// The fast device holds the volume, and writes go to a log on the slow one first, which spares the fast one (Griffin)
    Logging,
}

/// Where the writes of a cache go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Write {
    /// To the fast device, and home later: the fastest; losing the fast device loses what had not gone home
    Back,
    /// To both devices: losing the fast device loses nothing
    Through,
    /// To the slow device, past the cache: losing the fast device loses nothing
    Around,
}

/// A design that is to be written.
#[derive(Debug)]
pub struct NewDesign<'a> {
    /// The fast device.
    pub fast: &'a Path,
    /// The slow device.
    pub slow: &'a Path,
    /// What they are for.
    pub mode: Mode,
    /// The verb that writes it.
    pub by: &'static str,
    /// Where writes go; `None`: back, or the placement is no cache.
    pub write: Option<Write>,
}

/// The path by which a design names a device.
struct Named {
    path: String,
    /// What it was called on the command line, if that is not the same.
    given: Option<String>,
    /// Whether the name may be that of another device later.
    may_change: bool,
}

/// Folders with names that are not given in the order in which devices are found.
const STABLE: [&str; 3] = ["/dev/disk/", "/dev/mapper/", "/dev/md/"];

fn named(path: &Path, linux: &Linux) -> Result<Named, Failure> {
    let wrong = |problem: &str| Failure::bad_input(format!("{}: {problem}", path.display()));
    let about =
        fs::metadata(path).map_err(|error| wrong(&format!("{error}: name a device or a file that is there")))?;
    let is_block = about.file_type().is_block_device();
    let given = absolute(path).map_err(|error| wrong(&error.to_string()))?;
    let is_stable = !is_block || STABLE.iter().any(|folder| given.starts_with(folder));
    let found = if is_stable { None } else { linux.stable_name(path) };
    let may_change = !is_stable && found.is_none();
    let chosen = found.unwrap_or_else(|| given.clone());
    let text = |path: &PathBuf| path.to_str().map(str::to_owned);
    let name = text(&chosen).ok_or_else(|| wrong("is not text, so no design can name it: give it another name"))?;
    Ok(Named { path: name, given: text(&given).filter(|_| given != chosen), may_change })
}

/// A text as a TOML string without line breaks: one of JSON, in which one more character is escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

impl NewDesign<'_> {
    /// The text of the design.
    pub fn text(&self, linux: &Linux) -> Result<String, Failure> {
        let devices = [("fast", named(self.fast, linux)?), ("slow", named(self.slow, linux)?)];
        let mut text = format!(
            "# A volume on two devices, written by `peryton {}`. `peryton keys` lists every key, with its default and whether it may\n\
             # change while the volume is served (`peryton set`). The mode and the extents stay as they were when the volume was formatted.\n",
            self.by
        );
        for (name, named) in &devices {
            text.push_str(&format!("\n[devices.{name}]\n"));
            if let Some(given) = &named.given {
                text.push_str(&format!(
                    "# It was given as {}. This name stays the same when devices are found in another order.\n",
                    quoted(given)
                ));
            }
            if named.may_change {
                text.push_str(
                    "# Linux has no name for it that stays the same: after a restart this may be another device.\n",
                );
            }
            text.push_str(&format!("path = {}\n", quoted(&named.path)));
            text.push_str(
                "# Without a size, all of the device is used. Without a profile it can be served, and not simulated.\n",
            );
        }
        text.push_str("\n[placement]\n");
        text.push_str(self.placement());
        if self.mode == Mode::Caching {
            text.push_str(match self.write.unwrap_or(Write::Back) {
                Write::Back => {
                    "# A write is answered when the fast device has it. If that is one drive, and it dies, what had not gone home is lost:\n\
                     # put two drives beneath it (md RAID 1), or say \"through\", which loses nothing.\n\
                     write = \"back\"\n\
                     # At most this share of the cache waits to go home, and none of it for longer than this.\n\
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
            });
        }
        match self.mode {
            Mode::Caching | Mode::Tiering => {
                text.push_str(
                "# The unit that moves between the devices. Small ones suit small requests that lie apart, and take memory: 36 bytes for each\n\
                 # extent of the volume (a TiB: 36 MiB with 1MiB, 576 MiB with 64KiB, 2.25 GiB with 16KiB).\n# extent = \"1MiB\"\n",
            )
            }
            Mode::Partitioned => text.push_str("# The unit that moves between the devices.\n# extent = \"4KiB\"\n"),
            Mode::Logging => {}
        }
        Ok(text)
    }

    fn placement(&self) -> &'static str {
        match self.mode {
            Mode::Caching => {
                "# The slow device holds the volume, and the fast one copies of what is used often.\n\
                 mode = \"caching\"\nfast = \"fast\"\nslow = \"slow\"\n"
            }
            Mode::Tiering => {
                "# What is used often is on the fast device, and the rest on the slow one.\n\
                 mode = \"tiering\"\nfast = \"fast\"\nslow = \"slow\"\n"
            }
            Mode::Partitioned => {
                "# Writes go to the device that answers sooner; what the fast one has goes home later.\n\
                 mode = \"partitioned\"\nfast = \"fast\"\nslow = \"slow\"\n"
            }
            Mode::Logging => {
                "# The fast device holds the volume. Writes go to a log on the slow one first, which spares the fast one.\n\
                 mode = \"logging\"\nprimary = \"fast\"\nlog = \"slow\"\n"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_engine::Placement;
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
        let sizes = [("fast".to_owned(), Bytes::gib(2)), ("slow".to_owned(), Bytes::gib(9))].into();
        let known = InService { sizes, ..InService::default() };
        for (mode, write) in [
            (Mode::Caching, None),
            (Mode::Caching, Some(Write::Through)),
            (Mode::Caching, Some(Write::Around)),
            (Mode::Tiering, None),
            (Mode::Partitioned, None),
            (Mode::Logging, None),
        ] {
            let text =
                NewDesign { fast: &fast, slow: &slow, mode, write, by: "format" }.text(&Linux::default()).unwrap();
            assert!(text.lines().all(|line| line.len() <= 140), "{text}");
            let is_offer = |line: &&str| line.starts_with("# ") && line.contains(" = ");
            let offers = text.lines().filter(is_offer).count();
            let taken: Vec<&str> = text.lines().map(|line| if is_offer(&line) { &line[2..] } else { line }).collect();
            for text in [text.clone(), taken.join("\n")] {
                let design = DesignText::new(text.as_str(), "new").in_service(&[], &known).unwrap();
                let placement = match design.placement {
                    Placement::Caching(_) => Mode::Caching,
                    Placement::Tiering(_) => Mode::Tiering,
                    Placement::Partitioned(_) => Mode::Partitioned,
                    _ => Mode::Logging,
                };
                assert_eq!(placement, mode, "{text}");
                assert_eq!(design.devices[0].path.as_deref(), Some(fast.as_path()), "{text}");
                assert_eq!(design.devices[1].path.as_deref(), Some(slow.as_path()));
            }
            assert_eq!(
                offers,
                match (mode, write) {
                    (Mode::Caching, None) => 2,
                    (Mode::Logging, _) => 0,
                    _ => 1,
                }
            );
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let none = Path::new("/dev/none-of-that-name");
        let design = NewDesign { fast: none, slow: none, mode: Mode::Caching, write: None, by: "format" };
        let error = format!("{:?}", design.text(&Linux::default()).unwrap_err());
        assert!(error.contains("/dev/none-of-that-name") && error.contains("is there"), "{error}");
    }
}
