//! A volume on paper: what the design says, where the devices are, and how settings are read.

use std::{fmt, sync::Arc};

use peryton_engine::{Config, Tuning};

use crate::open::DevicePath;

/// Reads settings as the design file has them (`placement.max_moves=4`), on top of those of the design.
#[derive(Clone)]
pub struct Tuner(Arc<Tune>);

type Tune = dyn Fn(&[String]) -> Result<Tuning, String> + Send + Sync;

impl Tuner {
    /// `tune` gets all settings that are in force, in the order in which they came, and answers with what they come to,
    /// or with one line that says what is wrong with them.
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

/// A volume on paper: what the design says, and where the devices are.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// The name of the design, and of the NBD export.
    pub name: String,
    /// What the engine is told.
    pub config: Config,
    /// In the order of the engine.
    pub devices: Vec<DevicePath>,
    /// Whether seeks cost, on any of them.
    pub rotational: bool,
    /// Reads settings that are changed while the volume is served; without it they cannot be.
    pub tuner: Option<Tuner>,
}

impl VolumeSpec {
    /// What the engine says, which numbers devices, with their names and paths.
    #[must_use]
    pub fn with_names(&self, said: impl fmt::Display) -> String {
        let mut named = said.to_string();
        // From the last on: "device 1" is the start of "device 10".
        for (index, device) in self.devices.iter().enumerate().rev() {
            let path = device.path.display();
            named = named.replace(&format!("device {index}"), &format!("device '{}' ({path})", device.name));
        }
        named
    }
}
