//! From a design file to a volume that can be formatted and served.

use std::{
    fs,
    path::{Path, PathBuf},
};

use peryton_device::Class;
use peryton_drive::{DevicePath, Tuner, VolumeSpec};
use peryton_engine::Tuning;
use peryton_sim::Design;

use crate::failure::Failure;

/// Reads a design, and where its devices are. Paths in it are relative to its own directory.
pub fn spec(path: &Path, set: &[String]) -> Result<VolumeSpec, Failure> {
    let design = Design::load(path, set)?;
    if let Some(index) = design.ignored_overrides.first() {
        return Err(Failure::bad_input(format!("--set {}: does not apply to this design: remove it", set[*index])));
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
        // Where the design has several, the path names what they are striped into: the kernel does that well (md, LVM).
        devices.push(DevicePath { name: at.clone(), path: near.join(place) });
    }
    let rotational = design.devices.iter().all(|device| device.profile.class == Class::Hdd);
    let tuner = tuner(&design, path, set)?;
    Ok(VolumeSpec { name: design.name.clone(), config: design.config(), devices, rotational, tuner: Some(tuner) })
}

/// A drive in service has no meter, and what its devices might draw is not guessed.
pub fn meters(tuning: &Tuning) -> Result<(), String> {
    match tuning.climb.as_ref().and_then(|climb| climb.power_cap_w) {
        Some(watts) => Err(format!(
            "climb.caps.power: is {watts} W, but a drive in service cannot measure what its devices draw: remove it, or \
             find settings with peryton tune --subject-to 'power<={watts}W'"
        )),
        None => Ok(()),
    }
}

/// Reads settings on top of the design as it is now: the file may change while the volume is served.
fn tuner(design: &Design, path: &Path, set: &[String]) -> Result<Tuner, Failure> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{file}: {error}")))?;
    let (before, config) = (set.to_vec(), design.config());
    Ok(Tuner::new(move |settings: &[String]| -> Result<Tuning, String> {
        let all: Vec<String> = before.iter().chain(settings).cloned().collect();
        let design = Design::parse(&text, &file, &all).map_err(|error| error.to_string())?;
        if let Some(index) = design.ignored_overrides.first() {
            return Err(format!("{}: does not apply to this design", all[*index]));
        }
        meters(&design.tuning)?;
        let new = design.config();
        if new.placement != config.placement || new.devices != config.devices {
            let last = settings.last().map_or("it", String::as_str);
            return Err(format!("{last}: the format has fixed that: format the volume again to change it"));
        }
        Ok(new.tuning)
    }))
}

/// A path beside the design, named for it.
pub fn beside(design: &Path, extension: &str) -> PathBuf {
    design.with_extension(extension)
}
