//! The command-line options that name and read traces.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use peryton_trace::{
    Account, Accounts, Columns, Format, OpenOptions, Reader, SaveError, Source, SourceError, TraceError, TraceFiles,
    Units, partial_of,
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::failure::Failure;

/// Options of reading a trace.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArgs {
    /// The trace's format: see trace info --help [default: recognised]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<Format>,
    /// Columns of a table, such as time=1,op=2,offset=3,size=4
    ///
    /// By name or number (-1 is the last): time=1,op=2,offset=3,size=4,volume=5; id=... in place of offset for objects, also end,
    /// latency, count.
    #[arg(long, value_name = "COLUMN=PLACE,...")]
    pub columns: Option<Columns>,
    /// Units of its numbers, such as time=ms,offset=sectors
    ///
    /// time=ns|us|ms|s|clock, offset=bytes|sectors|SIZE, size=..., op=read:1+write:0, volume=name.
    #[arg(long, value_name = "COLUMN=UNIT,...")]
    pub unit: Option<Units>,
    /// Skip and count bad lines and records [default: stop]
    ///
    /// Skip bad lines and records, and count them, instead of stopping at the first.
    #[arg(long)]
    pub skip_bad: bool,
    /// Read only these volumes (ASUs, disks), such as 0,2
    ///
    /// Read only these volumes (ASUs, disks), such as 0,2 or the device 253,0.
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',')]
    pub volumes: Option<Vec<String>>,
    /// Join the trace's volumes into one address space
    #[arg(long)]
    pub concatenate: bool,
    /// Number the volumes by file: the first file is volume 0
    ///
    /// Number the volumes by file: the first file is volume 0, the second volume 1, whatever numbers the files contain.
    #[arg(long)]
    pub files_as_volumes: bool,
    /// First sort the whole trace by time
    ///
    /// First sort the whole trace by time, in temporary files if it is long.
    #[arg(long)]
    pub sort: bool,
    /// Spread requests at whole seconds over their second
    ///
    /// Spread requests whose times are whole seconds evenly over their second.
    #[arg(long)]
    pub spread: bool,
}

/// Reads the name of a format; help lists all of them with their descriptions.
fn formats() -> impl TypedValueParser<Value = Format> {
    let named = |format: &Format| PossibleValue::new(format.name()).help(format.description());
    PossibleValuesParser::new(Format::ALL.iter().map(named)).try_map(|name| name.parse::<Format>())
}

impl TraceArgs {
    /// The options in the form of the library.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            format: self.format,
            columns: self.columns.clone(),
            units: self.unit.clone().unwrap_or_default(),
            skip_bad: self.skip_bad,
            volumes: self.volumes.clone(),
            concatenate: self.concatenate,
            files_as_volumes: self.files_as_volumes,
            event: None,
            sort: self.sort,
            spread: self.spread,
        }
    }

    /// The options as words of a command line, without defaults.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.format.into_iter().flat_map(|format| ["--format".to_owned(), format.to_string()]));
        if let Some(volumes) = &self.volumes {
            words.extend(["--volumes".to_owned(), volumes.join(",")]);
        }
        words.extend(self.columns.iter().flat_map(|columns| ["--columns".to_owned(), columns.to_string()]));
        words.extend(self.unit.iter().flat_map(|unit| ["--unit".to_owned(), unit.to_string()]));
        let flags = [
            (self.skip_bad, "--skip-bad"),
            (self.concatenate, "--concatenate"),
            (self.files_as_volumes, "--files-as-volumes"),
            (self.sort, "--sort"),
            (self.spread, "--spread"),
        ];
        words.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.to_owned()));
        words
    }

    /// These files, with the options.
    pub fn files(&self, paths: &[PathBuf]) -> TraceFiles {
        TraceFiles { paths: paths.to_vec(), options: self.options() }
    }

    /// Opens the files as one trace.
    pub fn open(&self, paths: &[PathBuf]) -> Result<Reader, TraceError> {
        self.files(paths).open()
    }

    /// Opens a trace, or draws one if the file is a specification (`.toml`); what became of it goes to `skipped`.
    pub fn source(&self, paths: &[PathBuf], skipped: &Counted) -> Result<Box<dyn Source>, SourceError> {
        self.files(paths).source(&skipped.0)
    }

    /// Opens the trace again, after [`TraceArgs::source`] has succeeded.
    pub fn again(&self, paths: &[PathBuf], skipped: &Counted) -> Result<Box<dyn Source>, TraceError> {
        self.files(paths).again(&skipped.0)
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

/// Refuses `-` as the file of a trace that is to be written.
pub fn is_a_file(path: &Path) -> Result<(), Failure> {
    match crate::output::is_stdout(path) {
        true => Err(Failure::bad_input(
            "-: a trace is written to a file, whose name says whether it is CSV; /dev/stdout is one",
        )),
        false => Ok(()),
    }
}

/// Removes what is written of a trace if Ctrl-C or SIGTERM ends the program.
pub fn remove_if_interrupted(path: &Path) -> Result<(), Failure> {
    let Some(partial) = partial_of(path) else { return Ok(()) };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(Failure::failed)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // There may be nothing yet; and the program ends in any case.
            let _ = std::fs::remove_file(&partial);
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

impl From<SaveError> for Failure {
    fn from(error: SaveError) -> Failure {
        match error {
            SaveError::Trace(error) => error.into(),
            SaveError::Write { path, source } => Failure::writing(&path, &source),
        }
    }
}

/// The name of a trace from these files: their names without folders.
pub fn name(paths: &[PathBuf]) -> String {
    TraceFiles { paths: paths.to_vec(), ..TraceFiles::default() }.name()
}

/// What became of a trace on its way; complete when the trace has been read to its end.
#[derive(Clone, Default)]
pub struct Counted(Accounts);

impl Counted {
    /// The same source; what became of it is counted when it is dropped.
    pub fn of(&self, source: impl Source + 'static) -> Box<dyn Source> {
        self.0.of(source)
    }

    /// Says on standard error what was skipped, left out, moved, cut or spread.
    pub fn report(&self) {
        if let Some(account) = self.0.get() {
            remark_on(&account);
        }
    }
}

/// Says on standard error what was skipped, left out, moved, cut or spread.
pub fn remark_on(account: &Account) {
    account.remarks().iter().for_each(|remark| crate::terminal::remark(&remark.to_string()));
}
