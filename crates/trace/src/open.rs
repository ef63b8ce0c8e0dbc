//! Opens traces: from a path to a stream of requests.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
};

use peryton_recording::Files;
use peryton_units::{Bytes, Nanos};

use crate::{
    BATCH, BlockEvent, Format, Join, ParquetSource, Request, Source, TraceError,
    decode::{Decode, Skipped},
    error::shown,
    format,
    formats::{Head, ReadOptions, TimeUnit, blktrace, block_event::Choice},
    input::Input,
    join::{AsVolume, FromSource, Merge, Sequence},
    order::Order,
    volumes::{Layout, Selection},
};

/// The most files that can be joined to one trace; each has its own buffers.
pub const MAX_FILES: usize = 1024;

/// The options for reading a trace. By default the format is detected, all volumes are read, and reading stops at the
/// first bad line.
///
/// ```
/// use peryton_trace::{Format, OpenOptions};
///
/// let options = OpenOptions { format: Some(Format::Msr), skip_bad: true, ..OpenOptions::default() };
/// # assert!(options.volumes.is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format; absent = detected from the first KiBs.
    pub format: Option<Format>,
    /// Skip and count bad lines and records instead of stopping at the first.
    pub skip_bad: bool,
    /// Read only these volumes; absent = all. Time then starts at the first request of a selected volume.
    pub volumes: Option<Vec<u32>>,
    /// Lay the volumes one after another on one address space, in the order of their numbers, each aligned to
    /// [`VOLUME_ALIGNMENT`](crate::VOLUME_ALIGNMENT). The trace is read twice, so it must be a file.
    pub concatenate: bool,
    /// Number the files of [`open_all`] as volumes from 0, in place of the numbers in the files.
    pub files_as_volumes: bool,
    /// The event to take from traces of Linux's block layer; absent = the first of queue, issue, insert and complete
    /// that occurs at the start of the trace.
    pub event: Option<BlockEvent>,
    /// The unit of arrivals in the `disksim` format; absent = milliseconds with decimals, nanoseconds without.
    pub time_unit: Option<TimeUnit>,
}

impl OpenOptions {
    /// The options that the reader of a format needs.
    fn for_the_format(&self) -> ReadOptions {
        ReadOptions { skip_bad: self.skip_bad, event: self.event, time_unit: self.time_unit }
    }
}

/// An open trace of any format: a [`Source`] of its requests in the order of time.
///
/// Memory is bounded for traces of any length. Arrivals count from the first request and never go back (see
/// [`REORDER_WINDOW`](crate::REORDER_WINDOW)). Reads and writes of zero length are kept, as in the traced system; a
/// flush has neither offset nor length. After an error, or at the end, batches are empty.
///
/// ```
/// use peryton_trace::{OpenOptions, Source, read};
///
/// let text = "time_us,op,offset,length\n0,W,0,4096\nnonsense\n9,R,0,4096\n";
/// let options = OpenOptions { skip_bad: true, ..OpenOptions::default() };
/// let mut reader = read("example", text.as_bytes(), &options)?;
/// let mut batch = Vec::new();
/// reader.next_batch(&mut batch)?;
/// assert_eq!((batch.len(), reader.skipped().count), (2, 1));
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct Reader {
    /// The name of the trace in messages.
    path: String,
    name: String,
    format: Format,
    body: Body,
    selection: Selection,
    layout: Option<Layout>,
    requests: u64,
    finished: bool,
}

enum Body {
    Decoded {
        decode: Box<dyn Decode>,
        order: Order,
    },
    /// A trace whose requests are already in order of time.
    Parquet {
        source: Box<ParquetSource>,
        base: Option<Nanos>,
    },
}

