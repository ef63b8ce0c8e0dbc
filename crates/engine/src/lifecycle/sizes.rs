//! The sizes that follow from a configuration, computed without making any table.

use peryton_format::{layout::MetadataLayout, log::layout::LogLayout};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::ConfigError,
    api::resizing::Settled,
    cache::{CacheLayout, Mode},
    linear::Linear,
    log,
};

/// A placement before its tables are made; the tables take memory in proportion to the volume.
pub(crate) enum Laid {
    Linear(Linear),
    Cache(CacheLayout),
    Log(LogLayout),
}

/// The sizes that follow from a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the volume that the host sees.
    pub volume: Bytes,
    /// What the volume occupies on each device: data, spare extents and metadata.
    pub devices: Vec<Bytes>,
    /// Room behind that for snapshots of what the cache has learnt. A device that lacks it is used without.
    pub behind: Vec<Bytes>,
    /// Offset of the data on each device.
    pub data_at: Vec<Bytes>,
    /// Number of spare extents.
    pub spare: u32,
}

impl Config {
    /// The sizes of the drive that [`Engine::new`](crate::Engine::new) would make, in a time that does not depend on
    /// the size.
    ///
    /// # Errors
    /// Those of [`Engine::new`](crate::Engine::new).
    pub fn sizes(&self) -> Result<Sizes, ConfigError> {
        self.sizes_with(None)
    }

    /// The same, with the number of spare extents that the format has fixed.
    ///
    /// # Errors
    /// Those of [`Engine::new`](crate::Engine::new).
    pub fn sizes_with(&self, spare: Option<u32>) -> Result<Sizes, ConfigError> {
        self.sizes_of(spare.map(|spare| Settled { spare, places: None }))
    }

    /// The same, with what the format has fixed.
    pub(crate) fn sizes_of(&self, settled: Option<Settled>) -> Result<Sizes, ConfigError> {
        lay_out(self, settled).map(|(_, sizes)| sizes)
    }
}

/// The largest possible device (512 PiB); the sizes of all devices can be added without overflow.
const LARGEST_DEVICE: Bytes = Bytes(1 << 59);

pub(crate) fn lay_out(config: &Config, settled: Option<Settled>) -> Result<(Laid, Sizes), ConfigError> {
    let Config { devices, placement, tuning } = config;
    tuning.check()?;
    if let Some((device, size)) = devices.iter().copied().enumerate().find(|(_, size)| *size > LARGEST_DEVICE) {
        return Err(ConfigError::TooLarge { device, size, most: LARGEST_DEVICE });
    }
    let data_at = vec![MetadataLayout::bare().data_at; devices.len()];
    let behind = vec![Bytes::ZERO; devices.len()];
    let mut sizes = Sizes { volume: Bytes::ZERO, devices: devices.clone(), behind, data_at, spare: 0 };
    let mut hybrid = |mode: Mode, pair| -> Result<Laid, ConfigError> {
        let layout = CacheLayout::new(mode, pair, devices, tuning, settled)?;
        layout.check(mode, tuning)?;
        sizes.volume = layout.volume_size();
        sizes.spare = layout.spare();
        sizes.behind[layout.fast.index()] = layout.room().bytes();
        for device in [layout.fast, layout.slow] {
            sizes.devices[device.index()] = layout.device_bytes(device);
            sizes.data_at[device.index()] = layout.metadata.data_at;
        }
        Ok(Laid::Cache(layout))
    };
    let laid = match placement {
        Placement::Tiering(pair) => hybrid(Mode::Tiering, *pair)?,
        Placement::Caching(pair) | Placement::Partitioned(pair) => hybrid(Mode::Caching, *pair)?,
        Placement::Single { device } => lay_in_a_row(std::slice::from_ref(device), devices, &mut sizes)?,
        Placement::Linear { devices: order } => lay_in_a_row(order, devices, &mut sizes)?,
        Placement::Logging(place) => {
            let layout = log::lay_out(*place, devices)?;
            sizes.volume = layout.volume_size();
            for device in place.primaries.iter().copied().chain([place.log]) {
                sizes.devices[device.index()] = layout.device_bytes(device);
                sizes.data_at[device.index()] = layout.data_at(device);
            }
            Laid::Log(layout)
        }
    };
    Ok((laid, sizes))
}

fn lay_in_a_row(order: &[DeviceId], devices: &[Bytes], sizes: &mut Sizes) -> Result<Laid, ConfigError> {
    let linear = Linear::new(order, devices)?;
    sizes.volume = linear.size();
    for device in order {
        sizes.devices[device.index()] = Linear::device_bytes(devices[device.index()]);
    }
    Ok(Laid::Linear(linear))
}
