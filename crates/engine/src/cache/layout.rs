//! Sizes and offsets of a tiering, caching or partitioned drive: how many extents there are, and where each place is.

use peryton_format::{blocks::block_of, layout::MetadataLayout, snapshot::Room};
use peryton_policy::replacement::SlotIndex;
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Hybrid, MOST_EXTENTS, Tuning},
    api::error::{ConfigError, TuningError},
    api::resizing::Settled,
    cache::access::Mode,
    cache::blocks::Blocks,
    cache::map::extent::Place,
};

/// The smallest extent; every extent size is a multiple of it (GreenDM, section 2.3).
const SMALLEST_EXTENT: Bytes = Bytes::kib(4);
const LARGEST_EXTENT: Bytes = Bytes::gib(1);
/// The most spare extents, unless tiering's HT asks for more. They give moves room on a full drive, and a freed extent
/// need not be reused before the commit that freed it is durable (GreenDM, section 2.3: "a small number of extra
/// reserved extents").
const MOST_SPARE: u32 = 256;

/// The number of spare extents on a device of `slots`.
fn spare_extents(slots: u32) -> u32 {
    (slots / 8).clamp(1, MOST_SPARE)
}

/// Sizes and offsets. The format of the volume fixes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLayout {
    pub(crate) fast: DeviceId,
    pub(crate) slow: DeviceId,
    pub(in crate::cache) extent_bytes: u64,
    /// log2 of the extent size if it is a power of two: a shift is cheaper than a division on the hit path.
    shift: Option<u32>,
    /// Number of slots of the fast device, spare ones included.
    pub(in crate::cache) fast_slots: u32,
    /// How many extents the fast device may have at once.
    pub(in crate::cache) fast_usable: u32,
    pub(in crate::cache) slow_slots: u32,
    /// Number of extents of the volume.
    pub(crate) extents: u32,
    pub(in crate::cache) spare: u32,
    /// The blocks of an extent of which the fast device may have a part (caching); in tiering it has all of it or nothing.
    pub(in crate::cache) blocks: Option<Blocks>,
    pub(crate) metadata: MetadataLayout,
}

impl CacheLayout {
    pub(crate) fn spare(&self) -> u32 {
        self.spare
    }

    /// The number of blocks of an extent, if the fast device may have a part of it.
    pub(crate) fn block_count(&self) -> Option<u32> {
        self.blocks.map(Blocks::count)
    }

    pub(crate) fn extent_bytes(&self) -> u64 {
        self.extent_bytes
    }

    pub(crate) fn has_place(&self, place: Place) -> bool {
        place.0 < self.fast_slots + self.slow_slots
    }

    /// Checks that the tuning asks for no more free extents than the layout allows.
    pub(crate) fn check(&self, mode: Mode, tuning: &Tuning) -> Result<(), TuningError> {
        if let Some(unit) = tuning.write_unit
            && mode == Mode::Caching
            && !self.extent_bytes.is_multiple_of(unit.0)
        {
            return Err(TuningError::Range {
                key: "placement.write_unit",
                value: unit.to_string(),
                remedy: "an extent must be a whole number of units: give larger extents, a smaller unit, or 'never'",
            });
        }
        if tuning.demotion_high >= self.fast_usable && tuning.demotion_high > 0 {
            return Err(TuningError::Range {
                key: "placement.demotion.high",
                value: tuning.demotion_high.to_string(),
                remedy: "it must be below the number of extents of the fast device: lower it, or use smaller extents",
            });
        }
        if mode == Mode::Tiering && tuning.demotion_high > self.spare {
            return Err(TuningError::Range {
                key: "placement.demotion.high",
                value: tuning.demotion_high.to_string(),
                remedy: "the drive was formatted with fewer spare extents, so no more can be free: lower it",
            });
        }
        Ok(())
    }

