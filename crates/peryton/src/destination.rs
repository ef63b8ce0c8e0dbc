//! Where the results of a verb go: to standard output, or to the file of `-o`.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The file of `-o`, if there is one.
static FILE: OnceLock<Mutex<Destination>> = OnceLock::new();

/// A file for results. It gets its name when the verb has ended, so that it is never half-written, unless results are lines
/// that are to be followed while the verb runs.
#[derive(Debug)]
struct Destination {
    path: PathBuf,
    partial: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Whether the file has its name already.
    is_named: bool,
}

/// Sends all results to a file from now on.
///
/// # Errors
/// The file cannot be written. That is found out before the work, which may take hours.
pub fn set(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::metadata(folder)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let destination = Destination { path: path.to_owned(), partial: partial.into(), open: None };
    FILE.set(Mutex::new(destination)).map_err(|_| io::ErrorKind::AlreadyExists.into())
}

fn locked(file: &Mutex<Destination>) -> MutexGuard<'_, Destination> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of the place where results go.
pub fn name() -> String {
    FILE.get().map_or_else(|| "standard output".to_owned(), |file| locked(file).path.display().to_string())
}

/// Writes results. `at_once`: they can be read while the verb goes on.
///
/// # Errors
/// Those of the file, or of standard output.
pub fn write(at_once: bool, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let Some(file) = FILE.get() else {
        let mut out = BufWriter::new(io::stdout().lock());
        return content(&mut out).and_then(|()| out.flush());
    };
    let mut destination = locked(file);
    if destination.open.is_none() {
        // A device or pipe cannot be replaced.
        let is_special = fs::metadata(&destination.path).is_ok_and(|about| !about.is_file());
        let is_named = at_once || is_special;
        let path = if is_named { &destination.path } else { &destination.partial };
        destination.open = Some(Open { file: File::create(path)?, is_named });
    }
    let mut out = BufWriter::new(&destination.open.as_ref().expect("it was just opened").file);
    content(&mut out).and_then(|()| out.flush())
}

/// Gives the file its name, or removes it if the verb failed; then what was there before stays.
///
/// # Errors
/// The file cannot be renamed.
pub fn finish(succeeded: bool) -> io::Result<()> {
    let Some(file) = FILE.get() else { return Ok(()) };
    let mut destination = locked(file);
    match destination.open.take() {
        Some(Open { is_named: false, .. }) if succeeded => fs::rename(&destination.partial, &destination.path),
        Some(Open { is_named: false, .. }) => fs::remove_file(&destination.partial),
        _ => Ok(()),
    }
}
