//! What the engine has said to be lost. That stays so until it is written or discarded, or a device comes back: a value that is read
//! there meanwhile is older than what the host wrote, even if it is one that a device may have held.

use std::ops::Range;

use peryton_engine::Losses;

use crate::{
    disk::{SECTOR, Tag},
    model::Time,
};

/// Since when each sector is known to be lost, if it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    since: Vec<Option<Time>>,
}

impl Lost {
    /// Notes what the engine says at this time. `is_written` says of a sector whether a write of it is under way, which may end the loss
    /// at any time.
    ///
    /// # Errors
    /// A sector was lost, nothing has written it since, and it is lost no longer.
    pub(crate) fn note(
        &mut self,
        losses: &Losses,
        now: Time,
        is_written: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        let mut found = vec![None; self.since.len()];
        for range in &losses.ranges {
            let sectors = (range.start.0 / SECTOR) as usize..range.end.0.div_ceil(SECTOR) as usize;
            found.resize(found.len().max(sectors.end), None);
            for sector in sectors.filter(|sector| !is_written(*sector)) {
                found[sector] = Some(self.since.get(sector).copied().flatten().unwrap_or(now));
            }
        }
        let ended = self.since.iter().zip(&found).position(|(was, is)| was.is_some() && is.is_none());
        self.since = found;
        match ended {
            Some(sector) => Err(format!("sector {sector} was lost, is not written, and is lost no longer at {now}")),
            None => Ok(()),
        }
    }

    /// A device has come back, and may hold what was lost.
    pub(crate) fn forget(&mut self) {
        self.since.clear();
    }

    /// A write or a discard of these sectors begins.
    pub(crate) fn written(&mut self, range: Range<usize>) {
        let end = range.end.min(self.since.len());
        self.since[range.start.min(end)..end].fill(None);
    }

    /// Checks a read that was submitted at `from` and has succeeded.
    pub(crate) fn read(&self, range: Range<usize>, data: &[Tag], from: Time) -> Result<(), String> {
        let is_lost = |sector: usize| self.since.get(sector).copied().flatten().is_some_and(|since| since < from);
        match range.zip(data).find(|(sector, _)| is_lost(*sector)) {
            Some((sector, tag)) => Err(format!("sector {sector} is lost, is not written, and is read as {tag}")),
            None => Ok(()),
        }
    }
}
