//! Reference counts of extents that are not cached: the second-level queue of 2Q as the paper uses it (section III-B).
//! It is as long as the cache has slots.

use crate::{Recent, saving::Saving};

/// Higher counts are treated as this one.
const MOST_COUNTED: usize = 64;

#[derive(Clone, Debug)]
pub(in crate::admission) struct References {
    recent: Recent<u32>,
    most: usize,
    /// Number of extents in the history with each count.
    histogram: [u32; MOST_COUNTED + 1],
}

impl References {
    pub(in crate::admission) fn new(most: usize) -> References {
        References { recent: Recent::default(), most: most.max(1), histogram: [0; MOST_COUNTED + 1] }
    }

    #[cfg(test)]
    pub(in crate::admission) fn len(&self) -> usize {
        self.recent.len()
    }

    /// Counts a reference; returns the number of references while the extent was in the history, this one included.
    pub(in crate::admission) fn count(&mut self, extent: u32) -> u32 {
        let before = self.recent.take(extent).unwrap_or(0);
        if before > 0 {
            self.histogram[before as usize] -= 1;
        }
        let count = (before + 1).min(MOST_COUNTED as u32);
        self.histogram[count as usize] += 1;
        let histogram = &mut self.histogram;
        self.recent.put(extent, count, self.most, |forgotten| histogram[forgotten as usize] -= 1);
        count
    }

    /// Saves the history, the oldest extent first; returns whether that is complete.
    pub(in crate::admission) fn save(&self, list: u8, to: &mut Saving<'_>) -> bool {
        to.recent(list, &self.recent, |extent, count| [extent, count])
    }

    /// Takes an extent back that was saved.
    pub(in crate::admission) fn load(&mut self, item: &[u32]) {
        let [extent, count] = *item else { return };
        let count = count.clamp(1, MOST_COUNTED as u32);
        if let Some(before) = self.recent.take(extent) {
            self.histogram[before as usize] -= 1;
        }
        self.histogram[count as usize] += 1;
        let histogram = &mut self.histogram;
        self.recent.put(extent, count, self.most, |forgotten| histogram[forgotten as usize] -= 1);
    }

    /// The count above which an extent belongs to the hottest `share` of the history.
    pub(in crate::admission) fn threshold_of_hottest(&self, share: f64) -> u32 {
        let most = (self.recent.len() as f64 * share) as u32;
        let mut hotter = 0;
        for count in (1..=MOST_COUNTED).rev() {
            hotter += self.histogram[count];
            if hotter > most {
                return count as u32;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_forgotten_with_the_extent() {
        let mut references = References::new(2);
        assert_eq!([1, 1, 2, 3].map(|extent| references.count(extent)), [1, 2, 1, 1]);
        // Extent 1 was the oldest of three.
        assert_eq!(references.count(1), 1);
    }

    #[test]
    fn the_hottest_tenth_is_above_the_threshold() {
        let mut references = References::new(100);
        for extent in 0..100 {
            for _ in 0..=(extent / 10) {
                references.count(extent);
            }
        }
        // Ten extents have ten references, so the hottest tenth is above nine.
        assert_eq!(references.threshold_of_hottest(0.1), 9);
    }
}
