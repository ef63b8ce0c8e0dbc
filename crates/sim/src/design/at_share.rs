//! A design that is smaller by a share, for a trace that touches this much of the data in use: a sample, or a recording that stands for
//! more data than it touches.
//!
//! What is stored shrinks: caches, tiers, logs, volumes on flash, and times that are compared with how long data stay there. What is done
//! for a request does not: devices are as fast as before and get requests as often. So times that are compared with how long data stay
//! shrink, and times that are compared with the gaps between requests do not (when a device is idle, commits). A disk keeps the times of its seeks and the rates of
//! its tracks, and has so much less room that the data lie on as large a part of it.

use std::borrow::Cow;

use peryton_device::{DiskParameters, Model};
use peryton_engine::{AdmitBy, Placement, Replacement};
use peryton_units::{Bytes, Nanos};

use super::{
    Design, DeviceDesign,
    key::{
        KeyDefault::{Else, Value},
        keys,
    },
};
use crate::{DesignError, document::Keys};

keys! {
    /// The share of the active data that the traces touch. A simulation shrinks the design to this share. A served volume
    /// ignores it.
    SHARE: f64 = "load.share" { default: Value("1"), unit: "share", example: "0.5" }
    /// The address space of these traces: the simulated volume is not smaller than this. A served volume ignores it.
    SPAN: Bytes = "load.span" { default: Else("the share of the volume"), example: "'64MiB'" }
    /// The share of the time in which the load goes on. Devices wear only during this share. A served volume ignores it.
    DUTY: f64 = "load.duty" { default: Value("1"), unit: "share", example: "0.33" }
}

/// Reads the table `load`: how much smaller the design is simulated, and the share of the time in which its load goes on.
pub(super) fn read(root: &mut Keys<'_>) -> Result<(Option<Load>, f64), DesignError> {
    let Some(mut keys) = root.table("load")? else { return Ok((None, 1.0)) };
    let (share, span, duty) = (keys.get(&SHARE)?, keys.get(&SPAN)?, keys.get(&DUTY)?);
    for share in [&share, &duty].into_iter().flatten() {
        if !(**share > 0.0 && **share <= 1.0) {
            return Err(share.wrong(format!("is {}: use a share above 0 and up to 1, such as 0.03", **share)));
        }
    }
    if let Some(span) = span.as_ref().filter(|span| ***span == Bytes::ZERO) {
        return Err(span.wrong("is 0: give the address space of the traces, such as '20GiB'"));
    }
    keys.finish()?;
    let [share, duty] = [share, duty].map(|share| share.map_or(1.0, |share| *share));
    let load = match span {
        Some(span) => Some(Load::of(share, *span)),
        None => Some(Load { share, volume_share: share, reach: Bytes::ZERO }).filter(|load| *load != Load::WHOLE),
    };
    Ok((load, duty))
}

/// What a disk that is made smaller has more than its data, at the least.
const ROOM_ON_DISK: Bytes = Bytes::mib(16);

/// What a trace touches of the data in use that a design is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The share of the data in use, by which caches, tiers, logs and times are smaller.
    pub share: f64,
    /// The share by which the volume is smaller.
    pub volume_share: f64,
    /// The address space that the requests span: the volume is not smaller than this.
    pub reach: Bytes,
}

impl Load {
    /// The load of a trace that stands for more data than it touches: it has this share of what is in use. With 100 %, no more than it
    /// touches is ever used, however much is stored.
    pub fn of(share: f64, reach: Bytes) -> Load {
        let share = share.min(1.0);
        Load { share, volume_share: if share < 1.0 { share } else { 0.0 }, reach }
    }

    /// The table of a design that has this load for this share of the time; empty if that is all of it, always.
    pub fn to_toml(&self, duty: f64) -> String {
        let mut text = String::new();
        if *self != Load::WHOLE {
            text += &format!("share = {}\nspan = \"{}\"\n", self.share, self.reach.exact());
        }
        if duty < 1.0 {
            text += &format!("duty = {duty}\n");
        }
        if text.is_empty() { text } else { format!("\n[load]\n{text}") }
    }

