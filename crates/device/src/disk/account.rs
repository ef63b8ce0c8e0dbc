//! Time and energy, divided into busy, idle and standby.

use std::collections::VecDeque;

use peryton_units::Nanos;

use super::{mechanics::Access, parameters::Power};
use crate::{DeviceStats, Io, WearCounts};

const NS: f64 = 1e-9;
const PJ: f64 = 1e-12;

fn picojoules(joules: f64) -> i128 {
    (joules / PJ).round() as i128
}

/// The most pieces of decided but unfinished work that are kept apart; beyond that, the two oldest are merged.
const MOST_PENDING: usize = 64;

/// Energy beyond idling, spent evenly from one time to another.
#[derive(Clone, Copy, Debug)]
struct Charge {
    from: u64,
    to: u64,
    joules: f64,
}

impl Charge {
    /// The part of it that has been spent at this time.
    fn spent(&self, now: u64) -> f64 {
        if now >= self.to {
            self.joules
        } else {
            self.joules * now.saturating_sub(self.from) as f64 / (self.to - self.from) as f64
        }
    }
}

/// The account of one disk. Work is entered when it is decided, with its end known. A report leaves out the part after
/// its moment, of busy time and of energy, and a new account begins with that part. So the accounts of the parts of a
/// run add up to that of the whole, wherever it is divided.
#[derive(Clone, Debug)]
pub(super) struct Account {
    power: Power,
    bytes_per_sector: f64,
    stats: DeviceStats,
    since: u64,
    busy: u64,
    busy_until: u64,
    standby: u64,
    /// Picojoules beyond idling that have been spent. Whole ones, so that their sum does not depend on when the account is looked at.
    extra_pj: i128,
    /// Energy that is being spent or will be.
    pending: VecDeque<Charge>,
    next_sequential: u64,
}

impl Account {
    pub fn new(power: &Power, bytes_per_sector: u64) -> Account {
        Account {
            power: power.clone(),
            bytes_per_sector: bytes_per_sector as f64,
            stats: DeviceStats::default(),
            since: 0,
            busy: 0,
            busy_until: 0,
            standby: 0,
            extra_pj: 0,
            pending: VecDeque::new(),
            next_sequential: u64::MAX,
        }
    }

    pub fn command(&mut self, io: Io) {
        self.stats.command(io, &mut self.next_sequential);
    }

    /// A command is in service from `from`, which is no later than now, to `end`.
    pub fn busy(&mut self, from: u64, end: u64) {
        self.settle(from);
        let from = self.busy_until.max(from);
        if end > from {
            self.busy += end - from;
            self.busy_until = end;
        }
    }

    /// Enters energy of work that ended by `now`.
    fn settle(&mut self, now: u64) {
        while let Some(charge) = self.pending.front().filter(|charge| charge.to <= now) {
            self.extra_pj += picojoules(charge.joules);
            self.pending.pop_front();
        }
    }

    fn charge(&mut self, charge: Charge) {
        if charge.to <= charge.from.max(self.since) {
            self.extra_pj += picojoules(charge.joules);
            return;
        }
        if self.pending.len() >= MOST_PENDING
            && let (Some(first), Some(second)) = (self.pending.pop_front(), self.pending.front_mut())
        {
            *second = Charge {
                from: first.from.min(second.from),
                to: first.to.max(second.to),
                joules: first.joules + second.joules,
            };
        }
        self.pending.push_back(charge);
    }

    /// Mechanical work, of a command or in the background, that ends at `access.end`; work of the past if that is zero.
    pub fn mechanical(&mut self, access: &Access, sectors: u64, write: bool) {
        let power = &self.power;
        let transfer_w = if write { power.write_w } else { power.read_w };
        let wait_w = power.wait_w.unwrap_or(power.idle_w);
        let joules = access.seek as f64 * NS * (power.seek_w - power.idle_w)
            + access.wait as f64 * NS * (wait_w - power.idle_w)
            + access.transfer as f64 * NS * (transfer_w - power.idle_w)
            + sectors as f64 * self.bytes_per_sector * 1e-6 * power.transfer_j_per_mb;
        let lasts = access.seek + access.wait + access.transfer;
        self.charge(Charge { from: access.end.saturating_sub(lasts), to: access.end, joules });
    }

    /// Standby, spinning down included, lasted from `from` to `now`; the spindle came to rest at `down`, which a command
    /// at `now` had to wait for.
    pub fn slept(&mut self, from: u64, now: u64, down: u64) {
        let (standby, joules) = self.asleep(from, now);
        self.standby += standby;
        self.extra_pj += picojoules(joules);
        let rest = down.saturating_sub(now);
        self.charge(Charge { from: now, to: down, joules: rest as f64 * NS * (self.down_w() - self.power.idle_w) });
    }

    /// Power while the spindle stops, in watts.
    fn down_w(&self) -> f64 {
        if self.power.spin_down.0 == 0 { 0.0 } else { self.power.spin_down_j / self.power.spin_down.as_s_f64() }
    }

    /// Time in standby that began at `from`, and its energy beyond idling, as far as they belong to this account.
    fn asleep(&self, from: u64, now: u64) -> (u64, f64) {
        let begin = from.max(self.since);
        let span = now.saturating_sub(begin);
        let down = (from + self.power.spin_down.0).saturating_sub(begin).min(span);
        let joules = down as f64 * NS * (self.down_w() - self.power.idle_w)
            + (span - down) as f64 * NS * (self.power.standby_w - self.power.idle_w);
        (span, joules)
    }

    /// A start from standby, from the time at which the spindle is at rest.
    pub fn spun_up(&mut self, from: u64) {
        self.stats.start_stops += 1;
        let spin_up = self.power.spin_up;
        let joules = self.power.spin_up_j - spin_up.as_s_f64() * self.power.idle_w;
        self.charge(Charge { from, to: from + spin_up.0, joules });
    }

    pub fn wear(&self) -> WearCounts {
        WearCounts::of(&self.stats)
    }

    pub fn stats(&self, now: u64, asleep_from: Option<u64>) -> DeviceStats {
        let busy = self.busy.saturating_sub(self.busy_until.saturating_sub(now));
        let (asleep, asleep_j) = asleep_from.map_or((0, 0.0), |from| self.asleep(from, now));
        let standby = self.standby + asleep;
        let whole = now.saturating_sub(self.since);
        let pending_pj: i128 = self.pending.iter().map(|charge| picojoules(charge.spent(now))).sum();
        let extra_j = (self.extra_pj + pending_pj + picojoules(asleep_j)) as f64 * PJ;
        DeviceStats {
            busy: Nanos(busy),
            idle: Nanos(whole.saturating_sub(busy + standby)),
            standby: Nanos(standby),
            // Rounding may leave a negative value.
            energy_j: (whole as f64 * NS * self.power.idle_w + extra_j).max(0.0),
            ..self.stats.clone()
        }
    }

    pub fn reset(&mut self, now: u64) {
        self.stats = DeviceStats::default();
        self.since = now;
        self.busy = self.busy_until.saturating_sub(now);
        self.standby = 0;
        self.extra_pj = 0;
        // Energy spent before is not part of this account.
        self.pending.retain(|charge| charge.to > now);
        for charge in &mut self.pending {
            charge.joules -= charge.spent(now);
            charge.from = charge.from.max(now);
        }
    }
}
