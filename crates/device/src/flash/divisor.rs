/// A frequently used divisor, kept as its reciprocal: one multiplication instead of a division.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Divisor {
    divisor: u32,
    reciprocal: u64,
}

impl Divisor {
    pub fn new(divisor: u32) -> Divisor {
        Divisor { divisor, reciprocal: u64::MAX / u64::from(divisor) }
    }

    /// The quotient, rounded down. It is exact: with a reciprocal rounded down, (n + 1) / d is too small by at most
    /// 2⁻³², which is less than its distance from n / d rounded down.
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
            // Errors would show next to multiples.
            for n in [n, (n / d * d).wrapping_add(near).wrapping_sub(1)] {
                prop_assert_eq!(divisor.quotient(n), n / d);
                prop_assert_eq!(divisor.remainder(n), n % d);
                prop_assert_eq!(divisor.divides(n), n.is_multiple_of(d));
            }
        }
    }
}
