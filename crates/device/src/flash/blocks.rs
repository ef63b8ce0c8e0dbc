use std::{cmp::Reverse, ops::Range};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::{counts::Fragmentation, parameters::Collection};

/// Draws for each block that `d_choices` looks at before it gives up finding one to gain from.
const MOST_DRAWS: u64 = 64;

/// The use of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Erased.
    Free,
    /// Being filled.
    Open,
    /// Filled.
    Full,
    /// Being emptied.
    Victim,
}

/// Valid counts, erase counts and ages of all blocks.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    valid: Vec<u32>,
    erased: Vec<u32>,
    closed_at: Vec<u32>,
    state: Vec<State>,
    /// Being emptied for the sake of wear-levelling, one on a die at most.
    cold: Vec<u32>,
}

impl Blocks {
    pub fn new(count: u32) -> Blocks {
        let count = count as usize;
        Blocks {
            valid: vec![0; count],
            erased: vec![0; count],
            closed_at: vec![0; count],
            state: vec![State::Free; count],
            cold: Vec::new(),
        }
    }

    #[inline]
    pub fn valid(&self, block: u32) -> u32 {
        self.valid[block as usize]
    }
    #[inline]
    pub fn add_valid(&mut self, block: u32, count: u32) {
        self.valid[block as usize] += count;
    }
    #[inline]
    pub fn remove_valid(&mut self, block: u32, count: u32) {
        self.valid[block as usize] -= count;
    }
    pub fn erase_count(&self, block: u32) -> u32 {
        self.erased[block as usize]
    }
    pub fn state(&self, block: u32) -> State {
        self.state[block as usize]
    }
    pub fn set_state(&mut self, block: u32, state: State) {
        self.state[block as usize] = state;
    }
    pub fn open(&mut self, block: u32) {
        assert_eq!(self.state[block as usize], State::Free, "only an erased block is written");
        self.state[block as usize] = State::Open;
    }
    pub fn close(&mut self, block: u32, clock: u32) {
        self.state[block as usize] = State::Full;
        self.closed_at[block as usize] = clock;
    }
    pub fn erase(&mut self, block: u32) {
        assert_eq!(self.valid[block as usize], 0, "an erase must not lose data");
        self.erased[block as usize] += 1;
        self.state[block as usize] = State::Free;
        self.cold.retain(|&cold| cold != block);
    }
    /// Whether this block was chosen for the sake of wear-levelling.
    pub fn is_cold(&self, block: u32) -> bool {
        self.cold.contains(&block)
    }
    pub fn forget_wear(&mut self) {
        self.erased.fill(0);
    }
    /// Erase counts of the least and the most worn block.
    pub fn wear(&self) -> (u32, u32) {
        (self.erased.iter().copied().min().unwrap_or(0), self.erased.iter().copied().max().unwrap_or(0))
    }
    /// The full block of `range` to collect; `None` if all of them are wholly valid. `choices` are the blocks to draw from `random`
    /// where the choice is one among few.
    pub fn victim(
        &self,
        range: Range<u32>,
        by: Collection,
        block_units: u32,
        clock: u32,
        (choices, random): (u32, &mut Pcg64Mcg),
    ) -> Option<u32> {
        match by {
            Collection::Fifo => range
                .filter(|&block| self.state[block as usize] == State::Full)
                .max_by_key(|&block| (clock.wrapping_sub(self.closed_at[block as usize]), Reverse(block))),
            Collection::DChoices => {
                let mut least: Option<u32> = None;
                let mut drawn = 0;
                for _ in 0..MOST_DRAWS * u64::from(choices) {
                    let block = random.random_range(range.clone());
                    if self.state[block as usize] != State::Full {
                        continue;
                    }
                    drawn += 1;
                    least = [least, Some(block)].into_iter().flatten().min_by_key(|&block| self.valid(block));
                    if drawn >= choices && least.is_some_and(|block| self.valid(block) < block_units) {
                        return least;
                    }
                }
                // Hardly a block has anything to gain, so all of them are looked at.
                self.victim(range, Collection::Greedy, block_units, clock, (choices, random))
            }
            Collection::Greedy => {
                let within = range.start as usize..range.end as usize;
                let (states, valid) = (&self.state[within.clone()], &self.valid[within]);
                // Without branches, so that many blocks are compared at once.
                let cost = |(state, valid): (&State, &u32)| if *state == State::Full { *valid } else { u32::MAX };
                let least = states.iter().zip(valid).map(cost).min().filter(|&least| least < block_units)?;
                let first = states.iter().zip(valid).position(|block| cost(block) == least);
                Some(range.start + first.expect("the least is one of them") as u32)
            }
            Collection::CostBenefit => {
                let score = |block: u32| {
                    let used = f64::from(self.valid[block as usize]) / f64::from(block_units);
                    let age = f64::from(clock.wrapping_sub(self.closed_at[block as usize])) + 1.0;
                    // A block without valid data costs nothing to collect, so it is the best one, whatever its age.
                    age * (1.0 - used) / (2.0 * used).max(1e-9)
                };
                range
                    .filter(|&block| {
                        self.state[block as usize] == State::Full && self.valid[block as usize] < block_units
                    })
                    .map(|block| (block, score(block)))
                    .max_by(|a, b| a.1.total_cmp(&b.1))
                    .map(|(block, _)| block)
            }
        }
    }

    /// The least worn full block of `range`.
    pub fn coldest(&self, range: Range<u32>) -> Option<u32> {
        range
            .filter(|&block| self.state[block as usize] == State::Full)
            .min_by_key(|&block| self.erased[block as usize])
    }

    /// This block was chosen for the sake of wear-levelling.
    pub fn set_cold(&mut self, block: u32) {
        self.cold.push(block);
    }

    /// The distribution of the valid data.
    pub fn fragmentation(&self, block_units: u32) -> Fragmentation {
        let free = self.state.iter().filter(|&&state| state == State::Free).count() as u32;
        let others = self.state.iter().zip(&self.valid).filter(|(state, _)| **state != State::Free);
        Fragmentation::new(free, block_units, others.map(|(_, &valid)| valid))
    }
}
