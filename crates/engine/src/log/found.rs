//! The content of a log, as opening a volume finds it.

use peryton_format::{
    log::recorded::{ListedSegment, Recorded, Void},
    log::scan::{FoundIndex, SegmentsInUse},
};

use crate::log::index::Pending;

/// Events and entries, as they enter the map in the order of sequences.
pub(in crate::log) struct Replay {
    /// Voids and lists, the next one last; with the sequence before which they come.
    pub(in crate::log) events: Vec<(u64, Event)>,
}

pub(in crate::log) enum Event {
    Left(Vec<(u64, u64, u64)>),
    Void { offset: u64, len: u64 },
}

/// The content found in a log.
pub(in crate::log) struct Contents {
    pub(in crate::log) lives: SegmentsInUse,
    /// Its indexes, oldest first.
    pub(in crate::log) chain: Vec<FoundIndex>,
    /// Every append from this sequence on must be present: earlier ones are in no segment any more, or listed.
    pub(in crate::log) start: u64,
    /// Where the log was cut.
    pub(in crate::log) cut: u64,
    /// Records that the last index does not list.
    pub(in crate::log) tail: Vec<Pending>,
}

impl Replay {
    pub(in crate::log) fn new(recorded: &Recorded) -> Replay {
        let left = |listed: &ListedSegment| (listed.as_of, Event::Left(listed.left.clone()));
        let void = |void: &Void| (void.before, Event::Void { offset: void.offset, len: void.len });
        let lists = recorded.listed.values().map(left);
        let mut events: Vec<(u64, Event)> = lists.chain(recorded.voids.iter().map(void)).collect();
        // Stable: what is left of segments comes before voids of the same moment.
        events.sort_by_key(|(key, _)| *key);
        events.reverse();
        Replay { events }
    }
}
