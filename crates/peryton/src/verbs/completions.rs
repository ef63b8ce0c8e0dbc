//! `peryton completions`: prints a completion script for a shell.

use clap_complete::Shell;

use crate::{completing, failure::Failure, output};

/// Options of `peryton completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys of designs are completed, too (--set, --sweep, --knob, peryton set, peryton keys), with their values and with the devices of the \
design on the command line. To install:
  bash: peryton completions bash > ~/.local/share/bash-completion/completions/peryton
  zsh:  peryton completions zsh > ~/.zfunc/_peryton      # a folder of your fpath, before compinit
  fish: peryton completions fish > ~/.config/fish/completions/peryton.fish")]
pub struct Args {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> Result<(), Failure> {
    let script = completing::script(args.shell).map_err(|error| Failure::failed(format!("the script: {error}")))?;
    output::print(&String::from_utf8_lossy(&script))
}
