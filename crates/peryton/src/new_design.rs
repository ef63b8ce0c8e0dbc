//! The designs that `peryton create` and `peryton import` write: short, with comments, for people to change later. What has a default is
//! left out ([`peryton_sim::NewDesign`]).

use std::{
    fs,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf, absolute},
};

use peryton_device::{Model, Profile};
use peryton_drive::Linux;
use peryton_engine::{PlacementKind, WritePolicy};
use peryton_sim::{Design, DesignText, MAP_MEMORY, chosen_extent, chosen_extents, map_budget, map_memory};
use peryton_units::Bytes;

use crate::{
    design_edit::with_settings,
    failure::Failure,
    volume::{InPlace, Purpose},
};

/// Where the writes of a cache go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Write {
    /// To the fast device, and to the slow one later: the fastest; losing the fast device loses dirty data
    Back,
    /// To both devices: losing the fast device loses nothing
    Through,
    /// To the slow device, without the cache: losing the fast device loses nothing
    Around,
}

impl From<Write> for WritePolicy {
    fn from(write: Write) -> WritePolicy {
        match write {
            Write::Back => WritePolicy::Back,
            Write::Through => WritePolicy::Through,
            Write::Around => WritePolicy::Around,
        }
    }
}

/// A design that is to be written.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug, Default)]
pub struct NewDevice {
    /// The block device or the file; `None`: the design is for simulations.
    pub path: Option<Named>,
    /// How fast it is in simulations.
    pub profile: Option<Profile>,
    /// The part that is used; `None`: all of it, or what the volume needs.
    pub size: Option<Bytes>,
}

/// A design, and what its map takes of memory.
#[derive(Debug)]
pub struct Written {
    pub text: String,
    /// The extent and the memory of a map.
    pub map: Option<(Bytes, Bytes)>,
}

impl Written {
    /// The design and its devices, to make a volume of them.
    pub fn in_place(&self, path: &Path) -> Result<InPlace, Failure> {
        in_place(&self.text, path)
    }
}

fn in_place(text: &str, path: &Path) -> Result<InPlace, Failure> {
    let near = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    InPlace::read(DesignText::new(text, path.display().to_string()), near, &[], Purpose::Format)
}

/// The path by which a design names a device.
#[derive(Clone, Debug)]
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

/// The names of the devices of a design.
pub fn names(mode: PlacementKind) -> &'static [&'static str] {
    if mode == PlacementKind::Single { &["device"] } else { &["fast", "slow"] }
}

/// The memory of this machine.
fn machine_memory() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::kib(kib))
}

impl NewDesign {
    /// Whether every device has a path, so that the volume can be formatted.
    pub fn can_be_served(&self) -> bool {
        self.devices.iter().all(|device| device.path.is_some())
    }

    /// The design that is written to this path, with these settings.
    pub fn written(&self, path: &Path, set: &[String]) -> Result<Written, Failure> {
        // A design to simulate is for no machine in particular.
        let of_machine = machine_memory().filter(|_| self.can_be_served());
        let budget = of_machine.map_or(MAP_MEMORY, map_budget);
        let written = self.within(path, set, budget)?;
        if !self.can_be_served() || !self.devices.iter().any(NewDevice::has_size_of_profile) {
            return Ok(written);
        }
        // The profile may be that of a larger drive. A simulation is of what is there.
        let in_place = written.in_place(path)?;
        let mut sized = self.clone();
        for (device, made) in sized.devices.iter_mut().zip(&in_place.design().devices) {
            device.size = device.size.or_else(|| device.has_size_of_profile().then_some(made.data));
        }
        sized.within(path, set, budget)
    }

