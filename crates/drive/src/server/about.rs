//! The description of a served volume besides its engine.

use peryton_engine::Opened;

use crate::{events::Events, multi_mount::Held, open::Device, read_only::ReadOnly, spec::Tuner};

/// The description of a served volume besides its engine.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) name: String,
    /// Names of the devices, in the engine's order.
    pub(crate) names: Vec<String>,
    pub(crate) opened: Opened,
    /// Whether a server that was killed has left no records, and its hosts may miss what it had answered.
    pub(crate) lacks_records: bool,
    /// The open devices, in the engine's order; `None` for an absent one.
    pub(crate) devices: Vec<Option<Device>>,
    pub(crate) tuner: Option<Tuner>,
    /// The settings in force in addition to the design, `key=value` each.
    pub(crate) settings: Vec<String>,
    pub(crate) events: Events,
    /// Why the volume is served for reads only, if it is.
    pub(crate) read_only: Option<ReadOnly>,
    /// The holder blocks, by which this process has the volume.
    pub(crate) held: Option<Held>,
    /// Whether devices may be made to fail on demand.
    pub(crate) drills: bool,
}

impl About {
    /// Notes that another device, or none, has this number now.
    pub(crate) fn device_changed(&self, index: usize) {
        if let Some(held) = &self.held {
            held.changed(index, self.devices[index].as_ref());
        }
    }

    /// Replaces the device numbers in a message of the engine by names.
    pub(crate) fn named(&self, said: &str) -> String {
        // From the last to the first, because "device 1" is the start of "device 10".
        let names = self.names.iter().enumerate().rev();
        names.fold(said.to_owned(), |said, (index, name)| {
            said.replace(&format!("device {index}"), &format!("device '{name}'"))
        })
    }

    /// The settings that were stored when the volume was last served.
    pub(crate) fn kept(notes: &str) -> Vec<String> {
        if notes.is_empty() {
            return Vec::new();
        }
        serde_json::from_str(notes).unwrap_or_else(|error| {
            tracing::warn!(%error, "the settings that were kept cannot be read; the design's are in force");
            Vec::new()
        })
    }
}
