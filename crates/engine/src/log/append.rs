//! The table of appends. A group of pieces is gathering, in flight, or free.

use std::collections::VecDeque;

use peryton_format::{log::HEADER, log::header::IndexSpan};
use peryton_units::Nanos;

use crate::{io::slab::Slab, log::direct::Piece, log::index::Pending};

/// The number of group buffers. A write that finds all of them in flight waits for one.
pub(in crate::log) const BUFFERS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Member {
    pub(in crate::log) piece: Piece,
    /// Offset of the piece's data in the group.
    pub(in crate::log) within: u32,
}

#[derive(Debug, Default)]
pub(in crate::log) struct Group {
    pub(in crate::log) members: Vec<Member>,
    /// Place in the log; set when the group is written.
    pub(in crate::log) at: u64,
    pub(in crate::log) sequence: u64,
    /// Length including the header: while gathering, the part filled so far; later, the space taken in the log.
    pub(in crate::log) len: u64,
    pub(in crate::log) buffer: Option<u32>,
    /// Commands in flight for this group.
    pub(in crate::log) pending: u8,
    pub(in crate::log) failed: bool,
    /// Set if the group is an index rather than data: its span and its entries.
    pub(in crate::log) index: Option<(IndexSpan, Vec<Pending>)>,
    /// When the first member was added.
    pub(in crate::log) since: Nanos,
}

#[derive(Debug)]
pub(in crate::log) struct Appends {
    pub(in crate::log) groups: Slab<Group>,
    pub(in crate::log) gathering: Option<u32>,
    /// The groups in flight, in the order in which they lie in the log.
    pub(in crate::log) flying: VecDeque<u32>,
    pub(in crate::log) buffers: Vec<u32>,
    pub(in crate::log) failures: u32,
    pub(in crate::log) paused_until: Nanos,
}

impl Appends {
    pub(in crate::log) fn new() -> Appends {
        Appends {
            groups: Slab::new(),
            gathering: None,
            flying: VecDeque::new(),
            buffers: (0..BUFFERS).rev().collect(),
            failures: 0,
            paused_until: Nanos::ZERO,
        }
    }

    pub(in crate::log) fn is_idle(&self) -> bool {
        self.gathering.is_none() && self.flying.is_empty()
    }

    /// Number of groups that are written but not yet retired.
    pub(in crate::log) fn flying(&self) -> usize {
        self.flying.len()
    }

    /// Whether a group in flight or gathering overlaps the range.
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64) -> bool {
        let groups = self.flying.iter().chain(&self.gathering);
        groups.flat_map(|group| &self.groups[*group].members).any(|member| member.piece.overlaps(from, to))
    }

    pub(in crate::log) fn take(&mut self, now: Nanos) -> u32 {
        let index = self.groups.claim();
        let group = &mut self.groups[index];
        let members = std::mem::take(&mut group.members);
        debug_assert!(members.is_empty());
        *group = Group { members, len: HEADER, since: now, ..Group::default() };
        index
    }

    /// Frees a group whose members have been taken care of.
    pub(in crate::log) fn give_back(&mut self, index: u32, mut members: Vec<Member>) {
        members.clear();
        let group = &mut self.groups[index];
        group.members = members;
        self.buffers.extend(group.buffer.take());
        self.groups.remove(index);
    }
}
