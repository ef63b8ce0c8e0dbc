//! The candidates: sets of devices to buy, each with a way to use them.

use std::fmt::Write;

use peryton_device::{Class, Model, flash::Precondition};
use peryton_engine::{PlacementKind, WritePolicy};
use peryton_sim::{MAP_MEMORY, NewDesign, NewDevice, Redundancy, chosen_extent, kept_free};
use peryton_units::Bytes;
use serde::Serialize;

use super::{
    catalogue::{Catalogue, Kind, holding, room, usable},
    dominated,
    flash::Flash,
    protection::Protection,
};

/// How the devices of a candidate form one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Devices of one kind; several are striped.
    Single,
    /// The fast devices cache the slow ones; writes go to the cache and are written back later (write-back).
    CachingBack,
    /// The fast devices cache the slow ones; every write goes to both (write-through).
    CachingThrough,
    /// Each extent is stored either on the fast devices or on the slow ones.
    Tiering,
    /// MixedStore's own mode: each write goes to the device that answers it sooner.
    Partitioned,
    /// Griffin's mode: writes go to a log on the slow device first and to the fast devices later.
    Logging,
}

impl Mode {
    const HYBRID: [Mode; 5] =
        [Mode::CachingBack, Mode::CachingThrough, Mode::Tiering, Mode::Partitioned, Mode::Logging];
    /// How devices are used in front of a hybrid.
    const FRONT: [Mode; 2] = [Mode::CachingBack, Mode::CachingThrough];

    fn placement(self) -> PlacementKind {
        match self {
            Mode::Single => PlacementKind::Single,
            Mode::CachingBack | Mode::CachingThrough => PlacementKind::Caching,
            Mode::Tiering => PlacementKind::Tiering,
            Mode::Partitioned => PlacementKind::Partitioned,
            Mode::Logging => PlacementKind::Logging,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Mode::Single => "single",
            Mode::CachingBack => "caching-back",
            Mode::CachingThrough => "caching-through",
            Mode::Tiering => "tiering",
            Mode::Partitioned => "partitioned",
            Mode::Logging => "logging",
        }
    }
}

/// A number of equal devices in a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The device kind, as an index into the catalogue.
    pub kind: usize,
    /// The number of devices, those for redundancy included.
    pub count: u32,
    /// How they survive each other's failures.
    pub redundancy: Redundancy,
    /// The number of spare devices beside them.
    pub spares: u32,
    /// The capacity of each, if they are smaller than the catalogue's device.
    pub capacity: Option<Bytes>,
}

impl Member {
    /// So many devices without redundancy.
    pub fn plain(kind: usize, count: u32) -> Member {
        Member { kind, count, redundancy: Redundancy::None, spares: 0, capacity: None }
    }

    /// The number of devices whose capacity is left for data.
    pub fn data_devices(&self) -> u32 {
        self.redundancy.data_devices(self.count).unwrap_or(self.count)
    }

    /// The number to buy.
    pub fn bought(&self) -> u32 {
        self.count + self.spares
    }
}

/// What is behind the fast devices of a hybrid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slow {
    /// The slow devices (or the log).
    Devices(Member),
    /// A hybrid, as a drive of its own.
    Drive(Box<Candidate>),
}

/// A set of devices and a way to use them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// How the devices are used.
    pub mode: Mode,
    /// The fast devices (with a log: its primary), or all devices if the candidate is no hybrid.
    pub fast: Member,
    /// What is behind them, in a hybrid.
    pub slow: Option<Slow>,
    /// Whether idle disks of its own are spun down.
    pub spin_down: bool,
    /// The share of each device that is filled at most, in thousandths.
    pub fill_per_mille: u32,
}

/// A role of which the number of devices is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// The fast devices, or all devices if the candidate is no hybrid.
    Fast,
    /// The slow devices.
    Slow,
}

