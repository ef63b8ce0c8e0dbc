//! `[placement]`: how data is placed on the devices, and how it moves.

use peryton_engine::{DeviceId, Hybrid, Placement, PlacementKind, Replacement, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos};

use super::{
    devices::{Spec, find},
    logging,
};
use crate::{
    DesignError,
    document::{At, FromToml, Keys},
};

/// The modes that accept each key.
const HYBRID: &[PlacementKind] = &[PlacementKind::Tiering, PlacementKind::Caching, PlacementKind::Partitioned];
const PROMOTING: &[PlacementKind] = &[PlacementKind::Tiering, PlacementKind::Caching];
const KEYS: &[(&str, &[PlacementKind])] = &[
    ("device", &[PlacementKind::Single]),
    ("devices", &[PlacementKind::Linear]),
    ("fast", HYBRID),
    ("slow", HYBRID),
    ("extent", HYBRID),
    ("promotion", PROMOTING),
    ("demotion", HYBRID),
    ("max_moves", HYBRID),
    ("commit_interval", HYBRID),
    ("journal", HYBRID),
    ("replacement", HYBRID),
    ("write", &[PlacementKind::Caching]),
    ("writeback", &[PlacementKind::Caching]),
    ("bypass", &[PlacementKind::Caching]),
    ("primary", LOGGING),
    ("log", LOGGING),
    ("block", LOGGING),
    ("caching", LOGGING),
    ("overwrite_ratio", LOGGING),
    ("gather", LOGGING),
    ("checkpoint_interval", LOGGING),
    ("migration_memory", LOGGING),
];
const LOGGING: &[PlacementKind] = &[PlacementKind::Logging];

/// Keys that are reserved for future placements.
const LATER: &[&str] = &["spare"];

/// Parses one of a few words; `later` are words of features that do not exist yet.
pub(super) fn word<T: Copy>(at: &At<'_, String>, known: &[(&str, T)], later: &[&str]) -> Result<T, DesignError> {
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == at.as_str()) {
        return Ok(*value);
    }
    if later.contains(&at.as_str()) {
        return Err(at.wrong(format!("'{}' is not available yet: use one of {}", **at, words(known))));
    }
    let meant = peryton_device::nearest(at, known.iter().map(|(word, _)| *word));
    Err(at.wrong(match meant {
        Some(meant) => format!("'{}' is unknown: did you mean '{meant}'?", crate::document::one_line(at)),
        None => format!("'{}' is unknown: use one of {}", crate::document::one_line(at), words(known)),
    }))
}

fn words<T>(known: &[(&str, T)]) -> String {
    known.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ")
}

/// Reads the placement, and whether the design sets the number of free extents of the fast device.
pub(super) fn read<'a>(
    root: &mut Keys<'a>,
    devices: &[Spec<'a>],
    tuning: &mut Tuning,
    ignored: &mut Vec<usize>,
) -> Result<(Placement, bool), DesignError> {
    let Some(mut keys) = root.table("placement")? else {
        return Err(root.wrong_at("placement", "missing: a design has a table [placement] with a mode"));
    };
    let mode = keys.require::<String>("mode")?;
    let mode = word(&mode, &PlacementKind::ALL.map(|kind| (kind.name(), kind)), &[])?;
    for (key, modes) in KEYS {
        let Some(value) = keys.get::<toml::Value>(key)? else { continue };
        if !modes.contains(&mode) {
            // An override applies only to designs that have the key.
            match value.override_index() {
                Some(index) => ignored.push(index),
                None => return Err(value.wrong(format!("does not apply to mode = \"{}\": remove it", mode.name()))),
            }
        }
    }
    for key in LATER {
        if let Some(value) = keys.get::<toml::Value>(key)? {
            return Err(value.wrong("is not available yet: remove it"));
        }
    }
    let placement = match mode {
        PlacementKind::Single => single(&mut keys, devices)?,
        PlacementKind::Linear => linear(&mut keys, devices)?,
        PlacementKind::Tiering => Placement::Tiering(hybrid(&mut keys, devices, false)?),
        PlacementKind::Caching => Placement::Caching(hybrid(&mut keys, devices, false)?),
        PlacementKind::Partitioned => Placement::Partitioned(hybrid(&mut keys, devices, true)?),
        PlacementKind::Logging => Placement::Logging(logging::placement(&mut keys, devices)?),
    };
    if mode == PlacementKind::Logging {
        logging::tuning(&mut keys, &mut tuning.logging)?;
    }
    let mut asks_for_room = false;
    if HYBRID.contains(&mode) {
        asks_for_room = keys.get::<toml::Value>("demotion")?.is_some();
        if let Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) = &placement {
            usual(pair.extent, tuning);
        }
        moves(&mut keys, tuning)?;
    }
    if mode == PlacementKind::Caching {
        writes(&mut keys, tuning)?;
    }
    keys.finish()?;
    unused(&placement, devices)?;
    Ok((placement, asks_for_room))
}

