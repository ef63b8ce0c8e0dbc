//! The description of a volume: its design, the paths of its devices, and how settings are parsed.

use std::{fmt, sync::Arc};

use peryton_engine::{Config, Tuning};

use crate::{open::DevicePath, shared_memory::ProcessDeath};

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
}
