//! The state of a drive whose every unit was written once, in order, without writing it: a map of terabytes takes no time and no memory
//! until units are written again.

use super::{Geometry, NONE, PageMap, State, Stream, mark};

/// Where each unit lies that was written in order and not since: stripe after stripe over the dies, block after block on each.
#[derive(Clone, Copy, Debug)]
pub(super) struct InOrder {
    dies: u32,
    stripe_units: u32,
    units: u32,
    /// Slots of a die.
    each: u32,
}

impl InOrder {
    fn new(g: &Geometry) -> InOrder {
        InOrder { dies: g.dies, stripe_units: g.stripe_units, units: g.units, each: g.blocks_per_die * g.block_units }
    }

    pub fn slot(&self, unit: u32) -> u32 {
        let (stripe, offset) = (unit / self.stripe_units, unit % self.stripe_units);
        stripe % self.dies * self.each + stripe / self.dies * self.stripe_units + offset
    }

    pub fn unit(&self, slot: u32) -> u32 {
        let (die, within) = (slot / self.each, slot % self.each);
        (within / self.stripe_units * self.dies + die) * self.stripe_units + within % self.stripe_units
    }

    /// How many units lie on a die.
    fn on(&self, die: u32) -> u32 {
        let (stripes, rest) = (self.units / self.stripe_units, self.units % self.stripe_units);
        let last = stripes % self.dies;
        let whole = stripes / self.dies + u32::from(die < last);
        whole * self.stripe_units + if die == last { rest } else { 0 }
    }
}

impl PageMap {
    /// Brings an empty map into that state.
    pub fn fill_in_order(&mut self) {
        let order = InOrder::new(&self.g);
        let stripes = self.g.units.div_ceil(self.g.stripe_units);
        self.current = (stripes - 1) % self.g.dies;
        for at in 0..self.g.dies {
            let units = order.on(at);
            let first = at * self.g.blocks_per_die;
            let (full, rest) = (units / self.g.block_units, units % self.g.block_units);
            mark(&mut self.valid, first * self.g.block_units..first * self.g.block_units + units, true);
            let stripes_of_block = self.g.block_units / self.g.stripe_units;
            for block in 0..full + u32::from(rest > 0) {
                let valid = if block < full { self.g.block_units } else { rest };
                self.blocks.open(first + block);
                self.blocks.add_valid(first + block, valid);
                if block < full {
                    // The stripe of the host that filled it.
                    let closed_at = ((block + 1) * stripes_of_block - 1) * self.g.dies + at + 1;
                    self.blocks.close(first + block, closed_at);
                }
            }
            let die = &mut self.dies[at as usize];
            die.free.truncate((self.g.blocks_per_die - full - u32::from(rest > 0)) as usize);
            die.valid = units;
            die.host = match rest {
                0 => Stream {
                    block: if full > 0 { first + full - 1 } else { NONE },
                    next: self.g.block_units,
                    pending: 0,
                },
                // A flush ends the last page.
                _ => Stream { block: first + full, next: rest.next_multiple_of(self.g.page_units), pending: 0 },
            };
            if die.host.next == self.g.block_units && rest > 0 {
                self.blocks.close(first + full, stripes);
            }
            debug_assert!(die.free.iter().all(|&block| self.blocks.state(block) == State::Free));
        }
        self.live = self.g.units;
        self.clock = stripes;
        self.order = Some(order);
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;
    use crate::flash::{array::Untimed, parameters::FlashParameters};

    /// The fear: a drive that was filled without writing is not the drive that was filled by writing.
    #[test]
    fn it_is_the_state_that_writing_in_order_leads_to() {
        let text = "channels = 2\ndies_per_channel = 3\nplanes = 2\npage = '8KiB'\npages_per_block = 16\nread = '1us'\nprogram = '1us'\n\
            erase = '1us'\nchannel_mb_per_s = 100\ninterface_mb_per_s = 100\ncycles = 10\nover_provisioning = 0.2\nidle_w = 1\nstandby_w = 1";
        let p: FlashParameters = toml::from_str(text).expect("parameters");
        for mib in [16u64, 37, 64] {
            let size = peryton_units::Bytes((mib << 20) + 5 * 4096);
            let g = p.geometry(size, size).expect("a geometry");
            let (mut written, mut filled) = (PageMap::new(&p, g), PageMap::new(&p, g));
            for unit in 0..g.units {
                written.write(unit, &mut Untimed);
            }
            written.flush(&mut Untimed);
            filled.fill_in_order();
            let mut random = Pcg64Mcg::seed_from_u64(1);
            for round in 0..3 {
                filled.check();
                for unit in 0..g.units {
                    assert_eq!(filled.locate(unit), written.locate(unit), "{mib} MiB, round {round}, unit {unit}");
                }
                for block in 0..g.blocks() {
                    let of = |map: &PageMap| {
                        (map.blocks.state(block), map.blocks.valid(block), map.blocks.erase_count(block))
                    };
                    assert_eq!(of(&filled), of(&written), "{mib} MiB, round {round}, block {block}");
                }
                for _ in 0..g.units {
                    let unit = random.random_range(0..g.units);
                    if random.random_range(0..50) == 0 {
                        written.discard(unit);
                        filled.discard(unit);
                    } else {
                        assert_eq!(written.write(unit, &mut Untimed), filled.write(unit, &mut Untimed));
                    }
                }
            }
        }
    }
}
