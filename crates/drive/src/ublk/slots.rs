//! The places for requests of a block device: each has at most one request at a time, and goes from the kernel to the server and
//! back. No I/O happens here, so that every order of events can be tested.

use std::collections::VecDeque;

use peryton_units::{Bytes, Nanos};

use super::{
    request::{Kind, Limits, Request},
    wire::Descriptor,
};

/// The most discards that the volume has at a time. The engine divides each into extents, all of which are in flight together.
const MOST_DISCARDS: u32 = 4;

/// The result of a command that waits for requests, if none will come any more (`UBLK_IO_RES_ABORT`).
const ABORTED: i32 = -libc::ENODEV;

/// A request that the volume has, or that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Serving {
    request: Request,
    arrived: Nanos,
    /// Whether it is carried out, and only the flush that it asked for remains.
    flushing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// The kernel has it, and puts the next request there.
    Fetching,
    /// A request is carried out.
    Serving(Serving),
    /// A request that the next server is to carry out: this one is about to end, and does not answer it.
    Left,
    /// The kernel has taken it back.
    Gone,
}

/// What to do about a slot that the kernel has handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Carry the request out.
    Submit(Request),
    /// Answer it with this error.
    Refuse(i32),
    /// Nothing for now: it waits, or is left to the next server, or the slot is gone.
    Nothing,
    /// The kernel has refused a command with this error: a fault of this program.
    Fault(i32),
}

/// What to do about a request that the volume has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replied {
    /// Flush, and come back with the result.
    Flush,
    /// Answer the kernel.
    Answer(Answer),
    /// Nothing: it failed for a server that is about to end, and the next one tries again.
    Nothing,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) request: Request,
    pub(crate) took: Nanos,
    /// A number of bytes, or a negative error number.
    pub(crate) result: i32,
}

/// All slots of a device: those of its first queue, then those of the second, and so on.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    limits: Limits,
    serving: u32,
    left: u32,
    /// Discards that the volume has, and those that wait for their turn.
    discards: u32,
    waiting: VecDeque<u32>,
    leaving: bool,
}

impl Slots {
    /// `count` slots, which the kernel has.
    pub(crate) fn new(count: u32, limits: Limits) -> Slots {
        let slots = vec![Slot::Fetching; count as usize];
        Slots { slots, limits, serving: 0, left: 0, discards: 0, waiting: VecDeque::new(), leaving: false }
    }

    /// Requests up to this size are taken from now on.
    pub(crate) fn grow(&mut self, size: Bytes) {
        self.limits.size = self.limits.size.max(size);
    }

    pub(crate) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The requests that were taken and not answered.
    pub(crate) fn serving(&self) -> u32 {
        self.serving
    }

    /// The requests that were left to the next server.
    pub(crate) fn left(&self) -> u32 {
        self.left
    }

