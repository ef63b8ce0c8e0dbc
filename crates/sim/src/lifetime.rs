//! How long a device lasts at the rate of the measured span.
//!
//! There are two figures, and the smaller of them. The *rated* life is what the maker guarantees: bytes that the host
//! may write to flash, starts and stops of a disk. The *physical* life is that of the flash: program-erase cycles of
//! its blocks, which the translation layer uses up. A drive that writes much more than its host does may be worn out
//! long before its rating; one with a cautious rating lasts longer than that.

use peryton_device::DeviceStats;
use peryton_units::SECONDS_PER_YEAR;

use crate::DeviceDesign;

/// Years until a device is worn out. A figure that does not apply is absent, as is that of a device without wear.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lifetime {
    /// According to the maker's rating.
    pub(crate) rated: Option<f64>,
    /// According to the cycles of its blocks.
    pub(crate) physical: Option<f64>,
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().min_by(f64::total_cmp)
}

impl Lifetime {
    /// The smaller of both.
    pub(crate) fn years(self) -> Option<f64> {
        least(self.rated, self.physical)
    }

    /// For two devices: each figure of the one that is worn out first.
    pub(crate) fn shorter(self, other: Lifetime) -> Lifetime {
        Lifetime { rated: least(self.rated, other.rated), physical: least(self.physical, other.physical) }
    }

    /// The lifetime of one member of a device that did `stats` in `span_s` seconds. Reads wear as much as writes of
    /// 1/`read_effect` of their bytes.
    pub(crate) fn of(
        device: &DeviceDesign,
        stats: &DeviceStats,
        read_effect: Option<u32>,
        is_disk: bool,
        span_s: f64,
    ) -> Lifetime {
        let years =
            |limit: f64, spent: f64| (spent > 0.0 && span_s > 0.0).then(|| limit / (spent / span_s) / SECONDS_PER_YEAR);
        let written = device.written_limit.and_then(|limit| years(limit.0 as f64, stats.bytes_written.0 as f64));
        let starts = device.start_stop_limit.and_then(|limit| years(limit as f64, stats.start_stops as f64));
        if is_disk {
            return Lifetime { rated: least(written, starts), physical: None };
        }
        // The whole device wears, though the volume may use a part of it: wear-levelling spreads the erases.
        let physical = stats.programmable.zip(stats.modelled).and_then(|(programmable, modelled)| {
            // Before the first erase only programmed bytes are known. Erased bytes are higher if blocks are erased that
            // are not full, or were filled before.
            let spent = stats.nand_bytes_written.unwrap_or_default().max(stats.bytes_erased.unwrap_or_default());
            let reads = read_effect.map_or(0.0, |ratio| stats.bytes_read.0 as f64 / f64::from(ratio));
            years(programmable.0 as f64 * device.profile.parts(modelled), spent.0 as f64 + reads)
        });
        Lifetime { rated: written, physical }
    }
}
