//! `[devices.NAME]`, and the tables that describe each device further: power and endurance.

use std::{
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use peryton_device::{Model, Profile};
use peryton_engine::Tuning;
use peryton_units::{Bytes, Nanos};

use super::{
    device::DeviceDesign,
    drive::Design,
    in_service::{InService, Known},
    key::{
        KeyDefault::{Else, Value},
        keys,
    },
};
use crate::{
    DesignError, Redundancy,
    document::{At, FromToml, Keys, NestedDesign, unknown},
};

/// The engine's device numbers have 8 bits.
const MOST_DEVICES: usize = 255;
/// A bound on `count`, so that a typing error does not build a million models.
const MOST_MEMBERS: u32 = 256;
/// The longest device name; names become keys of reports.
const LONGEST_NAME: usize = 64;
/// The default stripe: bytes on one member of an array before the next one follows.
const STRIPE: Bytes = Bytes::kib(64);

keys! {
    /// A shipped profile (`peryton profiles`), or the path of one. Simulations need a profile; a served volume does not.
    PROFILE: String = "devices.NAME.profile" { default: Else("none, but simulations need one") }
    /// A drive of Peryton in place of a device: the path of the inner design, relative to this file, or the tables of the inner
    /// design. The volume of the inner drive is the device, so the device has no `profile`. A served volume has the inner
    /// volume at `path`, such as `/dev/ublkb0`, and ignores this key.
    DESIGN: NestedDesign = "devices.NAME.design" { default: Else("none: the device is one of `profile`") }
    /// Values that replace single parameters of the profile's device model (`peryton keys devices.NAME.model` lists them).
    MODEL: toml::Table = "devices.NAME.model" { default: Else("the profile's values"), example: "{ rpm = 5400 }" }
    /// The number of such devices. They are striped unless `redundancy` has another value.
    COUNT: u32 = "devices.NAME.count" { default: Value("1"), unit: "devices", example: "2" }
    /// The capacity of each device, if it is less than the profile's. Price and rated writes are then in proportion to the
    /// capacity; speed and power are those of the profile.
    CAPACITY: Bytes = "devices.NAME.capacity" { default: Else("the profile's"), example: "'512MiB'" }
    /// The bytes on one member of an array before the next member follows.
    STRIPE_SIZE: Bytes = "devices.NAME.stripe" { default: Value("'64KiB'"), example: "'128KiB'", needs: &["devices.NAME.count=2"] }
    /// How an array survives the failure of members.
    REDUNDANCY: Redundancy = "devices.NAME.redundancy" {
        default: Value("'none'"), words: || Redundancy::ALL.map(Redundancy::name).to_vec(), example: "'mirror'",
        needs: &["devices.NAME.count=2"],
    }
    /// Spare devices, which are bought but not attached.
    SPARES: u32 = "devices.NAME.spares" { default: Value("0"), unit: "devices", example: "1" }
    /// How much of the device, or of the array, the volume uses. Without this key, a simulation uses the profile's capacity,
    /// and `create` the whole file or block device at `path`. A volume keeps its sizes until `resize` changes them.
    SIZE: Bytes = "devices.NAME.size" { default: Else("all of it, or what volume.size leaves for it"), example: "'2GiB'" }
    /// The block device or file, relative to the design file. A served volume needs it; simulations ignore it.
    PATH: String = "devices.NAME.path" { default: Else("none"), example: "'my.img'" }
    /// The price of each such device.
    PRICE_USD: f64 = "devices.NAME.price_usd" { default: Else("the profile's, in proportion to capacity"), unit: "US dollars", example: "12.5" }
    /// The number of these devices that you own already: they cost nothing.
    OWNED: u32 = "devices.NAME.owned" { default: Value("0"), unit: "devices", example: "1" }
    /// The idle time after which the device is put into standby. A server waits at least one second.
    SPIN_DOWN_AFTER: OrNever = "power.NAME.spin_down_after" { default: Value("'never'"), live: true, example: "'15s'" }
    /// How many reads wear flash as much as one write (GreenDM, section 2.5); `never`: reads do not wear.
    READ_EFFECT: ReadEffect = "endurance.read_effect" { default: Value("'never'"), unit: "reads", live: true, example: "50" }
    /// The bytes that may be written to each such device in its life.
    WRITTEN: Bytes = "endurance.NAME.written" { default: Else("the profile's, or its capacity times its cycles"), live: true, example: "'100TiB'" }
    /// How often each such device can be started and stopped.
    START_STOPS: u64 = "endurance.NAME.start_stops" { default: Else("the profile's"), unit: "times", live: true, example: "1000" }
}

/// A device as in the file, before sizes are computed.
pub(super) struct Spec<'a> {
    pub(super) name: At<'a, String>,
    pub(super) profile: Profile,
    /// Whether the design gives the profile; otherwise nothing that it says of the device's life or power is true.
    has_profile: bool,
    /// The drive in its place.
    drive: Option<Box<Design>>,
    pub(super) size: Option<At<'a, Bytes>>,
    /// The capacity of all members, less redundancy; of a device in service, the size that it has.
    pub(super) capacity: Bytes,
    pub(super) count: u32,
    /// The capacity of each member, at most the profile's.
    each: Bytes,
    /// Of them, those whose capacity is left for data.
    pub(super) data_devices: u32,
    redundancy: Redundancy,
    spares: u32,
    stripe: Bytes,
    price_usd: Option<f64>,
    owned: u32,
    path: Option<PathBuf>,
    precondition_given: bool,
    /// The unit in which it maps its data, if that is large.
    pub(super) write_unit: Option<Bytes>,
}

