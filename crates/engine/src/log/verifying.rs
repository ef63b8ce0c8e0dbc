//! Verifies data from before the opening of the volume before their first use (`unverified.rs` lists them). The header
//! of an append has the checksums, so whole appends are read: at once, or piece by piece if the device cannot read all
//! of one. Host reads wait for the verification, and are answered from the same buffer. A migration reads ahead,
//! several appends with one command. It moves only verified data, so damaged data never get a valid checksum.
//!
//! `damage.rs` records the damage. The engine never sees data, so the driver compares: it calls
//! [`LogDrive::verify_unit`] before it reports that a read has ended.

use std::collections::VecDeque;

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    log::header::{AppendBody, AppendHeader, AppendMember, data_checksum},
    log::{HEADER, SECTOR},
    mutation::{self, Mutation},
};
use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Buffers, Cause, Command},
    api::error::RequestError,
    api::verification::Verification,
    io::RequestIndex,
    log::append::BUFFERS,
    log::drive::LogDrive,
    log::layout::BUFFER,
    log::migration::WRITES,
    log::ready::Turn,
    log::step::{LogCall, LogStep},
    log::unverified::Unit,
};

/// The number of units that are read at once; each has a buffer.
pub(in crate::log) const VERIFIES: u32 = 4;

/// A unit that is being read.
#[derive(Debug)]
struct Reading {
    unit: Unit,
    /// Commands in flight.
    pending: u8,
    failed: bool,
    result: Option<Verification>,
}

/// A part of a host read that waits until what it reads is verified. It counts as a reader of its segment.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Waiter {
    pub(in crate::log) request: RequestIndex,
    pub(in crate::log) at: u64,
    pub(in crate::log) len: u64,
    /// Where its data goes in the request's buffer.
    pub(in crate::log) buffer: u64,
}

/// The units that are being verified, and the reads that wait for them.
#[derive(Debug, Default)]
pub(in crate::log) struct Verifying {
    slots: [Option<Reading>; VERIFIES as usize],
    /// No more than there are parts of host reads in flight.
    waiting: Vec<Waiter>,
    /// Places and lengths for which a slot is wanted.
    queue: VecDeque<(u64, u64)>,
}

impl Verifying {
    pub(in crate::log) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.slots.iter().all(Option::is_none)
    }

    fn free_slot(&self) -> Option<u32> {
        (0..).zip(&self.slots).find(|(_, slot)| slot.is_none()).map(|(index, _)| index)
    }
}

fn buffer_of(slot: u32, offset: u64) -> Buffer {
    Buffer::Move { index: BUFFERS + WRITES + slot, offset: Bytes(offset) }
}

impl LogDrive {
    /// Lets a part of a host read wait until its data are verified.
    #[cold]
    pub(in crate::log) fn wait_until_verified(&mut self, io: &mut LogCall, waiter: Waiter) {
        self.verifying.waiting.push(waiter);
        self.verifying.queue.push_back((waiter.at, waiter.len));
        self.pump_verifying(io);
    }

    fn pump_verifying(&mut self, io: &mut LogCall) {
        while let Some(slot) = self.verifying.free_slot()
            && let Some((at, len)) = self.verifying.queue.pop_front()
        {
            // If the data are being read already, the end of that read answers the waiting parts.
            if let Some(unit) = self.log.unit_of(at, len, 0) {
                self.read_unit(io, slot, unit, Cause::Host);
            }
        }
    }

    /// Verifies the data that a migration needs next, from this place on.
    #[cold]
    pub(in crate::log) fn verify_ahead(&mut self, io: &mut LogCall, at: u64) -> bool {
        let (segment, mut from, mut any) = (self.log.segment_of(at), at, false);
        while let Some(slot) = self.verifying.free_slot()
            && let Some(next) = self.log.first_unverified(segment, from)
            && let Some(unit) = self.log.unit_of(next, 1, BUFFER)
        {
            from = match unit {
                Unit::Appends { to, .. } | Unit::Piece { to, .. } => to,
            };
            self.read_unit(io, slot, unit, Cause::WriteBack);
            any = true;
        }
        any
    }

