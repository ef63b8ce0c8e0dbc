//! What a drive does for a group of volumes: how its flash is divided among them, how busy its devices are in each window, and how long
//! requests wait.
//!
//! Work adds up: in each window the devices of a drive have the work of all its volumes, and what they cannot do in a window is left to the next
//! one. So peaks that coincide count, and peaks that do not share a drive well. A request takes its time alone, and waits for work that is left
//! over, and for others: in a window in which a device is busy for a share ρ of the time, for D·ρ/(1−ρ), where D is the part of
//! the device's time that a request takes (Kleinrock, "Queueing Systems" I, 3.2). Bursts within a window, and what disks gain by the order of service, are not
//! in this; simulations correct it by one factor for each kind of drive.

use std::collections::BTreeSet;

use peryton_units::{Nanos, SECONDS_PER_YEAR};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    assign::Carries,
    drive::{DriveKind, Server, usd_per_watt},
    load::{CurvePoint, LEAST_FLASH, VolumeLoad, Window, Windows, common_bits},
};
use crate::{constraint::LEAST_LIFETIME_YEARS, energy::lives, evaluate::Account};
use peryton_sim::MOST_SHARING;

/// The largest share of the time for which devices may be busy over the whole recording.
pub const BUSIEST: f64 = 0.9;
/// In a window that is busier than this, requests wait as in one that is so busy, and for what is left over.
const FULL: f64 = 0.95;
/// The work that may be left over at the end, as a share of the span: more is overload, as in a simulation.
const BEHIND: f64 = 0.1;

/// What a volume takes of a drive: see [`Fleet::shares`].
pub(super) const RESOURCES: usize = 5;
/// Without flash every access is one to the devices that have all data.
const ALL_MISS: CurvePoint =
    CurvePoint { flash: 0.0, read_miss: 1.0, read_bytes_miss: 1.0, write_miss: 1.0, write_bytes_miss: 1.0 };

/// What every volume, and every drive, has to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Budgets {
    /// Mean response times in seconds.
    pub(super) latency_s: Option<f64>,
    pub(super) read_s: Option<f64>,
    pub(super) write_s: Option<f64>,
    pub(super) lifetime_years: Option<f64>,
}

/// A volume, on the clock of the fleet.
#[derive(Clone)]
struct Prepared {
    number: u32,
    stored: f64,
    total: Window,
    /// The number of its first window.
    from: usize,
    windows: Vec<Window>,
    curve: Vec<CurvePoint>,
}

/// A fleet, ready to be distributed over drives.
#[derive(Clone)]
pub(super) struct Fleet {
    volumes: Vec<Prepared>,
    pub(super) kinds: Vec<DriveKind>,
    /// Of each kind and volume: the points of the curve that are on its convex hull.
    hulls: Vec<Vec<Vec<u8>>>,
    windows: usize,
    /// The number of the first window, and the width of each.
    first: u64,
    width: Nanos,
    pub(super) width_s: f64,
    pub(super) span_s: f64,
    pub(super) budgets: Budgets,
    pub(super) account: Account,
    /// The share of the time in which the load goes on.
    duty: f64,
    /// Whether the cost of ownership counts, and not that of purchase.
    pub(super) owned: bool,
    /// What simulations showed of each kind.
    pub(super) corrections: Vec<Correction>,
    /// The kinds of which drives were simulated.
    pub(super) simulated: BTreeSet<usize>,
}

/// What a drive does for a group, by prediction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carried {
    /// What it costs.
    pub(super) usd: f64,
    /// Its part of the flash of each volume, and what misses it.
    pub(super) parts: Vec<CurvePoint>,
    /// The mean response time of all requests, and those of each volume.
    pub(super) mean: Means,
    pub(super) means: Vec<Means>,
    /// How busy the busiest devices are in each window, and over all of it.
    pub(super) busy: Vec<f64>,
    pub(super) mean_busy: f64,
    pub(super) lifetime_years: Option<f64>,
    /// How far it is from the budget that it is furthest from; more than 1: it misses it.
    pub(super) strain: f64,
}

/// Mean response times of a volume, in seconds; of what it has none, there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Means {
    pub(super) all_s: f64,
    /// The part of this for which requests wait.
    pub(super) waits_s: f64,
    pub(super) read_s: Option<f64>,
    pub(super) write_s: Option<f64>,
}