/// The profile of a device in service whose design gives none.
const NO_PROFILE: &str = "fixed";
/// The capacity of a device whose size is given and whose profile is not.
const UNKNOWN_CAPACITY: Bytes = Bytes(u64::MAX);

/// The endurance of a device.
#[derive(Clone, Copy, Default)]
pub(super) struct Limits {
    /// Bytes that may be written to it: its rating, or otherwise its capacity times its cycles.
    pub(super) written: Option<Bytes>,
    /// Bytes that can be programmed into its flash, the spare area included.
    pub(super) programmable: Option<Bytes>,
    /// Bytes that may be read from and written to a disk.
    workload: Option<Bytes>,
    start_stops: Option<u64>,
    read_effect: Option<NonZeroU32>,
}

impl Spec<'_> {
    /// The profile, if the design gives one.
    pub(super) fn given_profile(&self) -> Option<&Profile> {
        self.has_profile.then_some(&self.profile)
    }

    /// Whether it is a drive: it shares no device with other volumes.
    pub(super) fn is_a_drive(&self) -> bool {
        self.drive.is_some()
    }

    fn refuse_for_a_drive<T>(&self, value: &At<'_, T>) -> Result<(), DesignError> {
        match &self.drive {
            Some(drive) => {
                Err(value.wrong(format!("'{}' is a drive: give this to its devices, in '{}'", *self.name, drive.name)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn finish(self, limits: Limits, data: Bytes, used: Bytes) -> DeviceDesign {
        DeviceDesign {
            place: self.name.place(),
            name: self.name.into_inner(),
            profile: self.profile,
            has_profile: self.has_profile,
            drive: self.drive,
            capacity: self.each,
            count: self.count,
            redundancy: self.redundancy,
            spares: self.spares,
            copies: 1,
            regions: 1,
            stripe: self.stripe,
            data,
            used,
            price_usd: self.price_usd,
            owned: self.owned,
            path: self.path,
            written_limit: limits.written,
            workload_limit: limits.workload,
            start_stop_limit: limits.start_stops,
            read_effect: limits.read_effect,
            precondition_given: self.precondition_given,
        }
    }
}

/// The index of the device called `name`.
pub(super) fn find(name: &At<'_, String>, devices: &[Spec<'_>]) -> Result<usize, DesignError> {
    devices.iter().position(|device| *device.name == **name).ok_or_else(|| {
        let known: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        name.wrong(format!("no device is called '{}': use one of {}", **name, known.join(", ")))
    })
}

/// Reads the tables of devices. `in_service`: what is known of them if they are those of a drive in service.
pub(super) fn read<'a>(
    root: &mut Keys<'a>,
    in_service: Option<&InService>,
    ignored: &mut Vec<usize>,
) -> Result<Vec<Spec<'a>>, DesignError> {
    let none = "missing: a design has at least one table such as [devices.ssd]";
    let tables = root.table("devices")?.ok_or_else(|| root.wrong_at("devices", none))?;
    let mut devices = Vec::new();
    for (name, mut keys) in tables.tables()? {
        // The override may be meant for another design that has the device.
        if let Some(index) = name.override_index()
            && keys.get(&PROFILE)?.is_none()
            && keys.get(&DESIGN)?.is_none()
        {
            ignored.push(index);
            continue;
        }
        if devices.len() == MOST_DEVICES {
            return Err(name.wrong("a design has at most 255 devices"));
        }
        if name.is_empty()
            || name.len() > LONGEST_NAME
            || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        {
            return Err(name.wrong("a device is named with up to 64 letters, digits, '-' and '_'"));
        }
        let known = in_service.map(|known| known.of(&name));
        devices.push(device(name, keys, known, ignored)?);
    }
    if devices.is_empty() {
        return Err(root.wrong_at("devices", none));
    }
    Ok(devices)
}

/// What a device says of itself, and a drive in the place of one in its own design.
const OF_PROFILES: [&str; 9] =
    ["profile", "model", "count", "capacity", "stripe", "redundancy", "spares", "price_usd", "owned"];

/// The drive in the place of a device, if it is one. A drive in service has it elsewhere.
fn drive(
    keys: &mut Keys<'_>,
    known: Option<Known>,
    ignored: &mut Vec<usize>,
) -> Result<Option<Box<Design>>, DesignError> {
    let Some(named) = keys.get(&DESIGN)? else { return Ok(None) };
    if let Some(other) = OF_PROFILES.iter().find_map(|key| keys.written(key)) {
        return Err(other.wrong("the device is a drive, whose design says what it is made of: remove this, or design"));
    }
    let (None, Some((document, name))) = (known, keys.design(&DESIGN)) else { return Ok(None) };
    let drive = Design::from_document(document, &name, &[], None)?;
    let unusable = [
        (
            drive.volumes > 1 || drive.stream.is_some(),
            "it has several volumes, and a device is one: remove volume.count there",
        ),
        (
            drive.page_cache.is_some() || drive.host_cache.is_some(),
            "the host's memory is not between drives: remove page_cache and host there",
        ),
    ];
    if let Some((_, why)) = unusable.iter().find(|(is, _)| *is) {
        return Err(named.wrong(why));
    }
    ignored.extend(&drive.ignored_overrides);
    Ok(Some(Box::new(drive)))
}

fn device<'a>(
    name: At<'a, String>,
    mut keys: Keys<'a>,
    known: Option<Known>,
    ignored: &mut Vec<usize>,
) -> Result<Spec<'a>, DesignError> {
    let drive = drive(&mut keys, known, ignored)?;
    let profile_name = keys.get(&PROFILE)?;
    let failed = |at: String, source| DesignError::Profile { place: at, source: Box::new(source) };
    let has_profile = profile_name.is_some();
    let mut profile = match (&profile_name, known) {
        (Some(name), _) => Profile::named(name).map_err(|error| failed(name.place(), error))?,
        (None, None) if drive.is_none() => {
            return Err(keys.wrong_at(
                PROFILE.name(),
                "missing: a simulation asks it how fast the device is: give one (peryton profiles lists them)",
            ));
        }
        (None, _) => Profile::named(NO_PROFILE).map_err(|error| failed(name.place(), error))?,
    };
    let mut precondition_given = false;
    if let Some(model) = keys.get(&MODEL)? {
        if !has_profile {
            return Err(
                model.wrong("changes values of a profile, and there is none: give profile as well, or remove this")
            );
        }
        let place = model.place();
        let overrides = model.into_inner();
        precondition_given = overrides.contains_key("precondition");
        profile = profile.with_model(&overrides).map_err(|error| failed(place, error))?;
    }
    let each = match keys.get(&CAPACITY)? {
        Some(each) if !has_profile => {
            return Err(
                each.wrong("is a part of a profile's device, and there is no profile: give it as well, or remove this")
            );
        }
        Some(each) if *each == Bytes::ZERO => {
            return Err(each.wrong("a device of no capacity holds nothing: give it some, or remove the device"));
        }
        Some(each) if *each > profile.capacity => {
            return Err(each.wrong(format!(
                "is {}, but profile '{}' has {}: use at most that, or a larger profile",
                *each, profile.name, profile.capacity
            )));
        }
        Some(each) => *each,
        None => drive.as_ref().map_or(profile.capacity, |drive| drive.volume),
    };
    let write_unit = match (&profile.model, known) {
        (_, Some(known)) => known.write_unit,
        (Model::Flash(flash), None) => flash.mapping_unit,
        (Model::Disk(_) | Model::Fixed(_), None) => None,
    };
    let write_unit = write_unit.filter(|unit| peryton_engine::WRITE_UNITS.contains(unit));
    let count = match keys.get(&COUNT)? {
        Some(count) if *count == 0 || *count > MOST_MEMBERS => return Err(count.wrong("use 1 to 256")),
        Some(count) => *count,
        None => 1,
    };
    let stripe = match keys.get(&STRIPE_SIZE)? {
        Some(stripe) if *stripe == Bytes::ZERO || !stripe.is_multiple_of(Bytes::kib(4)) => {
            return Err(stripe.wrong(format!("is {}: use a multiple of 4KiB", *stripe)));
        }
        Some(stripe) => *stripe,
        None => STRIPE,
    };
    let redundancy = match keys.get(&REDUNDANCY)? {
        Some(redundancy) if redundancy.data_devices(count).is_none() => {
            let needs = match *redundancy {
                Redundancy::Mirror => "pairs of devices: give an even count".to_owned(),
                other => format!("{} devices at least: give count", other.fewest()),
            };
            return Err(redundancy.wrong(format!("is {}, which needs {needs}, and here it is {count}", *redundancy)));
        }
        Some(redundancy) => *redundancy,
        None => Redundancy::None,
    };
    let data_devices = redundancy.data_devices(count).expect("it was just checked");
    let spares = match keys.get(&SPARES)? {
        Some(spares) if *spares > MOST_MEMBERS => return Err(spares.wrong("use 0 to 256")),
        Some(spares) => *spares,
        None => 0,
    };
    let capacity = match count {
        1 => each,
        _ => {
            let each = each.0 - each.0 % stripe.0;
            each.checked_mul(u64::from(data_devices)).map(Bytes).ok_or_else(|| {
                keys.wrong_at("count", "so many devices of this size have more than 16 EiB: use fewer, or smaller ones")
            })?
        }
    };
    let size = keys.get(&SIZE)?;
    // Only the live drive uses the path.
    let path = keys.get(&PATH)?.map(|path| PathBuf::from(path.into_inner()));
    let capacity = match known {
        Some(known) if size.is_none() || !has_profile => {
            let of_profile = has_profile.then_some(capacity);
            in_service_capacity(known, size.is_some(), of_profile).ok_or_else(|| lacks_size(&keys, path.as_deref()))?
        }
        _ => capacity,
    };
    if let Some(size) = &size {
        if **size == Bytes::ZERO {
            return Err(size.wrong("a device of no size holds nothing: give it some, or remove the device"));
        }
        if **size > capacity {
            let has = if count == 1 { "has".to_owned() } else { format!("× {count} has") };
            return Err(size.wrong(match &drive {
                Some(drive) => {
                    format!("is {}, but the volume of '{}' has {capacity}: use at most that", **size, drive.name)
                }
                None => format!(
                    "is {}, but profile '{}' {has} {capacity}: use at most that, a larger profile, or a larger count",
                    **size, profile.name
                ),
            }));
        }
    }
    let price_usd = keys.get(&PRICE_USD)?.map(|price| *price).or(profile.price_usd.map(|usd| usd * profile.part(each)));
    let owned = match keys.get(&OWNED)? {
        Some(owned) if *owned > count + spares => {
            let there = count + spares;
            return Err(
                owned.wrong(format!("is {}, of a device that is there {there} times: use at most that", *owned))
            );
        }
        Some(owned) => *owned,
        None => 0,
    };
    keys.finish()?;
    Ok(Spec {
        name,
        profile,
        has_profile,
        drive,
        size,
        capacity,
        count,
        each,
        data_devices,
        redundancy,
        spares,
        stripe,
        price_usd,
        owned,
        path,
        precondition_given,
        write_unit: write_unit.filter(|unit| count == 1 || stripe.is_multiple_of(*unit)),
    })
}

