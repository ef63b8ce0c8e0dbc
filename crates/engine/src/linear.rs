//! The baselines without a map: one device without change, or several one after the other (GreenDM, section 3.1).

use peryton_format::layout::MetadataLayout;
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Buffers, Cause, DeviceId, IoId, Request, RequestId},
    api::error::{ConfigError, RequestError},
    api::location::{Location, Losses, Origin, Source},
    io::{self, InFlight, RequestIndex},
    placement::PlacementOps,
};

/// The purpose of a command of such a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Part of a host request.
    Host { request: RequestIndex },
    /// A flush of a device.
    Flush,
}

impl io::Step for Step {
    #[inline]
    fn flushes_itself(&self) -> bool {
        false
    }

    fn is_metadata(&self) -> bool {
        false
    }

    fn is_encoded(&self) -> bool {
        false
    }
}

/// The I/O state of such a drive.
type Io = io::Io<Step>;
type Call<'a> = io::Call<'a, Step>;

#[derive(Debug)]
pub(crate) struct Linear {
    /// The start of each device on the volume, in order.
    segments: Vec<(Bytes, DeviceId)>,
    size: Bytes,
    data_at: Bytes,
    /// For each segment, the host flushes that wait.
    flushes: Vec<Flushes>,
    /// Host flushes that wait until the fencing of a device is durable.
    held: Vec<RequestIndex>,
}

/// The host flushes of one device: those that arrive while a flush is in flight share the next one.
#[derive(Debug, Default)]
struct Flushes {
    in_flight: bool,
    current: Vec<RequestIndex>,
    next: Vec<RequestIndex>,
}

impl Linear {
    pub(crate) fn new(order: &[DeviceId], devices: &[Bytes]) -> Result<Linear, ConfigError> {
        let mut segments: Vec<(Bytes, DeviceId)> = Vec::new();
        let mut size = Bytes::ZERO;
        for device in order {
            if device.index() >= devices.len() || segments.iter().any(|(_, other)| other == device) {
                return Err(ConfigError::Device { device: device.index(), devices: devices.len() });
            }
            segments.push((size, *device));
            let len = devices[device.index()];
            size = size.checked_add(len).filter(|_| len > Bytes::ZERO).ok_or(ConfigError::TooSmall {
                device: device.index(),
                size: len,
                need: Bytes::kib(4),
            })?;
        }
        if segments.is_empty() {
            return Err(ConfigError::Device { device: 0, devices: devices.len() });
        }
        let flushes = segments.iter().map(|_| Flushes::default()).collect();
        Ok(Linear { segments, size, data_at: MetadataLayout::bare().data_at, flushes, held: Vec::new() })
    }

    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    /// The size that a device needs for `data` bytes: superblocks need additional space.
    pub(crate) fn device_bytes(data: Bytes) -> Bytes {
        MetadataLayout::bare().device_bytes(data)
    }

    fn flushed(&mut self, io: &mut Call, device: DeviceId, failed: bool) {
        let index = self.segments.iter().position(|(_, other)| *other == device);
        let flushes = &mut self.flushes[index.expect("a device that was flushed has a segment")];
        flushes.in_flight = false;
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        if io.is_fenced(device) {
            flushes.current.append(&mut flushes.next);
        }
        for request in flushes.current.drain(..) {
            io.part_done(request, result);
        }
        if flushes.next.is_empty() {
            return;
        }
        std::mem::swap(&mut flushes.current, &mut flushes.next);
        flushes.in_flight = io.flush_if_needed(device, Step::Flush);
        assert!(flushes.in_flight, "those who wait for the next flush have something to flush");
    }

    fn is_all_fenced(&self, io: &Io) -> bool {
        self.segments.iter().all(|(_, device)| io.is_fenced(*device))
    }
}

impl PlacementOps for Linear {
    type Step = Step;

    #[inline(always)]
    fn try_hit(&mut self, io: &mut Call, id: RequestId, asked: Request) -> bool {
        // With one device, which has everything, a request is a command.
        let [(_, device)] = self.segments[..] else { return false };
        if io.is_fenced(device) || asked.len == Bytes::ZERO || !matches!(asked.op, Op::Read | Op::Write) {
            return false;
        }
        let request = io.begin(id, asked.op);
        let (at, len) = ((device, self.data_at + asked.offset), asked.len);
        let (buffer, step) = (Buffer::Request { id, offset: Bytes::ZERO }, Step::Host { request });
        match asked.op {
            Op::Write => io.write(at, len, buffer, step, Cause::Host),
            _ => io.read(at, len, buffer, step, Cause::Host),
        }
        true
    }

    #[inline(always)]
    fn try_complete_plain(&mut self, io: &mut Call, id: IoId, step: Step) -> bool {
        let Step::Host { request } = step else { return false };
        io.finish_plain(id);
        io.part_done(request, Ok(()));
        true
    }

