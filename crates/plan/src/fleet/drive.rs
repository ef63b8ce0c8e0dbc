//! The kinds of drives that a fleet can buy: sets of devices with a way to use them, and what they can carry.
//!
//! What a device can carry is measured on its model, as for `peryton energy`: requests of 4 KiB and of 256 KiB at random, one at a time and
//! many at a time. A request alone takes its response time; of the device's time it takes what many at a time leave for each. Both
//! are a time for each request and a time for each byte.

use peryton_device::{ClosedLoop, ProfileError, at_work};
use peryton_sim::{Redundancy, kept_free};
use peryton_units::{Bytes, SECONDS_PER_YEAR};
use rayon::prelude::*;

use super::load::Window;
use crate::{
    capacity::{Candidate, Catalogue, Kind, Member, Mode, Protection, Slow, usable},
    evaluate::Account,
};

/// The most kinds of drives that a plan chooses among; of more, those with the cheapest room are kept.
pub const MOST_KINDS: usize = 128;
/// Requests that are measured, of either size, and how many are in flight where many are.
const SMALL: (Bytes, u64) = (Bytes::kib(4), 2_000);
const LARGE: (Bytes, u64) = (Bytes::kib(256), 400);
const MANY: u32 = 64;
/// What a flush writes.
const FLUSHED: f64 = 4096.0;

/// A time in seconds for each request, and for each byte.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Time {
    request: f64,
    byte: f64,
}

impl Time {
    #[cfg(test)]
    pub(super) fn new(request: f64, byte: f64) -> Time {
        Time { request, byte }
    }

    /// Of so many requests with so many bytes.
    pub(super) fn of(&self, requests: f64, bytes: f64) -> f64 {
        self.request * requests + self.byte * bytes
    }

    fn times(self, factor: f64) -> Time {
        Time { request: self.request * factor, byte: self.byte * factor }
    }

    fn is_within(&self, other: &Time) -> bool {
        self.request <= other.request && self.byte <= other.byte
    }
}

/// Devices of one role.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Server {
    /// The part of their time that reads and writes take.
    pub(super) read: Time,
    pub(super) write: Time,
    /// The response times of requests alone.
    pub(super) read_alone: Time,
    pub(super) write_alone: Time,
    pub(super) idle_w: f64,
    pub(super) busy_w: f64,
    /// Bytes that may be written in their life, and bytes that may be read and written.
    pub(super) writable: Option<f64>,
    pub(super) workload: Option<f64>,
}

impl Server {
    fn is_as_good_as(&self, other: &Server) -> bool {
        let lasts =
            |mine: Option<f64>, theirs: Option<f64>| mine.unwrap_or(f64::INFINITY) >= theirs.unwrap_or(f64::INFINITY);
        self.read.is_within(&other.read)
            && self.write.is_within(&other.write)
            && self.read_alone.is_within(&other.read_alone)
            && self.write_alone.is_within(&other.write_alone)
            && self.idle_w <= other.idle_w
            && self.busy_w <= other.busy_w
            && lasts(self.writable, other.writable)
            && lasts(self.workload, other.workload)
    }

    /// The time that the writes and flushes of a window take, with these bytes.
    pub(super) fn writes(&self, window: &Window) -> f64 {
        self.write.of(window.writes + window.flushes, window.written_bytes + window.flushes * FLUSHED)
    }

    /// The same of a request alone.
    pub(super) fn writes_alone(&self, window: &Window) -> f64 {
        self.write_alone.of(window.writes + window.flushes, window.written_bytes + window.flushes * FLUSHED)
    }

    /// Of one device.
    fn measured(kind: &Kind) -> Result<Server, ProfileError> {
        let figures = |read_share: f64, (size, requests): (Bytes, u64), queue_depth: u32| {
            let (from, span) = (Bytes::ZERO, Bytes::ZERO);
            let found = at_work(
                &kind.profile,
                ClosedLoop { read_share, size, random: true, from, span, queue_depth, requests },
            )?;
            Ok::<_, ProfileError>((found.busy, found.idle_w))
        };
        let (mut idle_w, mut busy_w) = (0.0, 0.0f64);
        let mut line = |read_share: f64, many: bool| -> Result<Time, ProfileError> {
            let depth = if many { MANY } else { 1 };
            let (small, idle) = figures(read_share, SMALL, depth)?;
            let (large, _) = figures(read_share, LARGE, depth)?;
            (idle_w, busy_w) = (idle, busy_w.max(small.mean_w).max(large.mean_w));
            let seconds = |of: peryton_device::Throughput| if many { 1.0 / of.iops } else { of.mean_ms / 1e3 };
            let (small, large) = (seconds(small), seconds(large));
            let byte = ((large - small) / (LARGE.0.0 - SMALL.0.0) as f64).max(0.0);
            Ok(Time { request: (small - byte * SMALL.0.0 as f64).max(0.0), byte })
        };
        let (read, write) = (line(1.0, true)?, line(0.0, true)?);
        let (read_alone, write_alone) = (line(1.0, false)?, line(0.0, false)?);
        let (wears, profile) = (kind.wears(), &kind.profile);
        let workload = profile.endurance.workload().filter(|_| !wears).map(|bytes| bytes.0 as f64);
        let writable = profile.writable().filter(|_| wears).map(|bytes| bytes.0 as f64);
        Ok(Server { read, write, read_alone, write_alone, idle_w, busy_w, writable, workload })
    }

