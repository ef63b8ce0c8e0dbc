//! `volume.count` and `[host]`: several volumes before one log device, and the host's own cache (Griffin, section 7).

use peryton_engine::Placement;
use peryton_units::Bytes;

use super::{
    device::DeviceDesign,
    devices::Spec,
    key::{
        KeyDefault::{Else, Value},
        keys, names,
    },
    placement::{LOGGING, word},
};
use crate::{
    DesignError,
    document::{At, Keys},
};

keys! {
    /// The size of the volume that the host sees.
    SIZE: Bytes = "volume.size" { default: Else("what the sizes of the devices make"), example: "'8GiB'" }
    /// How many volumes share one log device, each with a primary of its own. Simulations only.
    COUNT: u32 = "volume.count" { default: Value("1"), unit: "volumes", placements: LOGGING, example: "2" }
    /// Whether each of several volumes gets the requests of its own volume of the trace, or all of them.
    REQUESTS: String = "volume.requests" {
        default: Value("'own'"), words: || names(REQUESTS_WORDS), placements: LOGGING, example: "'same'", needs: &["volume.count=2"],
    }
    /// The size of the host's own cache, whose evictions are hints to migrate data (Griffin, section 7). Simulations only.
    CACHE: Bytes = "host.cache" { default: Else("no hints"), placements: LOGGING, example: "'64MiB'" }
}

const REQUESTS_WORDS: &[(&str, bool)] = &[("own", false), ("same", true)];

/// The most volumes. Each has its own engine, and a number that marks its commands on the shared device.
const MOST_VOLUMES: u32 = 256;
/// Regions of a shared device begin at multiples of this many bytes.
const REGION: u64 = 1 << 20;

/// The number of volumes, and the assignment of requests to them.
#[derive(Default)]
pub(super) struct Several<'a> {
    given: Option<At<'a, u32>>,
    pub(super) same_requests: bool,
}

pub(super) fn read<'a>(keys: &mut Keys<'a>) -> Result<Several<'a>, DesignError> {
    let given = keys.get(&COUNT)?;
    if let Some(count) = given.as_ref().filter(|count| !(1..=MOST_VOLUMES).contains(&***count)) {
        return Err(count.wrong(format!("is {}: use 1 to {MOST_VOLUMES}", **count)));
    }
    let same_requests = match keys.get(&REQUESTS)? {
        Some(requests) if given.is_none() => {
            return Err(requests.wrong("belongs to volume.count: give it as well, or remove this"));
        }
        Some(requests) => word(&requests, REQUESTS_WORDS)?,
        None => false,
    };
    Ok(Several { given, same_requests })
}

impl Several<'_> {
    pub(super) fn count(&self) -> u32 {
        self.given.as_ref().map_or(1, |count| **count)
    }

    /// Checks that the placement has a log device that the volumes can share, with enough space for each volume's part.
    pub(super) fn check(&self, placement: &Placement, devices: &mut [Spec<'_>]) -> Result<(), DesignError> {
        let Some(given) = self.given.as_ref().filter(|count| ***count > 1) else { return Ok(()) };
        let Placement::Logging(pair) = placement else {
            return Err(
                given.wrong("several volumes share a log device: use placement.mode = \"logging\", or remove it")
            );
        };
        let log = &mut devices[pair.log.index()];
        log.capacity = Bytes(log.capacity.0 / u64::from(**given) / REGION * REGION);
        match &log.size {
            Some(size) if **size > log.capacity => Err(size.wrong(format!(
                "is {} for each of {} volumes, but the device has {} for each: use less, or fewer volumes",
                **size, **given, log.capacity
            ))),
            _ => Ok(()),
        }
    }

    /// The device as shared by the volumes.
    pub(super) fn shared(&self, placement: &Placement, index: usize, device: DeviceDesign) -> DeviceDesign {
        match placement {
            Placement::Logging(pair) if pair.log.index() == index && self.count() > 1 => {
                let used = Bytes(device.used.0.next_multiple_of(REGION));
                DeviceDesign { regions: self.count(), used, ..device }
            }
            _ => DeviceDesign { copies: self.count(), ..device },
        }
    }
}

/// `[host]`: the size of the host's cache, whose evictions are hints.
pub(super) fn read_host(root: &mut Keys<'_>, logging: bool) -> Result<Option<Bytes>, DesignError> {
    let Some(mut keys) = root.table("host")? else { return Ok(None) };
    if !logging {
        return Err(keys.wrong_at("", "gives hints to placement.mode = \"logging\" alone: remove it"));
    }
    let cache = keys.require(&CACHE)?;
    if *cache < Bytes::kib(4) {
        return Err(cache.wrong(format!("is {}: a page has 4KiB, use more", *cache)));
    }
    keys.finish()?;
    Ok(Some(cache.into_inner()))
}
