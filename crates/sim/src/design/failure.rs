//! `[failure]`: the treatment of failing devices by a drive in service; simulated devices do not fail.

use peryton_engine::Tuning;
use peryton_units::Nanos;

use super::key::{KeyDefault::Value, keys};
use crate::{DesignError, document::Keys};

keys! {
    /// The longest time for which a server waits for a failing device before it gives the device up; clients wait meanwhile.
    PATIENCE: Nanos = "failure.patience" { default: Value("'120s'"), live: true, example: "'30s'" }
}

/// The longest patience, during which clients wait.
const LONGEST: Nanos = Nanos::from_s(24 * 60 * 60);

pub(super) fn read(root: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    let Some(mut keys) = root.table("failure")? else { return Ok(()) };
    let patience = keys.get(&PATIENCE)?;
    if let Some(patience) = patience {
        if *patience > LONGEST {
            return Err(patience.wrong(format!("is {}: use at most {LONGEST}", *patience)));
        }
        tuning.patience = *patience;
    }
    keys.finish()
}
