//! The fast device of a design, with another size.

use peryton_engine::Placement;
use peryton_sim::{Design, DeviceDesign, DeviceReport, Report};
use peryton_units::Bytes;

use super::SizeError;

/// The device whose size is in question.
#[derive(Clone, Debug)]
pub(super) struct Fast {
    pub(super) name: String,
    /// The device beneath it.
    slow: String,
    /// Its place among the devices of the design.
    index: usize,
    pub(super) extent: Bytes,
    /// The size of the volume, which stays.
    volume: Bytes,
    /// Whether it holds a part of the volume, of which the other device has the rest.
    shares_volume: bool,
    /// The most data that it can hold.
    pub(super) capacity: Bytes,
    /// The size that the design gives it.
    pub(super) now: Bytes,
}

impl Fast {
    pub(super) fn of(design: &Design) -> Result<Fast, SizeError> {
        let (pair, shares_volume) = match &design.placement {
            Placement::Tiering(pair) => (pair, true),
            Placement::Caching(pair) | Placement::Partitioned(pair) => (pair, false),
            other => {
                return Err(SizeError::NoFastDevice { design: design.name.clone(), mode: other.kind().name() });
            }
        };
        let (fast, slow) = (&design.devices[pair.fast.index()], &design.devices[pair.slow.index()]);
        if fast.drive.is_some() {
            let problem = format!(
                "{}: '{}' is a drive, whose own design has a size to choose: give --design that one",
                design.name, fast.name
            );
            return Err(SizeError::Setting { problem });
        }
        Ok(Fast {
            name: fast.name.clone(),
            slow: slow.name.clone(),
            index: pair.fast.index(),
            extent: pair.extent,
            volume: design.volume,
            shares_volume,
            capacity: Bytes(fast.capacity.0.saturating_mul(u64::from(fast.data_devices()))),
            now: fast.data,
        })
    }

    /// The overrides that give it another size, and leave the volume as large as it is.
    pub(super) fn overrides(&self, size: Bytes) -> Vec<String> {
        let mut overrides = vec![format!("devices.{}.size={}", self.name, size.0)];
        if self.shares_volume {
            let rest = self.volume.saturating_sub(size);
            overrides.push(format!("devices.{}.size={}", self.slow, rest.0));
        }
        overrides
    }

    /// The largest size that makes sense: more would not be used.
    pub(super) fn most(&self) -> Bytes {
        let of_volume = if self.shares_volume { self.volume.saturating_sub(self.extent) } else { self.volume };
        self.capacity.min(of_volume)
    }

    /// The smallest size that differs from smaller ones where a share of the data is simulated.
    pub(super) fn least_simulated(&self, design: &Design, share: f64) -> Bytes {
        Bytes((design.least_part(self.index).0 as f64 / share).ceil() as u64)
    }

    /// The device in a design.
    pub(super) fn device<'a>(&self, design: &'a Design) -> &'a DeviceDesign {
        &design.devices[self.index]
    }

    /// The share of the device, or of the array, that the design uses.
    pub(super) fn share(&self, design: &Design) -> f64 {
        self.device(design).used.0 as f64 / self.capacity.0 as f64
    }

    /// Whether a device of a report is the fast device, or one of its members.
    pub(super) fn is_member(&self, name: &str) -> bool {
        name.split_once('.').map_or(name, |(role, _)| role) == self.name
    }

    /// Its members in a report.
    pub(super) fn members<'a>(&'a self, report: &'a Report) -> impl Iterator<Item = &'a DeviceReport> {
        report.devices.iter().filter(|(name, _)| self.is_member(name)).map(|(_, device)| device)
    }
}
