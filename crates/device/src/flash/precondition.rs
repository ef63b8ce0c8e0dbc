use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{array::Untimed, layer::Layer, parameters::Precondition};

/// Brings the map into the state that a device in use is in, without time passing.
pub(super) fn run(layer: &mut Layer, state: Precondition, units: u32, seed: u64) {
    if state == Precondition::Fresh {
        return;
    }
    for unit in 0..units {
        layer.write(unit, &mut Untimed);
    }
    if state == Precondition::Random {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        for _ in 0..u64::from(units) * 2 {
            layer.write(random.random_range(0..units), &mut Untimed);
        }
    }
    layer.flush(&mut Untimed);
    layer.forget_wear();
}