    /// The address space of requests that end there: whole MiB, and room for a drive's metadata and moves even if they are few.
    pub fn reach(end: Bytes) -> Bytes {
        Bytes(end.0.checked_next_multiple_of(1 << 20).unwrap_or(end.0)).max(LEAST_REACH)
    }

    /// The whole of it.
    pub const WHOLE: Load = Load { share: 1.0, volume_share: 1.0, reach: Bytes::ZERO };

    /// The size of a volume that has this size in full.
    pub fn volume(&self, whole: Bytes) -> Bytes {
        let share = Bytes(((whole.0 as f64 * self.volume_share) as u64).next_multiple_of(1 << 20));
        share.max(self.reach).min(whole)
    }
}

/// The smallest address space of a trace.
const LEAST_REACH: Bytes = Bytes::mib(64);
/// The least that a fast device or a log has in a design that is smaller: with less, single extents would decide.
const LEAST_PART: Bytes = Bytes::mib(16);
/// The same where the capacity of each device is what is sought, so that small ones differ.
const LEAST_SIZED: Bytes = Bytes::mib(2);

/// How small the fast device, or the log, of a smaller design may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// Its share, whatever that is.
    Share,
    /// What a device has at the least ([`Design::least_part`]), and no more than the volume needs.
    Part,
}

/// A share of a number of extents, of which there is at least one if there was any.
fn share_of(extents: u32, share: f64) -> u32 {
    if extents == 0 { 0 } else { ((f64::from(extents) * share).round() as u32).max(1) }
}

