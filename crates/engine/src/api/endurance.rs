//! GreenDM's endurance model (section 2.5): how much of its life a device has left and has used up, in parts per million ("eu").
//! It is the same for simulated devices and for those of a drive in service.

use std::num::NonZeroU32;

use peryton_units::{Bytes, PAGE};

/// The endurance of a new device in eu; zero is a device that has reached its limit.
pub const NEW_DEVICE_EU: f64 = 1_000_000.0;

/// What a device bears in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endurance {
    /// Flash, which writes wear.
    Flash {
        /// What can be written to it.
        written: Bytes,
        /// One read wears it as much as 1/`read_effect` of a write; `None` if reads do not wear.
        read_effect: Option<NonZeroU32>,
    },
    /// A disk, which starts and stops wear.
    Disk {
        /// How often it can be started and stopped.
        start_stops: u64,
    },
}

/// What has worn a device in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Pages that reads have touched; a part of a page counts as one ([`peryton_units::pages`]).
    pub pages_read: u64,
    /// Pages that writes have touched.
    pub pages_written: u64,
    /// How often it was stopped and started.
    pub start_stops: u64,
}

impl Endurance {
    /// What this has used up: equations (3) and (4) times a million.
    pub fn used_eu(self, wear: Wear) -> f64 {
        let (spent, limit) = match self {
            Endurance::Flash { written, read_effect } => {
                let written_pages = wear.pages_written as f64 + worn_by_reads(wear.pages_read, read_effect);
                (written_pages * PAGE.0 as f64, written.0)
            }
            Endurance::Disk { start_stops } => (wear.start_stops as f64, start_stops),
        };
        NEW_DEVICE_EU * spent / limit as f64
    }

    /// What is left after all that has worn the device: equations (1) and (2) times a million, within the bounds of (5).
    pub fn left_eu(self, wear: Wear) -> f64 {
        (NEW_DEVICE_EU - self.used_eu(wear)).clamp(0.0, NEW_DEVICE_EU)
    }
}

/// The pages written that wear flash as much as these pages read.
pub fn worn_by_reads(pages_read: u64, read_effect: Option<NonZeroU32>) -> f64 {
    read_effect.map_or(0.0, |ratio| pages_read as f64 / f64::from(ratio.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits in GreenDM's Table II: how much its SSD can be written in its life (36,500 GB), and how often its
    /// disk can be started and stopped.
    const SSD: Bytes = Bytes(8_911_132_813 * PAGE.0);
    const HDD: Endurance = Endurance::Disk { start_stops: 300_000 };

    /// Pages of so many millionths of the SSD's life.
    fn millionths(n: f64) -> u64 {
        (n * 8_911.132_813) as u64
    }

    /// The example in the paper's section 2.5: 36.5 GB written are 1,000 eu.
    #[test]
    fn the_papers_example_is_exact() {
        let ssd = |read_effect| Endurance::Flash { written: SSD, read_effect: NonZeroU32::new(read_effect) };
        let wear =
            |written, read| Wear { pages_read: millionths(read), pages_written: millionths(written), start_stops: 7 };
        // To a page.
        let near = |found: f64, eu: f64| assert!((found - eu).abs() < 1e-3, "{found}, not {eu}");
        near(ssd(0).used_eu(wear(1000.0, 0.0)), 1000.0);
        near(ssd(0).used_eu(wear(1000.0, 10_000.0)), 1000.0);
        near(ssd(10).used_eu(wear(1000.0, 10_000.0)), 2000.0);
        near(ssd(100).used_eu(wear(0.0, 100_000.0)), 1000.0);
        near(ssd(10).left_eu(wear(1000.0, 10_000.0)), 998_000.0);
        let limit = Bytes(36_500_000_000_000).0.abs_diff(SSD.0);
        assert!(limit < PAGE.0, "the paper's 36,500 GB, in whole pages");
        let starts = |start_stops| Wear { start_stops, ..wear(1000.0, 10_000.0) };
        assert_eq!((HDD.used_eu(starts(300)), HDD.left_eu(starts(300))), (1000.0, 999_000.0));
    }

    #[test]
    fn a_device_beyond_its_limit_has_nothing_left() {
        let wear = |start_stops| Wear { start_stops, ..Wear::default() };
        assert_eq!((HDD.left_eu(wear(0)), HDD.left_eu(wear(300_000))), (NEW_DEVICE_EU, 0.0));
        assert_eq!((HDD.left_eu(wear(600_000)), HDD.used_eu(wear(600_000))), (0.0, 2.0 * NEW_DEVICE_EU));
    }
}
