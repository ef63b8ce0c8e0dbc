//! The blocks that a checkpoint has to write. The two checkpoints lie in two places that are written in turn. A block
//! that has not changed since the checkpoint in the same place is there already. The cost of a checkpoint therefore
//! depends on the changes, and not on the size of the volume.

use std::ops::Range;

use peryton_format::{
    block::BLOCK,
    checkpoint::{CheckpointHeader, Numbers, Shape},
    journal::MapRecord,
    mutation::{self, Mutation},
};

use crate::cache::map::index_set::IndexSet;

/// Unchanged blocks between two changed ones are written as well on the slow device, up to this many: a disk writes them sooner than it
/// seeks past them.
const LARGEST_GAP_ON_SLOW: u64 = 128;

/// For each of the two checkpoints, what is in its place.
#[derive(Debug)]
pub(in crate::cache) struct CheckpointBlocks {
    shape: Shape,
    /// The blocks that changed since they were written.
    changed: [IndexSet; 2],
    /// The blocks that the checkpoint under way, or the one that failed last, has to write.
    writing: Vec<u32>,
    /// The number of the checkpoint that wrote each block.
    numbers: [Numbers; 2],
}

impl CheckpointBlocks {
    /// Those of a drive without a durable map: both checkpoints are taken for written.
    pub(in crate::cache) fn new(shape: Shape) -> CheckpointBlocks {
        let none = || IndexSet::empty(shape.blocks() as u32);
        CheckpointBlocks {
            changed: [none(), none()],
            writing: Vec::new(),
            numbers: [0, 1].map(|_| Numbers::all(shape, 0)),
            shape,
        }
    }

    /// Begins with a whole checkpoint; nothing is known of the other one.
    pub(in crate::cache) fn resume(&mut self, header: &CheckpointHeader) {
        *self = CheckpointBlocks::new(self.shape);
        self.changed[1 - header.which() as usize] = IndexSet::full(self.shape.blocks() as u32);
        self.numbers[header.which() as usize] = Numbers::all(self.shape, header.number);
    }

    /// Notes that a commit changed the blocks of this extent.
    pub(in crate::cache) fn change(&mut self, record: &MapRecord) {
        let kinds = if mutation::is(Mutation::LeaveOutMasks) { 1 } else { 2 };
        for block in self.shape.blocks_of(record).take(kinds) {
            self.changed.iter_mut().for_each(|changed| changed.insert(block));
        }
    }

    /// Begins the checkpoint with this header. Returns, for the fast and for the slow device, which bytes of its place are written before
    /// the header.
    pub(in crate::cache) fn begin(&mut self, header: &CheckpointHeader) -> [Vec<Range<u64>>; 2] {
        let which = header.which() as usize;
        if mutation::is(Mutation::LeaveOutChangedBlocks) {
            self.changed[1 - which] = IndexSet::empty(self.shape.blocks() as u32);
        }
        self.writing.clear();
        while let Some(block) = self.changed[which].take_lowest() {
            self.writing.push(block);
            self.numbers[which].set(block, header.number);
        }
        [0, LARGEST_GAP_ON_SLOW].map(|gap| self.runs(gap))
    }

    /// The index, and the blocks to write, with gaps of up to this many blocks between them.
    fn runs(&self, gap: u64) -> Vec<Range<u64>> {
        let mut runs = vec![self.shape.index()];
        for block in self.writing.iter().map(|block| self.shape.place_of(*block)) {
            match runs.last_mut() {
                Some(run) if block <= run.end + gap * BLOCK => run.end = block + BLOCK,
                _ => runs.push(block..block + BLOCK),
            }
        }
        runs
    }

    /// The checkpoint with this header failed: the next attempt writes its blocks as well.
    pub(in crate::cache) fn failed(&mut self, header: &CheckpointHeader) {
        if mutation::is(Mutation::LeaveOutFailedBlocks) {
            return;
        }
        let changed = &mut self.changed[header.which() as usize];
        self.writing.drain(..).for_each(|block| changed.insert(block));
    }

    /// The numbers of the blocks of a checkpoint.
    pub(in crate::cache) fn numbers(&self, header: &CheckpointHeader) -> &Numbers {
        &self.numbers[header.which() as usize]
    }
}
