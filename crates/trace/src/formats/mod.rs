//! The trace formats: one file and one line each. A file describes its format, recognises it
//! (`looks_like`) and makes its reader (`reader`); `docs/adding-a-trace-format.md` shows how to add one.

pub(crate) mod block_event;

pub(crate) use crate::{OpenOptions, input::Input};
use crate::{
    TraceError,
    decode::{Decode, LineFormat, Lines, RecordFormat, Records, Sink},
    error::shown,
};

macro_rules! formats {
    ($($module:ident $variant:ident $name:literal $description:literal;)*) => {
        $(pub(crate) mod $module;)*

        /// A trace format.
        ///
        /// ```
        /// use peryton_trace::Format;
        ///
        /// assert_eq!("blktrace".parse(), Ok(Format::Blktrace));
        /// for format in Format::ALL {
        ///     println!("{format:20} {}", format.description());
        /// }
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Format {
            $(#[doc = $description] $variant,)*
        }

        impl Format {
            /// Every format that is read.
            pub const ALL: &[Format] = &[$(Format::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Format::$variant => $name,)*
                }
            }

            /// What it is, in a few words.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Format::$variant => $description,)*
                }
            }

            /// How much the head looks like this format, from 0 (not at all) to 100.
            pub(crate) fn likeness(self, head: Head<'_>) -> u32 {
                match self {
                    $(Format::$variant => $module::looks_like(head),)*
                }
            }

            /// A reader of a trace of this format.
            pub(crate) fn reader(self, input: Input, options: &OpenOptions) -> Opened {
                match self {
                    $(Format::$variant => $module::reader(input, options),)*
                }
            }
        }
    };
}

// The file, the variant of `Format`, the name on the command line, and the description.
formats! {
    msr Msr "msr" "MSR Cambridge CSV";
    spc Spc "spc" "SPC trace files, as UMass distributes them";
    fiu Fiu "fiu" "FIU's text (SRCMap, I/O Deduplication)";
    blkparse Blkparse "blkparse" "the text of blkparse";
    blktrace Blktrace "blktrace" "the binary of blktrace";
    ftrace Ftrace "ftrace" "the text of ftrace, trace-cmd and perf";
    fio Fio "fio" "fio's I/O logs, versions 2 and 3";
    vscsi Vscsi "vscsi" "CloudPhysics' binary, versions 1 and 2";
    alibaba Alibaba "alibaba" "Alibaba Cloud 2020";
    tencent Tencent "tencent" "Tencent Cloud Block Storage";
    systor17 Systor17 "systor17" "SYSTOR '17";
    disksim Disksim "disksim" "DiskSim's ASCII and MQSim's";
    disksim_validate DisksimValidate "disksim-validate" "DiskSim's measurements of real disks";
    oracle_general OracleGeneral "oracle-general" "libCacheSim's oracleGeneral";
    csv Csv "csv" "CSV with named columns";
    parquet Parquet "parquet" "Peryton's own, quick to read (docs/parquet-trace.md)";
}

/// A reader, or why the trace cannot be read as the format given.
pub(crate) type Opened = Result<Box<dyn Decode>, TraceError>;

/// The reader of a text format.
pub(crate) fn lines(input: Input, format: impl LineFormat + 'static, options: &OpenOptions) -> Opened {
    Ok(Box::new(Lines::new(input, format, options.skip_bad)))
}

/// The reader of a binary format of records of one size.
pub(crate) fn records(input: Input, format: impl RecordFormat + 'static, options: &OpenOptions) -> Opened {
    Ok(Box::new(Records::new(input, format, options.skip_bad)))
}

/// The start of a decompressed trace, by which its format is recognised.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether this is the whole trace.
    pub(crate) all: bool,
}

impl<'a> Head<'a> {
    /// The head of a trace of which nothing was read yet.
    pub(crate) fn of(input: &'a mut Input) -> Result<Head<'a>, TraceError> {
        input.head()?;
        let all = input.head_is_all();
        Ok(Head { bytes: input.head()?, all })
    }

    /// The error for a trace that cannot even begin to be read as the format given.
    pub(crate) fn unfit(self, trace: &str, found: &str, remedy: &str) -> TraceError {
        TraceError::UnknownFormat {
            path: trace.to_owned(),
            found: found.to_owned(),
            start: shown(&self.bytes[..self.bytes.len().min(64)]),
            remedy: remedy.to_owned(),
        }
    }

    /// The lines, without one that is cut off.
    pub(crate) fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let whole = match memchr::memrchr(b'\n', self.bytes) {
            _ if self.all => self.bytes,
            Some(end) => &self.bytes[..end],
            None => &[],
        };
        whole.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The first line that is not blank.
    pub(crate) fn first_line(self) -> &'a [u8] {
        self.lines().find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[])
    }

    /// Whether this can be a text at all.
    pub(crate) fn is_text(self) -> bool {
        !self.bytes.is_empty()
            && self.bytes.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n' | 0x1b))
    }
}

/// How much the head looks like a text format, from 0 to 100: the share of its lines that the reader accepts, and
/// nothing where it finds no request.
pub(crate) fn likeness(head: Head<'_>, mut format: impl LineFormat) -> u32 {
    if !head.is_text() {
        return 0;
    }
    let (mut good, mut lines, mut requests) = (0u32, 0u32, Vec::new());
    for line in head.lines().filter(|line| !line.trim_ascii().is_empty()) {
        lines += 1;
        good += u32::from(format.line(line, &mut Sink::new(&mut requests)).is_ok());
    }
    if requests.is_empty() { 0 } else { 100 * good / lines.max(1) }
}