    /// Verifies some used and unverified data; returns whether there were any.
    pub(crate) fn verify_more(&mut self, io: &mut LogCall) -> bool {
        let order: Vec<u32> = self.log.order.iter().copied().collect();
        let next = order.into_iter().find_map(|segment| self.log.first_unverified(segment, 0));
        next.is_some_and(|at| self.verify_ahead(io, at))
    }

    fn read_unit(&mut self, io: &mut LogCall, slot: u32, unit: Unit, cause: Cause) {
        let first = unit.first();
        let segment = self.log.segment_of(first);
        let end = self.log.start_of(segment) + self.log.segment_bytes();
        let parts = match unit {
            Unit::Appends { from, to } => [Some((from, to.next_multiple_of(BLOCK))), None],
            // Reads no sector more than needed, because a neighbour may be unreadable.
            Unit::Piece { append, from, to } => {
                [Some((append, append + HEADER)), Some((from / SECTOR * SECTOR, to.next_multiple_of(SECTOR)))]
            }
        };
        self.log.reads_unit(unit);
        self.log.segments[segment as usize].readers += 1;
        let mut pending = 0;
        for (from, to) in parts.into_iter().flatten() {
            let to = to.min(end).min(first + BUFFER);
            let buffer = buffer_of(slot, from - first);
            io.read(self.log_place(from), Bytes(to - from), buffer, LogStep::Verify { slot }, cause);
            pending += 1;
        }
        self.verifying.slots[slot as usize] = Some(Reading { unit, pending, failed: false, result: None });
    }

    /// Compares the data of the last read of a unit with their checksums.
    pub(in crate::log) fn verify_unit(&self, slot: u32, buffers: &dyn Buffers) -> Option<Verification> {
        let Reading { unit, pending: 1, failed: false, .. } = self.verifying.slots[slot as usize].as_ref()? else {
            return None;
        };
        let (mut damaged, mut unverifiable) = (Vec::new(), false);
        match *unit {
            Unit::Appends { .. } => {
                for (from, to, sequence) in self.log.appends_of(*unit) {
                    let places = self.records_in(from, to);
                    unverifiable |=
                        !self.compare((slot, unit.first(), buffers), (from, sequence), places, &mut damaged);
                }
            }
            Unit::Piece { append, from, to } => {
                let sequence = self.log.sequence_at(append)?;
                let places = vec![(from, to)];
                unverifiable = !self.compare((slot, append, buffers), (append, sequence), places, &mut damaged);
            }
        }
        Some(Verification { slot, damaged, unverifiable })
    }

    /// The places of an append's records, from and to.
    fn records_in(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let segment = self.log.segment_of(from);
        let start = self.log.start_of(segment);
        let records = &self.log.segments[segment as usize].records;
        let first = records.partition_point(|record| start + u64::from(record.within) < from);
        let places = records[first..].iter().map(|record| {
            let at = start + u64::from(record.within);
            (at, at + u64::from(record.len))
        });
        places.take_while(|(at, _)| *at < to).collect()
    }

