//! Opens traces: from a path to a stream of requests.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::{Path, PathBuf},
};

use peryton_recording::Files;
use peryton_units::Bytes;

use crate::{
    Account, BATCH, BlockEvent, Columns, Format, Join, Objects, Request, Source, TraceError, Units, VolumeNames,
    decode::Decode,
    error::shown,
    format,
    formats::{Head, ReadOptions, blktrace, block_event::Choice},
    input::Input,
    join::{AsVolume, Merge, Sequence},
    objects,
    order::{Order, Sorting},
    parquet::ParquetRows,
    seconds::{Seconds, Spread},
    volume_names::KnownNames,
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
    /// The format; absent = detected from the first KiBs, or a table if `columns` are given.
    pub format: Option<Format>,
    /// Which columns of a table are what.
    pub columns: Option<Columns>,
    /// The units of numbers, where they are not those of the format.
    pub units: Units,
    /// Skip and count bad lines and records instead of stopping at the first.
    pub skip_bad: bool,
    /// Read only the volumes of these names; absent = all. Time then starts at the first request of a selected volume.
    pub volumes: Option<Vec<String>>,
    /// Lay the volumes one after another on one address space, in the order of their numbers, each aligned to
    /// [`VOLUME_ALIGNMENT`](crate::VOLUME_ALIGNMENT). The trace is read twice, so it must be a file.
    pub concatenate: bool,
    /// Number the files of [`open_all`] as volumes from 0, in place of the numbers in the files.
    pub files_as_volumes: bool,
    /// The event to take from traces of Linux's block layer; absent = the first of queue, issue, insert and complete
    /// that occurs at the start of the trace.
    pub event: Option<BlockEvent>,
    /// Sort the whole trace by time before the first request, in temporary files if it is long.
    pub sort: bool,
    /// Spread the requests of a trace whose times are whole seconds evenly over their second.
    pub spread: bool,
}

impl OpenOptions {
    /// The options that the reader of a format needs.
    fn for_the_format(&self, names: &KnownNames) -> ReadOptions {
        let (columns, units, names) = (self.columns.clone(), self.units.clone(), names.clone());
        ReadOptions { skip_bad: self.skip_bad, event: self.event, columns, units, names }
    }
}

