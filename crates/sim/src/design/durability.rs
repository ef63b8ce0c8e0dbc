//! `[durability]`: the data that a drive in service keeps in memory in case its process dies. It does not affect
//! simulations.

use std::path::PathBuf;

use super::placement::word;
use crate::{DesignError, document::Keys};

/// The default directory for it, which is in memory.
const DIRECTORY: &str = "/dev/shm";

/// Reads the table `durability`. `None` if the drive keeps nothing.
pub(super) fn read(root: &mut Keys<'_>) -> Result<Option<PathBuf>, DesignError> {
    let Some(mut keys) = root.table("durability")? else { return Ok(Some(DIRECTORY.into())) };
    let kept = match keys.get::<String>("process_death")? {
        None => true,
        Some(how) => word(&how, &[("shared-memory", true), ("off", false)], &[])?,
    };
    let directory = keys.get::<String>("directory")?.map(|directory| PathBuf::from(directory.into_inner()));
    keys.finish()?;
    Ok(kept.then(|| directory.unwrap_or_else(|| DIRECTORY.into())))
}
