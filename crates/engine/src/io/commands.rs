//! Commands in flight: a table whose rows are named by an index, which drivers use for tables of their own, and a
//! generation. The generation distinguishes a valid id from a stale one and from one that was never issued.

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Cause, DeviceId, IoId},
    io::slab::Slab,
};

/// What a placement needs to know when a command of its completes.
pub(crate) trait Step: Copy + std::fmt::Debug + PartialEq {
    /// Whether the placement flushes by itself what the command wrote, so that it does not count as unflushed.
    fn flushes_itself(&self) -> bool;

    /// Whether the command reads or writes metadata. A device that fails too many of these is fenced.
    fn is_metadata(&self) -> bool;

    /// Whether the engine encodes the data that the command writes.
    fn is_encoded(&self) -> bool;
}

/// Why a command was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<S> {
    /// A step of the placement.
    Step(S),
    /// A flush that tests whether a device answers at all.
    Probe,
    /// A write or flush of a superblock that records which devices are fenced.
    Fence,
    /// A step of copying a device that is being replaced, or of putting its successor in charge.
    Copy,
    /// What another command does to a device that is being replaced, done to its successor.
    Twin,
}

impl<S: Step> Purpose<S> {
    pub(super) fn flushes_itself(&self) -> bool {
        match self {
            Purpose::Step(step) => step.flushes_itself(),
            Purpose::Probe | Purpose::Twin => false,
            Purpose::Fence | Purpose::Copy => true,
        }
    }

    pub(super) fn is_metadata(&self) -> bool {
        match self {
            Purpose::Step(step) => step.is_metadata(),
            Purpose::Probe | Purpose::Copy | Purpose::Twin => false,
            Purpose::Fence => true,
        }
    }
}

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight<S> {
    pub(crate) purpose: Purpose<S>,
    pub(crate) device: DeviceId,
    pub(crate) op: Op,
    pub(crate) at: Bytes,
    pub(crate) len: Bytes,
    pub(crate) buffer: Buffer,
    pub(super) began: Nanos,
    pub(super) cause: Cause,
    /// Whether a discard must leave zeros.
    pub(crate) zeroes: bool,
    /// Whether a flush has failed that may have lost what the command writes: the device had carried it out, and had yet to say
    /// so. It is then carried out again.
    pub(crate) again: bool,
}

impl<S> InFlight<S> {
    /// Whether the command writes data that leaves the fast device.
    #[inline(always)]
    pub(super) fn leaves(&self) -> bool {
        self.op == Op::Write && matches!(self.cause, Cause::Demotion | Cause::WriteBack)
    }

    /// How long the command has been in flight.
    pub(crate) fn took(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.began)
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row<S> {
    /// Counts how often the row was given out and taken back: odd while a command is in flight.
    generation: u32,
    command: InFlight<S>,
}

impl<S> Row<S> {
    fn is_in_use(&self) -> bool {
        self.generation & 1 == 1
    }
}

/// The commands in flight.
pub(super) struct Table<S>(Slab<Row<S>>);

/// Neither free rows nor generations are part of the state: the crash simulation compares states by this text.
impl<S: std::fmt::Debug> std::fmt::Debug for Table<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.in_use().map(|(index, row)| (index, &row.command))).finish()
    }
}

impl<S> Table<S> {
    pub(super) fn new() -> Table<S> {
        Table(Slab::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn in_use(&self) -> impl Iterator<Item = (u32, &Row<S>)> {
        self.0.all().filter(|(_, row)| row.is_in_use())
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, command: InFlight<S>) -> IoId {
        let generation = self.0.reused().map_or(1, |row| row.generation.wrapping_add(1));
        IoId::of(self.0.insert(Row { generation, command }), generation)
    }

    /// Returns the command with this id if it is in flight. Only odd generations are valid.
    #[inline(always)]
    pub(super) fn get(&self, id: IoId) -> Option<&InFlight<S>> {
        let row = self.0.get(id.index())?;
        (row.generation == id.generation()).then_some(&row.command)
    }

    /// Frees the row of a command in flight; returns what it still holds. The row freed last is the first to be reused.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: IoId) -> &InFlight<S> {
        let index = id.index() as u32;
        let row = &mut self.0[index];
        debug_assert_eq!(row.generation, id.generation(), "{id:?} is not in flight");
        row.generation = row.generation.wrapping_add(1);
        self.0.remove(index);
        &self.0[index].command
    }

    /// The command with this id, which is in flight.
    pub(super) fn get_mut(&mut self, id: IoId) -> &mut InFlight<S> {
        &mut self.0[id.index() as u32].command
    }

    /// The commands in flight.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut InFlight<S>> {
        self.0.all_mut().filter(|row| row.is_in_use()).map(|row| &mut row.command)
    }

    /// Returns the id of the command in flight in this row.
    pub(super) fn id_at(&self, index: usize) -> Option<IoId> {
        self.0.get(index).filter(|row| row.is_in_use()).map(|row| IoId::of(index as u32, row.generation))
    }

    /// The ids of all commands in flight.
    pub(super) fn ids(&self) -> impl Iterator<Item = IoId> {
        self.in_use().map(|(index, row)| IoId::of(index, row.generation))
    }
}
