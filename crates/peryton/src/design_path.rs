//! Sets the path of a device in a design file, in place: everything else stays as it is, comments as well.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use peryton_drive::{DesignFile, Linux};
use peryton_sim::DesignText;
use toml_edit::{DocumentMut, Item, Value};

/// The design file for a server that was started from it. `set`: the keys that were given with `--set`.
pub fn design_file(design: PathBuf, set: Vec<String>) -> DesignFile {
    DesignFile::new(move |name, path| self::set(&design, &set, name, path))
}

/// Sets the path of a device, and returns that of the file; without a path, says whether that could be done.
///
/// # Errors
/// One line: why the file cannot be changed.
pub fn set(design: &Path, given: &[String], name: &str, path: Option<&Path>) -> Result<PathBuf, String> {
    let key = format!("devices.{name}.path");
    if given.iter().any(|setting| setting.split('=').next().is_some_and(|given| given.trim() == key)) {
        return Err(format!("{key} was given with --set: change it there"));
    }
    let text = fs::read_to_string(design).map_err(|error| format!("{}: {error}", design.display()))?;
    let path = path.map(|path| Linux::default().stable_name(path).unwrap_or_else(|| path.to_owned()));
    let edited = with_path(&text, design, name, path.as_deref())?;
    if path.is_some() {
        replace(design, &edited).map_err(|error| format!("{}: {error}", design.display()))?;
    }
    Ok(design.to_owned())
}

/// The text with this path of the device; without one as it is, if it could be changed.
fn with_path(text: &str, design: &Path, name: &str, path: Option<&Path>) -> Result<String, String> {
    let at = |what: &str| format!("{}: devices.{name}.path: {what}", design.display());
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| format!("{}: {}", design.display(), error.message()))?;
    let value =
        document.get_mut("devices").and_then(|devices| devices.get_mut(name)).and_then(|device| device.get_mut("path"));
    let Some(Item::Value(value @ Value::String(_))) = value else {
        return Err(at("is not there as text: set it by hand"));
    };
    let Some(path) = path else { return Ok(text.to_owned()) };
    let path = path.to_str().ok_or_else(|| at("the new path is no text: set it by hand"))?;
    let decor = value.decor().clone();
    *value = Value::from(path);
    *value.decor_mut() = decor;
    let edited = document.to_string();
    // It must still be the design that it was.
    let places = DesignText::new(edited.as_str(), design.display().to_string()).device_places(&[]);
    let says = places.ok().into_iter().flatten().find(|place| place.name == name).and_then(|place| place.path);
    match says.is_some_and(|says| Path::new(&says) == Path::new(path)) {
        true => Ok(edited),
        false => Err(at("cannot be set without changing more: set it by hand")),
    }
}

/// Replaces the file at once, and durably. A link stays one.
fn replace(design: &Path, text: &str) -> std::io::Result<()> {
    let path = fs::canonicalize(design)?;
    let mut partial = OsString::from(&path);
    partial.push(format!(".partial-{}", std::process::id()));
    let about = fs::metadata(&path)?;
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(about.permissions())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&partial, &path)).inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
    })?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESIGN: &str = "# Of the attic.\nname = 'v'\n[devices.ssd]\npath = 'ssd.img' # the fast one\nsize = '1GiB'\n\n\
                          [devices.hdd]\nsize = '8GiB'\npath = 'hdd.img'   # old\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n";

    #[test]
    fn only_the_path_changes() {
        let edited =
            with_path(DESIGN, Path::new("d.toml"), "hdd", Some(Path::new("/dev/disk/by-id/ata-x \"y\""))).unwrap();
        assert_eq!(edited, DESIGN.replace("'hdd.img'", "'/dev/disk/by-id/ata-x \"y\"'"));
        assert_eq!(with_path(DESIGN, Path::new("d.toml"), "hdd", None).unwrap(), DESIGN);
    }

    #[test]
    fn what_cannot_be_edited_is_said_and_left() {
        for (text, why) in [
            (DESIGN.replace("path = 'hdd.img'", ""), "devices.hdd.path: is not there"),
            (DESIGN.replace("'hdd.img'", "7"), "devices.hdd.path: is not there as text"),
            (DESIGN.replace("[devices.hdd]", "[devices.hdd"), "d.toml:"),
        ] {
            let error = with_path(&text, Path::new("d.toml"), "hdd", Some(Path::new("/new"))).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_file_is_replaced_at_once_and_a_link_stays_one() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("real.toml"), directory.path().join("link.toml"));
        fs::write(&file, DESIGN).unwrap();
        std::os::unix::fs::symlink("real.toml", &link).unwrap();
        let design = design_file(link.clone(), vec!["devices.ssd.path=/x".to_owned()]);
        drop(design);
        replace(&link, "x = 1\n").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "x = 1\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
    }
}
