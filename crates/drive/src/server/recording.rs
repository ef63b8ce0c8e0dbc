//! The loop's side of the recorder.

use std::time::Duration;

use peryton_recording::{Figures, Flags, Row};
use peryton_units::{Bytes, Nanos};

use super::{Server, host::row_of};
use crate::status::Asked;

/// The longest wait for the last chunks of a recording to be written.
const LAST_CHUNKS: Duration = Duration::from_secs(2);

impl Server {
    /// Records a request that is being answered.
    #[inline]
    pub(super) fn record_request(&mut self, asked: Asked, took: Nanos, offset: Bytes, len: Bytes, flags: Flags) {
        let Some(recorder) = &mut self.recorder else { return };
        let Some((op, offset, len)) = row_of(asked, offset, len) else { return };
        let at = self.now.saturating_sub(took);
        recorder.request(self.now, &Row { at, op, flags, offset, len, latency: took });
    }

    pub(super) fn tick_recorder(&mut self) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.tick(self.now)) {
            self.record_figures();
        }
    }

    /// Records what has been counted so far.
    #[cold]
    pub(super) fn record_figures(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        let engine = self.volume.engine();
        let stats = serde_json::to_value(engine.stats()).expect("statistics have keys that are texts");
        let devices = self.volume.backend.measured().to_vec();
        recorder.figures(&Figures { at: self.now, stats, devices, dirty: engine.dirty_bytes() });
    }

    /// Ends the recording when nothing more is served.
    pub(crate) fn finish_recording(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish(self.now, LAST_CHUNKS);
        }
    }
}
