//! What a placement does: the one face that all of them show to the drive that carries them. It is used with static
//! dispatch, so that the path of a hit is compiled for each placement by itself.

use std::ops::Range;

use peryton_format::{storage::Storage, superblock::VolumeId};
use peryton_policy::{AdaptiveView, ClimbView};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffers, Commands, DeviceId, IoId, Request, RequestId},
    api::config::Tuning,
    api::error::{DeviceError, OpenError, TuningError},
    api::location::{Location, Losses},
    api::opened::{Opened, Trust},
    api::stats::Stats,
    io::{InFlight, Io, RequestIndex, Step},
};

/// Where data lives, and how it gets there.
pub(crate) trait PlacementOps: std::fmt::Debug {
    /// What its commands are part of.
    type Step: Step;

    /// Gets ready to run, before the first request.
    fn begin(&mut self, _io: &mut Io<Self::Step>) {}

    // What the host asks.

    /// Serves the commonest request without the table of what could be; says whether it did. The request lies within the
    /// volume.
    #[inline]
    fn try_hit(
        &mut self,
        _io: &mut Io<Self::Step>,
        _now: Nanos,
        _id: RequestId,
        _request: Request,
        _out: &mut Commands,
    ) -> bool {
        false
    }

    /// Takes a read, write or discard that lies within the volume and is not empty.
    fn submit(
        &mut self,
        io: &mut Io<Self::Step>,
        now: Nanos,
        request: RequestIndex,
        asked: Request,
        out: &mut Commands,
    );

    /// Takes a flush.
    fn flush(&mut self, io: &mut Io<Self::Step>, now: Nanos, request: RequestIndex, out: &mut Commands);

    /// Requests have been answered; called where [`Io::report_answers`] was.
    fn answered(&mut self, _io: &mut Io<Self::Step>, _now: Nanos) {}

    /// See [`Engine::prefetch`](crate::Engine::prefetch).
    #[inline]
    fn prefetch(&self, _offset: Bytes, _near: bool) {}

    /// See [`Engine::evict`](crate::Engine::evict).
    fn evict(&mut self, _io: &mut Io<Self::Step>, _now: Nanos, _range: Range<Bytes>, _out: &mut Commands) {}

    // What devices answer.

    /// Ends the commonest command, which has succeeded, if nothing waits for it; says whether it did.
    #[inline]
    fn try_complete_hit(
        &mut self,
        _io: &mut Io<Self::Step>,
        _now: Nanos,
        _id: IoId,
        _step: Self::Step,
        _out: &mut Commands,
    ) -> bool {
        false
    }

    /// A command has completed, and is no longer in flight.
    fn step(
        &mut self,
        io: &mut Io<Self::Step>,
        now: Nanos,
        step: Self::Step,
        command: &InFlight<Self::Step>,
        failed: bool,
        out: &mut Commands,
    );

    /// Encodes what a command in flight writes.
    fn encode(
        &self,
        io: &Io<Self::Step>,
        command: &InFlight<Self::Step>,
        step: Self::Step,
        into: &mut [u8],
        buffers: Option<&dyn Buffers>,
    );

    // Time and settings.

    /// Does what is due; declares what will be ([`Io::due`]).
    fn tick(&mut self, _io: &mut Io<Self::Step>, _now: Nanos, _out: &mut Commands) {}

    /// Moves settings while the drive runs, where the tuning asks for it. The last part of a tick.
    fn tune(&mut self, _io: &mut Io<Self::Step>, _now: Nanos, _out: &mut Commands) {}

    /// Whether this tuning suits what the format fixed.
    fn check(&self, _tuning: &Tuning) -> Result<(), TuningError> {
        Ok(())
    }

    /// The tuning has been replaced by the user.
    fn retuned(&mut self, _io: &mut Io<Self::Step>, _before: &Tuning, _now: Nanos, _out: &mut Commands) {}

    /// The statistics begin again from zero.
    fn statistics_reset(&mut self, _io: &mut Io<Self::Step>, _before: &Stats) {}

    /// See [`Engine::move_buffers`](crate::Engine::move_buffers).
    fn move_buffers(&self, _tuning: &Tuning) -> u32 {
        0
    }

    /// See [`Engine::write_all_back`](crate::Engine::write_all_back).
    fn write_all_back(&mut self, _io: &mut Io<Self::Step>, _now: Nanos, _out: &mut Commands) {}

    /// What [`PlacementOps::write_all_back`] has still to do.
    fn away(&self) -> u64 {
        0
    }

