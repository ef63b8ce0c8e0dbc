//! GreenDM's endurance model (section 2.5): how much of its life a device has left and has used up, in parts per million ("eu").
//! It is the same for simulated devices and for those of a drive in service.

use std::num::NonZeroU32;

use peryton_units::Bytes;

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
    /// What was read from it.
    pub read: Bytes,
    /// What was written to it.
    pub written: Bytes,
    /// How often it was stopped and started.
    pub start_stops: u64,
}

impl Endurance {
    /// What this has used up: equations (3) and (4) times a million.
    pub fn used_eu(self, wear: Wear) -> f64 {
        let (spent, limit) = match self {
            Endurance::Flash { written, read_effect } => {
                (wear.written.0 as f64 + worn_by_reads(wear.read, read_effect), written.0)
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

/// The bytes of writes that wear flash as much as these reads.
pub fn worn_by_reads(read: Bytes, read_effect: Option<NonZeroU32>) -> f64 {
    read_effect.map_or(0.0, |ratio| read.0 as f64 / f64::from(ratio.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits in GreenDM's Table II: how much its SSD can be written in its life (36,500 GB), and how often its
    /// disk can be started and stopped.
    const SSD: Bytes = Bytes(36_500_000_000_000);
    const HDD: Endurance = Endurance::Disk { start_stops: 300_000 };

    fn gb(n: f64) -> Bytes {
        Bytes((n * 1e9) as u64)
    }

    /// The example in the paper's section 2.5: 36.5 GB written are 1,000 eu.
    #[test]
    fn the_papers_example_is_exact() {
        let ssd = |read_effect| Endurance::Flash { written: SSD, read_effect: NonZeroU32::new(read_effect) };
        let wear = |written, read| Wear { read: gb(read), written: gb(written), start_stops: 7 };
        assert_eq!(ssd(0).used_eu(wear(36.5, 0.0)), 1000.0);
        assert_eq!(ssd(0).used_eu(wear(36.5, 365.0)), 1000.0);
        assert_eq!(ssd(10).used_eu(wear(36.5, 365.0)), 2000.0);
        assert_eq!(ssd(100).used_eu(wear(0.0, 3650.0)), 1000.0);
        assert_eq!(ssd(10).left_eu(wear(36.5, 365.0)), 998_000.0);
        let starts = |start_stops| Wear { start_stops, ..wear(36.5, 365.0) };
        assert_eq!((HDD.used_eu(starts(300)), HDD.left_eu(starts(300))), (1000.0, 999_000.0));
    }

    #[test]
    fn a_device_beyond_its_limit_has_nothing_left() {
        let wear = |start_stops| Wear { start_stops, ..Wear::default() };
        assert_eq!((HDD.left_eu(wear(0)), HDD.left_eu(wear(300_000))), (NEW_DEVICE_EU, 0.0));
        assert_eq!((HDD.left_eu(wear(600_000)), HDD.used_eu(wear(600_000))), (0.0, 2.0 * NEW_DEVICE_EU));
    }
}