/// The requirements that candidates are made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enumerate {
    /// The amount of data to store.
    pub capacity: Bytes,
    /// The most devices of one kind.
    pub most: u32,
    /// Also make candidates whose disks are spun down.
    pub spin_down: bool,
    /// What every candidate keeps for the day when devices fail.
    pub protection: Protection,
    /// In which capacities flash can be bought. The candidates have whole devices all the same: their capacities follow from the
    /// workload.
    pub flash: Flash,
}

/// The most candidates of one plan, because each takes time to simulate. Where there are more, those are left out first whose devices others
/// are as good as for no more money; the cheapest are kept.
pub(super) const MOST_CANDIDATES: usize = 2_000;
/// Idle time after which disks are spun down: longer than the break-even time of most (GreenDM takes 5 s).
const SPIN_DOWN: &str = "30s";
/// The largest over-provisioning of the flash model.
const MOST_OVER_PROVISIONING: f64 = 16.0;
/// What is behind the fast devices, in a design.
const SLOW: &str = "slow";

impl Candidate {
    /// The candidates with room for the data to begin with, the cheapest first: with the fewest devices, and numbers that double. Left out are caches and tiers that cost as much as
    /// enough of their fast devices alone would: the fast devices alone are better under any trace.
    pub fn all(catalogue: &Catalogue, ask: &Enumerate) -> Vec<Candidate> {
        let kinds = &catalogue.kinds;
        let least = |kind: &Kind| ask.least(kind);
        let mut found = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let disk = kind.profile.class == Class::Hdd;
            let redundancy = if disk { ask.protection.slow } else { ask.protection.fast };
            let counts = std::iter::successors(Some(least(kind)), |data| data.checked_mul(2));
            let counts = counts.map_while(|data| redundancy.devices(data)).take_while(|count| *count <= ask.most);
            let owned =
                all_owned(kind, redundancy).filter(|count| redundancy.data_devices(*count) >= Some(least(kind)));
            for count in counts.chain(owned) {
                for spin_down in [false, true].into_iter().take(1 + usize::from(ask.spin_down && disk)) {
                    found.push(Candidate {
                        mode: Mode::Single,
                        fast: ask.member(index, count, redundancy),
                        slow: None,
                        spin_down,
                        fill_per_mille: ask.fill_per_mille(),
                    });
                }
            }
        }
        for (fast, fast_kind) in kinds.iter().enumerate() {
            for (slow, slow_kind) in kinds.iter().enumerate() {
                if !fast_kind.is_faster_than(slow_kind) {
                    continue;
                }
                for mode in Mode::HYBRID {
                    hybrids(catalogue, ask, mode, (fast, least(fast_kind)), (slow, least(slow_kind)), &mut found);
                }
            }
        }
        let price = |candidate: &Candidate| candidate.dollars(catalogue);
        found.retain(|candidate| price(candidate).is_finite());
        found.sort_by(|a, b| price(a).total_cmp(&price(b)).then_with(|| a.cmp(b)));
        found.dedup();
        if found.len() > MOST_CANDIDATES {
            dominated::left_out(&mut found, catalogue);
        }
        found.truncate(MOST_CANDIDATES);
        found
    }

    /// The share of each device that is filled at most.
    fn fill(&self) -> f64 {
        f64::from(self.fill_per_mille) / 1e3
    }

    /// The purchase price of all its devices, spares included.
    pub fn dollars(&self, catalogue: &Catalogue) -> f64 {
        self.members().into_iter().map(|(_, member)| catalogue.kinds[member.kind].dollars(member)).sum()
    }

    /// The same devices and the same way to use them, with fast devices of another capacity (of the catalogue's if none is given).
    pub fn with_capacity(&self, capacity: Option<Bytes>) -> Candidate {
        Candidate { fast: Member { capacity, ..self.fast }, ..self.clone() }
    }

    /// The roles of which the number of devices is chosen. One log device is enough, and a drive inside is one that was found.
    pub(super) fn counted_tiers(&self) -> impl Iterator<Item = (Tier, Member)> + use<> {
        let slow = if let Some(Slow::Devices(slow)) = self.slow { Some((Tier::Slow, slow)) } else { None };
        [Some((Tier::Fast, self.fast)), slow.filter(|_| self.mode != Mode::Logging)].into_iter().flatten()
    }

    /// The same way to use other devices in this role.
    pub(super) fn with_members(&self, tier: Tier, member: Member) -> Candidate {
        match tier {
            Tier::Fast => Candidate { fast: member, ..self.clone() },
            Tier::Slow => Candidate { slow: Some(Slow::Devices(member)), ..self.clone() },
        }
    }

    /// Whether enough of its fast devices alone cost more, if they would be better under any trace. In partitioned drives and logs, disks take
    /// writes and spare the flash, so they may outlive flash alone. Flash that can be bought in any capacity is cheaper alone than a slow
    /// device beside it only if the slow one costs as much.
    pub fn is_worth_its_devices(&self, catalogue: &Catalogue, ask: &Enumerate) -> bool {
        let (Some(Slow::Devices(slow)), Mode::CachingBack | Mode::CachingThrough | Mode::Tiering) =
            (&self.slow, self.mode)
        else {
            return true;
        };
        let price = |member: Member| catalogue.kinds[member.kind].dollars(member);
        let front = if ask.is_sized(&catalogue.kinds[self.fast.kind]) { 0.0 } else { price(self.fast) };
        price(*slow) + front < ask.price_alone(catalogue, self.fast.kind)
    }

    /// The capacity of each fast device.
    pub fn flash_capacity(&self, catalogue: &Catalogue) -> Bytes {
        catalogue.kinds[self.fast.kind].capacity(self.fast)
    }

    /// Whether its fast devices are flash that has to be bought, of which there could be less.
    pub fn has_flash(&self, catalogue: &Catalogue) -> bool {
        let kind = &catalogue.kinds[self.fast.kind];
        kind.wears() && kind.owned == 0
    }

    /// Whether its fast devices hold a part of the data, of which more or less makes a difference.
    pub fn is_hybrid(&self) -> bool {
        !matches!(self.mode, Mode::Single | Mode::Logging)
    }

    /// The drive in the place of its slow devices.
    pub fn drive(&self) -> Option<&Candidate> {
        if let Some(Slow::Drive(drive)) = &self.slow { Some(drive) } else { None }
    }

    /// Its devices, each with its role in the design, without those of a drive inside.
    pub(super) fn own(&self) -> impl Iterator<Item = (&'static str, Member)> + use<> {
        let names = match self.mode {
            Mode::Single => ["data", ""],
            Mode::Logging => ["primary", "log"],
            _ => ["fast", SLOW],
        };
        let slow = if let Some(Slow::Devices(slow)) = self.slow { Some(slow) } else { None };
        [(names[0], Some(self.fast)), (names[1], slow)].into_iter().filter_map(|(name, member)| Some((name, member?)))
    }

    /// All its devices, each with its role in the design as a report names it: `slow.fast` is the fast device of the drive inside.
    pub fn members(&self) -> Vec<(String, Member)> {
        let inside = self.drive().map(Candidate::members).unwrap_or_default();
        let inside = inside.into_iter().map(|(role, member)| (format!("{SLOW}.{role}"), member));
        self.own().map(|(role, member)| (role.to_owned(), member)).chain(inside).collect()
    }

    /// How its devices are used, and those of the drive inside.
    pub(super) fn modes(&self) -> Vec<Mode> {
        std::iter::once(self.mode).chain(self.drive().into_iter().flat_map(Candidate::modes)).collect()
    }

    /// The devices that have all data, as far as faster ones do not.
    fn home(&self) -> Member {
        match &self.slow {
            Some(Slow::Drive(drive)) => drive.home(),
            Some(Slow::Devices(slow)) if self.mode != Mode::Logging => *slow,
            _ => self.fast,
        }
    }

    /// The data that it has room for, with devices filled to the limit.
    pub(super) fn room(&self, catalogue: &Catalogue) -> Bytes {
        if let Some(drive) = self.drive() {
            return usable(drive.room(catalogue));
        }
        let home = self.home();
        let whole = usable(catalogue.kinds[home.kind].capacity(home)) * u64::from(home.data_devices());
        Bytes((whole.0 as f64 * self.fill()) as u64)
    }

    /// Whether its data is stored on flash. Flash is affected by how full it is, disks by how far requests are apart.
    pub(super) fn lives_on_flash(&self, catalogue: &Catalogue) -> bool {
        catalogue.kinds[self.home().kind].wears()
    }

    /// A name that is valid as a file name.
    pub fn name(&self, catalogue: &Catalogue) -> String {
        let mut name = self.mode.word().to_owned();
        for (_, member) in self.own() {
            let _ = write!(name, "_{}", catalogue.kinds[member.kind].profile.name);
            if let Some(capacity) = member.capacity {
                let _ = write!(name, "-of-{}", decimal(capacity, ""));
            }
            if member.count > 1 {
                let _ = write!(name, "x{}", member.count);
            }
            if member.redundancy != Redundancy::None {
                let _ = write!(name, "-{}", member.redundancy);
            }
            if member.spares > 0 {
                let _ = write!(name, "+{}", member.spares);
            }
        }
        if let Some(drive) = self.drive() {
            let _ = write!(name, "_{}", drive.name(catalogue));
        }
        if self.spin_down {
            name += "_spin-down";
        }
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '-' }).collect()
    }

    /// A name for people to read.
    pub fn label(&self, catalogue: &Catalogue) -> String {
        let of = |member: Member| {
            let name = &catalogue.kinds[member.kind].profile.name;
            let mut devices = if member.count > 1 { format!("{} × {name}", member.count) } else { name.clone() };
            if let Some(capacity) = member.capacity {
                devices += &format!(" of {}", decimal(capacity, " "));
            }
            match (member.redundancy, member.spares) {
                (Redundancy::None, 0) => devices,
                (Redundancy::None, spares) => format!("{devices} [{spares} spare]"),
                (redundancy, 0) => format!("{devices} [{redundancy}]"),
                (redundancy, spares) => format!("{devices} [{redundancy}, {spares} spare]"),
            }
        };
        let slow = self.slow.as_ref().map(|slow| match slow {
            Slow::Devices(slow) => of(*slow),
            Slow::Drive(drive) => format!("({})", drive.label(catalogue)),
        });
        let mut label = match slow {
            None => of(self.fast),
            Some(slow) => {
                let fast = of(self.fast);
                match self.mode {
                    Mode::CachingBack => format!("{fast} caching {slow} (write-back)"),
                    Mode::CachingThrough => format!("{fast} caching {slow} (write-through)"),
                    Mode::Tiering => format!("{fast} tiered with {slow}"),
                    Mode::Partitioned => format!("{fast} partitioned with {slow}"),
                    Mode::Single | Mode::Logging => format!("{fast} behind a log on {slow}"),
                }
            }
        };
        if self.spin_down {
            label += ", disks spun down";
        }
        label
    }

    /// The design that is bought: its file. It holds these data.
    pub fn text(&self, catalogue: &Catalogue, data: Bytes) -> String {
        self.bought(catalogue, data).text()
    }

    fn bought(&self, catalogue: &Catalogue, data: Bytes) -> NewDesign {
        let extent = self.extent(catalogue, data);
        let part = |role: &str, has: Bytes, whole: Bytes| {
            let part = match role {
                "log" => Some(round(has.min(data))),
                "fast" if matches!(self.mode, Mode::Tiering | Mode::Single) => Some(round(has.min(data))),
                // All data fit beside the room that is kept free.
                "fast" => Some(round(has.min(data + kept_free(extent)))),
                SLOW if self.mode == Mode::Tiering => Some(data),
                _ => None,
            };
            // The whole device except for the drive's metadata, which grows with the volume; the design computes its size.
            part.filter(|part| *part < whole)
        };
        self.design(catalogue, data, extent, &part)
    }

    /// The design of a volume on devices that others share: it holds these data, and has so much of the fast devices where slow ones have
    /// all data.
    pub(crate) fn shared_text(&self, catalogue: &Catalogue, data: Bytes, fast: Option<Bytes>) -> String {
        let extent = chosen_extent(self.mode.placement(), data, fast.unwrap_or(data), MAP_MEMORY);
        self.design(catalogue, data, extent, &|role, _, _| if role == "fast" { fast } else { None }).text()
    }

    /// `part`: what a device has for data, by its role, of what is filled of it, and of what it could have.
    fn design(
        &self,
        catalogue: &Catalogue,
        data: Bytes,
        extent: Bytes,
        part: &dyn Fn(&str, Bytes, Bytes) -> Option<Bytes>,
    ) -> NewDesign {
        let fill = self.fill();
        let mut devices = Vec::new();
        for (role, member) in self.own() {
            let kind = &catalogue.kinds[member.kind];
            let whole = usable(kind.capacity(member)) * u64::from(member.data_devices());
            let has = Bytes((whole.0 as f64 * fill) as u64);
            let mut model = Vec::new();
            if let Model::Flash(flash) = &kind.profile.model {
                // Flash as after years of use, and as full as it will be.
                if flash.precondition == Precondition::Fresh {
                    model.push("precondition = \"random\"".to_owned());
                }
                // What is never filled is spare for the translation layer.
                if fill < 1.0 {
                    let spare = (1.0 + flash.over_provisioning) / fill - 1.0;
                    model.push(format!("over_provisioning = {:.4}", spare.min(MOST_OVER_PROVISIONING)));
                }
            }
            let spins = self.spin_down && kind.profile.class == Class::Hdd;
            devices.push(NewDevice {
                profile: Some(kind.reference.clone()),
                capacity: member.capacity,
                price_usd: Some(kind.price_of_each(member)),
                count: member.count,
                redundancy: member.redundancy,
                spares: member.spares,
                owned: kind.owned.min(member.bought()),
                size: part(role, has, whole),
                model,
                spin_down_after: spins.then(|| format!("\"{SPIN_DOWN}\"")),
                ..NewDevice::named(role)
            });
        }
        if let Some(drive) = self.drive() {
            // Its volume has room for the metadata of this design, too.
            let inside = drive.bought(catalogue, Bytes(holding(data).0.next_multiple_of(1 << 20)));
            let inside = NewDesign { name: Some(drive.name(catalogue)), ..inside };
            devices.push(NewDevice { design: Some(Box::new(inside)), ..NewDevice::named(SLOW) });
        }
        let placement = self.mode.placement();
        NewDesign {
            volume: (self.mode != Mode::Tiering).then_some(data),
            extent: self.is_hybrid().then(|| (extent, String::new())),
            write: match self.mode {
                Mode::CachingBack => Some(WritePolicy::Back),
                Mode::CachingThrough => Some(WritePolicy::Through),
                _ => None,
            },
            ..NewDesign::of(placement, devices)
        }
    }

    /// The unit in which its fast devices take data, where they hold a part of these.
    pub(super) fn extent(&self, catalogue: &Catalogue, data: Bytes) -> Bytes {
        let kind = &catalogue.kinds[self.fast.kind];
        let fast = (kind.capacity(self.fast) * u64::from(self.fast.data_devices())).min(data);
        let volume = if self.mode == Mode::Tiering { data + fast } else { data };
        chosen_extent(self.mode.placement(), volume, fast, MAP_MEMORY)
    }
}

