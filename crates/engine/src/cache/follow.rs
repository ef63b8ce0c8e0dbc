//! What follows when a command of the host has ended, besides its answer. The command owns it: its step leads to these rows, and its end
//! consumes them, so that nothing is looked up by request or by extent.

use crate::io::slab::Slab;

/// What follows the end of an access to one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum Then {
    /// The access has read these blocks from the slow device, although the slot has newer ones: the newer ones are read over them.
    Overlay(u16),
    /// The access's buffer has the data of this fill, which counts the command as one of its own.
    Feed(u32),
}

#[derive(Clone, Copy, Debug)]
struct Row {
    extent: u32,
    then: Then,
    next: Follow,
}

/// What follows the end of one command: a list, in the order of its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Follow(u32);

impl Follow {
    pub(in crate::cache) const NOTHING: Follow = Follow(u32::MAX);
    /// A write of whole extents has gone to their origins past their copies, which are given up (partitioned).
    pub(in crate::cache) const PAST: Follow = Follow(u32::MAX - 1);
}

/// What follows the ends of all commands of the host in flight. Most own nothing here.
#[derive(Debug)]
pub(in crate::cache) struct Follows {
    rows: Slab<Row>,
}

impl Follows {
    pub(in crate::cache) fn new() -> Follows {
        Follows { rows: Slab::new() }
    }

    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Adds `then` for the end of an access to the extent, in front of the list `next`.
    pub(in crate::cache) fn add(&mut self, extent: u32, then: Then, next: Follow) -> Follow {
        Follow(self.rows.insert(Row { extent, then, next }))
    }

    /// What follows two accesses whose commands become one.
    pub(in crate::cache) fn join(&mut self, first: Follow, second: Follow) -> Follow {
        if first == Follow::NOTHING || first == Follow::PAST {
            return second;
        }
        let mut last = first;
        while self.rows[last.0].next != Follow::NOTHING {
            last = self.rows[last.0].next;
        }
        self.rows[last.0].next = second;
        first
    }

    /// Takes the next of what follows, if it concerns this extent.
    pub(in crate::cache) fn take(&mut self, follow: &mut Follow, extent: u32) -> Option<Then> {
        if *follow == Follow::NOTHING || self.rows[follow.0].extent != extent {
            return None;
        }
        let Row { then, next, .. } = self.rows[follow.0];
        self.rows.remove(follow.0);
        *follow = next;
        Some(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_become_one_own_what_each_did() {
        let mut follows = Follows::new();
        let first = follows.add(3, Then::Overlay(1), Follow::NOTHING);
        let first = follows.add(3, Then::Feed(7), first);
        let second = follows.add(5, Then::Overlay(2), Follow::NOTHING);
        let mut other = follows.add(3, Then::Overlay(4), Follow::NOTHING);
        let mut all = follows.join(first, Follow::NOTHING);
        all = follows.join(Follow::NOTHING, all);
        all = follows.join(all, second);
        let mut taken = Vec::new();
        for extent in 3..7 {
            while let Some(then) = follows.take(&mut all, extent) {
                taken.push((extent, then));
            }
        }
        assert_eq!(taken, [(3, Then::Feed(7)), (3, Then::Overlay(1)), (5, Then::Overlay(2))]);
        assert_eq!((all, follows.is_empty()), (Follow::NOTHING, false), "what another command owns stays");
        assert_eq!(follows.take(&mut other, 3), Some(Then::Overlay(4)));
        assert!(follows.is_empty());
    }
}