    fn within(&self, path: &Path, set: &[String], budget: Bytes) -> Result<Written, Failure> {
        let mut new = self.told();
        let text = |new: &peryton_sim::NewDesign| with_settings(&new.text(), set).map_err(Failure::bad_input);
        let says_extent = set.iter().any(|set| set.split('=').next().map(str::trim) == Some("placement.extent"));
        let sizes = |design: &Design| {
            let pair = design.placement.hybrid()?;
            Some((design.volume, design.devices[pair.fast.index()].data, pair.extent))
        };
        let first = text(&new)?;
        let found = match self.can_be_served() {
            true => sizes(in_place(&first, path)?.design()),
            false => sizes(&Design::parse(&first, &path.display().to_string(), &[])?),
        };
        let Some((volume, fast, given)) = found else { return Ok(Written { text: first, map: None }) };
        let extent = if says_extent { given } else { chosen_extent(self.mode, volume, fast, budget) };
        let map = map_memory(self.mode, volume, fast, extent);
        if !says_extent {
            let (first, last) = chosen_extents(self.mode).into_inner();
            let why = match map <= budget {
                _ if extent > last => format!(
                    "The unit of the map and of moves, which formatting fixes: the smallest with which the map can number {volume}. It\n\
                     # takes {map} of memory."
                ),
                true => format!(
                    "The unit of the map and of moves, which formatting fixes: the smallest of {first} to {last} with which the map of \
                     {volume}\n# takes at most {budget} of memory. It takes {map}."
                ),
                false => format!(
                    "The unit of the map and of moves, which formatting fixes: the largest of {first} to {last}. The map of {volume} takes\n\
                     # {map} of memory, more than {budget}."
                ),
            };
            new.extent = Some((extent, why));
        }
        Ok(Written { text: text(&new)?, map: Some((extent, map)) })
    }

    /// As the one writer of designs takes it.
    fn told(&self) -> peryton_sim::NewDesign {
        let devices = names(self.mode).iter().zip(&self.devices).map(|(name, device)| device.told(name)).collect();
        let write = (self.mode == PlacementKind::Caching).then(|| self.write.unwrap_or(Write::Back).into());
        peryton_sim::NewDesign {
            about: vec![
                "Written by `peryton create`. Other keys have their defaults: `peryton keys` lists every key, and which may change".to_owned(),
                "while the volume is served (`peryton set`). The mode and the extents stay as they were when the volume was made.".to_owned(),
            ],
            volume: self.volume,
            write,
            explained: true,
            ..peryton_sim::NewDesign::of(self.mode, devices)
        }
    }
}

impl NewDevice {
    /// Whether it is as large as the drive of its profile in simulations.
    fn has_size_of_profile(&self) -> bool {
        self.profile.is_some() && self.size.is_none()
    }

