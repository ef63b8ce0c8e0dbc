//! What can be bought.

use std::{fs, path::Path};

use peryton_device::{Class, Era, Model, PriceList, Profile};
use peryton_units::{Bytes, Nanos};

use super::{candidate::Member, error::PlanError};

/// Devices with prices.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// In the order of their names.
    pub kinds: Vec<Kind>,
    /// Devices of the era that cannot be bought, because their price is not known.
    pub unpriced: Vec<String>,
}

/// A device that can be bought, any number of times.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What it is.
    pub profile: Profile,
    /// What a design's `profile` says to have it.
    pub reference: String,
    /// Of one; infinite if it is not known, so that those that are owned can be used and no more be bought.
    pub price_usd: f64,
    /// The user's own failure rate, not the profile's.
    pub afr_given: bool,
    /// How many there are already, and need not be bought.
    pub owned: u32,
}

/// The source of a price that the user gives for one device.
pub const OWN_PRICE: &str = "--price";

/// A figure is as good as another one if it is at least this share of it: data sheets are not more exact.
pub(super) const AS_GOOD: f64 = 0.8;
/// Superblocks, journal and checkpoints, and a 256th of the device for maps.
const METADATA: Bytes = Bytes::mib(16);
/// The most devices: each makes a design with every other.
const MOST_KINDS: usize = 100;

impl Catalogue {
    /// The devices that `names` name: shipped profiles, files, and folders of files; where it names none, the shipped profiles
    /// of the era that have a price, but for the models of analytic work, which are not on sale. `prices` replace those of
    /// profiles, and one of a device asks for it. A list may have devices that take no part, but the user's own single prices
    /// ([`OWN_PRICE`]) may not.
    ///
    /// # Errors
    /// A name that is none, a file that is no profile, a device without a price, two of one name, a price of a device
    /// that is not there.
    pub fn named(names: &[String], prices: &PriceList, era: &Era) -> Result<Catalogue, PlanError> {
        Catalogue::with_owned(names, prices, &[], era)
    }

    /// The same, and these devices of which there are so many already: they cost nothing to buy, take part whatever their era, and need no
    /// price as long as no more of them are bought.
    ///
    /// # Errors
    /// As [`Catalogue::named`]; a device that is owned and known by no profile.
    pub fn with_owned(
        names: &[String],
        prices: &PriceList,
        owned: &[(String, u32)],
        era: &Era,
    ) -> Result<Catalogue, PlanError> {
        let mut profiles = Vec::new();
        let shipped: Vec<String> = Profile::shipped().map(str::to_owned).collect();
        for name in if names.is_empty() { &shipped } else { names } {
            if Path::new(name).is_dir() {
                for file in folder(name)? {
                    for device in Profile::in_file(&file)? {
                        profiles.push((Profile::named(&device)?, reference(&device)?));
                    }
                }
            } else {
                let profile = Profile::named(name)?;
                let reference =
                    if Profile::shipped().any(|known| known == name) { name.clone() } else { reference(name)? };
                profiles.push((profile, reference));
            }
        }
        let is_known = |name: &str| {
            let is_one = |known: &str| known == name;
            Profile::shipped().any(is_one)
                || PriceList::shipped().per_tb(name).is_some()
                || profiles.iter().any(|(profile, _)| is_one(&profile.name))
        };
        if let Some((name, price)) = prices.all().find(|(name, price)| price.source != OWN_PRICE && !is_known(name)) {
            return Err(PlanError::UnknownPrice { origin: price.source.clone(), name: name.to_owned() });
        }
        for (profile, _) in &mut profiles {
            profile.price_by(prices);
        }
        let is_owned = |profile: &Profile| owned.iter().any(|(name, _)| *name == profile.name);
        let mut unpriced = Vec::new();
        if names.is_empty() {
            let given = |profile: &Profile| is_owned(profile) || prices.of_device(&profile.name).is_some();
            let sold = |profile: &Profile| profile.class != Class::Fixed && era.has(profile) && !given(profile);
            let without = profiles.iter().filter(|(profile, _)| profile.price_usd.is_none() && sold(profile));
            unpriced.extend(without.map(|(profile, _)| profile.name.clone()));
            profiles.retain(|(profile, _)| {
                given(profile) || (profile.price_usd.is_some() && profile.class != Class::Fixed && era.has(profile))
            });
        }
        for (name, count) in owned {
            if profiles.iter().all(|(profile, _)| profile.name != *name) {
                let profile = Profile::named(name).map_err(|_| PlanError::Range {
                    key: "--own",
                    value: format!("{name}={count}"),
                    remedy: "the name of a profile that is shipped (peryton profiles), or of one that --devices names",
                })?;
                profiles.push((profile, name.clone()));
            }
        }
        Ok(Catalogue { unpriced, ..Catalogue::new(profiles, prices, owned, era)? })
    }

