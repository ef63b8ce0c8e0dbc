//! GreenDM's endurance model (section 2.5): how much of its life a device has used up, in parts per million ("eu").

use peryton_units::Bytes;

/// The endurance of a new device in eu; zero is a device that has reached its limit.
pub const NEW_DEVICE_EU: f64 = 1_000_000.0;

/// Endurance that flash has used up, in eu: equation (3) times a million, with a read counted as 1/`read_effect` of a
/// write (section 2.5); with `None`, reads do not count. `limit` is the amount that can be written in the device's
/// life.
pub fn flash_wear_eu(written: Bytes, read: Bytes, read_effect: Option<u32>, limit: Bytes) -> f64 {
    let reads = read_effect.map_or(0.0, |ratio| read.0 as f64 / f64::from(ratio));
    NEW_DEVICE_EU * (written.0 as f64 + reads) / limit.0 as f64
}

/// Endurance that a disk has used up, in eu: equation (4) times a million. `limit` is the rated number of start-stop
/// cycles.
pub fn disk_wear_eu(start_stops: u64, limit: u64) -> f64 {
    NEW_DEVICE_EU * start_stops as f64 / limit as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits in GreenDM's Table II: how much its SSD can be written in its life (36,500 GB), and how often its
    /// disk can be started and stopped.
    mod limits {
        use peryton_units::Bytes;
        pub const SSD_WRITTEN: Bytes = Bytes(36_500_000_000_000);
        pub const HDD_START_STOPS: u64 = 300_000;
    }

    /// The example in the paper's section 2.5: 36.5 GB written are 1,000 eu.
    #[test]
    fn the_papers_example_is_exact() {
        let gb = |n: f64| Bytes((n * 1e9) as u64);
        assert_eq!(flash_wear_eu(gb(36.5), Bytes::ZERO, None, limits::SSD_WRITTEN), 1000.0);
        assert_eq!(flash_wear_eu(gb(36.5), gb(365.0), Some(10), limits::SSD_WRITTEN), 2000.0);
        assert_eq!(flash_wear_eu(Bytes::ZERO, gb(3650.0), Some(100), limits::SSD_WRITTEN), 1000.0);
        assert_eq!(disk_wear_eu(300, limits::HDD_START_STOPS), 1000.0);
    }
}
