//! The read buffer: a few segments, each a run of consecutive sectors, replaced least recently used first.

/// Consecutive sectors in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    pub start: u64,
    pub end: u64,
    /// Written by the host rather than read from the surface.
    pub written: bool,
    used: u64,
}

/// How much of a request is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    None,
    /// Its start, up to the segment's end.
    Partial(usize),
    Whole(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    /// Sectors that one holds.
    pub size: u64,
    hits_on_written: bool,
    clock: u64,
}

impl Segments {
    pub fn new(count: u32, size: u64, hits_on_written: bool) -> Segments {
        Segments { segments: vec![Segment::default(); count as usize], size, hits_on_written, clock: 0 }
    }

    pub fn get(&self, index: usize) -> Segment {
        self.segments[index]
    }

    /// Looks for the request's first sector; `filling` is a segment that is being read into and counts as holding the
    /// sector under the head.
    pub fn find(&self, first: u64, count: u64, filling: Option<usize>) -> Hit {
        let mut found = Hit::None;
        for (index, segment) in self.segments.iter().enumerate() {
            let within = first >= segment.start && first < segment.end;
            let next = filling == Some(index) && first == segment.end && segment.end > segment.start;
            if !(within || next) || (segment.written && !self.hits_on_written) {
                continue;
            }
            if within && first + count <= segment.end {
                return Hit::Whole(index);
            }
            found = Hit::Partial(index);
        }
        found
    }

    pub fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }

    /// Gives the run a segment: an empty one, else the least recently used. None if there are no segments.
    pub fn take(&mut self, start: u64, end: u64, written: bool) -> Option<usize> {
        let index = (0..self.segments.len()).min_by_key(|&index| {
            let segment = &self.segments[index];
            (segment.end > segment.start, segment.used)
        })?;
        self.segments[index] = Segment { start, end, written, used: 0 };
        self.touch(index);
        self.extend(index, end);
        Some(index)
    }

    /// The segment now reaches `end`; what no longer fits falls out at its start.
    pub fn extend(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    /// A write makes older copies worthless.
    pub fn forget(&mut self, first: u64, count: u64) {
        for segment in &mut self.segments {
            if first < segment.end && first + count > segment.start {
                *segment = Segment::default();
            }
        }
    }

    /// A written segment that ends where this write begins.
    pub fn appendable(&self, first: u64) -> Option<usize> {
        self.segments.iter().position(|segment| segment.written && segment.end == first && segment.end > segment.start)
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
        assert_eq!((segments.get(index).start, segments.get(index).end), (150, 250));
    }

    #[test]
    fn a_write_takes_older_copies_away() {
        let mut segments = Segments::new(1, 100, true);
        segments.take(0, 50, false);
        segments.forget(49, 10);
        assert_eq!(segments.find(0, 1, None), Hit::None);
    }
}
