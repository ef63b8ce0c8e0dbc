//! A drive of any placement. This module lists the placements.

use peryton_format::geometry::MOST_DEVICES;
use peryton_units::Bytes;

/// A drive of one of the placements.
#[derive(Debug)]
pub(crate) enum AnyDrive {
    Linear(Box<Drive<Linear>>),
    Cache(Box<Drive<CacheDrive>>),
    Log(Box<Drive<LogDrive>>),
}

/// Evaluates the same expression for the drive of any placement, with static dispatch.
macro_rules! with_drive {
    ($any:expr, $drive:ident => $body:expr) => {
        match $any {
            $crate::lifecycle::any::AnyDrive::Linear($drive) => $body,
            $crate::lifecycle::any::AnyDrive::Cache($drive) => $body,
            $crate::lifecycle::any::AnyDrive::Log($drive) => $body,
        }
    };
}
pub(crate) use with_drive;

use crate::{
    api::config::{Config, Placement},
    api::error::ConfigError,
    api::resizing::Settled,
    cache::CacheDrive,
    io::Io,
    lifecycle::drive::Drive,
    lifecycle::fencing::Fencing,
    lifecycle::sizes::{Laid, Sizes, lay_out},
    linear::Linear,
    log::{BUFFER, LogDrive},
    placement::PlacementOps,
};

impl AnyDrive {
    /// Makes an empty drive. `settled` is what the format has fixed, if there is a volume.
    pub(crate) fn new(config: Config, settled: Option<Settled>) -> Result<AnyDrive, ConfigError> {
        let (laid, sizes) = lay_out(&config, settled)?;
        let Config { devices, placement, mut tuning } = config;
        tuning.spin_down_after.resize(devices.len(), None);
        let config = Config { devices, placement, tuning };
        Ok(match laid {
            Laid::Linear(linear) => AnyDrive::Linear(drive(linear, config, sizes)),
            Laid::Cache(layout) => {
                let cache = CacheDrive::new(&config.placement, layout, &config.tuning);
                AnyDrive::Cache(drive(cache, config, sizes))
            }
            Laid::Log(layout) => AnyDrive::Log(drive(LogDrive::new(layout), config, sizes)),
        })
    }

    /// The drive, if it has a map of extents.
    pub(crate) fn cache(&self) -> Option<&Drive<CacheDrive>> {
        if let AnyDrive::Cache(drive) = self { Some(drive) } else { None }
    }

    /// The same, for changes.
    pub(crate) fn cache_mut(&mut self) -> Option<&mut Drive<CacheDrive>> {
        if let AnyDrive::Cache(drive) = self { Some(drive) } else { None }
    }

    /// The drive, if it has a log.
    pub(crate) fn log(&self) -> Option<&Drive<LogDrive>> {
        if let AnyDrive::Log(drive) = self { Some(drive) } else { None }
    }
}

fn drive<P: PlacementOps>(placed: P, config: Config, sizes: Sizes) -> Box<Drive<P>> {
    let Config { devices, placement, tuning } = config;
    let move_buffer_bytes = match &placement {
        Placement::Single { .. } | Placement::Linear { .. } => Bytes::ZERO,
        Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => pair.extent,
        Placement::Logging(_) => Bytes(BUFFER),
    };
    let mut drive = Box::new(Drive {
        io: Io::new(devices.len(), tuning),
        placed,
        placement,
        data_bytes: devices,
        volume_size: sizes.volume,
        device_bytes: sizes.devices,
        data_at: sizes.data_at,
        spare: sizes.spare,
        move_buffer_bytes,
        identity: None,
        fencing: Fencing::default(),
        successor: None,
        resizing: None,
        resize_ended: None,
        ended: None,
        ended_writes: Vec::new(),
        named: [0; MOST_DEVICES],
        written_to: None,
        displaced: None,
        keeps: None,
    });
    drive.placed.begin(&mut drive.io);
    drive.reset_statistics();
    drive
}
