//! Computes how much of each device holds data, from the sizes of devices and volume in the design.

use peryton_engine::{Config, ConfigError, Placement, Tuning, TuningError};
use peryton_units::Bytes;

use super::{devices::Spec, in_service::Formatted};
use crate::{
    DesignError,
    document::{At, Document},
};

/// The sizes of a design, all known.
pub(super) struct Sized {
    pub(super) volume: Bytes,
    /// Data bytes of each device, as the engine takes them.
    pub(super) data: Vec<Bytes>,
    /// Bytes in all that the volume occupies on each device.
    pub(super) used: Vec<Bytes>,
    /// Sizes that the design gives and the volume has not, one line each.
    pub(super) kept: Vec<String>,
}

/// The origin of the number of free extents of the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// The design sets it.
    Given,
    /// It is the default, but at most the default's share of a small device.
    Fitting,
}

/// LT and HT are 64 and 128 extents. On a device with fewer than 1024 extents, HT is an eighth, the share of the spare
/// extents.
const ROOM_SHARE: u64 = 8;

/// Metadata and spare extents depend on the size that they are subtracted from; this many corrections are enough.
const MOST_CORRECTIONS: usize = 8;

/// What a design says about sizes, and what is known besides.
pub(super) struct Solver<'a> {
    pub(super) document: &'a Document,
    pub(super) devices: &'a [Spec<'a>],
    pub(super) volume: Option<&'a At<'a, Bytes>>,
    /// The sizes of the volume that is on the devices.
    pub(super) formatted: Option<&'a Formatted>,
    /// Whether the design is that of a drive in service. Where it uses a whole device, it leaves room there for snapshots.
    pub(super) in_service: bool,
}

impl Solver<'_> {
    pub(super) fn solve(
        &self,
        placement: &Placement,
        (tuning, room): (&mut Tuning, Room),
    ) -> Result<Sized, DesignError> {
        let Solver { devices, volume, .. } = *self;
        if let Some(fixed) = self.formatted.filter(|fixed| fixed.data.len() == devices.len()) {
            let anew = Solver { formatted: None, ..*self }.solve(placement, (&mut tuning.clone(), room));
            let sized = self.as_formatted(placement, (tuning, room), fixed)?;
            return Ok(Sized { kept: anew.map_or_else(|_| Vec::new(), |anew| self.kept(&sized, &anew)), ..sized });
        }
        let extent = match placement {
            Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => pair.extent,
            Placement::Logging(pair) => pair.block,
            Placement::Single { .. } | Placement::Linear { .. } => Bytes(4096),
        };
        // Sizes are rounded up to whole extents.
        let whole = |size: Bytes| size.0.checked_next_multiple_of(extent.0).map_or(Bytes(u64::MAX), Bytes);
        let mut sizes: Vec<Option<Bytes>> =
            devices.iter().map(|device| device.size.as_ref().map(|size| whole(**size))).collect();
        if let Some(volume) = volume
            && **volume == Bytes::ZERO
        {
            return Err(volume.wrong("a volume of no size holds nothing: give it some, or remove the key"));
        }
        if let Some(volume) = volume {
            from_volume(devices, volume, placement, whole, &mut sizes)?;
        }
        let given: Vec<bool> = sizes.iter().map(Option::is_some).collect();
        let mut data: Vec<Bytes> = sizes
            .iter()
            .zip(devices)
            .map(|(size, device)| size.unwrap_or(Bytes(device.capacity.0 - device.capacity.0 % extent.0)))
            .collect();
        if let (Some(pair), Room::Fitting) = (placement.hybrid(), room) {
            leave_room(tuning, data[pair.fast.index()].0 / extent.0 / ROOM_SHARE);
        }
        let wanted = match placement {
            Placement::Tiering(pair) if given[pair.fast.index()] && given[pair.slow.index()] => {
                data[pair.fast.index()].checked_add(data[pair.slow.index()])
            }
            _ => None,
        };
        for _ in 0..MOST_CORRECTIONS {
            let (size, used, behind) = self.measure(placement, tuning, &data, None)?;
            let mut settled = true;
            for (index, device) in devices.iter().enumerate() {
                let behind = if self.in_service && !given[index] { behind[index] } else { Bytes::ZERO };
                let over = (used[index] + behind).saturating_sub(device.capacity);
                if over == Bytes::ZERO {
                    continue;
                }
                if given[index] {
                    return Err(too_large(device, data[index], used[index]));
                }
                // The whole device, less its metadata.
                let over = whole(over);
                data[index] = data[index].saturating_sub(over);
                settled = false;
            }
            // Tiering keeps spare extents on the slow device, in addition to what the design gives to the volume.
            if let (Placement::Tiering(pair), Some(wanted)) = (placement, wanted)
                && size < wanted
            {
                data[pair.slow.index()] += wanted - size;
                settled = false;
            }
            if settled {
                check_volume(volume, size, extent)?;
                return Ok(Sized { volume: size, data, used, kept: Vec::new() });
            }
        }
        Err(devices[0].name.wrong("no sizes work with its metadata: give sizes that leave some room on each device"))
    }

    /// The sizes of a volume that is there, whatever its devices have by now.
    fn as_formatted(
        &self,
        placement: &Placement,
        (tuning, room): (&mut Tuning, Room),
        Formatted { data, spare }: &Formatted,
    ) -> Result<Sized, DesignError> {
        if let (Some(pair), Room::Fitting) = (placement.hybrid(), room) {
            let most = match placement {
                // This is what formatting computed: no more can be free than the volume has spare extents.
                Placement::Tiering(_) => u64::from(*spare),
                _ => data[pair.fast.index()].0 / pair.extent.0 / ROOM_SHARE,
            };
            leave_room(tuning, most);
        }
        let (volume, used, _) = self.measure(placement, tuning, data, Some(*spare))?;
        Ok(Sized { volume, data: data.clone(), used, kept: Vec::new() })
    }

    /// The sizes that the design gives and the volume has not. `anew`: a new volume by this design.
    fn kept(&self, sized: &Sized, anew: &Sized) -> Vec<String> {
        let volume = self.volume.map(|given| (given.place(), **given, sized.volume, anew.volume));
        let of_devices = self.devices.iter().zip(sized.data.iter().zip(&anew.data));
        let of_devices = of_devices.filter_map(|(device, (has, made))| {
            let given = device.size.as_ref()?;
            Some((given.place(), **given, *has, *made))
        });
        let differ = of_devices.chain(volume).filter(|(.., has, made)| has != made);
        differ
            .map(|(place, given, has, _)| format!("{place}: is {given}, and the volume has {} there", has.exact()))
            .collect()
    }

    /// Computes the size of the volume, the space that it occupies on each device, and the room for snapshots behind that, with the
    /// engine's own layout. `spare`: the number of spare extents, if the format has fixed it.
    fn measure(
        &self,
        placement: &Placement,
        tuning: &Tuning,
        data: &[Bytes],
        spare: Option<u32>,
    ) -> Result<(Bytes, Vec<Bytes>, Vec<Bytes>), DesignError> {
        let Solver { document, devices, .. } = *self;
        let config = Config { devices: data.to_vec(), placement: placement.clone(), tuning: tuning.clone() };
        match config.sizes_with(spare) {
            Ok(sizes) => Ok((sizes.volume, sizes.devices, sizes.behind)),
            Err(ConfigError::TooSmall { device, size, need }) => Err(size_error(
                &devices[device],
                format!("has {size} for data, less than the {need} that this placement needs: give it more"),
            )),
            Err(ConfigError::Tuning(TuningError::Range { key, value, remedy })) => {
                Err(document.wrong(&document.place(key), key, format!("is {value}: {remedy}")))
            }
            Err(source) => {
                let key =
                    if matches!(source, ConfigError::TooManyExtents { .. }) { "placement.extent" } else { "placement" };
                Err(DesignError::Config { place: document.shown(&document.place(key)), source })
            }
        }
    }
}

