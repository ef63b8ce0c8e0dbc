use std::collections::VecDeque;

/// A resource that serves one transfer at a time and is reserved ahead: a channel, or the host interface.
///
/// A transfer that becomes ready early may use a gap before one that was reserved first but is ready later; otherwise a
/// read would wait for the transfers of programs in the future.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// Reserved spans in order, disjoint; adjacent spans are merged.
    booked: VecDeque<(u64, u64)>,
}

/// The most spans: beyond them the first gap is given up for each transfer that needs a further one, so that the line is never used
/// twice at the same time. An overloaded drive books some hundred thousand spans. Each gap that is lost makes a transfer wait, which holds
/// up its die, so that with few spans the model has half of the drive's throughput.
const MAX_SPANS: usize = 1 << 20;

impl Timeline {
    /// Reserves `length` at `earliest` or as soon after it as possible, and returns the end. No later call has an
    /// earlier `now`.
    #[inline]
    pub fn reserve(&mut self, now: u64, earliest: u64, length: u64) -> u64 {
        while let Some(&(_, end)) = self.booked.front() {
            if end > now || self.booked.len() == 1 {
                break;
            }
            self.booked.pop_front();
        }
        let Some(last) = self.booked.back_mut() else {
            self.booked.push_back((earliest, earliest + length));
            return earliest + length;
        };
        if earliest >= last.0 {
            let start = earliest.max(last.1);
            let end = start + length;
            if start == last.1 {
                last.1 = end;
            } else {
                self.booked.push_back((start, end));
            }
            return end;
        }
        self.reserve_in_gap(earliest, length)
    }

    #[inline(never)]
    fn reserve_in_gap(&mut self, earliest: u64, length: u64) -> u64 {
        if self.booked.len() >= MAX_SPANS
            && let Some((from, _)) = self.booked.pop_front()
        {
            self.booked[0].0 = from;
        }
        // The first span that ends after `earliest`; the spans before it do not matter.
        let mut i = self.booked.partition_point(|&(_, end)| end <= earliest);
        let mut start = earliest;
        while let Some(&(from, to)) = self.booked.get(i) {
            if start + length <= from {
                break;
            }
            start = start.max(to);
            i += 1;
        }
        let end = start + length;
        let joins_before = i > 0 && self.booked[i - 1].1 == start;
        let joins_after = self.booked.get(i).is_some_and(|&(from, _)| from == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.booked[i - 1].1 = self.booked[i].1;
                self.booked.remove(i);
            }
            (true, false) => self.booked[i - 1].1 = end,
            (false, true) => self.booked[i].0 = start,
            (false, false) => self.booked.insert(i, (start, end)),
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_two_transfers_overlap_and_none_begins_early(
            asked in prop::collection::vec((0u64..50, 0u64..400, 1u64..60), 1..200)
        ) {
            let mut line = Timeline::default();
            let mut now = 0;
            let mut given: Vec<(u64, u64)> = Vec::new();
            for (step, ahead, length) in asked {
                now += step;
                let end = line.reserve(now, now + ahead, length);
                prop_assert!(end >= now + ahead + length);
                let span = (end - length, end);
                prop_assert!(given.iter().all(|&(from, to)| span.1 <= from || to <= span.0), "{span:?} in {given:?}");
                given.push(span);
            }
        }
    }

    /// The fear: many commands in flight get more from a channel than it can transfer.
    #[test]
    fn so_many_in_flight_that_gaps_are_given_up_get_no_more_than_the_rate() {
        let span = |number: u64| (number * 1000, number * 1000 + 100);
        let mut line = Timeline { booked: (0..MAX_SPANS as u64).map(span).collect() };
        let busy = |line: &Timeline| line.booked.iter().map(|&(from, end)| end - from).sum::<u64>();
        let (before, mut seed) = (busy(&line), 1u64);
        for number in 1..=100 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let earliest = (seed >> 33) % (MAX_SPANS as u64 * 1000);
            assert!(line.reserve(0, earliest, 100) >= earliest + 100);
            assert!(line.booked.len() <= MAX_SPANS + 1, "{}", line.booked.len());
            assert!(busy(&line) >= before + number * 100);
        }
        assert!(line.booked.iter().zip(line.booked.iter().skip(1)).all(|(one, next)| one.1 < next.0));
    }

    /// The fear: with programs waiting, each read waits for all that is booked and holds up its die for as long, without end.
    #[test]
    fn reads_before_many_programs_find_a_gap() {
        const DIES: usize = 40;
        let mut line = Timeline::default();
        let (mut free, mut now, mut seed, mut longest) = ([0; DIES], 0, 1u64, 0);
        for number in 0..60_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let die = &mut free[(seed >> 33) as usize % DIES];
            if number % 20 == 19 {
                let waited = line.reserve(now, now + 75_000, 20_000) - now;
                (*die, longest) = ((*die).max(now) + waited, longest.max(waited));
                now += 400_000;
            } else {
                *die = line.reserve(now, now.max(*die), 20_000) + 1_000_000;
            }
        }
        // All transfers take 1.2 s.
        assert!(longest < 1_200_000_000, "a read waited for {longest} ns");
    }

    #[test]
    fn an_early_transfer_takes_the_gap() {
        let mut line = Timeline::default();
        assert_eq!(line.reserve(0, 1000, 10), 1010);
        assert_eq!(line.reserve(0, 50, 10), 60);
        assert_eq!(line.reserve(0, 50, 10), 70);
        assert_eq!(line.reserve(0, 55, 940), 1950);
    }
}
