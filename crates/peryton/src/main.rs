//! The command line: plan, simulate and run a hybrid drive.

mod cli;
mod failure;
mod output;
mod table;
mod trace_args;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    let result = cli::parse().and_then(verbs::run);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