impl Budgets {
    /// How far a volume is from the budget of response times that it is furthest from.
    pub(super) fn strain(&self, means: &Means) -> f64 {
        let over = |value: Option<f64>, most: Option<f64>| value.zip(most).map_or(0.0, |(value, most)| value / most);
        let all = [
            over(Some(means.all_s), self.latency_s),
            over(means.read_s, self.read_s),
            over(means.write_s, self.write_s),
        ];
        all.into_iter().fold(0.0, f64::max)
    }

    /// The same of a drive's lifetime.
    pub(super) fn wear_strain(&self, lifetime_years: Option<f64>) -> f64 {
        let least = self.lifetime_years.unwrap_or(LEAST_LIFETIME_YEARS);
        lifetime_years.map_or(0.0, |years| least / years.max(f64::MIN_POSITIVE))
    }
}

/// The factors between response times in simulations and predicted ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "FleetCorrection")]
pub struct Correction {
    /// The factor for response times without waiting.
    pub alone: f64,
    /// The factor for the times for which requests wait.
    pub waits: f64,
}

impl Correction {
    pub(super) const NONE: Correction = Correction { alone: 1.0, waits: 1.0 };
}

/// The most and the least by which waits are corrected.
const WAITS: std::ops::RangeInclusive<f64> = 0.05..=50.0;

impl Means {
    /// The correction with which this prediction would have been `seen_s`.
    pub(super) fn correction(&self, seen_s: f64, now: Correction) -> Correction {
        let Means { all_s, waits_s, .. } = *self;
        // As they were before they were corrected.
        let (waits, alone) = (waits_s / now.waits, (all_s - waits_s) / now.alone);
        let waited = seen_s - alone * now.alone;
        match waited > waits * WAITS.start() {
            true => Correction { waits: (waited / waits.max(1e-12)).clamp(*WAITS.start(), *WAITS.end()), ..now },
            // It did not wait at all.
            false => Correction { alone: (seen_s / alone.max(1e-12)).min(1.0), waits: now.waits.min(1.0) },
        }
    }
}

/// The work of devices in each window, and what they serve.
struct Work {
    seconds: Vec<f64>,
    requests: Vec<f64>,
}

impl Work {
    fn new(windows: usize) -> Work {
        Work { seconds: vec![0.0; windows], requests: vec![0.0; windows] }
    }

    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// How long a request waits in each window, and what is left over at the end.
    fn waits(&self, width: f64) -> (Vec<f64>, f64) {
        let mut left = 0.0;
        let one = |(seconds, requests): (&f64, &f64)| {
            let before = left;
            let busy = (before + seconds) / width;
            left = (before + seconds - width).max(0.0);
            let each = if *requests > 0.0 { seconds / requests } else { 0.0 };
            let busy = busy.min(FULL);
            each * busy / (1.0 - busy) + (before + left) / 2.0
        };
        let waits = self.seconds.iter().zip(&self.requests).map(one).collect();
        (waits, left)
    }
}

impl Fleet {
    /// `together`: the recordings have one clock; otherwise all begin at the same time.
    pub(super) fn new(
        loads: &[VolumeLoad],
        together: bool,
        kinds: Vec<DriveKind>,
        (account, duty): (Account, f64),
        owned: bool,
        budgets: Budgets,
    ) -> Fleet {
        let shifted: Vec<VolumeLoad> = match together {
            true => loads.to_vec(),
            false => loads.iter().map(VolumeLoad::begun_at_zero).collect(),
        };
        let bits = common_bits(&shifted);
        let wide: Vec<_> = shifted.iter().map(|load| load.windows.clone().widened(bits)).collect();
        let first = wide.iter().map(|windows| windows.first).min().unwrap_or(0);
        let end = wide.iter().map(Windows::end).max().unwrap_or(1);
        let start_s = shifted.iter().map(|load| load.start.as_s_f64()).fold(f64::INFINITY, f64::min);
        let end_s = shifted.iter().map(|load| load.end.as_s_f64()).fold(0.0, f64::max);
        let width = wide.first().map_or(Nanos::from_s(1), Windows::width);
        let width_s = width.as_s_f64();
        let volumes: Vec<Prepared> = (loads.iter().zip(wide))
            .map(|(load, windows)| Prepared {
                number: load.number,
                stored: load.stored.0 as f64,
                total: load.total,
                from: (windows.first - first) as usize,
                windows: windows.each,
                curve: load.curve.clone(),
            })
            .collect();
        let hulls = kinds.iter().map(|kind| volumes.iter().map(|volume| hull(volume, kind)).collect()).collect();
        let corrections = vec![Correction::NONE; kinds.len()];
        let span_s = (end_s - start_s).max(width_s * f64::from(u8::from(end - first > 1))).max(1e-9);
        Fleet {
            volumes,
            kinds,
            hulls,
            windows: (end - first) as usize,
            first,
            width,
            width_s,
            span_s,
            budgets,
            account,
            duty,
            owned,
            corrections,
            simulated: BTreeSet::new(),
        }
    }

