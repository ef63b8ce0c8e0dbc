//! Several volumes that share the devices of one drive, each in a part of its own.

use std::{collections::HashSet, sync::Arc};

use peryton_trace::Request;
use peryton_units::Bytes;

use crate::{
    Design, DeviceReport, Latency, Options, SimError, latency_report::latency_of, report,
    request_source::RequestSource, sampling::Held, simulator::simulate,
};

/// The most volumes of a drive. Each has an engine and distributions of its response times: about a megabyte.
pub const MOST_SHARING: usize = 128;

/// A volume of a drive that others share.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Its number in the requests.
    pub volume: u32,
    /// Its design: its part of each device. All volumes of a drive have the same devices.
    pub design: Design,
}

/// What a drive did for all of its volumes, and for each.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedReport {
    /// The measured span.
    pub simulated_s: f64,
    /// Response times of all volumes together.
    pub latency_us: Latency,
    /// The volumes that have requests, in the order that was given.
    pub volumes: Vec<SharedVolume>,
    /// The devices.
    pub devices: Vec<(String, DeviceReport)>,
    /// Mean power of all devices; absent if one has no figures of it.
    pub mean_power_w: Option<f64>,
    /// Years until the first device is worn out; absent if none wore.
    pub lifetime_years: Option<f64>,
    /// Whether requests came faster than they were answered.
    pub overloaded: bool,
}

/// What a drive did for one of its volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedVolume {
    /// Its number in the requests.
    pub volume: u32,
    /// Its response times.
    pub latency_us: Latency,
    /// Share of its accesses that the fast device served (hybrids).
    pub fast_hit_ratio: Option<f64>,
}

