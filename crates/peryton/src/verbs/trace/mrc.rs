//! `peryton trace mrc`: how often an LRU cache of each size would miss.

use std::path::PathBuf;

use peryton_trace::{DEFAULT_MAX_BLOCKS, MissRatioCurve};
use peryton_units::Bytes;

use crate::{
    failure::Failure,
    output, table,
    trace_args::{Counted, TraceArgs},
};

/// Options of `peryton trace mrc`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, merged by time; a specification (.toml) is drawn from
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
    /// Size of a cached block
    #[arg(long, default_value = "4KiB")]
    block: Bytes,
    /// Sizes of the cache; by default each power of two up to the footprint
    #[arg(long, value_delimiter = ',', value_name = "SIZE,SIZE...")]
    sizes: Vec<Bytes>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the curve.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.block == Bytes::ZERO {
        return Err(Failure::bad_input("--block 0: a block has some size, such as 4KiB"));
    }
    let skipped = Counted::default();
    let mut source = args.trace_args.source(&args.files, &skipped)?;
    let curve = MissRatioCurve::of(&mut *source, args.block, DEFAULT_MAX_BLOCKS)?;
    drop(source);
    skipped.report();
    let mut sizes = args.sizes;
    if sizes.is_empty() {
        let doubled = std::iter::successors(Some(args.block), |size| size.0.checked_mul(2).map(Bytes));
        sizes = doubled.take_while(|size| *size < curve.largest()).collect();
        sizes.push(curve.largest().max(args.block));
    }
    sizes.sort_unstable();
    let ratios = curve.at(&sizes);
    if args.json {
        return output::print_json(&ratios);
    }
    let mut rows = table::figures(&["cache", "miss ratio", "of reads", "of writes"]);
    for (size, ratio) in sizes.iter().zip(&ratios) {
        let four = |value: Option<f64>| value.map_or_else(|| table::NONE.to_owned(), |value| format!("{value:.4}"));
        rows.add_row([size.to_string(), four(Some(ratio.all)), four(ratio.read), four(ratio.write)]);
    }
    output::print(&table::shown(&rows))
}
