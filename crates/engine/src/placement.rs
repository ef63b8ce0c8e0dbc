//! The trait that every placement implements for the drive. It is used with static dispatch, so that the hit path is
//! compiled for each placement separately.

use peryton_format::{
    handoff::{Contents, Found, Record},
    storage::Storage,
    superblock::{GivenUp, VolumeId},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::CleaningReport,
    api::command::{Buffers, DeviceId, IoId, Request, RequestId},
    api::config::Tuning,
    api::error::{OpenError, ReadmitError, TuningError},
    api::location::{Location, Losses, MapPart, Source},
    api::opened::{Opened, Trust},
    api::stats::Stats,
    api::verification::Verification,
    api::warmth::Warmth,
    io::{Call, InFlight, Io, RequestIndex, Step},
};

/// A placement: it decides where data is and moves it.
pub(crate) trait PlacementOps: std::fmt::Debug {
    /// The purpose of a command of this placement.
    type Step: Step;

    /// Prepares to run, before the first request.
    fn begin(&mut self, _io: &mut Io<Self::Step>) {}

    // Host requests.

    /// Issues the commonest request quickly. Returns false, having done nothing, for any other request. The request
    /// must lie within the volume.
    #[inline]
    fn try_hit(&mut self, _io: &mut Call<Self::Step>, _id: RequestId, _request: Request) -> bool {
        false
    }

    /// Carries out a read, write or discard that lies within the volume and is not empty.
    fn submit(&mut self, io: &mut Call<Self::Step>, request: RequestIndex, asked: Request);

    /// Carries out a flush.
    fn flush(&mut self, io: &mut Call<Self::Step>, request: RequestIndex);

    /// Called when requests have been answered, if the placement has called [`Io::report_answers`].
    fn answered(&mut self, _io: &mut Io<Self::Step>) {}

    // Completions.

    /// Completes the commonest command quickly, if it succeeded and nothing waits for it. Returns false, having done
    /// nothing, for any other command.
    #[inline]
    fn try_complete_plain(&mut self, _io: &mut Call<Self::Step>, _id: IoId, _step: Self::Step) -> bool {
        false
    }

    /// Handles a completed command, which is no longer in flight.
    fn step(&mut self, io: &mut Call<Self::Step>, step: Self::Step, command: &InFlight<Self::Step>, failed: bool);

    /// Encodes the metadata of a command in flight.
    fn encode(
        &self,
        io: &Io<Self::Step>,
        command: &InFlight<Self::Step>,
        step: Self::Step,
        into: &mut [u8],
        buffers: Option<&dyn Buffers>,
    );

    // Time and settings.

    /// Runs timers that are due, and sets the next one ([`Io::due`]).
    fn tick(&mut self, _io: &mut Call<Self::Step>) {}

    /// Checks that the tuning suits what the format fixed.
    fn check(&self, _tuning: &Tuning) -> Result<(), TuningError> {
        Ok(())
    }

    /// Called when the user has replaced the tuning.
    fn retuned(&mut self, _io: &mut Call<Self::Step>, _before: &Tuning) {}

    /// Called when the statistics start from zero.
    fn statistics_reset(&mut self, _io: &mut Io<Self::Step>, _before: &Stats) {}

    /// See [`Engine::move_buffers`](crate::Engine::move_buffers).
    fn move_buffers(&self, _tuning: &Tuning) -> u32 {
        0
    }

    /// See [`Engine::cleaning`](crate::Engine::cleaning).
    fn cleaning(&self, _io: &Io<Self::Step>, _now: Nanos) -> Option<CleaningReport> {
        None
    }

    /// See [`Engine::write_all_back`](crate::Engine::write_all_back).
    fn write_all_back(&mut self, _io: &mut Call<Self::Step>) {}

    /// How much [`PlacementOps::write_all_back`] has left to do.
    fn dirty_left(&self) -> u64 {
        0
    }

    /// How many blocks are known to be damaged. They are not apart from the others: see [`PlacementOps::write_all_back`].
    fn damaged_blocks(&self) -> u64 {
        0
    }

    /// Compares what a read has brought with its checksums, if it has to be verified.
    fn verify(&self, _step: Self::Step, _buffers: &dyn Buffers) -> Option<Verification> {
        None
    }

    /// Takes the result of comparing a read with its checksums. The completion of the read follows.
    fn verified(&mut self, _result: Verification) {}

    // State.

    /// The place of the volume's byte at `offset`; `rest` bytes of the volume follow it.
    fn location(&self, offset: Bytes, rest: Bytes) -> Location;

    /// From where the volume's bytes at `offset` can be read while nothing is under way; `rest` bytes of the volume follow it.
    fn source(&self, offset: Bytes, rest: Bytes) -> Source;

    /// The entries of the map from an offset on: of so many extents, or blocks of a log. Where there is no map, there are none.
    fn map_part(&self, _io: &Io<Self::Step>, _from: Bytes, _most: u32) -> MapPart {
        MapPart::default()
    }

