//! What formatting fixes permanently: the devices of a volume, their sizes, and the purpose of each.

use std::{fmt, ops::Deref};

use peryton_units::Bytes;

use crate::{displaced::Displaced, places::Places, storage::DeviceId};

/// The most devices that a volume can have.
pub const MOST_DEVICES: usize = 16;

/// What formatting fixes permanently. It is a part of every superblock; a design that differs from it cannot open the
/// volume:
///
/// ```
/// use peryton_format::{
///     geometry::{Placement, Geometry, Hybrid},
///     storage::DeviceId,
/// };
/// use peryton_units::Bytes;
///
/// let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
/// let devices = vec![Bytes::gib(8), Bytes::gib(100)];
/// let placement = Placement::Caching(pair);
/// let on_device = Geometry {
///     devices,
///     placement,
///     spare: 256,
///     displaced: None,
///     places: None,
/// };
/// let design = Geometry { placement: Placement::Tiering(pair), ..on_device.clone() };
/// assert_eq!(design.differences(&on_device), ["placement.mode is tiering in the design and caching on the device"]);
/// assert!(design.differences(&design).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of data on each device.
    pub devices: Vec<Bytes>,
    /// The purpose of each device.
    pub placement: Placement,
    /// Number of spare extents; 0 without a map.
    pub spare: u32,
    /// How a device is divided that had data before.
    pub displaced: Option<Displaced>,
    /// Where the metadata lie if a device was resized.
    pub places: Option<Places>,
}

/// How data is placed on the devices; fixed when the volume is formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One device without change: the baseline "SSD only" or "HDD only".
    Single {
        /// The device.
        device: DeviceId,
    },
    /// The devices one after the other (GreenDM's "Mylinear", section 3.1).
    Linear {
        /// The devices, in the order of the volume.
        devices: Vec<DeviceId>,
    },
    /// Hot extents live on the fast device, the others on the slow one; the volume is as large as both (GreenDM, section 2.3).
    Tiering(Hybrid),
    /// The fast device caches the slow one; the volume is as large as the slow one (GreenDM, section 2.3).
    Caching(Hybrid),
    /// Each write goes to the device that is predicted to answer sooner; the volume is as large as the slow one (MixedStore, section 5).
    /// On the devices the same as caching.
    Partitioned(Hybrid),
    /// Writes are appended to a log and migrate to the primaries later; the volume is as large as these together (Griffin).
    Logging(Logging),
}

/// The two devices of a tiering, caching or partitioned drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hybrid {
    /// The fast device.
    pub fast: DeviceId,
    /// The slow device.
    pub slow: DeviceId,
    /// ES: the unit of mapping and moving, a multiple of 4 KiB.
    pub extent: Bytes,
}

/// The devices of a logging drive (Griffin, sections 3 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logging {
    /// The devices that hold the data in the order of the volume after a migration. An only one can be used alone.
    pub primaries: Primaries,
    /// The device that holds the log. At most 1 TiB of it is used.
    pub log: DeviceId,
    /// The unit of mapping: a power of two from 512 B to 64 KiB. 4 KiB suits most file systems.
    pub block: Bytes,
}

/// The most primaries that share a log.
pub const MOST_PRIMARIES: usize = MOST_DEVICES - 1;

/// The primaries of a log, in the order of the volume: at least one.
///
/// ```
/// use peryton_format::{geometry::Primaries, storage::DeviceId};
///
/// let two = Primaries::new(&[DeviceId(2), DeviceId(0)]).expect("two are possible");
/// assert_eq!((two.len(), two.only()), (2, None));
/// assert_eq!(Primaries::from(DeviceId(1)).only(), Some(DeviceId(1)));
/// assert_eq!(Primaries::new(&[]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Primaries {
    count: u8,
    devices: [DeviceId; MOST_PRIMARIES],
}

impl Primaries {
    /// These primaries; `None` if there is none, or are more than [`MOST_PRIMARIES`].
    pub fn new(list: &[DeviceId]) -> Option<Primaries> {
        let mut devices = [DeviceId(0); MOST_PRIMARIES];
        devices.get_mut(..list.len()).filter(|_| !list.is_empty())?.copy_from_slice(list);
        Some(Primaries { count: list.len() as u8, devices })
    }

    /// The primary, if it is the only one.
    pub fn only(&self) -> Option<DeviceId> {
        if let [only] = self[..] { Some(only) } else { None }
    }
}

impl From<DeviceId> for Primaries {
    fn from(only: DeviceId) -> Primaries {
        let mut devices = [DeviceId(0); MOST_PRIMARIES];
        devices[0] = only;
        Primaries { count: 1, devices }
    }
}

