//! The events of a volume: a bounded history, and waiting for more.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Serialize;

/// The most events of each class that are kept. Older ones are dropped; followers notice a gap in the numbers. Because
/// each class has its own bound, clients that come and go, or a device that keeps failing, cannot displace the events
/// of the volume.
pub(crate) const REMEMBERED: [usize; 4] = [1024, 256, 256, 256];

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The number of the event, counted from 1.
    pub number: u64,
    /// The time in milliseconds since 1970.
    pub unix_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum What {
    /// The volume is open.
    Opened {
        /// Whether it had been closed in good order.
        clean: bool,
        /// How often it has been opened.
        generation: u64,
        /// Whether the server before was killed and has left no records: what it had answered and was not flushed may be lost.
        lacks_records: bool,
    },
    /// Nothing is kept in case the server is killed: what was answered and not flushed may be lost then.
    Unprotected {
        /// Why.
        why: String,
    },
    /// A copy of the volume, a snapshot or clone of its devices, is served on this machine as well.
    Copy {
        /// By which process, and from where.
        served: String,
    },
    /// A client has finished its handshake and uses the volume.
    Connected {
        /// The number of the client.
        client: u32,
        /// The address or process of the client.
        peer: String,
    },
    /// A client that used the volume has gone.
    Disconnected {
        /// The number of the client.
        client: u32,
        /// The address or process of the client.
        peer: String,
    },
    /// A command failed after all attempts.
    DeviceError {
        /// The device.
        device: String,
        /// read, write, flush, ...
        action: String,
        /// Offset on the device.
        at: u64,
        /// Length.
        len: u64,
        /// The error, as the system describes it.
        error: String,
    },
    /// A device fails, and may come back: commands wait for it.
    Outage {
        /// The device.
        device: String,
        /// In the system's words.
        error: String,
        /// How long they wait.
        patience_s: f64,
        /// It lacks space only, for which it is never given up.
        full: bool,
    },
    /// A device is back.
    OutageOver {
        /// The device.
        device: String,
        /// How long it failed.
        lasted_s: f64,
    },
    /// A flush has failed: what was written since the last one may be lost, and the host has not been notified yet.
    InDoubt {
        /// The devices that have failed flushes since the volume was opened.
        devices: Vec<String>,
        /// Every request fails until the device can be flushed and the volume is opened again: it is a log.
        stopped: bool,
    },
    /// What was in doubt was made good, or the host was notified by a flush that failed, or the device was given up.
    DoubtOver,
    /// Data of a log is not what was written there. Reads of it fail until it is written or discarded.
    Damage {
        /// What cannot be read, in the form of the status: `bytes`, some `ranges`, and whether there are `more`.
        lost: serde_json::Value,
    },
    /// The fencing of a device, or its absence, is durable: the volume continues without it.
    DeviceGone {
        /// The device.
        device: String,
        /// What cannot be read any more, in the form of the status: `bytes`, some `ranges`, and whether there are
        /// `more`.
        lost: serde_json::Value,
    },
    /// Settings were changed.
    Set {
        /// The settings in force in addition to the design.
        settings: Vec<String>,
    },
    /// A setting that was kept with the volume is not in force: the design does not allow it any more.
    NotSet {
        /// The setting.
        setting: String,
        /// Why.
        why: String,
    },
    /// A fault was added, or all faults were ended.
    Faults {
        /// The number of faults in force.
        faults: usize,
    },
    /// The volume can be used as a block device of this machine.
    BlockDevice {
        /// The path of the block device.
        path: String,
        /// Whether it had waited for a server.
        taken_over: bool,
    },
    /// The server ends, and the block device waits for the next one.
    BlockDeviceLeft {
        /// The path of the block device.
        path: String,
    },
    /// A drive beneath the volume says something about its health that it did not say before.
    DriveHealth {
        /// The name that Linux uses, such as `nvme0n1`.
        drive: String,
        /// The volume's devices that lie on it.
        devices: Vec<String>,
        /// What it is about: a warning of the drive, `percentage_used`, or `media_errors`.
        about: String,
        /// A sentence about the drive, without its name.
        text: String,
    },
    /// A device is being copied to another one, which is to take its place.
    Replacing {
        /// The device.
        device: String,
        /// The path of the new one.
        path: String,
    },
    /// The new device is part of the volume, and the old one is not.
    Replaced {
        /// The device.
        device: String,
        /// The path of the new one.
        path: String,
        /// The path of the old one.
        old: String,
    },
    /// The new device is not part of the volume, and the old one is, as before.
    NotReplaced {
        /// The device.
        device: String,
        /// The path of the new one.
        path: String,
        /// Why.
        why: String,
    },
    /// A device is being grown or shrunk.
    Resizing {
        /// The device.
        device: String,
        /// How many bytes of data it has.
        from_bytes: u64,
        /// How many it is to have.
        to_bytes: u64,
    },
    /// The device has its new size.
    Resized {
        /// The device.
        device: String,
        /// How many bytes of data it has.
        size_bytes: u64,
        /// The size of the volume.
        volume_bytes: u64,
    },
    /// The device has its old size, as before.
    NotResized {
        /// The device.
        device: String,
        /// Why.
        why: String,
    },
    /// A device that was gone is part of the volume again, with what it held.
    Readmitted {
        /// The device.
        device: String,
        /// Where it is.
        path: String,
        /// Extents that were lost without it, and can be read again.
        restored_extents: u64,
    },
    /// A device is being emptied, and is to leave the volume.
    Evacuating {
        /// The device.
        device: String,
    },
    /// The device is not part of the volume any more, which goes on without it.
    Evacuated {
        /// The device.
        device: String,
    },
    /// The device stays part of the volume.
    NotEvacuated {
        /// The device.
        device: String,
        /// Why.
        why: String,
    },
    /// The volume is about to be closed.
    Stopping,
}

