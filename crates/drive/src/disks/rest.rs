//! Devices that are put into standby while nothing is asked of them: which are to rest, how often they did, and for how long.
//!
//! The commands to the drives are sent by their own threads (`health/watch.rs`), which look at the bits here before they do.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use peryton_engine::DeviceId;
use peryton_units::Nanos;

use crate::health::Table;

/// What a device has rested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// How often its drives were put into standby.
    pub(crate) cycles: u64,
    /// For how long they were, as far as this server has used them.
    total: Nanos,
    /// Since when they are now.
    since: Option<Nanos>,
    /// Whether they cannot be.
    pub(crate) impossible: bool,
}

impl Rest {
    /// For how long it has rested by now.
    pub(crate) fn total(&self, now: Nanos) -> Nanos {
        self.total.saturating_add(self.since.map_or(Nanos::ZERO, |since| now.saturating_sub(since)))
    }

    /// Whether it rests, as far as this server knows.
    pub(crate) fn is_resting(&self) -> bool {
        self.since.is_some()
    }
}

/// What the devices of a volume have rested.
#[derive(Debug)]
pub(crate) struct Rests {
    devices: Vec<Rest>,
    /// The devices that are to rest, one bit each; the same as in the table, from which the drives' threads read it.
    bits: u32,
    table: Arc<Table>,
    /// Devices whose drives have no order yet, one bit each.
    pub(crate) orders: u32,
}

impl Rests {
    pub(crate) fn new(devices: usize) -> Rests {
        Rests { devices: vec![Rest::default(); devices], bits: 0, table: Arc::default(), orders: 0 }
    }

    /// Shares the bits with the drives' threads.
    pub(crate) fn share(&mut self, table: &Arc<Table>) {
        self.table = Arc::clone(table);
    }

    fn store(&mut self, bits: u32) {
        self.bits = bits;
        // An atomic, because the threads of drives look at it.
        AtomicU32::store(&self.table.rests, bits, Ordering::Release);
    }

    /// The device is to rest.
    pub(crate) fn ask(&mut self, device: DeviceId) {
        if self.devices[device.index()].impossible {
            return;
        }
        self.store(self.bits | 1 << device.index());
        self.orders |= 1 << device.index();
    }

    /// The device is used.
    #[inline]
    pub(crate) fn wake(&mut self, now: Nanos, device: DeviceId) {
        if self.bits >> device.index() & 1 == 1 {
            self.end(now, device);
        }
    }

    #[cold]
    fn end(&mut self, now: Nanos, device: DeviceId) {
        self.store(self.bits & !(1 << device.index()));
        self.orders &= !(1 << device.index());
        let rest = &mut self.devices[device.index()];
        rest.total = rest.total(now);
        rest.since = None;
    }

    /// The drives of the device were put into standby. Returns whether they were in use before: a device on several drives hears of each.
    pub(crate) fn rested(&mut self, now: Nanos, device: DeviceId) -> bool {
        let rests = self.bits >> device.index() & 1 == 1;
        let rest = &mut self.devices[device.index()];
        let is_new = rest.since.is_none();
        rest.cycles += u64::from(is_new);
        // Otherwise it was used meanwhile, so that it has started again.
        if rests {
            rest.since.get_or_insert(now);
        }
        is_new
    }

    /// The drives of the device cannot be put into standby.
    pub(crate) fn impossible(&mut self, now: Nanos, device: DeviceId) {
        self.wake(now, device);
        self.devices[device.index()].impossible = true;
    }

    /// Another device has this number now, which can rest or not.
    pub(crate) fn another(&mut self, now: Nanos, device: DeviceId, is_impossible: bool) {
        self.wake(now, device);
        self.devices[device.index()] = Rest { impossible: is_impossible, ..Rest::default() };
    }

    pub(crate) fn of(&self, device: usize) -> &Rest {
        &self.devices[device]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos::from_s(seconds)
    }

    #[test]
    fn rests_are_counted_until_the_device_is_used() {
        let (mut rests, hdd) = (Rests::new(2), DeviceId(1));
        let table = Arc::default();
        rests.share(&table);
        rests.wake(s(1), hdd);
        rests.ask(hdd);
        assert_eq!((rests.orders, table.rests.load(Ordering::Acquire)), (2, 2));
        assert!(rests.rested(s(10), hdd) && !rests.rested(s(11), hdd));
        assert_eq!((rests.of(1).cycles, rests.of(1).total(s(15)), rests.of(1).is_resting()), (1, s(5), true));
        rests.wake(s(20), hdd);
        rests.wake(s(30), hdd);
        assert_eq!((rests.of(1).total(s(40)), rests.of(1).is_resting()), (s(10), false));
        assert_eq!((rests.orders, table.rests.load(Ordering::Acquire)), (0, 0));
        rests.ask(hdd);
        rests.wake(s(50), hdd);
        assert!(rests.rested(s(51), hdd));
        assert_eq!(
            (rests.of(1).cycles, rests.of(1).is_resting()),
            (2, false),
            "it was used before the drive had stopped"
        );
        rests.ask(hdd);
        rests.impossible(s(60), hdd);
        rests.ask(hdd);
        assert_eq!((rests.orders, rests.of(1).cycles, rests.of(0).cycles), (0, 2, 0));
    }
}