    /// Adds those of `places` in an append to `damaged` that are missing or cannot be verified. Returns whether the
    /// checksums can be read.
    fn compare(
        &self,
        (slot, first, buffers): (u32, u64, &dyn Buffers),
        (append, sequence): (u64, u64),
        places: Vec<(u64, u64)>,
        damaged: &mut Vec<(u64, u64)>,
    ) -> bool {
        let bytes = |from: u64, len: u64| buffers.bytes(buffer_of(slot, from - first), Bytes(len));
        let volume = self.volume.expect("only what was found on a device is verified");
        let opened = self.log.segments[self.log.segment_of(append) as usize].opened;
        let header = AppendHeader::decode(bytes(append, BLOCK_LEN as u64), volume, append);
        let header = header.filter(|header| (header.sequence, header.opened) == (sequence, opened));
        let members = header.and_then(|header| match header.body {
            AppendBody::Data(members) => Some(members),
            AppendBody::Index(_) => None,
        });
        if members.is_none() && self.trusts_unverifiable || mutation::is(Mutation::VerifyNothing) {
            return false;
        }
        for (from, to) in places {
            let is_it = |member: &&AppendMember| {
                (append + u64::from(member.within), u64::from(member.len)) == (from, to - from)
            };
            let member = members.as_ref().and_then(|members| members.iter().find(is_it));
            if member.is_none_or(|member| data_checksum(bytes(from, to - from)) != member.checksum) {
                damaged.push((from, to));
            }
        }
        members.is_some()
    }

    /// The result of a comparison. The end of the read that it belongs to follows.
    pub(in crate::log) fn verified(&mut self, result: Verification) {
        if let Some(reading) = &mut self.verifying.slots[result.slot as usize] {
            reading.result = Some(result);
        }
    }

    /// A read of a unit has ended.
    #[cold]
    pub(in crate::log) fn verify_step(&mut self, io: &mut LogCall, slot: u32, failed: bool) {
        let reading = self.verifying.slots[slot as usize].as_mut().expect("it was being read");
        reading.pending -= 1;
        reading.failed |= failed;
        if reading.pending > 0 {
            return;
        }
        let reading = self.verifying.slots[slot as usize].take().expect("it was being read");
        let unit = reading.unit;
        let result = reading.result.filter(|_| !reading.failed);
        match &result {
            Some(Verification { damaged, unverifiable, .. }) => {
                self.has_unverifiable |= unverifiable;
                for (from, to) in damaged {
                    self.log.damage(*from, to - from);
                    io.stats.logging_mut().damaged_bytes += to - from;
                }
                self.log.settle_unit(unit);
            }
            None => self.log.unit_is_unreadable(unit),
        }
        self.answer_waiters(io, (slot, unit, result.is_none()));
        self.log.read_ended(self.log.segment_of(unit.first()));
        self.pump_verifying(io);
        self.ready.push(Turn::Migration);
    }

    /// Answers the parts of host reads that the read of this unit decides.
    fn answer_waiters(&mut self, io: &mut LogCall, (slot, unit, failed): (u32, Unit, bool)) {
        let first = unit.first();
        let (low, high) = match unit {
            Unit::Appends { from, to } | Unit::Piece { from, to, .. } => (from, to),
        };
        for waiter in std::mem::take(&mut self.verifying.waiting) {
            let Waiter { request, at, len, buffer } = waiter;
            let segment = self.log.segment_of(at);
            let concerned = low < at + len && at < high;
            let result = if self.gone.log || self.stopped.any() {
                Err(RequestError::Device)
            } else if self.log.is_damaged(at, len) {
                Err(RequestError::Lost)
            } else if self.log.is_unverified(at, len) {
                if concerned && failed && matches!(unit, Unit::Piece { .. }) {
                    Err(RequestError::Device)
                } else {
                    if concerned {
                        self.verifying.queue.push_back((at, len));
                    }
                    self.verifying.waiting.push(waiter);
                    continue;
                }
            } else {
                let place = Buffer::Request { id: io.id_of(request), offset: Bytes(buffer) };
                if low > at || at + len > high {
                    // Its pieces were verified one by one.
                    let purpose = LogStep::Read { request, segment };
                    io.read(self.log_place(at), Bytes(len), place, purpose, Cause::Host);
                    continue;
                }
                io.out.push(Command::Copy { from: buffer_of(slot, at - first), to: place, len: Bytes(len) });
                Ok(())
            };
            self.log.read_ended(segment);
            io.part_done(request, result);
        }
        if self.gone.log || self.stopped.any() {
            self.verifying.queue.clear();
        }
    }
}
