//! What the command line accepts.

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{failure::Failure, output, verbs};

/// Plan, simulate and run a hybrid drive: fast and slow devices behind one block device.
#[derive(Debug, Parser)]
#[command(name = "peryton", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Replay a trace on one or several designs, and compare them
    Sim(verbs::sim::Args),
    /// Look at, convert and draw traces
    #[command(subcommand)]
    Trace(verbs::trace::Verb),
    /// List the device profiles, or show one beside its data sheet
    Devices(verbs::devices::Args),
    /// Look for better settings of a design under a trace
    Tune(verbs::tune::Args),
    /// Say what to buy for a workload, so that budgets of response time, lifetime, power and money are met
    Plan(verbs::plan::Args),
    /// Say which devices need the least energy, and which the least money
    Greenest(verbs::greenest::Args),
    /// Say how long a mixed SSD array lives, by arithmetic
    Lifetime(verbs::lifetime::Args),
    /// Make a volume on the devices of a design
    Format(verbs::format::Args),
    /// Run a volume: a block device over NBD
    Serve(verbs::serve::Args),
    /// Say what is wrong with a volume that nobody serves
    Check(verbs::check::Args),
    /// Make good what a crash or a damaged copy left behind
    Repair(verbs::repair::Args),
    /// Print what a volume keeps beside its data
    Dump(verbs::dump::Args),
    /// Take a volume apart, so that its slow device stands alone
    Detach(verbs::detach::Args),
    /// Say how a volume that is being served does
    Status(verbs::status::Args),
    /// Change settings of a volume that is being served
    Set(verbs::set::Args),
    /// Say what happened to a volume that is being served
    Events(verbs::events::Args),
    /// Print manual pages
    Man(verbs::man::Args),
    /// Print completions for a shell
    Completions(verbs::completions::Args),
}

/// Reads the command line; help and version are printed here.
pub fn parse() -> Result<Cli, Failure> {
    Cli::try_parse().or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&error.render().to_string())?;
            Err(Failure::quiet())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::bad_input("nothing to do: give a verb, or see --help"))
        }
        _ => Err(Failure::bad_input(one_line(&error.render().to_string()))),
    })
}

/// clap explains itself in paragraphs; ours is one line.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// The whole command, for completions.
pub fn command() -> clap::Command {
    Cli::command()
}
