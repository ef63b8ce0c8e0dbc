//! A design as commands write it: what was asked for, and what formatting fixes. What has a default is left out, so no command has
//! defaults of its own, and a design that was written by one is what another would have made.

use std::fmt::Write;

use peryton_engine::{PlacementKind, WritePolicy};
use peryton_units::Bytes;

use super::placement::WRITES;
use crate::Redundancy;

/// A design that is to be written.
///
/// ```
/// use peryton_engine::PlacementKind;
/// use peryton_sim::{Design, NewDesign, NewDevice};
/// use peryton_units::Bytes;
///
/// let device = |name: &str, profile: &str| NewDevice { profile: Some(profile.to_owned()), ..NewDevice::named(name) };
/// let devices = vec![device("fast", "intel-320-300gb"), device("slow", "seagate-st32000641as")];
/// let new = NewDesign { volume: Some(Bytes::gib(100)), ..NewDesign::of(PlacementKind::Caching, devices) };
/// let design = Design::parse(&new.text(), "new", &[])?;
/// assert_eq!(design.volume, Bytes::gib(100));
/// # Ok::<(), peryton_sim::DesignError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewDesign {
    /// Its name, where the file's does not say it.
    pub name: Option<String>,
    /// Lines of comment at the top.
    pub about: Vec<String>,
    /// How data are placed on the devices.
    pub placement: PlacementKind,
    /// The size of the volume, where the devices' sizes do not make it.
    pub volume: Option<Bytes>,
    /// The devices: the fast one before the slow one, the primary before its log.
    pub devices: Vec<NewDevice>,
    /// The extent, with a comment on it.
    pub extent: Option<(Bytes, String)>,
    /// Where the writes of a cache go.
    pub write: Option<WritePolicy>,
    /// Whether lines say what the others mean.
    pub explained: bool,
}

/// A device of a design that is to be written. What is `None`, or as many as there are by default, is left out.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// Its name in the design.
    pub name: String,
    /// Lines of comment above it.
    pub about: Vec<String>,
    /// The drive in its place, of which nothing below says anything but the path and the size.
    pub design: Option<Box<NewDesign>>,
    /// The profile of its model, or the path of one.
    pub profile: Option<String>,
    /// The block device or file.
    pub path: Option<String>,
    /// How much of it the volume uses.
    pub size: Option<Bytes>,
    /// The capacity of each, where smaller ones are bought than the profile's.
    pub capacity: Option<Bytes>,
    /// The price of each.
    pub price_usd: Option<f64>,
    /// How many there are, those for redundancy included.
    pub count: u32,
    /// How they survive each other's failures.
    pub redundancy: Redundancy,
    /// Spare devices beside them.
    pub spares: u32,
    /// How many are owned already.
    pub owned: u32,
    /// Values of the profile's model in place of its own, as TOML.
    pub model: Vec<String>,
    /// After how long without a command it is put into standby, as TOML.
    pub spin_down_after: Option<String>,
}

impl NewDevice {
    /// One device of this name, of which nothing else is said.
    pub fn named(name: &str) -> NewDevice {
        NewDevice {
            name: name.to_owned(),
            about: Vec::new(),
            design: None,
            profile: None,
            path: None,
            size: None,
            capacity: None,
            price_usd: None,
            count: 1,
            redundancy: Redundancy::None,
            spares: 0,
            owned: 0,
            model: Vec::new(),
            spin_down_after: None,
        }
    }

    /// `before`: what its table is below of.
    fn write(&self, text: &mut String, before: &str) {
        let _ = writeln!(text, "\n[{before}devices.{}]", self.name);
        comment(text, &self.about);
        let mut key = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{name} = {value}");
            }
        };
        let above = |number: u32, least: u32| (number > least).then(|| number.to_string());
        key("profile", self.profile.as_deref().map(quoted));
        key("path", self.path.as_deref().map(quoted));
        key("capacity", self.capacity.map(size));
        key("price_usd", self.price_usd.map(|usd| format!("{usd:?}")));
        key("count", above(self.count, 1));
        key("redundancy", (self.redundancy != Redundancy::None).then(|| quoted(&self.redundancy.to_string())));
        key("spares", above(self.spares, 0));
        key("owned", above(self.owned, 0));
        key("size", self.size.map(size));
        key("model", (!self.model.is_empty()).then(|| format!("{{ {} }}", self.model.join(", "))));
        if let Some(design) = &self.design {
            let path = format!("{before}devices.{}.design", self.name);
            let _ = writeln!(text, "\n[{path}]");
            design.write(text, &format!("{path}."));
        }
    }
}

impl NewDesign {
    /// A design of these devices, of which nothing else is said.
    pub fn of(placement: PlacementKind, devices: Vec<NewDevice>) -> NewDesign {
        let (about, explained) = (Vec::new(), false);
        NewDesign { name: None, about, placement, volume: None, devices, extent: None, write: None, explained }
    }

