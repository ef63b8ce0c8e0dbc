//! A device of a design, and its models.

use std::{num::NonZeroU32, path::PathBuf, sync::Arc};

use peryton_device::{
    Class, Model, Profile, ProfileError,
    flash::{Images, Precondition},
};
use peryton_engine::endurance::Endurance;
use peryton_units::Bytes;

use super::drive::Design;
use crate::{
    DesignError, Redundancy,
    array::{Array, member_bytes},
    members::Member,
    nested::NestedDrive,
};

/// The number of states in which flash of an array that was in use begins, in turn: to make a state takes longer than to simulate a member,
/// and states of one device hardly differ.
const STATES: u32 = 8;

/// A member of a device as a report names it; those of a drive in the place of a device are the members of its devices.
pub(crate) struct NamedMember<'a> {
    pub(crate) name: String,
    pub(crate) device: &'a DeviceDesign,
    /// Whether the design puts it to standby.
    pub(crate) spins_down: bool,
}

/// A device that is no drive, with the dotted path of its table, and the name that it has in a report.
pub(crate) struct NamedDevice<'a> {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) device: &'a DeviceDesign,
}

/// A device of a design.
#[derive(Clone, Debug)]
pub struct DeviceDesign {
    /// Its name in the design.
    pub name: String,
    /// The profile of its model.
    pub profile: Profile,
    /// Whether the design gives the profile. A device in service may have none; then nothing is known of it but its size.
    pub has_profile: bool,
    /// The drive in its place, of which `profile` says nothing.
    pub drive: Option<Box<Design>>,
    /// The capacity of each member: that of the profile's device, or a smaller one.
    pub capacity: Bytes,
    /// Number of members, those for redundancy included.
    pub count: u32,
    /// How the members survive each other's failures.
    pub redundancy: Redundancy,
    /// Number of spare devices, which are bought but not attached.
    pub spares: u32,
    /// Number of equal devices: one for each volume, unless volumes share it.
    pub copies: u32,
    /// Number of volumes that share it, each with a region of its own.
    pub regions: u32,
    /// Bytes on one member before the next one follows.
    pub stripe: Bytes,
    /// Bytes that hold data of a volume.
    pub data: Bytes,
    /// Bytes that a volume occupies, including metadata and spare extents.
    pub used: Bytes,
    /// Purchase price of each, in US dollars.
    pub price_usd: Option<f64>,
    /// Number of members that are owned already and need not be bought.
    pub owned: u32,
    /// The path of the block device or file for the live drive, relative to the design file.
    pub path: Option<PathBuf>,
    /// Bytes that can be written to each member in its life.
    pub written_limit: Option<Bytes>,
    /// Bytes that can be read from and written to each member in its life (disks).
    pub workload_limit: Option<Bytes>,
    /// Number of times that each member can be started and stopped.
    pub start_stop_limit: Option<u64>,
    /// How many reads wear it as much as one write; `None`: reads do not wear.
    pub read_effect: Option<NonZeroU32>,
    /// Whether the design gives the state of the flash at the start.
    pub(super) precondition_given: bool,
    /// The place of its table in the file.
    pub(super) place: String,
}