/// Opens the trace at `path`, compressed (gzip, zstd, xz, bzip2) or not; `-` is standard input. For a file of one CPU
/// of a blktrace recording, the files of all its CPUs are opened, and for a recording of a drive all that are still there.
///
/// # Errors
/// The file cannot be read, its format is not recognised, or the options do not fit it; the message names the file and the
/// remedy.
///
/// ```
/// use peryton_trace::{OpenOptions, Source, open};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("my.csv");
/// # std::fs::write(&path, "time_us,op,offset,length\n0,W,0,4096\n9,R,0,4096\n")?;
/// let mut trace = open(&path, &OpenOptions::default())?;
/// let mut batch = Vec::new();
/// trace.next_batch(&mut batch)?;
/// println!("{}: {} requests of the format {}", trace.name(), batch.len(), trace.format());
/// # assert_eq!(batch.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Reader, TraceError> {
    open_all(&[path], Join::ByTime, options)
}

/// Reads a trace from any byte stream, such as a socket or memory. `name` is its name in messages. As with a pipe,
/// Parquet and concatenated volumes are not possible.
///
/// ```
/// use peryton_trace::{Format, OpenOptions, read};
///
/// let text = "time_us,op,offset,length\n0,W,0,4096\n9,R,0,4096\n";
/// let trace = read("memory", text.as_bytes(), &OpenOptions::default())?;
/// assert_eq!((trace.format(), trace.name()), (Format::Csv, "memory"));
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
///
/// # Errors
/// The format is not recognised or is Parquet, or the options do not fit the trace.
pub fn read(name: &str, bytes: impl Read + Send + 'static, options: &OpenOptions) -> Result<Reader, TraceError> {
    if options.concatenate {
        return Err(cannot_lay_out(name.to_owned()));
    }
    let mut input = Input::new(name, Box::new(bytes))?;
    let format = format_of(&mut input, options)?;
    let body = Body::Decoded { decode: format.reader(input, &options.for_the_format())?, order: Order::default() };
    let selection = Selection::new(options.volumes.as_deref());
    let (path, name) = (name.to_owned(), name.to_owned());
    Ok(Reader { path, name, format, body, selection, layout: None, requests: 0, finished: false })
}

/// Opens several files as one trace.
///
/// ```
/// use peryton_trace::{Join, OpenOptions, Source, open_all};
///
/// # let folder = tempfile::tempdir()?;
/// # let [monday, tuesday] = ["monday.csv", "tuesday.csv"].map(|name| folder.path().join(name));
/// # std::fs::write(&monday, "time_us,op,offset,length\n0,W,0,4096\n")?;
/// # std::fs::write(&tuesday, "time_us,op,offset,length\n0,R,0,4096\n")?;
/// let mut trace = open_all(&[monday, tuesday], Join::InSequence, &OpenOptions::default())?;
/// let mut batch = Vec::new();
/// trace.next_batch(&mut batch)?;
/// assert_eq!(batch.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`open`]; `paths` is empty, or has more than [`MAX_FILES`].
pub fn open_all<P: AsRef<Path>>(paths: &[P], join: Join, options: &OpenOptions) -> Result<Reader, TraceError> {
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    let layout = if options.concatenate { Some(lay_out(&paths, join, options)?) } else { None };
    reader(&paths, join, options, layout)
}

/// The name of a trace in messages.
fn shown_path(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { shown(path.as_os_str().as_encoded_bytes()) }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The decompressed bytes at `path`.
pub(crate) fn input(path: &Path) -> Result<Input, TraceError> {
    let name = shown_path(path);
    let raw: Box<dyn Read + Send> = if is_stdin(path) {
        Box::new(io::stdin())
    } else {
        Box::new(Files::open(path).map_err(|source| TraceError::Io { path: name.clone(), source })?)
    };
    Input::new(&name, raw)
}

fn options_error(path: String, problem: &str, remedy: &str) -> TraceError {
    TraceError::Options { path, problem: problem.to_owned(), remedy: remedy.to_owned() }
}

fn cannot_lay_out(path: String) -> TraceError {
    let problem = "volumes cannot be concatenated from a pipe, because the trace has to be read twice";
    options_error(path, problem, "save it in a file first, or select one volume")
}

/// Reads the trace once to find the size of each volume.
fn lay_out(paths: &[&Path], join: Join, options: &OpenOptions) -> Result<Layout, TraceError> {
    for path in paths {
        let is_file = !is_stdin(path) && (!path.exists() || path.is_file());
        if !is_file {
            return Err(cannot_lay_out(shown_path(path)));
        }
    }
    let mut reader = reader(paths, join, options, None)?;
    let (mut batch, mut ends) = (Vec::with_capacity(BATCH), BTreeMap::new());
    loop {
        reader.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Layout::new(&ends)
                .map_err(|problem| options_error(reader.path.clone(), problem, "select fewer volumes"));
        }
        for request in &batch {
            let end = ends.entry(request.volume).or_insert(Bytes::ZERO);
            *end = (*end).max(request.offset + request.len);
        }
        if ends.len() > crate::volumes::MAX_VOLUMES {
            let problem = "more than 65536 volumes cannot be concatenated";
            return Err(options_error(reader.path, problem, "select volumes"));
        }
    }
}