    fn new(
        profiles: Vec<(Profile, String)>,
        prices: &PriceList,
        owned: &[(String, u32)],
        era: &Era,
    ) -> Result<Catalogue, PlanError> {
        let mut kinds: Vec<Kind> = Vec::new();
        for (profile, reference) in profiles {
            let (name, origin) = (profile.name.clone(), profile.origin().to_owned());
            if let Some(other) = kinds.iter().find(|kind| kind.profile.name == name) {
                if other.reference == reference {
                    continue;
                }
                let first = other.profile.origin().to_owned();
                return Err(PlanError::SameName { name, first, second: origin });
            }
            let owned = owned.iter().rev().find(|(own, _)| *own == name).map_or(0, |(_, count)| *count);
            let unknown = (profile.price_usd.is_none() && owned > 0).then_some(f64::INFINITY);
            let price_usd = profile.price_usd.filter(|usd| usd.is_finite() && *usd > 0.0).or(unknown);
            let price_usd = price_usd.ok_or(PlanError::NoPrice { name, origin })?;
            if kinds.len() == MOST_KINDS {
                let value = format!("more than {MOST_KINDS} devices");
                return Err(PlanError::Range { key: "--devices", value, remedy: "fewer of them" });
            }
            // A model that cannot be built is reported now, not in the middle of the search.
            profile.build(Some(Bytes::mib(64).min(profile.capacity)), 1)?;
            kinds.push(Kind { profile, reference, price_usd, afr_given: false, owned });
        }
        for (name, price) in prices.all().filter(|(_, price)| price.source == OWN_PRICE) {
            if !kinds.iter().any(|kind| kind.profile.name == name) {
                let value = format!("{name}={}", price.usd);
                return Err(PlanError::Range {
                    key: "--price",
                    value,
                    remedy: "the name of a device of the catalogue",
                });
            }
        }
        if kinds.is_empty() {
            return Err(PlanError::NoDevices { era: era.to_string() });
        }
        kinds.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
        Ok(Catalogue { kinds, unpriced: Vec::new() })
    }

    /// Another annual failure rate of a device, as a share.
    ///
    /// # Errors
    /// A device that is not in the catalogue, a share that is none.
    pub fn fails(&mut self, name: &str, afr: f64) -> Result<(), PlanError> {
        let value = || format!("{name}={}%", afr * 100.0);
        if !(afr > 0.0 && afr < 1.0) {
            return Err(PlanError::Range { key: "--afr", value: value(), remedy: "a share above 0% and below 100%" });
        }
        let kind = self.kinds.iter_mut().find(|kind| kind.profile.name == name);
        let missing =
            || PlanError::Range { key: "--afr", value: value(), remedy: "the name of a device of the catalogue" };
        let kind = kind.ok_or_else(missing)?;
        (kind.profile.afr, kind.afr_given) = (Some(afr), true);
        Ok(())
    }

    /// By name.
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.profile.name == name)
    }
}

/// Profiles in a folder, in the order of their names.
fn folder(path: &str) -> Result<Vec<String>, PlanError> {
    let io = |source| PlanError::Io { path: path.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            files.push(file.display().to_string());
        }
    }
    if files.is_empty() {
        return Err(PlanError::EmptyFolder { path: path.to_owned() });
    }
    files.sort();
    Ok(files)
}

