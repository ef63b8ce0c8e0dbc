//! How long a device lasts at the rate of the measured span.
//!
//! Two figures, and the smaller of them. The *rated* life is what the maker answers for: bytes that the host may write to
//! flash, starts and stops of a disk. The *physical* life is that of the flash: program-erase cycles of its blocks, which
//! the translation layer spends. A drive that writes much more than its host does may be worn out long before its rating;
//! one whose maker is careful lasts longer than that.

use peryton_device::DeviceStats;
use peryton_units::SECONDS_PER_YEAR;

use crate::DeviceDesign;

/// Years until a device is worn out. A figure that does not apply is absent; so is that of a device that nothing wore.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lifetime {
    /// By what its maker answers for.
    pub(crate) rated: Option<f64>,
    /// By the cycles of its blocks.
    pub(crate) physical: Option<f64>,
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().min_by(f64::total_cmp)
}

impl Lifetime {
    /// Until the first of both.
    pub(crate) fn years(self) -> Option<f64> {
        least(self.rated, self.physical)
    }

    /// Of two devices, each by the one that is worn out first.
    pub(crate) fn shorter(self, other: Lifetime) -> Lifetime {
        Lifetime { rated: least(self.rated, other.rated), physical: least(self.physical, other.physical) }
    }

    /// Of one member of a device that did `stats` in `span_s` seconds; reads wear as much as writes of a `read_effect`th of
    /// their bytes.
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
        // What wears is the whole device, though the volume may use a part of it: wear-levelling spreads the erases.
        let physical = stats.programmable.zip(stats.modelled).and_then(|(programmable, modelled)| {
            // Before anything was erased there is what was programmed; where blocks are erased that are not full, or were
            // filled before, there is what was erased.
            let spent = stats.nand_bytes_written.unwrap_or_default().max(stats.bytes_erased.unwrap_or_default());
            let reads = read_effect.map_or(0.0, |ratio| stats.bytes_read.0 as f64 / f64::from(ratio));
            years(programmable.0 as f64 * device.profile.parts(modelled), spent.0 as f64 + reads)
        });
        Lifetime { rated: written, physical }
    }
}