    /// The time that a volume needs of the slow devices, at a point of its curve.
    pub(super) fn missed(&self, kind: usize, volume: usize, point: &CurvePoint) -> f64 {
        missed(&self.volumes[volume].total, &self.kinds[kind], point)
    }

    /// The same with so much flash, on the hull.
    #[cfg(test)]
    pub(super) fn missed_with(&self, kind: usize, volume: usize, flash: f64) -> f64 {
        let curve = &self.volumes[volume].curve;
        let hull = &self.hulls[kind][volume];
        let point = |index: u8| &curve[index as usize];
        let pair = hull.windows(2).find(|pair| point(pair[1]).flash >= flash);
        let at = pair.map_or(*point(hull[hull.len() - 1]), |pair| {
            let (from, to) = (point(pair[0]), point(pair[1]));
            from.towards(to, ((flash - from.flash) / (to.flash - from.flash)).max(0.0))
        });
        self.missed(kind, volume, &at)
    }

    /// Divides the flash of a drive: each volume has the least part, and the rest goes where a byte saves most of the slow devices' time. The
    /// curves are convex hulls, so no other division saves more. `None`: there is not the least part for each.
    pub(super) fn divided(&self, kind: usize, group: &[usize]) -> Option<Vec<CurvePoint>> {
        let Some(flash) = &self.kinds[kind].flash else {
            return Some(vec![ALL_MISS; group.len()]);
        };
        let mut left = flash.room - LEAST_FLASH.0 as f64 * group.len() as f64;
        if left < 0.0 {
            return None;
        }
        // The steps of all curves, by what a byte of them saves.
        let mut steps: Vec<(f64, usize, usize)> = Vec::new();
        for (place, volume) in group.iter().enumerate() {
            let curve = &self.volumes[*volume].curve;
            for (step, pair) in self.hulls[kind][*volume].windows(2).enumerate() {
                let (from, to) = (&curve[pair[0] as usize], &curve[pair[1] as usize]);
                let saved = self.missed(kind, *volume, from) - self.missed(kind, *volume, to);
                steps.push((saved / (to.flash - from.flash), place, step));
            }
        }
        steps.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut parts: Vec<CurvePoint> = group.iter().map(|volume| self.volumes[*volume].curve[0]).collect();
        for (_, place, step) in steps {
            let (curve, hull) = (&self.volumes[group[place]].curve, &self.hulls[kind][group[place]]);
            let (from, to) = (&curve[hull[step] as usize], &curve[hull[step + 1] as usize]);
            let share = (left / (to.flash - from.flash)).min(1.0);
            parts[place] = from.towards(to, share);
            left -= (to.flash - from.flash) * share;
            if share < 1.0 {
                break;
            }
        }
        Some(parts)
    }

