//! A device as the engine sees it: one model, or several as an array, striped, mirrored or with parity.
//!
//! The array is intact: no member fails in a simulation, and nothing is rebuilt. A write with parity reads first what it
//! needs for the new parity, all of it, and then writes; writes to one row do not wait for each other.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_device::{Accepted, DeviceStats, Io, PowerState, Tag, WearCounts};
use peryton_engine::Stats;
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    members::{Member, Members},
    nested::NestedDrive,
    parity::{Piece, Rows},
    redundancy::{ArrayWrites, Redundancy},
};

/// One device, or several of one kind with data distributed over them.
#[derive(Debug)]
pub(crate) struct Array {
    members: Members,
    stripe: u64,
    /// Members, or pairs of them with equal data, over which stripes are distributed. With parity: members whose capacity is left for data.
    data: u64,
    redundancy: Redundancy,
    /// The commands in flight on members, by tag.
    parts: Vec<Parts>,
    /// Writes that have read what they need, and when. The reads of models without a queue are known to end later.
    ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    writes: ArrayWrites,
    /// For mirrors, what each member has been given to read.
    readers: Vec<Reader>,
    /// Reused.
    finished: Vec<(Tag, Nanos)>,
    pieces: (Vec<Piece>, Vec<Piece>),
}

/// A command in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Parts {
    /// Number of members that have not finished.
    left: u32,
    /// The latest end among the others.
    latest: Nanos,
    /// The write that follows the reads of it.
    then: Option<Io>,
    /// The member of a mirror that reads.
    reader: Option<usize>,
}

/// The reads that a member of a mirror has been given.
#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    /// Number in flight, where a member decides later when they end.
    queued: u32,
    /// When the last of the others ends.
    until: Nanos,
    /// The end of the last one, where a sequential read continues.
    next: u64,
}

/// The share of each member in `size` bytes: whole stripes, and more with redundancy. `data` is the number of members
/// whose capacity is left for data.
pub(crate) fn member_bytes(size: Bytes, data: u32, stripe: Bytes, redundancy: Redundancy) -> Bytes {
    if data == 1 && redundancy.parity() == 0 {
        return size;
    }
    stripe * size.0.div_ceil(stripe.0).div_ceil(u64::from(data))
}

impl Array {
    /// # Panics
    /// If there is no member, the stripe is empty, or this many members have no such redundancy.
    pub(crate) fn new(members: Vec<Member>, stripe: Bytes, redundancy: Redundancy) -> Array {
        assert!(!members.is_empty() && stripe > Bytes::ZERO, "an array has members and stripes");
        let Some(data) = redundancy.data_devices(members.len() as u32) else {
            panic!("{} are no {redundancy}", members.len());
        };
        Array {
            readers: vec![Reader::default(); members.len()],
            members: Members::new(members),
            stripe: stripe.0,
            data: u64::from(data),
            redundancy,
            parts: Vec::new(),
            ready: BinaryHeap::new(),
            writes: ArrayWrites::default(),
            finished: Vec::new(),
            pieces: (Vec::new(), Vec::new()),
        }
    }

