//! Wear over time: what each device had worn at the end of each of some 16 to 32 equal parts of the measured span.
//!
//! The length of the span is not known before its end, so the parts begin at a millisecond and double in length
//! whenever there are too many of them.

use peryton_device::WearCounts;
use peryton_units::{Bytes, Nanos};

/// The most parts; when there are this many, two become one.
const MOST_PARTS: usize = 32;
const FIRST_LENGTH: Nanos = Nanos::from_ms(1);

/// The wear of the members of each device of a design.
pub(crate) type Worn = Vec<Vec<WearCounts>>;

/// What had been worn at the end of each part since the beginning of the first.
#[derive(Debug)]
pub(crate) struct WearParts {
    since: Nanos,
    length: Nanos,
    next: Nanos,
    ends: Vec<Worn>,
}

impl WearParts {
    pub(crate) fn from(since: Nanos) -> WearParts {
        WearParts { since, length: FIRST_LENGTH, next: since + FIRST_LENGTH, ends: Vec::new() }
    }

    #[inline]
    pub(crate) fn due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Ends the parts that are due with the wear as it is now: nothing was answered since they were due.
    #[cold]
    pub(crate) fn take(&mut self, now: Nanos, worn: Worn) {
        while now >= self.next {
            self.ends.push(worn.clone());
            if self.ends.len() == MOST_PARTS {
                let mut index = 0;
                self.ends.retain(|_| {
                    index += 1;
                    index % 2 == 0
                });
                self.length = Nanos(self.length.0.saturating_mul(2));
            }
            let passed = self.length.0.saturating_mul(self.ends.len() as u64 + 1);
            self.next = Nanos(self.since.0.saturating_add(passed));
        }
    }

    /// After the last part, flash has counted idle work that it owes: each part has the share of it that it has of the wear.
    pub(crate) fn settled(&mut self, before: &Worn, after: &Worn) {
        for ends in &mut self.ends {
            for (device, members) in ends.iter_mut().enumerate() {
                for (member, worn) in members.iter_mut().enumerate() {
                    let (before, after) = (&before[device][member], &after[device][member]);
                    let whole = before.flash_worn.unwrap_or_default();
                    let more = after.flash_worn.unwrap_or_default().saturating_sub(whole);
                    let grown = |worn: Bytes| {
                        worn + Bytes((more.0 as f64 * worn.0 as f64 / whole.0.max(1) as f64).round() as u64)
                    };
                    worn.flash_worn = worn.flash_worn.map(grown);
                }
            }
        }
    }

    /// The length of each part.
    pub(crate) fn length(&self) -> Nanos {
        self.length
    }

    /// The wear of one member in each part.
    pub(crate) fn of(&self, device: usize, member: usize) -> Vec<WearCounts> {
        let mut before = WearCounts::default();
        let part = |worn: &Worn| {
            let now = worn[device][member];
            let part = less(&now, &before);
            before = now;
            part
        };
        self.ends.iter().map(part).collect()
    }

    /// The number of parts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

fn less(a: &WearCounts, b: &WearCounts) -> WearCounts {
    WearCounts {
        bytes_read: a.bytes_read.saturating_sub(b.bytes_read),
        bytes_written: a.bytes_written.saturating_sub(b.bytes_written),
        pages_read: a.pages_read.saturating_sub(b.pages_read),
        pages_written: a.pages_written.saturating_sub(b.pages_written),
        start_stops: a.start_stops.saturating_sub(b.start_stops),
        flash_worn: a.flash_worn.map(|now| now.saturating_sub(b.flash_worn.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn parts_are_equal_and_few_and_lose_nothing() {
        let mut parts = WearParts::from(Nanos::from_s(5));
        // One byte in each millisecond, then nothing for a minute.
        let worn = |ms: u64| vec![vec![WearCounts { bytes_written: Bytes(ms), ..WearCounts::default() }]];
        for ms in 1..=10_000 {
            let now = Nanos::from_s(5) + Nanos::from_ms(ms);
            if parts.due(now) {
                parts.take(now, worn(ms));
            }
        }
        assert!((MOST_PARTS / 2..MOST_PARTS).contains(&parts.len()), "{}", parts.len());
        let length = parts.length().0 / 1_000_000;
        assert!(parts.of(0, 0).iter().all(|part| part.bytes_written.0 == length), "{:?}", parts.of(0, 0));
        parts.take(Nanos::from_s(75), worn(10_000));
        let sum: u64 = parts.of(0, 0).iter().map(|part| part.bytes_written.0).sum();
        assert_eq!((sum, parts.len() < MOST_PARTS), (10_000, true));
        assert!(parts.length().0 * (parts.len() as u64 + 1) > Nanos::from_s(70).0);
    }
}