    /// What a drive of this kind does for a group; `None` if it has no room for it, or does not keep up.
    pub(super) fn carried(&self, kind: usize, group: &[usize]) -> Option<Carried> {
        let drive = &self.kinds[kind];
        let stored: f64 = group.iter().map(|volume| self.volumes[*volume].stored).sum();
        if stored > drive.room || group.len() > MOST_SHARING {
            return None;
        }
        let parts = self.divided(kind, group)?;
        let (mut home, mut fast) = (Work::new(self.windows), Work::new(self.windows));
        let (mut flash_written, mut moved, mut home_written) = (0.0, 0.0, 0.0);
        for (volume, point) in group.iter().zip(&parts) {
            let volume = &self.volumes[*volume];
            for (window, index) in volume.windows.iter().zip(volume.from..) {
                let (on_home, on_flash) = asked(drive, window, point);
                home.seconds[index] += on_home.0;
                home.requests[index] += on_home.1;
                fast.seconds[index] += on_flash.0;
                fast.requests[index] += on_flash.1;
            }
            let total = &volume.total;
            flash_written += total.written_bytes + total.flushes * 4096.0 + total.read_bytes * point.read_bytes_miss;
            let back = total.written_bytes * if writes_back(drive) { point.write_bytes_miss } else { 1.0 };
            home_written += back;
            moved += back + total.read_bytes * point.read_bytes_miss;
        }
        let (home_total, fast_total) = (home.total(), fast.total());
        let mean_busy = home_total.max(fast_total) / self.span_s;
        if mean_busy > BUSIEST {
            return None;
        }
        let ((home_waits, home_left), (fast_waits, fast_left)) = (home.waits(self.width_s), fast.waits(self.width_s));
        if home_left.max(fast_left) > BEHIND * self.span_s {
            return None;
        }
        let lifetime_years = self.lifetime(drive, flash_written, home_written, moved);
        let mut means = Vec::with_capacity(group.len());
        let (mut sum, mut requests) = (Means::default(), 0.0);
        let Correction { alone: factor, waits: wait_factor } = self.corrections[kind];
        for (volume, point) in group.iter().zip(&parts) {
            let volume = &self.volumes[*volume];
            let (read, write) = alone(drive, &volume.total, point);
            let (mut read_waits, mut write_waits) = (0.0, 0.0);
            for (window, index) in volume.windows.iter().zip(volume.from..) {
                let (of_home, of_fast) = (home_waits[index], fast_waits[index]);
                let (reads, writes) = match &drive.flash {
                    None => (of_home, of_home),
                    Some(flash) => (
                        point.read_miss * of_home + (1.0 - point.read_miss) * of_fast,
                        if flash.writes_back { of_fast } else { of_home.max(of_fast) },
                    ),
                };
                read_waits += window.reads * reads;
                write_waits += (window.writes + window.flushes) * writes;
            }
            let mean = |sum: f64, count: f64| (count > 0.0).then(|| sum / count);
            let total = &volume.total;
            let waits = (read_waits + write_waits) * wait_factor;
            let all = (read + write) * factor + waits;
            let count = total.requests();
            means.push(Means {
                all_s: all / count.max(1.0),
                waits_s: waits / count.max(1.0),
                read_s: mean(read * factor + read_waits * wait_factor, total.reads),
                write_s: mean(write * factor + write_waits * wait_factor, total.writes + total.flushes),
            });
            (sum.all_s, sum.waits_s, requests) = (sum.all_s + all, sum.waits_s + waits, requests + count);
        }
        let requests = f64::max(requests, 1.0);
        let mean = Means { all_s: sum.all_s / requests, waits_s: sum.waits_s / requests, ..sum };
        let strain = means
            .iter()
            .map(|means| self.budgets.strain(means))
            .fold(self.budgets.wear_strain(lifetime_years), f64::max);
        let busiest = |index: usize| home.seconds[index].max(fast.seconds[index]) / self.width_s;
        Some(Carried {
            usd: self.usd(drive, home_total / self.span_s, fast_total / self.span_s, lifetime_years),
            parts,
            mean,
            means,
            busy: (0..self.windows).map(busiest).collect(),
            mean_busy,
            lifetime_years,
            strain,
        })
    }

    fn usd(&self, drive: &DriveKind, home: f64, fast: f64, lifetime_years: Option<f64>) -> f64 {
        if !self.owned {
            return drive.usd;
        }
        let busy = |server: &Server, share: f64| (server.busy_w - server.idle_w).max(0.0) * share;
        let watts = busy(&drive.home, home) + drive.flash.map_or(0.0, |flash| busy(&flash.server, fast));
        let lives = lives(self.account.years, lifetime_years);
        drive.fixed_usd(Some(&self.account)) + watts * usd_per_watt(&self.account) + drive.wearing_usd() * (lives - 1.0)
    }

