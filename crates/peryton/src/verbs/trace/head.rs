//! `peryton trace head`: prints the first requests of a trace.

use std::path::PathBuf;

use peryton_trace::{CSV_HEADER, Source, csv_line};
use peryton_units::Nanos;

use crate::{failure::Failure, output, trace_args::TraceArgs};

/// Options of `peryton trace head`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, merged by time
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
    /// How many requests
    #[arg(short = 'n', long, default_value_t = 10)]
    requests: u64,
    /// Print JSON, one object in a line
    #[arg(long)]
    json: bool,
}

/// Prints them as CSV, or as JSON.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut reader = args.trace_args.open(&args.files)?;
    let (mut batch, mut left) = (Vec::new(), args.requests);
    if !args.json {
        output::print(CSV_HEADER)?;
    }
    while left > 0 {
        reader.next_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        let shown = &batch[..batch.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
        left -= shown.len() as u64;
        output::lines(|out| {
            for request in shown {
                if args.json {
                    let object = serde_json::json!({
                        "time_us": request.at.as_us_f64(),
                        "op": request.op,
                        "offset": request.offset,
                        "length": request.len,
                        "volume": request.volume,
                    });
                    writeln!(out, "{object}")?;
                } else {
                    csv_line(out, Nanos::ZERO, request)?;
                }
            }
            Ok(())
        })?;
    }
    crate::trace_args::remark_on(&reader.account());
    Ok(())
}
