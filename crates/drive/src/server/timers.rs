//! What the loop waits for besides events. Every timer has a line in `due` and one in `tick`, so none has only half of it.

use std::time::Duration;

use peryton_units::Nanos;

use super::{Server, front};
use crate::{kernel::Wait, recorder::Recorder};

/// A part of the server that has something to do at a time of its own.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The next sign of life to the program that watches this one.
    SignOfLife,
    /// Accept is called again after a lack of descriptors.
    Accept,
    /// Slow clients are looked for.
    SlowClients,
    /// A command that a drill delays, or that waits for a device.
    Devices,
    /// Devices are looked at that may have become smaller, or whose file may have been renamed or deleted.
    Look,
    /// What was recorded is handed over.
    Recorder,
    /// Moves, commits and write-back.
    Engine,
    /// The next look at a change for which the volume is closed.
    Change,
}

/// All of them, in the order in which they are looked at; the first go on while another thread has the engine.
const TIMERS: [Timer; 8] = [
    Timer::SignOfLife,
    Timer::Accept,
    Timer::SlowClients,
    Timer::Devices,
    Timer::Look,
    Timer::Recorder,
    Timer::Engine,
    Timer::Change,
];
const WITHOUT_ENGINE: usize = 3;

impl Server {
    /// The timers that run now.
    #[inline]
    fn running(&self) -> &'static [Timer] {
        if self.changing.away().is_some() { &TIMERS[..WITHOUT_ENGINE] } else { &TIMERS }
    }

    /// When a timer is due, if it runs.
    #[inline]
    fn due(&self, timer: Timer) -> Option<Nanos> {
        match timer {
            Timer::SignOfLife => self.watchdog.deadline(),
            Timer::Accept => self.front.next_accept(),
            Timer::SlowClients => self.front.next_look(),
            Timer::Devices => self.volume.backend.next_due(),
            Timer::Look => Some(self.outages.next_look),
            Timer::Recorder => self.recorder.as_ref().and_then(Recorder::deadline),
            Timer::Engine => self.volume.deadline(),
            Timer::Change => self.changing.deadline(self.now),
        }
    }

    /// Does what is due.
    #[inline]
    fn tick(&mut self, timer: Timer) {
        match timer {
            Timer::SignOfLife => self.watchdog.tick(self.now),
            Timer::Accept => self.front.accept_more(),
            Timer::SlowClients => self.front.look(),
            Timer::Devices => {
                self.volume.backend.tick(self.now);
            }
            Timer::Look => {
                if self.outages.next_look <= self.now {
                    self.look_at_devices();
                    self.remove_block_device_once_free();
                }
            }
            Timer::Recorder => self.tick_recorder(),
            Timer::Engine => {
                if self.volume.deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.give_up_cut_off();
                    self.volume.tick(self.now);
                }
            }
            // Every turn looks at it when all else is settled.
            Timer::Change => {}
        }
    }

    /// How long to wait: until the next timer.
    #[inline]
    pub(super) fn wait(&self) -> Wait {
        // Without the engine, requests of clients are not taken.
        if !self.front.later.is_empty() && self.front.asks.len() < front::MOST_ASKS {
            return Wait::No;
        }
        match self.running().iter().filter_map(|timer| self.due(*timer)).min() {
            None => Wait::Forever,
            Some(due) => Wait::For(Duration::from_nanos(due.saturating_sub(self.now).0)),
        }
    }

    #[inline]
    pub(super) fn timers(&mut self) {
        let running = self.running();
        running.iter().for_each(|timer| self.tick(*timer));
        if running.len() > WITHOUT_ENGINE {
            self.order_drives();
        }
    }
}