    /// Of several that share the work.
    fn several(&self, member: &Member) -> Server {
        let count = f64::from(member.count);
        // A small write to parity reads and writes the data and each parity.
        let (writes, waits) = match member.redundancy {
            Redundancy::None => (1.0, 1.0),
            Redundancy::Mirror => (2.0, 1.0),
            Redundancy::Raid5 => (4.0, 2.0),
            Redundancy::Raid6 => (6.0, 2.0),
        };
        let copies = count / f64::from(member.data_devices().max(1));
        Server {
            read: self.read.times(1.0 / count),
            write: self.write.times(writes / count),
            write_alone: self.write_alone.times(waits),
            idle_w: self.idle_w * count,
            busy_w: self.busy_w * count,
            writable: self.writable.map(|bytes| bytes * count / copies),
            workload: self.workload.map(|bytes| bytes * count / copies),
            ..*self
        }
    }
}

/// Flash before a slow device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flash {
    pub(super) room: f64,
    pub(super) server: Server,
    /// Whether writes are answered when they are on flash.
    pub(super) writes_back: bool,
}

/// A kind of drive.
#[derive(Clone, Debug)]
pub(super) struct DriveKind {
    pub(super) candidate: Candidate,
    pub(super) usd: f64,
    /// The price of its flash.
    flash_usd: f64,
    /// Bytes of data.
    pub(super) room: f64,
    /// The devices on which all data are.
    pub(super) home: Server,
    pub(super) flash: Option<Flash>,
}

impl DriveKind {
    #[cfg(test)]
    pub(super) fn of(candidate: Candidate, usd: f64, room: f64, home: Server, flash: Option<Flash>) -> DriveKind {
        DriveKind { candidate, usd, flash_usd: 0.0, room, home, flash }
    }

    /// What it costs without a load: its purchase, or its ownership over the years of an account.
    pub(super) fn fixed_usd(&self, owned: Option<&Account>) -> f64 {
        self.usd + owned.map_or(0.0, |account| self.idle_w() * usd_per_watt(account))
    }

    /// What is bought again when it is worn out.
    pub(super) fn wearing_usd(&self) -> f64 {
        if self.flash_usd > 0.0 { self.flash_usd } else { self.usd }
    }

    fn idle_w(&self) -> f64 {
        self.home.idle_w + self.flash.map_or(0.0, |flash| flash.server.idle_w)
    }

    fn is_as_good_as(&self, other: &DriveKind) -> bool {
        if self.usd > other.usd || self.room < other.room {
            return false;
        }
        match (&self.flash, &other.flash) {
            (None, None) => self.home.is_as_good_as(&other.home),
            (Some(mine), Some(theirs)) => {
                mine.writes_back == theirs.writes_back
                    && mine.room >= theirs.room
                    && mine.server.is_as_good_as(&theirs.server)
                    && self.home.is_as_good_as(&other.home)
            }
            // Data that are all on flash as good as that of a cache.
            (None, Some(theirs)) => self.home.is_as_good_as(&theirs.server),
            (Some(_), None) => false,
        }
    }
}

/// What a watt costs over the years of an account.
pub(super) fn usd_per_watt(account: &Account) -> f64 {
    account.years * SECONDS_PER_YEAR / 3.6e6 * account.usd_per_kwh
}

