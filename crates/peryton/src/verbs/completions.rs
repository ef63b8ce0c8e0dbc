//! `peryton completions`: tells a shell what can be typed.

use clap_complete::Shell;

use crate::{cli, failure::Failure, output};

/// Options of `peryton completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "peryton", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
