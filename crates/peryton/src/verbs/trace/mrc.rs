//! `peryton trace mrc`: prints the miss ratio of caches of several sizes.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use clap::builder::{PossibleValue, TypedValueParser};
use peryton_sim::{CacheUnit, CurvePolicy, CurveRow, CurveSizes, Curves};
use peryton_trace::{ByVolume, Reader, Source, TraceError};
use peryton_units::{Bytes, Nanos};

use crate::{
    failure::Failure,
    output, page,
    table::{self, Column, Table},
    trace_args::{self, Counted, TraceArgs},
};

/// Options of `peryton trace mrc`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One pass computes LRU exactly, for up to 67 million blocks. \"opt\" (Belady) knows the future: no policy that admits every miss \
has fewer misses. The other policies are simulated: with all blocks if there are at most 524,288, otherwise, or with --rate, with a \
sample. A hash of the address chooses the sampled blocks, and the simulated caches are smaller by the same factor (SHARDS, miniature \
simulation). The known error of LRU on the same sample (\"sampling error\") corrects the other policies. \"±\" is half the width of \
the 95 % interval, which covers the choice of blocks, and the difference from a sample a quarter as large. A small cache may \
behave unlike a large one, above all with SIEVE: confirm small differences with --rate 1. Figures marked ~ come from miniatures of \
fewer than 100 blocks, and have no interval.

For a trace of objects, whole objects with their sizes are simulated, unless --block is given. \"miss ratio\" is the share of \
requests, \"of bytes\" that of their bytes. An object that is larger than the cache is not cached. A policy may have parameters: \
two_queue:kin=0.2:kout=0.6.")]
pub struct Args {
    /// Traces, or specifications (.toml) of traces; several are merged
    ///
    /// Traces, or specifications (.toml) from which traces are generated; several are merged by time.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Size of a cached block [default: 4KiB, or objects whole]
    ///
    /// The size of a cached block [default: 4KiB; a trace of objects has objects of their own sizes]. With a block, each object takes 4 KiB.
    #[arg(long)]
    block: Option<Bytes>,
    /// Cache sizes [default: powers of two up to the footprint]
    #[arg(long, value_delimiter = ',', value_name = "SIZE,SIZE...")]
    sizes: Vec<Bytes>,
    /// Number of sizes, from small ones to the footprint
    ///
    /// Number of sizes, each larger than the previous one by the same factor, up to the footprint.
    #[arg(long, value_name = "N", conflicts_with = "sizes")]
    points: Option<u32>,
    /// Replacement policies; "opt" bounds them
    #[arg(long, value_parser = policy(), value_delimiter = ',', value_name = "POLICY,POLICY...", default_value = "lru")]
    replacement: Vec<CurvePolicy>,
    /// Draw a curve for each volume of the trace
    #[arg(long, conflicts_with_all = ["concatenate", "report"])]
    each_volume: bool,
    /// Share of blocks to simulate [default: all, or 131,072 blocks]
    ///
    /// The share of blocks that is simulated, for policies other than LRU [default: all of up to 524,288 blocks, or else the share that
    /// leaves 131,072; all objects].
    #[arg(long, value_name = "SHARE")]
    rate: Option<f64>,
    /// Which sample of the blocks is simulated
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// WSClock's working-set window
    #[arg(long, value_name = "TIME", default_value = "60s")]
    window: Nanos,
    /// Write a page with charts (- for standard output)
    ///
    /// Write the result as a self-contained HTML page with charts to a file (- for standard output, in place of the table).
    #[arg(long, value_name = "OUT.html", help_heading = output::GROUP)]
    report: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = output::GROUP)]
    json: bool,
    #[command(flatten, next_help_heading = crate::cli::READING)]
    trace_args: TraceArgs,
}

/// Policies and OPT by their names, perhaps with parameters.
#[derive(Clone)]
struct PolicyParser;

fn policy() -> PolicyParser {
    PolicyParser
}

impl TypedValueParser for PolicyParser {
    type Value = CurvePolicy;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<CurvePolicy, clap::Error> {
        let text = value.to_string_lossy();
        if !text.contains(':') {
            let known = clap::builder::PossibleValuesParser::new(CurvePolicy::names());
            known.parse_ref(command, argument, value)?;
        }
        text.parse().map_err(|problem| {
            clap::Error::raw(clap::error::ErrorKind::InvalidValue, format!("{problem}\n")).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(CurvePolicy::names().map(PossibleValue::new)))
    }
}

const BLOCK: Bytes = Bytes::kib(4);

/// The trace, opened: it is taken as objects if it has some and no block is given.
struct Opened {
    is_of_objects: bool,
    /// What is read first; standard input can be opened only once.
    first: Mutex<Option<Box<dyn Source>>>,
}

impl Opened {
    /// A specification from which no trace can be drawn is reported as such.
    fn new(args: &Args, skipped: &Counted) -> Result<Opened, Failure> {
        let files = args.trace_args.files(&args.files);
        if files.specification().is_some() {
            let first = Mutex::new(Some(args.trace_args.source(&args.files, skipped)?));
            return Ok(Opened { is_of_objects: false, first });
        }
        let reader = files.open()?;
        let is_of_objects = reader.is_of_objects() && args.block.is_none();
        Ok(Opened { is_of_objects, first: Mutex::new(Some(Opened::source(reader, is_of_objects, skipped)?)) })
    }

    fn source(reader: Reader, as_objects: bool, skipped: &Counted) -> Result<Box<dyn Source>, TraceError> {
        Ok(if as_objects { skipped.of(reader.into_objects()?) } else { skipped.of(reader) })
    }

