//! The trace formats: one file and one line each. A file describes its format, recognises it
//! (`looks_like`) and makes its reader (`reader`); `docs/adding-a-trace-format.md` shows how to add one.

pub(crate) mod block_event;

mod head;
mod reading;

pub use self::reading::TimeUnit;
pub(crate) use self::{
    head::{Head, likeness},
    reading::{Opened, ReadOptions, lines, records},
};
pub(crate) use crate::input::Input;

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

            /// A short description.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Format::$variant => $description,)*
                }
            }

            /// The likeness of the head to this format, from 0 (none) to 100.
            pub(crate) fn likeness(self, head: Head<'_>) -> u32 {
                match self {
                    $(Format::$variant => $module::looks_like(head),)*
                }
            }

            /// A reader of a trace of this format.
            pub(crate) fn reader(self, input: Input, options: &ReadOptions) -> Opened {
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
    lis Lis "lis" "the ARC paper's text (.lis)";
    oracle_general OracleGeneral "oracle-general" "libCacheSim's oracleGeneral";
    lcs Lcs "lcs" "libCacheSim's lcs, versions 1 to 8";
    recording Recording "recording" "what a drive recorded (peryton serve --record)";
    csv Csv "csv" "CSV with named columns";
    parquet Parquet "parquet" "Peryton's own, quick to read (docs/parquet-trace.md)";
}
