//! The future of a trace: at each access to a block, when it is accessed next.

use peryton_policy::replacement::NEVER;
use peryton_trace::{Request, Source};

use crate::{
    CacheUnit, MiniatureError,
    blocks::{BlockColumns, Blocks},
    miniature::MOST_ACCESSES,
};

/// For each access to a sampled block the number of the next one to the same block. Four bytes an access.
#[derive(Debug, Default)]
pub(crate) struct Future {
    next: Vec<u32>,
    /// The latest access of each block so far.
    latest: Vec<u32>,
}

impl Future {
    /// Reads a trace to its end.
    pub(crate) fn of(source: &mut dyn Source, unit: CacheUnit, rate: f64, seed: u64) -> Result<Future, MiniatureError> {
        let (mut future, mut blocks) = (Future::default(), Blocks::new(unit, rate, seed));
        let (mut batch, mut columns) = (Vec::<Request>::new(), BlockColumns::default());
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                future.latest = Vec::new();
                return Ok(future);
            }
            columns.clear();
            blocks.add(&batch, &mut columns);
            blocks.number(&mut columns)?;
            for number in &columns.numbers {
                future.add(*number).ok_or(MiniatureError::TooManyAccesses { rate })?;
            }
        }
    }

    /// Adds an access to the block with this number; `None` if there is no room for it.
    fn add(&mut self, number: u32) -> Option<()> {
        let now = self.next.len();
        if now >= MOST_ACCESSES {
            return None;
        }
        match self.latest.get_mut(number as usize) {
            Some(latest) => self.next[std::mem::replace(latest, now as u32) as usize] = now as u32,
            // Blocks are numbered in the order of their first access.
            None => self.latest.push(now as u32),
        }
        self.next.push(NEVER);
        Some(())
    }

    /// The next accesses of `count` accesses from the `first` on; `None` if there were fewer.
    pub(crate) fn next(&self, first: usize, count: usize) -> Option<&[u32]> {
        self.next.get(first..first.checked_add(count)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_access_knows_the_next_one_to_its_block() {
        let mut future = Future::default();
        for number in [0, 1, 0, 2, 1, 0] {
            future.add(number).unwrap();
        }
        assert_eq!(future.next(0, 6).unwrap(), [2, 4, 5, NEVER, NEVER, NEVER]);
        assert_eq!(future.next(4, 2).unwrap(), [NEVER, NEVER]);
        assert!(future.next(5, 2).is_none());
    }
}