/// A design names a file so that it is found from anywhere, and the member that is meant of a family of devices.
fn reference(name: &str) -> Result<String, PlanError> {
    let (path, member) = name.split_at(name.find('#').unwrap_or(name.len()));
    let whole = fs::canonicalize(path).map_err(|source| PlanError::Io { path: path.to_owned(), source })?;
    Ok(format!("{}{member}", whole.display()))
}

impl Kind {
    /// To have so many, beside those that are there already.
    pub(crate) fn dollars(&self, member: Member) -> f64 {
        match member.bought().saturating_sub(self.owned) {
            0 => 0.0,
            more => self.price_usd * self.profile.part(self.capacity(member)) * f64::from(more),
        }
    }

    /// Of one, in proportion to its capacity; nothing if it is not known, and those that are owned are enough.
    pub(super) fn price_of_each(&self, member: Member) -> f64 {
        if self.price_usd.is_infinite() {
            return 0.0;
        }
        self.price_usd * self.profile.part(self.capacity(member))
    }

    /// What it holds beside a drive's metadata.
    pub fn usable(&self) -> Bytes {
        usable(self.profile.capacity)
    }

    /// The capacity of each.
    pub fn capacity(&self, member: Member) -> Bytes {
        member.capacity.unwrap_or(self.profile.capacity)
    }

    /// About how long a small random read takes.
    pub fn read_time(&self) -> Nanos {
        match &self.profile.model {
            Model::Disk(_) => Nanos::from_ms(10),
            Model::Flash(flash) => flash.read.saturating_add(flash.read_overhead),
            Model::Fixed(fixed) => fixed.read,
        }
    }

    /// Whether it is worth being in front of another one: that one's reads take at least twice as long.
    pub(crate) fn is_faster_than(&self, other: &Kind) -> bool {
        self.read_time().0.saturating_mul(2) <= other.read_time().0
    }

    /// Whether it is worth being in front of a hybrid whose fast devices are of the other kind: it is faster, or its reads are as fast and its
    /// interface is twice as fast, as that of NVMe beside SATA.
    pub(super) fn is_worth_in_front_of(&self, other: &Kind) -> bool {
        let (Model::Flash(mine), Model::Flash(theirs)) = (&self.profile.model, &other.profile.model) else {
            return self.is_faster_than(other);
        };
        let is_as_fast = self.read_time().0 as f64 * AS_GOOD <= other.read_time().0 as f64;
        self.is_faster_than(other) || (is_as_fast && mine.interface_mb_per_s >= 2.0 * theirs.interface_mb_per_s)
    }

    /// Whether it wears by being written, as flash does.
    pub fn wears(&self) -> bool {
        self.profile.class != Class::Hdd
    }
}

/// What a device of this capacity holds beside a drive's metadata.
pub fn usable(capacity: Bytes) -> Bytes {
    let room = (capacity.0 - capacity.0 / 256).saturating_sub(METADATA.0);
    Bytes(room - room % (1 << 20))
}

/// The capacity of each of so many devices that hold these data beside a drive's metadata and are filled to this share.
pub(super) fn room(data: Bytes, devices: u32, fill: f64) -> Bytes {
    rounded(holding(Bytes((data.0 as f64 / fill / f64::from(devices.max(1))) as u64)))
}

/// The capacity of a device that holds these data beside a drive's metadata.
pub(super) fn holding(data: Bytes) -> Bytes {
    // One MiB more, for what is usable is rounded down to whole MiB.
    let usable = data.0 as f64 + METADATA.0 as f64 + f64::from(1 << 20);
    Bytes((usable * 256.0 / 255.0) as u64)
}

/// The next larger capacity of three decimal digits.
pub(super) fn rounded(capacity: Bytes) -> Bytes {
    let step = 10u64.pow(capacity.0.max(1).ilog10().saturating_sub(2));
    capacity.0.checked_next_multiple_of(step).map_or(capacity, Bytes)
}
