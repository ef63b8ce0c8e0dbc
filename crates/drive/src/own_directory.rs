//! A directory that is this user's alone, for what no other user may read, change, or take the name of.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, Mode, OFlags},
    io::Errno,
};

/// The directory of root; others have theirs in `XDG_RUNTIME_DIR`.
const OF_ROOT: &str = "/run/peryton";
/// The folder there.
const FOLDER: &str = "handoff";

/// An open directory that only its owner can change.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl OwnDirectory {
    /// The directory of this user, which is made if it is not there.
    ///
    /// # Errors
    /// One line: there is none, or others may write there.
    pub(crate) fn of_user() -> Result<OwnDirectory, String> {
        let by_systemd = std::env::var("RUNTIME_DIRECTORY").ok();
        let by_systemd = by_systemd.as_deref().and_then(|all| all.split(':').next()).map(PathBuf::from);
        let parent = match by_systemd.filter(|path| path.is_absolute()) {
            Some(path) => path,
            None if rustix::process::geteuid().is_root() => PathBuf::from(OF_ROOT),
            None => match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
                Some(path) => path.join("peryton"),
                None => {
                    return Err("there is no directory in memory of this user's own: set XDG_RUNTIME_DIR or \
                                durability.directory to one, or run peryton supervise, which keeps the memory itself"
                        .to_owned());
                }
            },
        };
        match std::fs::create_dir(&parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("{}: {error}", parent.display()));
            }
            _ => {}
        }
        OwnDirectory::at(&parent.join(FOLDER))
    }

    /// A directory, which is made if it is not there.
    ///
    /// # Errors
    /// One line: it cannot be made, or others may write there.
    pub(crate) fn at(path: &Path) -> Result<OwnDirectory, String> {
        let shown = path.display();
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(format!("{shown}: {error}")),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| format!("{shown}: {error}"))?;
        let about = rustix::fs::fstat(&descriptor).map_err(|error| format!("{shown}: {error}"))?;
        let (owner, mode) = (about.st_uid, about.st_mode & 0o7777);
        if owner != rustix::process::geteuid().as_raw() {
            return Err(format!(
                "{shown}: belongs to another user (number {owner}), who could change what is kept there: remove it, or give \
                 durability.directory another one"
            ));
        }
        if mode & 0o022 != 0 {
            return Err(format!("{shown}: has the mode {mode:04o}, so others may write there: chmod 700 {shown}"));
        }
        Ok(OwnDirectory { descriptor, path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file of this user's.
    pub(crate) fn open(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, Mode::empty())?);
        let about = file.metadata()?;
        let is_ours =
            about.is_file() && about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o077 == 0;
        is_ours.then_some(file).ok_or_else(|| io::Error::other("is not this user's alone"))
    }

    /// The names of what is in it.
    pub(crate) fn names(&self) -> io::Result<Vec<OsString>> {
        let entries = Dir::read_from(&self.descriptor)?;
        Ok(entries.flatten().map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned()).collect())
    }

    /// Makes a file that is not there.
    pub(crate) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Err(error) if error != Errno::NOENT => Err(error.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_to_which_others_have_access_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        let own = OwnDirectory::at(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(own.create("a".as_ref()).unwrap());
        assert!(own.create("a".as_ref()).is_err(), "it is there");
        own.open("a".as_ref()).unwrap();
        own.remove("a".as_ref()).unwrap();
        own.remove("a".as_ref()).unwrap();
        for mode in [0o777, 0o1777, 0o720, 0o702] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = OwnDirectory::at(&path).unwrap_err();
            assert!(error.contains("chmod 700"), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
        assert!(OwnDirectory::at(&folder.path().join("link")).is_err());
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            assert!(OwnDirectory::at(&path).unwrap_err().contains("belongs to another user (number 1)"));
        }
    }

    #[test]
    fn a_file_of_others_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnDirectory::at(&folder.path().join("own")).unwrap();
        drop(own.create("a".as_ref()).unwrap());
        std::fs::set_permissions(own.path().join("a"), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(own.open("a".as_ref()).is_err());
        std::os::unix::fs::symlink("/dev/null", own.path().join("b")).unwrap();
        assert!(own.open("b".as_ref()).is_err());
    }
}