pub(super) fn id(index: usize) -> DeviceId {
    DeviceId(u8::try_from(index).expect("a design has at most 255 devices"))
}

fn single(keys: &mut Keys<'_>, devices: &[Spec<'_>]) -> Result<Placement, DesignError> {
    let device = match keys.get::<String>("device")? {
        Some(name) => find(&name, devices)?,
        None if devices.len() == 1 => 0,
        None => return Err(keys.wrong_at("device", "missing: the design has several devices, name one")),
    };
    Ok(Placement::Single { device: id(device) })
}

fn linear(keys: &mut Keys<'_>, devices: &[Spec<'_>]) -> Result<Placement, DesignError> {
    let Some(names) = keys.get::<Vec<String>>("devices")? else {
        return Ok(Placement::Linear { devices: (0..devices.len()).map(id).collect() });
    };
    let mut order = Vec::new();
    for name in names.iter() {
        let index = find(&names.with(name.clone()), devices)?;
        if order.contains(&id(index)) {
            return Err(names.wrong(format!("'{name}' is named twice")));
        }
        order.push(id(index));
    }
    if order.is_empty() {
        return Err(names.wrong("name at least one device"));
    }
    Ok(Placement::Linear { devices: order })
}

fn hybrid(keys: &mut Keys<'_>, devices: &[Spec<'_>], partitioned: bool) -> Result<Hybrid, DesignError> {
    let fast_name = keys.require::<String>("fast")?;
    let slow_name = keys.require::<String>("slow")?;
    let (fast, slow) = (find(&fast_name, devices)?, find(&slow_name, devices)?);
    if fast == slow {
        return Err(slow_name.wrong(format!("'{}' is the fast device already: name another", *slow_name)));
    }
    let extent = match keys.get::<Bytes>("extent")? {
        // The default extent: a page of a file system, or a size that suits a disk.
        None if partitioned => Bytes::kib(4),
        None => Bytes::mib(1),
        Some(extent) if extent.is_multiple_of(Bytes::kib(4)) && (Bytes::kib(4)..=Bytes::gib(1)).contains(&*extent) => {
            *extent
        }
        Some(extent) => {
            return Err(extent.wrong(format!("is {}: it must be a multiple of 4KiB, from 4KiB to 1GiB", *extent)));
        }
    };
    Ok(Hybrid { fast: id(fast), slow: id(slow), extent })
}

pub(super) fn set<T: FromToml>(to: &mut T, keys: &mut Keys<'_>, key: &'static str) -> Result<(), DesignError> {
    if let Some(value) = keys.get::<T>(key)? {
        *to = value.into_inner();
    }
    Ok(())
}

/// By default, the moves in flight and the free extents for them amount to at least this many bytes. GreenDM's 16 moves
/// and 64 free extents are so little with extents of 4 KiB that nearly every promotion would be cancelled.
const USUAL_MOVES: Bytes = Bytes::mib(4);

/// The defaults of MCML, LT and HT for extents of this size.
fn usual(extent: Bytes, tuning: &mut Tuning) {
    let most = u64::from(peryton_engine::MOST_MOVES);
    let count = (USUAL_MOVES.0 / extent.0).min(most) as u32;
    tuning.max_moves = tuning.max_moves.max(count);
    // As many extents are free as promotions in flight can need.
    tuning.demotion_low = tuning.demotion_low.max(count);
    tuning.demotion_high = tuning.demotion_high.max(2 * count);
}

fn moves(keys: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    if let Some(mut promotion) = keys.table("promotion")? {
        set(&mut tuning.promotion_threshold, &mut promotion, "threshold")?;
        set(&mut tuning.promotion_window, &mut promotion, "window")?;
        promotion.finish()?;
    }
    if let Some(mut demotion) = keys.table("demotion")? {
        let defaults = (tuning.demotion_low, tuning.demotion_high);
        set(&mut tuning.demotion_low, &mut demotion, "low")?;
        set(&mut tuning.demotion_high, &mut demotion, "high")?;
        if tuning.demotion_high < tuning.demotion_low {
            let (low, high) = (tuning.demotion_low, tuning.demotion_high);
            let remedy = format!("is {high}, below demotion.low, which is {low}: give both (defaults {defaults:?})");
            return Err(demotion.wrong_at("high", remedy));
        }
        demotion.finish()?;
    }
    if let Some(most) = keys.get::<u32>("max_moves")? {
        if *most == 0 || *most > peryton_engine::MOST_MOVES {
            return Err(most.wrong(format!("is {}: use 1 to {}", *most, peryton_engine::MOST_MOVES)));
        }
        tuning.max_moves = *most;
    }
    if let Some(replacement) = keys.get::<String>("replacement")? {
        if replacement.as_str() == crate::curve_policy::OPTIMAL {
            return Err(replacement.wrong(format!(
                "'opt' (Belady's optimum) needs to know the future, so a drive cannot follow it: `peryton trace mrc --replacement opt` has it as a bound; here use one of {}",
                words(&Replacement::ALL)
            )));
        }
        tuning.replacement = word(&replacement, &Replacement::ALL, &[])?;
    }
    set::<Nanos>(&mut tuning.commit_interval, keys, "commit_interval")?;
    if let Some(journal) = keys.get::<String>("journal")? {
        tuning.mirror_journal = word(&journal, &[("mirrored", true), ("fast", false)], &[])?;
    }
    Ok(())
}

