//! The baselines without a map: one device as it is, or several one after the other (GreenDM, section 3.1).

use peryton_format::layout::MetadataLayout;
use peryton_units::{Bytes, Op};

use crate::{
    command::{Buffer, Cause, Commands, DeviceId, Request},
    core::{Core, Purpose, RequestIndex},
    engine::Whereabouts,
    error::{ConfigError, RequestError},
    failure::Losses,
};

#[derive(Debug)]
pub(crate) struct Linear {
    /// Each device with where it begins on the volume, in order.
    segments: Vec<(Bytes, DeviceId)>,
    size: Bytes,
    data_at: Bytes,
    /// For each segment, the host flushes that wait.
    flushes: Vec<Flushes>,
    /// Host flushes that wait until it is durable that a device is gone.
    held: Vec<RequestIndex>,
}

/// Host flushes of one device: as many as come while one is under way share the next.
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

    pub(crate) fn whereabouts(&self, offset: Bytes) -> Whereabouts {
        let index = self.segments.partition_point(|(start, _)| *start <= offset) - 1;
        let next = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
        let device = Some(self.segments[index].1);
        Whereabouts { len: next - offset, device, mapped: true, dirty: false, lost: false }
    }

    /// What a device with `data` bytes of data has to hold: superblocks come on top.
    pub(crate) fn device_bytes(data: Bytes) -> Bytes {
        MetadataLayout::bare().device_bytes(data)
    }

    #[inline]
    pub(crate) fn submit(&self, core: &mut Core, request: RequestIndex, asked: Request, out: &mut Commands) {
        let end = asked.offset + asked.len;
        for (index, (start, device)) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
            let (from, to) = (asked.offset.max(*start), end.min(next));
            if from >= to {
                continue;
            }
            // The first device is the fast one by convention of the designs: its share is the hit ratio.
            if self.segments.len() > 1 && asked.op != Op::Discard {
                let hit = index == 0;
                core.ledger.fast_hits += u64::from(hit);
                core.ledger.fast_misses += u64::from(!hit);
            }
            core.add_part(request);
            if core.dead != 0 && core.is_dead(*device) {
                core.part_done(request, Err(RequestError::Device), out);
                continue;
            }
            let buffer = Buffer::Request { id: core.id_of(request), offset: from - asked.offset };
            let purpose = Purpose::Host { request, first: 0, count: 0 };
            let (at, len) = ((*device, self.data_at + (from - *start)), to - from);
            match asked.op {
                Op::Read => core.read(at, len, buffer, purpose, Cause::Host, out),
                Op::Write => core.write(at, len, buffer, purpose, Cause::Host, out),
                Op::Discard => core.discard(at, len, purpose, out),
                Op::Flush => unreachable!("a flush has no range"),
            }
        }
    }

    pub(crate) fn flush(&mut self, core: &mut Core, request: RequestIndex, out: &mut Commands) {
        if core.burying {
            core.add_part(request);
            return self.held.push(request);
        }
        if core.dead != 0 && self.is_all_dead(core) {
            core.add_part(request);
            return core.part_done(request, Err(RequestError::Device), out);
        }
        for ((_, device), flushes) in self.segments.iter().zip(&mut self.flushes) {
            if core.is_dead(*device) {
                continue;
            }
            if flushes.in_flight {
                core.add_part(request);
                // What completed after the flush under way began is not covered by it.
                let covered = !core.is_unflushed_by_host(*device);
                if covered { flushes.current.push(request) } else { flushes.next.push(request) }
            } else if core.flush_if_needed(*device, Purpose::HostFlush, out) {
                core.add_part(request);
                flushes.in_flight = true;
                flushes.current.push(request);
            }
        }
    }

    pub(crate) fn flushed(&mut self, core: &mut Core, device: DeviceId, failed: bool, out: &mut Commands) {
        let index = self.segments.iter().position(|(_, other)| *other == device);
        let flushes = &mut self.flushes[index.expect("a device that was flushed has a segment")];
        flushes.in_flight = false;
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        if core.is_dead(device) {
            flushes.current.append(&mut flushes.next);
        }
        for request in flushes.current.drain(..) {
            core.part_done(request, result, out);
        }
        if flushes.next.is_empty() {
            return;
        }
        std::mem::swap(&mut flushes.current, &mut flushes.next);
        flushes.in_flight = core.flush_if_needed(device, Purpose::HostFlush, out);
        assert!(flushes.in_flight, "those who wait for the next flush have something to flush");
    }

    pub(crate) fn is_all_dead(&self, core: &Core) -> bool {
        self.segments.iter().all(|(_, device)| core.is_dead(*device))
    }

    pub(crate) fn has(&self, device: DeviceId) -> bool {
        self.segments.iter().any(|(_, other)| *other == device)
    }

    /// It is durable that a device is gone. If that was the only one, nothing is left to flush.
    #[cold]
    pub(crate) fn buried(&mut self, core: &mut Core, out: &mut Commands) {
        let mut held = std::mem::take(&mut self.held);
        let fails = !held.is_empty() && std::mem::take(&mut core.owes_error);
        for request in held.drain(..) {
            if !fails {
                self.flush(core, request, out);
            }
            core.part_done(request, if fails { Err(RequestError::Device) } else { Ok(()) }, out);
        }
    }

    /// The ranges of dead devices.
    pub(crate) fn losses(&self, core: &Core, most: usize) -> Losses {
        let mut losses = Losses::default();
        for (index, (start, device)) in self.segments.iter().enumerate() {
            if core.is_dead(*device) {
                let end = self.segments.get(index + 1).map_or(self.size, |(next, _)| *next);
                losses.add(start.0, end.0, most);
            }
        }
        losses
    }
}
