//! The files of the workspace.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders without files of the project.
const SKIPPED: &[&str] = &["target", "corpus", "report", "node_modules"];

/// All files below a folder in order, without hidden ones and folders without files of the project.
///
/// # Errors
/// If a folder cannot be read.
pub(crate) fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') || SKIPPED.contains(&&*name) {
                continue;
            }
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}