    /// The lost data, with at most `most` of its ranges.
    fn losses(&self, io: &Io<Self::Step>, most: usize) -> Losses;

    /// Bytes whose only valid copy is on the fast device or in the log: of dirty extents whole extents, of a log the data
    /// that has not migrated.
    fn dirty_bytes(&self) -> Bytes {
        Bytes::ZERO
    }

    /// See [`Engine::warmth`](crate::Engine::warmth).
    fn warmth(&self) -> Option<Warmth> {
        None
    }

    /// Whether nothing is under way besides commands in flight.
    fn is_idle(&self) -> bool {
        true
    }

    /// Panics if the tables do not agree. `quiet`: no command is in flight.
    fn check_invariants(&self, _quiet: bool) {}

    // A process that dies.

    /// What the next process has to know of what is in memory alone; `None` if there is nothing.
    fn contents_of_records(&self) -> Option<Contents> {
        None
    }

    /// From now on keeps what the next process has to know, for [`PlacementOps::take_records`].
    fn keep_records(&mut self) {}

    /// Hands out what has changed since the last time.
    #[inline]
    fn take_records(&mut self, _take: &mut impl FnMut(Record)) {}

    // A device that is resized.

    /// Begins to empty what a device gives up that is to have this much data, at this rate. Returns false if it cannot be emptied.
    fn begin_shrinking(&mut self, _io: &mut Io<Self::Step>, _size: Bytes, _rate: Bytes) -> bool {
        true
    }

    /// Ends the emptying of what a device was to give up.
    fn stop_shrinking(&mut self, _io: &mut Io<Self::Step>) {}

    /// How much there still is in what the device gives up.
    fn bytes_beyond(&self) -> Bytes {
        Bytes::ZERO
    }

    // Failing devices.

    /// A flush of the device has failed: everything that completed on it since its last good flush may be lost, whatever later
    /// flushes say.
    fn flush_failed(&mut self, io: &mut Call<Self::Step>, device: DeviceId);

    /// Fails the flushes of the host that wait, because nothing becomes durable for now. What they wait for is made durable later.
    fn fail_flushes(&mut self, io: &mut Call<Self::Step>);

    /// Fences a dead device. Returns whether data whose write was answered may be lost with it.
    fn fence(&mut self, io: &mut Call<Self::Step>, device: DeviceId) -> bool;

    /// Whether commands under way have ended and the survivor has the whole map. Starts what that needs.
    fn is_ready_to_fence(&mut self, _io: &mut Call<Self::Step>) -> bool {
        true
    }

    /// Resumes commits once the fencing of the device is durable.
    fn fence_is_durable(&mut self, io: &mut Call<Self::Step>);

    // Format, open, close.

    /// Opens the volume without the device. Returns `false` if no data would be left.
    fn without(&mut self, io: &Io<Self::Step>, device: DeviceId) -> bool;

    /// Writes the metadata of an empty volume. The error names the device that failed.
    fn format(&self, _io: &Io<Self::Step>, _storage: &mut dyn Storage, _volume: VolumeId) -> Result<(), DeviceId> {
        Ok(())
    }

    /// Recovers the state from the devices, and makes it durable. `unwritten_from`: after a clean close, the places from which on none was
    /// ever written; after a crash every free place may hold data. `trust`: what the user has said of devices that contradict each
    /// other. `blank`: devices that have held no data of the volume. `handoff`: the records that a killed server has left in memory.
    fn recover(
        &mut self,
        _io: &mut Io<Self::Step>,
        _storage: &mut dyn Storage,
        _volume: VolumeId,
        (_unwritten_from, _trust, _blank): (Option<[u32; 2]>, Trust, u32),
        _handoff: Option<&Found>,
        _opened: &mut Opened,
    ) -> Result<(), OpenError> {
        Ok(())
    }

    /// Writes the metadata for opening after a clean close. The devices are flushed, and nothing is in flight. The error names
    /// the device that failed.
    fn close(&mut self, _io: &Io<Self::Step>, _storage: &mut dyn Storage, _volume: VolumeId) -> Result<(), DeviceId> {
        Ok(())
    }

    /// The places from which on none was ever written.
    fn used_places(&self) -> [u32; 2] {
        [0, 0]
    }

    /// What is to be known of a device that is given up now; `before`: of those that are gone already.
    fn given_up_with(&self, _device: DeviceId, _before: GivenUp) -> GivenUp {
        GivenUp::default()
    }

    /// A device that was given up comes back with what it holds: what only it has is part of the volume again. Returns how
    /// many extents are. The others say until after this that it is gone, and a crash leaves that so.
    fn take_back(
        &mut self,
        _io: &Io<Self::Step>,
        _storage: &mut dyn Storage,
        _device: DeviceId,
        _found: (VolumeId, GivenUp),
    ) -> Result<u64, ReadmitError> {
        Ok(0)
    }

    /// Writes the metadata of a device that replaces a lost one. Returns the identity of the volume from then on. The
    /// error names the device that failed.
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
