//! Random variates. Transcendental functions are `libm`'s, which gives the same bits on every machine; the standard
//! library's differ between systems, and a drawn trace must not.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};

/// The generator of one drawn trace.
pub(super) struct Random(Pcg64Mcg);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Uniform over 0 ≤ x < 1, in steps of 2⁻⁵³.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform over 0 < x ≤ 1, so that its logarithm is finite.
    fn positive_unit(&mut self) -> f64 {
        1.0 - self.unit()
    }

    /// Uniform over 0 ≤ x < `n`. The bias is below `n`/2⁶⁴, too small to be visible in any trace.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True with probability `share`.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }

    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(self.positive_unit())
    }

    /// Pareto with the given smallest value and shape.
    pub(super) fn pareto(&mut self, smallest: f64, shape: f64) -> f64 {
        smallest * libm::exp(-libm::log(self.positive_unit()) / shape)
    }

    /// Standard normal (Box and Muller 1958).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.positive_unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Lognormal with the given mean (of the value, not of its logarithm) and standard deviation of the logarithm.
    pub(super) fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        mean * libm::exp(sigma * self.normal() - sigma * sigma / 2.0)
    }

    /// Gamma with the given shape and scale (Marsaglia and Tsang 2000).
    pub(super) fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        if shape < 1.0 {
            let boost = libm::exp(libm::log(self.positive_unit()) / shape);
            return boost * self.gamma(shape + 1.0, scale);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            if libm::log(self.positive_unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v * scale;
            }
        }
    }
}

/// Mixes words into a pseudo-random one: the finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub(super) fn mix(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |state: u64, &word| {
        let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut(&mut Random) -> f64) -> (f64, f64) {
        let mut random = Random::new(7);
        let n = 200_000;
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n))
    }

    #[track_caller]
    fn near(value: f64, expected: f64, share: f64) {
        assert!((value - expected).abs() <= share * expected.abs().max(1.0), "{value}, expected {expected}");
    }

    #[test]
    fn variates_have_the_moments_of_their_distributions() {
        for (shape, scale) in [(0.5, 3.0), (1.0, 2.0), (4.0, 1.0), (16.0, 0.25)] {
            let (mean, variance) = moments(|r| r.gamma(shape, scale));
            near(mean, shape * scale, 0.02);
            near(variance, shape * scale * scale, 0.04);
        }
        let (mean, variance) = moments(|r| r.normal());
        near(mean, 0.0, 0.02);
        near(variance, 1.0, 0.02);
        let (mean, variance) = moments(|r| r.exponential(5.0));
        near(mean, 5.0, 0.02);
        near(variance, 25.0, 0.04);
        let (mean, _) = moments(|r| r.pareto(2.0, 3.0));
        near(mean, 3.0, 0.02);
        let (mean, _) = moments(|r| r.lognormal(10.0, 0.5));
        near(mean, 10.0, 0.02);
    }
}
