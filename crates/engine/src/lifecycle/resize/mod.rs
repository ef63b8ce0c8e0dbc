//! A device is grown or shrunk while the volume is served.
//!
//! The data stay where they are. The map may become longer, for which the room before the data is divided in another way
//! ([`Places`](peryton_format::places::Places)); the last superblock of the device moves to its new end. What lies beyond the end of a
//! fast device that shrinks is emptied first, while requests go on ([`PlacementOps::begin_shrinking`]). Then the driver lets requests
//! wait, and [`switch`] closes the volume in good order and opens it with its new size. Nothing of this is recorded before: a crash until
//! then leaves the volume as it was.

pub(crate) mod in_force;
pub(crate) mod plan;
pub(crate) mod state;
pub(crate) mod switch;

use peryton_units::Nanos;

use self::state::{Resizing, Stage};
use crate::{
    api::command::Commands,
    api::config::{Config, Tuning},
    api::error::{ConfigError, TuningError},
    api::resizing::{Resize, ResizeEnd, ResizeError, ResizePlan, ResizeStage},
    lifecycle::drive::Drive,
    placement::PlacementOps,
};

/// Requests may wait while at most this many extents are emptied.
const MOST_AT_REST: u64 = 64;

impl<P: PlacementOps> Drive<P> {
    /// See [`Engine::resize`](crate::Engine::resize).
    pub(crate) fn resize(&mut self, now: Nanos, plan: ResizePlan, out: &mut Commands) -> Result<(), ResizeError> {
        let target = self.can_resize(plan)?;
        let began = self.io.advance(now);
        let before = self.data_bytes[plan.device.index()];
        if plan.size < before && !self.placed.begin_shrinking(&mut self.io, plan.size, plan.rate) {
            return Err(ResizeError::Lost);
        }
        let total = self.placed.bytes_beyond();
        self.resizing = Some(Box::new(Resizing { plan, target, stage: Stage::Emptying, before, total, began }));
        self.resize_ended = None;
        self.placed.tick(&mut self.io.call(out));
        Ok(())
    }

    /// See [`Engine::resizing`](crate::Engine::resizing).
    pub(crate) fn resizing(&self) -> Option<Resize> {
        let Resizing { plan, target, stage, before, total, began, .. } = &**self.resizing.as_ref()?;
        let left = self.placed.bytes_beyond();
        let most = self.move_buffer_bytes * MOST_AT_REST;
        let stage = match stage {
            Stage::Emptying if left > most => ResizeStage::Emptying,
            Stage::Emptying => ResizeStage::Ready,
            Stage::Closed { .. } => ResizeStage::Closed,
        };
        let used = target.sizes.devices[plan.device.index()];
        let took = self.io.now.saturating_sub(*began);
        let (volume, total) = (target.sizes.volume, (*total).max(left));
        Some(Resize { plan: *plan, before: *before, used, volume, stage, total, left, took })
    }

    /// See [`Engine::rest`](crate::Engine::rest).
    pub(crate) fn rest(&mut self, now: Nanos, rests: bool, out: &mut Commands) {
        let now = self.io.advance(now);
        if self.resizing.is_some() && self.io.rests != rests {
            self.io.rests = rests;
            self.io.due(now);
            self.placed.tick(&mut self.io.call(out));
        }
    }

    /// See [`Engine::stop_resizing`](crate::Engine::stop_resizing).
    pub(crate) fn stop_resizing(&mut self, now: Nanos) {
        self.io.advance(now);
        self.end_resizing(ResizeEnd::Stopped);
    }

    /// Ends it, unless the volume is closed for it.
    pub(super) fn end_resizing(&mut self, how: ResizeEnd) {
        if self.resizing.as_ref().is_some_and(|resizing| resizing.stage == Stage::Emptying) {
            self.resizing = None;
            self.resize_ended = Some(how);
            self.placed.stop_shrinking(&mut self.io);
            self.io.rests = false;
            self.io.due(self.io.now);
        }
    }

    /// Checks that the tuning suits the volume with its new size as well.
    pub(super) fn check_with_new_size(&self, tuning: &Tuning) -> Result<(), TuningError> {
        let Some(resizing) = &self.resizing else { return Ok(()) };
        let config = Config { tuning: tuning.clone(), ..resizing.target.config.clone() };
        match config.sizes_with(Some(self.spare)) {
            Err(ConfigError::Tuning(error)) => Err(error),
            _ => Ok(()),
        }
    }
}
