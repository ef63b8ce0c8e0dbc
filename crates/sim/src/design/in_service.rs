//! What a drive in service knows of its devices besides the design: how large they are, and what formatting has fixed.

use std::{collections::BTreeMap, path::PathBuf};

use peryton_units::Bytes;

use super::devices;
use crate::{DesignError, document::Document};

/// What is known of the devices of a drive in service. A design that is read with it needs no size and no profile for a device:
/// the device is used as a whole. A volume that is there keeps its sizes, whatever the design says.
///
/// ```
/// use peryton_sim::{DesignText, InService};
/// use peryton_units::Bytes;
///
/// let text = "[devices.ssd]\npath = '/dev/nvme0n1'\n[placement]\nmode = 'single'\n";
/// let design = DesignText::new(text, "my design");
/// let sizes = [("ssd".to_owned(), Bytes::gib(4))].into();
/// let in_service = design.in_service(&[], &InService { sizes, ..InService::default() })?;
/// assert!(in_service.devices[0].used <= Bytes::gib(4) && in_service.devices[0].used > Bytes::mib(4_095));
/// # Ok::<(), peryton_sim::DesignError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InService {
    /// How large each device is, by its name; those that are not there, or are empty files, are absent.
    pub sizes: BTreeMap<String, Bytes>,
    /// What formatting has fixed, if there is a volume on the devices.
    pub formatted: Option<Formatted>,
    /// The extents of the volume that is on the devices.
    pub extent: Option<Bytes>,
    /// The unit in which each device is best written, by its name, where it says so and the unit is large. A profile that the design
    /// gives says nothing about the device that is there.
    pub write_units: BTreeMap<String, Bytes>,
}

/// The sizes of a volume that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatted {
    /// Bytes of data on each device, in the order of the design.
    pub data: Vec<Bytes>,
    /// Number of spare extents; 0 without a map.
    pub spare: u32,
}

/// What is known of one device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Its size, if it is there.
    pub(super) size: Option<Bytes>,
    /// Whether the volume's superblocks say how much of it is used.
    pub(super) is_formatted: bool,
    /// The unit in which it is best written, if that is large.
    pub(super) write_unit: Option<Bytes>,
}

impl InService {
    pub(super) fn of(&self, name: &str) -> Known {
        let of = |all: &BTreeMap<String, Bytes>| all.get(name).copied();
        Known { size: of(&self.sizes), is_formatted: self.formatted.is_some(), write_unit: of(&self.write_units) }
    }
}

/// A device of a design, as far as it has to be known to ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePlace {
    /// Its name in the design.
    pub name: String,
    /// The path of the block device or file, relative to the design file.
    pub path: Option<PathBuf>,
}

/// The devices in the order of the file. Nothing else of the design is read.
pub(super) fn places(document: &Document) -> Result<Vec<DevicePlace>, DesignError> {
    let mut root = document.keys();
    let Some(tables) = root.table("devices")? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for (name, mut keys) in tables.tables()? {
        // An override may be meant for another design that has the device.
        if name.override_index().is_some()
            && keys.get(&devices::PROFILE)?.is_none()
            && keys.get(&devices::DESIGN)?.is_none()
        {
            continue;
        }
        let path = keys.get(&devices::PATH)?.map(|path| PathBuf::from(path.into_inner()));
        found.push(DevicePlace { name: name.into_inner(), path });
    }
    Ok(found)
}
