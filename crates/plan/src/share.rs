//! How much of a load something carries.

/// The largest share of a load that is carried, by halving; within this factor of it, and `None` if not even the least one is.
pub(crate) fn largest_share(least: f64, within: f64, met: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (0.5, 1.0);
    while !met(low) {
        (low, high) = (low / 2.0, low);
        if low < least {
            return None;
        }
    }
    while high / low > within {
        let middle = (low * high).sqrt();
        if met(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_share_is_found_within_its_bound() {
        for carried in [0.9, 0.5, 0.3, 0.02] {
            let found = largest_share(0.01, 1.05, |share| share <= carried).unwrap();
            assert!(found <= carried && found * 1.05 >= carried, "{found} of {carried}");
        }
        assert_eq!(largest_share(0.01, 1.05, |_| false), None);
    }
}