    /// The file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        comment(&mut text, &self.about);
        self.write(&mut text, "");
        text.trim_start().to_owned()
    }

    /// `before`: what its tables are below of.
    fn write(&self, text: &mut String, before: &str) {
        if let Some(name) = &self.name {
            let _ = writeln!(text, "name = {}", quoted(name));
        }
        if let Some(volume) = self.volume {
            let _ = writeln!(text, "\n[{before}volume]\nsize = {}", size(volume));
        }
        self.devices.iter().for_each(|device| device.write(text, before));
        self.write_placement(text, before);
        for device in &self.devices {
            if let Some(after) = &device.spin_down_after {
                let _ = write!(text, "\n[{before}power.{}]\nspin_down_after = {after}\n", device.name);
            }
        }
    }

    fn write_placement(&self, text: &mut String, before: &str) {
        let _ = writeln!(text, "\n[{before}placement]");
        if self.explained {
            let _ = writeln!(text, "# {}", about(self.placement));
        }
        let _ = writeln!(text, "mode = \"{}\"", self.placement.name());
        let names: Vec<String> = self.devices.iter().map(|device| quoted(&device.name)).collect();
        let roles: &[&str] = match self.placement {
            PlacementKind::Single | PlacementKind::Linear => &[],
            PlacementKind::Logging => &["primary", "log"],
            PlacementKind::Tiering | PlacementKind::Caching | PlacementKind::Partitioned => &["fast", "slow"],
        };
        for (role, name) in roles.iter().zip(&names) {
            let _ = writeln!(text, "{role} = {name}");
        }
        if let Some((extent, why)) = &self.extent {
            if !why.is_empty() {
                let _ = writeln!(text, "# {why}");
            }
            let _ = writeln!(text, "extent = {}", size(*extent));
        }
        if let Some(policy) = self.write {
            let name = WRITES.iter().find(|(_, known)| *known == policy).map_or("back", |(name, _)| *name);
            if self.explained {
                let _ = writeln!(text, "# {}", about_writes(policy));
            }
            let _ = writeln!(text, "write = \"{name}\"");
        }
    }
}

/// What a placement does, in a sentence.
fn about(placement: PlacementKind) -> &'static str {
    match placement {
        PlacementKind::Single => "One device alone.",
        PlacementKind::Linear => "The devices one after the other, without moves.",
        PlacementKind::Tiering => "The most used data are on the fast device, and the rest are on the slow one.",
        PlacementKind::Caching => {
            "The slow device holds the volume, and the fast one holds copies of the most used data."
        }
        PlacementKind::Partitioned => {
            "Writes go to the device that answers sooner; dirty data of the fast one are written back later."
        }
        PlacementKind::Logging => "The primary holds the volume. Writes are appended to the log first.",
    }
}

fn about_writes(policy: WritePolicy) -> &'static str {
    match policy {
        WritePolicy::Back => {
            "A write is answered when the fast device has it. If that is one drive, and it dies, dirty data are lost: put two drives \
             beneath it\n# (md RAID 1), or use \"through\", which loses nothing."
        }
        WritePolicy::Through => {
            "A write is answered when both devices have it. \"back\" is faster, and needs two mirrored drives as the fast device."
        }
        WritePolicy::Around => "Writes bypass the cache. \"through\" also writes them to the cache.",
    }
}

fn comment(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
}

/// A size exact to the byte, in the largest unit that divides it: `8GiB`, `40TB`.
fn size(size: Bytes) -> String {
    let units: [(u64, &str); 7] = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1, "B"),
    ];
    let exact = units.iter().filter(|(unit, _)| size.0.is_multiple_of(*unit)).map(|(unit, name)| (size.0 / unit, name));
    let (count, name) = exact.min_by_key(|(count, _)| *count).expect("everything is a multiple of one");
    format!("\"{count}{name}\"")
}

/// A text as a TOML string without line breaks: one of JSON, in which one more character is escaped.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_are_written_as_people_do_and_to_the_byte() {
        for text in ["8GiB", "40TB", "272MiB", "1536MiB", "3TiB", "64KiB", "513B", "500GB"] {
            assert_eq!(size(text.parse().unwrap()), format!("\"{text}\""));
        }
        let odd = Bytes(38_146_973 << 20);
        assert_eq!(size(odd).trim_matches('"').parse(), Ok(odd));
    }

    #[test]
    fn a_path_of_any_text_is_a_string_of_toml() {
        for path in ["/dev/sda", "a \"b\"\n# c", "\u{7f}\t\u{1}ä\\"] {
            let table: toml::Table = format!("path = {}", quoted(path)).parse().unwrap();
            assert!(table["path"].as_str() == Some(path) && quoted(path).lines().count() == 1, "{path:?}");
        }
    }
}