/// A size, or `"never"`.
struct SizeOrNever(Option<Bytes>);

impl FromToml for SizeOrNever {
    const EXPECTED: &'static str = "a size such as \"4MiB\", or \"never\"";
    fn from_toml(value: &toml::Value) -> Result<SizeOrNever, Option<String>> {
        match value.as_str() {
            Some("never") => Ok(SizeOrNever(None)),
            _ => Bytes::from_toml(value).map(|size| SizeOrNever(Some(size))),
        }
    }
}

fn writes(keys: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    if let Some(write) = keys.get::<String>("write")? {
        let known = [("back", WritePolicy::Back), ("through", WritePolicy::Through), ("around", WritePolicy::Around)];
        tuning.write = word(&write, &known, &[])?;
    }
    if let Some(mut bypass) = keys.table("bypass")? {
        if let Some(sequential) = bypass.get::<SizeOrNever>("sequential")? {
            tuning.bypass.sequential = sequential.0;
        }
        set(&mut tuning.bypass.congested, &mut bypass, "congested")?;
        bypass.finish()?;
    }
    if let Some(mut writeback) = keys.table("writeback")? {
        // Designs from when the queue of write-backs was bounded: every dirty extent has a place now, and the key changes nothing.
        set(&mut 0_u32, &mut writeback, "queue")?;
        let delay = writeback.get::<Nanos>("delay")?.map(At::into_inner);
        tuning.writeback_delay = delay.unwrap_or(tuning.writeback_delay);
        cleaning(&mut writeback, tuning, delay.is_some())?;
        writeback.finish()?;
    }
    Ok(())
}

/// What bounds the dirty extents.
fn cleaning(keys: &mut Keys<'_>, tuning: &mut Tuning, has_delay: bool) -> Result<(), DesignError> {
    if let Some(target) = keys.get::<f64>("dirty_target")? {
        if !(*target > 0.0 && *target <= 1.0) {
            return Err(target.wrong(format!("is {}: use a share above 0 and up to 1, such as 0.4", *target)));
        }
        tuning.cleaning.dirty_target_ppm = ((*target * 1e6).round() as u32).max(1);
    }
    if let Some(max_age) = keys.get::<Nanos>("max_age")? {
        if !has_delay {
            tuning.writeback_delay = tuning.writeback_delay.min(*max_age);
        }
        if *max_age < tuning.writeback_delay {
            let delay = tuning.writeback_delay;
            return Err(max_age.wrong(format!(
                "is {}, below writeback.delay, which is {delay}: an extent would have to be written home before it may be",
                *max_age
            )));
        }
        tuning.cleaning.max_age = *max_age;
    }
    if let Some(p99) = keys.get::<Nanos>("max_foreground_p99")? {
        if *p99 == Nanos::ZERO {
            return Err(p99.wrong("is 0: use a time above 0, or leave it out"));
        }
        tuning.cleaning.max_foreground_p99 = Some(*p99);
    }
    Ok(())
}

/// A device that the placement does not use is an error, because it would only cost money and energy.
fn unused(placement: &Placement, devices: &[Spec<'_>]) -> Result<(), DesignError> {
    let used = match placement {
        Placement::Single { device } => vec![*device],
        Placement::Linear { devices } => devices.clone(),
        Placement::Tiering(pair) | Placement::Caching(pair) | Placement::Partitioned(pair) => {
            vec![pair.fast, pair.slow]
        }
        Placement::Logging(pair) => vec![pair.primary, pair.log],
    };
    match (0..devices.len()).find(|index| !used.contains(&id(*index))) {
        Some(index) => {
            Err(devices[index].name.wrong("the placement does not use this device: remove it, or name it there"))
        }
        None => Ok(()),
    }
}
