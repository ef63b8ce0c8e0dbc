//! A drive: a placement and its I/O state. The order of the steps in each call is here, once for all placements.

use peryton_format::{
    displaced::Displaced,
    handoff::{Label, MOST_DEVICES, Record},
    superblock::Superblock,
};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffers, Commands, DeviceId, IoId, Request, RequestId},
    api::config,
    api::error::{DeviceError, DriverError, RequestError, TuningError},
    api::location::{Location, Losses, MapPart, Origin, Source},
    api::resizing::ResizeEnd,
    api::stats::Stats,
    api::succession::SuccessionEnd,
    api::verification::Verification,
    io::{Io, Purpose, Step as _},
    lifecycle::fencing::Fencing,
    lifecycle::resize::state::Resizing,
    lifecycle::successor::Successor,
    placement::PlacementOps,
};

/// A running drive of one placement.
#[derive(Debug)]
pub(crate) struct Drive<P: PlacementOps> {
    pub(crate) io: Io<P::Step>,
    pub(crate) placed: P,
    /// The placement in the form of the configuration.
    pub(crate) placement: config::Placement,
    pub(crate) data_bytes: Vec<Bytes>,
    pub(crate) volume_size: Bytes,
    pub(crate) device_bytes: Vec<Bytes>,
    /// Offset of the data on each device: the offset of a file system once the volume is detached.
    pub(crate) data_at: Vec<Bytes>,
    /// Number of spare extents, which the format fixes.
    pub(crate) spare: u32,
    pub(crate) move_buffer_bytes: Bytes,
    /// What the superblocks of all devices say while the volume is open; a simulated drive has none.
    pub(crate) identity: Option<Superblock>,
    pub(crate) fencing: Fencing,
    /// The device that is to take the place of another one.
    pub(crate) successor: Option<Box<Successor>>,
    /// How the last replacement came to its end.
    pub(crate) ended: Option<SuccessionEnd>,
    /// Writes that have ended on the device that is replaced and on its successor, and whether they failed. They are reported to the
    /// placement before the call of the driver returns.
    pub(crate) ended_writes: Vec<(IoId, bool)>,
    /// The highest number that a successor of each device has been given since the volume was opened.
    pub(crate) named: [u8; MOST_DEVICES],
    /// The device that is being grown or shrunk.
    pub(crate) resizing: Option<Box<Resizing>>,
    /// How the last resizing came to its end.
    pub(crate) resize_ended: Option<ResizeEnd>,
    /// From where on nothing was ever written, if the driver knows it.
    pub(crate) written_to: Option<Bytes>,
    /// How the slow device is divided, if it had data before it became part of the volume.
    pub(crate) displaced: Option<Displaced>,
    /// Set if records for the next process are handed out: the fenced devices, as they were handed out last.
    pub(crate) keeps: Option<u32>,
}

impl<P: PlacementOps> Drive<P> {
    /// The lost data. What is displaced to a device that is gone is lost, and the map does not say so.
    pub(crate) fn losses(&self, most: usize) -> Losses {
        let gone = |displaced: &Displaced| displaced.is_elsewhere() && self.io.is_fenced(displaced.home);
        let Some(displaced) = self.displaced.filter(gone) else { return self.placed.losses(&self.io, most) };
        let all = self.placed.losses(&self.io, usize::MAX);
        let mut losses = Losses { unknown: all.unknown, ..Losses::default() };
        losses.add(0, displaced.bytes.0, most);
        for range in all.ranges {
            let from = range.start.max(displaced.bytes);
            if from < range.end {
                losses.add(from.0, range.end.0, most);
            }
        }
        losses
    }

    /// The entries of the map from an offset on: of so many extents, or blocks of a log.
    pub(crate) fn map_part(&self, from: Bytes, most: u32) -> MapPart {
        self.placed.map_part(&self.io, from, most)
    }

