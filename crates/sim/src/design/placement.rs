//! `[placement]`: how data is placed on the devices, and how it moves.

use peryton_engine::{
    DeviceId, Hybrid, Journal, LARGEST_MIGRATED_UNIT, Placement, PlacementKind, Replacement, Tuning, WRITE_UNITS,
    WritePolicy,
};
use peryton_units::{Bytes, Nanos};

use super::{
    devices::{OrNever, Spec, find},
    extent::{MAP_MEMORY, chosen_extent, chosen_extents},
    key::{
        Key,
        KeyDefault::{Else, Required, Value},
        keys, names,
    },
    logging,
};
use crate::{
    DesignError,
    document::{At, FromToml, Keys},
};

/// Lists of placements, for the keys that apply to them.
const SINGLE: &[PlacementKind] = &[PlacementKind::Single];
const LINEAR: &[PlacementKind] = &[PlacementKind::Linear];
const HYBRID: &[PlacementKind] = &[PlacementKind::Tiering, PlacementKind::Caching, PlacementKind::Partitioned];
pub(super) const PROMOTING: &[PlacementKind] = &[PlacementKind::Tiering, PlacementKind::Caching];
/// Those where every extent has an origin on the slow device.
const HOMES: &[PlacementKind] = &[PlacementKind::Caching, PlacementKind::Partitioned];
pub(super) const CACHING: &[PlacementKind] = &[PlacementKind::Caching];
pub(super) const PARTITIONED: &[PlacementKind] = &[PlacementKind::Partitioned];
pub(super) const LOGGING: &[PlacementKind] = &[PlacementKind::Logging];
/// Those that gather what is written back.
const GATHERING: &[PlacementKind] = &[PlacementKind::Caching, PlacementKind::Logging];

