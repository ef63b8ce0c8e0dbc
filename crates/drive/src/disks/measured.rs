//! How long operations take, for a recording.

use peryton_recording::DeviceFigures;

use super::{Disks, Job};
use crate::backend::Action;

impl Disks {
    /// Measures from now on how long operations take.
    pub(crate) fn measure(&mut self) {
        self.measured = vec![DeviceFigures::default(); self.spare];
    }

    /// How long the operations of each device took that succeeded; empty unless that is measured.
    pub(crate) fn measured(&self) -> &[DeviceFigures] {
        &self.measured
    }

    /// Counts an operation that has ended.
    #[inline]
    pub(super) fn note_time(&mut self, job: &Job, well: bool) {
        let Some(figures) = self.measured.get_mut(job.operation.device.index()).filter(|_| well) else { return };
        let took = self.now.saturating_sub(job.began);
        match job.operation.action {
            Action::Read => figures.reads.record(took),
            Action::Write | Action::Zero | Action::ZeroAllocated => figures.writes.record(took),
            Action::Flush => figures.flushes.record(took),
            Action::Discard => {}
        }
    }
}
