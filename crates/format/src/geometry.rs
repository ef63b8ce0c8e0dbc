//! What formatting fixes permanently: the devices of a volume, their sizes, and the purpose of each.

use peryton_units::Bytes;

use crate::{displaced::Displaced, places::Places, storage::DeviceId};

/// The most devices that a volume can have.
pub const MOST_DEVICES: usize = 16;

/// What formatting fixes permanently. It is a part of every superblock; a design that differs from it cannot open the
/// volume:
///
/// ```
/// use peryton_format::{
///     geometry::{Arrangement, Geometry, MapPair},
///     storage::DeviceId,
/// };
/// use peryton_units::Bytes;
///
/// let pair = MapPair { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
/// let devices = vec![Bytes::gib(8), Bytes::gib(100)];
/// let arrangement = Arrangement::Caching(pair);
/// let on_device = Geometry {
///     devices,
///     arrangement,
///     spare: 256,
///     displaced: None,
///     places: None,
/// };
/// let design = Geometry { arrangement: Arrangement::Tiering(pair), ..on_device.clone() };
/// assert_eq!(design.differences(&on_device), ["placement.mode is tiering in the design and caching on the device"]);
/// assert!(design.differences(&design).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data on each device.
    pub devices: Vec<Bytes>,
    /// The purpose of each device.
    pub arrangement: Arrangement,
    /// Number of spare extents; 0 without a map.
    pub spare: u32,
    /// How a device is divided that had data before.
    pub displaced: Option<Displaced>,
    /// Where the metadata lie if a device was resized.
    pub places: Option<Places>,
}

/// The purpose of each device of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One device holds the volume.
    Single {
        /// The device.
        device: DeviceId,
    },
    /// The devices hold the volume one after the other.
    Linear {
        /// Their order.
        devices: Vec<DeviceId>,
    },
    /// Each extent is on one of the two devices.
    Tiering(MapPair),
    /// The slow device holds the volume. The fast one holds copies of some extents, which may be newer.
    Caching(MapPair),
    /// On the devices the same as caching; the drive follows other rules.
    Partitioned(MapPair),
    /// The primary holds the volume, and the log the newest writes.
    Logging(LogPair),
}

/// The devices of a volume with a map of extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPair {
    /// The fast device.
    pub fast: DeviceId,
    /// The slow device.
    pub slow: DeviceId,
    /// Size of an extent.
    pub extent: Bytes,
}

/// The devices of a volume with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPair {
    /// The device that holds the volume.
    pub primary: DeviceId,
    /// The device that holds the log.
    pub log: DeviceId,
    /// Size of a block: the unit of the log's map.
    pub block: Bytes,
}

impl Geometry {
    /// The differences between a design (`self`) and the geometry on a device, one line each, for the person who has to
    /// decide which one is right.
    pub fn differences(&self, on_device: &Geometry) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what} is {ours} in the design and {theirs} on the device"));
            }
        };
        differ("the number of devices", self.devices.len().to_string(), on_device.devices.len().to_string());
        let (ours, theirs) = (self.arrangement.fields(), on_device.arrangement.fields());
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            differ(ours.0, ours.1, theirs.1);
        }
        for (index, (ours, theirs)) in self.devices.iter().zip(&on_device.devices).enumerate() {
            differ(&format!("the data size of device {index}"), ours.to_string(), theirs.to_string());
        }
        let taken_over = |displaced: &Option<Displaced>| match displaced {
            Some(Displaced { bytes, home, at, .. }) => {
                format!("taken over with data, of which {bytes} moved to device {} at {at}", home.0)
            }
            None => "not taken over with data".to_owned(),
        };
        differ("the slow device", taken_over(&self.displaced), taken_over(&on_device.displaced));
        differ("the number of spare extents", self.spare.to_string(), on_device.spare.to_string());
        found
    }
}

impl Arrangement {
    /// The size of the extents, of a volume that has a map of them.
    pub fn extent(&self) -> Option<Bytes> {
        match self {
            Arrangement::Tiering(pair) | Arrangement::Caching(pair) | Arrangement::Partitioned(pair) => {
                Some(pair.extent)
            }
            Arrangement::Single { .. } | Arrangement::Linear { .. } | Arrangement::Logging(_) => None,
        }
    }

    /// The arrangement as names and values.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let pair = |mode: &str, a: DeviceId, b: DeviceId, unit: Bytes| {
            let text = |device: DeviceId| format!("device {}", device.0);
            vec![
                ("placement.mode", mode.to_string()),
                ("the fast device (or the log's primary)", text(a)),
                ("the slow device (or the log)", text(b)),
                ("placement.extent (or block)", unit.to_string()),
            ]
        };
        match self {
            Arrangement::Single { device } => pair("single", *device, *device, Bytes::ZERO),
            Arrangement::Linear { devices } => {
                let order: Vec<String> = devices.iter().map(|device| device.0.to_string()).collect();
                vec![("placement.mode", "linear".to_string()), ("the order of the devices", order.join(", "))]
            }
            Arrangement::Tiering(MapPair { fast, slow, extent }) => pair("tiering", *fast, *slow, *extent),
            Arrangement::Caching(MapPair { fast, slow, extent }) => pair("caching", *fast, *slow, *extent),
            Arrangement::Partitioned(MapPair { fast, slow, extent }) => pair("partitioned", *fast, *slow, *extent),
            Arrangement::Logging(LogPair { primary, log, block }) => pair("logging", *primary, *log, *block),
        }
    }
}
