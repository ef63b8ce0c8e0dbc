//! The lifetime of a device at the rate of the measured span.
//!
//! There are two figures, and the smaller of them. The *rated* lifetime is the manufacturer's guarantee: bytes that the
//! host may write to flash, bytes that it may read and write on a disk (its annualised workload rate for the years of the warranty), and
//! starts and stops of a disk. The *physical* lifetime is that of the flash: program-erase
//! cycles of its blocks, which the translation layer uses up. A drive that writes much more than its host does may be
//! worn out long before its rating; one with a cautious rating lasts longer. What the flash has yet to do in idle time, because
//! the span has used up free blocks, wears it as well: a short trace may end before that begins.

use peryton_device::{DeviceStats, WearCounts};
use peryton_engine::endurance::worn_by_reads;
use peryton_units::{Bytes, PAGE, SECONDS_PER_YEAR};

use crate::DeviceDesign;

/// A disk that its ratings would let live longer than this is not worn by the load: its mechanics age first.
const LONGEST_DISK_YEARS: f64 = 100.0;

/// Years until a device is worn out. Figures that do not apply, or of a device without wear, are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lifetime {
    /// The lifetime by the manufacturer's rating.
    pub(crate) rated: Option<f64>,
    /// The lifetime by the cycles of its blocks.
    pub(crate) physical: Option<f64>,
}

/// The bytes that the flash programs for what it was asked, now or later.
pub(crate) fn programmed(stats: &DeviceStats) -> Option<Bytes> {
    stats.nand_bytes_written.map(|done| done + stats.nand_bytes_owed.unwrap_or_default())
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().min_by(f64::total_cmp)
}

impl Lifetime {
    /// The smaller of both.
    pub(crate) fn years(self) -> Option<f64> {
        least(self.rated, self.physical)
    }

    /// The smaller of each figure of two devices.
    pub(crate) fn shorter(self, other: Lifetime) -> Lifetime {
        Lifetime { rated: least(self.rated, other.rated), physical: least(self.physical, other.physical) }
    }

    /// The lifetime of one member of a device with these `stats` in `span_s` seconds.
    pub(crate) fn of(device: &DeviceDesign, stats: &DeviceStats, span_s: f64) -> Lifetime {
        let counts = WearCounts::of(stats);
        Lifetime::of_wear(device, &counts, stats.programmable.zip(stats.modelled), span_s)
    }

    /// The same from what wears the device. `flash` is what can be programmed into the modelled flash, and the
    /// addressable bytes that it stands for.
    pub(crate) fn of_wear(
        device: &DeviceDesign,
        stats: &WearCounts,
        flash: Option<(Bytes, Bytes)>,
        span_s: f64,
    ) -> Lifetime {
        let years =
            |limit: f64, spent: f64| (spent > 0.0 && span_s > 0.0).then(|| limit / (spent / span_s) / SECONDS_PER_YEAR);
        let written = device.written_limit.and_then(|limit| years(limit.0 as f64, stats.bytes_written.0 as f64));
        if device.is_disk() {
            let moved = (stats.bytes_read + stats.bytes_written).0 as f64;
            let workload = device.workload_limit.and_then(|limit| years(limit.0 as f64, moved));
            let starts = device.start_stop_limit.and_then(|limit| years(limit as f64, stats.start_stops as f64));
            let rated = least(least(written, workload), starts).filter(|years| *years <= LONGEST_DISK_YEARS);
            return Lifetime { rated, physical: None };
        }
        // The whole device wears, though the volume may use a part of it: wear-levelling spreads the erases. A device of less capacity
        // than the profile's has so much less flash.
        let physical = flash.and_then(|(programmable, modelled)| {
            let spent = stats.flash_worn.unwrap_or_default();
            let reads = worn_by_reads(stats.pages_read, device.read_effect) * PAGE.0 as f64;
            years(programmable.0 as f64 * device.profile.parts(modelled) * device.part(), spent.0 as f64 + reads)
        });
        Lifetime { rated: written, physical }
    }
}
