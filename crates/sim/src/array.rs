//! A device as the engine sees it: one model, or several striped.

use peryton_device::{Accepted, Device, DeviceStats, Io, PowerState, Tag};
use peryton_units::{Bytes, Nanos, Op};

/// One device, or several of one kind with data striped across them (RAID 0).
#[derive(Clone, Debug)]
pub(crate) struct Array {
    members: Vec<Device>,
    stripe: u64,
    /// For each command in flight on several members: the number of members that have not finished, and the latest end
    /// among the others. Indexed by tag.
    parts: Vec<(u32, Nanos)>,
    /// Reused by [`Array::advance`].
    finished: Vec<(Tag, Nanos)>,
}

/// The share of each of `count` members in `size` bytes: whole stripes.
pub(crate) fn member_bytes(size: Bytes, count: u32, stripe: Bytes) -> Bytes {
    if count == 1 {
        return size;
    }
    stripe * size.0.div_ceil(stripe.0).div_ceil(u64::from(count))
}

impl Array {
    /// # Panics
    /// If there is no member, or the stripe is empty.
    pub(crate) fn new(members: Vec<Device>, stripe: Bytes) -> Array {
        assert!(!members.is_empty() && stripe > Bytes::ZERO, "an array has members and stripes");
        Array { members, stripe: stripe.0, parts: Vec::new(), finished: Vec::new() }
    }

    #[inline]
    pub(crate) fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        match &mut self.members[..] {
            [only] => only.submit(now, tag, io),
            _ => self.submit_striped(now, tag, io),
        }
    }

    fn submit_striped(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        let mut latest = now;
        let mut queued = 0;
        for index in 0..self.members.len() {
            let part = match io.op {
                Op::Flush => io,
                _ => match self.part(index as u64, io) {
                    Some(part) => part,
                    None => continue,
                },
            };
            match self.members[index].submit(now, tag, part) {
                Accepted::At(at) => latest = latest.max(at),
                Accepted::Queued => queued += 1,
            }
        }
        if queued == 0 {
            return Accepted::At(latest);
        }
        let at = tag.0 as usize;
        if at >= self.parts.len() {
            self.parts.resize(at + 1, (0, Nanos::ZERO));
        }
        debug_assert_eq!(self.parts[at].0, 0, "tag {at} is in flight twice");
        self.parts[at] = (queued, latest);
        Accepted::Queued
    }

    /// The part of a command on one member: its consecutive stripes are adjacent on the member.
    fn part(&self, member: u64, io: Io) -> Option<Io> {
        let (stripe, count) = (self.stripe, self.members.len() as u64);
        let end = io.at.0 + io.len.0;
        let position = |at: u64| {
            // The number of bytes of the member before `at`.
            let (row, within_row) = (at / (stripe * count), at % (stripe * count));
            row * stripe + within_row.saturating_sub(member * stripe).min(stripe)
        };
        let (from, to) = (position(io.at.0), position(end));
        (to > from).then(|| Io { at: Bytes(from), len: Bytes(to - from), ..io })
    }

    /// The time when [`Array::advance`] next has something to do.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.members.iter().filter_map(Device::next_event).min()
    }

    /// Does the work that is due at `now`, and reports the completed commands.
    pub(crate) fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        if let [only] = &mut self.members[..] {
            only.advance(now, completed);
            return;
        }
        let mut finished = std::mem::take(&mut self.finished);
        for member in &mut self.members {
            member.advance(now, &mut finished);
        }
        for (tag, at) in finished.drain(..) {
            let (left, latest) = &mut self.parts[tag.0 as usize];
            *left -= 1;
            *latest = (*latest).max(at);
            if *left == 0 {
                completed.push((tag, *latest));
            }
        }
        self.finished = finished;
    }

    pub(crate) fn set_power(&mut self, now: Nanos, state: PowerState) {
        for member in &mut self.members {
            member.set_power(now, state);
        }
    }

    /// The statistics of each member.
    pub(crate) fn stats(&mut self, now: Nanos) -> Vec<DeviceStats> {
        self.members.iter_mut().map(|member| member.stats(now)).collect()
    }

    pub(crate) fn reset_stats(&mut self, now: Nanos) {
        for member in &mut self.members {
            member.reset_stats(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_device::Profile;
    use proptest::prelude::*;

    use super::*;

    fn array(count: u32, stripe: u64, size: u64) -> Array {
        let each = member_bytes(Bytes(size), count, Bytes(stripe));
        let profile = Profile::named("fixed").unwrap();
        let members = (0..count).map(|n| profile.build(Some(each), u64::from(n)).unwrap()).collect();
        Array::new(members, Bytes(stripe))
    }

    proptest! {
        /// Byte by byte: compares the parts with the member and place of each byte by the definition of striping.
        #[test]
        fn every_byte_goes_to_its_member_once(
            count in 2u32..6, stripe in 1u64..9, at in 0u64..200, len in 0u64..200,
        ) {
            let array = array(count, stripe, 400);
            let io = Io { op: Op::Write, at: Bytes(at), len: Bytes(len) };
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
                    prop_assert!(part.at + part.len <= member_bytes(Bytes(400), count, Bytes(stripe)));
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
}