/// Rounds a size down to one that is easy to read.
fn round(size: Bytes) -> Bytes {
    let grain = match size {
        _ if size >= Bytes::gib(64) => Bytes::gib(1),
        _ if size >= Bytes::mib(16) => Bytes::mib(1),
        _ => Bytes::kib(128),
    };
    Bytes(size.0 - size.0 % grain.0)
}

/// A size as devices are sold: `120 GB`.
pub(super) fn decimal(size: Bytes, space: &str) -> String {
    let (value, unit) = match size.0 as f64 {
        bytes if bytes >= 1e12 => (bytes / 1e12, "TB"),
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes => (bytes / 1e6, "MB"),
    };
    // Three digits; larger numbers as they are.
    let text = format!("{value:.*}", if value < 10.0 { 2 } else { usize::from(value < 100.0) });
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{space}{unit}")
}

impl Candidate {
    /// Three tiers: faster devices in front of this hybrid, which is a drive of its own then. None where it has three already, or no room
    /// for the metadata of another drive. Left out are those that cost as much as enough of the faster devices alone would.
    pub fn behind_faster(&self, catalogue: &Catalogue, ask: &Enumerate) -> Vec<Candidate> {
        let mut found = Vec::new();
        if !self.is_hybrid() || self.drive().is_some() || usable(self.room(catalogue)) < ask.capacity {
            return found;
        }
        let slower = &catalogue.kinds[self.fast.kind];
        for (index, kind) in catalogue.kinds.iter().enumerate() {
            if !kind.is_worth_in_front_of(slower) {
                continue;
            }
            for mode in Mode::FRONT {
                let redundancy = ask.protection.of_fast(mode);
                let owned = all_owned(kind, redundancy);
                let mut counts: Vec<u32> =
                    redundancy.devices(1).filter(|count| *count <= ask.most).into_iter().chain(owned).collect();
                counts.dedup();
                found.extend(counts.into_iter().map(|count| Candidate {
                    mode,
                    fast: ask.member(index, count, redundancy),
                    slow: Some(Slow::Drive(Box::new(self.clone()))),
                    spin_down: false,
                    fill_per_mille: self.fill_per_mille,
                }));
            }
            let alone = ask.price_alone(catalogue, index);
            let front = if ask.is_sized(kind) { 0.0 } else { 1.0 };
            found.retain(|one| {
                let price = self.dollars(catalogue) + front * kind.dollars(one.fast);
                one.fast.kind != index || (price < alone && price.is_finite())
            });
        }
        found
    }
}

