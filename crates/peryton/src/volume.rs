//! Reads a design file for a volume that is to be formatted and served.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use peryton_device::Class;
use peryton_drive::{DesignFile, DevicePath, Linux, OwnSizes, ProcessDeath, Record, Tuner, VolumeSpec};
use peryton_engine::{Config, Tuning};
use peryton_sim::{Design, DesignText, DeviceDesign, DevicePlace, Formatted, InService, KeptInMemory, design_keys};
use peryton_units::{Bytes, Nanos};

use crate::{
    at_risk::missing_arrays,
    design_path::{self, design_file},
    failure::Failure,
    naming::{self, Named},
};

/// The options that name a volume.
#[derive(Clone, Debug, clap::Args)]
pub struct DesignArgs {
    /// The volume: its name, or the path of its design
    #[arg(value_name = naming::VOLUME, value_parser = naming::volume(), add = naming::completer())]
    volume: Named,
    /// Set a key of the design, such as placement.max_moves=4
    ///
    /// Set a key of the design, such as devices.ssd.path=/dev/sdb or placement.max_moves=4.
    #[arg(long, value_name = "KEY=VALUE", add = crate::completing::key_value())]
    set: Vec<String>,
}

impl DesignArgs {
    /// The design of this volume.
    pub fn new(volume: Named, set: Vec<String>) -> DesignArgs {
        DesignArgs { volume, set }
    }

    /// The same with another path of a device.
    ///
    /// # Errors
    /// The path cannot be written as a setting.
    pub fn with_path(&self, device: &str, path: &Path) -> Result<DesignArgs, Failure> {
        let wrong = |problem: String| Failure::bad_input(format!("{}: {problem}", path.display()));
        let path = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
        let text = path.to_str().ok_or_else(|| wrong("is not text, so no design can name it".to_owned()))?;
        let mut again = self.clone();
        again.set.push(format!("devices.{device}.path={text}"));
        Ok(again)
    }

    /// Sets the path of a device in the design's file, whose path is returned, or why not.
    pub fn set_path(&self, device: &str, path: &Path) -> Result<PathBuf, String> {
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        design_path::set(self.path(), &self.set, device, Some(&path))
    }

    /// Reads the design of the volume that is on its devices. `without`: the devices that are left out.
    pub fn spec(&self, without: &[String]) -> Result<VolumeSpec, Failure> {
        self.read(Purpose::Use { without })?.spec()
    }

    /// The same, and refuses what can be simulated but not done by a drive in service.
    pub fn spec_to_serve(&self, without: &[String]) -> Result<VolumeSpec, Failure> {
        self.read(Purpose::Serve { without })?.spec_to_serve()
    }

    /// The same, and what a recording says of it: in this file, of at most so many bytes.
    pub fn spec_to_record(
        &self,
        without: &[String],
        path: &Path,
        limit: Bytes,
    ) -> Result<(VolumeSpec, Record), Failure> {
        let read = self.read(Purpose::Serve { without })?;
        let record = read.recorded(path, limit);
        Ok((read.spec_to_serve()?, record))
    }

    /// Reads the design of a volume that is to be made, and refuses what a drive in service cannot do. Also returns a line about each
    /// array that the design has and the machine has not.
    pub fn spec_to_format(&self) -> Result<(VolumeSpec, Vec<String>), Failure> {
        let read = self.read(Purpose::Format)?;
        let design = read.design.clone();
        let spec = read.spec_to_serve()?;
        let missing = missing_arrays(&design, &spec.devices, &Linux::default());
        Ok((spec, missing))
    }

    /// The devices that the design names, whether they are there or not.
    pub fn devices(&self) -> Result<Vec<DevicePath>, Failure> {
        let near = self.path().parent().unwrap_or(Path::new(""));
        let places = DesignText::read(self.path())?.device_places(&self.set)?;
        let at = |place: DevicePlace| Some(DevicePath { path: near.join(place.path?), name: place.name });
        Ok(places.into_iter().filter_map(at).collect())
    }

    /// The sizes that the design gives and the volume has not, one line each; none if it cannot be read.
    pub fn kept_sizes(&self, without: &[String]) -> Vec<String> {
        self.read(Purpose::Use { without }).map_or_else(|_| Vec::new(), |read| read.design.kept_sizes)
    }

