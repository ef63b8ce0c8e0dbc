//! Files in `/run/peryton` that say which block device is which volume's: `ublkbN` for device N. The rule of udev in
//! `extras/` reads them to make `/dev/peryton/NAME`; `peryton ublk` and `peryton supervise` find a device with them that has no
//! server. They are not relied on: what the kernel keeps of a device has to agree.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Where the files are.
pub(crate) const DIRECTORY: &str = "/run/peryton";

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameFile {
    /// The name of the volume, in `/dev/peryton`.
    pub(crate) name: String,
    /// The volume's identity.
    pub(crate) volume: u128,
    /// Its design, as an absolute path.
    pub(crate) design: PathBuf,
}

/// The longest name; what a name may consist of is the same as for device mapper.
const LONGEST_NAME: usize = 64;

/// A name that may stand in a path: other characters than letters, digits and `-_.+` become `_`.
pub(crate) fn fit_for_dev(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).take(LONGEST_NAME).collect();
    match name.as_str() {
        "" | "." | ".." => "_".to_owned(),
        _ => name,
    }
}

impl NameFile {
    /// Lines of `KEY=value`, as udev's `IMPORT{file}` reads them.
    fn encode(&self) -> String {
        let design = self.design.display().to_string();
        // A design whose path has line breaks is found by its volume only.
        let design = if design.contains('\n') { "" } else { design.as_str() };
        format!("PERYTON_NAME={}\nPERYTON_VOLUME={:032x}\nPERYTON_DESIGN={design}\n", self.name, self.volume)
    }

    fn decode(text: &str) -> Option<NameFile> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let volume = u128::from_str_radix(value("PERYTON_VOLUME")?, 16).ok()?;
        let name = value("PERYTON_NAME")?.to_owned();
        Some(NameFile { name, volume, design: PathBuf::from(value("PERYTON_DESIGN")?) })
    }

    /// Writes the file for a device.
    pub(crate) fn write(&self, directory: &Path, device: u32) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let new = directory.join(format!(".ublkb{device}.new"));
        let mut file = fs::File::create(&new)?;
        file.write_all(self.encode().as_bytes())?;
        fs::rename(&new, path(directory, device))
    }

    /// Reads the file for a device; `None` if there is none, or it says something else.
    pub(crate) fn read(directory: &Path, device: u32) -> Option<NameFile> {
        NameFile::decode(&fs::read_to_string(path(directory, device)).ok()?)
    }

    /// Removes the file for a device where udev looks for it.
    pub(crate) fn forget(&self, device: u32) {
        NameFile::remove(Path::new(DIRECTORY), device);
    }

    /// Removes the file for a device.
    pub(crate) fn remove(directory: &Path, device: u32) {
        match fs::remove_file(path(directory, device)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, device, "the file with the device's name cannot be removed");
            }
            _ => {}
        }
    }
}

fn path(directory: &Path, device: u32) -> PathBuf {
    directory.join(format!("ublkb{device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_was_written_and_nothing_is_taken_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("peryton");
        let file =
            NameFile { name: "home".to_owned(), volume: 0xabc, design: PathBuf::from("/etc/peryton/home one.toml") };
        assert_eq!(NameFile::read(&at, 3), None);
        file.write(&at, 3).unwrap();
        assert_eq!(NameFile::read(&at, 3), Some(file));
        assert_eq!(NameFile::read(&at, 4), None);
        NameFile::remove(&at, 3);
        NameFile::remove(&at, 3);
        assert_eq!(NameFile::read(&at, 3), None);
        for text in ["", "PERYTON_NAME=a\n", "PERYTON_NAME=a\nPERYTON_VOLUME=xyz\nPERYTON_DESIGN=/d\n"] {
            assert_eq!(NameFile::decode(text), None, "{text}");
        }
    }

    #[test]
    fn names_stay_in_their_folder() {
        for (name, fit) in [("home", "home"), ("../../etc", ".._.._etc"), ("..", "_"), ("", "_"), ("a b/ü", "a_b__")] {
            assert_eq!(fit_for_dev(name), fit);
        }
        assert_eq!(fit_for_dev(&"x".repeat(500)).len(), LONGEST_NAME);
    }
}
