//! `peryton trace synth`: draws a trace from a specification.

use std::path::PathBuf;

use peryton_trace::{SynthSource, SynthSpec, save};

use crate::{failure::Failure, terminal, trace_args};

/// Options of `peryton trace synth`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The specification
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT.parquet", required_unless_present = "output")]
    out: Option<PathBuf>,
    /// The file to write
    #[arg(short, long, value_name = "OUT.parquet", conflicts_with = "out")]
    output: Option<PathBuf>,
    /// Seed, in place of the specification's
    #[arg(long)]
    seed: Option<u64>,
}

/// Draws the trace and writes it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut spec = SynthSpec::load(&args.spec)?;
    if let Some(seed) = args.seed {
        spec.seed = seed;
    }
    let mut source = SynthSource::new(&spec, &args.spec.display().to_string())?;
    let output = args.output.as_ref().or(args.out.as_ref()).expect("clap asks for one");
    trace_args::is_a_file(output)?;
    trace_args::remove_if_interrupted(output)?;
    let name = args.spec.file_name().unwrap_or(args.spec.as_os_str()).to_string_lossy();
    let origin = format!("drawn from {name}, seed {}", spec.seed);
    let requests = save(&mut source, output, &origin)?;
    terminal::remark(&format!("wrote {requests} requests to {}", output.display()));
    Ok(())
}
