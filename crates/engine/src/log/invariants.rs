//! The invariants that hold between any two calls; tests check them after every step.

use crate::{log::drive::LogDrive, log::segments::State};

impl LogDrive {
    /// Panics with a description of the first violation. `quiet`: no command is in flight.
    pub(in crate::log) fn check_tables(&self, quiet: bool) {
        let mut live = vec![0; self.log.segments.len()];
        self.map.walk(0, self.size, |from, to, place| {
            if let Some(at) = place {
                let segment = self.log.segment_of(at);
                assert_eq!(segment, self.log.segment_of(at + (to - from) - 1), "a place straddles two segments");
                live[segment as usize] += to - from;
            }
        });
        assert!(self.has_one_tenant_a_place(), "a place in the log has two tenants");
        assert_eq!(live.iter().sum::<u64>(), self.log.live, "the count of logged bytes is off");
        let freed: Vec<u32> = self.commit.freed().collect();
        for (index, (segment, live)) in self.log.segments.iter().zip(live).enumerate() {
            let index = index as u32;
            assert_eq!(segment.live, live, "the live bytes of segment {index} are off");
            let in_use = matches!(segment.state, State::Open | State::Closed);
            assert!(in_use || live == 0, "segment {index} is given up but needed");
            assert!(in_use || segment.appends == 0, "segment {index} is given up but written");
            assert_eq!(in_use, self.log.order.contains(&index), "segment {index} is lost");
            assert_eq!(segment.state == State::Free, self.log.is_free(index), "segment {index} is in two states");
            assert!(segment.state != State::Free || segment.readers == 0, "segment {index} is free but read");
            let waits = segment.state == State::Draining { committed: false };
            assert_eq!(waits, freed.contains(&index), "segment {index} waits for a commit that does not come");
            let recorded: u64 = segment.records.iter().map(|record| u64::from(record.len)).sum();
            assert!(recorded >= live, "segment {index} holds more than its records say");
            if quiet {
                assert_eq!((segment.readers, segment.appends), (0, 0), "segment {index} waits for nothing");
            }
        }
        let open = self.log.segments.iter().filter(|segment| segment.state == State::Open).count();
        assert!(open <= 1, "two segments are open");
        if quiet {
            assert!(self.deferred.is_empty(), "something waits while nothing is in flight");
            assert!(self.directs.is_idle() && self.appends.flying() == 0, "something in flight is forgotten");
            assert!(!self.migration.reading_or_writing(), "a migration has stopped half way");
        }
    }
}
