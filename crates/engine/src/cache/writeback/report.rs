//! The report on dirty data: how much, for how long, and until when.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::{CleaningReport, CleaningState},
    cache::drive::CacheDrive,
    cache::step::CacheIo,
    cache::writeback::{dirtying::THROTTLED_FOR, urgency::max_age},
};

impl CacheDrive {
    pub(in crate::cache) fn report_cleaning(&self, io: &CacheIo, now: Nanos) -> CleaningReport {
        let dirty = self.map.dirty();
        let bytes = |extents: u32| Bytes(u64::from(extents) * self.layout.extent_bytes);
        let max_age = max_age(&io.tuning);
        let cleans = self.controller.is_none();
        let oldest = dirty.oldest().map(|since| now.saturating_sub(since));
        let over = oldest.and_then(|age| age.0.checked_sub(max_age.0)).filter(|over| *over > 0 && cleans);
        let state = if oldest.is_some() { self.cleaner.state } else { CleaningState::Resting };
        let starts_in = match state {
            CleaningState::Resting => self.cleaner.begins_at().map(|at| at.saturating_sub(now)),
            _ => Some(Nanos::ZERO),
        };
        let takes = self.cleaner.takes(Bytes(self.map.dirty_bytes())).filter(|_| !self.gone.any());
        CleaningReport {
            state,
            is_under_way: self.cleaner.commands > 0,
            dirty_extents: dirty.count(),
            dirty: Bytes(self.map.dirty_bytes()),
            most_dirty: (self.most_dirty < u32::MAX).then(|| bytes(self.most_dirty)),
            oldest,
            overdue: over.map(Nanos),
            bytes_per_s: self.cleaner.bytes_per_s(),
            clean_in: match oldest {
                None => Some(Nanos::ZERO),
                Some(_) => starts_in.zip(takes).map(|(starts, takes)| starts.saturating_add(takes)).filter(|_| cleans),
            },
            throttles: self.is_full_of_dirty()
                && self.cleaner.throttled.is_some_and(|last| now.saturating_sub(last) < THROTTLED_FOR),
        }
    }
}
