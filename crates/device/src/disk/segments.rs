//! The read buffer: a few segments, each a run of consecutive sectors, replaced least recently used first.

/// The part of a request that is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    None,
    /// Its start, up to the segment's end.
    Partial(usize),
    Whole(usize),
}

/// Each array has one entry per segment, so that a miss is found out in one pass without branches.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    starts: Vec<u64>,
    ends: Vec<u64>,
    /// Written by the host rather than read from the surface.
    written: Vec<bool>,
    /// When it was last used; zero for an empty one.
    used: Vec<u64>,
    /// Sectors that one holds.
    pub size: u64,
    hits_on_written: bool,
    clock: u64,
    last: usize,
}

impl Segments {
    pub fn new(count: u32, size: u64, hits_on_written: bool) -> Segments {
        let count = count as usize;
        Segments {
            starts: vec![0; count],
            ends: vec![0; count],
            written: vec![false; count],
            used: vec![0; count],
            size,
            hits_on_written,
            clock: 0,
            last: 0,
        }
    }

    /// The first sector of a segment, and the sector after its last.
    pub fn range(&self, index: usize) -> (u64, u64) {
        (self.starts[index], self.ends[index])
    }

    /// Looks for the request's first sector; `filling` is a segment that is being read into and counts as holding the
    /// sector under the head.
    pub fn find(&self, first: u64, count: u64, filling: Option<usize>) -> Hit {
        let near = self
            .starts
            .iter()
            .zip(&self.ends)
            .fold(false, |near, (&start, &end)| near | ((first >= start) & (first <= end)));
        if !near {
            return Hit::None;
        }
        let mut found = Hit::None;
        for (index, (&start, &end)) in self.starts.iter().zip(&self.ends).enumerate() {
            let within = first >= start && first < end;
            let next = filling == Some(index) && first == end && end > start;
            if !(within || next) || (self.written[index] && !self.hits_on_written) {
                continue;
            }
            if within && first + count <= end {
                return Hit::Whole(index);
            }
            found = Hit::Partial(index);
        }
        found
    }

    /// Whether the segment used last holds the sector.
    pub fn last_holds(&self, sector: u64) -> bool {
        self.starts.get(self.last).is_some_and(|&start| sector >= start && sector < self.ends[self.last])
    }

    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.used[index] = self.clock;
        self.last = index;
    }

    /// Takes a segment for the run: an empty one, else the least recently used. `None` if there are no segments.
    pub fn take(&mut self, start: u64, end: u64, written: bool) -> Option<usize> {
        let (mut index, mut least) = (None, u64::MAX);
        for (candidate, &used) in self.used.iter().enumerate() {
            if used < least {
                (index, least) = (Some(candidate), used);
            }
        }
        let index = index?;
        (self.starts[index], self.ends[index], self.written[index]) = (start, end, written);
        self.touch(index);
        self.extend(index, end);
        Some(index)
    }

    /// Extends a segment to `end`; what does not fit any more is dropped at its start.
    pub fn extend(&mut self, index: usize, end: u64) {
        self.ends[index] = self.ends[index].max(end);
        self.starts[index] = self.starts[index].max(self.ends[index].saturating_sub(self.size));
    }

    /// A write makes older copies worthless.
    pub fn forget(&mut self, first: u64, count: u64) {
        let end = first + count;
        let overlaps = |start: u64, stop: u64| (first < stop) & (end > start);
        let any = self.starts.iter().zip(&self.ends).fold(false, |any, (&start, &stop)| any | overlaps(start, stop));
        if !any {
            return;
        }
        for index in 0..self.starts.len() {
            if overlaps(self.starts[index], self.ends[index]) {
                (self.starts[index], self.ends[index], self.written[index], self.used[index]) = (0, 0, false, 0);
            }
        }
    }

    /// A written segment that ends where this write begins.
    pub fn appendable(&self, first: u64) -> Option<usize> {
        let any = self.ends.iter().fold(false, |any, &end| any | (end == first));
        if !any {
            return None;
        }
        (0..self.ends.len())
            .find(|&index| self.written[index] && self.ends[index] == first && first > self.starts[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_segment_goes_first() {
        let mut segments = Segments::new(2, 100, true);
        segments.take(0, 10, false);
        segments.take(1000, 1010, false);
        segments.touch(0);
        segments.take(2000, 2010, false);
        assert_eq!(segments.find(0, 10, None), Hit::Whole(0));
        assert_eq!(segments.find(1000, 10, None), Hit::None);
        assert_eq!(segments.find(2005, 10, None), Hit::Partial(1));
    }

    #[test]
    fn a_segment_never_holds_more_than_its_size() {
        let mut segments = Segments::new(1, 100, true);
        let index = segments.take(0, 10, false).unwrap();
        segments.extend(index, 250);
        assert_eq!(segments.range(index), (150, 250));
    }

    #[test]
    fn a_write_takes_older_copies_away() {
        let mut segments = Segments::new(1, 100, true);
        segments.take(0, 50, false);
        segments.forget(49, 10);
        assert_eq!(segments.find(0, 1, None), Hit::None);
    }
}
