//! Which parts of the volume are used how often: counts that only grow, so that any number of readers can compare two of them.

use peryton_units::Bytes;

use crate::status::Asked;

/// The most parts that the volume is divided into.
const MOST_PARTS: usize = 256;

/// Counts of requests by the part of the volume in which they begin.
#[derive(Clone, Debug)]
pub(crate) struct Heat {
    /// A part has two to the power of this many bytes.
    shift: u32,
    parts: usize,
    reads: [u64; MOST_PARTS],
    writes: [u64; MOST_PARTS],
}

impl Heat {
    pub(crate) fn new(volume: Bytes) -> Heat {
        let shift = volume.0.div_ceil(MOST_PARTS as u64).max(1).next_power_of_two().ilog2();
        let parts = ((volume.0.max(1) - 1) >> shift) as usize + 1;
        Heat { shift, parts, reads: [0; MOST_PARTS], writes: [0; MOST_PARTS] }
    }

    /// The volume has grown. What lies beyond the last part that there can be is not counted until the server is started again.
    pub(crate) fn grow(&mut self, volume: Bytes) {
        self.parts = (((volume.0.max(1) - 1) >> self.shift) as usize + 1).clamp(self.parts, MOST_PARTS);
    }

    #[inline]
    pub(crate) fn record(&mut self, asked: Asked, offset: Bytes) {
        let counts = match asked {
            Asked::Read => &mut self.reads,
            Asked::Write => &mut self.writes,
            Asked::Flush | Asked::Discard | Asked::Other => return,
        };
        // A request that was refused may begin anywhere.
        if let Some(count) = counts.get_mut((offset.0 >> self.shift) as usize) {
            *count += 1;
        }
    }

    /// The size of a part.
    pub(crate) fn part_bytes(&self) -> Bytes {
        Bytes(1 << self.shift)
    }

    pub(crate) fn reads(&self) -> &[u64] {
        &self.reads[..self.parts]
    }

    pub(crate) fn writes(&self) -> &[u64] {
        &self.writes[..self.parts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_volume_is_covered_by_at_most_so_many_parts() {
        for size in [1, 511, 4096, 4097, 1 << 20, (1 << 20) + 1, 3 << 40, u64::MAX >> 1] {
            let mut heat = Heat::new(Bytes(size));
            let parts = heat.reads().len();
            assert!(parts <= MOST_PARTS && (parts as u128) << heat.shift >= u128::from(size), "{size}: {parts}");
            heat.record(Asked::Read, Bytes(size - 1));
            assert_eq!((heat.reads()[parts - 1], heat.reads().iter().sum::<u64>()), (1, 1), "{size}");
            assert!(heat.part_bytes().0 as u128 * (parts as u128 - 1) < u128::from(size), "a part is beyond the end");
        }
    }

    #[test]
    fn only_reads_and_writes_within_the_volume_count() {
        let mut heat = Heat::new(Bytes::gib(1));
        for asked in Asked::ALL {
            heat.record(asked, Bytes::mib(5));
            heat.record(asked, Bytes(u64::MAX));
        }
        let sums = (heat.reads().iter().sum::<u64>(), heat.writes().iter().sum::<u64>());
        assert_eq!((sums, heat.reads()[1], heat.writes()[1]), ((1, 1), 1, 1));
    }
}