impl Design {
    /// The design that is simulated: this one, or a smaller one if traces touch only a share of its data.
    ///
    /// # Errors
    /// The design does not work in that size.
    pub fn simulated(&self) -> Result<Cow<'_, Design>, DesignError> {
        match &self.load {
            None => Ok(Cow::Borrowed(self)),
            Some(load) => self.with_load(load).map(Cow::Owned),
        }
    }

    /// The least that a device has in such a smaller design.
    pub fn least_part(&self, device: usize) -> Bytes {
        let device = &self.devices[device];
        if device.capacity < device.profile.capacity { LEAST_SIZED } else { LEAST_PART }
    }

    /// The design for such a load, in full size.
    ///
    /// ```
    /// use peryton_sim::{Design, Load};
    /// use peryton_units::Bytes;
    ///
    /// let text = "[volume]\nsize = '10TB'\n[devices]\nssd = { profile = 'intel-320-300gb' }\n\
    ///             hdd = { profile = 'seagate-exos-x20-20tb' }\n\
    ///             [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n";
    /// let design = Design::parse(text, "ten terabytes", &[])?;
    /// let small = design.with_load(&Load::of(0.01, Bytes::gib(20)))?;
    /// assert!(small.volume < Bytes::gib(94) && small.devices[0].data < Bytes::gib(3));
    /// # Ok::<(), peryton_sim::DesignError>(())
    /// ```
    ///
    /// # Errors
    /// The design does not work in that size.
    pub fn with_load(&self, load: &Load) -> Result<Design, DesignError> {
        let volume = match &self.placement {
            Placement::Tiering(pair) => {
                let fast = pair.fast.index();
                // The slow device has room for all data, as far as it has it in full.
                let slow = load.volume(self.devices[pair.slow.index()].data).max(load.reach.min(self.volume));
                let mine = Bytes((self.devices[fast].data.0 as f64 * load.share).ceil() as u64);
                slow + mine.max(self.least_part(fast)).min(slow)
            }
            _ => load.volume(self.volume),
        };
        self.at_share(load.share, volume, Least::Part)
    }

    /// What the fast device, or the log, has for data at the least, and at the most, beside a volume of this size.
    fn least_and_most(&self, share: f64, volume: Bytes) -> (Bytes, Bytes) {
        match &self.placement {
            Placement::Tiering(pair) => (self.least_part(pair.fast.index()), Bytes(volume.0 / 2)),
            Placement::Caching(pair) | Placement::Partitioned(pair) => {
                // All data fit beside the room that is kept free.
                let free = pair.extent * u64::from(share_of(self.tuning.demotion_high, share));
                (self.least_part(pair.fast.index()), volume + free)
            }
            Placement::Logging(pair) => (self.least_part(pair.log.index()), volume),
            Placement::Single { .. } | Placement::Linear { .. } => (Bytes::ZERO, volume),
        }
    }

    /// The design for a share of its data in use, with a volume of this size. What the fast device, or the log, has for data is its share,
    /// or `least`. A drive in the place of a device has the same share of its data, and a volume in proportion to the device.
    ///
    /// # Errors
    /// The design does not work in that size.
    pub(crate) fn at_share(&self, share: f64, volume: Bytes, least: Least) -> Result<Design, DesignError> {
        let unit = self.extent().unwrap_or(Bytes(4096)).0;
        let whole = |bytes: Bytes| Bytes(bytes.0.next_multiple_of(unit));
        let (fewest, most) = match least {
            Least::Share => (Bytes::ZERO, Bytes(u64::MAX)),
            Least::Part => self.least_and_most(share, volume),
        };
        let part = |bytes: Bytes| whole(Bytes((bytes.0 as f64 * share).ceil() as u64).max(fewest.min(bytes)).min(most));
        let mut sizes: Vec<(usize, Bytes)> = Vec::new();
        let mut total = volume;
        match &self.placement {
            Placement::Tiering(pair) => {
                let fast = part(self.devices[pair.fast.index()].data);
                let slow = whole(volume.saturating_sub(fast)).max(Bytes(unit));
                sizes.extend([(pair.fast.index(), fast), (pair.slow.index(), slow)]);
                total = fast + slow;
            }
            Placement::Caching(pair) | Placement::Partitioned(pair) => {
                sizes.push((pair.fast.index(), part(self.devices[pair.fast.index()].data)));
                sizes.push((pair.slow.index(), whole(volume)));
                total = whole(volume);
            }
            Placement::Logging(pair) => {
                sizes.push((pair.log.index(), part(self.devices[pair.log.index()].data)));
                // A share of a volume on several primaries has a part of each.
                let count = pair.primaries.len() as u64;
                sizes.extend(pair.primaries.iter().map(|device| (device.index(), Bytes(volume.0.div_ceil(count)))));
            }
            Placement::Single { device } => sizes.push((device.index(), volume)),
            Placement::Linear { .. } => {}
        }
        let mut overrides: Vec<String> = sizes
            .iter()
            .map(|(index, size)| format!("devices.{}.size={}", self.devices[*index].name, size.0))
            .collect();
        let mut written: toml::Table = toml::from_str(&self.toml).expect("the design was written as TOML");
        // What it is for is smaller by as much as it.
        written.remove("load");
        if self.duty < 1.0 {
            written.insert("load".to_owned(), toml::Table::from_iter([("duty".to_owned(), self.duty.into())]).into());
        }
        if written.get("volume").is_some_and(|volume| volume.get("size").is_some()) {
            overrides.push(format!("volume.size={}", total.0));
        }
        let of_volume = total.0 as f64 / self.volume.0.max(1) as f64;
        let mut drives: Vec<(usize, Design)> = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let size = sizes.iter().find(|(at, _)| *at == index).map_or(device.data, |(_, size)| *size);
            if let Some(drive) = &device.drive {
                let drive = drive.at_share(share, drive.volume_behind(device, size), least)?;
                written["devices"][&device.name]["design"] = drive.as_tables();
                drives.push((index, drive));
            }
            if let Model::Disk(disk) = &device.profile.model
                && let Some(capacity) = smaller(disk, of_volume, Bytes(size.0 / u64::from(device.data_devices())))
            {
                overrides.push(format!("devices.{}.model.heads={}", device.name, disk.actuators));
                overrides.push(format!("devices.{}.model.tracks.capacity={}", device.name, capacity.0));
            }
        }
        // Names of policies of other crates mean nothing in a text; the settings are taken over below.
        let pair = self.placement.hybrid();
        if matches!(self.tuning.replacement, Replacement::Custom(_)) {
            overrides.push("placement.replacement=lru".to_owned());
        }
        if let Some(pair) = pair {
            overrides.push(format!("placement.extent={}", pair.extent.0));
        }
        if matches!(self.tuning.admission.by, AdmitBy::Custom(_)) {
            overrides.push("admission.by=all".to_owned());
        }
        // The room that is kept free is a part of the fast device.
        let (low, high) = (share_of(self.tuning.demotion_low, share), share_of(self.tuning.demotion_high, share));
        if pair.is_some() {
            overrides.push(format!("placement.demotion.low={low}"));
            overrides.push(format!("placement.demotion.high={high}"));
        }
        overrides.extend(self.times_at(share));
        if self.bought_for.is_none() && total < self.volume {
            overrides.push(format!("cost.data={}", self.volume.0));
        }
        let mut small = Design::parse(&written.to_string(), &self.file, &overrides)?;
        small.name.clone_from(&self.name);
        // They have what no text says.
        for (index, drive) in drives {
            small.devices[index].drive = Some(Box::new(drive));
        }
        small.tuning = self.tuning.clone();
        let tuning = &mut small.tuning;
        (tuning.demotion_low, tuning.demotion_high) = (low, high);
        tuning.cleaning.idle_after = Some(self.tuning.cleaning.idle_after(self.tuning.writeback_delay));
        tuning.promotion_window = scaled(tuning.promotion_window, share);
        tuning.writeback_delay = scaled(tuning.writeback_delay, share);
        tuning.cleaning.max_age = scaled(tuning.cleaning.max_age, share).max(tuning.writeback_delay);
        tuning.partition.bust_after = tuning.partition.bust_after.map(|time| scaled(time, share));
        tuning.logging.triggers.timeout = tuning.logging.triggers.timeout.map(|time| scaled(time, share));
        small.images = self.images.clone();
        small.host_cache = self.host_cache;
        small.page_cache = self.page_cache;
        Ok(small)
    }
}