impl Deref for Primaries {
    type Target = [DeviceId];

    fn deref(&self) -> &[DeviceId] {
        &self.devices[..usize::from(self.count)]
    }
}

impl fmt::Debug for Primaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
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
        let (ours, theirs) = (self.placement.fields(), on_device.placement.fields());
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

/// A placement without its devices.
///
/// ```
/// use peryton_format::geometry::PlacementKind;
///
/// let known = PlacementKind::ALL.into_iter().find(|kind| kind.name() == "tiering");
/// assert_eq!(known, Some(PlacementKind::Tiering));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementKind {
    /// As [`Placement::Single`].
    Single,
    /// As [`Placement::Linear`].
    Linear,
    /// As [`Placement::Tiering`].
    Tiering,
    /// As [`Placement::Caching`].
    Caching,
    /// As [`Placement::Partitioned`].
    Partitioned,
    /// As [`Placement::Logging`].
    Logging,
}

impl PlacementKind {
    /// Every placement, in the order in which reports list them.
    pub const ALL: [PlacementKind; 6] = [
        PlacementKind::Single,
        PlacementKind::Linear,
        PlacementKind::Tiering,
        PlacementKind::Caching,
        PlacementKind::Partitioned,
        PlacementKind::Logging,
    ];

    /// Its name in designs (`placement.mode`).
    pub const fn name(self) -> &'static str {
        match self {
            PlacementKind::Single => "single",
            PlacementKind::Linear => "linear",
            PlacementKind::Tiering => "tiering",
            PlacementKind::Caching => "caching",
            PlacementKind::Partitioned => "partitioned",
            PlacementKind::Logging => "logging",
        }
    }
}

impl Placement {
    /// The kind of the placement.
    pub const fn kind(&self) -> PlacementKind {
        match self {
            Placement::Single { .. } => PlacementKind::Single,
            Placement::Linear { .. } => PlacementKind::Linear,
            Placement::Tiering(_) => PlacementKind::Tiering,
            Placement::Caching(_) => PlacementKind::Caching,
            Placement::Partitioned(_) => PlacementKind::Partitioned,
            Placement::Logging(_) => PlacementKind::Logging,
        }
    }

    /// Whether an extent comes to the fast device by its misses, so that some may go past it.
    pub const fn promotes(&self) -> bool {
        matches!(self, Placement::Tiering(_) | Placement::Caching(_))
    }

    /// The two devices and the extents of a placement that moves extents between two devices: tiering, caching and
    /// partitioned.
    pub const fn hybrid(&self) -> Option<&Hybrid> {
        match self {
            Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => Some(pair),
            Placement::Single { .. } | Placement::Linear { .. } | Placement::Logging(_) => None,
        }
    }

    /// The device that will have all data when the volume is detached; `None` if it cannot be detached.
    pub fn stands_alone(&self) -> Option<DeviceId> {
        match self {
            Placement::Single { device } => Some(*device),
            Placement::Caching(pair) | Placement::Partitioned(pair) => Some(pair.slow),
            Placement::Logging(pair) => pair.primaries.only(),
            Placement::Tiering(_) | Placement::Linear { .. } => None,
        }
    }

    /// The placement as names and values.
    pub(crate) fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |device: &DeviceId| format!("device {}", device.0);
        let several = |mode: &str, first: &[DeviceId], b: DeviceId, unit: Bytes| {
            vec![
                ("placement.mode", mode.to_string()),
                ("the fast device (or the log's primaries)", first.iter().map(text).collect::<Vec<_>>().join(", ")),
                ("the slow device (or the log)", text(&b)),
                ("placement.extent (or block)", unit.to_string()),
            ]
        };
        let pair = |mode: &str, a: DeviceId, b: DeviceId, unit: Bytes| several(mode, &[a], b, unit);
        match self {
            Placement::Single { device } => pair("single", *device, *device, Bytes::ZERO),
            Placement::Linear { devices } => {
                let order: Vec<String> = devices.iter().map(|device| device.0.to_string()).collect();
                vec![("placement.mode", "linear".to_string()), ("the order of the devices", order.join(", "))]
            }
            Placement::Tiering(Hybrid { fast, slow, extent }) => pair("tiering", *fast, *slow, *extent),
            Placement::Caching(Hybrid { fast, slow, extent }) => pair("caching", *fast, *slow, *extent),
            Placement::Partitioned(Hybrid { fast, slow, extent }) => pair("partitioned", *fast, *slow, *extent),
            Placement::Logging(Logging { primaries, log, block }) => several("logging", primaries, *log, *block),
        }
    }
}
