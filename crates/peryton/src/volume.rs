//! Reads a design file for a volume that is to be formatted and served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use peryton_device::Class;
use peryton_drive::{DevicePath, ProcessDeath, Tuner, VolumeSpec};
use peryton_engine::{Config, Tuning};
use peryton_sim::{Design, DeviceDesign, design_keys};
use peryton_units::Bytes;

use crate::failure::Failure;

/// The options that name a volume.
#[derive(Debug, clap::Args)]
pub struct DesignArgs {
    /// Design file; its devices have a `path`
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,
    /// Set a key of the design, such as devices.ssd.path=/dev/sdb or placement.max_moves=4
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl DesignArgs {
    /// Reads the design.
    pub fn spec(&self) -> Result<VolumeSpec, Failure> {
        spec(&self.design, &self.set)
    }

    /// Reads the design, and refuses what can be simulated but not done by a drive in service.
    pub fn spec_to_serve(&self) -> Result<VolumeSpec, Failure> {
        let spec = self.spec()?;
        let names: Vec<&str> = spec.devices.iter().map(|device| device.name.as_str()).collect();
        can_be_done(&spec.config.tuning, &names)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", self.design.display())))?;
        Ok(spec)
    }

    /// What may be written to each device in its life; `None` where neither design nor profile say it.
    pub fn rated_writes(&self) -> Result<Vec<Option<Bytes>>, Failure> {
        let design = Design::load(&self.design, &self.set)?;
        let rated = |device: &DeviceDesign| {
            // Mirrors and parity use up the rest.
            Some(device.written_limit?.saturating_mul(u64::from(device.data_devices())))
        };
        Ok(design.devices.iter().map(rated).collect())
    }

    /// The arguments that name the same volume.
    pub fn again(&self) -> impl Iterator<Item = &std::ffi::OsStr> {
        let set = self.set.iter().flat_map(|setting| ["--set".as_ref(), setting.as_ref()]);
        std::iter::once(self.design.as_os_str()).chain(set)
    }

    /// The absolute path of the design's file.
    pub fn absolute(&self) -> Result<PathBuf, Failure> {
        fs::canonicalize(&self.design)
            .map_err(|error| Failure::bad_input(format!("{}: {error}", self.design.display())))
    }

    /// A path in the design's folder, with its name and this extension.
    pub fn beside(&self, extension: &str) -> PathBuf {
        self.design.with_extension(extension)
    }
}

/// Reads a design with the paths of its devices. Relative paths start at the design's own directory.
fn spec(path: &Path, set: &[String]) -> Result<VolumeSpec, Failure> {
    let design = Design::load(path, set)?;
    if let Some(index) = design.ignored_overrides.first() {
        return Err(Failure::bad_input(format!("--set {}: does not apply to this design: remove it", set[*index])));
    }
    if design.volumes > 1 {
        return Err(Failure::bad_input(format!(
            "{}: volume.count: is {}, but a drive in service is one volume: write a design for each, or remove it",
            design.file, design.volumes
        )));
    }
    let near = path.parent().unwrap_or(Path::new(""));
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
    let rotational = design.devices.iter().all(|device| device.profile.class == Class::Hdd);
    let tuner = tuner(&design, path, set)?;
    let (name, config) = (design.name.clone(), design.config());
    let process_death = match design.shared_memory {
        None => ProcessDeath::Off,
        Some(directory) => ProcessDeath::SharedMemory { directory },
    };
    Ok(VolumeSpec { name, config, devices, process_death, rotational, tuner: Some(tuner) })
}

/// A drive in service has no power meter, does not guess the devices' power, and does not spin disks down.
fn can_be_done(tuning: &Tuning, names: &[&str]) -> Result<(), String> {
    let spins_down = names.iter().zip(&tuning.spin_down_after).find(|(_, after)| after.is_some());
    if let Some((name, _)) = spins_down {
        return Err(format!(
            "power.{name}.spin_down_after: a drive in service does not spin devices down: give \"never\", and let the disk \
             do it by itself (hdparm -S)"
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

/// Applies settings to the design file as it is now, because the file may change while the volume is served.
fn tuner(design: &Design, path: &Path, set: &[String]) -> Result<Tuner, Failure> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{file}: {error}")))?;
    let (before, config) = (set.to_vec(), design.config());
    Ok(Tuner::new(move |settings: &[String]| retuned(&text, &file, &config, &before, settings)))
}

/// The tuning of a design whose volume was opened with `config`, with more settings than those `before`.
fn retuned(text: &str, file: &str, config: &Config, before: &[String], settings: &[String]) -> Result<Tuning, String> {
    if let Some(problem) = settings.iter().find_map(|setting| not_live(setting)) {
        return Err(problem);
    }
    let all: Vec<String> = before.iter().chain(settings).cloned().collect();
    let design = Design::parse(text, file, &all).map_err(|error| error.to_string())?;
    if let Some(index) = design.ignored_overrides.first() {
        return Err(format!("{}: does not apply to this design", all[*index]));
    }
    let names: Vec<&str> = design.devices.iter().map(|device| device.name.as_str()).collect();
    can_be_done(&design.tuning, &names)?;
    let new = design.config();
    if new.placement != config.placement || new.devices != config.devices {
        let last = settings.last().map_or("it", String::as_str);
        return Err(format!("{last}: the format has fixed that: format the volume again to change it"));
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
            (PlacementKind::Tiering, "fast = 'ssd'\nslow = 'hdd'\n"),
            (PlacementKind::Caching, "fast = 'ssd'\nslow = 'hdd'\n"),
            (PlacementKind::Partitioned, "fast = 'ssd'\nslow = 'hdd'\n"),
            (PlacementKind::Logging, "primary = 'ssd'\nlog = 'hdd'\n"),
        ] {
            let text = format!("{devices}[placement]\nmode = '{}'\n{names}", kind.name());
            for key in design_keys().filter(|key| key.placements.contains(&kind) && !key.example().is_empty()) {
                let setting = |text: &str| text.replace("NAME", "hdd");
                let before: Vec<String> = key.needs().iter().copied().map(setting).collect();
                // Several volumes are for simulations.
                let Ok(design) = Design::parse(&text, "d", &before) else { panic!("{}", key.path) };
                let change = [setting(&format!("{}={}", key.path, key.example()))];
                let tuned = retuned(&text, "d", &design.config(), &before, &change);
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
