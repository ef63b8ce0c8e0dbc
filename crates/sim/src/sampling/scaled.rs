//! A design as small as a sample of its trace.
//!
//! What is stored shrinks with the sample: caches, tiers, volumes on flash, and times that are compared with how long data
//! stays there. What is done for a request does not: devices are as fast as before and get requests as often. A volume whose
//! origin is a disk keeps its size, so that seeks stay as long. A drive in the place of a device shrinks by the same rule.

use peryton_device::Model;
use peryton_engine::{Placement, Threshold};
use peryton_units::{Bytes, Nanos};

use super::share::Sampling;
use crate::{Design, DeviceDesign, PageCacheDesign, SimError, design::Least};

/// The fewest extents of a cache or tier in a slice: with fewer, each of them would change the hit ratio.
const LEAST_EXTENTS: u64 = 64;
/// The smallest page cache in a slice: with less, its longest requests would go past it.
const LEAST_PAGE_CACHE: Bytes = Bytes::mib(1);

/// Where the requests of a sample are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// At their addresses: for disks, whose seeks stay as long.
    Spread,
    /// In regions next to each other: for flash, which has to be as full as before.
    Packed,
}

/// Fails if a sample of a trace says nothing about the design.
pub(super) fn check(design: &Design, sampling: Sampling) -> Result<(), SimError> {
    let nest = design.nest();
    let found = nest.iter().find_map(|one| Some((one, unsampled(one)?)));
    let Some((one, why)) = found else { return Ok(()) };
    Err(SimError::Sample {
        sample: sampling.to_string(),
        problem: format!("design '{}' cannot be sampled: {why}: simulate it with the whole trace", one.name),
    })
}

/// Why no sample says anything about a design, whatever is inside it.
fn unsampled(design: &Design) -> Option<&'static str> {
    match &design.placement {
        Placement::Logging(_) => {
            Some("a log is filled and emptied by all requests together, at the times of the trace")
        }
        Placement::Linear { devices } if devices.len() > 1 => {
            Some("each device has its own part of the addresses, and a sample would change their shares")
        }
        _ if design.tuning.climb.is_some() => Some("hill climbing needs the time that the trace takes"),
        _ if matches!(design.tuning.admission.threshold, Threshold::Adaptive(_)) => {
            Some("an adaptive threshold samples extents itself")
        }
        _ => None,
    }
}

/// The layout of the requests for a design.
pub(super) fn layout(design: &Design) -> Layout {
    // Tiers are filled in the order of addresses or of first accesses, which a sample keeps only if it is packed.
    match &home(design).profile.model {
        Model::Flash(_) => Layout::Packed,
        _ if is_tiered(design) => Layout::Packed,
        _ => Layout::Spread,
    }
}

/// The device on which the data of a volume are, unless they are on a faster one.
fn home(design: &Design) -> &DeviceDesign {
    let index = match &design.placement {
        Placement::Single { device } => device.index(),
        Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => pair.slow.index(),
        Placement::Linear { .. } | Placement::Logging(_) => 0,
    };
    let device = &design.devices[index];
    device.drive.as_deref().map_or(device, home)
}

fn is_tiered(design: &Design) -> bool {
    design.nest().iter().any(|one| matches!(one.placement, Placement::Tiering(_)))
}

/// Whether a sample's data lie closer together on a disk than the trace's.
pub(super) fn is_denser_on_disk(design: &Design) -> bool {
    is_tiered(design) && !matches!(home(design).profile.model, Model::Flash(_))
}

/// The host's page cache for a share of the space.
fn page_cache_size(design: &Design, sampling: Sampling, share: f64, size: Bytes) -> Result<Bytes, SimError> {
    let small = Bytes((size.0 as f64 * share) as u64);
    if small < LEAST_PAGE_CACHE {
        let least = sampling.share() * LEAST_PAGE_CACHE.0 as f64 / small.0.max(1) as f64;
        let problem = format!(
            "the page cache of design '{}' would have {small} in an eighth of the sample, and {LEAST_PAGE_CACHE} are needed",
            design.name
        );
        return Err(sampling.too_small(problem, least * 1.1));
    }
    Ok(small)
}

/// Fails if the fast device of a hybrid would have too few extents in a share of the space.
fn check_extents(design: &Design, sampling: Sampling, share: f64) -> Result<(), SimError> {
    let Some(pair) = design.placement.hybrid() else { return Ok(()) };
    let (fast, unit) = (&design.devices[pair.fast.index()], pair.extent.0);
    let extents = ((fast.data.0 as f64 * share).ceil() as u64).div_ceil(unit);
    if extents >= LEAST_EXTENTS {
        return Ok(());
    }
    let least = sampling.share() * LEAST_EXTENTS as f64 / extents.max(1) as f64;
    let problem = format!(
        "'{}' of design '{}' would have {extents} extents in an eighth of the sample, and {LEAST_EXTENTS} are needed",
        fast.name, design.name
    );
    Err(sampling.too_small(problem, least * 1.1))
}

/// The design for a share of the space. `reach`: the address space that its requests need, if they are packed.
pub(super) fn scaled(design: &Design, sampling: Sampling, share: f64, reach: Bytes) -> Result<Design, SimError> {
    let unit = design.extent().unwrap_or(Bytes(4096)).0;
    let of = |bytes: Bytes| Bytes(((bytes.0 as f64 * share).ceil() as u64).next_multiple_of(unit));
    design.nest().into_iter().try_for_each(|one| check_extents(one, sampling, share))?;
    let volume = match layout(design) {
        Layout::Packed => of(design.volume).max(Bytes(reach.0.next_multiple_of(unit))),
        Layout::Spread => design.volume,
    };
    let mut small = design.at_share(share, volume, Least::Share)?;
    let time = |time: Nanos| if time.0 == u64::MAX { time } else { Nanos(((time.0 as f64 * share) as u64).max(1)) };
    if let Some(cache) = design.page_cache {
        small.page_cache = Some(PageCacheDesign {
            size: page_cache_size(design, sampling, share, cache.size)?,
            dirty_expire: time(cache.dirty_expire),
            writeback_interval: time(cache.writeback_interval),
            ..cache
        });
    }
    Ok(small)
}
