//! The description of a volume: its design, the paths of its devices, and how settings are parsed.

use std::{fmt, sync::Arc};

use peryton_engine::{Config, DeviceId, OpenError, Tuning};

use crate::{open::DevicePath, own_sizes::members, shared_memory::ProcessDeath};

/// Parses settings with the design file's keys (`placement.max_moves=4`) and applies them to the design.
#[derive(Clone)]
pub struct Tuner(Arc<Tune>);

type Tune = dyn Fn(&[String]) -> Result<Tuning, String> + Send + Sync;

impl Tuner {
    /// `tune` is given all settings in force, in the order in which they were made. It returns the resulting tuning, or
    /// one line that says what is wrong with the settings.
    pub fn new(tune: impl Fn(&[String]) -> Result<Tuning, String> + Send + Sync + 'static) -> Tuner {
        Tuner(Arc::new(tune))
    }

    pub(crate) fn tune(&self, settings: &[String]) -> Result<Tuning, String> {
        (self.0)(settings)
    }
}

impl std::fmt::Debug for Tuner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tuner")
    }
}

/// The description of a volume: its design, and the paths of its devices.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// The name of the design, and of the NBD export.
    pub name: String,
    /// The engine's configuration.
    pub config: Config,
    /// The paths of the devices, in the engine's order.
    pub devices: Vec<DevicePath>,
    /// What becomes of what was not flushed when the server is killed.
    pub process_death: ProcessDeath,
    /// Whether seeks are slow on any of the devices.
    pub rotational: bool,
    /// Parses settings that are changed while the volume is served; without it they cannot be changed.
    pub tuner: Option<Tuner>,
}

impl VolumeSpec {
    /// Replaces the device numbers in a message of the engine by names and paths.
    #[must_use]
    pub fn with_names(&self, said: impl fmt::Display) -> String {
        let mut named = said.to_string();
        // From the last to the first, because "device 1" is the start of "device 10".
        for (index, device) in self.devices.iter().enumerate().rev() {
            let path = device.path.display();
            named = named.replace(&format!("device {index}"), &format!("device '{}' ({path})", device.name));
        }
        named
    }

    /// Why the volume cannot be opened. Where devices do not belong together, nothing says which is the wrong one, so each is named with
    /// what it says of itself.
    #[must_use]
    pub fn why_not_opened(&self, error: &OpenError) -> String {
        let (OpenError::Foreign { .. } | OpenError::Swapped { .. }) = error else { return self.with_names(error) };
        let members = members(&self.devices);
        let named = self.devices.iter().zip(&members);
        let known = || named.clone().enumerate().filter_map(|(index, (at, member))| Some((index, at, (*member)?)));
        let Some((_, _, (first, _))) = known().next() else { return self.with_names(error) };
        let as_of = |index: DeviceId| match self.devices.get(index.index()) {
            Some(at) => format!("'{}'", at.name),
            None => "another device".to_owned(),
        };
        if known().any(|(_, _, (volume, _))| volume != first) {
            let each =
                known().map(|(_, at, (volume, index))| format!("{at} is {} of volume {:032x}", as_of(index), volume.0));
            let each: Vec<String> = each.collect();
            return format!(
                "the design names devices of different volumes, not of one: {}: name those of one",
                each.join("; ")
            );
        }
        let misplaced = known().filter(|(index, _, (_, member))| member.index() != *index);
        let misplaced: Vec<String> = misplaced
            .map(|(_, at, (_, index))| format!("{at} is {} of the volume, or a copy of it", as_of(index)))
            .collect();
        let is_there = |index: usize| members.iter().flatten().any(|(_, member)| member.index() == index);
        match misplaced.is_empty() || (0..members.len()).all(is_there) {
            true => self.with_names(error),
            false => format!("{}: name the right one", misplaced.join("; ")),
        }
    }
}