keys! {
    /// The rule that decides on which device data lie. `single`: all on one device. `linear`: on one device after the other.
    /// `tiering`: each extent on one of two devices. `caching`: all on the slow device, copies on the fast one. `partitioned`:
    /// each write goes to the device that is predicted to answer sooner. `logging`: new writes in a log, other data on a
    /// primary.
    MODE: String = "placement.mode" { default: Required, words: || PlacementKind::ALL.map(PlacementKind::name).to_vec() }
    /// The device with all data.
    DEVICE: String = "placement.device" { default: Else("the only one"), placements: SINGLE, example: "'hdd'", inert: true }
    /// The devices in the order of their addresses.
    DEVICES: Vec<String> = "placement.devices" {
        default: Else("all, in the order of the file"), placements: LINEAR, example: "['hdd', 'ssd']",
    }
    /// The fast device.
    FAST: String = "placement.fast" { default: Required, placements: HYBRID }
    /// The slow device.
    SLOW: String = "placement.slow" { default: Required, placements: HYBRID }
    /// The unit that moves between the devices: a multiple of 4KiB, up to 1GiB.
    EXTENT: Bytes = "placement.extent" {
        chosen_by: "mailstore with 8 requests in flight and write-back: 900 requests a second with extents of 1 MiB, 6,180 with 64 KiB. An empty cache takes all of 61,440 writes of 4 KiB with extents up to 64 KiB, and none with 1 MiB (blocks of 64 KiB)",
        default: Else("the smallest of 16KiB to 64KiB (tiering: to 128KiB; partitioned: 4KiB to 128KiB) with which the map takes at most 1GiB of memory, or the largest"),
        placements: HYBRID, example: "'256KiB'",
    }
    /// PT: an extent is promoted when it has more misses than this within the window. With 0 it is promoted at the first miss.
    PROMOTION_THRESHOLD: u32 = "placement.promotion.threshold" {
        chosen_by: "GreenDM, section 3.2: the best of 0 to 64 for web search",
        default: Else("4; in caching 0 while more than demotion.high slots are free, and 0 for writes of whole blocks if the host flushes after at most 8 writes"), unit: "misses", placements: PROMOTING, live: true, example: "1",
    }
    /// TW: after a gap longer than this, the misses of an extent count from zero.
    PROMOTION_WINDOW: Nanos = "placement.promotion.window" {
        chosen_by: "GreenDM, section 3.2",
        default: Value("'60s'"), placements: PROMOTING, live: true, example: "'10s'",
    }
    /// LT: extents begin to leave the fast device when fewer slots than this are free.
    DEMOTION_LOW: u32 = "placement.demotion.low" {
        chosen_by: "GreenDM, section 3.2, in bytes for small extents",
        default: Else("64, or as many as have 4MiB if that is more; on a small device half of demotion.high"), unit: "extents", placements: HYBRID, live: true,
        example: "8",
    }
    /// HT: extents leave until this many slots are free.
    DEMOTION_HIGH: u32 = "placement.demotion.high" {
        chosen_by: "GreenDM, section 3.2, in bytes for small extents",
        default: Else("128, or as many as have 8MiB if that is more; on a small device at most an eighth of its slots"), unit: "extents", placements: HYBRID, live: true,
        example: "16", needs: &["placement.demotion.low=8"],
    }
    /// MCML: the most moves between the devices at a time.
    MAX_MOVES: u32 = "placement.max_moves" {
        chosen_by: "GreenDM, section 3.2, in bytes for small extents",
        default: Else("16, or as many as have 4MiB if that is more"), unit: "moves", placements: HYBRID, live: true, example: "8",
    }
    /// The policy that chooses which extents leave the fast device.
    REPLACEMENT: String = "placement.replacement" {
        chosen_by: "GreenDM, section 2.3; docs/findings/tuning.md compares the others",
        default: Value("'wsclock'"), words: || names(&Replacement::ALL), placements: HYBRID, live: true, example: "'lru'",
    }
    /// An update of the map is durable after this time at the latest, and sooner if a flush waits for it.
    COMMIT_INTERVAL: Nanos = "placement.commit_interval" { default: Value("'5s'"), placements: HYBRID, live: true, example: "'1s'" }
    /// Where commits are written. `mirrored`: to both devices. `named`: to the fast device, and to both if the commit adds a
    /// region to the write-intent set, which names the regions that may be newer on the fast device. In `tiering`, `named` is
    /// the same as `mirrored`.
    JOURNAL: String = "placement.journal" {
        chosen_by: "random 4 KiB writes, each with a flush, to an empty cache: 0.56 ms with `named`, 8.4 ms with `mirrored`, 5.6 ms the disk alone",
        default: Value("'named'"), words: || names(JOURNALS), placements: HYBRID, live: true, example: "'mirrored'",
    }
    /// Where writes go: to the cache and later to the slow device (`back`), to both (`through`), or past the cache (`around`).
    WRITE: String = "placement.write" {
        default: Value("'back'"), words: || names(WRITES), placements: CACHING, live: true, example: "'through'",
    }
    /// After this many bytes of a sequential stream, its misses bring no data to the fast device.
    BYPASS_SEQUENTIAL: SizeOrNever = "placement.bypass.sequential" {
        chosen_by: "bcache's sequential_cutoff. On eight traces (docs/findings/tuning.md) 1 MiB takes 1.04 times as long as 4 MiB on average. `never` takes 0.96 times as long on average and 1.38 times at worst, 16 MiB 0.95 and 1.28 times (both worst cases: CloudPhysics at its own pace)",
        default: Value("'4MiB'"), placements: PROMOTING, live: true, example: "'never'",
    }
    /// Whether misses bring no data to the fast device while it is slower than the slow one.
    BYPASS_CONGESTED: bool = "placement.bypass.congested" { default: Value("true"), placements: PROMOTING, live: true, example: "false" }
    /// The time between two snapshots of the policies' state, which make the cache warm after a restart. The server takes
    /// another snapshot when it stops. `never`: no snapshots, so every start is cold. Simulations take none.
    WARM_INTERVAL: OrNever = "placement.warm.interval" {
        default: Value("'300s'"), placements: HYBRID, live: true, example: "'60s'",
    }
    /// The age from which a dirty extent is written back to an idle slow device.
    WRITEBACK_DELAY: Nanos = "placement.writeback.delay" {
        chosen_by: "eight traces (docs/findings/against-kernel-caches.md): write-back 1.06 (pgbench) to 1.31 (devbox) times faster than with 5 s", default: Value("'30s'"), placements: CACHING, live: true, example: "'5s'" }
    /// The share of the cache that may be dirty. At this share, a write goes to both devices, or to the slow device alone.
    DIRTY_TARGET: f64 = "placement.writeback.dirty_target" {
        default: Value("0.4"), unit: "share", placements: CACHING, live: true, example: "0.2",
    }
    /// The age from which a dirty extent is overdue, and is written back even if the slow device is busy; not below `delay`.
    MAX_AGE: Nanos = "placement.writeback.max_age" { default: Value("'600s'"), placements: CACHING, live: true, example: "'1200s'" }
    /// The slow device is idle when the host has not used it for this long.
    WRITEBACK_IDLE_AFTER: Nanos = "placement.writeback.idle_after" {
        default: Else("a second, or `delay` if that is shorter"), placements: CACHING, live: true, example: "'200ms'",
    }
    /// The mapping unit of the slow device, or of the primary, if this unit is large (QLC flash). Write-back then writes whole
    /// units, and reads the blocks of them that the fast device lacks. A power of two from 8KiB to 1MiB that divides the
    /// extent; `never`: no unit. `auto`: in simulations the profile's `mapping_unit`, in service the unit that the kernel
    /// reports for flash.
    WRITE_UNIT: UnitOrAuto = "placement.write_unit" {
        default: Value("'auto'"), placements: GATHERING, live: true, example: "'64KiB'",
    }
    /// While the 99th percentile of the host's response times is above this, write-back that can wait slows down. While it is
    /// below, write-back does not wait until the slow device is idle.
    MAX_FOREGROUND_P99: Nanos = "placement.writeback.max_foreground_p99" {
        default: Else("cleaning waits until the slow device is idle"), placements: CACHING, live: true, example: "'20ms'",
    }
}

