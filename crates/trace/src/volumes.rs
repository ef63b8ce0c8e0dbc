//! The selection of a trace's volumes, and their places if they are concatenated.

use std::collections::{BTreeMap, BTreeSet};

use peryton_units::Bytes;

use crate::Request;

/// Concatenated volumes begin at multiples of this, so that no two of them share an extent of usual size.
pub const VOLUME_ALIGNMENT: Bytes = Bytes::mib(1);
/// The most volumes in one address space.
pub(crate) const MAX_VOLUMES: usize = 65_536;
/// The most volumes that a message names.
const SHOWN: usize = 16;

/// The volumes that are read.
#[derive(Default)]
pub(crate) struct Selection {
    /// The selected volumes, sorted; `None` for all.
    wanted: Option<Vec<u32>>,
    /// Other volumes of the trace, as many as a message names.
    others: BTreeSet<u32>,
    last_other: Option<u32>,
}

impl Selection {
    pub(crate) fn new(wanted: Option<&[u32]>) -> Selection {
        let wanted = wanted.map(|volumes| {
            let mut volumes = volumes.to_vec();
            volumes.sort_unstable();
            volumes
        });
        Selection { wanted, ..Selection::default() }
    }

    /// Removes the requests from `from` on whose volumes are not selected.
    pub(crate) fn apply(&mut self, requests: &mut Vec<Request>, from: usize) {
        let Some(wanted) = &self.wanted else {
            return;
        };
        let mut kept = from;
        for at in from..requests.len() {
            let request = requests[at];
            if wanted.binary_search(&request.volume).is_ok() {
                requests[kept] = request;
                kept += 1;
            } else if self.last_other != Some(request.volume) && self.others.len() <= SHOWN {
                self.last_other = Some(request.volume);
                self.others.insert(request.volume);
            }
        }
        requests.truncate(kept);
    }

    /// The selected volumes and the existing ones, if requests were dropped.
    pub(crate) fn missed(&self) -> Option<(String, String)> {
        let list = |volumes: &mut dyn Iterator<Item = u32>| {
            let mut names: Vec<String> = volumes.take(SHOWN + 1).map(|volume| volume.to_string()).collect();
            if names.len() > SHOWN {
                names[SHOWN] = "…".to_owned();
            }
            names.join(", ")
        };
        let wanted = self.wanted.as_ref().filter(|_| !self.others.is_empty())?;
        Some((list(&mut wanted.iter().copied()), list(&mut self.others.iter().copied())))
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