/// Lowers LT and HT to what a small device can have free.
fn leave_room(tuning: &mut Tuning, most: u64) {
    if most < u64::from(tuning.demotion_high) {
        (tuning.demotion_low, tuning.demotion_high) = (most as u32 / 2, most as u32);
    }
}

/// Computes the size of the one device without a size from the size of the volume.
fn from_volume(
    devices: &[Spec<'_>],
    volume: &At<'_, Bytes>,
    placement: &Placement,
    whole: impl Fn(Bytes) -> Bytes,
    sizes: &mut [Option<Bytes>],
) -> Result<(), DesignError> {
    let order: Vec<usize> = match placement {
        Placement::Single { device } => vec![device.index()],
        // The fast device of a cache adds nothing to the volume's size.
        Placement::Caching(pair) | Placement::Partitioned(pair) => vec![pair.slow.index()],
        // The log does not add to the volume's size either.
        Placement::Logging(pair) => pair.primaries.iter().map(|device| device.index()).collect(),
        Placement::Tiering(pair) => vec![pair.fast.index(), pair.slow.index()],
        Placement::Linear { devices } => devices.iter().map(|device| device.index()).collect(),
    };
    let Some(open) = order.iter().copied().rfind(|index| sizes[*index].is_none()) else { return Ok(()) };
    let others = order.iter().filter(|index| **index != open);
    let have: u128 = others.map(|index| u128::from(sizes[*index].unwrap_or(devices[*index].capacity).0)).sum();
    let device = &devices[open];
    match u64::try_from(u128::from(volume.0).saturating_sub(have)) {
        Ok(rest) if rest > device.capacity.0 => Err(volume.wrong(format!(
            "is {}: device '{}' would have to hold {} of it, but has {}: use a smaller volume, or a larger device",
            **volume,
            *device.name,
            Bytes(rest),
            device.capacity
        ))),
        Ok(rest) if rest > 0 => {
            sizes[open] = Some(whole(Bytes(rest)));
            Ok(())
        }
        _ => Err(volume.wrong(format!(
            "is {}, and the other devices have as much already: make it larger, or them smaller, so that '{}' has a part",
            **volume, *device.name
        ))),
    }
}

fn size_error(device: &Spec<'_>, problem: String) -> DesignError {
    match &device.size {
        Some(size) => size.wrong(problem),
        None => device.name.wrong(problem),
    }
}

fn too_large(device: &Spec<'_>, data: Bytes, used: Bytes) -> DesignError {
    size_error(
        device,
        format!(
            "{} of data and {} of metadata and spare extents do not fit the device's {}: give it {} or less, or leave the size out",
            data.at_least(),
            used.saturating_sub(data).at_least(),
            device.capacity,
            device.capacity.saturating_sub(used.saturating_sub(data)).at_most()
        ),
    )
}

/// Checks that the given volume size agrees with the sizes of the devices; otherwise one of them is a mistake.
fn check_volume(volume: Option<&At<'_, Bytes>>, size: Bytes, extent: Bytes) -> Result<(), DesignError> {
    match volume {
        // Sizes are rounded up to whole extents, on each of at most two devices.
        Some(volume) if size < **volume || size.0 - volume.0 > 2 * extent.0 => Err(volume.wrong(format!(
            "is {}, but the sizes of the devices make a volume of {}: make them agree, or leave one of them out",
            volume.beside(size),
            size.beside(**volume)
        ))),
        _ => Ok(()),
    }
}