    /// Takes a request of the host. Appends commands to `out`. A hit is compiled into the caller.
    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Nanos, id: RequestId, request: Request, out: &mut Commands) {
        let from = out.len();
        self.io.advance(now);
        self.io.stats.requests[request.op as usize] += 1;
        let in_range = request.offset.0.checked_add(request.len.0).is_some_and(|end| end <= self.volume_size.0);
        if !in_range || !self.placed.try_hit(&mut self.io.call(out), id, request) {
            self.submit_any(id, request, in_range, out);
        }
        self.mirror_to_successor(from, out);
    }

    /// Handles every request except an access to one extent in its place.
    #[inline(never)]
    fn submit_any(&mut self, id: RequestId, request: Request, in_range: bool, out: &mut Commands) {
        let Drive { io, placed, .. } = self;
        let index = io.begin(id, request.op);
        let mut result = Ok(());
        if request.op == Op::Flush {
            if !io.fencing && io.takes_error() {
                result = Err(RequestError::Device);
            }
            placed.flush(&mut io.call(out), index);
        } else if !in_range {
            result = Err(RequestError::OutOfRange);
        } else if request.len > Bytes::ZERO {
            placed.submit(&mut io.call(out), index, request);
        }
        io.call(out).part_done(index, result);
        self.report_answers();
    }

    /// Reports to the placement which requests were answered, if it asked for that.
    #[inline]
    fn report_answers(&mut self) {
        if self.io.reports_answers() {
            self.placed.answered(&mut self.io);
        }
    }

    /// Handles a command that the driver has carried out, or failed to. The end of a hit is compiled into the caller.
    #[inline(always)]
    pub(crate) fn complete(
        &mut self,
        now: Nanos,
        id: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        match self.successor.is_some() {
            true => self.complete_beside_successor(now, id, result, out),
            false => self.complete_now(now, id, result, out),
        }
    }

    /// Does the same while a device is being replaced.
    #[cold]
    #[inline(never)]
    fn complete_beside_successor(
        &mut self,
        now: Nanos,
        id: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        let from = out.len();
        let done = match self.successor_takes(now, id, result.is_err()) {
            true => Ok(()),
            false => self.complete_now(now, id, result, out),
        };
        self.mirror_to_successor(from, out);
        done
    }

    /// Looks at what was asked for in this call, from the command with this index on, while a device is being replaced: a part of it goes to
    /// its successor, and what has ended there is reported to the placement.
    #[inline]
    pub(crate) fn mirror_to_successor(&mut self, from: usize, out: &mut Commands) {
        if self.successor.is_some() {
            self.go_on_beside_successor(from, out);
        }
    }

    #[cold]
    #[inline(never)]
    fn go_on_beside_successor(&mut self, from: usize, out: &mut Commands) {
        self.report_ended_writes(out);
        self.mirror(from, out);
        self.go_on_replacing(out);
        self.report_ended_writes(out);
        if self.io.fencing {
            // Fencing may have waited for the successor, and the successor for the fencing, so both are driven once more.
            let from = out.len();
            self.go_on_fencing(out);
            self.mirror(from, out);
            if !self.io.fencing {
                self.go_on_replacing(out);
                self.report_ended_writes(out);
            }
        }
    }

    fn report_ended_writes(&mut self, out: &mut Commands) {
        let now = self.io.of_driver(self.io.now);
        for (id, failed) in std::mem::take(&mut self.ended_writes) {
            let result = if failed { Err(DeviceError) } else { Ok(()) };
            let known = self.complete_now(now, id, result, out);
            debug_assert!(known.is_ok(), "a write is in flight until it has ended wherever it was sent");
        }
    }

    /// Handles a command that the driver has carried out, or failed to, compiled into the caller.
    #[inline(always)]
    fn complete_now(
        &mut self,
        now: Nanos,
        id: IoId,
        result: Result<(), DeviceError>,
        out: &mut Commands,
    ) -> Result<(), DriverError> {
        let Some(command) = self.io.in_flight(id) else { return Err(DriverError::NotInFlight { io: id }) };
        let (purpose, device, again) = (command.purpose, command.device, command.again);
        let _now = self.io.advance(now);
        let failed = result.is_err() || self.io.is_fenced(device);
        if !failed
            && !again
            && let Purpose::Step(step) = purpose
            && self.placed.try_complete_plain(&mut self.io.call(out), id, step)
        {
            return Ok(());
        }
        self.complete_any(id, failed, out);
        Ok(())
    }

    /// Completes every command except the end of an access with no waiters.
    #[inline(never)]
    fn complete_any(&mut self, id: IoId, failed: bool, out: &mut Commands) {
        let Some(command) = self.io.in_flight(id).copied() else { return };
        if command.again && !failed {
            return self.io.call(out).write_again(id, &command);
        }
        self.io.finish(id, &command, failed);
        if failed && command.op == Op::Flush && !self.io.is_fenced(command.device) {
            self.fencing.flush_failed();
            self.succession_in_doubt();
            self.placed.flush_failed(&mut self.io.call(out), command.device);
        }
        match command.purpose {
            Purpose::Step(step) => self.placed.step(&mut self.io.call(out), step, &command, failed),
            Purpose::Probe => self.io.answered_probe(command.device),
            Purpose::Fence => self.fence_step(failed, out),
            Purpose::Copy => self.succession_step(failed),
            // The command that it belongs to reports it.
            Purpose::Twin => {}
        }
        if failed || self.io.fencing || self.io.refusing != 0 {
            self.after_failure(&command, failed, out);
        }
        self.report_answers();
    }

    /// Runs timers. Quick if none is due. Returns the next deadline.
    pub(crate) fn tick(&mut self, now: Nanos, out: &mut Commands) -> Option<Nanos> {
        if self.io.continues {
            self.io.set_ahead(now);
        }
        let now = self.io.advance(now);
        if now < self.io.deadline() {
            return self.deadline();
        }
        self.io.clear_deadline();
        self.placed.tick(&mut self.io.call(out));
        if self.io.fencing {
            self.go_on_fencing(out);
        }
        // What is overdue goes to the origin first: a device that rests would have to wake up for it.
        let is_overdue = self.io.tuning.spin_down_after.iter().any(Option::is_some)
            && self.placed.cleaning(&self.io, now).is_some_and(|cleaning| cleaning.overdue.is_some());
        self.io.call(out).tick_power(is_overdue);
        self.deadline()
    }

    /// The next deadline, or an earlier time.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        let deadline = self.io.deadline();
        (deadline != Nanos::MAX).then(|| self.io.of_driver(deadline))
    }

    /// Changes the settings that the format does not fix. On an error nothing changes.
    pub(crate) fn retune(
        &mut self,
        now: Nanos,
        mut tuning: config::Tuning,
        out: &mut Commands,
    ) -> Result<(), TuningError> {
        tuning.spin_down_after.resize(self.device_bytes.len(), None);
        tuning.check()?;
        self.placed.check(&tuning)?;
        self.check_with_new_size(&tuning)?;
        let before = std::mem::replace(&mut self.io.tuning, tuning);
        let now = self.io.advance(now);
        self.io.due(now);
        self.placed.retuned(&mut self.io.call(out), &before);
        Ok(())
    }

    /// Resets the statistics to zero.
    pub(crate) fn reset_statistics(&mut self) {
        let before = std::mem::replace(&mut self.io.stats, Stats::new(self.device_bytes.len()));
        self.placed.statistics_reset(&mut self.io, &before);
        if self.io.reports_answers() {
            self.io.stats.partition = Some(Default::default());
        }
    }

    /// Writes back all data that only the fast device has, without delay.
    pub(crate) fn write_all_back(&mut self, now: Nanos, out: &mut Commands) {
        self.io.advance(now);
        self.placed.write_all_back(&mut self.io.call(out));
    }

    /// The place of the volume's byte at `offset`.
    pub(crate) fn location(&self, offset: Bytes) -> Option<Location> {
        (offset < self.volume_size).then(|| self.placed.location(offset, self.volume_size - offset))
    }

    /// From where the volume's bytes at `offset` can be read.
    pub(crate) fn source(&self, offset: Bytes) -> Option<Source> {
        let Source { len, origin } =
            (offset < self.volume_size).then(|| self.placed.source(offset, self.volume_size - offset))?;
        let is_there = |(device, _): &(DeviceId, Bytes)| !self.io.is_fenced(*device);
        let origin = match origin {
            Origin::At { first, second } => {
                let mut copies = [Some(first), second].into_iter().flatten().filter(is_there);
                copies.next().map_or(Origin::Lost, |first| Origin::At { first, second: copies.next() })
            }
            other => other,
        };
        Some(Source { len: len.min(self.volume_size - offset), origin })
    }

    /// Whether nothing is in flight and nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.io.is_idle() && !self.io.fencing && self.placed.is_idle() && !self.puts_successor_in_charge()
    }

    /// The devices that are not fenced.
    pub(super) fn left(&self) -> impl Iterator<Item = DeviceId> + use<P> {
        let fenced = self.io.fenced;
        (0..self.device_bytes.len() as u8).map(DeviceId).filter(move |device| fenced >> device.index() & 1 == 0)
    }

    /// See [`Engine::keep_records`](crate::Engine::keep_records).
    pub(crate) fn keep_records(&mut self) {
        self.placed.keep_records();
        self.keeps = Some(self.io.fenced);
    }

    /// See [`Engine::label_of_records`](crate::Engine::label_of_records).
    pub(crate) fn label_of_records(&self) -> Option<Label> {
        let identity = self.identity.as_ref().expect("only a volume that was opened keeps records");
        let (volume, generation) = (identity.volume, identity.generation);
        let contents = self.placed.contents_of_records()?;
        Some(Label { volume, generation, boot: 0, devices: [0; MOST_DEVICES], contents })
    }

    /// See [`Engine::take_records`](crate::Engine::take_records).
    #[inline]
    pub(crate) fn take_records(&mut self, mut take: impl FnMut(Record)) {
        let Some(reported) = &mut self.keeps else { return };
        if *reported != self.io.fenced {
            *reported = self.io.fenced;
            take(Record::Gone { devices: self.io.fenced });
        }
        self.placed.take_records(&mut take);
    }

    /// See [`Engine::verify`](crate::Engine::verify).
    #[inline]
    pub(crate) fn verify(&self, id: IoId, buffers: &dyn Buffers) -> Option<Verification> {
        match self.io.in_flight(id)?.purpose {
            Purpose::Step(step) => self.placed.verify(step, buffers),
            Purpose::Probe | Purpose::Fence | Purpose::Copy | Purpose::Twin => None,
        }
    }

    /// Encodes the metadata of a command in flight.
    pub(crate) fn encode(&self, id: IoId, into: &mut [u8], buffers: Option<&dyn Buffers>) -> Result<(), DriverError> {
        let command = self.io.in_flight(id).ok_or(DriverError::NotInFlight { io: id })?;
        match command.purpose {
            Purpose::Fence => self.encode_fence(command, into),
            Purpose::Copy => self.encode_succession(into),
            Purpose::Twin => return self.encode(self.twin_of(id), into, buffers),
            Purpose::Step(step) if command.op == Op::Write && step.is_encoded() => {
                self.placed.encode(&self.io, command, step, into, buffers);
            }
            Purpose::Step(_) | Purpose::Probe => return Err(DriverError::NotMetadata { io: id }),
        }
        Ok(())
    }
}