fn reader(paths: &[&Path], join: Join, options: &OpenOptions, layout: Option<Layout>) -> Result<Reader, TraceError> {
    let path = match paths {
        [] => return Err(options_error("no file".to_owned(), "there is nothing to read", "name at least one trace")),
        [path] => shown_path(path),
        [path, ..] => format!("{} and {} more", shown_path(path), paths.len() - 1),
    };
    let name = match paths[0].file_name() {
        Some(name) if !is_stdin(paths[0]) => name.to_string_lossy().into_owned(),
        _ => shown_path(paths[0]),
    };
    if paths.len() > MAX_FILES {
        let problem = "more than 1024 files cannot be one trace";
        return Err(options_error(path, problem, "join fewer, or convert them to Parquet one by one"));
    }
    if paths.iter().filter(|path| is_stdin(path)).count() > 1 {
        return Err(options_error(path, "standard input is named twice", "name it once"));
    }
    let mut parts = paths.iter().map(|path| part(path, options)).collect::<Result<Vec<_>, _>>()?;
    let format = parts[0].format();
    let volumes = options.files_as_volumes;
    let body = match parts.pop() {
        Some(Part::Parquet(source)) if parts.is_empty() && !volumes => Body::Parquet { source, base: None },
        last => {
            parts.extend(last);
            let traces = parts.into_iter().map(Part::into_decode).zip(0..).map(|(decode, volume)| {
                if volumes { Box::new(AsVolume { decode, volume }) as Box<dyn Decode> } else { decode }
            });
            Body::Decoded { decode: joined(traces.collect(), join), order: Order::default() }
        }
    };
    let selection = Selection::new(options.volumes.as_deref());
    Ok(Reader { path, name, format, body, selection, layout, requests: 0, finished: false })
}

fn joined(mut traces: Vec<Box<dyn Decode>>, join: Join) -> Box<dyn Decode> {
    match traces.len() {
        1 => traces.remove(0),
        _ if join == Join::InSequence => Box::new(Sequence::new(traces)),
        _ => Box::new(Merge::new(traces)),
    }
}

/// One file of a trace.
enum Part {
    Parquet(Box<ParquetSource>),
    Decoded(Format, Box<dyn Decode>),
}

impl Part {
    fn format(&self) -> Format {
        match self {
            Part::Parquet(_) => Format::Parquet,
            Part::Decoded(format, _) => *format,
        }
    }

    fn into_decode(self) -> Box<dyn Decode> {
        match self {
            Part::Parquet(source) => Box::new(FromSource::new(*source)),
            Part::Decoded(_, decode) => decode,
        }
    }
}

fn part(path: &Path, options: &OpenOptions) -> Result<Part, TraceError> {
    if !is_stdin(path)
        && matches!(options.format, None | Some(Format::Blktrace))
        && let Some(cpus) = blktrace::siblings(path)
    {
        return cpus_of_blktrace(&cpus, options).map(|decode| Part::Decoded(Format::Blktrace, decode));
    }
    let mut input = input(path)?;
    let format = format_of(&mut input, options)?;
    if format == Format::Parquet && !is_stdin(path) && path.is_file() && !input.is_compressed() {
        return ParquetSource::open(path).map(|source| Part::Parquet(Box::new(source)));
    }
    format.reader(input, &options.for_the_format()).map(|decode| Part::Decoded(format, decode))
}

