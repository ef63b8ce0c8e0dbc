//! A drive of any placement: the one place that knows which there are.

use peryton_units::Bytes;

use super::{
    drive::Drive,
    fencing::Fencing,
    sizes::{Laid, Sizes, lay_out},
};
use crate::{
    config::{Config, Placement as Placements},
    error::ConfigError,
    hybrid::Hybrid,
    io::Io,
    linear::Linear,
    logging::{self, Logging},
    placement::Placement,
};

/// A drive of one of the placements.
#[derive(Debug)]
pub(crate) enum AnyDrive {
    Linear(Box<Drive<Linear>>),
    Hybrid(Box<Drive<Hybrid>>),
    Logging(Box<Drive<Logging>>),
}

/// Does the same with a drive whatever its placement is, with static dispatch.
macro_rules! with_drive {
    ($any:expr, $drive:ident => $body:expr) => {
        match $any {
            $crate::lifecycle::AnyDrive::Linear($drive) => $body,
            $crate::lifecycle::AnyDrive::Hybrid($drive) => $body,
            $crate::lifecycle::AnyDrive::Logging($drive) => $body,
        }
    };
}
pub(crate) use with_drive;

impl AnyDrive {
    /// An empty drive, with the number of spare extents that the format has settled.
    pub(crate) fn new(config: Config, spare: Option<u32>) -> Result<AnyDrive, ConfigError> {
        let (laid, sizes) = lay_out(&config, spare)?;
        let Config { devices, placement, mut tuning } = config;
        tuning.spin_down_after.resize(devices.len(), None);
        let config = Config { devices, placement, tuning };
        Ok(match laid {
            Laid::Linear(linear) => AnyDrive::Linear(drive(linear, config, sizes)),
            Laid::Hybrid(layout) => {
                let hybrid = Hybrid::new(&config.placement, layout, &config.tuning);
                AnyDrive::Hybrid(drive(hybrid, config, sizes))
            }
            Laid::Logging(layout) => AnyDrive::Logging(drive(Logging::new(layout), config, sizes)),
        })
    }
}

fn drive<P: Placement>(placed: P, config: Config, sizes: Sizes) -> Box<Drive<P>> {
    let Config { devices, placement, tuning } = config;
    let move_buffer_bytes = match &placement {
        Placements::Single { .. } | Placements::Linear { .. } => Bytes::ZERO,
        Placements::Tiering(pair) | Placements::Caching(pair) | Placements::Partitioned(pair) => pair.extent,
        Placements::Logging(_) => Bytes(logging::BUFFER),
    };
    let mut drive = Box::new(Drive {
        io: Io::new(devices.len(), tuning),
        placed,
        placement,
        data_bytes: devices,
        volume_size: sizes.volume,
        device_bytes: sizes.devices,
        move_buffer_bytes,
        identity: None,
        fencing: Fencing::default(),
    });
    drive.placed.begin(&mut drive.io);
    drive.reset_statistics();
    drive
}
