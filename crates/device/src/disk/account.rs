//! Time and energy, divided into busy, idle and standby.

use peryton_units::{Nanos, Op};

use super::{mechanics::Access, parameters::Power};
use crate::{DeviceStats, Io};

const NS: f64 = 1e-9;

/// The account of one disk. Work is booked when it is decided, with its end known; a report holds back what lies beyond
/// its moment of busy time. The energy of mechanical work counts from the moment it is decided.
#[derive(Clone, Debug)]
pub(super) struct Account {
    power: Power,
    bytes_per_sector: f64,
    stats: DeviceStats,
    since: u64,
    busy: u64,
    busy_until: u64,
    standby: u64,
    /// Joules beyond idling.
    extra_j: f64,
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
            extra_j: 0.0,
            next_sequential: u64::MAX,
        }
    }

    pub fn command(&mut self, io: Io) {
        match io.op {
            Op::Read => {
                self.stats.reads += 1;
                self.stats.bytes_read += io.len;
            }
            Op::Write => {
                self.stats.writes += 1;
                self.stats.bytes_written += io.len;
                if io.at.0 == self.next_sequential {
                    self.stats.sequential_bytes_written += io.len;
                }
                self.next_sequential = io.at.0 + io.len.0;
            }
            Op::Discard => self.stats.discards += 1,
            Op::Flush => self.stats.flushes += 1,
        }
    }

    /// A command is in service from `from` to `end`.
    pub fn busy(&mut self, from: u64, end: u64) {
        let from = self.busy_until.max(from);
        if end > from {
            self.busy += end - from;
            self.busy_until = end;
        }
    }

    /// Mechanical work, of a command or in the background.
    pub fn mechanical(&mut self, access: &Access, sectors: u64, write: bool) {
        let power = &self.power;
        let transfer_w = if write { power.write_w } else { power.read_w };
        let wait_w = power.wait_w.unwrap_or(power.idle_w);
        self.extra_j += access.seek as f64 * NS * (power.seek_w - power.idle_w)
            + access.wait as f64 * NS * (wait_w - power.idle_w)
            + access.transfer as f64 * NS * (transfer_w - power.idle_w)
            + sectors as f64 * self.bytes_per_sector * 1e-6 * power.transfer_j_per_mb;
    }

    /// Standby, spinning down included, lasted from `from` to `now`; the spindle came to rest at `down`, which a command
    /// at `now` had to wait for.
    pub fn slept(&mut self, from: u64, now: u64, down: u64) {
        self.standby += self.asleep(from, now).0;
        self.extra_j += self.asleep(from, down).1;
    }

    /// Time in standby, and its energy beyond idling.
    fn asleep(&self, from: u64, now: u64) -> (u64, f64) {
        let down = (now.saturating_sub(from)).min(self.power.spin_down.0);
        let span = now.saturating_sub(from.max(self.since));
        let down_w =
            if self.power.spin_down.0 == 0 { 0.0 } else { self.power.spin_down_j / self.power.spin_down.as_s_f64() };
        let down = down.min(span);
        let joules = down as f64 * NS * (down_w - self.power.idle_w)
            + (span - down) as f64 * NS * (self.power.standby_w - self.power.idle_w);
        (span, joules)
    }

    /// A start from standby.
    pub fn spun_up(&mut self) {
        self.stats.start_stops += 1;
        self.extra_j += self.power.spin_up_j - self.power.spin_up.as_s_f64() * self.power.idle_w;
    }

    pub fn stats(&self, now: u64, asleep_from: Option<u64>) -> DeviceStats {
        let busy = self.busy.saturating_sub(self.busy_until.saturating_sub(now));
        let (asleep, asleep_j) = asleep_from.map_or((0, 0.0), |from| self.asleep(from, now));
        let standby = self.standby + asleep;
        let whole = now.saturating_sub(self.since);
        DeviceStats {
            busy: Nanos(busy),
            idle: Nanos(whole.saturating_sub(busy + standby)),
            standby: Nanos(standby),
            energy_j: (whole as f64 * NS * self.power.idle_w + self.extra_j + asleep_j).max(0.0),
            ..self.stats.clone()
        }
    }

    pub fn reset(&mut self, now: u64) {
        self.stats = DeviceStats::default();
        self.since = now;
        self.busy = self.busy_until.saturating_sub(now);
        self.standby = 0;
        self.extra_j = 0.0;
    }
}
