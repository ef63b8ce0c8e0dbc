//! The text of a design, with comments.

use std::fmt::Write;

use peryton_device::{Class, Model, Profile};
use peryton_engine::PlacementKind;
use peryton_units::Bytes;

/// What the design should be.
pub struct Answers {
    pub mode: PlacementKind,
    /// The only device, or the first and the second.
    pub devices: Vec<Device>,
    pub volume: Bytes,
    /// When a cache answers writes.
    pub write: Option<String>,
}

/// A device of the design.
pub struct Device {
    pub name: String,
    pub profile: Profile,
    pub size: Option<Bytes>,
    pub path: Option<String>,
}

/// The file. Writing to a text cannot fail.
pub fn text(answers: &Answers, command: &str) -> String {
    let mut text = format!("# {}\n# Written by {command}; `peryton keys` explains every key.\n\n", about(answers.mode));
    let _ = writeln!(text, "[volume]\nsize = {}", exact(answers.volume));
    for device in &answers.devices {
        let _ = write!(
            text,
            "\n[devices.{}]\nprofile = {}{}\n",
            device.name,
            quoted(device.profile.origin()),
            comment("the model in simulations; `peryton devices` lists the profiles")
        );
        match device.size {
            Some(size) => {
                let _ = writeln!(text, "size = {}{}", exact(size), comment("the part that is used"));
            }
            None => text += "# size = \"…\"               # takes what the volume leaves for it\n",
        }
        match &device.path {
            Some(path) => {
                let _ = writeln!(text, "path = {}{}", quoted(path), comment("the block device or file that is served"));
            }
            None => text += "# path = \"/dev/sdb\"        # a block device or image file; needed by peryton serve\n",
        }
        if matches!(device.profile.model, Model::Flash(_)) {
            let _ = writeln!(
                text,
                "\n[devices.{}.model]\nprecondition = \"random\"{}",
                device.name,
                comment("simulate a drive in use, not a new one")
            );
        }
    }
    text += &placement(answers);
    let disks = answers.devices.iter().filter(|device| device.profile.class == Class::Hdd);
    for disk in disks {
        let _ = write!(
            text,
            "\n# [power.{}]\n# spin_down_after = \"5min\"   # put the disk into standby when it is idle\n",
            disk.name
        );
    }
    text
}

fn about(mode: PlacementKind) -> &'static str {
    match mode {
        PlacementKind::Single => "One device alone.",
        PlacementKind::Linear => "Two devices one after the other, without moves.",
        PlacementKind::Tiering => {
            "Tiering: each extent is on one device, those that are used most on the fast one. The volume is as large as both together."
        }
        PlacementKind::Caching => {
            "Caching: the slow device has all data, and the fast one copies of the extents that are used most."
        }
        PlacementKind::Partitioned => {
            "Partitioned: each write goes to the device that is predicted to answer sooner (MixedStore)."
        }
        PlacementKind::Logging => {
            "A log before the primary: writes are appended to the log, and go to the primary in sorted passes (Griffin)."
        }
    }
}

fn placement(answers: &Answers) -> String {
    let [first, second] = [0, 1].map(|index| answers.devices.get(index).map_or("", |device| device.name.as_str()));
    let mut text = format!("\n[placement]\nmode = \"{}\"\n", answers.mode.name());
    match answers.mode {
        PlacementKind::Single => {}
        PlacementKind::Linear => {
            let _ =
                writeln!(text, "devices = [\"{first}\", \"{second}\"]{}", comment("in the order of their addresses"));
        }
        PlacementKind::Logging => {
            let _ = writeln!(
                text,
                "primary = \"{second}\"\nlog = \"{first}\"\ncaching = \"full\"{}\n\n[triggers]{}\ntimeout = \"900s\"\nread_share = 0.05",
                comment("or \"selective\", with overwrite_ratio = 0.5"),
                comment("the first to fire starts a migration of the log")
            );
        }
        PlacementKind::Tiering | PlacementKind::Caching | PlacementKind::Partitioned => {
            let is_partitioned = answers.mode == PlacementKind::Partitioned;
            let extent = if is_partitioned { "4KiB" } else { "128KiB" };
            let _ = writeln!(
                text,
                "fast = \"{first}\"\nslow = \"{second}\"\nextent = \"{extent}\"{}",
                comment("the unit of moves; formatting fixes it")
            );
            if !is_partitioned {
                text += "promotion = { threshold = 4, window = \"60s\" }  # moved to the fast device when missed more often than 4 times within a minute\n";
            }
            let _ = writeln!(
                text,
                "replacement = \"lru\"{}",
                comment("which extent leaves: wsclock, two_queue, s3fifo, arc, sieve, … (peryton tune compares them)")
            );
        }
    }
    if let Some(write) = &answers.write {
        let _ = writeln!(text, "write = \"{write}\"{}", comment("back | through | around (docs/caching.md)"));
        if write == "back" {
            let _ = writeln!(
                text,
                "writeback = {{ delay = \"30s\", dirty_target = 0.4, max_age = \"10min\" }}{}",
                comment("when dirty extents go home")
            );
        }
    }
    text
}

/// A size, exactly: a text with its unit, or a number.
fn exact(size: Bytes) -> String {
    let text = size.exact();
    if text.parse::<u64>().is_ok() { text } else { quoted(&text) }
}

fn comment(text: &str) -> String {
    format!("    # {text}")
}

/// A text of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
