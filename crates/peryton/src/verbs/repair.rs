//! `peryton repair`: repairs a volume after a crash or damage.

use peryton_engine::Trust;

use super::check;
use crate::{condition::Condition, failure::Failure, output, volume};

/// Options of `peryton repair`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Which device to trust if a program wrote to one after the close
    ///
    /// Which device to trust if another program wrote to one of them after the volume was closed.
    #[arg(long, value_enum, default_value = "none")]
    trust: Who,
    /// Give up this lost device
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// The device to trust.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Who {
    /// No device: leave such a volume unchanged
    None,
    /// The slow device: give up all data of the cache, including data that were not written back
    Slow,
    /// All devices as they are: data of the cache have precedence
    AsItIs,
}

/// Repairs the volume and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = args.design.spec(&args.without)?;
    let trust = match args.trust {
        Who::None => Trust::None,
        Who::Slow => Trust::Slow,
        Who::AsItIs => Trust::AsItIs,
    };
    if trust == Trust::Slow
        && peryton_drive::inspect(&spec, false, &args.without).is_ok_and(|found| found.opened.is_ok())
    {
        return Err(Failure::bad_input(
            "the devices do not contradict each other, and --trust slow gives up all that only the fast one has: repair without it",
        ));
    }
    let opened = peryton_drive::repair(&spec, trust, &args.without)?;
    let before = Condition::of_opened(&opened);
    let after = before.repaired();
    if args.json {
        let mut value = check::opened_json(&opened);
        value["condition"] = after.json();
        output::print_json(&value)?;
        return after.end();
    }
    let was_whole = before.code() == after.code() && opened.commits == 0 && opened.repaired == 0;
    let done = match was_whole {
        true => "there was nothing to repair".to_owned(),
        false => format!(
            "repaired; commits replayed: {}; damaged copies of metadata made good: {}",
            opened.commits, opened.repaired
        ),
    };
    output::tell(&format!("{done}\n{}\n", after.words(check::unit(&spec))))?;
    after.end()
}