    /// From now on requests that arrive are left to the next server.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
        // Nothing of these has begun.
        for slot in self.waiting.drain(..) {
            self.slots[slot as usize] = Slot::Left;
            self.left += 1;
            self.serving -= 1;
        }
    }

    /// Handles the end of a command that waited for a request in `slot`.
    #[inline]
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        slot: u32,
        result: i32,
        descriptor: impl FnOnce() -> Descriptor,
    ) -> Arrived {
        let place = &mut self.slots[slot as usize];
        assert!(*place == Slot::Fetching, "a request arrived in slot {slot}, which is {place:?}");
        if result != 0 {
            *place = Slot::Gone;
            let expected = result == ABORTED || result == -libc::ECANCELED;
            return if expected { Arrived::Nothing } else { Arrived::Fault(result) };
        }
        if self.leaving {
            *place = Slot::Left;
            self.left += 1;
            return Arrived::Nothing;
        }
        match Request::decode(&descriptor(), &self.limits) {
            // The slot goes back to the kernel with the answer.
            Err(error) => Arrived::Refuse(error),
            Ok(request) => {
                *place = Slot::Serving(Serving { request, arrived: now, flushing: false });
                self.serving += 1;
                if request.kind != Kind::Discard {
                    return Arrived::Submit(request);
                }
                if self.discards == MOST_DISCARDS {
                    self.waiting.push_back(slot);
                    return Arrived::Nothing;
                }
                self.discards += 1;
                Arrived::Submit(request)
            }
        }
    }

    /// Whether the volume's next reply for the request in `slot` is that to a flush.
    #[inline]
    pub(crate) fn flushes(&self, slot: u32) -> bool {
        matches!(self.slots[slot as usize], Slot::Serving(serving) if serving.flushing || serving.request.kind == Kind::Flush)
    }

    /// Whether the request in `slot` is a read.
    #[inline]
    pub(crate) fn reads(&self, slot: u32) -> bool {
        matches!(self.slots[slot as usize], Slot::Serving(serving) if serving.request.kind == Kind::Read)
    }

    /// Handles the volume's reply for the request in `slot`: `Ok`, or the negative error number for the kernel.
    #[inline]
    pub(crate) fn replied(&mut self, now: Nanos, slot: u32, result: Result<(), i32>) -> Replied {
        let place = &mut self.slots[slot as usize];
        let Slot::Serving(serving) = place else { unreachable!("the volume answered slot {slot}, which is {place:?}") };
        if serving.request.kind == Kind::Discard && !serving.flushing {
            self.discards -= 1;
        }
        if result.is_ok() && serving.request.fua && !serving.flushing {
            serving.flushing = true;
            return Replied::Flush;
        }
        let Serving { request, arrived, .. } = *serving;
        self.serving -= 1;
        if self.leaving && result.is_err() {
            // Perhaps it failed because a device was not waited for any longer.
            *place = Slot::Left;
            self.left += 1;
            return Replied::Nothing;
        }
        *place = Slot::Fetching;
        let result = result.map_or_else(|error| error, |()| request.done());
        Replied::Answer(Answer { request, took: now.saturating_sub(arrived), result })
    }

    /// The next discard whose turn has come.
    pub(crate) fn next_discard(&mut self) -> Option<(u32, Request)> {
        if self.discards == MOST_DISCARDS {
            return None;
        }
        let slot = self.waiting.pop_front()?;
        let Slot::Serving(serving) = self.slots[slot as usize] else { unreachable!("slot {slot} waits") };
        self.discards += 1;
        Some((slot, serving.request))
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;
    use proptest::prelude::*;

    use super::{
        super::wire::{F_FUA, OP_DISCARD, OP_FLUSH, OP_READ, OP_WRITE},
        *,
    };

    const LIMITS: Limits = Limits { size: Bytes(1 << 30), longest: Bytes(64 << 10), longest_zeroes: Bytes(1 << 20) };

    fn ask(op: u8, flags: u32) -> Descriptor {
        Descriptor { op, flags: flags | u32::from(op), sectors: 8, first_sector: 8 }
    }

    fn arrive(slots: &mut Slots, slot: u32, op: u8, flags: u32) -> Arrived {
        slots.arrived(Nanos(1_000), slot, 0, || ask(op, flags))
    }

    #[test]
    fn a_request_is_answered_once_and_its_slot_goes_back() {
        let mut slots = Slots::new(2, LIMITS);
        for op in [OP_READ, OP_WRITE, OP_FLUSH] {
            let Arrived::Submit(request) = arrive(&mut slots, 1, op, 0) else { panic!("not submitted") };
            assert_eq!(slots.serving(), 1);
            let Replied::Answer(answer) = slots.replied(Nanos(4_000), 1, Ok(())) else { panic!("not answered") };
            assert_eq!(answer, Answer { request, took: Nanos(3_000), result: request.done() });
            assert_eq!(slots.serving(), 0);
        }
    }

    #[test]
    fn a_write_with_fua_is_answered_after_a_flush_and_a_failed_one_without() {
        let mut slots = Slots::new(1, LIMITS);
        arrive(&mut slots, 0, OP_WRITE, F_FUA);
        assert_eq!(slots.replied(Nanos::ZERO, 0, Ok(())), Replied::Flush);
        let Replied::Answer(answer) = slots.replied(Nanos::ZERO, 0, Err(-libc::EIO)) else { panic!("not answered") };
        assert_eq!(answer.result, -libc::EIO, "the flush failed");
        arrive(&mut slots, 0, OP_WRITE, F_FUA);
        let Replied::Answer(answer) = slots.replied(Nanos::ZERO, 0, Err(-libc::ENOSPC)) else { panic!("flushed") };
        assert_eq!(answer.result, -libc::ENOSPC);
    }

    #[test]
    fn a_request_that_is_refused_leaves_its_slot_to_the_kernel() {
        let mut slots = Slots::new(1, LIMITS);
        assert_eq!(arrive(&mut slots, 0, 77, 0), Arrived::Refuse(-libc::EOPNOTSUPP));
        assert!(matches!(arrive(&mut slots, 0, OP_READ, 0), Arrived::Submit(_)));
    }

    #[test]
    fn discards_take_turns() {
        let mut slots = Slots::new(8, LIMITS);
        for slot in 0..7 {
            let submitted = matches!(arrive(&mut slots, slot, OP_DISCARD, 0), Arrived::Submit(_));
            assert_eq!(submitted, slot < MOST_DISCARDS);
        }
        assert!(matches!(arrive(&mut slots, 7, OP_WRITE, 0), Arrived::Submit(_)), "others do not wait for discards");
        assert_eq!(slots.next_discard(), None);
        slots.replied(Nanos::ZERO, 2, Ok(()));
        assert_eq!(slots.next_discard().map(|(slot, _)| slot), Some(4));
        assert_eq!(slots.next_discard(), None);
        // A discard with FUA makes way while it is flushed.
        arrive(&mut slots, 2, OP_DISCARD, F_FUA);
        for slot in [0, 1, 3] {
            slots.replied(Nanos::ZERO, slot, Ok(()));
        }
        let next: Vec<u32> = std::iter::from_fn(|| slots.next_discard().map(|(slot, _)| slot)).collect();
        assert_eq!(next, [5, 6, 2]);
        assert_eq!(slots.replied(Nanos::ZERO, 2, Ok(())), Replied::Flush);
        arrive(&mut slots, 0, OP_DISCARD, 0);
        slots.replied(Nanos::ZERO, 2, Ok(()));
        assert_eq!(slots.discards, 4);
    }

    #[test]
    fn a_server_that_leaves_answers_what_it_has_begun_and_nothing_else() {
        let mut slots = Slots::new(8, LIMITS);
        arrive(&mut slots, 0, OP_WRITE, F_FUA);
        for slot in 1..7 {
            arrive(&mut slots, slot, OP_DISCARD, 0);
        }
        slots.leave();
        assert_eq!((slots.serving(), slots.left()), (5, 2), "discards that waited have not begun");
        assert_eq!(arrive(&mut slots, 7, OP_WRITE, 0), Arrived::Nothing);
        assert_eq!(slots.left(), 3);
        assert_eq!(slots.replied(Nanos::ZERO, 0, Ok(())), Replied::Flush, "what was promised is kept");
        for slot in 0..5 {
            assert!(matches!(slots.replied(Nanos::ZERO, slot, Ok(())), Replied::Answer(_)));
        }
        assert_eq!((slots.serving(), slots.next_discard()), (0, None));
        // The kernel has put the next request into a slot that was answered.
        assert_eq!(arrive(&mut slots, 0, OP_READ, 0), Arrived::Nothing);
        assert_eq!((slots.serving(), slots.left()), (0, 4));
    }

    #[test]
    fn what_fails_while_the_server_leaves_is_tried_again_by_the_next_one() {
        let mut slots = Slots::new(2, LIMITS);
        arrive(&mut slots, 0, OP_WRITE, 0);
        arrive(&mut slots, 1, OP_WRITE, F_FUA);
        slots.leave();
        assert_eq!(slots.replied(Nanos::ZERO, 0, Err(-libc::EIO)), Replied::Nothing);
        assert_eq!(slots.replied(Nanos::ZERO, 1, Ok(())), Replied::Flush);
        assert_eq!(slots.replied(Nanos::ZERO, 1, Err(-libc::EIO)), Replied::Nothing, "the flush failed");
        assert_eq!((slots.serving(), slots.left()), (0, 2));
    }

    #[test]
    fn a_device_that_was_stopped_takes_its_slots_back() {
        let mut slots = Slots::new(3, LIMITS);
        arrive(&mut slots, 1, OP_WRITE, 0);
        let never = || unreachable!("a slot that is gone has no request");
        assert_eq!(slots.arrived(Nanos::ZERO, 0, -libc::ENODEV, never), Arrived::Nothing);
        slots.replied(Nanos::ZERO, 1, Ok(()));
        assert_eq!(slots.arrived(Nanos::ZERO, 1, -libc::ECANCELED, never), Arrived::Nothing);
        assert_eq!(slots.arrived(Nanos::ZERO, 2, -libc::EINVAL, never), Arrived::Fault(-libc::EINVAL));
        assert!(slots.slots.iter().all(|slot| *slot == Slot::Gone));
    }

    proptest! {
        /// Whatever comes in whatever order, every request that was taken is answered once, and none is forgotten.
        #[test]
        fn every_request_is_answered_once(
            steps in prop::collection::vec((0_u32..6, 0_u8..7, any::<bool>(), any::<bool>()), 1..400),
            leave_at in 0_usize..600,
        ) {
            let mut slots = Slots::new(6, LIMITS);
            // What the volume has; what the kernel waits for.
            let (mut volume, mut asked) = (Vec::new(), [false; 6]);
            let mut left = false;
            for (step, (slot, op, fua, fails)) in steps.into_iter().enumerate() {
                if step == leave_at {
                    slots.leave();
                    left = true;
                }
                if !asked[slot as usize] {
                    match slots.arrived(Nanos::ZERO, slot, 0, || ask(op, if fua { F_FUA } else { 0 })) {
                        Arrived::Submit(_) => {
                            prop_assert!(!left);
                            volume.push(slot);
                            asked[slot as usize] = true;
                        }
                        Arrived::Refuse(_) => prop_assert!(op == 4 || op == 6),
                        Arrived::Nothing => asked[slot as usize] = true,
                        Arrived::Fault(_) => prop_assert!(false),
                    }
                } else if let Some(at) = volume.iter().position(|other| *other == slot) {
                    let result = if fails { Err(-libc::EIO) } else { Ok(()) };
                    match slots.replied(Nanos::ZERO, slot, result) {
                        Replied::Answer(_) => {
                            volume.swap_remove(at);
                            asked[slot as usize] = false;
                        }
                        Replied::Nothing => {
                            prop_assert!(left && fails);
                            volume.swap_remove(at);
                        }
                        Replied::Flush => {}
                    }
                }
                while let Some((slot, _)) = slots.next_discard() {
                    prop_assert!(!left && !volume.contains(&slot));
                    volume.push(slot);
                }
                prop_assert!(slots.serving() as usize >= volume.len());
            }
            // The volume answers the rest.
            while let Some(slot) = volume.pop() {
                if slots.replied(Nanos::ZERO, slot, Ok(())) == Replied::Flush {
                    volume.push(slot);
                } else {
                    asked[slot as usize] = false;
                }
                while let Some((slot, _)) = slots.next_discard() {
                    volume.push(slot);
                }
            }
            prop_assert_eq!(slots.serving(), 0);
            prop_assert_eq!(slots.left() as usize, asked.iter().filter(|asked| **asked).count());
        }
    }
}