/// The capacity of a device in service whose size or profile the design does not give.
fn in_service_capacity(known: Known, has_size: bool, of_profile: Option<Bytes>) -> Option<Bytes> {
    match known.size {
        _ if has_size => Some(UNKNOWN_CAPACITY),
        Some(size) => Some(size),
        // `format` makes a file that is not there as large as the profile's device.
        None if known.is_formatted => Some(UNKNOWN_CAPACITY),
        None => of_profile,
    }
}

/// The error about a device in service of which nothing says how large it is.
fn lacks_size(keys: &Keys<'_>, path: Option<&Path>) -> DesignError {
    match path {
        None => keys.wrong_at(PATH.name(), "missing: say which file or block device it is"),
        Some(path) => keys.wrong_at(
            SIZE.name(),
            format!(
                "missing, and {} does not say it, because it is not there or is empty: give a size such as \"8GiB\", or the \
                 path of a device that is there",
                path.display()
            ),
        ),
    }
}

impl FromToml for Redundancy {
    const TYPE: &'static str = "text";
    const EXPECTED: &'static str = "\"none\", \"mirror\", \"raid5\" or \"raid6\"";
    fn from_toml(value: &toml::Value) -> Result<Redundancy, Option<String>> {
        value.as_str().ok_or(None)?.parse().map_err(|_| None)
    }
}

