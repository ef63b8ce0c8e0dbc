//! `[durability]`: the data that a drive in service keeps in memory in case its process dies. It does not affect
//! simulations.

use std::path::PathBuf;

use super::{
    drive::KeptInMemory,
    key::{
        KeyDefault::{Else, Value},
        keys, names,
    },
    placement::word,
};
use crate::{DesignError, document::Keys};

keys! {
    /// Where a server keeps acknowledged writes that must survive a kill of its process: in memory that outlives the process,
    /// or nowhere.
    PROCESS_DEATH: String = "durability.process_death" {
        default: Value("'shared-memory'"), words: || names(KEPT), example: "'off'",
    }
    /// The directory for this memory, on a file system in memory, of mode 0700 and owned by the user who serves. It is used if
    /// neither systemd nor the supervisor keeps the memory.
    DIRECTORY: String = "durability.directory" { default: Else("one of the user's own, such as /run/peryton/handoff"), example: "'/run/drive'" }
}

const KEPT: &[(&str, bool)] = &[("shared-memory", true), ("off", false)];

/// Reads the table `durability`.
pub(super) fn read(root: &mut Keys<'_>) -> Result<KeptInMemory, DesignError> {
    let Some(mut keys) = root.table("durability")? else { return Ok(KeptInMemory::In(None)) };
    let kept = match keys.get(&PROCESS_DEATH)? {
        None => true,
        Some(how) => word(&how, KEPT)?,
    };
    let directory = keys.get(&DIRECTORY)?.map(|directory| PathBuf::from(directory.into_inner()));
    keys.finish()?;
    Ok(if kept { KeptInMemory::In(directory) } else { KeptInMemory::No })
}
