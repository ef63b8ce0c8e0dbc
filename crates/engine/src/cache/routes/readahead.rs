//! Read-ahead within an extent: whether a read that misses also brings in the rest of its extent. It does so while this
//! has lately saved other reads of the slow device.
//!
//! The saving is measured in extents without read-ahead. A read of the slow device *opens* such an extent if the fast
//! device has no clean block of it. Read-ahead would have *saved* every later read of that extent. While read-ahead
//! does not pay, all extents are measured. While it pays, one of [`CONTROL_ONE_IN`] stays without it and is measured
//! (set dueling: Qureshi et al., ISCA 2007).

/// One extent of this many is always without read-ahead.
const CONTROL_ONE_IN: u32 = 64;
/// There is no read-ahead before this many reads were counted.
const ENOUGH: u32 = 32;
/// The counts are halved when they have this many reads.
const MOST: u32 = 1_024;
/// Read-ahead pays while one of this many reads that open an extent would save another one. Reading the rest of an extent of
/// 64 KiB takes a disk a twentieth of the time of another access, so this holds as well while other requests wait for the disk.
const PAYS_ONE_IN: u32 = 6;

/// The recent reads of the slow device.
#[derive(Debug, Default)]
pub(in crate::cache) struct Readahead {
    opened: u32,
    saved: u32,
}

impl Readahead {
    /// Counts a read of the slow device; `opens`: the fast device has no clean block of the extent.
    pub(in crate::cache) fn saw(&mut self, extent: u32, opens: bool) {
        if self.reads_ahead(extent) {
            return;
        }
        *(if opens { &mut self.opened } else { &mut self.saved }) += 1;
        if self.opened + self.saved >= MOST {
            self.opened /= 2;
            self.saved /= 2;
        }
    }

    /// Whether a read in this extent brings in the rest of it.
    pub(in crate::cache) fn reads_ahead(&self, extent: u32) -> bool {
        !is_control(extent) && self.pays()
    }

    /// The counts, for a snapshot.
    pub(in crate::cache) fn counts(&self) -> [u32; 2] {
        [self.opened, self.saved]
    }

    /// Takes back the counts of a snapshot.
    pub(in crate::cache) fn restore(&mut self, opened: u32, saved: u32) {
        (self.opened, self.saved) = (opened.min(MOST / 2), saved.min(MOST / 2));
    }

    fn pays(&self) -> bool {
        self.opened + self.saved >= ENOUGH && self.saved * PAYS_ONE_IN >= self.opened
    }
}

/// Whether the extent is one of those without read-ahead. They are spread over the volume.
fn is_control(extent: u32) -> bool {
    extent.wrapping_mul(0x9E37_79B1) < u32::MAX / CONTROL_ONE_IN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(is: bool) -> u32 {
        (0..).find(|extent| is_control(*extent) == is).expect("there are both")
    }

    #[test]
    fn reading_on_begins_and_ends_with_what_it_saves() {
        let (control, other) = (one(true), one(false));
        let mut readahead = Readahead::default();
        for _ in 0..ENOUGH - 1 {
            readahead.saw(other, false);
            assert!(!readahead.reads_ahead(other), "that is too few to decide");
        }
        readahead.saw(other, true);
        assert!(readahead.reads_ahead(other));
        assert!(!readahead.reads_ahead(control), "what is not read on is needed to see what it would save");
        // Elsewhere nothing more is seen while it is done.
        (0..MOST).for_each(|_| readahead.saw(other, true));
        assert!(readahead.reads_ahead(other));
        let ended = (0..).find(|_| {
            readahead.saw(control, true);
            !readahead.reads_ahead(other)
        });
        assert!(ended.is_some_and(|opened| opened < 6 * ENOUGH), "{ended:?}");
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let mut readahead = Readahead::default();
        let control = one(true);
        (0..100 * MOST).for_each(|_| readahead.saw(control, true));
        let saved = (0..).find(|_| {
            readahead.saw(control, false);
            readahead.reads_ahead(one(false))
        });
        assert!(saved.is_some_and(|saved| saved < MOST / 2), "{saved:?}");
    }

    #[test]
    fn one_extent_in_64_shows_what_reading_on_would_save() {
        let controls = (0..64_000).filter(|extent| is_control(*extent)).count();
        assert!((900..1_100).contains(&controls), "{controls}");
    }
}
