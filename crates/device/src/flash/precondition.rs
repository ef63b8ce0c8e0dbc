use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{
    array::Untimed,
    layer::Layer,
    page_map::PageMap,
    parameters::{Geometry, Precondition},
};

/// Brings the map into the state of a used device, without simulated time. `rests`: whether the device works in idle time. That work is
/// done before the first command; otherwise it would count as wear of the workload.
pub(super) fn run(layer: &mut Layer, state: Precondition, g: &Geometry, seed: u64, rests: bool) {
    if state == Precondition::Fresh {
        return;
    }
    layer.precondition(state, g, &mut Pcg64Mcg::seed_from_u64(seed));
    layer.flush(&mut Untimed);
    if rests {
        for die in 0..g.dies {
            while layer.wants_background(die) && layer.collect_in_background(die, 0, &mut Untimed) {}
        }
    }
    layer.forget_wear();
    layer.reset_counts();
}

/// The steady state of uniform random writes, constructed directly: under greedy cleaning blocks are cleaned at one age
/// T, their ages are spread evenly up to it, and a block of age t still has exp(−t) of its units (Desnoyers 2012,
/// section 4). T follows from the share of the blocks that is live. A short run of real overwrites then corrects the
/// limit's simplifications (blocks of finite size, units that were moved).
pub(super) fn overwritten(map: &mut PageMap, g: &Geometry, by_address: bool, random: &mut Pcg64Mcg) {
    if by_address {
        return overwritten_by_address(map, g, random);
    }
    let mut units = Permutation::new(g.units, random);
    let mut live = vec![0u32; g.blocks() as usize];
    for die in 0..g.dies {
        let share = g.units / g.dies + u32::from(die < g.units % g.dies);
        let full = map.blocks_to_fill(share);
        spread(share, full, g.block_units, &mut live);
        for &valid in &live[..full as usize] {
            map.fill_block(die, valid, || units.next().expect("the shares add up to all units"), random);
        }
    }
    overwrite(map, g, random);
}

/// The same where the address decides on the die: each die has the units that it would have got.
fn overwritten_by_address(map: &mut PageMap, g: &Geometry, random: &mut Pcg64Mcg) {
    let mut live = vec![0u32; g.blocks() as usize];
    for die in 0..g.dies {
        let share = g.units / g.dies + u32::from(die < g.units % g.dies);
        let full = map.blocks_to_fill(share);
        spread(share, full, g.block_units, &mut live);
        let mut units = Permutation::new(share, random);
        for &valid in &live[..full as usize] {
            let unit = || units.next().expect("the shares add up to all units") * g.dies + die;
            map.fill_block(die, valid, unit, random);
        }
    }
    overwrite(map, g, random);
}

fn overwrite(map: &mut PageMap, g: &Geometry, random: &mut Pcg64Mcg) {
    map.settle();
    let spare = g.slots() - g.units;
    for _ in 0..spare / 2 {
        map.write(random.random_range(0..g.units), &mut Untimed);
    }
}

/// Spreads `share` live units over `blocks` blocks of `size`, the oldest (and emptiest) first.
fn spread(share: u32, blocks: u32, size: u32, live: &mut [u32]) {
    let target = f64::from(share) / (f64::from(blocks) * f64::from(size));
    // (1 − exp(−T)) / T = target, by bisection: the left side falls from 1 to 0.
    let (mut low, mut high) = (1e-9f64, 1e6f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if (1.0 - (-middle).exp()) / middle > target { low = middle } else { high = middle }
    }
    let mut given = 0;
    for (index, valid) in live[..blocks as usize].iter_mut().enumerate() {
        let age = 1.0 - (index as f64 + 0.5) / f64::from(blocks);
        *valid = (f64::from(size) * (-low * age).exp()).floor() as u32;
        given += *valid;
    }
    // The remainder from rounding goes to blocks with space, the youngest first.
    while given < share {
        for valid in live[..blocks as usize].iter_mut().rev() {
            if given < share && *valid < size {
                *valid += 1;
                given += 1;
            }
        }
    }
    for valid in live[..blocks as usize].iter_mut() {
        let less = (given - share).min(*valid);
        *valid -= less;
        given -= less;
    }
}

/// All numbers below a limit in a scattered order, without a table: a full-period generator over the next power of two,
/// whose output is mixed; numbers beyond the limit are skipped.
struct Permutation {
    limit: u32,
    mask: u64,
    state: u64,
    left: u64,
    multiplier: u64,
    increment: u64,
}

impl Permutation {
    fn new(limit: u32, random: &mut Pcg64Mcg) -> Permutation {
        let size = u64::from(limit).next_power_of_two();
        Permutation {
            limit,
            mask: size - 1,
            state: random.random::<u64>() & (size - 1),
            left: size,
            // Full period (Hull and Dobell): multiplier ≡ 1 mod 4, odd increment.
            multiplier: 0x5DEE_CE66D & !3 | 1,
            increment: random.random::<u64>() | 1,
        }
    }
}

impl Iterator for Permutation {
    type Item = u32;
    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.left > 0 {
            self.left -= 1;
            self.state = self.state.wrapping_mul(self.multiplier).wrapping_add(self.increment) & self.mask;
            // Each step is invertible, so different numbers stay different.
            let half = (64 - self.mask.leading_zeros()).div_ceil(2);
            let mut x = self.state;
            x ^= x >> half;
            x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15) & self.mask;
            x ^= x >> half;
            if x < u64::from(self.limit) {
                return Some(x as u32);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_names_every_number_once() {
        for limit in [1, 2, 3, 7, 64, 1000, 4097] {
            let mut random = Pcg64Mcg::seed_from_u64(u64::from(limit));
            let mut all: Vec<u32> = Permutation::new(limit, &mut random).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..limit), "{limit}");
        }
    }

    #[test]
    fn shares_add_up_and_fit() {
        for (share, blocks, size) in [(0, 3, 8), (1, 1, 1), (100, 30, 4), (119, 30, 4), (120, 30, 4), (5000, 60, 100)] {
            let mut live = vec![0; 100];
            spread(share, blocks, size, &mut live);
            assert_eq!(live.iter().sum::<u32>(), share);
            assert!(live.iter().all(|&valid| valid <= size));
        }
    }
}
