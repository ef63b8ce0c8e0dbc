use peryton_units::Nanos;

use crate::{DeviceStats, Io, WearCounts};

/// The power of a device in each state, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Draw {
    /// Power without a command in service.
    pub idle_w: f64,
    /// Power with at least one command in service, without the energy of single operations.
    pub busy_w: f64,
    /// Power in standby.
    pub standby_w: f64,
    /// For how long `busy_w` goes on after the last command, in ns.
    pub linger: u64,
}

/// Counts commands, divides time into busy, idle and standby, and integrates power over it.
///
/// Commands are counted when they are submitted, with the known end of their service. A report excludes the part of
/// their service after its moment. Models that decide on service later keep their own statistics.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    draw: Draw,
    stats: DeviceStats,
    since: u64,
    busy_until: u64,
    /// Start of standby; in the future while commands are in service.
    standby_from: Option<u64>,
    busy: u64,
    standby: u64,
    /// The end of the last command, after which the device lingers; `None` once it has been in standby since.
    linger_from: Option<u64>,
    /// Time without a command for which the device went on drawing `busy_w`.
    lingered: u64,
    next_sequential: u64,
}

impl Meter {
    pub fn new(draw: Draw) -> Meter {
        Meter {
            draw,
            stats: DeviceStats::default(),
            since: 0,
            busy_until: 0,
            standby_from: None,
            busy: 0,
            standby: 0,
            linger_from: None,
            lingered: 0,
            next_sequential: u64::MAX,
        }
    }

    /// What wears the device, without its flash.
    pub fn wear(&self) -> WearCounts {
        WearCounts::of(&self.stats)
    }

    /// Counts a command of the host.
    #[inline]
    pub fn command(&mut self, io: Io) {
        self.stats.command(io, &mut self.next_sequential);
    }

    /// Enters a command that is in service from `now` to `end`.
    #[inline]
    pub fn busy(&mut self, now: u64, end: u64) {
        let from = self.busy_until.max(now);
        if end > from {
            if self.draw.linger > 0 {
                self.lingered += self.lingering(now);
                self.linger_from = Some(end);
            }
            self.busy += end - from;
            self.busy_until = end;
        }
    }

    /// For how long the device has drawn `busy_w` since its last command, at the latest until `until`.
    fn lingering(&self, until: u64) -> u64 {
        let Some(from) = self.linger_from else { return 0 };
        from.saturating_add(self.draw.linger).min(until).saturating_sub(from.max(self.since))
    }

    /// The end of the last command so far.
    pub fn busy_until(&self) -> u64 {
        self.busy_until
    }

    /// Enters standby as soon as the commands in service have ended.
    pub fn sleep(&mut self, now: u64) {
        self.standby_from.get_or_insert(self.busy_until.max(now));
    }

    /// The start of standby, which may be in the future.
    pub fn asleep_from(&self) -> Option<u64> {
        self.standby_from
    }

    /// Leaves standby; returns whether the device was in it.
    #[inline(always)]
    pub fn wake(&mut self, now: u64) -> bool {
        self.standby_from.is_some() && self.wake_from_standby(now)
    }

    #[cold]
    fn wake_from_standby(&mut self, now: u64) -> bool {
        match self.standby_from.take() {
            Some(from) if from <= now => {
                self.standby += now - from.max(self.since);
                self.lingered += self.lingering(from);
                self.linger_from = None;
                true
            }
            _ => false,
        }
    }

    /// The statistics up to `now`.
    pub fn stats(&self, now: u64) -> DeviceStats {
        let to_come = self.busy_until.saturating_sub(now);
        let busy = self.busy.saturating_sub(to_come);
        let asleep = self.standby_from.map_or(0, |from| now.saturating_sub(from.max(self.since)));
        let standby = self.standby + asleep;
        let idle = now.saturating_sub(self.since).saturating_sub(busy + standby);
        let lingered = self.lingered + self.lingering(self.standby_from.unwrap_or(now).min(now));
        let seconds = |span: u64| Nanos(span).as_s_f64();
        DeviceStats {
            busy: Nanos(busy),
            idle: Nanos(idle),
            standby: Nanos(standby),
            energy_j: seconds(busy) * (self.draw.idle_w + self.draw.busy_w)
                + seconds(idle) * self.draw.idle_w
                + seconds(lingered) * self.draw.busy_w
                + seconds(standby) * self.draw.standby_w,
            ..self.stats.clone()
        }
    }