impl Design {
    /// The size of its volume if the design in which it is a device has so much data on it.
    fn volume_behind(&self, device: &DeviceDesign, size: Bytes) -> Bytes {
        let ratio = size.0 as f64 / device.data.0.max(1) as f64;
        let volume = Bytes((self.volume.0 as f64 * ratio) as u64);
        // The metadata of a smaller design are no larger.
        let least = size + device.used.saturating_sub(device.data);
        Bytes(volume.max(least).0.next_multiple_of(1 << 20)).min(self.volume)
    }

    /// The design as tables of another one, with its name.
    fn as_tables(&self) -> toml::Value {
        let mut tables: toml::Table = toml::from_str(&self.toml).expect("the design was written as TOML");
        tables.insert("name".to_owned(), self.name.as_str().into());
        toml::Value::Table(tables)
    }
}

/// A time that is compared with how long data stay, for a share of the data; in whole microseconds, as a design writes it.
fn scaled(time: Nanos, share: f64) -> Nanos {
    if time.0 == u64::MAX { time } else { Nanos(((time.0 as f64 * share / 1e3).round() as u64).max(1) * 1_000) }
}

impl Design {
    /// The settings that are such times, as overrides: the smaller design is a file like any other.
    fn times_at(&self, share: f64) -> Vec<String> {
        let tuning = &self.tuning;
        let key = |name: &str, time: Nanos| format!("{name}={}us", scaled(time, share).0 / 1_000);
        match &self.placement {
            Placement::Tiering(_) => vec![key("placement.promotion.window", tuning.promotion_window)],
            Placement::Caching(_) => vec![
                {
                    let idle = tuning.cleaning.idle_after(tuning.writeback_delay);
                    format!("placement.writeback.idle_after={}ns", idle.0)
                },
                key("placement.promotion.window", tuning.promotion_window),
                key("placement.writeback.delay", tuning.writeback_delay),
                key("placement.writeback.max_age", tuning.cleaning.max_age.max(tuning.writeback_delay)),
            ],
            Placement::Partitioned(_) => {
                tuning.partition.bust_after.map(|after| key("partition.bust_after", after)).into_iter().collect()
            }
            Placement::Logging(_) => {
                let triggers = &tuning.logging.triggers;
                // A table of triggers has exactly those that hold.
                let share_of_reads =
                    triggers.read_share_ppm.map(|ppm| format!("triggers.read_share={}", f64::from(ppm) / 1e6));
                triggers.timeout.map(|after| key("triggers.timeout", after)).into_iter().chain(share_of_reads).collect()
            }
            Placement::Single { .. } | Placement::Linear { .. } => Vec::new(),
        }
    }
}

