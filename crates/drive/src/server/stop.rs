//! The end of a server: requests that were accepted are answered, and the volume becomes idle.

use peryton_engine::{DeviceId, Request, RequestError, RequestId};
use peryton_units::{Bytes, Nanos, Op};

use super::{BlockDevice, Server};
use crate::{disks::Doubt, events::What, serve_error::ServeError, volume::Data};

/// The time for clients to take their last answers.
const FAREWELL: Nanos = Nanos::from_s(5);

/// The time for devices that fail to come back.
pub(super) const OUTAGE_PATIENCE: Nanos = Nanos::from_s(4);

/// The id of the last flush, which no client requested.
const LAST_FLUSH: RequestId = RequestId(0);

/// The phases of stopping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Serving,
    /// Requests in flight are answered.
    Draining,
    /// Everything is being made durable.
    Flushing,
    /// Moves and commits are ending.
    Resting,
}

/// The next step towards the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Go on as before.
    Waits,
    /// Handle everything that can proceed now.
    Settle,
    /// Nothing is left to do.
    Over,
}

/// Whether a server is stopping, and its phase.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    phase: Phase,
    /// Whether the end is to begin.
    is_wanted: bool,
    /// A device that fails is not waited for after this time.
    until: Nanos,
    /// The volume did not come to rest, because a device is in an outage.
    outage: Option<ServeError>,
}

impl Stop {
    pub(crate) fn is_asked(&self) -> bool {
        self.phase != Phase::Serving
    }

    /// The end is to begin in this turn of the loop.
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(super) fn takes_wish(&mut self) -> bool {
        std::mem::take(&mut self.is_wanted)
    }

    /// Whether the next reply is that to the last flush.
    pub(super) fn is_flushing(&self) -> bool {
        self.phase == Phase::Flushing
    }
}

impl Server {
    /// Accepts no more requests, and leaves the block device for the next server.
    pub(crate) fn begin_to_hand_over(&mut self) {
        self.leave_block_device();
        self.begin_to_stop();
    }

    /// Accepts no more requests.
    pub(crate) fn begin_to_stop(&mut self) {
        if self.stop.is_asked() || self.must_remove_first() {
            return;
        }
        self.give_up_cut_off();
        tracing::info!("stopping: answering the requests in flight");
        self.about.events.report(What::Stopping);
        self.watchdog.notifier.stopping("stopping: answering the requests in flight");
        self.stop.phase = Phase::Draining;
        let until = self.now.saturating_add(FAREWELL);
        self.front.begin_to_stop(until);
        // An incomplete copy is no part of the volume, so the old device stays.
        self.volume.stop_replacing(self.now);
        self.stop_changing("the volume is being closed");
        self.stop.until = self.now.saturating_add(OUTAGE_PATIENCE);
        self.volume.backend.hurry(self.stop.until);
        self.volume.backend.end_drills();
    }

    /// Begins the next phase of the end when one has ended.
    pub(super) fn end_goes_on(&mut self) -> Step {
        debug_assert!(!self.stop.is_asked() || self.changing.away().is_none(), "the end waits for the engine");
        let is_over = match self.stop.phase {
            Phase::Serving => return Step::Waits,
            Phase::Draining if self.front.drain() => return Step::Settle,
            Phase::Draining => {
                let answered = self.block_device.as_ref().is_none_or(BlockDevice::is_idle);
                if answered && self.front.is_deserted() {
                    self.stop.phase = Phase::Flushing;
                    // No client is left and the block device is idle: every row is free, and this request has none.
                    debug_assert_eq!(self.front.requests.pending.used(), 0);
                    // The last flush is no client's.
                    self.record_figures();
                    let flush = Request { op: Op::Flush, offset: Bytes::ZERO, len: Bytes::ZERO };
                    self.volume.submit(self.now, LAST_FLUSH, flush, Data::None);
                    return Step::Settle;
                }
                // Work that waits for a commit waits for the device.
                self.is_given_up()
            }
            Phase::Flushing => self.is_given_up(),
            Phase::Resting => {
                let rests = self.volume.is_idle() && self.notes.is_idle();
                rests || self.is_given_up()
            }
        };
        if is_over { Step::Over } else { Step::Waits }
    }

    /// Whether the volume cannot come to rest: a device is in an outage, and its commands would be repeated without end.
    /// Unflushed writes are as after a power loss.
    fn is_given_up(&mut self) -> bool {
        if self.now < self.stop.until || self.volume.backend.in_flight() > 0 || !self.notes.is_idle() {
            return false;
        }
        self.stop.outage = self.outage_at_the_end();
        self.stop.outage.is_some()
    }

    /// The reason why the volume may not be marked as closed in good order, if there is one: a device in use failed a
    /// flush, and data written to it before may be lost.
    pub(crate) fn in_doubt(&mut self) -> Option<ServeError> {
        if let Some(outage) = self.stop.outage.take() {
            return Some(outage);
        }
        let engine = self.volume.engine();
        let disks = &self.volume.backend;
        let devices = self.about.devices.iter().enumerate();
        let found = devices
            .flat_map(|(index, device)| device.as_ref().map(|device| (index, device)))
            .find(|(index, _)| !engine.is_gone(DeviceId(*index as u8)) && disks.doubts()[*index] != Doubt::None);
        found.map(|(index, device)| ServeError::InDoubt {
            name: device.name.clone(),
            path: device.path.clone(),
            times: disks.health()[index].failed_flushes,
        })
    }

    /// Handles the reply to the last flush.
    pub(super) fn flushed(&mut self, result: Result<(), RequestError>) {
        if let Err(error) = result {
            tracing::error!(%error, "the last flush failed: unflushed writes may be lost");
        }
        self.stop.phase = Phase::Resting;
    }
}