    #[inline]
    fn submit(&mut self, io: &mut Call, request: RequestIndex, asked: Request) {
        let end = asked.offset + asked.len;
        for (index, (start, device)) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
            let (from, to) = (asked.offset.max(*start), end.min(next));
            if from >= to {
                continue;
            }
            // In designs the first device is the fast one, so its share of the accesses is the hit ratio.
            if self.segments.len() > 1 && asked.op != Op::Discard {
                let hit = index == 0;
                io.stats.fast_hits += u64::from(hit);
                io.stats.fast_misses += u64::from(!hit);
            }
            io.add_part(request);
            if io.fenced != 0 && io.is_fenced(*device) {
                io.part_done(request, Err(RequestError::Device));
                continue;
            }
            let buffer = Buffer::Request { id: io.id_of(request), offset: from - asked.offset };
            let step = Step::Host { request };
            let (at, len) = ((*device, self.data_at + (from - *start)), to - from);
            match asked.op {
                Op::Read => io.read(at, len, buffer, step, Cause::Host),
                Op::Write => io.write(at, len, buffer, step, Cause::Host),
                Op::Discard => io.discard(at, len, step),
                Op::Flush => unreachable!("a flush has no range"),
            }
        }
    }

    fn flush(&mut self, io: &mut Call, request: RequestIndex) {
        if io.fencing {
            io.add_part(request);
            return self.held.push(request);
        }
        if io.fenced != 0 && self.is_all_fenced(io) {
            io.add_part(request);
            return io.part_done(request, Err(RequestError::Device));
        }
        for ((_, device), flushes) in self.segments.iter().zip(&mut self.flushes) {
            if io.is_fenced(*device) {
                continue;
            }
            if flushes.in_flight {
                io.add_part(request);
                // A command that completed after the flush in flight began is not covered by it.
                let covered = !io.is_unflushed_by_host(*device);
                if covered { flushes.current.push(request) } else { flushes.next.push(request) }
            } else if io.flush_if_needed(*device, Step::Flush) {
                io.add_part(request);
                flushes.in_flight = true;
                flushes.current.push(request);
            }
        }
    }

    #[inline]
    fn step(&mut self, io: &mut Call, step: Step, command: &InFlight<Step>, failed: bool) {
        match step {
            Step::Host { request } => {
                let result = if failed { Err(RequestError::Device) } else { Ok(()) };
                io.part_done(request, result);
            }
            Step::Flush => self.flushed(io, command.device, failed),
        }
    }

    fn encode(&self, _: &Io, _: &InFlight<Step>, _: Step, _: &mut [u8], _: Option<&dyn Buffers>) {
        unreachable!("a drive without a map writes no metadata")
    }

    fn location(&self, offset: Bytes, _: Bytes) -> Location {
        let index = self.segments.partition_point(|(start, _)| *start <= offset) - 1;
        let next = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
        let device = Some(self.segments[index].1);
        Location { len: next - offset, device, mapped: true, dirty: false, lost: false }
    }

    fn source(&self, offset: Bytes, rest: Bytes) -> Source {
        let index = self.segments.partition_point(|(start, _)| *start <= offset) - 1;
        let (start, device) = self.segments[index];
        let at = self.data_at + (offset - start);
        Source { len: self.location(offset, rest).len, origin: Origin::At { first: (device, at), second: None } }
    }

    /// The ranges of fenced devices.
    fn losses(&self, io: &Io, most: usize) -> Losses {
        let mut losses = Losses::default();
        for (index, (start, device)) in self.segments.iter().enumerate() {
            if io.is_fenced(*device) {
                let end = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
                losses.add(start.0, end.0, most);
            }
        }
        losses
    }

    /// What the host wrote lies nowhere else: every flush that waits for the device fails, or the next one that is asked for.
    fn flush_failed(&mut self, io: &mut Call, device: DeviceId) {
        let Some(index) = self.segments.iter().position(|(_, other)| *other == device) else { return };
        let in_doubt = io.take_host_doubt(device);
        io.write_again_later(device);
        let Flushes { current, next, .. } = &mut self.flushes[index];
        let mut reported = false;
        for request in current.drain(..).chain(next.drain(..)) {
            reported |= io.part_failed(request);
        }
        // One that waits for another device as well is answered later, and none may succeed before.
        if in_doubt && !reported {
            io.owe_error();
        }
    }

    fn fail_flushes(&mut self, io: &mut Call) {
        for request in std::mem::take(&mut self.held) {
            io.flush_fails(request);
        }
    }

    fn fence(&mut self, _: &mut Call, device: DeviceId) -> bool {
        self.segments.iter().any(|(_, other)| *other == device)
    }

    /// If the fenced device was the only one, no device is left to flush.
    #[cold]
    fn fence_is_durable(&mut self, io: &mut Call) {
        if io.owes_error {
            return self.fail_flushes(io);
        }
        for request in std::mem::take(&mut self.held) {
            self.flush(io, request);
            io.part_done(request, Ok(()));
        }
    }

    fn without(&mut self, io: &Io, _: DeviceId) -> bool {
        !self.is_all_fenced(io)
    }
}
