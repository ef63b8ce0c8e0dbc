//! What formatting fixes for good: which devices a volume has, how large they are, and what each is for.

use peryton_units::Bytes;

use crate::storage::DeviceId;

/// The most devices that a volume can have.
pub const MOST_DEVICES: usize = 16;

/// What formatting fixes for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// How many bytes of data each device holds.
    pub devices: Vec<Bytes>,
    /// What each device is for.
    pub arrangement: Arrangement,
    /// How many extents are spare; 0 without a map.
    pub spare: u32,
}

/// What each device of a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One device holds the volume.
    Single {
        /// Which one.
        device: DeviceId,
    },
    /// The devices hold the volume one after the other.
    Linear {
        /// Their order.
        devices: Vec<DeviceId>,
    },
    /// Each extent is on one of the two devices.
    Tiering(MapPair),
    /// The slow device holds the volume, and the fast one copies of some extents, which may be newer.
    Caching(MapPair),
    /// The same on disk as caching; the drive decides otherwise what it copies.
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
    /// How large an extent is.
    pub extent: Bytes,
}

/// The devices of a volume with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPair {
    /// The device that holds the volume.
    pub primary: DeviceId,
    /// The device that holds the log.
    pub log: DeviceId,
    /// How large a block is: the unit in which the newest copy of data is known.
    pub block: Bytes,
}

impl Geometry {
    /// What differs between a design (`self`) and what a device says, a line each, for the person who has to decide which
    /// is right.
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
        differ("the number of spare extents", self.spare.to_string(), on_device.spare.to_string());
        found
    }
}

impl Arrangement {
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
