//! `volume.count` and `[host]`: several volumes before one log device, and the host's own cache (Griffin, section 7).

use peryton_engine::Placement;
use peryton_units::Bytes;

use super::{
    device::DeviceDesign,
    devices::Spec,
    drive::Stream,
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
    SIZE: Bytes = "volume.size" { default: Else("the devices' sizes, by the placement"), example: "'8GiB'" }
    /// How many volumes share one log device, each with a primary of its own. Simulations only.
    COUNT: u32 = "volume.count" { default: Value("1"), unit: "volumes", placements: LOGGING, example: "2" }
    /// Which requests each of several volumes gets. `own`: those of one volume of the trace. `same`: all requests of the trace.
    REQUESTS: String = "volume.requests" {
        default: Value("'own'"), words: || names(REQUESTS_WORDS), placements: LOGGING, example: "'same'", needs: &["volume.count=2"],
    }
    /// How several volumes share the log device. `regions`: each has a log in its own region. `stream`: one log has the whole
    /// `size` of the device, and takes the writes of all volumes in one stream (Griffin, section 7).
    SHARED_LOG: String = "volume.log" {
        default: Value("'regions'"), words: || names(LOGS), placements: LOGGING, example: "'stream'", needs: &["volume.count=2"],
    }
    /// The size of the host's own cache, whose evictions are hints to migrate data (Griffin, section 7). Simulations only.
    CACHE: Bytes = "host.cache" { default: Else("no hints"), placements: LOGGING, example: "'64MiB'" }
}

const REQUESTS_WORDS: &[(&str, bool)] = &[("own", false), ("same", true)];

const LOGS: &[(&str, bool)] = &[("regions", false), ("stream", true)];

/// The most volumes. Each has its own engine, and a number that marks its commands on the shared device.
const MOST_VOLUMES: u32 = 256;
/// Regions of a shared device begin at multiples of this many bytes.
pub(super) const REGION: u64 = 1 << 20;

/// The number of volumes, and the assignment of requests to them.
#[derive(Default)]
pub(super) struct Several<'a> {
    given: Option<At<'a, u32>>,
    pub(super) same_requests: bool,
    /// All of them append to one log.
    one_stream: bool,
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
    let one_stream = match keys.get(&SHARED_LOG)? {
        Some(log) if given.is_none() => {
            return Err(log.wrong("belongs to volume.count: give it as well, or remove this"));
        }
        Some(log) => word(&log, LOGS)?,
        None => false,
    };
    Ok(Several { given, same_requests, one_stream })
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
        if pair.primaries.len() > 1 {
            return Err(given
                .wrong("placement.primary names the primaries of several volumes already: name one, or remove this"));
        }
        if let Some(drive) = devices.iter().find(|device| device.is_a_drive()) {
            return Err(given.wrong(format!(
                "'{}' is a drive, which one volume has: remove it, or the drive's design",
                *drive.name
            )));
        }
        if self.one_stream {
            let primary = &devices[pair.primaries[0].index()];
            if primary.count > 1 {
                return Err(given.wrong(format!(
                    "with volume.log = \"stream\" each primary is one device, and '{}' has {}: leave out its count, or use \"regions\"",
                    *primary.name, primary.count
                )));
            }
            return Ok(());
        }
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

    /// The volumes of one stream: each has `size` bytes and occupies `used` on its primary.
    pub(super) fn stream(&self, size: Bytes, used: &[Bytes], placement: &Placement) -> Option<Stream> {
        let Placement::Logging(pair) = placement else { return None };
        let apart = Bytes(used[pair.primaries[0].index()].0.next_multiple_of(REGION));
        (self.one_stream && self.count() > 1).then_some(Stream { count: self.count(), size, apart })
    }

    /// Number of engines.
    pub(super) fn engines(&self) -> u32 {
        if self.one_stream { 1 } else { self.count() }
    }

    /// The device as shared by the volumes.
    pub(super) fn shared(&self, placement: &Placement, index: usize, device: DeviceDesign) -> DeviceDesign {
        if self.one_stream {
            let Placement::Logging(pair) = placement else { return device };
            if pair.primaries[0].index() != index {
                return device;
            }
            // One primary follows the other where a stripe is as long as each of them.
            let apart = Bytes(device.used.0.next_multiple_of(REGION));
            let more = apart * u64::from(self.count() - 1);
            let (count, data, used) = (self.count(), device.data + more, apart * u64::from(self.count()));
            return DeviceDesign { count, stripe: apart, data, used, ..device };
        }
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
