//! The trace formats: one file and one line each, or one line of [`presets`] for a table. A file describes its format,
//! recognises it (`looks_like`) and makes its reader (`reader`); `docs/extending.md` shows how to add one.

pub(crate) mod block_event;

mod head;
pub(crate) mod plausible;
mod presets;
mod reading;
mod table;

pub use self::reading::TimeUnit;
pub(crate) use self::{
    head::{Head, likeness},
    reading::{Opened, ReadOptions, lines, records},
    table::{fields, separator_of},
};
pub(crate) use crate::input::Input;

macro_rules! formats {
    (
        files { $($module:ident $variant:ident $name:literal $description:literal;)* }
        tables { $($table:ident $preset:ident $table_name:literal $about:literal;)* }
    ) => {
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
            $(#[doc = $about] $table,)*
            /// A table with named columns, or with the columns that are given
            Csv,
        }

        impl Format {
            /// Every format that is read.
            pub const ALL: &[Format] = &[$(Format::$variant,)* $(Format::$table,)* Format::Csv];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Format::$variant => $name,)*
                    $(Format::$table => $table_name,)*
                    Format::Csv => "csv",
                }
            }

            /// A short description.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Format::$variant => $description,)*
                    $(Format::$table => $about,)*
                    Format::Csv => "a table (CSV, TSV, text) with named columns, or with --columns",
                }
            }

            /// The likeness of the head to this format, from 0 (none) to 100.
            pub(crate) fn likeness(self, head: Head<'_>) -> u32 {
                match self {
                    $(Format::$variant => $module::looks_like(head),)*
                    $(Format::$table => table::looks_like_preset(&presets::$preset, head),)*
                    Format::Csv => table::looks_like(head),
                }
            }

            /// The reason to doubt that a head is of this format, though it is like it.
            pub(crate) fn doubt(self, head: Head<'_>) -> Option<String> {
                match self {
                    Format::Disksim => disksim::doubt(head),
                    $(Format::$table => table::doubt(&presets::$preset, head),)*
                    _ => None,
                }
            }

            /// A reader of a trace of this format.
            pub(crate) fn reader(self, input: Input, options: &ReadOptions) -> Opened {
                match self {
                    $(Format::$variant => $module::reader(input, options),)*
                    $(Format::$table => table::preset_reader(&presets::$preset, input, options),)*
                    Format::Csv => table::reader(input, options),
                }
            }
        }
    };
}

formats! {
    // The file, the variant of `Format`, the name on the command line, and the description.
    files {
        msr Msr "msr" "MSR Cambridge CSV";
        fiu Fiu "fiu" "FIU's text (SRCMap, I/O Deduplication)";
        blkparse Blkparse "blkparse" "the text of blkparse, also with other fields (-f)";
        blktrace Blktrace "blktrace" "the binary of blktrace, versions 7 and 8";
        ftrace Ftrace "ftrace" "the text of ftrace, trace-cmd and perf script";
        biosnoop Biosnoop "biosnoop" "biosnoop of bcc and libbpf-tools";
        fio Fio "fio" "fio's I/O logs, versions 2 and 3";
        vscsi Vscsi "vscsi" "CloudPhysics' binary, versions 1 and 2";
        disksim Disksim "disksim" "DiskSim's ASCII and MQSim's";
        disksim_validate DisksimValidate "disksim-validate" "DiskSim's measurements of real disks";
        lis Lis "lis" "the ARC paper's text (.lis)";
        oracle_general OracleGeneral "oracle-general" "libCacheSim's oracleGeneral";
        lcs Lcs "lcs" "libCacheSim's lcs, versions 1 to 8";
        recording Recording "recording" "what a drive recorded (peryton serve --record)";
        parquet Parquet "parquet" "Peryton's own, quick to read (docs/parquet-trace.md)";
    }
    // The variant of `Format`, the constant in `presets.rs`, the name on the command line, and the description.
    tables {
        Spc SPC "spc" "SPC trace files, as UMass distributes them";
        Alibaba ALIBABA "alibaba" "Alibaba Cloud 2020";
        Tencent TENCENT "tencent" "Tencent Cloud Block Storage";
        Systor17 SYSTOR17 "systor17" "SYSTOR '17";
        K5cloud K5CLOUD "k5cloud" "Fujitsu K5 cloud";
        Camelab CAMELAB "camelab" "Camelab's text of flash traces";
        Simplessd SIMPLESSD "simplessd" "SimpleSSD's text; blkparse -f '%t %S %n %d'";
        Thesios THESIOS "thesios" "Google's Thesios";
        Tectonic TECTONIC "tectonic" "Meta's Tectonic (Baleen)";
        Iotrace IOTRACE "iotrace" "CSV of Open CAS' iotrace";
        Flashnet FLASHNET "flashnet" "FlashNet's replays, with latencies";
        FioLog FIO_LOG "fio-log" "fio's latency log with log_offset=1";
        Replayer REPLAYER "replayer" "DiskSim's columns in bytes (FEMU's replayer); not recognised";
        IbmCos IBM_COS "ibm-cos" "IBM's object store";
        IbmCosCsv IBM_COS_CSV "ibm-cos-csv" "the same as CSV with numbers for requests";
        Twitter TWITTER "twitter" "Twitter's cache clusters";
        MetaKv META_KV "meta-kv" "Meta's key-value caches of 2022 and later";
        MetaKv1 META_KV_1 "meta-kv-1" "Meta's key-value caches before, without times";
        MetaCdn META_CDN "meta-cdn" "Meta's content delivery network";
        Webcachesim WEBCACHESIM "webcachesim" "time, object and size of webcachesim and LRB; not recognised";
    }
}

impl Format {
    /// Whether volumes are devices of Linux.
    pub(crate) fn names_devices(self) -> bool {
        matches!(self, Format::Blkparse | Format::Blktrace | Format::Ftrace | Format::Fiu)
    }
}
