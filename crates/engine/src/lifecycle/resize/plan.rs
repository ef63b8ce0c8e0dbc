//! What can be resized, to what size, and what follows from that.

use peryton_format::{layout::MetadataLayout, snapshot::Room};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::ConfigError,
    api::resizing::{ResizeError, ResizePlan, Settled},
    cache::CacheLayout,
    lifecycle::drive::Drive,
    lifecycle::resize::state::Target,
    lifecycle::sizes::{Laid, lay_out},
    placement::PlacementOps,
};

/// How a device can be resized.
struct Fixed {
    /// The size of an extent; of a device without extents, of a byte.
    unit: Bytes,
    can_shrink: bool,
}

/// The layouts of a volume with a map before and after a device was resized. The places of the metadata after that depend on which
/// checkpoint is valid then, and are found when it is known.
pub(super) struct Layouts {
    pub(super) before: CacheLayout,
    /// The layout that a new volume would have.
    pub(super) wanted: MetadataLayout,
}

/// Computes these; `None` for a volume without a map.
pub(super) fn layouts(before: &Config, after: &Config, settled: Settled) -> Result<Option<Layouts>, ConfigError> {
    let Laid::Cache(old) = lay_out(before, Some(settled))?.0 else { return Ok(None) };
    let as_new = Settled { places: None, ..settled };
    let Laid::Cache(new) = lay_out(after, Some(as_new))?.0 else { return Ok(None) };
    Ok(Some(Layouts { before: old, wanted: new.metadata }))
}

impl Layouts {
    /// Whether the room for the metadata that there is can be divided so that the new map has a place in it.
    fn fit(&self) -> bool {
        self.before.metadata.journal_beside(&self.wanted).is_some()
    }
}

/// The largest number of bytes of data, in whole extents, that a device of this size has room for.
pub(crate) fn largest<P: PlacementOps>(drive: &Drive<P>, device: DeviceId, room: Bytes) -> Bytes {
    let (Some(_), Some(data)) = (&drive.identity, drive.data_bytes.get(device.index())) else { return Bytes::ZERO };
    let metadata = drive.device_bytes[device.index()] - drive.data_in_places(device);
    let free = room.saturating_sub(metadata);
    let Some(pair) = drive.placement.hybrid() else { return free };
    let (extent, spare) = (pair.extent.0, drive.data_in_places(device).0 / pair.extent.0 - data.0 / pair.extent.0);
    let needs = |places: u64| {
        let bytes = Bytes(places * extent);
        let behind = match device == pair.fast && drive.placed.warmth().is_some_and(|warmth| warmth.room > Bytes::ZERO)
        {
            true => Room::new(Bytes::ZERO, u32::try_from(places).unwrap_or(u32::MAX), bytes).bytes(),
            false => Bytes::ZERO,
        };
        bytes + behind
    };
    // The largest number for which there is room: what is needed grows with it.
    let (mut fits, mut too_many) = (0, free.0 / extent + 1);
    while fits + 1 < too_many {
        let middle = fits + (too_many - fits) / 2;
        *(if needs(middle) <= free { &mut fits } else { &mut too_many }) = middle;
    }
    Bytes(fits.saturating_sub(spare) * extent)
}

impl<P: PlacementOps> Drive<P> {
    /// The data on a device in places, those of spare extents included.
    fn data_in_places(&self, device: DeviceId) -> Bytes {
        let used = self.device_bytes[device.index()];
        used - self.data_at[device.index()] - Bytes(peryton_format::block::BLOCK)
    }

    fn fixed(&self, device: DeviceId) -> Result<Fixed, ResizeError> {
        let index = device.index();
        match &self.placement {
            Placement::Logging(_) => Err(ResizeError::Logging),
            Placement::Single { device: only } if *only == device => Ok(Fixed { unit: Bytes(1), can_shrink: false }),
            Placement::Linear { devices } if devices.last() == Some(&device) => {
                Ok(Fixed { unit: Bytes(1), can_shrink: false })
            }
            Placement::Single { .. } | Placement::Linear { .. } => Err(ResizeError::NotLast { device: index }),
            Placement::Tiering(pair) => Ok(Fixed { unit: pair.extent, can_shrink: false }),
            Placement::Caching(pair) | Placement::Partitioned(pair) => {
                Ok(Fixed { unit: pair.extent, can_shrink: device == pair.fast })
            }
        }
    }