    /// Years until the devices that wear first are worn out.
    fn lifetime(&self, drive: &DriveKind, flash_written: f64, home_written: f64, moved: f64) -> Option<f64> {
        let years = |limit: Option<f64>, bytes: f64| {
            let a_year = bytes / self.span_s * SECONDS_PER_YEAR * self.duty;
            limit.filter(|_| bytes > 0.0).map(|limit| limit / a_year)
        };
        let of_home = [years(drive.home.writable, home_written), years(drive.home.workload, moved)];
        let of_flash = drive.flash.and_then(|flash| years(flash.server.writable, flash_written));
        of_home.into_iter().flatten().chain(of_flash).min_by(f64::total_cmp)
    }

    /// The shares of a drive that a volume takes, at each point of its curve: of the volumes that may share it, of its room, of the time of
    /// its slow devices (or of all) and of its flash, and of the flash itself.
    pub(super) fn shares(&self, kind: usize, volume: usize) -> impl Iterator<Item = [f64; RESOURCES]> + '_ {
        let (drive, of) = (&self.kinds[kind], &self.volumes[volume]);
        self.hulls[kind][volume].iter().map(move |index| {
            let point = if drive.flash.is_some() { of.curve[*index as usize] } else { ALL_MISS };
            let (home, fast) = asked(drive, &of.total, &point);
            let most = BUSIEST * self.span_s;
            let flash = drive.flash.map_or(0.0, |flash| point.flash / flash.room);
            [1.0 / MOST_SHARING as f64, of.stored / drive.room, home.0 / most, fast.0 / most, flash]
        })
    }

    /// Number of requests of a group in each window.
    pub(super) fn requests(&self, group: &[usize]) -> Vec<f64> {
        let mut all = vec![0.0; self.windows];
        for volume in group.iter().map(|volume| &self.volumes[*volume]) {
            volume.windows.iter().zip(volume.from..).for_each(|(window, index)| all[index] += window.requests());
        }
        all
    }

    /// When a window begins, on the clock of the fleet.
    pub(super) fn window_start(&self, index: usize) -> Nanos {
        Nanos((self.first + index as u64) * self.width.0)
    }

    /// What a volume's busiest windows ask of the busiest devices of a drive.
    pub(super) fn peak(&self, kind: usize, volume: usize, point: &CurvePoint) -> f64 {
        let drive = &self.kinds[kind];
        let busy = |window: &Window| {
            let (home, fast) = asked(drive, window, point);
            home.0.max(fast.0) / self.width_s
        };
        self.volumes[volume].windows.iter().map(busy).fold(0.0, f64::max)
    }

    /// The most requests of a volume in a second, over a window.
    pub(super) fn busiest_requests_per_s(&self, volume: usize) -> f64 {
        self.volumes[volume].windows.iter().map(Window::requests).fold(0.0, f64::max) / self.width_s
    }

    /// The number of a volume in its recording.
    pub(super) fn number(&self, volume: usize) -> u32 {
        self.volumes[volume].number
    }

    /// The same fleet with so much of its load.
    pub(super) fn with_load(&self, share: f64) -> Fleet {
        let of = |window: &Window| window.times(share);
        let mut smaller = self.clone();
        for volume in &mut smaller.volumes {
            volume.total = of(&volume.total);
            volume.windows = volume.windows.iter().map(of).collect();
        }
        smaller
    }

    /// A volume as a fleet of its own.
    pub(super) fn alone(&self, volume: usize) -> Fleet {
        let hulls = self.hulls.iter().map(|hulls| vec![hulls[volume].clone()]).collect();
        Fleet { volumes: vec![self.volumes[volume].clone()], hulls, ..self.without() }
    }

    /// The same volumes and these kinds of drives alone.
    pub(super) fn only(&self, is_kept: impl Fn(&DriveKind) -> bool) -> Fleet {
        let kept: Vec<usize> = (0..self.kinds.len()).filter(|kind| is_kept(&self.kinds[*kind])).collect();
        Fleet {
            volumes: self.volumes.clone(),
            kinds: kept.iter().map(|kind| self.kinds[*kind].clone()).collect(),
            hulls: kept.iter().map(|kind| self.hulls[*kind].clone()).collect(),
            corrections: kept.iter().map(|kind| self.corrections[*kind]).collect(),
            ..self.without()
        }
    }

    /// The same without volumes.
    fn without(&self) -> Fleet {
        let (volumes, hulls, simulated) = (Vec::new(), Vec::new(), BTreeSet::new());
        Fleet { volumes, hulls, simulated, kinds: self.kinds.clone(), corrections: self.corrections.clone(), ..*self }
    }

    pub(super) fn count(&self) -> usize {
        self.volumes.len()
    }
}

