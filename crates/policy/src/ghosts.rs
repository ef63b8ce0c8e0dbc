//! Ghosts of a policy that asks only whether an extent has left a queue of late: 2Q's second queue, and S3-FIFO's ghosts.

use crate::{Recent, saving::Saving};

/// The extents that left a queue last, at most so many.
///
/// An extent that comes again is recognised before another one makes room for it. Otherwise the ghost of that other one could push
/// it out in the same moment.
#[derive(Clone, Debug)]
pub(crate) struct Ghosts {
    recent: Recent<()>,
    most: usize,
    /// The ghost that is about to be given a slot.
    returning: Option<u32>,
}

impl Ghosts {
    pub(crate) fn new(most: u32) -> Ghosts {
        Ghosts { recent: Recent::default(), most: most as usize, returning: None }
    }

    /// Records that an extent is about to be given a slot.
    pub(crate) fn admitting(&mut self, extent: u32) {
        // A drive may do other things between the two, and give up one of them.
        if let Some(before) = self.returning.take() {
            self.put(before);
        }
        self.returning = self.recent.take(extent).map(|()| extent);
    }

    /// Whether the extent that was given a slot was a ghost; it is none any more.
    pub(crate) fn take(&mut self, extent: u32) -> bool {
        let returns = self.returning == Some(extent);
        if returns {
            self.returning = None;
        }
        returns || self.recent.take(extent).is_some()
    }

    /// Adds an extent that has left; the oldest one beyond the most is forgotten.
    pub(crate) fn put(&mut self, extent: u32) {
        self.recent.put(extent, (), self.most, |()| {});
    }

    /// Saves the ghosts; returns whether that is complete.
    pub(crate) fn save(&self, list: u8, to: &mut Saving<'_>) -> bool {
        let complete = to.recent(list, &self.recent, |extent, ()| [extent]);
        if complete && let Some(extent) = self.returning {
            to.put(list, &[extent]);
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extent_that_makes_room_does_not_push_out_the_one_that_comes() {
        let mut ghosts = Ghosts::new(2);
        ghosts.put(1);
        ghosts.put(2);
        ghosts.admitting(1);
        ghosts.put(3);
        assert!(ghosts.take(1));
        assert_eq!([1, 2, 3].map(|extent| ghosts.take(extent)), [false, true, true]);
    }

    #[test]
    fn an_extent_that_was_not_given_its_slot_stays_a_ghost() {
        let mut ghosts = Ghosts::new(2);
        ghosts.put(1);
        ghosts.admitting(1);
        ghosts.admitting(5);
        assert!(!ghosts.take(5));
        assert!(ghosts.take(1));
    }
}
