//! Models that are kept in a file from one plan to the next.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{Catalogue, Models, PlanError, Progress, Trained, Training};

/// Where trained models are kept.
#[derive(Clone, Debug, Default)]
pub enum KeptModels {
    /// In `plan-models.json` in the user's cache, if there is one. If it cannot be read or written, a plan is made all the
    /// same.
    #[default]
    Cache,
    /// In this file; that it cannot be read or written is an error.
    File(PathBuf),
}

/// What a user should know about the models.
#[derive(Debug)]
pub enum Notice {
    /// The models of this many devices are trained first.
    Training(usize),
    /// The cache cannot be read, so that all models are trained again.
    Unreadable(PlanError),
    /// The cache cannot be written, so that the next plan trains the models again.
    NotKept(PlanError),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Training(devices) => write!(
                f,
                "the regressions of {devices} devices are trained first, once (seconds to half a minute of processor time each); \
                 --no-models plans by simulation alone"
            ),
            Notice::Unreadable(error) => write!(f, "{error}; models are trained again"),
            Notice::NotKept(error) => write!(f, "trained models are not kept: {error}"),
        }
    }
}

impl KeptModels {
    /// The models of every device of a catalogue. Those that are missing are trained, which takes seconds to half a minute
    /// of processor time each, and added to the file. `notice` gets what the user should know.
    ///
    /// # Errors
    /// A file that was named cannot be read or written, or a model cannot be fitted.
    pub fn trained(
        &self,
        catalogue: &Catalogue,
        training: &Training,
        notice: &dyn Fn(Notice),
        progress: &Progress<'_>,
    ) -> Result<Trained, PlanError> {
        let file = self.file();
        let mut models = match self.load(file.as_deref()) {
            Ok(models) => models,
            Err(error) if matches!(self, KeptModels::Cache) => {
                notice(Notice::Unreadable(error));
                Models::new()
            }
            Err(error) => return Err(error),
        };
        let missing = models.missing(&catalogue.kinds, training);
        if missing > 0 {
            notice(Notice::Training(missing));
        }
        let (trained, changed) = models.train(&catalogue.kinds, training, progress)?;
        if let Some(file) = file.filter(|_| changed)
            && let Err(error) = models.save(&file)
        {
            if let KeptModels::File(_) = self {
                return Err(error);
            }
            notice(Notice::NotKept(error));
        }
        Ok(trained)
    }

    fn load(&self, file: Option<&Path>) -> Result<Models, PlanError> {
        file.map_or_else(|| Ok(Models::new()), Models::load)
    }

    fn file(&self) -> Option<PathBuf> {
        match self {
            KeptModels::File(file) => Some(file.clone()),
            KeptModels::Cache => cache(),
        }
    }
}

/// The default file of models (XDG base directories).
fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(folder.join("peryton").join("plan-models.json"))
}