    fn read(&self, purpose: Purpose<'_>) -> Result<InPlace, Failure> {
        let text = DesignText::read(self.path())?;
        InPlace::read(text, self.path().parent().unwrap_or(Path::new("")), &self.set, purpose)
    }

    /// The arguments that name the same volume.
    pub fn again(&self) -> impl Iterator<Item = &std::ffi::OsStr> {
        let set = self.set.iter().flat_map(|setting| ["--set".as_ref(), setting.as_ref()]);
        std::iter::once(self.path().as_os_str()).chain(set)
    }

    /// The absolute path of the design's file.
    pub fn absolute(&self) -> Result<PathBuf, Failure> {
        fs::canonicalize(self.path()).map_err(|error| Failure::bad_input(format!("{}: {error}", self.path().display())))
    }

    /// The path of the design.
    pub fn path(&self) -> &Path {
        self.volume.design()
    }

    /// The volume, as it was named.
    pub fn named(&self) -> &Named {
        &self.volume
    }

    /// The file of the design, for a server that sets paths in it.
    pub fn file(&self) -> DesignFile {
        let design = std::path::absolute(self.path()).unwrap_or_else(|_| self.path().to_owned());
        design_file(design, self.set.clone())
    }
}

/// What a design is read for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// To make a new volume; one that is on the devices says nothing about it.
    Format,
    /// To use the volume that is there as it is, without these devices.
    Use {
        /// Their names.
        without: &'a [String],
    },
    /// To serve it: it may become one with parts of extents.
    Serve {
        /// The devices that are left out.
        without: &'a [String],
    },
}

/// A design and its devices.
pub struct InPlace {
    text: DesignText,
    set: Vec<String>,
    /// What the devices say.
    known: InService,
    design: Design,
    /// The folder at which relative paths start: that of the design.
    near: PathBuf,
}

impl InPlace {
    /// Reads a design, and asks the devices for what it does not say.
    pub fn read(text: DesignText, near: &Path, set: &[String], purpose: Purpose<'_>) -> Result<InPlace, Failure> {
        let known = ask(&text.device_places(set)?, near, purpose)?;
        let design = text.in_service(set, &known)?;
        let (set, near) = (set.to_vec(), near.to_owned());
        Ok(InPlace { text, set, known, design, near })
    }

    /// The design, with the sizes of its devices.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// What a recording of the volume says of it.
    fn recorded(&self, path: &Path, limit: Bytes) -> Record {
        let mut set = self.set.clone();
        if let Some(unit) = self.design.tuning.write_unit.filter(|_| !self.known.write_units.is_empty()) {
            // What the devices say is not known where the recording is replayed.
            set.push(format!("placement.write_unit={}KiB", unit.0 >> 10));
        }
        if let Some(pair) = self.design.placement.hybrid() {
            set.push(format!("placement.extent={}", pair.extent.0));
        }
        Record {
            path: path.to_owned(),
            limit,
            design: self.text.text().to_owned(),
            set,
            sizes: self.known.sizes.clone(),
            formatted: self.known.formatted.as_ref().map(|fixed| (fixed.data.clone(), fixed.spare)),
        }
    }

    /// The volume, with the paths of its devices.
    fn spec(self) -> Result<VolumeSpec, Failure> {
        let InPlace { text, set, known, design, near } = self;
        if let Some(index) = design.ignored_overrides.first() {
            return Err(Failure::bad_input(format!("--set {}: does not apply to this design: remove it", set[*index])));
        }
        let volumes = design.stream.map_or(design.volumes, |stream| stream.count);
        if volumes > 1 {
            return Err(Failure::bad_input(format!(
                "{}: volume.count: is {volumes}, but a drive in service is one volume: write a design for each, or remove it",
                design.file
            )));
        }
        let mut devices = Vec::new();
        for device in &design.devices {
            let at = &device.name;
            let Some(place) = &device.path else {
                return Err(Failure::bad_input(format!(
                    "{}: devices.{at}.path: missing: say which file or block device it is, such as path = \"{at}.img\"{}",
                    design.file,
                    if device.count > 1 { ", or the striped array of them all (mdadm, LVM)" } else { "" }
                )));
            };
            // If the design has several, the path is that of an array of them, made by the kernel (md, LVM).
            devices.push(DevicePath { name: at.clone(), path: near.join(place) });
        }
        let linux = Linux::default();
        let rotates = |(device, at): (&DeviceDesign, &DevicePath)| match device.has_profile {
            true => device.profile.class == Class::Hdd,
            false => linux.is_rotational(&at.path),
        };
        let rotational = design.devices.iter().zip(&devices).all(rotates);
        let (name, config) = (design.name.clone(), design.config());
        let process_death = match design.shared_memory {
            KeptInMemory::No => ProcessDeath::Off,
            KeptInMemory::In(directory) => ProcessDeath::SharedMemory { directory },
        };
        let tuner = |known: InService, of_design: Config| {
            let (text, set) = (text.clone(), set.clone());
            Some(Tuner::new(move |settings: &[String]| retuned(&text, &known, &of_design, &set, settings)))
        };
        let tuner = tuner(known, config.clone());
        Ok(VolumeSpec { name, config, devices, process_death, rotational, tuner })
    }

