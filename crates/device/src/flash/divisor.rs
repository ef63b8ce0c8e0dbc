/// A divisor that is used so often that its reciprocal is kept: one multiplication instead of a division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Divisor {
    divisor: u32,
    reciprocal: u64,
}

impl Divisor {
    pub fn new(divisor: u32) -> Divisor {
        Divisor { divisor, reciprocal: u64::MAX / u64::from(divisor) }
    }

    /// The whole quotient. Exact: with a reciprocal rounded down, (n + 1) / d falls short by no more than 2⁻³², which is
    /// less than what lies between it and n / d rounded down.
    #[inline]
    pub fn quotient(self, n: u32) -> u32 {
        ((u128::from(u64::from(n) + 1) * u128::from(self.reciprocal)) >> 64) as u32
    }

    #[inline]
    pub fn remainder(self, n: u32) -> u32 {
        n - self.quotient(n) * self.divisor
    }

    #[inline]
    pub fn divides(self, n: u32) -> bool {
        self.remainder(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_reciprocal_divides_as_division_does(
            n in prop_oneof![any::<u32>(), 0u32..1000, Just(u32::MAX)],
            d in prop_oneof![1u32..=u32::MAX, 1u32..1000, Just(1), Just(u32::MAX)],
            near in 0u32..3,
        ) {
            let divisor = Divisor::new(d);
            // Errors show beside multiples.
            for n in [n, (n / d * d).wrapping_add(near).wrapping_sub(1)] {
                prop_assert_eq!(divisor.quotient(n), n / d);
                prop_assert_eq!(divisor.remainder(n), n % d);
                prop_assert_eq!(divisor.divides(n), n.is_multiple_of(d));
            }
        }
    }
}