    fn open(&self, args: &Args, skipped: &Counted) -> Result<Box<dyn Source>, TraceError> {
        if let Some(first) = self.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Ok(first);
        }
        match self.is_of_objects {
            true => Opened::source(args.trace_args.open(&args.files)?, true, skipped),
            false => args.trace_args.again(&args.files, skipped),
        }
    }
}

/// Prints the curves.
pub fn run(args: Args) -> Result<(), Failure> {
    let report_to_stdout = output::report_to_stdout(args.report.as_deref(), args.json)?;
    let sizes = match args.points {
        Some(points) => CurveSizes::Points(points),
        None if args.sizes.is_empty() => CurveSizes::Doubling,
        None => CurveSizes::Given(args.sizes.clone()),
    };
    let skipped = Counted::default();
    let trace = Opened::new(&args, &skipped)?;
    let unit = match args.block {
        None if trace.is_of_objects => CacheUnit::Object,
        block => CacheUnit::Block(block.unwrap_or(BLOCK)),
    };
    let (policies, rate, seed) = (args.replacement.clone(), args.rate, args.seed);
    let curves = Curves { unit, sizes, policies, rate, seed, window: args.window };
    curves.check()?;
    let from_stdin = args.files.iter().any(|path| path.as_os_str() == "-");
    if curves.reads_twice() && from_stdin && !args.each_volume {
        return Err(Failure::bad_input(
            "-: policies other than lru read the trace more than once, but standard input can be read only once: save it in a file",
        ));
    }
    let again = || trace.open(&args, &skipped);
    let rows = match args.each_volume {
        true => curves.of_each_volume(ByVolume::of(&mut *again()?)?)?,
        false => curves.of(&again, &|_| {})?,
    };
    skipped.report();
    if let Some(path) = &args.report {
        let name = trace_args::name(&args.files);
        output::write(path, page::miss_ratios(&rows, &table(&rows), &name, &page::command_line()))?;
    }
    output::print_result(&rows, args.json, report_to_stdout, || table(&rows).shown())
}

/// The miss ratios: a row for each size, or for each size of each volume.
fn table(rows: &[CurveRow]) -> Table {
    if rows.first().is_some_and(|row| row.volume.is_some()) {
        return of_each(rows);
    }
    let sizes = rows.iter().take_while(|row| row.replacement == rows[0].replacement).map(|row| row.ratios.cache_bytes);
    let sizes: Vec<Bytes> = sizes.map(Bytes).collect();
    let four = |value: Option<f64>| table::cell(value, |value| format!("{value:.4}"));
    let half = |row: &CurveRow| row.interval.map(|interval| (interval.high - interval.low) / 2.0);
    let curves: Vec<&[CurveRow]> = rows.chunks(sizes.len()).collect();
    if let [only] = &curves[..] {
        let header = ["cache", "miss ratio", "of reads", "of writes", "of bytes", "of bytes read", "of bytes written"];
        let sampled = only.iter().any(|row| row.sampling_error.is_some());
        let header: Vec<&str> =
            header.into_iter().chain(sampled.then_some(["±", "sampling error"]).into_iter().flatten()).collect();
        let mut shown = table::figures(&header);
        for (size, row) in sizes.iter().zip(*only) {
            let (blocks, bytes) = (row.ratios.blocks, row.ratios.bytes);
            let cells = [blocks.read, blocks.write, Some(bytes.all), bytes.read, bytes.write].map(four);
            let error = sampled.then(|| [four(half(row)), four(row.sampling_error)]);
            shown.add_row([size.to_string(), marked(row)].into_iter().chain(cells).chain(error.into_iter().flatten()));
        }
        return shown;
    }
    let sampled = rows.iter().any(|row| row.sampling_error.is_some());
    let names: Vec<String> = curves.iter().map(|curve| curve[0].replacement.to_string()).collect();
    let names = names.iter().map(String::as_str);
    let header: Vec<&str> = ["cache"].into_iter().chain(names).chain(sampled.then_some("at most ±")).collect();
    let mut shown = table::figures(&header);
    for (index, size) in sizes.iter().enumerate() {
        let cells = curves.iter().map(|curve| marked(&curve[index]));
        let widest = || curves.iter().filter_map(|curve| half(&curve[index])).reduce(f64::max);
        let widest = sampled.then(|| four(widest()));
        shown.add_row([size.to_string()].into_iter().chain(cells).chain(widest));
    }
    shown
}

/// The curves of each volume alone, a row for each size.
fn of_each(rows: &[CurveRow]) -> Table {
    let columns = vec![
        Column::text("volume", 2),
        Column::text("policy", 2),
        Column::figures("cache", 2),
        Column::figures("miss ratio", 2),
        Column::figures("±", 1),
        Column::figures("accesses", 1),
    ];
    let mut shown = Table::of(columns);
    for row in rows {
        let half = row.interval.map(|interval| format!("{:.4}", (interval.high - interval.low) / 2.0));
        shown.add_row([
            row.volume.clone().unwrap_or_default(),
            row.replacement.to_string(),
            Bytes(row.ratios.cache_bytes).to_string(),
            marked(row),
            half.unwrap_or_else(|| table::NONE.to_owned()),
            row.of.accesses.to_string(),
        ]);
    }
    shown
}

/// The miss ratio, marked if few blocks were simulated.
fn marked(row: &CurveRow) -> String {
    let mark = if row.few_blocks { "~" } else { "" };
    format!("{mark}{:.4}", row.ratios.blocks.all)
}