    /// The same, and refuses what can be simulated but not done by a drive in service.
    pub fn spec_to_serve(self) -> Result<VolumeSpec, Failure> {
        let file = self.design.file.clone();
        let spec = self.spec()?;
        let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
        can_be_done(&spec.config.tuning, &names).map_err(|error| Failure::bad_input(format!("{file}: {error}")))?;
        Ok(spec)
    }
}

/// What the devices say of what the design does not say.
fn ask(places: &[DevicePlace], near: &Path, purpose: Purpose<'_>) -> Result<InService, Failure> {
    let at = |place: &DevicePlace| {
        let path = near.join(place.path.as_ref()?);
        Some(DevicePath { name: place.name.clone(), path })
    };
    let devices: Vec<DevicePath> = places.iter().filter_map(at).collect();
    let without = match purpose {
        Purpose::Format => &[],
        Purpose::Use { without } | Purpose::Serve { without } => without,
    };
    let own = peryton_drive::own_sizes(&devices, without);
    let is_used = !matches!(purpose, Purpose::Format);
    let linux = Linux::default();
    let unit_of = |at: &DevicePath| Some((at.name.clone(), linux.write_unit(&at.path)?));
    let write_units: BTreeMap<_, _> =
        devices.iter().filter(|at| !without.contains(&at.name)).filter_map(unit_of).collect();
    let OwnSizes { devices: sizes, formatted } = own.map_err(Failure::bad_input)?;
    let is_there = |at: &DevicePath| fs::metadata(&at.path).is_ok();
    if is_used
        && formatted.is_none()
        && let Some(missing) = devices.iter().find(|at| !without.contains(&at.name) && !is_there(at))
    {
        let others = if devices.iter().any(is_there) { "no other has a volume" } else { "neither is another one" };
        return Err(Failure::bad_input(format!(
            "{missing} is not there, and {others}: attach it, or set its path in the design; peryton create makes a new volume"
        )));
    }
    let formatted = formatted.filter(|_| is_used);
    let sizes = devices.into_iter().zip(sizes).filter_map(|(at, size)| Some((at.name, size?)));
    Ok(InService {
        sizes: sizes.collect(),
        extent: formatted.as_ref().and_then(|fixed| Some(fixed.placement.hybrid()?.extent)),
        write_units,
        formatted: formatted.map(|fixed| Formatted { data: fixed.devices, spare: fixed.spare }),
    })
}

/// The shortest idle time after which a motor is stopped: each start wears it, and takes longer than this.
const SHORTEST_IDLE: Nanos = Nanos::from_s(1);

/// A drive in service has no power meter, and does not guess the devices' power. It stops no motor after a moment of rest.
fn can_be_done(tuning: &Tuning, names: &[&str]) -> Result<(), String> {
    let after = names.iter().zip(&tuning.spin_down_after).filter_map(|(name, after)| Some((name, (*after)?)));
    if let Some((name, after)) = after.into_iter().find(|(_, after)| *after < SHORTEST_IDLE) {
        return Err(format!(
            "power.{name}.spin_down_after: is {after}, but a drive in service waits for {SHORTEST_IDLE} at the least, because \
             each start wears the motor: give {SHORTEST_IDLE} or more, or \"never\""
        ));
    }
    match tuning.climb.as_ref().and_then(|climb| climb.power_cap_w) {
        Some(watts) => Err(format!(
            "climb.caps.power: is {watts} W, but a drive in service cannot measure what its devices draw: remove it, or \
             find settings with peryton tune --subject-to 'power<={watts}W'"
        )),
        None => Ok(()),
    }
}

