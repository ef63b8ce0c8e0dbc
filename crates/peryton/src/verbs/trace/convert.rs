//! `peryton trace convert`: writes a trace of any format as Parquet or CSV.

use std::path::PathBuf;

use peryton_trace::{Source, save};

use crate::{
    failure::Failure,
    terminal,
    trace_args::{self, TraceArgs},
};

/// Options of `peryton trace convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Traces, merged by time; without --output, the last is the file to write
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT.parquet")]
    output: Option<PathBuf>,
    #[command(flatten)]
    trace_args: TraceArgs,
}

/// Reads the traces and writes the file.
pub fn run(args: Args) -> Result<(), Failure> {
    let mut files = args.files;
    let output = match args.output {
        Some(output) => output,
        None if files.len() > 1 => files.pop().expect("there are at least two"),
        None => return Err(Failure::bad_input("give the file to write: peryton trace convert TRACE OUT.parquet")),
    };
    trace_args::is_a_file(&output)?;
    trace_args::remove_if_interrupted(&output)?;
    let files = args.trace_args.files(&files);
    let mut reader = files.open()?;
    let requests = save(&mut reader, &output, &files.name())?;
    trace_args::remark_on(&reader.account());
    terminal::remark(&format!("wrote {requests} requests to {}", output.display()));
    Ok(())
}