/// An open trace of any format: a [`Source`] of its requests in the order of time.
///
/// Memory is bounded for traces of any length. Arrivals count from the first request and never go back (see
/// [`REORDER_WINDOW`](crate::REORDER_WINDOW)). Of a trace of objects each has a slot on the drive
/// ([`OBJECT_UNIT`](crate::OBJECT_UNIT)); [`Reader::into_objects`] reads them whole. Reads and writes of zero length are kept, as in the traced system; a
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
/// assert_eq!((batch.len(), reader.account().skipped.count), (2, 1));
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct Reader {
    /// The name of the trace in messages.
    path: String,
    name: String,
    format: Format,
    decode: Box<dyn Decode>,
    order: Order,
    is_of_objects: bool,
    selection: Selection,
    layout: Option<Layout>,
    names: KnownNames,
    file_names: Option<Vec<String>>,
    seconds: Seconds,
    spread: Option<Spread>,
    account: Account,
    finished: bool,
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
    let (format, names) = (format_of(&mut input, options)?, KnownNames::default());
    let decode = format.reader(input, &options.for_the_format(&names))?;
    let part = Part { format, is_in_order: false, decode };
    Ok(Reader::new(name.to_owned(), name.to_owned(), vec![part], Join::ByTime, names, options))
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

/// The reader of one file, in the order of the file and on the trace's own clock.
pub(crate) fn decoder(path: &Path, options: &OpenOptions) -> Result<(String, Box<dyn Decode>), TraceError> {
    let mut input = input(path)?;
    let format = format_of(&mut input, options)?;
    let name = input.name().to_string();
    Ok((name, format.reader(input, &options.for_the_format(&KnownNames::default()))?))
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
            let problem = "more than 1048576 volumes cannot be concatenated";
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
    let names = KnownNames::default();
    let mut parts = Vec::new();
    for path in paths {
        parts.push(part(path, options, &names)?);
    }
    let objects = parts.iter().filter(|part| part.decode.is_of_objects()).count();
    if objects > 0 && objects < parts.len() {
        return Err(options_error(path, "some of the files have objects and others blocks", "read them one by one"));
    }
    let mut reader = Reader::new(path, name, parts, join, names, options);
    if options.files_as_volumes {
        reader.file_names = Some(paths.iter().map(|path| shown_path(path)).collect());
    }
    reader.layout = layout;
    Ok(reader)
}

fn joined(mut traces: Vec<Box<dyn Decode>>, join: Join) -> Box<dyn Decode> {
    match traces.len() {
        1 => traces.remove(0),
        _ if join == Join::InSequence => Box::new(Sequence::new(traces)),
        _ => Box::new(Merge::new(traces)),
    }
}

/// One file of a trace.
struct Part {
    format: Format,
    /// Whether it promises to be in order of time.
    is_in_order: bool,
    decode: Box<dyn Decode>,
}

/// The file at `path`, or those of all CPUs that it stands for.
fn part(path: &Path, options: &OpenOptions, names: &KnownNames) -> Result<Part, TraceError> {
    if !is_stdin(path)
        && matches!(options.format, None | Some(Format::Blktrace))
        && let Some(cpus) = blktrace::siblings(path)
    {
        return cpus_of_blktrace(&cpus, options, names);
    }
    let mut input = input(path)?;
    let format = format_of(&mut input, options)?;
    if format == Format::Parquet && !is_stdin(path) && path.is_file() && !input.is_compressed() {
        let rows = ParquetRows::open(path)?;
        return Ok(Part { format, is_in_order: rows.is_in_order(), decode: Box::new(rows) });
    }
    let decode = format.reader(input, &options.for_the_format(names))?;
    Ok(Part { format, is_in_order: false, decode })
}

fn format_of(input: &mut Input, options: &OpenOptions) -> Result<Format, TraceError> {
    if let Some(format) = options.format.or(options.columns.is_some().then_some(Format::Csv)) {
        return Ok(format);
    }
    let name = input.name().clone();
    format::detect(&name, Head::of(input)?, options.units == Units::default())
}

fn cpus_of_blktrace(cpus: &[PathBuf], options: &OpenOptions, names: &KnownNames) -> Result<Part, TraceError> {
    if cpus.len() > MAX_FILES {
        return Err(options_error(shown_path(&cpus[0]), "more than 1024 CPUs", "pipe the trace: blktrace -o -"));
    }
    let mut inputs = cpus.iter().map(|path| input(path)).collect::<Result<Vec<_>, _>>()?;
    let binary = inputs.iter_mut().map(blktrace::is_binary).collect::<Result<Vec<bool>, _>>()?;
    if options.format.is_none() && !binary.contains(&true) {
        // The text of blkparse may have the name of what it was made of.
        let format = format_of(&mut inputs[0], options)?;
        let reader = |input| format.reader(input, &options.for_the_format(names));
        let texts = inputs.into_iter().map(reader).collect::<Result<Vec<_>, _>>()?;
        return Ok(Part { format, is_in_order: false, decode: joined(texts, Join::ByTime) });
    }
    // All files use the same kind of event, because a CPU may have only completions.
    let mut kinds = Vec::new();
    for input in &mut inputs {
        kinds.extend(blktrace::kinds(Head::of(input)?));
    }
    let choice = Choice::new(options.event, kinds.into_iter());
    let cpu = |input| Box::new(blktrace::Blktrace::new(input, choice, options.skip_bad)) as Box<dyn Decode>;
    let decode = joined(inputs.into_iter().map(cpu).collect(), Join::ByTime);
    Ok(Part { format: Format::Blktrace, is_in_order: false, decode })
}

impl Reader {
    fn new(
        path: String,
        name: String,
        parts: Vec<Part>,
        join: Join,
        names: KnownNames,
        options: &OpenOptions,
    ) -> Reader {
        let format = parts[0].format;
        let is_of_objects = parts[0].decode.is_of_objects();
        let sorting = match parts.iter().all(|part| part.is_in_order) {
            _ if options.sort => Sorting::Whole,
            true => Sorting::Promised,
            false => Sorting::Window,
        };
        let traces = parts.into_iter().map(|part| part.decode).zip(0..).map(|(decode, volume)| {
            if options.files_as_volumes { Box::new(AsVolume { decode, volume }) as Box<dyn Decode> } else { decode }
        });
        let kind = if format.names_devices() { VolumeNames::Devices } else { VolumeNames::Numbers };
        Reader {
            path,
            name,
            format,
            decode: joined(traces.collect(), join),
            order: Order::new(sorting),
            is_of_objects,
            selection: Selection::new(options.volumes.as_deref().map(|words| kind.select(words))),
            layout: None,
            names,
            file_names: None,
            seconds: Seconds::default(),
            spread: options.spread.then(Spread::default),
            account: Account::default(),
            finished: false,
        }
    }

    /// The format of the trace; that of the first file if there are several.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file's name without its folders.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of each volume, if they are concatenated.
    pub fn layout(&self) -> &[crate::VolumeRange] {
        self.layout.as_ref().map_or(&[], Layout::ranges)
    }

    /// Whether it is a trace of objects.
    pub fn is_of_objects(&self) -> bool {
        self.is_of_objects
    }

    /// The objects of a trace of objects, with their sizes.
    ///
    /// # Errors
    /// It is a trace of blocks.
    pub fn into_objects(self) -> Result<Objects, TraceError> {
        if self.is_of_objects {
            return Ok(Objects::new(self));
        }
        let problem = format!("a trace of the format {} has blocks, not objects", self.format);
        Err(TraceError::Options {
            path: self.path,
            problem,
            remedy: "give a trace of objects, such as oracle-general".into(),
        })
    }

    fn volume_names(&self) -> VolumeNames {
        match &self.file_names {
            Some(names) => VolumeNames::Words(names.clone().into()),
            None if self.format.names_devices() => VolumeNames::Devices,
            None => self.names.all().unwrap_or_default(),
        }
    }

    /// The next requests as they stand in the trace: those for objects have ids and whole sizes.
    pub(crate) fn next_as_read(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        if self.finished {
            return Ok(());
        }
        if let Err(error) = self.next_in_time(batch) {
            self.finished = true;
            batch.clear();
            return Err(error);
        }
        if batch.is_empty() {
            self.finished = true;
            return if self.account.requests == 0 { Err(self.nothing()) } else { Ok(()) };
        }
        self.account.requests += batch.len() as u64;
        Ok(())
    }

    /// The next requests of the selected volumes, spread over their second if they are to be.
    fn next_in_time(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        loop {
            if let Some(spread) = &mut self.spread
                && spread.take(batch)
            {
                return Ok(());
            }
            self.next_in_order(batch)?;
            self.seconds.see(self.order.start(), batch);
            let Some(spread) = &mut self.spread else { return Ok(()) };
            spread.put(&self.path, self.seconds.are_whole(), batch)?;
        }
    }

    fn next_in_order(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let Reader { path, decode, order, selection, names, format, file_names, .. } = self;
        let (names, format, file_names) = (&*names, *format, &*file_names);
        let named = |volume: u32| match file_names {
            Some(files) => files.get(volume as usize).cloned().unwrap_or_default(),
            None if format.names_devices() => VolumeNames::Devices.name(volume),
            None => names.name(volume).unwrap_or_else(|| volume.to_string()),
        };
        order.next_batch(path, batch, |out| {
            let before = out.len();
            let filled = decode.fill(out);
            let more = out.len() > before;
            selection.apply(out, before, named);
            filled.map(|()| more)
        })
    }

    /// The error for a trace without requests.
    fn nothing(&self) -> TraceError {
        let (path, names) = (self.path.clone(), self.volume_names());
        if let Some((wanted, present)) = self.selection.missed(|volume| names.name(volume)) {
            return TraceError::NoSuchVolume { path, wanted, present };
        }
        let account = self.account();
        let expected = match (account.skipped.first.first(), account.left_out.iter().next()) {
            (Some(first), _) => {
                format!("{} lines or records, but {} were bad, first {first}", self.format, account.skipped.count)
            }
            (None, Some((reason, count))) => format!("requests, but it has {count} {reason}"),
            (None, None) => format!("a trace of the format {} with at least one", self.format),
        };
        TraceError::Empty { path, expected }
    }
}

impl Source for Reader {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.next_as_read(batch)?;
        if self.is_of_objects {
            objects::place(batch, &mut self.account);
        }
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

    fn account(&self) -> Account {
        let mut account = self.account.clone();
        self.decode.add_to(&mut account);
        self.order.add_to(&mut account);
        account.names = self.volume_names();
        account.together = self.seconds.together();
        account.spread = self.spread.as_ref().map_or(0, Spread::count);
        account
    }
}
