//! The selection of a trace's volumes, and their places if they are concatenated.

use std::collections::{BTreeMap, BTreeSet};

use peryton_units::Bytes;
use rustc_hash::FxHashMap;

use crate::Request;

/// Concatenated volumes begin at multiples of this, so that no two of them share an extent of usual size.
pub const VOLUME_ALIGNMENT: Bytes = Bytes::mib(1);
/// The most volumes in one address space.
pub(crate) const MAX_VOLUMES: usize = 1 << 20;
/// The most volumes that a message names.
const SHOWN: usize = 16;

/// The volumes that are read.
#[derive(Default)]
pub(crate) struct Selection {
    /// The names of the selected volumes; `None` for all.
    wanted: Option<Vec<String>>,
    /// Whether each volume that was seen is selected, and the one seen last.
    seen: FxHashMap<u32, bool>,
    last: Option<(u32, bool)>,
    /// Other volumes of the trace, as many as a message names.
    others: BTreeSet<u32>,
}

impl Selection {
    pub(crate) fn new(wanted: Option<Vec<String>>) -> Selection {
        Selection { wanted, ..Selection::default() }
    }

    /// Removes the requests from `from` on whose volumes are not selected.
    pub(crate) fn apply(&mut self, requests: &mut Vec<Request>, from: usize, name: impl Fn(u32) -> String) {
        let Some(wanted) = &self.wanted else {
            return;
        };
        let mut kept = from;
        for at in from..requests.len() {
            let request = requests[at];
            let selected = match self.last {
                Some((volume, selected)) if volume == request.volume => selected,
                _ => *self.seen.entry(request.volume).or_insert_with(|| wanted.contains(&name(request.volume))),
            };
            self.last = Some((request.volume, selected));
            if selected {
                requests[kept] = request;
                kept += 1;
            } else if self.others.len() <= SHOWN {
                self.others.insert(request.volume);
            }
        }
        requests.truncate(kept);
    }

    /// The selected volumes and the existing ones, if requests were dropped.
    pub(crate) fn missed(&self, name: impl Fn(u32) -> String) -> Option<(String, String)> {
        let list = |names: &mut dyn Iterator<Item = String>| {
            let mut names: Vec<String> = names.take(SHOWN + 1).collect();
            if names.len() > SHOWN {
                names[SHOWN] = "…".to_owned();
            }
            names.join(", ")
        };
        let wanted = self.wanted.as_ref().filter(|_| !self.others.is_empty())?;
        Some((list(&mut wanted.iter().cloned()), list(&mut self.others.iter().map(|&volume| name(volume)))))
    }
}

/// The place of a volume in the address space of a concatenated trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeRange {
    /// The number of the volume in the trace.
    pub volume: u32,
    /// Its start in the address space.
    pub start: Bytes,
    /// Its length up to the last byte that a request touches, aligned up.
    pub len: Bytes,
}

/// Volumes one after another, in the order of their numbers.
pub(crate) struct Layout {
    ranges: Vec<VolumeRange>,
    starts: rustc_hash::FxHashMap<u32, u64>,
}

impl Layout {
    /// Computes the layout from the end of each volume.
    pub(crate) fn new(ends: &BTreeMap<u32, Bytes>) -> Result<Layout, &'static str> {
        let (mut ranges, mut start) = (Vec::with_capacity(ends.len()), 0u64);
        for (&volume, end) in ends {
            // An end is below 2^63, so aligning it does not overflow.
            let len = end.0.next_multiple_of(VOLUME_ALIGNMENT.0);
            ranges.push(VolumeRange { volume, start: Bytes(start), len: Bytes(len) });
            start = start
                .checked_add(len)
                .filter(|&end| i64::try_from(end).is_ok())
                .ok_or("the volumes together end past 2^63 bytes")?;
        }
        let starts = ranges.iter().map(|range| (range.volume, range.start.0)).collect();
        Ok(Layout { ranges, starts })
    }

    pub(crate) fn ranges(&self) -> &[VolumeRange] {
        &self.ranges
    }

    /// Moves the requests to their places; returns false if the trace has changed since the layout was computed.
    pub(crate) fn apply(&self, requests: &mut [Request]) -> bool {
        for request in requests {
            let Some(start) = self.starts.get(&request.volume) else {
                return false;
            };
            request.offset.0 += start;
            request.volume = 0;
        }
        true
    }
}