/// The shortest interval between two snapshots.
const SHORTEST_INTERVAL: Nanos = Nanos::from_s(1);

const JOURNALS: &[(&str, Journal)] = &[("named", Journal::Named), ("mirrored", Journal::Mirrored)];
pub(super) const WRITES: &[(&str, WritePolicy)] =
    &[("back", WritePolicy::Back), ("through", WritePolicy::Through), ("around", WritePolicy::Around)];

/// Parses one of a few words.
pub(super) fn word<T: Copy>(at: &At<'_, String>, known: &[(&str, T)]) -> Result<T, DesignError> {
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == at.as_str()) {
        return Ok(*value);
    }
    if let Some(instead) = crate::document::removed(&format!("{}={}", at.path(), at.as_str())) {
        return Err(at.wrong(format!("'{}' was removed: {instead}", at.as_str())));
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
    unsaid: Unsaid,
    tuning: &mut Tuning,
    ignored: &mut Vec<usize>,
) -> Result<(Placement, bool), DesignError> {
    let Some(mut keys) = root.table("placement")? else {
        return Err(root.wrong_at("placement", "missing: a design has a table [placement] with a mode"));
    };
    let mode = keys.require(&MODE)?;
    let mode = word(&mode, &PlacementKind::ALL.map(|kind| (kind.name(), kind)))?;
    for entry in KEYS.iter().chain(logging::KEYS) {
        // The key itself, or the table that it is in.
        let Some(name) = entry.path.strip_prefix("placement.").and_then(|path| path.split('.').next()) else {
            continue;
        };
        let Some(value) = keys.written(name) else { continue };
        if !entry.placements.contains(&mode) {
            // An override applies only to designs that have the key.
            match value.override_index() {
                Some(_) => ignored.extend(keys.overrides_below(name)),
                None => return Err(value.wrong(format!("does not apply to mode = \"{}\": remove it", mode.name()))),
            }
        }
    }
    let placement = match mode {
        PlacementKind::Single => single(&mut keys, devices)?,
        PlacementKind::Linear => linear(&mut keys, devices)?,
        PlacementKind::Tiering => Placement::Tiering(hybrid(&mut keys, devices, mode, unsaid)?),
        PlacementKind::Caching => Placement::Caching(hybrid(&mut keys, devices, mode, unsaid)?),
        PlacementKind::Partitioned => Placement::Partitioned(hybrid(&mut keys, devices, mode, unsaid)?),
        PlacementKind::Logging => Placement::Logging(logging::placement(&mut keys, devices)?),
    };
    if mode == PlacementKind::Logging {
        logging::tuning(&mut keys, &mut tuning.logging)?;
    }
    let mut asks_for_room = false;
    if HYBRID.contains(&mode) {
        asks_for_room = keys.written("demotion").is_some();
        if let Some(pair) = placement.hybrid() {
            usual(pair.extent, tuning);
        }
        moves(&mut keys, tuning, HOMES.contains(&mode))?;
    }
    if GATHERING.contains(&mode) {
        tuning.write_unit = write_unit(&mut keys, devices, &placement)?;
    }
    if PROMOTING.contains(&mode) {
        bypass(&mut keys, tuning)?;
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
    let device = match keys.get(&DEVICE)? {
        Some(name) => find(&name, devices)?,
        None if devices.len() == 1 => 0,
        None => return Err(keys.wrong_at("device", "missing: the design has several devices, name one")),
    };
    Ok(Placement::Single { device: id(device) })
}

fn linear(keys: &mut Keys<'_>, devices: &[Spec<'_>]) -> Result<Placement, DesignError> {
    let Some(names) = keys.get(&DEVICES)? else {
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

/// What decides the extent of a design that does not say it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsaid {
    /// The size of the volume, if the design says it.
    pub(super) volume: Option<Bytes>,
    /// The extent of the volume that is on the devices.
    pub(super) formatted: Option<Bytes>,
}

impl Unsaid {
    fn extent(self, mode: PlacementKind, fast: &Spec<'_>, slow: &Spec<'_>) -> Bytes {
        let size = |device: &Spec<'_>| device.size.as_ref().map_or(device.capacity, |size| **size);
        let of_devices = match mode {
            PlacementKind::Tiering => Bytes(size(fast).0.saturating_add(size(slow).0)),
            _ => size(slow),
        };
        let volume = self.volume.unwrap_or(of_devices);
        // Of a cache an extent is at least what the slow device maps its data in, so that whole units go to the origin.
        let unit = slow.write_unit.filter(|_| mode == PlacementKind::Caching).unwrap_or(Bytes::ZERO);
        let chosen = || chosen_extent(mode, volume, size(fast).min(volume), MAP_MEMORY);
        self.formatted.unwrap_or_else(|| chosen().max(unit.min(*chosen_extents(mode).end())))
    }
}

fn hybrid(
    keys: &mut Keys<'_>,
    devices: &[Spec<'_>],
    mode: PlacementKind,
    unsaid: Unsaid,
) -> Result<Hybrid, DesignError> {
    let fast_name = keys.require(&FAST)?;
    let slow_name = keys.require(&SLOW)?;
    let (fast, slow) = (find(&fast_name, devices)?, find(&slow_name, devices)?);
    if fast == slow {
        return Err(slow_name.wrong(format!("'{}' is the fast device already: name another", *slow_name)));
    }
    let extent = match keys.get(&EXTENT)? {
        None => unsaid.extent(mode, &devices[fast], &devices[slow]),
        Some(extent) if extent.is_multiple_of(Bytes::kib(4)) && (Bytes::kib(4)..=Bytes::gib(1)).contains(&*extent) => {
            *extent
        }
        Some(extent) => {
            return Err(extent.wrong(format!("is {}: it must be a multiple of 4KiB, from 4KiB to 1GiB", *extent)));
        }
    };
    Ok(Hybrid { fast: id(fast), slow: id(slow), extent })
}

pub(super) fn set<T: FromToml>(to: &mut T, keys: &mut Keys<'_>, key: &'static Key<T>) -> Result<(), DesignError> {
    if let Some(value) = keys.get(key)? {
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

/// The room that a fast device keeps free by default for extents of this size, beside which it has room for data.
pub fn kept_free(extent: Bytes) -> Bytes {
    let mut tuning = Tuning::default();
    usual(extent, &mut tuning);
    extent * u64::from(tuning.demotion_high)
}

/// `in_part`: the fast device may have a part of an extent.
fn moves(keys: &mut Keys<'_>, tuning: &mut Tuning, in_part: bool) -> Result<(), DesignError> {
    let mut names_threshold = false;
    if let Some(mut promotion) = keys.table("promotion")? {
        names_threshold = promotion.written("threshold").is_some();
        set(&mut tuning.promotion_threshold, &mut promotion, &PROMOTION_THRESHOLD)?;
        set(&mut tuning.promotion_window, &mut promotion, &PROMOTION_WINDOW)?;
        promotion.finish()?;
    }
    // A threshold that is named counts at any time.
    tuning.comes_in_early = in_part && !names_threshold;
    if let Some(mut demotion) = keys.table("demotion")? {
        let defaults = (tuning.demotion_low, tuning.demotion_high);
        set(&mut tuning.demotion_low, &mut demotion, &DEMOTION_LOW)?;
        set(&mut tuning.demotion_high, &mut demotion, &DEMOTION_HIGH)?;
        if tuning.demotion_high < tuning.demotion_low {
            let (low, high) = (tuning.demotion_low, tuning.demotion_high);
            let remedy = format!("is {high}, below demotion.low, which is {low}: give both (defaults {defaults:?})");
            return Err(demotion.wrong_at("high", remedy));
        }
        demotion.finish()?;
    }
    if let Some(most) = keys.get(&MAX_MOVES)? {
        if *most == 0 || *most > peryton_engine::MOST_MOVES {
            return Err(most.wrong(format!("is {}: use 1 to {}", *most, peryton_engine::MOST_MOVES)));
        }
        tuning.max_moves = *most;
    }
    if let Some(replacement) = keys.get(&REPLACEMENT)? {
        if replacement.as_str() == crate::curve_policy::OPTIMAL {
            return Err(replacement.wrong(format!(
                "'opt' (Belady's optimum) needs to know the future, so a drive cannot follow it: `peryton trace mrc --replacement opt` has it as a bound; here use one of {}",
                words(&Replacement::ALL)
            )));
        }
        tuning.replacement = match replacement.contains(':') {
            true => replacement.parse().map_err(|problem: String| replacement.wrong(problem))?,
            false => word(&replacement, &Replacement::ALL)?,
        };
    }
    set(&mut tuning.commit_interval, keys, &COMMIT_INTERVAL)?;
    if let Some(mut warm) = keys.table("warm")? {
        if let Some(interval) = warm.get(&WARM_INTERVAL)? {
            if let Some(short) = interval.0.filter(|interval| *interval < SHORTEST_INTERVAL) {
                return Err(interval.wrong(format!("is {short}: use {SHORTEST_INTERVAL} or more, or \"never\"")));
            }
            tuning.snapshot_interval = interval.0;
        }
        warm.finish()?;
    }
    if let Some(journal) = keys.get(&JOURNAL)? {
        tuning.journal = word(&journal, JOURNALS)?;
    }
    Ok(())
}

/// A size, `"auto"` or `"never"`.
pub(super) enum UnitOrAuto {
    Auto,
    Fixed(Option<Bytes>),
}

impl FromToml for UnitOrAuto {
    const TYPE: &'static str = "size, auto, or never";
    const EXPECTED: &'static str = "a size such as \"64KiB\", \"auto\" or \"never\"";
    fn from_toml(value: &toml::Value) -> Result<UnitOrAuto, Option<String>> {
        match value.as_str() {
            Some("auto") => Ok(UnitOrAuto::Auto),
            Some("never") => Ok(UnitOrAuto::Fixed(None)),
            _ => Bytes::from_toml(value).map(|size| UnitOrAuto::Fixed(Some(size))).map_err(|_| None),
        }
    }
}

/// The unit in which what is written back is gathered.
fn write_unit(keys: &mut Keys<'_>, devices: &[Spec<'_>], placement: &Placement) -> Result<Option<Bytes>, DesignError> {
    // What a unit must be a part of, and what must be a part of it.
    let (home, extent, block, largest) = match placement {
        Placement::Caching(pair) => (pair.slow, pair.extent, Bytes::ZERO, *WRITE_UNITS.end()),
        Placement::Logging(logging) => (logging.primaries[0], Bytes::ZERO, logging.block, LARGEST_MIGRATED_UNIT),
        _ => return Ok(None),
    };
    let fits = |unit: Bytes| extent.is_multiple_of(unit) && unit >= block && unit <= largest;
    match keys.get(&WRITE_UNIT)? {
        None => Ok(devices[home.index()].write_unit.filter(|unit| fits(*unit))),
        Some(named) => match *named {
            UnitOrAuto::Auto => Ok(devices[home.index()].write_unit.filter(|unit| fits(*unit))),
            UnitOrAuto::Fixed(None) => Ok(None),
            UnitOrAuto::Fixed(Some(unit)) if !(unit.0.is_power_of_two() && WRITE_UNITS.contains(&unit)) => {
                Err(named.wrong(format!("is {unit}: use a power of two from 8KiB to 1MiB, \"auto\" or \"never\"")))
            }
            UnitOrAuto::Fixed(Some(unit)) if unit < block || unit > largest => Err(named.wrong(format!(
                "is {unit}: use {block} (a block of the log) to {largest} (the longest write of a migration), or \"never\""
            ))),
            UnitOrAuto::Fixed(Some(unit)) if !fits(unit) => Err(named.wrong(format!(
                "is {unit}, of which an extent of {extent} is not a whole number: use larger extents, or a smaller unit"
            ))),
            UnitOrAuto::Fixed(unit) => Ok(unit),
        },
    }
}

/// A size, or `"never"`.
pub(super) struct SizeOrNever(Option<Bytes>);

impl FromToml for SizeOrNever {
    const TYPE: &'static str = "size, or never";
    const EXPECTED: &'static str = "a size such as \"4MiB\", or \"never\"";
    fn from_toml(value: &toml::Value) -> Result<SizeOrNever, Option<String>> {
        match value.as_str() {
            Some("never") => Ok(SizeOrNever(None)),
            _ => Bytes::from_toml(value).map(|size| SizeOrNever(Some(size))),
        }
    }
}

fn bypass(keys: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    if let Some(mut bypass) = keys.table("bypass")? {
        if let Some(sequential) = bypass.get(&BYPASS_SEQUENTIAL)? {
            tuning.bypass.sequential = sequential.0;
        }
        set(&mut tuning.bypass.congested, &mut bypass, &BYPASS_CONGESTED)?;
        bypass.finish()?;
    }
    Ok(())
}

fn writes(keys: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    if let Some(write) = keys.get(&WRITE)? {
        tuning.write = word(&write, WRITES)?;
    }
    if let Some(mut writeback) = keys.table("writeback")? {
        let delay = writeback.get(&WRITEBACK_DELAY)?.map(At::into_inner);
        tuning.writeback_delay = delay.unwrap_or(tuning.writeback_delay);
        cleaning(&mut writeback, tuning, delay.is_some())?;
        writeback.finish()?;
    }
    Ok(())
}

/// What bounds the dirty extents.
fn cleaning(keys: &mut Keys<'_>, tuning: &mut Tuning, has_delay: bool) -> Result<(), DesignError> {
    if let Some(target) = keys.get(&DIRTY_TARGET)? {
        if !(*target > 0.0 && *target <= 1.0) {
            return Err(target.wrong(format!("is {}: use a share above 0 and up to 1, such as 0.4", *target)));
        }
        tuning.cleaning.dirty_target_ppm = ((*target * 1e6).round() as u32).max(1);
    }
    if let Some(max_age) = keys.get(&MAX_AGE)? {
        if !has_delay {
            tuning.writeback_delay = tuning.writeback_delay.min(*max_age);
        }
        if *max_age < tuning.writeback_delay {
            let delay = tuning.writeback_delay;
            return Err(max_age.wrong(format!(
                "is {}, below writeback.delay, which is {delay}: an extent would have to be written back before it may be",
                *max_age
            )));
        }
        tuning.cleaning.max_age = *max_age;
    }
    if let Some(idle) = keys.get(&WRITEBACK_IDLE_AFTER)? {
        tuning.cleaning.idle_after = Some(*idle);
    }
    if let Some(p99) = keys.get(&MAX_FOREGROUND_P99)? {
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
        Placement::Logging(pair) => pair.primaries.iter().copied().chain([pair.log]).collect(),
    };
    match (0..devices.len()).find(|index| !used.contains(&id(*index))) {
        Some(index) => {
            Err(devices[index].name.wrong("the placement does not use this device: remove it, or name it there"))
        }
        None => Ok(()),
    }
}