/// The kinds of drives of a catalogue, the cheapest first, and how many more there are. Left out are those for which another one is as good
/// in everything and no dearer.
pub(super) fn kinds(
    catalogue: &Catalogue,
    protection: &Protection,
    most: u32,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<(Vec<DriveKind>, usize), ProfileError> {
    let (done, of) = (std::sync::atomic::AtomicU64::new(0), catalogue.kinds.len() as u64);
    let measured = |kind: &Kind| {
        let server = Server::measured(kind);
        progress(done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, of);
        server
    };
    let servers: Vec<Server> = catalogue.kinds.par_iter().map(measured).collect::<Result<_, _>>()?;
    let mut all: Vec<DriveKind> =
        candidates(catalogue, protection, most).into_iter().filter_map(|one| drive(one, catalogue, &servers)).collect();
    all.sort_by(|a, b| a.usd.total_cmp(&b.usd).then_with(|| a.candidate.cmp(&b.candidate)));
    let mut kept: Vec<DriveKind> = Vec::new();
    // One that is as good and no dearer comes before, but for those of the same price.
    for (index, one) in all.iter().enumerate() {
        let same = |other: &&DriveKind| other.usd == one.usd && !one.is_as_good_as(other) && other.is_as_good_as(one);
        if !kept.iter().any(|other| other.is_as_good_as(one))
            && !all[index + 1..].iter().take_while(|other| other.usd == one.usd).any(|other| same(&other))
        {
            kept.push(one.clone());
        }
    }
    let more = kept.len().saturating_sub(MOST_KINDS);
    if more > 0 {
        kept.sort_by(|a, b| (a.usd / a.room).total_cmp(&(b.usd / b.room)));
        kept.truncate(MOST_KINDS);
        kept.sort_by(|a, b| a.usd.total_cmp(&b.usd).then_with(|| a.candidate.cmp(&b.candidate)));
    }
    Ok((kept, more))
}

/// Each device alone, in every number up to the most, and flash before each slower device, one or two before as many.
fn candidates(catalogue: &Catalogue, protection: &Protection, most: u32) -> Vec<Candidate> {
    let fill_per_mille = (protection.fill_limit * 1e3).round() as u32;
    let member = |kind: usize, data: u32, redundancy: Redundancy| {
        let count = redundancy.devices(data).filter(|count| *count <= most)?;
        Some(Member { kind, count, redundancy, spares: protection.spares.of(count), capacity: None })
    };
    let numbers: Vec<u32> = (1..=most).collect();
    let mut all = Vec::new();
    for (index, kind) in catalogue.kinds.iter().enumerate() {
        let redundancy = if kind.wears() { protection.fast } else { protection.slow };
        for fast in numbers.iter().filter_map(|data| member(index, *data, redundancy)) {
            all.push(Candidate { mode: Mode::Single, fast, slow: None, spin_down: false, fill_per_mille });
        }
    }
    for (fast, fast_kind) in catalogue.kinds.iter().enumerate().filter(|(_, kind)| kind.wears()) {
        for (slow, _) in catalogue.kinds.iter().enumerate().filter(|(_, kind)| fast_kind.is_faster_than(kind)) {
            for mode in [Mode::CachingBack, Mode::CachingThrough] {
                let through = mode == Mode::CachingThrough && !protection.copies;
                let of_fast = if through { Redundancy::None } else { protection.fast };
                for slow_data in &numbers {
                    for fast_data in [1, 2] {
                        let pair = member(fast, fast_data, of_fast).zip(member(slow, *slow_data, protection.slow));
                        let Some((fast, slow)) = pair else { continue };
                        let slow = Some(Slow::Devices(slow));
                        all.push(Candidate { mode, fast, slow, spin_down: false, fill_per_mille });
                    }
                }
            }
        }
    }
    all
}

fn drive(candidate: Candidate, catalogue: &Catalogue, servers: &[Server]) -> Option<DriveKind> {
    let usd = candidate.dollars(catalogue);
    let fill = f64::from(candidate.fill_per_mille) / 1e3;
    let room = |member: &Member| {
        let each = usable(catalogue.kinds[member.kind].capacity(*member));
        each.0 as f64 * f64::from(member.data_devices()) * fill
    };
    let server = |member: &Member| servers[member.kind].several(member);
    let (home, flash) = match &candidate.slow {
        None => (candidate.fast, None),
        Some(Slow::Drive(_)) => return None,
        Some(Slow::Devices(slow)) => {
            let writes_back = candidate.mode == Mode::CachingBack;
            (*slow, Some(Flash { room: room(&candidate.fast), server: server(&candidate.fast), writes_back }))
        }
    };
    let (room, home) = (room(&home), server(&home));
    let of_flash = candidate.members().into_iter().filter(|(_, member)| catalogue.kinds[member.kind].wears());
    let flash_usd = of_flash.map(|(_, member)| catalogue.kinds[member.kind].dollars(member)).sum();
    usd.is_finite().then_some(DriveKind { candidate, usd, flash_usd, room, home, flash })
}

/// What a volume's part of the flash keeps free beside its data.
pub(super) fn free(extent: Bytes) -> f64 {
    kept_free(extent).0 as f64
}
