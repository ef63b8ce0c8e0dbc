//! Files that are one trace, or a specification from which a trace is drawn, opened as often as needed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use thiserror::Error;

use crate::{
    Join, OpenOptions, Reader, Request, Skipped, Source, SynthError, SynthSource, SynthSpec, TraceError, open_all,
};

/// The files of a trace and the options for reading them. One file whose name ends in `.toml` is a specification from
/// which a trace is drawn.
///
/// ```
/// use peryton_trace::{Characteristics, OpenOptions, TraceFiles};
///
/// let files = TraceFiles {
///     paths: vec!["../../examples/traces/sqlite-ext4.parquet".into()],
///     options: OpenOptions::default(),
/// };
/// let once = Characteristics::of(&mut *files.source(&Default::default())?)?;
/// assert_eq!(files.name(), "sqlite-ext4.parquet");
/// # assert!(once.requests > 1_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TraceFiles {
    /// The files; several are merged by time.
    pub paths: Vec<PathBuf>,
    /// How they are read.
    pub options: OpenOptions,
}

/// The reason why a trace cannot be opened or drawn.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The specification is wrong.
    #[error(transparent)]
    Synth(#[from] SynthError),
}

impl TraceFiles {
    /// Opens the files as one trace.
    ///
    /// # Errors
    /// Those of [`open_all`].
    pub fn open(&self) -> Result<Reader, TraceError> {
        open_all(&self.paths, Join::ByTime, &self.options)
    }

    /// Opens the trace, or draws it; the count of skipped lines goes to `skipped` when the source is dropped.
    ///
    /// # Errors
    /// A file cannot be read, is not a trace, or is a specification from which no trace can be drawn.
    pub fn source(&self, skipped: &SkippedCount) -> Result<Box<dyn Source>, SourceError> {
        if let Some(path) = self.specification() {
            let spec = SynthSpec::load(path)?;
            return Ok(Box::new(SynthSource::new(&spec, &path.display().to_string())?));
        }
        Ok(Box::new(Watched { reader: self.open()?, skipped: skipped.clone() }))
    }

    /// Does the same after [`TraceFiles::source`] has succeeded, with the errors of a trace alone.
    ///
    /// # Errors
    /// Those of [`TraceFiles::source`].
    pub fn again(&self, skipped: &SkippedCount) -> Result<Box<dyn Source>, TraceError> {
        self.source(skipped).map_err(|error| match error {
            SourceError::Trace(error) => error,
            SourceError::Synth(error) => TraceError::Io { path: self.name(), source: io::Error::other(error) },
        })
    }

    /// The name of the trace: the names of its files without folders.
    pub fn name(&self) -> String {
        let names = self.paths.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
        names.collect::<Vec<_>>().join(" + ")
    }

    /// The specification from which the trace is drawn, if it is.
    pub fn specification(&self) -> Option<&Path> {
        match &self.paths[..] {
            [path] if path.extension().is_some_and(|extension| extension == "toml") => Some(path),
            _ => None,
        }
    }
}

/// The lines and records that were skipped in a trace; complete when the trace has been read to its end.
#[derive(Clone, Debug, Default)]
pub struct SkippedCount(Arc<Mutex<Option<Skipped>>>);

impl SkippedCount {
    /// What was skipped when the trace was last read; `None` before that.
    pub fn get(&self) -> Option<Skipped> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, skipped: Skipped) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(skipped);
    }
}

/// A reader that passes its count of skipped lines on when it is dropped.
struct Watched {
    reader: Reader,
    skipped: SkippedCount,
}

impl Source for Watched {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.reader.next_batch(batch)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.skipped.set(self.reader.skipped());
    }
}