    fn told(&self, name: &str) -> peryton_sim::NewDevice {
        let mut about = Vec::new();
        match &self.path {
            Some(named) => {
                if let Some(given) = &named.given {
                    about.push(format!(
                        "It was given as {given:?}. This name stays the same when devices are found in another order."
                    ));
                }
                if named.may_change {
                    about.push(
                        "Linux has no name for it that stays the same: after a restart this may be another device."
                            .to_owned(),
                    );
                }
            }
            None => about.push(
                "Without a path (a block device or an image file) it can be simulated, and not served.".to_owned(),
            ),
        }
        match &self.profile {
            Some(_) => about.push("The profile is the model in simulations; `peryton profiles` lists them.".to_owned()),
            None => about.push(
                "Without a profile it can be served, and not simulated; `peryton profiles` lists them.".to_owned(),
            ),
        }
        if self.size.is_none() {
            about.push("Without a size, all of the device is used.".to_owned());
        }
        let is_flash = self.profile.as_ref().is_some_and(|profile| matches!(profile.model, Model::Flash(_)));
        peryton_sim::NewDevice {
            about,
            path: self.path.as_ref().map(|named| named.path.clone()),
            profile: self.profile.as_ref().map(|profile| profile.origin().to_owned()),
            size: self.size,
            // A drive in use, not a new one.
            model: is_flash.then(|| "precondition = \"random\"".to_owned()).into_iter().collect(),
            ..peryton_sim::NewDevice::named(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(folder: &Path, mode: PlacementKind, write: Option<Write>, gib: [u64; 2]) -> NewDesign {
        let paths = [folder.join("a \"fast\"\n# one"), folder.join("slow")];
        for (path, gib) in paths.iter().zip(gib) {
            fs::File::create(path).and_then(|file| file.set_len(gib << 30)).unwrap();
        }
        let device = |path: &PathBuf| NewDevice {
            path: Some(Named::of(path, &Linux::default(), false).unwrap()),
            ..NewDevice::default()
        };
        let devices = paths.iter().take(names(mode).len()).map(device).collect();
        NewDesign { mode, devices, volume: None, write }
    }

    /// The fear: what is written is no design, or another one than was asked for.
    #[test]
    fn every_design_that_is_written_can_be_read_and_has_nothing_that_has_a_default() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.toml");
        let writes = [Some(Write::Through), Some(Write::Around)].map(|write| (PlacementKind::Caching, write));
        for (mode, write) in PlacementKind::ALL.map(|mode| (mode, None)).into_iter().chain(writes) {
            let new = new(folder.path(), mode, write, [2, 9]);
            let written = new.written(&path, &[]).unwrap();
            assert!(written.text.lines().all(|line| line.len() <= 140), "{}", written.text);
            let in_place = written.in_place(&path).unwrap();
            let design = in_place.design();
            assert_eq!(design.placement.kind(), mode, "{}", written.text);
            for (read, given) in design.devices.iter().zip(&new.devices) {
                let given = given.path.as_ref().unwrap();
                assert_eq!(read.path.as_deref(), Some(Path::new(&given.path)), "{}", written.text);
            }
            let table: toml::Table = written.text.parse().unwrap();
            let keys: Vec<&str> = table["placement"].as_table().unwrap().keys().map(String::as_str).collect();
            let known = ["mode", "fast", "slow", "primary", "log", "extent", "write"];
            assert!(keys.iter().all(|key| known.contains(key)), "{keys:?}");
        }
    }

    /// The fear: the map of a large volume takes more memory than the machine has, and nothing says so.
    #[test]
    fn the_extent_is_the_smallest_whose_map_fits_and_says_what_it_takes() {
        let folder = tempfile::tempdir().unwrap();
        let new = new(folder.path(), PlacementKind::Caching, None, [64, 1024]);
        let path = folder.path().join("new.toml");
        let set = ["placement.extent=256KiB".to_owned(), "placement.promotion.threshold=2".to_owned()];
        let budgets = [Bytes::gib(64), Bytes::gib(1), Bytes::mib(400), Bytes::mib(1)];
        let chosen = budgets.map(|budget| new.within(&path, &[], budget).unwrap());
        for (index, written) in chosen.iter().enumerate() {
            let (extent, map) = written.map.unwrap();
            assert!(written.text.contains(&format!("extent = \"{extent}\"")), "{}", written.text);
            assert!(written.text.contains(&map.to_string()), "{}", written.text);
            assert!(index == 0 || extent >= chosen[index - 1].map.unwrap().0);
        }
        assert_eq!((chosen[0].map.unwrap().0, chosen[3].map.unwrap().0), (Bytes::kib(16), Bytes::kib(64)));
        assert!(chosen[3].text.contains("more than 1MiB"), "{}", chosen[3].text);
        let given = new.within(&path, &set, Bytes::gib(1)).unwrap();
        assert_eq!(given.map.unwrap().0, Bytes::kib(256));
        let in_place = given.in_place(&path).unwrap();
        assert_eq!(in_place.design().tuning.promotion_threshold, 2, "{}", given.text);
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error =
            format!("{:?}", Named::of(Path::new("/dev/none-of-that-name"), &Linux::default(), true).unwrap_err());
        assert!(error.contains("/dev/none-of-that-name") && error.contains("is there"), "{error}");
    }
}
