//! The dirty data of a cache: their state for the owner, and write-back on demand.

use peryton_engine::{CleaningReport, CleaningState, PlacementKind};
use peryton_units::Nanos;
use serde_json::{Value, json};

use super::{Handle, Server};

/// The state of cleaning for the status; `null` if the placement has no origins for data.
pub(super) fn status(report: Option<CleaningReport>) -> Value {
    let Some(report) = report else { return Value::Null };
    let seconds = |time: Nanos| time.as_s_f64();
    json!({
        "state": report.state,
        "dirty_bytes": report.dirty,
        "is_under_way": report.is_under_way,
        "most_dirty_bytes": report.most_dirty,
        "oldest_s": report.oldest.map(seconds),
        "overdue_s": report.overdue.map(seconds),
        "bytes_per_s": report.bytes_per_s,
        "clean_in_s": report.clean_in.map(seconds),
        "throttles_writes": report.throttles,
    })
}

impl Server {
    /// The state of cleaning. While a device is gone, nothing is written back, and the engine decides nothing.
    pub(super) fn cleaning_report(&self) -> Option<CleaningReport> {
        let engine = self.volume.engine();
        let report = engine.cleaning(self.now)?;
        let state = if engine.gone() == 0 { report.state } else { CleaningState::Resting };
        Some(CleaningReport { state, ..report })
    }

    pub(super) fn clean(&mut self) -> Result<Value, String> {
        let engine = self.volume.engine();
        if engine.cleaning(self.now).is_none() {
            return Err(match engine.placement().kind() {
                PlacementKind::Logging => {
                    "a log migrates its data by itself, when the design says ([triggers])".to_owned()
                }
                _ => "only caching and partitioned volumes write data back".to_owned(),
            });
        }
        if engine.gone() != 0 {
            return Err("nothing is written back while a device is gone: see status".to_owned());
        }
        if self.stop.is_asked() {
            return Err("the volume is being closed, for which nothing has to be clean".to_owned());
        }
        self.volume.write_all_back(self.now);
        Ok(status(self.cleaning_report()))
    }
}

impl Handle {
    /// Writes back everything that is dirty now, without delay, and returns the state as in the status. It goes on after
    /// this returns, until the state is not `asked` any more.
    ///
    /// # Errors
    /// One line: the volume has no origins for data, a device is gone, or the volume is closed.
    pub fn clean(&self) -> Result<Value, String> {
        self.may_change()?;
        self.try_ask(Server::clean)
    }
}
