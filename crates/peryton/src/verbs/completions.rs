//! `peryton completions`: prints a completion script for a shell.

use clap_complete::Shell;

use crate::{failure::Failure, output};

/// Options of `peryton completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script for `command`, the whole program.
pub fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "peryton", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
