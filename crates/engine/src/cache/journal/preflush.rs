//! The flushes before a commit of the map is written, and the choice of the gathered updates in it. An update may say
//! that the slow device has data that the fast one had; it is recorded only when these data are durable there.

/// The flushes of the host that wait for the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostFlushes {
    None,
    /// Moves wait as well.
    AmongOthers,
    Alone,
}

/// The purpose of the commit, and the events since the slow device was flushed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// No copy was ever newer than its origin.
    pub(super) never_dirty: bool,
    /// Data would be at risk if an update stayed behind.
    pub(super) must_flush_slow: bool,
    /// Every update has to be in the commit.
    pub(super) wants_all: bool,
    /// A flush of a journal block made host data on the slow device durable.
    pub(super) slow_was_flushed: bool,
    /// The host has written to the slow device since it was flushed.
    pub(super) slow_is_unflushed: bool,
    /// One of the two devices is gone.
    pub(super) degraded: bool,
    pub(super) host_flushes: HostFlushes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preflush {
    /// The slow device, which has all data of the host. The updates wait until a request or move needs a commit.
    OriginsAlone,
    /// The fast device. Updates that wait for the slow device's flush stay behind.
    Fast,
    /// The fast device, and every update is in the commit: an origin has what a given-up copy had.
    FastWithAll,
    /// Both devices, and every update is in the commit.
    Both,
}

impl Needs {
    pub(super) fn preflush(self) -> Preflush {
        let origins_have_all = self.never_dirty && !self.must_flush_slow;
        if origins_have_all && !self.wants_all && self.host_flushes == HostFlushes::Alone {
            return Preflush::OriginsAlone;
        }
        if origins_have_all && self.host_flushes == HostFlushes::None && !self.degraded {
            return Preflush::FastWithAll;
        }
        let all = self.must_flush_slow || self.wants_all || self.degraded;
        if all || self.slow_was_flushed || self.slow_is_unflushed { Preflush::Both } else { Preflush::Fast }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_called_durable_on_the_slow_device_before_its_flush() {
        for case in 0..64 {
            for host_flushes in [HostFlushes::None, HostFlushes::AmongOthers, HostFlushes::Alone] {
                let bit = |index: u32| case >> index & 1 == 1;
                let needs = Needs {
                    never_dirty: bit(0),
                    must_flush_slow: bit(1),
                    wants_all: bit(2),
                    slow_was_flushed: bit(3),
                    slow_is_unflushed: bit(4),
                    degraded: bit(5),
                    host_flushes,
                };
                let chosen = needs.preflush();
                let flushes_slow = matches!(chosen, Preflush::Both | Preflush::OriginsAlone);
                let takes_all = matches!(chosen, Preflush::Both | Preflush::FastWithAll);
                let case = format!("{needs:?}: {chosen:?}");
                assert!(!takes_all || flushes_slow || needs.never_dirty, "{case}");
                assert!(host_flushes == HostFlushes::None || !needs.slow_is_unflushed || flushes_slow, "{case}");
                assert!(!(needs.must_flush_slow || needs.wants_all) || takes_all, "{case}");
                assert!(!needs.must_flush_slow || flushes_slow, "{case}");
            }
        }
    }
}
