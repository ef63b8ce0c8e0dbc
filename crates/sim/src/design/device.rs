//! A device of a design, and its models.

use std::path::PathBuf;

use peryton_device::{
    Model, Profile, ProfileError,
    flash::{Images, Precondition},
};
use peryton_units::Bytes;

use crate::{
    DesignError,
    array::{Array, member_bytes},
};

/// A device of a design.
#[derive(Debug)]
pub struct DeviceDesign {
    /// Its name in the design.
    pub name: String,
    /// What it is.
    pub profile: Profile,
    /// How many there are, striped.
    pub count: u32,
    /// How many times it is there: once for each volume, where volumes do not share it.
    pub copies: u32,
    /// How many volumes share it, each with a region of its own.
    pub regions: u32,
    /// How much goes to one before the next.
    pub stripe: Bytes,
    /// How much of it holds data of a volume.
    pub data: Bytes,
    /// How much of it a volume occupies, metadata and spare extents included.
    pub used: Bytes,
    /// Purchase price of each, in US dollars.
    pub price_usd: Option<f64>,
    /// How many of them are there already and need not be bought.
    pub owned: u32,
    /// Where it is, for the live drive: a block device or a file, relative to the design file.
    pub path: Option<PathBuf>,
    /// What each can be written in its life.
    pub written_limit: Option<Bytes>,
    /// How often each can be started and stopped.
    pub start_stop_limit: Option<u64>,
    /// Whether the design says what the flash holds at the start.
    pub(super) precondition_given: bool,
    /// Where it stands in the file.
    pub(super) place: String,
}

impl DeviceDesign {
    pub(super) fn build(&self, warm: bool, seed: u64, images: Option<&Images>) -> Result<Array, DesignError> {
        let failed = |source: ProfileError| DesignError::Profile { place: self.place.clone(), source: source.into() };
        let mut profile = self.profile.clone();
        if let Model::Flash(flash) = &profile.model
            && warm
            && !self.precondition_given
            && flash.precondition == Precondition::Fresh
        {
            let written = toml::Table::from_iter([("precondition".to_owned(), "sequential".into())]);
            profile = profile.with_model(&written).map_err(failed)?;
        }
        let each = self.member_bytes();
        let members = (0..self.count)
            .map(|index| profile.build_from(Some(each), seed.wrapping_add(u64::from(index)), images))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Array::new(members, self.stripe))
    }

    /// How much of each member the volume occupies.
    pub(crate) fn member_bytes(&self) -> Bytes {
        member_bytes(self.used * u64::from(self.regions), self.count, self.stripe)
    }

    /// The names of its members in a report: its own, or with a number each.
    pub(crate) fn member_names(&self) -> Vec<String> {
        match self.count * self.copies {
            1 => vec![self.name.clone()],
            count => (0..count).map(|index| format!("{}.{index}", self.name)).collect(),
        }
    }
}
