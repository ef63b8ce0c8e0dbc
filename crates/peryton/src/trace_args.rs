//! The command-line options that name and read traces.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use peryton_trace::{
    Format, Join, OpenOptions, Reader, Request, Skipped, Source, SynthSource, SynthSpec, TraceError, open_all,
};

use crate::failure::Failure;

/// Options of reading a trace.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArgs {
    /// Format of the trace, if Peryton does not recognise it
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<Format>,
    /// Skip bad lines and records, and count them, instead of stopping at the first
    #[arg(long)]
    pub skip_bad: bool,
    /// Read only these volumes (ASUs, disks) of the trace, such as 0,2
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    pub volumes: Option<Vec<u32>>,
    /// Put the volumes of the trace one after the other into one address space
    #[arg(long)]
    pub concatenate: bool,
    /// Number the volumes by file: the first file is volume 0, the second volume 1, whatever numbers the files contain
    #[arg(long)]
    pub files_as_volumes: bool,
}

/// Reads the name of a format; help lists all of them with their descriptions.
fn formats() -> impl TypedValueParser<Value = Format> {
    let named = |format: &Format| PossibleValue::new(format.name()).help(format.description());
    PossibleValuesParser::new(Format::ALL.iter().map(named)).try_map(|name| name.parse::<Format>())
}

impl TraceArgs {
    fn options(&self) -> OpenOptions {
        OpenOptions {
            format: self.format,
            skip_bad: self.skip_bad,
            volumes: self.volumes.clone(),
            concatenate: self.concatenate,
            files_as_volumes: self.files_as_volumes,
            ..OpenOptions::default()
        }
    }

    /// The options as words of a command line, without defaults.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.format.into_iter().flat_map(|format| ["--format".to_owned(), format.to_string()]));
        if let Some(volumes) = &self.volumes {
            let list: Vec<String> = volumes.iter().map(ToString::to_string).collect();
            words.extend(["--volumes".to_owned(), list.join(",")]);
        }
        let flags = [
            (self.skip_bad, "--skip-bad"),
            (self.concatenate, "--concatenate"),
            (self.files_as_volumes, "--files-as-volumes"),
        ];
        words.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.to_owned()));
        words
    }

    /// Opens the files as one trace.
    pub fn open(&self, paths: &[PathBuf]) -> Result<Reader, TraceError> {
        open_all(paths, Join::ByTime, &self.options())
    }

    /// Opens a trace, or draws one if the file is a specification (`.toml`); the count of skipped lines goes to
    /// `skipped`.
    pub fn source(&self, paths: &[PathBuf], skipped: &Counted) -> Result<Box<dyn Source>, SourceError> {
        if let [path] = paths
            && is_specification(path)
        {
            let spec = SynthSpec::load(path)?;
            return Ok(Box::new(SynthSource::new(&spec, &path.display().to_string())?));
        }
        Ok(Box::new(Watched { reader: self.open(paths)?, skipped: skipped.clone() }))
    }

    /// Opens the trace again, after [`TraceArgs::source`] has succeeded.
    pub fn again(&self, paths: &[PathBuf], skipped: &Counted) -> Result<Box<dyn Source>, TraceError> {
        self.source(paths, skipped).map_err(|error| match error {
            SourceError::Trace(error) => error,
            SourceError::Synth(error) => TraceError::Io { path: name(paths), source: io::Error::other(error) },
        })
    }
}

/// The reason why a trace cannot be opened or drawn.
#[derive(Debug)]
pub enum SourceError {
    /// The trace cannot be read.
    Trace(TraceError),
    /// The specification is wrong.
    Synth(peryton_trace::SynthError),
}

impl From<TraceError> for SourceError {
    fn from(error: TraceError) -> SourceError {
        SourceError::Trace(error)
    }
}
impl From<peryton_trace::SynthError> for SourceError {
    fn from(error: peryton_trace::SynthError) -> SourceError {
        SourceError::Synth(error)
    }
}
impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Failure {
        match error {
            SourceError::Trace(error) => error.into(),
            SourceError::Synth(error) => error.into(),
        }
    }
}

/// Whether a file is a specification to draw a trace from.
pub fn is_specification(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// The name of a trace from these files: their names without folders.
pub fn name(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
    names.collect::<Vec<_>>().join(" + ")
}

/// The lines that were skipped in a trace; complete when the trace has been read to its end.
#[derive(Clone, Default)]
pub struct Counted(Arc<Mutex<Option<Skipped>>>);

impl Counted {
    fn set(&self, skipped: Skipped) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(skipped);
    }

    /// Warns on standard error if anything was skipped.
    pub fn report(&self) {
        if let Some(skipped) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            warn_skipped(skipped);
        }
    }
}

/// Warns on standard error if anything was skipped.
pub fn warn_skipped(skipped: &Skipped) {
    if skipped.count > 0 {
        let first = skipped.first.first().map_or(String::new(), |first| format!(", the first: {first}"));
        eprintln!("peryton: skipped {} bad lines or records{first}", skipped.count);
    }
}

/// A reader that passes its count of skipped lines on when it is dropped.
struct Watched {
    reader: Reader,
    skipped: Counted,
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
