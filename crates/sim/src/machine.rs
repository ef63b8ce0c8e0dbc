//! The simulated drive: one engine or several, and their device models.

use peryton_device::WearCounts;
use peryton_engine::{DeviceId, Engine, Stats};
use peryton_units::{Bytes, Nanos};

use crate::{
    array::Array, ftl_bounds::PrimaryBounds, host_cache::HostCache, intervals::DeviceCounts, observe::Watch,
    redundancy::ArrayWrites, touched::Touched,
};

/// A drive to be simulated. Each volume is an engine with devices of its own, and may have regions of devices that
/// other volumes use as well (Griffin, section 7: one disk as the write cache of several SSDs). The model of a shared
/// device gets the commands of all volumes, and includes the seeks between the regions.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) volumes: Vec<Volume>,
    /// The devices of all volumes.
    pub(crate) devices: Vec<Device>,
    /// Whether every volume gets every request of the trace; otherwise each gets only those of its own volume.
    pub(crate) same_requests: bool,
    /// Called with all inputs and outputs of the engines.
    pub(crate) watch: Watch,
}

/// A volume: an engine, and the places of its devices.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) engine: Engine,
    /// For each device of the engine, its place among the devices of the drive; with one volume it is the whole of the
    /// same device.
    pub(crate) places: Vec<Place>,
    /// The index of a log's primary, or of several as one device, and the counts of the writes to it.
    pub(crate) bounds: Option<(usize, PrimaryBounds)>,
    /// The host's own cache, if its hints are modelled.
    pub(crate) host: Option<HostCache>,
    /// The extents of the volume that were used.
    pub(crate) touched: Option<Touched>,
}

/// The place of an engine's device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its index among the devices of the drive.
    pub(crate) device: usize,
    /// The start of this volume's region on it.
    pub(crate) from: Bytes,
    /// Whether the volume has put the device to standby and has not used it since.
    pub(crate) lets_rest: bool,
}

/// A device of the drive.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) model: Array,
    /// Whether zeroing a range requires a write (disks) or is a hint to the map (flash).
    pub(crate) zero_by_writing: bool,
    /// Number of volumes that use it.
    pub(crate) users: u32,
}

impl Machine {
    /// The time when the first device with a later event has something to do.
    #[inline]
    pub(crate) fn next_device_event(&self) -> Nanos {
        let next_event = |device: &Device| device.model.next_event().unwrap_or(Nanos::MAX);
        self.devices.iter().fold(Nanos::MAX, |first, device| first.min(next_event(device)))
    }

    /// The time of the first timer of any engine.
    #[inline]
    pub(crate) fn deadline(&self) -> Nanos {
        let deadline = |volume: &Volume| volume.engine.deadline().unwrap_or(Nanos::MAX);
        match &self.volumes[..] {
            [only] => deadline(only),
            volumes => volumes.iter().map(deadline).min().unwrap_or(Nanos::MAX),
        }
    }

    /// Whether a device of a volume zeroes a range by writing zeros.
    pub(crate) fn zeroes_by_writing(&self, volume: usize, device: DeviceId) -> bool {
        self.devices[self.volumes[volume].places[device.index()].device].zero_by_writing
    }

    /// Whether all volumes that use a device have put it to standby.
    pub(crate) fn may_rest(&self, device: usize) -> bool {
        let places = self.volumes.iter().flat_map(|volume| &volume.places);
        places.filter(|place| place.device == device).all(|place| place.lets_rest)
    }

    /// Bytes that flash has programmed for a volume so far; for a shared device, every volume has an equal part. `None`
    /// if the model does not report them.
    pub(crate) fn programmed(&mut self, now: Nanos, volume: usize, device: DeviceId) -> Option<Bytes> {
        let device = &mut self.devices[self.volumes[volume].places[device.index()].device];
        let bytes = device.model.stats(now).iter().map(|member| member.nand_bytes_written.map(|bytes| bytes.0)).sum();
        let bytes: Option<u64> = bytes;
        bytes.map(|bytes| Bytes(bytes / u64::from(device.users)))
    }

    /// What has worn the members of each device of the design, over all volumes, as `Simulator::stats` has them.
    pub(crate) fn wear(&self) -> Vec<Vec<WearCounts>> {
        let of = |index: usize| {
            let mut places: Vec<usize> = self.volumes.iter().map(|volume| volume.places[index].device).collect();
            places.dedup();
            places.into_iter().flat_map(|device| self.devices[device].model.wear()).collect()
        };
        (0..self.volumes[0].places.len()).map(of).collect()
    }

    /// Number of members of all devices.
    pub(crate) fn members(&self) -> usize {
        self.devices.iter().map(|device| device.model.members()).sum()
    }

    /// What each member of the devices of the design has done by `now`, over all volumes, in the order of
    /// `Simulator::stats`.
    pub(crate) fn counts(&mut self, now: Nanos) -> Vec<DeviceCounts> {
        self.each_device(|device, all| all.extend(device.counts(now).map(|stats| DeviceCounts::of(&stats))))
    }

    /// The same at the end of the run, with all background work.
    pub(crate) fn last_counts(&mut self, now: Nanos) -> Vec<DeviceCounts> {
        self.each_device(|device, all| all.extend(device.stats(now).iter().map(DeviceCounts::of)))
    }

    /// Goes through the devices in the order of the design, over all volumes.
    fn each_device<T>(&mut self, mut of: impl FnMut(&mut Array, &mut Vec<T>)) -> Vec<T> {
        let mut all = Vec::new();
        for index in 0..self.volumes[0].places.len() {
            let mut last = None;
            for volume in &self.volumes {
                let device = volume.places[index].device;
                if last.replace(device) != Some(device) {
                    of(&mut self.devices[device].model, &mut all);
                }
            }
        }
        all
    }

    /// What redundancy made of the writes to each device of the design, over all volumes, as `Design::leaves` has them.
    pub(crate) fn array_writes(&self) -> Vec<Option<ArrayWrites>> {
        let of = |index: usize| {
            let mut places: Vec<usize> = self.volumes.iter().map(|volume| volume.places[index].device).collect();
            places.dedup();
            let mut all = places.into_iter().map(|device| self.devices[device].model.array_writes());
            let mut sum = all.next().unwrap_or_default();
            for more in all {
                sum.iter_mut().zip(more).for_each(|(sum, more)| {
                    if let (Some(sum), Some(more)) = (sum, more) {
                        sum.add(&more);
                    }
                });
            }
            sum
        };
        (0..self.volumes[0].places.len()).flat_map(of).collect()
    }

    /// The statistics of the engines of the drives that are in the place of devices; those inside a drive follow it.
    pub(crate) fn drives(&self) -> Vec<Stats> {
        self.devices.iter().flat_map(|device| device.model.drives()).collect()
    }

    /// Energy that the devices of a volume have used so far, in microjoules; for a shared device, every volume has an
    /// equal part.
    pub(crate) fn drawn(&mut self, now: Nanos, volume: usize) -> u64 {
        let mut joules = 0.0;
        for place in &self.volumes[volume].places {
            let device = &mut self.devices[place.device];
            for member in device.model.stats(now) {
                joules += member.energy_j / f64::from(device.users);
            }
        }
        (joules * 1e6) as u64
    }
}
