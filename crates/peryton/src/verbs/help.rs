//! `peryton help`: prints the help of a verb with every option, or what exit codes say.

use clap::Command;

use crate::{exit_code, failure::Failure, output};

/// Options of `peryton help`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A verb, or exit-codes
    #[arg(value_name = "VERB|exit-codes")]
    topic: Vec<String>,
}

/// Prints the help of `program`, or of one of its verbs.
pub fn run(args: &Args, mut program: Command) -> Result<(), Failure> {
    if args.topic == ["exit-codes"] {
        return output::tell(&exit_code::text());
    }
    program.build();
    let mut command = &mut program;
    for word in &args.topic {
        command = command
            .find_subcommand_mut(word)
            .ok_or_else(|| Failure::bad_input(format!("'{word}': no verb: peryton --help lists them")))?;
    }
    output::print(&command.render_help().to_string())
}