impl What {
    /// The class of the event, which bounds how many are kept.
    fn class(&self) -> usize {
        match self {
            What::Opened { .. } | What::DeviceGone { .. } | What::Set { .. } | What::Faults { .. } | What::Stopping => {
                0
            }
            What::Unprotected { .. } | What::Copy { .. } | What::NotSet { .. } => 0,
            What::BlockDevice { .. } | What::BlockDeviceLeft { .. } => 0,
            What::Readmitted { .. } | What::Evacuating { .. } => 0,
            What::Evacuated { .. } | What::NotEvacuated { .. } => 0,
            What::Replacing { .. } | What::Replaced { .. } | What::NotReplaced { .. } => 0,
            What::Resizing { .. } | What::Resized { .. } | What::NotResized { .. } => 0,
            What::DeviceError { .. } | What::Damage { .. } | What::DriveHealth { .. } => 1,
            What::Connected { .. } | What::Disconnected { .. } => 2,
            What::Outage { .. } | What::OutageOver { .. } | What::InDoubt { .. } | What::DoubtOver => 3,
        }
    }
}

#[derive(Debug, Default)]
struct Memory {
    classes: [VecDeque<Event>; 4],
    last: u64,
    ended: bool,
}

#[derive(Debug, Default)]
struct Shared {
    memory: Mutex<Memory>,
    more: Condvar,
}

/// The events of a volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events(Arc<Shared>);

impl Events {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, what: What) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let class = what.class();
        let mut memory = self.lock();
        memory.last += 1;
        let event = Event { number: memory.last, unix_ms: since.as_millis() as u64, what };
        let events = &mut memory.classes[class];
        if events.len() == REMEMBERED[class] {
            events.pop_front();
        }
        events.push_back(event);
        drop(memory);
        self.0.more.notify_all();
    }

    /// Marks the end: no more events will follow.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.0.more.notify_all();
    }

    /// Returns the events after number `after`; if there are none, waits for one, at most this long. `None` at the end.
    pub(crate) fn since(&self, after: u64, wait: Duration) -> Option<Vec<Event>> {
        let mut memory = self.lock();
        if memory.last <= after && !memory.ended && wait > Duration::ZERO {
            memory = self.0.more.wait_timeout(memory, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let all = memory.classes.iter().flatten();
        let mut new: Vec<Event> = all.filter(|event| event.number > after).cloned().collect();
        new.sort_unstable_by_key(|event| event.number);
        (!new.is_empty() || !memory.ended).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_follower_costs_no_memory_and_notices_what_it_missed() {
        let events = Events::default();
        let most = REMEMBERED[0];
        for _ in 0..most + 10 {
            events.report(What::Stopping);
        }
        let seen = events.since(3, Duration::ZERO).unwrap();
        assert_eq!((seen.len(), seen[0].number), (most, 11));
        assert_eq!(events.since(most as u64 + 10, Duration::ZERO), Some(vec![]));
        events.end();
        assert_eq!(events.since(most as u64 + 10, Duration::from_secs(60)), None);
    }

    #[test]
    fn clients_that_come_and_go_do_not_displace_the_death_of_a_device() {
        let events = Events::default();
        events.report(What::DeviceGone { device: "ssd".to_owned(), lost: serde_json::Value::Null });
        for client in 0..100_000 {
            events.report(What::Connected { client, peer: "process 1".to_owned() });
        }
        let seen = events.since(0, Duration::ZERO).unwrap();
        assert!(matches!(seen[0].what, What::DeviceGone { .. }), "{:?}", seen[0]);
        assert_eq!(seen.len(), 1 + REMEMBERED[2]);
        assert!(seen.is_sorted_by_key(|event| event.number));
    }
}