    /// Resets the statistics at `now`; the rest of the commands in service counts in the new ones.
    pub fn reset(&mut self, now: u64) {
        self.stats = DeviceStats::default();
        self.since = now;
        self.busy = self.busy_until.saturating_sub(now);
        self.standby = 0;
        self.lingered = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_nanosecond_is_counted_once() {
        let mut meter = Meter::new(Draw { idle_w: 1.0, busy_w: 2.0, standby_w: 0.5, linger: 0 });
        meter.busy(0, 1_000_000_000);
        meter.busy(500_000_000, 2_000_000_000);
        meter.sleep(1_500_000_000);
        let at = meter.stats(1_500_000_000);
        assert_eq!((at.busy, at.idle, at.standby), (Nanos(1_500_000_000), Nanos(0), Nanos(0)));
        let at = meter.stats(5_000_000_000);
        assert_eq!((at.busy, at.idle, at.standby), (Nanos(2_000_000_000), Nanos(0), Nanos(3_000_000_000)));
        assert!((at.energy_j - (2.0 * 3.0 + 3.0 * 0.5)).abs() < 1e-9);
        assert!(meter.wake(5_000_000_000));
        let at = meter.stats(6_000_000_000);
        assert_eq!((at.busy, at.idle, at.standby), (Nanos::from_s(2), Nanos::from_s(1), Nanos::from_s(3)));
        meter.sleep(6_000_000_000);
        meter.reset(7_000_000_000);
        let at = meter.stats(8_000_000_000);
        assert_eq!((at.busy, at.idle, at.standby), (Nanos(0), Nanos(0), Nanos::from_s(1)));
    }

    #[test]
    fn a_device_that_lingers_draws_as_if_busy_for_a_while_after_each_command() {
        let ms = |n: u64| n * 1_000_000;
        let joules = |meter: &Meter, at: u64| meter.stats(at).energy_j;
        let mut meter = Meter::new(Draw { idle_w: 1.0, busy_w: 10.0, standby_w: 0.0, linger: ms(100) });
        // Nothing lingers before the first command; then 50 ms of service and 100 ms after it.
        meter.busy(ms(500), ms(550));
        assert!((joules(&meter, ms(1000)) - (1.0 + 10.0 * 0.15)).abs() < 1e-9);
        // A command within that time cuts it short, and looking changes nothing.
        meter.busy(ms(1000), ms(1050));
        meter.busy(ms(1080), ms(1090));
        assert!((joules(&meter, ms(1100)) - (1.1 + 10.0 * (0.15 + 0.05 + 0.03 + 0.01 + 0.01))).abs() < 1e-9);
        assert!((joules(&meter, ms(2000)) - (2.0 + 10.0 * (0.15 + 0.05 + 0.03 + 0.01 + 0.1))).abs() < 1e-9);
        assert_eq!(meter.stats(ms(2000)).busy, Nanos(ms(110)), "lingering is idle time");
        // Standby ends it; a reset divides it.
        meter.busy(ms(2000), ms(2010));
        meter.sleep(ms(2030));
        assert!((joules(&meter, ms(3000)) - (2.03 + 10.0 * (0.34 + 0.03))).abs() < 1e-9);
        meter.wake(ms(3000));
        meter.busy(ms(3000), ms(3010));
        meter.reset(ms(3050));
        assert!((joules(&meter, ms(4000)) - (0.95 + 10.0 * 0.06)).abs() < 1e-9);
    }
}
