//! How much of its life a device has left, as status, metrics and the page show it (GreenDM, section 2.5).

use peryton_engine::endurance::{Endurance, Wear};
use peryton_format::{
    holder::RENEWED_EVERY_S,
    wear::{Account, Worn},
};
use serde::Serialize;

/// So many seconds of what wears a device may not be counted when its server is killed.
pub const SECONDS_NOT_COUNTED: u64 = RENEWED_EVERY_S;

/// What has worn a device, and how much of its life that is. It belongs to the device, and not to the volume: it is kept on the device and goes on
/// when another volume is made there.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceEndurance {
    /// What is left, of 1,000,000 eu of a new device: equation (1) or (2). Absent if it is not known what the device bears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_eu: Option<f64>,
    /// What can be written to the device in its life, of flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes_written: Option<u64>,
    /// How many reads count as one write, of flash that reads wear.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_effect: Option<u32>,
    /// How often the device can be started and stopped, of a disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_start_stops: Option<u64>,
    /// All that was counted.
    pub counted: DeviceWear,
    /// What was counted after the mark.
    pub since_mark: DeviceWear,
    /// How many servers had the device and did not let it go in good order: up to 5 s of each, and a disk's last stop, are not counted.
    pub unclosed: u64,
}

/// What has worn a device from some time on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceWear {
    /// When the count began, in seconds since 1970.
    pub since_unix_s: u64,
    /// What it has used up, in eu: equation (3) or (4). Absent if it is not known what the device bears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_eu: Option<f64>,
    /// Pages of 4 KiB that reads have touched; a part of a page counts as one.
    pub pages_read: u64,
    /// Pages of 4 KiB that writes have touched. The endurance of flash is reckoned by pages.
    pub pages_written: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Bytes that were written, and of zeroes that the device was told to store.
    pub bytes_written: u64,
    /// How often the device was put into standby.
    pub start_stops: u64,
}

/// What counts: whole pages.
fn charged(worn: &Worn) -> Wear {
    Wear { pages_read: worn.pages_read, pages_written: worn.pages_written, start_stops: worn.start_stops }
}

impl DeviceWear {
    fn of(since_unix_s: u64, worn: &Worn, endurance: Option<Endurance>) -> DeviceWear {
        let Worn { bytes_read, bytes_written, pages_read, pages_written, start_stops } = *worn;
        let used_eu = endurance.map(|endurance| endurance.used_eu(charged(worn)));
        DeviceWear { since_unix_s, used_eu, pages_read, pages_written, bytes_read, bytes_written, start_stops }
    }
}

impl DeviceEndurance {
    /// `endurance`: what the device bears, if that is known.
    pub(crate) fn of(endurance: Option<Endurance>, account: &Account) -> DeviceEndurance {
        let Account { since_unix_s, worn, mark_unix_s, at_mark, unclosed } = account;
        let (limit_bytes_written, read_effect, limit_start_stops) = match endurance {
            Some(Endurance::Flash { written, read_effect }) => (Some(written.0), read_effect.map(u32::from), None),
            Some(Endurance::Disk { start_stops }) => (None, None, Some(start_stops)),
            None => (None, None, None),
        };
        DeviceEndurance {
            left_eu: endurance.map(|endurance| endurance.left_eu(charged(worn))),
            limit_bytes_written,
            read_effect,
            limit_start_stops,
            counted: DeviceWear::of(*since_unix_s, worn, endurance),
            since_mark: DeviceWear::of(*mark_unix_s, &worn.since(at_mark), endurance),
            unclosed: *unclosed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use peryton_units::Bytes;

    use super::*;

    /// A write of 512 B wears as much as a page; ten pages read are one written.
    #[test]
    fn pages_are_charged_and_bytes_are_told() {
        let worn = Worn { bytes_read: 10 * 4096, bytes_written: 512, pages_read: 10, pages_written: 1, start_stops: 3 };
        let account = Account { since_unix_s: 1, worn, mark_unix_s: 2, at_mark: Worn::default(), unclosed: 0 };
        let flash = |read_effect| {
            let flash =
                Endurance::Flash { written: Bytes(4096 * 1_000_000), read_effect: NonZeroU32::new(read_effect) };
            DeviceEndurance::of(Some(flash), &account)
        };
        assert_eq!((flash(0).left_eu, flash(10).left_eu), (Some(999_999.0), Some(999_998.0)));
        assert_eq!((flash(10).counted.used_eu, flash(10).read_effect), (Some(2.0), Some(10)));
        assert_eq!((flash(0).counted.bytes_written, flash(0).counted.pages_written), (512, 1));
        let disk = DeviceEndurance::of(Some(Endurance::Disk { start_stops: 300_000 }), &account);
        assert_eq!(
            (disk.left_eu, disk.counted.used_eu, disk.limit_start_stops),
            (Some(999_990.0), Some(10.0), Some(300_000))
        );
        let unknown = DeviceEndurance::of(None, &account);
        assert_eq!((unknown.left_eu, unknown.counted.used_eu, unknown.counted.pages_written), (None, None, 1));
    }
}