/// Replays requests of several volumes on a drive that they share: one model of each device gets the commands of all volumes, as those of
/// a real device would come, with the seeks between their regions. Volumes without a request take no part.
///
/// ```
/// use std::sync::Arc;
///
/// use peryton_sim::{Design, Options, Sharing, run_shared};
/// use peryton_trace::Request;
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let text = "[volume]\nsize = '1GiB'\n[devices.disk]\nprofile = 'seagate-st32000641as'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(text, "part", &[])?;
/// let drive = [3, 8].map(|volume| Sharing { volume, design: design.clone() });
/// let at = |ms: u64, volume| Request { at: Nanos::from_ms(ms), offset: Bytes::mib(ms), len: Bytes::kib(4), volume, op: Op::Read };
/// let requests: Arc<Vec<Request>> = Arc::new((0..100).map(|n| at(n * 10, if n % 2 == 0 { 3 } else { 8 })).collect());
/// let report = run_shared(&drive, &requests, &Options::default())?;
/// assert_eq!(report.volumes.len(), 2);
/// # Ok::<(), peryton_sim::SimError>(())
/// ```
///
/// # Errors
/// Those of [`run_one`](crate::run_one).
pub fn run_shared(
    drive: &[Sharing],
    requests: &Arc<Vec<Request>>,
    options: &Options,
) -> Result<SharedReport, SimError> {
    // The simulator numbers volumes in the order of their first requests.
    let mut seen = HashSet::new();
    let order: Vec<u32> = requests.iter().map(|request| request.volume).filter(|volume| seen.insert(*volume)).collect();
    let of = |volume: &u32| drive.iter().find(|sharing| sharing.volume == *volume);
    let designs: Vec<&Design> = order.iter().filter_map(of).map(|sharing| &sharing.design).collect();
    if designs.is_empty() {
        return Err(SimError::NoRequests { skipped: 0 });
    }
    let (mut whole, machine) = Design::build_shared(&designs)?;
    let largest = designs.iter().map(|design| design.volume).max().unwrap_or(Bytes::ZERO);
    let source = Box::new(Held::new(Arc::clone(requests)));
    let source = RequestSource::new(source, largest, designs.len(), options.fit, options.limit, &|_| {})?;
    let mut outcome = simulate(&whole, machine, source, options, false)?;
    let parts = std::mem::take(&mut outcome.volumes);
    whole.volumes = 1;
    let report = report::make(&whole, "", options, &outcome);
    let mut volumes: Vec<SharedVolume> = match parts.is_empty() {
        true => vec![SharedVolume {
            volume: order[0],
            latency_us: latency_of(&outcome.times),
            fast_hit_ratio: report.fast_hit_ratio,
        }],
        false => (order.iter().zip(&parts))
            .map(|(volume, part)| SharedVolume {
                volume: *volume,
                latency_us: latency_of(&part.times),
                fast_hit_ratio: part.stats.fast_hit_ratio().filter(|_| whole.extent().is_some()),
            })
            .collect(),
    };
    let place = |volume: u32| drive.iter().position(|sharing| sharing.volume == volume);
    volumes.sort_by_key(|one| place(one.volume));
    Ok(SharedReport {
        simulated_s: report.simulated_s,
        overloaded: report.warnings.iter().any(|warning| warning.code == "overload"),
        latency_us: report.latency_us,
        volumes,
        devices: report.devices,
        mean_power_w: report.mean_power_w,
        lifetime_years: report.lifetime_years,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_units::{Nanos, Op};

    use super::*;
    use crate::run_one;

    const TEXT: &str = "[volume]\nsize = '256MiB'\n[devices]\nssd = { profile = 'intel-x25-e-32gb', size = '32MiB' }\n\
                        hdd = { profile = 'seagate-st32000641as' }\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n";

    fn requests(volumes: &[u32], ms: u64) -> Arc<Vec<Request>> {
        let one = |n: u64| Request {
            at: Nanos::from_ms(n * ms),
            offset: Bytes((n * 7919 % 60_000) * 4096),
            len: Bytes::kib(4),
            volume: volumes[n as usize % volumes.len()],
            op: if n.is_multiple_of(3) { Op::Write } else { Op::Read },
        };
        Arc::new((0..4_000).map(one).collect())
    }

    /// The fear: a volume alone on a drive that others could share is not what it is without that.
    #[test]
    fn one_volume_alone_is_as_a_drive_of_its_own() {
        let design = Design::parse(TEXT, "part", &[]).unwrap();
        let requests = requests(&[7], 20);
        let shared = run_shared(&[Sharing { volume: 7, design: design.clone() }], &requests, &Options::default());
        let alone = run_one(&design, "", Box::new(Held::new(requests)), &Options::default(), &|_| {}).unwrap();
        let shared = shared.unwrap();
        assert_eq!((&shared.latency_us, shared.lifetime_years), (&alone.latency_us, alone.lifetime_years));
        assert_eq!(shared.volumes[0].fast_hit_ratio, alone.fast_hit_ratio);
    }

    #[test]
    fn volumes_that_share_devices_wait_for_each_other_and_each_has_its_own_figures() {
        let design = Design::parse(TEXT, "part", &[]).unwrap();
        let sharing = |volume| Sharing { volume, design: design.clone() };
        let mean = |drive: &[Sharing], volumes: &[u32], ms| {
            run_shared(drive, &requests(volumes, ms), &Options::default()).unwrap()
        };
        let alone = mean(&[sharing(1)], &[1], 30);
        let both = mean(&[sharing(2), sharing(1), sharing(9)], &[1, 2], 15);
        // In the order that was given, and none for the volume without requests.
        assert_eq!(both.volumes.iter().map(|one| one.volume).collect::<Vec<_>>(), [2, 1]);
        let ms = |latency: &Latency| latency.all.as_ref().unwrap().mean / 1e3;
        assert!(ms(&both.latency_us) > ms(&alone.latency_us), "{} {}", ms(&both.latency_us), ms(&alone.latency_us));
        let counts: u64 = both.volumes.iter().map(|one| one.latency_us.all.as_ref().unwrap().count).sum();
        assert_eq!(counts, both.latency_us.all.as_ref().unwrap().count);
    }
}
