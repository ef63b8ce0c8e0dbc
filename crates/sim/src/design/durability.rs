//! `[durability]`: the data that a drive in service keeps in memory in case its process dies. It does not affect
//! simulations.

use std::path::PathBuf;

use super::{
    key::{KeyDefault::Value, keys, names},
    placement::word,
};
use crate::{DesignError, document::Keys};

/// The default directory for it, which is in memory.
const IN_MEMORY: &str = "/dev/shm";

keys! {
    /// Where a drive in service keeps what must survive its process: in memory that outlives it, or nowhere.
    PROCESS_DEATH: String = "durability.process_death" {
        default: Value("'shared-memory'"), words: || names(KEPT), example: "'off'",
    }
    /// The directory for that, on a file system in memory.
    DIRECTORY: String = "durability.directory" { default: Value("'/dev/shm'"), example: "'/run/shm'" }
}

const KEPT: &[(&str, bool)] = &[("shared-memory", true), ("off", false)];

/// Reads the table `durability`. `None` if the drive keeps nothing.
pub(super) fn read(root: &mut Keys<'_>) -> Result<Option<PathBuf>, DesignError> {
    let Some(mut keys) = root.table("durability")? else { return Ok(Some(IN_MEMORY.into())) };
    let kept = match keys.get(&PROCESS_DEATH)? {
        None => true,
        Some(how) => word(&how, KEPT)?,
    };
    let directory = keys.get(&DIRECTORY)?.map(|directory| PathBuf::from(directory.into_inner()));
    keys.finish()?;
    Ok(kept.then(|| directory.unwrap_or_else(|| IN_MEMORY.into())))
}