    // What the driver may tell of its devices.

    /// See [`Engine::asks_what_was_programmed`](crate::Engine::asks_what_was_programmed).
    fn asks_what_was_programmed(&mut self, _now: Nanos) -> Option<DeviceId> {
        None
    }

    /// See [`Engine::programmed`](crate::Engine::programmed). `written`: all that was written to the device meanwhile, as
    /// the statistics have it.
    fn programmed(&mut self, _device: DeviceId, _bytes: Bytes, _written: Bytes) {}

    /// See [`Engine::asks_what_was_drawn`](crate::Engine::asks_what_was_drawn).
    fn asks_what_was_drawn(&self) -> bool {
        false
    }

    /// See [`Engine::drew`](crate::Engine::drew).
    fn drew(&mut self, _microjoules: u64) {}

    // What it can say of itself.

    /// Where the volume's byte at `offset` is; `rest` bytes of the volume follow it.
    fn location(&self, offset: Bytes, rest: Bytes) -> Location;

    /// What is lost, with at most `most` ranges of it.
    fn losses(&self, io: &Io<Self::Step>, most: usize) -> Losses;

    /// Extents that are lost.
    fn lost_extents(&self) -> u32 {
        0
    }

    /// Extents of the cache that are newer than their homes.
    fn dirty_extents(&self) -> u32 {
        0
    }

    /// How long ago the oldest write was logged that has not migrated since.
    fn log_age(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Where hill climbing stands.
    fn climbing(&self, _tuning: &Tuning) -> Option<ClimbView> {
        None
    }

    /// Where the adaptive admission threshold stands.
    fn adaptive_admission(&self) -> Option<AdaptiveView> {
        None
    }

    /// Whether nothing is under way beside what is in flight.
    fn is_idle(&self) -> bool {
        true
    }

    /// Panics if its tables do not agree. `quiet`: no command is in flight.
    fn check_invariants(&self, _quiet: bool) {}

    // Devices that die.

    /// The device is dead, and fenced from now on. Says whether anything that was answered may be lost with it.
    fn fence(&mut self, io: &mut Io<Self::Step>, now: Nanos, device: DeviceId, out: &mut Commands) -> bool;

    /// Whether what was under way has ended, and the survivor has the whole map. Sees to it.
    fn is_ready_to_fence(&mut self, _io: &mut Io<Self::Step>, _out: &mut Commands) -> bool {
        true
    }

    /// It is durable that the device is fenced: commits go on.
    fn fence_is_durable(&mut self, io: &mut Io<Self::Step>, now: Nanos, out: &mut Commands);

    // What happens to a volume that does not run.

    /// Where data begins on a device.
    fn data_at(&self, device: DeviceId) -> Bytes;

    /// Spare extents, which the format fixes.
    fn spare(&self) -> u32 {
        0
    }

    /// Fills the map as a scan of the whole volume would.
    fn fill(&mut self, _tuning: &Tuning) {}

    /// Opens the volume without the device. `false`: nothing is left of it then.
    fn without(&mut self, io: &Io<Self::Step>, device: DeviceId) -> bool;

    /// Writes the metadata of an empty volume. The error names the device that failed.
    fn format(&self, _io: &Io<Self::Step>, _storage: &mut dyn Storage, _volume: VolumeId) -> Result<(), DeviceId> {
        Ok(())
    }

    /// Brings back what is on the devices, and makes that durable. `touched`: after a clean close, the places from which
    /// on none was ever written.
    fn recover(
        &mut self,
        _io: &mut Io<Self::Step>,
        _storage: &mut dyn Storage,
        _volume: VolumeId,
        _found: (Option<[u32; 2]>, Trust),
        _opened: &mut Opened,
    ) -> Result<(), OpenError> {
        Ok(())
    }

    /// Writes what opening needs after a clean close. The devices are flushed, and nothing is in flight.
    fn close(
        &mut self,
        _io: &Io<Self::Step>,
        _storage: &mut dyn Storage,
        _volume: VolumeId,
    ) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The places from which on none was ever written.
    fn touched(&self) -> [u32; 2] {
        [0, 0]
    }

    /// Writes the metadata of a device that comes in the place of one that is gone. Returns the name that the volume has
    /// from then on. The error names the device that failed.
    fn fill_replacement(
        &mut self,
        _io: &Io<Self::Step>,
        _storage: &mut dyn Storage,
        _device: DeviceId,
        volume: VolumeId,
        _generation: u64,
    ) -> Result<VolumeId, DeviceId> {
        Ok(volume)
    }
}
