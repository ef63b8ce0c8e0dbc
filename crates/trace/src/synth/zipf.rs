use super::random::Random;

/// Draws ranks `0..n` with probability proportional to (rank + 1)^−exponent, in constant time and memory, by
/// rejection-inversion (Hörmann and Derflinger 1996). It needs no table, which for a million entries would not fit the
/// processor's cache.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    n: f64,
    exponent: f64,
    /// Integral of the hat function up to the first rank's left end, and up to the last rank's right end.
    first: f64,
    last: f64,
    /// Draws that are above a rank by at most this need no test.
    sure: f64,
}

impl Zipf {
    pub(super) fn new(n: u64, exponent: f64) -> Zipf {
        assert!(n > 0 && exponent >= 0.0, "the specification was checked");
        let mut zipf = Zipf { n: n as f64, exponent, first: 0.0, last: 0.0, sure: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(n as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    pub(super) fn rank(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.last + random.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.sure || u >= self.integral(k + 0.5) - self.weight(k) {
                return k as u64 - 1;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        if self.exponent == 1.0 { 1.0 / x } else { libm::exp(-self.exponent * libm::log(x)) }
    }

    /// The integral of x^−exponent, up to a constant.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let p = 1.0 - self.exponent;
        // Near exponent 1, (x^p − 1)/p loses its digits; expm1 keeps them.
        if p == 0.0 { log } else { libm::expm1(p * log) / p }
    }

    fn inverse(&self, u: f64) -> f64 {
        if self.exponent == 1.0 {
            return libm::exp(u);
        }
        let p = 1.0 - self.exponent;
        // Rounding may move the argument just past −1, where the value is infinite for exponents above 1.
        libm::exp(libm::log1p((u * p).max(-1.0)) / p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_those_of_the_law() {
        for (n, exponent) in
            [(10, 0.0), (10, 1.0), (1000, 0.8), (1000, 1.0), (1000, 1.2), (1_000_000, 1.0), (7, 3.0), (1, 1.0)]
        {
            let zipf = Zipf::new(n, exponent);
            let mut random = Random::new(3);
            let draws = 400_000u32;
            let mut seen = vec![0u32; n as usize];
            for _ in 0..draws {
                seen[zipf.rank(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            for rank in 0..n.min(8) {
                let expected = ((rank + 1) as f64).powf(-exponent) / total * f64::from(draws);
                let error = f64::from(seen[rank as usize]) - expected;
                assert!(
                    error.abs() < 5.0 * expected.sqrt() + 1.0,
                    "n {n}, exponent {exponent}, rank {rank}: off by {error}"
                );
            }
        }
    }
}