/// A time, or `"never"`.
pub(super) struct OrNever(pub(super) Option<Nanos>);

impl FromToml for OrNever {
    const TYPE: &'static str = "time, or never";
    const EXPECTED: &'static str = "a time such as \"5s\", or \"never\"";
    fn from_toml(value: &toml::Value) -> Result<OrNever, Option<String>> {
        match value.as_str() {
            Some("never") => Ok(OrNever(None)),
            _ => Nanos::from_toml(value).map(|after| OrNever(Some(after))),
        }
    }
}

/// Goes through the tables below `keys` that have the names of devices.
fn each_device<'a>(
    keys: Option<Keys<'a>>,
    devices: &[Spec<'a>],
    ignored: &mut Vec<usize>,
    mut read: impl FnMut(usize, &mut Keys<'a>) -> Result<(), DesignError>,
) -> Result<(), DesignError> {
    for (name, mut keys) in keys.map(Keys::tables).transpose()?.into_iter().flatten() {
        match (devices.iter().position(|device| *device.name == *name), name.override_index()) {
            (Some(index), _) => read(index, &mut keys)?,
            (None, Some(index)) => {
                ignored.push(index);
                continue;
            }
            (None, None) => {
                let known: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
                return Err(name.wrong(unknown(&name, &known)));
            }
        }
        keys.finish()?;
    }
    Ok(())
}

pub(super) fn read_power<'a>(
    root: &mut Keys<'a>,
    devices: &[Spec<'a>],
    tuning: &mut Tuning,
    ignored: &mut Vec<usize>,
) -> Result<(), DesignError> {
    each_device(root.table("power")?, devices, ignored, |index, keys| {
        if let Some(after) = keys.get(&SPIN_DOWN_AFTER)? {
            devices[index].refuse_for_a_drive(&after)?;
            tuning.spin_down_after[index] = after.0;
        }
        Ok(())
    })
}

/// A ratio, or `"never"`.
pub(super) struct ReadEffect(Option<NonZeroU32>);

impl FromToml for ReadEffect {
    const TYPE: &'static str = "whole number, or never";
    const EXPECTED: &'static str =
        "a whole number from 1 (100: one read wears as much as 1/100 of a write), or \"never\"";
    fn from_toml(value: &toml::Value) -> Result<ReadEffect, Option<String>> {
        if value.as_str() == Some("never") {
            return Ok(ReadEffect(None));
        }
        u32::from_toml(value).ok().and_then(NonZeroU32::new).map(|ratio| ReadEffect(Some(ratio))).ok_or(None)
    }
}

pub(super) fn read_endurance<'a>(
    root: &mut Keys<'a>,
    devices: &[Spec<'a>],
    ignored: &mut Vec<usize>,
) -> Result<Vec<Limits>, DesignError> {
    let limits = |device: &Spec<'_>| {
        device.given_profile().map(|profile| default_limits(profile, device.each)).unwrap_or_default()
    };
    let mut all: Vec<Limits> = devices.iter().map(limits).collect();
    let Some(mut keys) = root.table("endurance")? else { return Ok(all) };
    if let Some(effect) = keys.get(&READ_EFFECT)? {
        all.iter_mut().for_each(|limits| limits.read_effect = effect.0);
    }
    each_device(Some(keys.without("read_effect")), devices, ignored, |index, keys| {
        let above_zero = "must be above 0";
        if let Some(limit) = keys.get(&WRITTEN)? {
            devices[index].refuse_for_a_drive(&limit)?;
            if *limit == Bytes::ZERO {
                return Err(limit.wrong(above_zero));
            }
            all[index].written = Some(*limit);
        }
        if let Some(limit) = keys.get(&START_STOPS)? {
            devices[index].refuse_for_a_drive(&limit)?;
            if *limit == 0 {
                return Err(limit.wrong(above_zero));
            }
            all[index].start_stops = Some(*limit);
        }
        Ok(())
    })?;
    Ok(all)
}

/// The limits of a device of this capacity. A limit that the profile does not have stays unknown.
fn default_limits(profile: &Profile, capacity: Bytes) -> Limits {
    // Limits of the whole device stay exact.
    let part = |whole: Bytes| match capacity == profile.capacity {
        true => whole,
        false => Bytes((whole.0 as f64 * profile.part(capacity)) as u64),
    };
    Limits {
        written: profile.writable().map(part),
        programmable: profile.programmable().map(part),
        workload: profile.endurance.workload(),
        start_stops: profile.endurance.start_stops,
        read_effect: None,
    }
}
