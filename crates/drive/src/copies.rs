//! Detects that another copy of a volume is served on this machine: a snapshot or clone of devices has the volume's identity.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use peryton_engine::VolumeId;
use rustix::fs::FlockOperation;

use crate::{open::Device, own_directory::OwnDirectory};

/// How the names of the files begin.
const SERVED: &str = "served-";
/// The longest description that is read.
const LONGEST: u64 = 4096;

/// Says, while it lives, that this process serves a volume.
#[derive(Debug)]
pub(crate) struct Served {
    directory: OwnDirectory,
    name: OsString,
    /// Locked as long as it is open.
    _file: File,
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Err(error) = self.directory.remove(&self.name) {
            tracing::debug!(%error, "the file that says what this process serves stays, unlocked");
        }
    }
}

/// Says that this process serves a volume, and returns which other servers say so of one with the same identity.
///
/// # Errors
/// One line: nothing can be said there.
pub(crate) fn say(
    directory: OwnDirectory,
    volume: VolumeId,
    devices: &[Option<Device>],
) -> Result<(Served, Vec<String>), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.path().display());
    let others = running(&directory, &prefix(volume)).map_err(failed)?;
    // One process serves a volume once: its devices are locked. A copy in the same process is served by another thread.
    let name = (0..u32::MAX).map(|number| OsString::from(format!("{}{}.{number}", prefix(volume), std::process::id())));
    let created = name
        .map(|name| (directory.create(&name), name))
        .find(|(made, _)| !made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists));
    let (made, name) = created.expect("not every number is taken");
    let mut file = made.map_err(failed)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| failed(error.into()))?;
    let paths: Vec<String> = devices.iter().flatten().map(|device| place(&device.path).display().to_string()).collect();
    file.write_all(format!("process {} from {}", std::process::id(), paths.join(" and ")).as_bytes())
        .map_err(failed)?;
    Ok((Served { directory, name, _file: file }, others))
}

fn prefix(volume: VolumeId) -> String {
    format!("{SERVED}{:032x}.", volume.0)
}

/// Where a device is, by whatever path it was named.
fn place(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Which server of this user's has a device, if one says so.
pub(crate) fn server_of(path: &Path) -> Option<String> {
    let (directory, place) = (OwnDirectory::of_user().ok()?, place(path).display().to_string());
    let served = running(&directory, SERVED).ok()?;
    served
        .into_iter()
        .find(|served| served.split(" from ").skip(1).flat_map(|all| all.split(" and ")).any(|at| at == place))
}

/// What the servers say that are there, of the files whose names begin so.
fn running(directory: &OwnDirectory, prefix: &str) -> std::io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory.path())? {
        let name = entry?.file_name();
        if !name.to_string_lossy().starts_with(prefix) {
            continue;
        }
        let Ok(file) = directory.open(&name) else { continue };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Its server was killed.
            Ok(()) => directory.remove(&name)?,
            Err(_) => {
                let mut text = String::new();
                file.take(LONGEST).read_to_string(&mut text)?;
                all.push(text);
            }
        }
    }
    Ok(all)
}
