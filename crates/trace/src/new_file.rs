//! A file that is complete or not there.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Where a file will be, and where it is until it is complete.
fn places(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().map(OsString::from)?;
    name.push(format!(".partial-{}", std::process::id()));
    let partial = path.with_file_name(name);
    Some((path, partial))
}

/// Where [`save`](crate::save) of this process keeps a trace until it is complete.
pub fn partial_of(path: &Path) -> Option<PathBuf> {
    places(path).map(|(_, partial)| partial)
}

/// A file that gets its name when it is complete. If it is dropped before, no file is left, and one that had the name stays as it was.
/// A device or a pipe is written as it is, because it cannot be replaced.
pub(crate) struct NewFile {
    /// Where it will be: a link goes on leading there.
    path: PathBuf,
    /// Where it is until then.
    partial: Option<PathBuf>,
}

impl NewFile {
    /// Begins a file.
    pub(crate) fn create(path: &Path) -> io::Result<(NewFile, File)> {
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            // A folder is refused here.
            let file = fs::OpenOptions::new().write(true).open(path)?;
            return Ok((NewFile { path: path.to_owned(), partial: None }, file));
        }
        let (path, partial) = places(path).ok_or(io::ErrorKind::InvalidFilename)?;
        let file = File::create(&partial)?;
        Ok((NewFile { path, partial: Some(partial) }, file))
    }

    /// Makes the file durable, and gives it its name.
    pub(crate) fn keep(mut self, file: &File) -> io::Result<()> {
        let Some(partial) = &self.partial else { return Ok(()) };
        file.sync_all()?;
        fs::rename(partial, &self.path)?;
        self.partial = None;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // What failed before is what is reported.
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use std::{fs, io::Write, os::unix::fs::FileTypeExt, process::Command};

    use super::*;

    #[test]
    fn a_file_is_complete_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        fs::write(&path, "before").unwrap();
        let (kept, mut file) = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(kept);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        let (kept, mut file) = NewFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        kept.keep(&file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        assert!(NewFile::create(folder.path()).is_err(), "a folder is no file");
    }

    /// The fear: `peryton trace convert my.trace /dev/null` as root leaves the machine without `/dev/null`.
    #[test]
    fn a_pipe_is_written_and_not_replaced_and_a_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        let (kept, mut file) = NewFile::create(&pipe).unwrap();
        file.write_all(b"through").unwrap();
        kept.keep(&file).unwrap();
        drop(file);
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let (kept, mut file) = NewFile::create(&link).unwrap();
        file.write_all(b"after").unwrap();
        kept.keep(&file).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "after");
    }
}
