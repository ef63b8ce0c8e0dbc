//! Idle capacity and active operations per watt, as SNIA's Emerald Power Efficiency Measurement Specification defines these
//! ratios: capacity divided by the mean power of a device that is ready and idle, and operations (at random) or throughput
//! (one after the other) divided by the mean power meanwhile. The requests are those of its tests of block storage: 8 KiB at
//! random, 256 KiB one after the other. The specification measures for hours on real storage; these are figures of data
//! sheets and models, so they compare devices and certify nothing.

use peryton_device::Profile;
use peryton_units::Bytes;
use serde::Serialize;

use super::{
    Figures, FiguresError, Pattern, Zone,
    demand::{DEEP, SEQUENTIAL_DEPTH},
};

const RANDOM_REQUEST: Bytes = Bytes::kib(8);
const SEQUENTIAL_REQUEST: Bytes = Bytes::kib(256);
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The ratios of a device. GB are 10⁹ bytes, MiB are 2²⁰.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Emerald {
    /// GB of capacity for each watt of a device that is ready and idle.
    pub idle_gb_per_w: f64,
    /// Random reads of 8 KiB, per second and watt.
    pub random_read_iops_per_w: f64,
    /// Random writes of 8 KiB, per second and watt.
    pub random_write_iops_per_w: f64,
    /// Sequential reads of 256 KiB, in MiB per second and watt.
    pub sequential_read_mib_per_s_per_w: f64,
    /// Sequential writes of 256 KiB, in MiB per second and watt.
    pub sequential_write_mib_per_s_per_w: f64,
}

impl Emerald {
    /// Of a device, to whose power `shelf_w` is added.
    ///
    /// # Errors
    /// A device whose power is not known, or whose model cannot be built.
    pub fn of(profile: &Profile, shelf_w: f64) -> Result<Emerald, FiguresError> {
        let per_w = |random: bool, read_share: f64| {
            let (request, queue_depth) =
                if random { (RANDOM_REQUEST, DEEP) } else { (SEQUENTIAL_REQUEST, SEQUENTIAL_DEPTH) };
            let figures =
                Figures::of(profile, &Pattern { random, read_share, request, queue_depth, zone: Zone::Head })?;
            let bytes_per_s = figures.bandwidth_mb_per_s * 1e6;
            let unit = if random { request.0 as f64 } else { BYTES_PER_MIB };
            Ok::<_, FiguresError>((bytes_per_s / unit / (figures.busy_w + shelf_w), figures.idle_w))
        };
        let (random_read_iops_per_w, idle_w) = per_w(true, 1.0)?;
        Ok(Emerald {
            idle_gb_per_w: profile.capacity.0 as f64 / 1e9 / (idle_w + shelf_w),
            random_read_iops_per_w,
            random_write_iops_per_w: per_w(true, 0.0)?.0,
            sequential_read_mib_per_s_per_w: per_w(false, 1.0)?.0,
            sequential_write_mib_per_s_per_w: per_w(false, 0.0)?.0,
        })
    }
}