/// The capacity of a disk that is smaller by the share of the data that is simulated, so that these lie on as large a part of it: on the
/// whole disk they would lie on a few of the outer tracks, where arms hardly move. With one surface for each actuator it has cylinders enough for the
/// arm to move as far. `None`: all data are simulated, or the disk is given by its cylinders or its zones, which cannot be made smaller.
fn smaller(disk: &DiskParameters, share: f64, each: Bytes) -> Option<Bytes> {
    let whole =
        disk.tracks.as_ref().filter(|_| share < 1.0 && disk.seek.curve.is_empty() && disk.shingled.is_none())?;
    let scaled = Bytes((whole.capacity.0 as f64 * share) as u64);
    let capacity = Bytes(scaled.max(each + Bytes(each.0 / 16) + ROOM_ON_DISK).0.next_multiple_of(1 << 20));
    (capacity < whole.capacity).then_some(capacity)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The fear: a small design that is written is served with other settings than it was simulated with.
    #[test]
    fn the_text_of_a_small_design_has_the_settings_that_it_is_simulated_with() {
        for (mode, more) in [
            ("caching", ""),
            ("caching", "replacement = 's3fifo'\nwriteback = { delay = '1h' }\n"),
            ("tiering", "promotion = { window = '5min' }\n"),
            ("partitioned", "replacement = 'arc'\n"),
        ] {
            let text = format!(
                "[volume]\nsize = '1TiB'\n[devices]\nssd = {{ profile = 'intel-320-300gb', size = '128GiB' }}\n\
                 hdd = {{ profile = 'seagate-exos-x20-20tb' }}\n[placement]\nmode = '{mode}'\nfast = 'ssd'\nslow = 'hdd'\n{more}"
            );
            let design = Design::parse(&text, "design", &[]).unwrap();
            let load = Load { share: 0.01, volume_share: 0.01, reach: Bytes::gib(5) };
            let small = design.with_load(&load).unwrap();
            let written = Design::parse(&small.toml, "small", &[]).unwrap();
            // A text has nothing of other placements.
            let mut simulated = small.tuning.clone();
            simulated.logging = written.tuning.logging;
            if mode != "partitioned" {
                simulated.partition = written.tuning.partition;
            }
            if mode != "caching" {
                (simulated.writeback_delay, simulated.cleaning) =
                    (written.tuning.writeback_delay, written.tuning.cleaning);
            }
            if mode == "partitioned" {
                simulated.promotion_window = written.tuning.promotion_window;
            }
            assert_eq!(written.tuning, simulated, "{mode} {more}");
            assert_eq!(written.tuning.replacement, design.tuning.replacement);
        }
    }
}