fn format_of(input: &mut Input, options: &OpenOptions) -> Result<Format, TraceError> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    let name = input.name().clone();
    format::detect(&name, Head::of(input)?)
}

fn cpus_of_blktrace(cpus: &[PathBuf], options: &OpenOptions) -> Result<Box<dyn Decode>, TraceError> {
    if cpus.len() > MAX_FILES {
        return Err(options_error(shown_path(&cpus[0]), "more than 1024 CPUs", "pipe the trace: blktrace -o -"));
    }
    let mut inputs = cpus.iter().map(|path| input(path)).collect::<Result<Vec<_>, _>>()?;
    // All files use the same kind of event, because a CPU may have only completions.
    let mut kinds = Vec::new();
    for input in &mut inputs {
        kinds.extend(blktrace::kinds(Head::of(input)?));
    }
    let choice = Choice::new(options.event, kinds.into_iter());
    let cpu = |input| Box::new(blktrace::Blktrace::new(input, choice, options.skip_bad)) as Box<dyn Decode>;
    Ok(joined(inputs.into_iter().map(cpu).collect(), Join::ByTime))
}

impl Reader {
    /// The format of the trace; that of the first file if there are several.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file's name without its folders.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bad lines and records that have been skipped so far.
    pub fn skipped(&self) -> Skipped {
        let mut skipped = Skipped::default();
        if let Body::Decoded { decode, .. } = &self.body {
            decode.skipped(&mut skipped);
        }
        skipped
    }

    /// Number of requests so far that came so late in the file that their arrival was changed to that of the previous
    /// request.
    pub fn late(&self) -> u64 {
        match &self.body {
            Body::Decoded { order, .. } => order.late(),
            Body::Parquet { .. } => 0,
        }
    }

    /// The place of each volume, if they are concatenated.
    pub fn layout(&self) -> &[crate::VolumeRange] {
        self.layout.as_ref().map_or(&[], Layout::ranges)
    }

    fn next_selected(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let selection = &mut self.selection;
        match &mut self.body {
            Body::Decoded { decode, order } => order.next_batch(batch, |out| {
                let before = out.len();
                let filled = decode.fill(out);
                let more = out.len() > before;
                selection.apply(out, before);
                filled.map(|()| more)
            }),
            Body::Parquet { source, base } => loop {
                source.next_batch(batch)?;
                let ended = batch.is_empty();
                selection.apply(batch, 0);
                if let Some(first) = batch.first() {
                    let base = *base.get_or_insert(first.at);
                    if base > Nanos::ZERO {
                        batch.iter_mut().for_each(|request| request.at = request.at.saturating_sub(base));
                    }
                }
                if ended || !batch.is_empty() {
                    return Ok(());
                }
            },
        }
    }

    /// The error for a trace without requests.
    fn nothing(&self) -> TraceError {
        let path = self.path.clone();
        if let Some((wanted, present)) = self.selection.missed() {
            return TraceError::NoSuchVolume { path, wanted, present };
        }
        let skipped = self.skipped();
        let expected = match skipped.first.first() {
            Some(first) => format!("{} lines or records, but {} were bad, first {first}", self.format, skipped.count),
            None => format!("a trace of the format {} with at least one", self.format),
        };
        TraceError::Empty { path, expected }
    }
}

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        if self.finished {
            return Ok(());
        }
        if let Err(error) = self.next_selected(batch) {
            self.finished = true;
            batch.clear();
            return Err(error);
        }
        if batch.is_empty() {
            self.finished = true;
            return if self.requests == 0 { Err(self.nothing()) } else { Ok(()) };
        }
        self.requests += batch.len() as u64;
        if let Some(layout) = &self.layout
            && !layout.apply(batch)
        {
            self.finished = true;
            batch.clear();
            let problem = "the trace has changed while it was read";
            return Err(options_error(self.path.clone(), problem, "read it when nothing writes to it"));
        }
        Ok(())
    }
}
