//! Commands in flight: a table whose rows are named by an index, for tables of the driver's, and a generation, so that
//! an id that is stale, or was never given, is told apart from one that is good.

use peryton_units::{Bytes, Nanos, Op};

use crate::api::command::{Buffer, DeviceId, IoId};

/// A placement's own name for what a command of its is part of.
pub(crate) trait Step: Copy + std::fmt::Debug + PartialEq {
    /// Whether the placement flushes what the command wrote by itself, so that it does not count as unflushed.
    fn flushes_itself(&self) -> bool;

    /// Whether the command reads or writes metadata: a device that fails too many of these is given up.
    fn is_metadata(&self) -> bool;

    /// Whether the engine encodes what the command writes.
    fn is_encoded(&self) -> bool;
}

/// What it means that a command has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose<S> {
    /// The placement knows.
    Step(S),
    /// A flush that shows whether a device answers at all.
    Probe,
    /// A superblock that says which devices are fenced.
    Fence,
}

impl<S: Step> Purpose<S> {
    pub(super) fn flushes_itself(&self) -> bool {
        match self {
            Purpose::Step(step) => step.flushes_itself(),
            Purpose::Probe => false,
            Purpose::Fence => true,
        }
    }

    pub(super) fn is_metadata(&self) -> bool {
        match self {
            Purpose::Step(step) => step.is_metadata(),
            Purpose::Probe => false,
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
    /// It empties the fast device.
    pub(super) leaving: bool,
}

impl<S> InFlight<S> {
    /// How long it has been under way.
    pub(crate) fn took(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.began)
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Row<S> {
    /// Counts the commands that this row was given to and those that it was taken from: odd while one is in flight.
    generation: u32,
    command: InFlight<S>,
}

/// The commands in flight.
#[derive(Debug)]
pub(super) struct Table<S> {
    rows: Vec<Row<S>>,
    free: Vec<u32>,
}

impl<S> Table<S> {
    pub(super) fn new() -> Table<S> {
        Table { rows: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Always in line: a row that is built elsewhere and copied here waits until all of it has reached the cache.
    #[inline(always)]
    pub(super) fn insert(&mut self, command: InFlight<S>) -> IoId {
        match self.free.pop() {
            Some(index) => {
                let row = &mut self.rows[index as usize];
                let generation = row.generation.wrapping_add(1);
                *row = Row { generation, command };
                IoId { index, generation }
            }
            None => {
                let index =
                    u32::try_from(self.rows.len()).expect("fewer than 2^32 commands are ever in flight at once");
                self.rows.push(Row { generation: 1, command });
                IoId { index, generation: 1 }
            }
        }
    }

    /// The command with this id, if it is in flight. Ids have odd generations only.
    #[inline(always)]
    pub(super) fn get(&self, id: IoId) -> Option<&InFlight<S>> {
        let row = self.rows.get(id.index as usize)?;
        (row.generation == id.generation).then_some(&row.command)
    }

    /// Takes a command off the table, where [`Table::get`] has found it. Its index is given out again, last removed
    /// first.
    #[inline(always)]
    pub(super) fn remove(&mut self, id: IoId) {
        let row = &mut self.rows[id.index as usize];
        debug_assert_eq!(row.generation, id.generation, "{id:?} is not in flight");
        row.generation = row.generation.wrapping_add(1);
        self.free.push(id.index);
    }

    /// The id of the command in flight in this row.
    pub(super) fn id_at(&self, index: usize) -> Option<IoId> {
        let generation = self.rows.get(index)?.generation;
        (generation & 1 == 1).then_some(IoId { index: index as u32, generation })
    }
}
