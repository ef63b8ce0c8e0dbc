//! A drive whose devices several volumes share, each with a region of every device and an engine of its own.

use peryton_units::Bytes;

use super::{Design, volumes::REGION};
use crate::{
    DesignError,
    machine::{Device, Machine, Place, Volume},
    observe::Watch,
    touched::Touched,
};

impl Design {
    /// The drive of these designs, which have the same devices: each volume has a region of each, one behind the other. Also returns
    /// the drive as one design, for what is reported of its devices.
    ///
    /// # Errors
    /// An engine or a model refuses its parameters.
    ///
    /// # Panics
    /// There is no design, or they have not the same number of devices.
    pub(crate) fn build_shared(designs: &[&Design]) -> Result<(Design, Machine), DesignError> {
        let mut drive = (*designs.first().expect("a drive has a volume")).clone();
        assert!(designs.iter().all(|one| one.devices.len() == drive.devices.len()), "they have the same devices");
        let region = |bytes: Bytes| Bytes(bytes.0.next_multiple_of(REGION));
        for (index, device) in drive.devices.iter_mut().enumerate() {
            device.data = Bytes(designs.iter().map(|one| one.devices[index].data.0).sum());
            device.used = Bytes(designs.iter().map(|one| region(one.devices[index].used).0).sum());
        }
        drive.volume = Bytes(designs.iter().map(|one| one.volume.0).sum());
        let (mut devices, mut seed) = (Vec::with_capacity(drive.devices.len()), drive.seed);
        for device in &drive.devices {
            let model = device.build((false, true), seed, drive.images.as_ref())?;
            let zero_by_writing = device.zeroes_by_writing();
            devices.push(Device { model, zero_by_writing, users: designs.len() as u32 });
            seed = seed.wrapping_add(device.seeds());
        }
        let mut from = vec![Bytes::ZERO; devices.len()];
        let mut volumes = Vec::with_capacity(designs.len());
        for design in designs {
            let mut places = Vec::with_capacity(from.len());
            for (device, (start, design)) in from.iter_mut().zip(&design.devices).enumerate() {
                places.push(Place { device, from: *start, lets_rest: false });
                *start += region(design.used);
            }
            let touched = design.extent().map(|extent| Touched::new(design.volume, extent));
            volumes.push(Volume { engine: design.engine(true)?, places, bounds: None, host: None, touched });
        }
        Ok((drive, Machine { volumes, devices, same_requests: false, watch: Watch::default() }))
    }
}