/// All owned devices of a kind, or as many of them as make an array.
fn all_owned(kind: &Kind, redundancy: Redundancy) -> Option<u32> {
    let fit = |count: &u32| redundancy.data_devices(*count).is_some();
    [kind.owned, kind.owned.saturating_sub(1)].into_iter().filter(|count| *count > 0).find(fit)
}

impl Enumerate {
    /// The fewest devices that hold the data, without those for redundancy.
    fn least(&self, kind: &Kind) -> u32 {
        let room = usable(kind.profile.capacity).0 as f64 * f64::from(self.fill_per_mille()) / 1e3;
        u32::try_from(self.capacity.0.div_ceil((room as u64).max(1))).unwrap_or(u32::MAX).max(1)
    }

    /// The capacity of each of so many devices that hold these data.
    pub(super) fn room(&self, data: Bytes, data_devices: u32) -> Bytes {
        room(data, data_devices, f64::from(self.fill_per_mille()) / 1e3)
    }

    fn fill_per_mille(&self) -> u32 {
        (self.protection.fill_limit * 1e3).round() as u32
    }

    /// Whether as much of it is bought as is needed.
    fn is_sized(&self, kind: &Kind) -> bool {
        self.flash == Flash::Any && kind.wears() && kind.owned == 0
    }

