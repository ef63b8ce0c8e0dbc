//! `peryton repair`: repairs a volume after a crash or damage.

use peryton_engine::Trust;

use super::check;
use crate::{failure::Failure, output, volume};

/// Options of `peryton repair`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Which device is right if another program wrote to one after the volume was closed
    #[arg(long, value_enum, default_value = "nobody")]
    trust: Who,
    /// Give up this lost device
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Replace this lost device by an empty device at its path in the design
    #[arg(long, value_name = "NAME", conflicts_with_all = ["without", "trust"])]
    replace: Option<String>,
    /// Overwrite the new device even if it holds data
    #[arg(long, requires = "replace")]
    force: bool,
    /// Replace the device even if the volume cannot record which data were lost: lost data of a linear volume or of a
    /// log's primary then read as zeros, and in place of data that only the log had, the primary's older data are read
    #[arg(long, requires = "replace")]
    accept_loss: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// The device to trust.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Who {
    /// Unknown: leave such a volume unchanged
    Nobody,
    /// The slow device: give up all data of the cache, including data that were not written back
    Slow,
    /// All devices as they are: data of the cache have precedence
    AsItIs,
}

/// Repairs the volume and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let lost: Vec<String> = args.without.iter().chain(&args.replace).cloned().collect();
    let spec = args.design.spec(&lost)?;
    let trust = match args.trust {
        Who::Nobody => Trust::Nobody,
        Who::Slow => Trust::Slow,
        Who::AsItIs => Trust::AsItIs,
    };
    let done = match &args.replace {
        Some(name) => peryton_drive::replace(&spec, name, args.force, args.accept_loss),
        None => peryton_drive::repair(&spec, trust, &args.without),
    };
    let opened = done.map_err(Failure::failed)?;
    if args.json {
        return output::print_json(&check::opened_json(&opened));
    }
    let state = if let Some(name) = &args.replace {
        &format!("'{name}' is replaced by an empty device")
    } else if opened.clean && opened.repaired == 0 {
        "there was nothing to repair"
    } else {
        "repaired"
    };
    output::tell(&format!(
        "{state}: {} commits replayed, {} damaged copies made good, {} extents lost\n",
        opened.commits, opened.repaired, opened.lost
    ))
}