    /// See [`Engine::can_resize`](crate::Engine::can_resize).
    pub(crate) fn can_resize(&self, plan: ResizePlan) -> Result<Target, ResizeError> {
        let (device, devices) = (plan.device.index(), self.device_bytes.len());
        let Some(identity) = self.identity.as_ref().filter(|_| device < devices) else {
            return Err(ResizeError::Unknown { device });
        };
        if let Some(resizing) = &self.resizing {
            return Err(ResizeError::Busy { device: resizing.plan.device.index() });
        }
        if let Some(replaced) = self.replaced_now() {
            return Err(ResizeError::Replacing { device: replaced.index() });
        }
        if self.displaced.is_some() {
            return Err(ResizeError::Adopted);
        }
        if let Some(device) = (0..devices).find(|device| self.io.fenced >> device & 1 == 1) {
            return Err(ResizeError::Gone { device });
        }
        let fixed = self.fixed(plan.device)?;
        let before = self.data_bytes[device];
        let units = |size: Bytes| size.0 / fixed.unit.0;
        if units(plan.size) == units(before) {
            let largest = largest(self, plan.device, plan.room);
            let also = match units(largest) > units(before) {
                true => ", and there is room for more",
                false => ", and no room for more: make the device larger first (lvextend, a larger partition or file)",
            };
            return Err(ResizeError::Same { device, size: before, also });
        }
        if units(plan.size) < units(before) && !fixed.can_shrink {
            let is_tier = matches!(self.placement, Placement::Tiering(_));
            let also = match is_tier {
                true => {
                    ", as large as both devices together: only the fast device of caching or partitioned can shrink"
                }
                false => "; only the fast device of caching or partitioned can shrink",
            };
            return Err(ResizeError::NoCache { device, size: before, also });
        }
        let target = self.target(plan)?;
        let need = target.sizes.devices[device];
        if plan.room < need {
            return Err(ResizeError::TooSmall { device, room: plan.room, need });
        }
        if identity.geometry.places.is_some_and(|places| places.number == u32::MAX) {
            return Err(ResizeError::TooOften);
        }
        Ok(target)
    }

    /// The volume with the new size.
    fn target(&self, plan: ResizePlan) -> Result<Target, ResizeError> {
        let (device, tuning) = (plan.device.index(), self.io.tuning.clone());
        let config = Config { devices: self.data_bytes.clone(), placement: self.placement.clone(), tuning };
        let settled = Settled::from(&self.identity.as_ref().expect("it is open").geometry);
        let with = |size: Bytes| {
            let mut after = config.clone();
            after.devices[device] = size;
            after
        };
        let fits = |size: Bytes| -> Result<bool, ConfigError> {
            let layouts = layouts(&config, &with(size), settled)?;
            Ok(layouts.is_none_or(|layouts| layouts.fit()))
        };
        if !fits(plan.size)? {
            let (mut most, mut too_large) = (self.data_bytes[device], plan.size);
            let unit = self.fixed(plan.device)?.unit;
            while most + unit < too_large {
                let middle = most + Bytes((too_large - most).0 / 2 / unit.0 * unit.0).max(unit);
                *(if fits(middle)? { &mut most } else { &mut too_large }) = middle;
            }
            return Err(ResizeError::MapTooLong { device, size: plan.size, most });
        }
        let config = with(plan.size);
        let mut sizes = config.sizes_of(Some(Settled { places: None, ..settled }))?;
        // The data begin where they did.
        for (index, used) in sizes.devices.iter_mut().enumerate() {
            let data_at = self.data_at[index];
            *used = *used - sizes.data_at[index] + data_at;
            sizes.data_at[index] = data_at;
        }
        Ok(Target { config, sizes })
    }
}