    /// The price of enough fast devices of a kind to hold all data alone.
    fn price_alone(&self, catalogue: &Catalogue, fast: usize) -> f64 {
        let kind = &catalogue.kinds[fast];
        let redundancy = self.protection.fast;
        let Some(count) = redundancy.devices(self.least(kind)) else { return f64::INFINITY };
        let mut alone = self.member(fast, count, redundancy);
        if self.is_sized(kind) {
            alone.capacity =
                Some(self.room(self.capacity, alone.data_devices())).filter(|room| *room < kind.profile.capacity);
        }
        kind.dollars(alone)
    }

    /// So many devices with room for data in the place of these; none where there may not be as many.
    pub(super) fn so_many(&self, member: Member, data: u32) -> Option<Member> {
        let count = member.redundancy.devices(data).filter(|count| *count <= self.most)?;
        Some(self.member(member.kind, count, member.redundancy))
    }

    fn member(&self, kind: usize, count: u32, redundancy: Redundancy) -> Member {
        Member { kind, count, redundancy, spares: self.protection.spares.of(count), capacity: None }
    }
}

/// The hybrids of two kinds to begin with: the smallest numbers of devices with enough room, and twice as many of either. Numbers are
/// those of devices that are left for data.
fn hybrids(
    catalogue: &Catalogue,
    ask: &Enumerate,
    mode: Mode,
    (fast, fast_least): (usize, u32),
    (slow, slow_least): (usize, u32),
    found: &mut Vec<Candidate>,
) {
    let redundancies = (ask.protection.of_fast(mode), ask.protection.slow);
    let owned = |kind: usize, redundancy| all_owned(&catalogue.kinds[kind], redundancy);
    let (fast_owned, slow_owned) = (owned(fast, redundancies.0), owned(slow, redundancies.1));
    // As numbers of data devices, so that they can be compared.
    let data = |owned: Option<u32>, redundancy: Redundancy| owned.and_then(|count| redundancy.data_devices(count));
    // The primary of a log stores all data, and one log device is enough.
    let counts = match mode {
        Mode::Logging => vec![(fast_least, 1)],
        _ => {
            // The smallest number with enough room, twice that number, and all owned devices.
            let fast = [1, 2, data(fast_owned, redundancies.0).unwrap_or(1)];
            let slow = [
                slow_least,
                slow_least.saturating_mul(2),
                data(slow_owned, redundancies.1).unwrap_or(0).max(slow_least),
            ];
            let pairs = [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2), (2, 2)];
            pairs.map(|(f, s): (usize, usize)| (fast[f], slow[s])).to_vec()
        }
    };
    let member =
        |kind: usize, data: u32, redundancy: Redundancy| Some(ask.member(kind, redundancy.devices(data)?, redundancy));
    for (fast_data, slow_data) in counts {
        let Some(of_fast) = member(fast, fast_data, redundancies.0) else { continue };
        let Some(of_slow) = member(slow, slow_data, redundancies.1) else { continue };
        let most = |owned: Option<u32>| ask.most.max(owned.unwrap_or(0));
        if of_fast.count > most(fast_owned) || of_slow.count > most(slow_owned) {
            continue;
        }
        let disks = [fast, slow].iter().any(|kind| catalogue.kinds[*kind].profile.class == Class::Hdd);
        for spin_down in [false, true].into_iter().take(1 + usize::from(ask.spin_down && disks)) {
            let fill_per_mille = ask.fill_per_mille();
            let slow = Some(Slow::Devices(of_slow));
            let candidate = Candidate { mode, fast: of_fast, slow, spin_down, fill_per_mille };
            found.extend(Some(candidate).filter(|one| one.is_worth_its_devices(catalogue, ask)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_devices_are_sold() {
        assert_eq!(round(Bytes::mib(100 * 1024 + 7)), Bytes::gib(100));
        assert_eq!(round(Bytes::mib(7)), Bytes::mib(7));
        let sold = [
            (120_000_000_000, "120 GB"),
            (37_500_000_000, "37.5 GB"),
            (1_920_000_000_000, "1.92 TB"),
            (64_000_000, "64 MB"),
        ];
        for (bytes, text) in sold {
            assert_eq!(decimal(Bytes(bytes), " "), text);
        }
    }
}