    #[inline(always)]
    pub(crate) fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        match self.members.only_mut() {
            Some(only) => only.submit(now, tag, io),
            None => self.submit_to_members(now, tag, io),
        }
    }

    #[inline(never)]
    fn submit_to_members(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        let (mut first, mut second) = std::mem::take(&mut self.pieces);
        self.place(now, io, &mut first, &mut second);
        let mut parts = Parts { latest: now, ..Parts::default() };
        if io.op == Op::Write {
            self.writes.writes += 1;
            if !second.is_empty() {
                self.writes.after_reads += 1;
                self.writes.parity_reads += first.len() as u64;
                parts.then = Some(io);
            } else {
                self.writes.member_writes += first.len() as u64;
            }
        }
        let op = if parts.then.is_some() { Op::Read } else { io.op };
        let mirrored = self.redundancy == Redundancy::Mirror && op == Op::Read;
        for piece in &first {
            let part = Io { op, at: Bytes(piece.at), len: Bytes(piece.len) };
            let accepted = self.members.submit(piece.member, now, tag, part);
            let reader = &mut self.readers[piece.member];
            reader.next = piece.at + piece.len;
            match accepted {
                Accepted::At(at) => {
                    parts.latest = parts.latest.max(at);
                    if mirrored {
                        reader.until = reader.until.max(at);
                    }
                }
                Accepted::Queued => {
                    parts.left += 1;
                    if mirrored {
                        reader.queued += 1;
                        // Of several, one is enough to keep the balance.
                        if let Some(other) = parts.reader.replace(piece.member) {
                            self.readers[other].queued -= 1;
                        }
                    }
                }
            }
        }
        self.pieces = (first, second);
        if parts.left == 0 && parts.then.is_none() {
            return Accepted::At(parts.latest);
        }
        if parts.left == 0 {
            self.ready.push(Reverse((parts.latest, tag.0)));
        }
        let at = tag.0 as usize;
        if at >= self.parts.len() {
            self.parts.resize(at + 1, Parts::default());
        }
        debug_assert_eq!(self.parts[at].left, 0, "tag {at} is in flight twice");
        self.parts[at] = parts;
        Accepted::Queued
    }

    /// The ranges on members of a command. If a write has to read first, the first are read and the second written.
    fn place(&mut self, now: Nanos, io: Io, first: &mut Vec<Piece>, second: &mut Vec<Piece>) {
        first.clear();
        second.clear();
        if io.op == Op::Flush {
            let whole = |member| Piece { member, at: io.at.0, len: io.len.0 };
            first.extend(self.members.numbers().map(whole));
            return;
        }
        if self.redundancy.parity() > 0 {
            let (members, parity) = (self.members.count() as u64, u64::from(self.redundancy.parity()));
            let rows = Rows { stripe: self.stripe, members, parity };
            match io.op {
                Op::Write if io.len > Bytes::ZERO => {
                    rows.write(io.at, io.len, first, second);
                    if first.is_empty() {
                        std::mem::swap(first, second);
                    }
                }
                Op::Discard => rows.whole_rows(io.at, io.len, first),
                _ => rows.read(io.at, io.len, first),
            }
            return;
        }
        let copies = if self.redundancy == Redundancy::Mirror { 2 } else { 1 };
        for group in self.groups(io) {
            let Some(part) = self.part(group, io) else { continue };
            let piece = |member| Piece { member, at: part.at.0, len: part.len.0 };
            let pair = group as usize * copies;
            if copies == 1 || io.op == Op::Read {
                first.push(piece(if copies == 1 { pair } else { self.reader(now, pair, part.at) }));
            } else {
                first.extend([pair, pair + 1].map(piece));
            }
        }
    }

    /// The member of a mirrored pair that reads: the one whose last command ended here, so that sequential reads stay
    /// together, else the one with less to do.
    fn reader(&self, now: Nanos, pair: usize, at: Bytes) -> usize {
        let load = |member: usize| {
            let reader = &self.readers[member];
            (reader.next != at.0, reader.queued, reader.until.max(now), reader.next.abs_diff(at.0))
        };
        if load(pair + 1) < load(pair) { pair + 1 } else { pair }
    }

    /// The members, or mirrored pairs, of a command, in their order.
    fn groups(&self, io: Io) -> impl Iterator<Item = u64> + use<> {
        let (count, first) = (self.data, io.at.0 / self.stripe);
        let stripes = ((io.at.0 + io.len.0).div_ceil(self.stripe) - first).min(count);
        let end = first % count + stripes;
        // What goes round past the last member begins again at the first.
        (0..end.saturating_sub(count)).chain(first % count..end.min(count))
    }

    /// The part of a command on one member, or one mirrored pair: its consecutive stripes are adjacent there.
    fn part(&self, group: u64, io: Io) -> Option<Io> {
        let (count, stripe, end) = (self.data, self.stripe, io.at.0 + io.len.0);
        let position = |at: u64| {
            // The number of bytes of the group before `at`.
            let (row, within_row) = (at / (stripe * count), at % (stripe * count));
            row * stripe + within_row.saturating_sub(group * stripe).min(stripe)
        };
        let (from, to) = (position(io.at.0), position(end));
        (to > from).then(|| Io { at: Bytes(from), len: Bytes(to - from), ..io })
    }

    /// The time when [`Array::advance`] next has something to do.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self.members.only() {
            Some(only) => only.next_event(),
            None => self.next_event_of_members(),
        }
    }

    #[inline(never)]
    fn next_event_of_members(&self) -> Option<Nanos> {
        let members = self.members.next_event();
        match self.ready.peek() {
            None => members,
            Some(Reverse((at, _))) => Some(members.map_or(*at, |members| members.min(*at))),
        }
    }

    /// Does the work that is due at `now`, and reports the completed commands.
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        match self.members.only_mut() {
            Some(only) => only.advance(now, completed),
            None => self.advance_members(now, completed),
        }
    }

    #[inline(never)]
    fn advance_members(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        let mut finished = std::mem::take(&mut self.finished);
        self.members.advance(now, &mut finished);
        for (tag, at) in finished.drain(..) {
            let parts = &mut self.parts[tag.0 as usize];
            parts.left -= 1;
            parts.latest = parts.latest.max(at);
            if parts.left > 0 {
                continue;
            }
            if let Some(reader) = parts.reader.take() {
                self.readers[reader].queued -= 1;
            }
            match parts.then {
                Some(_) => self.ready.push(Reverse((parts.latest, tag.0))),
                None => completed.push((tag, parts.latest)),
            }
        }
        self.finished = finished;
        while let Some(Reverse((at, tag))) = self.ready.peek().copied().filter(|ready| ready.0.0 <= now) {
            self.ready.pop();
            if let Accepted::At(end) = self.write_after_reads(now.max(at), tag) {
                completed.push((Tag(tag), end));
            }
        }
    }

    /// The second half of a write that has read what it needs.
    fn write_after_reads(&mut self, now: Nanos, tag: u32) -> Accepted {
        let io = self.parts[tag as usize].then.take().expect("only writes are pending");
        let (mut reads, mut writes) = std::mem::take(&mut self.pieces);
        self.place(now, io, &mut reads, &mut writes);
        let mut parts = Parts { latest: now, ..Parts::default() };
        self.writes.member_writes += writes.len() as u64;
        for piece in &writes {
            let part = Io { op: Op::Write, at: Bytes(piece.at), len: Bytes(piece.len) };
            match self.members.submit(piece.member, now, Tag(tag), part) {
                Accepted::At(at) => parts.latest = parts.latest.max(at),
                Accepted::Queued => parts.left += 1,
            }
        }
        self.pieces = (reads, writes);
        self.parts[tag as usize] = parts;
        if parts.left == 0 { Accepted::At(parts.latest) } else { Accepted::Queued }
    }

    pub(crate) fn set_power(&mut self, now: Nanos, state: PowerState) {
        self.members.each(|member| member.set_power(now, state)).for_each(drop);
    }

    /// The statistics of each member; those of a drive are its devices'.
    pub(crate) fn stats(&mut self, now: Nanos) -> Vec<DeviceStats> {
        self.members.each(|member| member.stats(now)).flatten().collect()
    }

    /// Number of members, of a drive those of its devices.
    pub(crate) fn members(&self) -> usize {
        self.members.iter().map(|member| member.drive().map_or(1, NestedDrive::members)).sum()
    }

    /// The same as [`Array::stats`], for many moments of a run: [`Device::counts`](peryton_device::Device::counts).
    pub(crate) fn counts(&mut self, now: Nanos) -> impl Iterator<Item = DeviceStats> {
        self.members.each(move |member| member.counts(now)).flatten()
    }

    /// Finds out what the members have yet to do in idle time: [`Device::settle`](peryton_device::Device::settle).
    pub(crate) fn settle(&mut self, now: Nanos) {
        self.members.each(|member| member.settle(now)).for_each(drop);
    }

    /// What has worn each member.
    pub(crate) fn wear(&self) -> impl Iterator<Item = WearCounts> {
        self.members.iter().flat_map(Member::wear)
    }

    /// What redundancy made of the writes, of a drive to each of its devices; `None` without redundancy.
    pub(crate) fn array_writes(&self) -> Vec<Option<ArrayWrites>> {
        match self.members.iter().find_map(Member::drive) {
            Some(drive) => drive.array_writes(),
            None => vec![(self.redundancy != Redundancy::None).then_some(self.writes)],
        }
    }

    /// The statistics of the engines of the drives that it has as members.
    pub(crate) fn drives(&self) -> impl Iterator<Item = Stats> {
        self.members.iter().filter_map(Member::drive).flat_map(NestedDrive::drives)
    }

    pub(crate) fn reset_stats(&mut self, now: Nanos) {
        self.writes = ArrayWrites::default();
        self.members.each(|member| member.reset_stats(now)).for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use peryton_device::Profile;
    use proptest::prelude::*;

    use super::*;

    fn array(count: u32, stripe: u64, size: u64) -> Array {
        redundant(count, stripe, size, Redundancy::None)
    }

    fn redundant(count: u32, stripe: u64, size: u64, redundancy: Redundancy) -> Array {
        let data = redundancy.data_devices(count).unwrap();
        let each = member_bytes(Bytes(size), data, Bytes(stripe), redundancy);
        let profile = Profile::named("fixed").unwrap();
        let members = (0..count).map(|n| Member::Model(profile.build(Some(each), u64::from(n)).unwrap())).collect();
        Array::new(members, Bytes(stripe), redundancy)
    }

    /// The end of a command, however many steps it takes.
    fn end(array: &mut Array, now: Nanos, io: Io) -> Nanos {
        let mut completed = Vec::new();
        if let Accepted::At(at) = array.submit(now, Tag(7), io) {
            return at;
        }
        while let Some(at) = array.next_event() {
            array.advance(at, &mut completed);
        }
        assert_eq!(completed.len(), 1, "{completed:?}");
        completed[0].1
    }

    proptest! {
        /// Byte by byte: compares the parts with the member and place of each byte by the definition of striping.
        #[test]
        fn every_byte_goes_to_its_member_once(
            count in 2u32..6, stripe in 1u64..9, at in 0u64..200, len in 0u64..200,
        ) {
            let array = array(count, stripe, 400);
            let io = Io { op: Op::Write, at: Bytes(at), len: Bytes(len) };
            let touched: Vec<u64> = array.groups(io).filter(|&group| array.part(group, io).is_some()).collect();
            let all = (0..u64::from(count)).filter(|&group| array.part(group, io).is_some());
            prop_assert_eq!(touched, all.collect::<Vec<_>>());
            let mut expected = vec![Vec::new(); count as usize];
            for byte in at..at + len {
                let number = byte / stripe;
                let member = (number % u64::from(count)) as usize;
                expected[member].push(number / u64::from(count) * stripe + byte % stripe);
            }
            for (member, bytes) in expected.iter().enumerate() {
                let part = array.part(member as u64, io);
                let got: Vec<u64> = part.map_or(Vec::new(), |io| (io.at.0..io.at.0 + io.len.0).collect());
                prop_assert_eq!(&got, bytes, "member {}", member);
                if let Some(part) = part {
                    prop_assert!(part.at + part.len <= member_bytes(Bytes(400), count, Bytes(stripe), Redundancy::None));
                }
            }
        }
    }

    #[test]
    fn a_wide_write_uses_every_member_at_once() {
        let mut array = array(4, 4096, 1 << 20);
        let io = Io { op: Op::Write, at: Bytes::ZERO, len: Bytes(16384) };
        // Each member serves its stripe in 200 us, at the same time.
        assert_eq!(array.submit(Nanos::ZERO, Tag(0), io), Accepted::At(Nanos::from_us(200)));
        assert!(array.stats(Nanos::from_us(200)).iter().all(|stats| stats.writes == 1));
    }

    #[test]
    fn mirrors_write_twice_and_read_at_once_from_both() {
        let mut array = redundant(2, 4096, 1 << 20, Redundancy::Mirror);
        let io = |op, at| Io { op, at: Bytes(at), len: Bytes(4096) };
        assert_eq!(end(&mut array, Nanos::ZERO, io(Op::Write, 0)), Nanos::from_us(200));
        let now = Nanos::from_ms(1);
        // A device with constant latency serves one read in 40 us; the second goes to the other member.
        let ends = [0, 65536, 1 << 17].map(|at| array.submit(now, Tag(1), io(Op::Read, at)));
        let after = |us| Accepted::At(now + Nanos::from_us(us));
        assert_eq!(ends, [after(40), after(40), after(80)]);
        let stats = array.stats(Nanos::from_ms(2));
        assert!(stats.iter().all(|stats| stats.writes == 1 && stats.reads >= 1), "{stats:?}");
        let writes = ArrayWrites { writes: 1, member_writes: 2, ..ArrayWrites::default() };
        assert_eq!(array.array_writes(), [Some(writes)]);
    }

    #[test]
    fn a_small_write_with_parity_reads_before_it_writes() {
        for (redundancy, commands) in [(Redundancy::Raid5, 4), (Redundancy::Raid6, 6)] {
            let mut array = redundant(6, 4096, 1 << 20, redundancy);
            let io = Io { op: Op::Write, at: Bytes(8192), len: Bytes(4096) };
            // 40 us of reads at the same time, then 200 us of writes.
            assert_eq!(end(&mut array, Nanos::ZERO, io), Nanos::from_us(240), "{redundancy}");
            let stats = array.stats(Nanos::from_ms(1));
            let sum: u64 = stats.iter().map(|stats| stats.reads + stats.writes).sum();
            assert_eq!(sum, commands);
            assert_eq!(commands, u64::from(redundancy.commands_of_a_small_write()));
            let whole = Io { at: Bytes::ZERO, len: Bytes(4096 * (6 - u64::from(redundancy.parity()))), ..io };
            assert_eq!(end(&mut array, Nanos::from_ms(1), whole), Nanos::from_us(1200), "{redundancy}");
            let writes = array.array_writes()[0].unwrap();
            assert_eq!((writes.writes, writes.after_reads, writes.parity_reads), (2, 1, commands / 2));
        }
    }

    #[test]
    fn disks_with_parity_end_every_write() {
        let profile = Profile::named("seagate-st4000dm000").unwrap();
        let members = (0..5).map(|n| Member::Model(profile.build(None, n).unwrap())).collect();
        let mut array = Array::new(members, Bytes::kib(64), Redundancy::Raid6);
        let mut completed = Vec::new();
        let mut now = Nanos::ZERO;
        for tag in 0..200u32 {
            let at = Bytes(u64::from(tag.wrapping_mul(2_654_435_761) % 1_000_000) << 12);
            let op = if tag % 3 == 0 { Op::Read } else { Op::Write };
            let accepted = array.submit(now, Tag(tag), Io { op, at, len: Bytes::kib(4 << (tag % 7)) });
            if let Accepted::At(end) = accepted {
                completed.push((Tag(tag), end));
            }
            if tag % 4 == 0
                && let Some(next) = array.next_event()
            {
                now = now.max(next);
                array.advance(now, &mut completed);
            }
        }
        while let Some(next) = array.next_event() {
            now = now.max(next);
            array.advance(now, &mut completed);
            assert!(now < Nanos::from_s(60), "no end");
        }
        let mut tags: Vec<u32> = completed.iter().map(|(tag, _)| tag.0).collect();
        tags.sort_unstable();
        assert_eq!(tags, (0..200).collect::<Vec<_>>());
    }
}
