//! What the server reports at a time.

use std::time::Instant;

use peryton_drive::control::Ask;
use serde_json::Value;

use crate::{failure::Failure, naming::Served};

/// What the server reports at a time.
pub struct Sample {
    pub at: Instant,
    pub status: Value,
    pub activity: Value,
}

impl Sample {
    /// Asks the server.
    pub fn take(volume: &Served) -> Result<Sample, Failure> {
        let ask = |ask: &Ask| -> Result<Value, Failure> {
            let mut said = Value::Null;
            volume.ask(ask, |answer| {
                said = answer;
                true
            })?;
            Ok(said)
        };
        let mut status = ask(&Ask::Status {})?;
        let activity = ask(&Ask::Activity {})?;
        Ok(Sample { at: Instant::now(), status: status["status"].take(), activity })
    }
}
