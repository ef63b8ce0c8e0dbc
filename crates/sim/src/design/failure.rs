//! `[failure]`: what becomes of devices that fail. For a drive in service; the devices of a simulation do not.

use peryton_engine::Tuning;
use peryton_units::Nanos;

use crate::{DesignError, document::Keys};

/// The longest patience: clients wait as long.
const LONGEST: Nanos = Nanos::from_s(24 * 60 * 60);

pub(super) fn read(root: &mut Keys<'_>, tuning: &mut Tuning) -> Result<(), DesignError> {
    let Some(mut keys) = root.table("failure")? else { return Ok(()) };
    let patience = keys.get::<Nanos>("patience")?;
    if let Some(patience) = patience {
        if *patience > LONGEST {
            return Err(patience.wrong(format!("is {}: use at most {LONGEST}", *patience)));
        }
        tuning.patience = *patience;
    }
    keys.finish()
}
