//! Files that are one trace, or a specification from which a trace is drawn, opened as often as needed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use thiserror::Error;

use crate::{
    Account, Join, Objects, OpenOptions, Reader, Request, Source, SynthError, SynthSource, SynthSpec, TraceError,
    open_all,
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

    /// Opens the trace, or draws it; what became of it goes to `accounts` when the source is dropped.
    ///
    /// # Errors
    /// A file cannot be read, is not a trace, or is a specification from which no trace can be drawn.
    pub fn source(&self, accounts: &Accounts) -> Result<Box<dyn Source>, SourceError> {
        if let Some(path) = self.specification() {
            let spec = SynthSpec::load(path)?;
            return Ok(accounts.of(SynthSource::new(&spec, &path.display().to_string())?));
        }
        Ok(accounts.of(self.open()?))
    }

    /// The objects of the trace, if it is one of objects.
    ///
    /// # Errors
    /// Those of [`open_all`] and of [`Reader::into_objects`].
    pub fn objects(&self) -> Result<Objects, TraceError> {
        self.open()?.into_objects()
    }

    /// Does the same after [`TraceFiles::source`] has succeeded, with the errors of a trace alone.
    ///
    /// # Errors
    /// Those of [`TraceFiles::source`].
    pub fn again(&self, accounts: &Accounts) -> Result<Box<dyn Source>, TraceError> {
        self.source(accounts).map_err(|error| match error {
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

/// What became of a trace on its way; complete when the trace has been read to its end.
#[derive(Clone, Debug, Default)]
pub struct Accounts(Arc<Mutex<Option<Account>>>);

impl Accounts {
    /// The account of when the trace was last read; `None` before that.
    pub fn get(&self) -> Option<Account> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same source; what became of it is known when it is dropped.
    pub fn of(&self, source: impl Source + 'static) -> Box<dyn Source> {
        Box::new(Watched { source, accounts: self.clone() })
    }

    fn set(&self, account: Account) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(account);
    }
}

/// A source that passes its account on when it is dropped.
struct Watched<S: Source> {
    source: S,
    accounts: Accounts,
}

impl<S: Source> Source for Watched<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(batch)
    }

    fn account(&self) -> Account {
        self.source.account()
    }
}

impl<S: Source> Drop for Watched<S> {
    fn drop(&mut self) {
        self.accounts.set(self.source.account());
    }
}
