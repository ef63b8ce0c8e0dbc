//! The design file of a volume in service, in which the path of a device is set when another one has taken its place.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

type Edit = dyn Fn(&str, Option<&Path>) -> Result<PathBuf, String> + Send + Sync;

/// Sets paths in the design file.
#[derive(Clone)]
pub struct DesignFile(Arc<Edit>);

impl DesignFile {
    /// `edit` is given the name of a device and its new path, sets that path in the file, and returns where the file is. Without a path
    /// it only checks whether it could.
    pub fn new(edit: impl Fn(&str, Option<&Path>) -> Result<PathBuf, String> + Send + Sync + 'static) -> DesignFile {
        DesignFile(Arc::new(edit))
    }

    pub(crate) fn check(&self, device: &str) -> Result<(), String> {
        (self.0)(device, None).map(|_| ())
    }

    pub(crate) fn set(&self, device: &str, path: &Path) -> Result<PathBuf, String> {
        (self.0)(device, Some(path))
    }
}

impl fmt::Debug for DesignFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DesignFile")
    }
}