impl DeviceDesign {
    /// `warm`: flash was written once. `in_use`: the fast device of a tier is full, if it is a drive that has one.
    pub(super) fn build(
        &self,
        (warm, in_use): (bool, bool),
        seed: u64,
        images: Option<&Arc<Images>>,
    ) -> Result<Array, DesignError> {
        if let Some(drive) = &self.drive {
            let mut drive = drive.with_seed(seed);
            drive.images = images.cloned();
            let drive = NestedDrive::new(drive.build(in_use)?);
            return Ok(Array::new(vec![Member::Drive(Box::new(drive))], self.stripe, self.redundancy));
        }
        let failed = |source: ProfileError| DesignError::Profile { place: self.place.clone(), source: source.into() };
        let mut profile = self.profile.clone();
        if let Model::Flash(flash) = &profile.model
            && flash.can_be_preconditioned(self.member_bytes())
            && warm
            && !self.precondition_given
            && flash.precondition == Precondition::Fresh
        {
            let written = toml::Table::from_iter([("precondition".to_owned(), "sequential".into())]);
            profile = profile.with_model(&written).map_err(failed)?;
        }
        let each = self.member_bytes();
        if self.is_too_large_to_be_in_use() {
            let empty = toml::Table::from_iter([("precondition".to_owned(), "fresh".into())]);
            profile = profile.with_model(&empty).map_err(failed)?;
        }
        let own = (images.is_none() && self.count > STATES).then(|| Images::new(Bytes(u64::MAX)));
        let images = images.map(|images| &**images).or(own.as_ref());
        let members = (0..self.count)
            .map(|index| {
                let seeds = [index % STATES, index].map(|index| seed.wrapping_add(u64::from(index)));
                profile.build_from(Some(each), seeds.into(), images).map(Member::Model)
            })
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Array::new(members, self.stripe, self.redundancy))
    }

    /// Whether it is flash whose map would take too much memory if it were in use: a simulation begins with it empty.
    pub(crate) fn is_too_large_to_be_in_use(&self) -> bool {
        let Model::Flash(flash) = &self.profile.model else { return false };
        flash.precondition != Precondition::Fresh && !flash.can_be_preconditioned(self.member_bytes())
    }

    /// Bytes of each member that the volume occupies.
    pub(crate) fn member_bytes(&self) -> Bytes {
        member_bytes(self.used * u64::from(self.regions), self.data_devices(), self.stripe, self.redundancy)
    }

    /// How much of the profile's device each member is: its price and its endurance are in proportion to its capacity.
    pub fn part(&self) -> f64 {
        self.profile.part(self.capacity)
    }

    /// Whether it is a disk, which starts and stops wear.
    pub(crate) fn is_disk(&self) -> bool {
        self.profile.class == Class::Hdd
    }

    /// What each member bears in its life, if that is known. Of a device without a profile that is what the design gives.
    pub(crate) fn endurance(&self) -> Option<Endurance> {
        let disk = self.start_stop_limit.map(|start_stops| Endurance::Disk { start_stops });
        let flash = self.written_limit.map(|written| Endurance::Flash { written, read_effect: self.read_effect });
        match self.has_profile {
            true if self.is_disk() => disk,
            true => flash,
            false => flash.or(disk),
        }
    }

    /// The same of all members as one device. Mirrors and parity use up the rest of what can be written; all members start and stop
    /// together.
    pub(super) fn endurance_of_all(&self) -> Option<Endurance> {
        Some(match self.endurance()? {
            Endurance::Flash { written, read_effect } => {
                Endurance::Flash { written: written.saturating_mul(u64::from(self.data_devices())), read_effect }
            }
            disk @ Endurance::Disk { .. } => disk,
        })
    }

    /// The number of members whose capacity is left for data.
    pub fn data_devices(&self) -> u32 {
        self.redundancy.data_devices(self.count).expect("the count was checked when the design was read")
    }

    /// How many of them have to be bought: members and spares, less those that are owned.
    pub fn bought(&self) -> u32 {
        self.count * self.copies + self.spares - self.owned
    }

    /// Its members in the order in which their statistics are. `spins_down`: the design puts it to standby.
    pub(crate) fn members(&self, spins_down: bool) -> Vec<NamedMember<'_>> {
        let Some(drive) = &self.drive else {
            let named = |name| NamedMember { name, device: self, spins_down };
            return self.member_names().into_iter().map(named).collect();
        };
        let inside = drive.devices.iter().zip(&drive.tuning.spin_down_after);
        let members = inside.flat_map(|(device, spins_down)| device.members(spins_down.is_some()));
        members.map(|member| NamedMember { name: format!("{}.{}", self.name, member.name), ..member }).collect()
    }

    /// The device, or those of the drive in its place.
    pub(crate) fn leaves(&self) -> Vec<NamedDevice<'_>> {
        let (name, path) = (&self.name, format!("devices.{}", self.name));
        let Some(drive) = &self.drive else {
            return vec![NamedDevice { name: name.clone(), path, device: self }];
        };
        let mut leaves = drive.leaves();
        for leaf in &mut leaves {
            leaf.name = format!("{name}.{}", leaf.name);
            leaf.path = format!("{path}.design.{}", leaf.path);
        }
        leaves
    }

    /// The number of seeds that its models take.
    pub(super) fn seeds(&self) -> u64 {
        match &self.drive {
            Some(drive) => drive.devices.iter().map(DeviceDesign::seeds).sum(),
            None => u64::from(self.count),
        }
    }

    /// Whether a range is zeroed by writing zeros (disks), and not by a hint to a map (flash).
    pub(super) fn zeroes_by_writing(&self) -> bool {
        match &self.drive {
            Some(drive) => drive.devices.iter().any(DeviceDesign::zeroes_by_writing),
            None => self.is_disk(),
        }
    }

    /// The names of its members in a report: the device's name, followed by a number if there are several.
    fn member_names(&self) -> Vec<String> {
        match self.count * self.copies {
            1 => vec![self.name.clone()],
            count => (0..count).map(|index| format!("{}.{index}", self.name)).collect(),
        }
    }
}