    /// Computes the layout. `settled`: what the format has fixed, if there is a volume.
    pub(crate) fn new(
        mode: Mode,
        pair: Hybrid,
        devices: &[Bytes],
        tuning: &Tuning,
        settled: Option<Settled>,
    ) -> Result<CacheLayout, ConfigError> {
        let Hybrid { fast, slow, extent } = pair;
        for device in [fast, slow] {
            if device.index() >= devices.len() || fast == slow {
                return Err(ConfigError::Device { device: device.index(), devices: devices.len() });
            }
        }
        if !(SMALLEST_EXTENT..=LARGEST_EXTENT).contains(&extent) || !extent.is_multiple_of(SMALLEST_EXTENT) {
            return Err(ConfigError::Extent { extent });
        }
        let slots = |device: DeviceId, need: u64| {
            let size = devices[device.index()];
            let slots = size.0 / extent.0;
            if slots < need {
                let need = extent * need;
                return Err(ConfigError::TooSmall { device: device.index(), size, need });
            }
            if slots > MOST_EXTENTS {
                return Err(ConfigError::TooManyExtents { extents: slots, most: MOST_EXTENTS });
            }
            Ok(slots as u32)
        };
        let (fast_usable, slow_slots) = (slots(fast, 1)?, slots(slow, 2)?);
        let mut spare = spare_extents(fast_usable.min(slow_slots));
        if mode == Mode::Tiering {
            // On a full drive, the number of free extents of the fast device is at most the number of spare ones.
            spare = spare.max(tuning.demotion_high).min(slow_slots - 1);
        }
        if let Some(settled) = settled {
            spare = settled.spare.min(slow_slots - 1);
        }
        let (fast_slots, extents) = match mode {
            Mode::Tiering => {
                let extents = u64::from(fast_usable) + u64::from(slow_slots - spare);
                if extents > MOST_EXTENTS {
                    return Err(ConfigError::TooManyExtents { extents, most: MOST_EXTENTS });
                }
                (fast_usable, extents as u32)
            }
            Mode::Caching => (fast_usable + spare, slow_slots),
        };
        let blocks = (mode == Mode::Caching).then(|| Blocks::new(extent, block_of(extent)));
        let masks = if blocks.is_some() { fast_slots } else { 0 };
        let as_formatted =
            || MetadataLayout::with_masks(extents, masks, extent * u64::from(fast_usable.min(slow_slots)));
        let metadata = settled.and_then(|settled| settled.places).map(|places| MetadataLayout::at(&places, masks));
        let metadata = metadata.unwrap_or_else(as_formatted);
        if !metadata.has_room(extents) {
            let most = metadata.checkpoint_bytes;
            return Err(ConfigError::TooManyExtents { extents: u64::from(extents), most });
        }
        Ok(CacheLayout {
            fast,
            slow,
            extent_bytes: extent.0,
            shift: extent.0.is_power_of_two().then(|| extent.0.trailing_zeros()),
            fast_slots,
            fast_usable,
            slow_slots,
            extents,
            spare,
            blocks,
            metadata,
        })
    }

    pub(crate) fn volume_size(&self) -> Bytes {
        Bytes(u64::from(self.extents) * self.extent_bytes)
    }

    pub(crate) fn device_bytes(&self, device: DeviceId) -> Bytes {
        let slots = if device == self.fast { self.fast_slots } else { self.slow_slots };
        self.metadata.device_bytes(Bytes(u64::from(slots) * self.extent_bytes))
    }

    /// The room for snapshots behind what the volume uses of the fast device.
    pub(crate) fn room(&self) -> Room {
        let data = Bytes(u64::from(self.fast_slots) * self.extent_bytes);
        Room::new(self.device_bytes(self.fast), self.fast_slots, data)
    }

    #[inline]
    pub(in crate::cache) fn split(&self, offset: Bytes) -> (u32, u32) {
        match self.shift {
            Some(shift) => ((offset.0 >> shift) as u32, (offset.0 & (self.extent_bytes - 1)) as u32),
            None => ((offset.0 / self.extent_bytes) as u32, (offset.0 % self.extent_bytes) as u32),
        }
    }

    /// The slot of the fast device at this place, or `None` for a place on the slow device.
    #[inline]
    pub(in crate::cache) fn fast_slot(&self, place: Place) -> Option<SlotIndex> {
        (place.0 < self.fast_slots).then_some(SlotIndex(place.0))
    }

    pub(in crate::cache) fn slow_slot(&self, place: Place) -> u32 {
        place.0 - self.fast_slots
    }

    pub(in crate::cache) fn slow_place(&self, slot: u32) -> Place {
        Place(self.fast_slots + slot)
    }

    /// The offset on the fast device at which the slot begins.
    #[inline]
    pub(in crate::cache) fn fast_at(&self, slot: SlotIndex) -> Bytes {
        self.metadata.data_at + Bytes(u64::from(slot.0) * self.extent_bytes)
    }

    /// The device of a place, and the offset at which the place begins.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> (DeviceId, Bytes) {
        let (device, slot) =
            if place.0 < self.fast_slots { (self.fast, place.0) } else { (self.slow, place.0 - self.fast_slots) };
        (device, self.metadata.data_at + Bytes(u64::from(slot) * self.extent_bytes))
    }
}

#[cfg(test)]
mod tests {
    use peryton_policy::replacement::Capacity;

    use super::*;

    /// A policy that is used alone must be given as many slots as a drive of the same size has, spare ones included.
    #[test]
    fn a_bare_cache_has_as_many_slots_as_the_drive() {
        for usable in [1, 7, 8, 9, 100, 2047, 2048, 2049, 1 << 20] {
            assert_eq!(Capacity::of_cache(usable).slots, usable + spare_extents(usable), "{usable}");
        }
    }
}