/// The reason why a setting changes nothing while the volume is served, if it does not. The engine reads some keys again when a
/// volume is tuned; others describe devices, prices and simulations, or are fixed when the volume is opened.
fn not_live(setting: &str) -> Option<String> {
    let path = setting.split('=').next().unwrap_or_default().trim();
    // A whole table is as live as its keys.
    let known = design_keys().filter(|key| key.is_at(path) || key.path.starts_with(&format!("{path}.")));
    let mut fixed = known.filter(|key| !key.live).peekable();
    // What is no key, and settings with reasons of their own, get the errors of the parser and of `can_be_done`.
    let has_reason =
        |path: &str| path.starts_with("power.") || path.starts_with("placement.") || path == "climb.caps.power";
    let key = fixed.find(|key| !has_reason(key.path))?;
    Some(format!("{setting}: {} changes nothing while the volume is served; keys that do: peryton keys", key.path))
}

/// The tuning of a design whose volume was opened with `config`, with more settings than those `before`. The text is that of the time
/// when the volume was opened, because the file may change while it is served.
fn retuned(
    text: &DesignText,
    known: &InService,
    config: &Config,
    before: &[String],
    settings: &[String],
) -> Result<Tuning, String> {
    if let Some(problem) = settings.iter().find_map(|setting| not_live(setting)) {
        return Err(problem);
    }
    let all: Vec<String> = before.iter().chain(settings).cloned().collect();
    let design = text.in_service(&all, known).map_err(|error| error.to_string())?;
    if let Some(index) = design.ignored_overrides.first() {
        return Err(format!("{}: does not apply to this design", all[*index]));
    }
    let names: Vec<&str> = design.devices.iter().map(|device| device.name.as_str()).collect();
    can_be_done(&design.tuning, &names)?;
    let new = design.config();
    if new.placement != config.placement || new.devices != config.devices {
        let last = settings.last().map_or("it", String::as_str);
        return Err(format!("{last}: the format has fixed that: make the volume again to change it (peryton create)"));
    }
    Ok(new.tuning)
}

#[cfg(test)]
mod tests {
    use peryton_engine::PlacementKind;

    use super::*;

    /// The fear: the reference says that a key may change while the volume is served, and `peryton set` refuses it; or it says
    /// that a key may not, and a change is accepted that does nothing.
    #[test]
    fn what_may_change_while_the_volume_is_served_is_what_the_reference_says() {
        let devices = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '1GiB'\n[devices.hdd]\n\
                       profile = 'seagate-st32000641as'\nsize = '8GiB'\n";
        let mut tried = 0;
        for (kind, names) in [
            (PlacementKind::Tiering, "fast = 'ssd'\nslow = 'hdd'\nextent = '1MiB'\n"),
            (PlacementKind::Caching, "fast = 'ssd'\nslow = 'hdd'\nextent = '1MiB'\n"),
            (PlacementKind::Partitioned, "fast = 'ssd'\nslow = 'hdd'\nextent = '1MiB'\n"),
            (PlacementKind::Logging, "primary = 'ssd'\nlog = 'hdd'\n"),
        ] {
            let text = format!("{devices}[placement]\nmode = '{}'\n{names}", kind.name());
            for key in design_keys().filter(|key| key.placements.contains(&kind) && !key.example().is_empty()) {
                let setting = |text: &str| text.replace("NAME", "hdd");
                let before: Vec<String> = key.needs().iter().copied().map(setting).collect();
                // Several volumes are for simulations.
                let Ok(design) = Design::parse(&text, "d", &before) else { panic!("{}", key.path) };
                let change = [setting(&format!("{}={}", key.path, key.example()))];
                let (text, known) = (DesignText::new(text.as_str(), "d"), InService::default());
                let tuned = retuned(&text, &known, &design.config(), &before, &change);
                match (key.live, &tuned) {
                    (true, Ok(_)) => {}
                    // The key of older designs, which changes nothing, is accepted as it is in a file.
                    (false, Err(error)) => assert!(error.contains(key.path.rsplit('.').next().unwrap()), "{error}"),
                    (false, Ok(_)) if key.is_inert() => {}
                    _ => panic!("{} in {}: live is {}, but: {tuned:?}", key.path, kind.name(), key.live),
                }
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
