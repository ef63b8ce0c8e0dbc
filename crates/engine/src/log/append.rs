//! The table of appends: groups of pieces that are gathered, flying or free.

use std::collections::VecDeque;

use peryton_format::{log::HEADER, log::header::IndexSpan};
use peryton_units::Nanos;

use crate::{log::direct::Piece, log::index::Pending};

/// Buffers for groups; a write that finds them all in flight waits for one.
pub(in crate::log) const BUFFERS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Member {
    pub(in crate::log) piece: Piece,
    /// Where in the group its data is.
    pub(in crate::log) within: u32,
}

#[derive(Debug, Default)]
pub(in crate::log) struct Group {
    pub(in crate::log) members: Vec<Member>,
    /// Where in the log; known once it flies.
    pub(in crate::log) at: u64,
    pub(in crate::log) sequence: u64,
    /// How much of it is filled, the header included; once it flies, how much of the log it takes.
    pub(in crate::log) len: u64,
    pub(in crate::log) buffer: Option<u32>,
    /// Commands in flight.
    pub(in crate::log) pending: u8,
    pub(in crate::log) failed: bool,
    /// It holds an index rather than data.
    pub(in crate::log) index: Option<(IndexSpan, Vec<Pending>)>,
    /// When its first member came.
    pub(in crate::log) since: Nanos,
}

#[derive(Debug)]
pub(in crate::log) struct Appends {
    pub(in crate::log) groups: Vec<Group>,
    pub(in crate::log) free: Vec<u32>,
    pub(in crate::log) gathering: Option<u32>,
    /// In the order of the log.
    pub(in crate::log) flying: VecDeque<u32>,
    pub(in crate::log) buffers: Vec<u32>,
    pub(in crate::log) failures: u32,
    pub(in crate::log) paused_until: Nanos,
}

impl Appends {
    pub(in crate::log) fn new() -> Appends {
        Appends {
            groups: Vec::new(),
            free: Vec::new(),
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

    /// Groups whose commands have not all completed, and those not yet retired.
    pub(in crate::log) fn flying(&self) -> usize {
        self.flying.len()
    }

    /// Whether the range is on its way into the log.
    pub(in crate::log) fn overlaps(&self, from: u64, to: u64) -> bool {
        let groups = self.flying.iter().chain(&self.gathering);
        groups.flat_map(|group| &self.groups[*group as usize].members).any(|member| member.piece.overlaps(from, to))
    }

    pub(in crate::log) fn take(&mut self, now: Nanos) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() as u32 - 1
        });
        let group = &mut self.groups[index as usize];
        let members = std::mem::take(&mut group.members);
        debug_assert!(members.is_empty());
        *group = Group { members, len: HEADER, since: now, ..Group::default() };
        index
    }

    /// The group's members are elsewhere now.
    pub(in crate::log) fn give_back(&mut self, index: u32, mut members: Vec<Member>) {
        members.clear();
        let group = &mut self.groups[index as usize];
        group.members = members;
        self.buffers.extend(group.buffer.take());
        self.free.push(index);
    }
}