impl Carries for Fleet {
    fn volumes(&self) -> usize {
        self.volumes.len()
    }

    fn kinds(&self) -> usize {
        self.kinds.len()
    }

    fn least_usd(&self, kind: usize) -> f64 {
        self.kinds[kind].fixed_usd(self.owned.then_some(&self.account))
    }

    fn usd(&self, kind: usize, group: &[usize]) -> Option<f64> {
        self.carried(kind, group).filter(|carried| carried.strain <= 1.0).map(|carried| carried.usd)
    }

    fn weight(&self, kind: usize, volume: usize) -> f64 {
        let largest = |shares: [f64; RESOURCES]| shares.into_iter().fold(0.0, f64::max);
        self.shares(kind, volume).map(largest).fold(f64::INFINITY, f64::min)
    }
}

fn writes_back(drive: &DriveKind) -> bool {
    drive.flash.is_some_and(|flash| flash.writes_back)
}

/// The time that a window takes of the slow devices (or of all), and of the flash before them, each with a number of requests.
fn asked(drive: &DriveKind, window: &Window, point: &CurvePoint) -> ((f64, f64), (f64, f64)) {
    let Some(flash) = &drive.flash else {
        let seconds = drive.home.read.of(window.reads, window.read_bytes) + drive.home.writes(window);
        return ((seconds, window.requests()), (0.0, 0.0));
    };
    let (missed, missed_bytes) = (window.reads * point.read_miss, window.read_bytes * point.read_bytes_miss);
    let (back, back_bytes) = match flash.writes_back {
        true => (window.writes * point.write_miss, window.written_bytes * point.write_bytes_miss),
        false => (window.writes + window.flushes, window.written_bytes),
    };
    let home = drive.home.read.of(missed, missed_bytes) + drive.home.write.of(back, back_bytes);
    let hits = flash.server.read.of(window.reads - missed, window.read_bytes - missed_bytes);
    // What is read from the slow devices is written to the flash; what is written back is read from it.
    let filled = flash.server.write.of(missed, missed_bytes);
    let read_back = if flash.writes_back { flash.server.read.of(back, back_bytes) } else { 0.0 };
    let fast = hits + filled + read_back + flash.server.writes(window);
    ((home, missed + back), (fast, window.requests() + missed + if flash.writes_back { back } else { 0.0 }))
}

fn missed(total: &Window, drive: &DriveKind, point: &CurvePoint) -> f64 {
    asked(drive, total, point).0.0
}

/// The response times of all requests of a volume, if each were alone: of reads, and of writes and flushes.
fn alone(drive: &DriveKind, total: &Window, point: &CurvePoint) -> (f64, f64) {
    let Some(flash) = &drive.flash else {
        return (drive.home.read_alone.of(total.reads, total.read_bytes), drive.home.writes_alone(total));
    };
    let (missed, bytes) = (total.reads * point.read_miss, total.read_bytes * point.read_bytes_miss);
    let hits = flash.server.read_alone.of(total.reads - missed, total.read_bytes - bytes);
    let reads = hits + drive.home.read_alone.of(missed, bytes);
    let on_flash = flash.server.writes_alone(total);
    (reads, if flash.writes_back { on_flash } else { on_flash.max(drive.home.writes_alone(total)) })
}

/// The points of a volume's curve on the lower convex hull of flash and time of the slow devices.
fn hull(volume: &Prepared, kind: &DriveKind) -> Vec<u8> {
    if kind.flash.is_none() {
        return vec![0];
    }
    let at =
        |index: u8| (volume.curve[index as usize].flash, missed(&volume.total, kind, &volume.curve[index as usize]));
    let mut hull: Vec<u8> = Vec::new();
    for index in 0..volume.curve.len().min(usize::from(u8::MAX)) as u8 {
        let new = at(index);
        if hull.last().is_some_and(|last| at(*last).1 <= new.1) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let (a, b) = (at(before), at(last));
            // Whether the last one is on or above the line from the one before it to the new one.
            let is_above = (b.1 - a.1) * (new.0 - a.0) >= (new.1 - a.1) * (b.0 - a.0);
            if !is_above {
                break;
            }
            hull.pop();
        }
        hull.push(index);
    }
    hull
}
