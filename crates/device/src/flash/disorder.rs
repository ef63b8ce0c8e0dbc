//! The order in which the controller serves commands that wait. It fetches them from several queues in turn (NVMe Base Specification 2.0,
//! section 3.4.4), and fills what it can do at once with any of them, so that some overtake others.
//!
//! The work of the drive is the same in any order, and by Little's law so is the mean wait. So the model leaves the work as it is in the order
//! of arrival, and only exchanges waits: each wait is multiplied by a draw of mean one from a Weibull distribution. Its shape is 1 /
//! `out_of_order`: at 0 all draws are one, and at 1 it is exponential, as the waits for a server that takes any of those who wait.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[derive(Clone, Debug)]
pub(super) struct Disorder {
    out_of_order: f64,
    mean: f64,
    random: Pcg64Mcg,
}

impl Disorder {
    /// None if commands are served in the order of their arrival.
    pub fn new(out_of_order: f64, seed: u64) -> Option<Disorder> {
        let random = Pcg64Mcg::seed_from_u64(seed);
        (out_of_order > 0.0).then(|| Disorder { out_of_order, mean: gamma_of_one_and(out_of_order), random })
    }

    /// How long a command waits that would wait so long in the order of arrival.
    pub fn wait(&mut self, in_order: u64) -> u64 {
        // Never 0, whose logarithm is infinite.
        let draw = 1.0 - self.random.random::<f64>();
        (in_order as f64 * (-draw.ln()).powf(self.out_of_order) / self.mean) as u64
    }
}

/// Γ(1 + x) for x from 0 to 1, within 3·10⁻⁷ (Abramowitz and Stegun, 6.1.36).
fn gamma_of_one_and(x: f64) -> f64 {
    const B: [f64; 8] = [
        -0.577_191_652,
        0.988_205_891,
        -0.897_056_937,
        0.918_206_857,
        -0.756_704_078,
        0.482_199_394,
        -0.193_527_818,
        0.035_868_343,
    ];
    1.0 + x * B.iter().rev().fold(0.0, |sum, b| sum * x + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_keep_their_mean_whatever_the_order() {
        assert!(Disorder::new(0.0, 1).is_none());
        for out_of_order in [0.1, 0.5, 1.0] {
            let mut disorder = Disorder::new(out_of_order, 1).expect("it is out of order");
            let waits: Vec<f64> = (0..200_000).map(|_| disorder.wait(1_000_000) as f64 / 1e6).collect();
            let mean = waits.iter().sum::<f64>() / waits.len() as f64;
            assert!((mean - 1.0).abs() < 0.01, "{out_of_order}: {mean}");
            let beyond = waits.iter().filter(|wait| **wait > 2.0).count() as f64 / waits.len() as f64;
            let expected = (-(2.0 * gamma_of_one_and(out_of_order)).powf(1.0 / out_of_order)).exp();
            assert!((beyond - expected).abs() < 0.005, "{out_of_order}: {beyond} {expected}");
        }
        assert!((gamma_of_one_and(0.5) - 0.886_226_925).abs() < 1e-6);
    }
}
