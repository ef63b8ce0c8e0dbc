//! `peryton repair`: makes good what a crash or a damaged copy left behind.

use std::path::PathBuf;

use peryton_engine::Trust;

use super::check;
use crate::{failure::Failure, output, volume};

/// Options of `peryton repair`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Design file; its devices have a `path`
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,
    /// Where another program wrote to a device: who is right
    #[arg(long, value_enum, default_value = "nobody")]
    trust: Who,
    /// Do without a device that is lost
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Put an empty device, at the path that the design has, in the place of one that is lost
    #[arg(long, value_name = "NAME", conflicts_with_all = ["without", "trust"])]
    replace: Option<String>,
    /// Destroy whatever the new device holds
    #[arg(long, requires = "replace")]
    force: bool,
    /// Replace a device though nobody can tell afterwards what was lost with it: of linear, or of a primary, it reads as
    /// zeros; without its log a primary is older where the log was newer
    #[arg(long, requires = "replace")]
    accept_loss: bool,
    /// Set a key of the design, such as devices.ssd.path=/dev/sdb
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Who is right.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Who {
    /// Nobody knows: such a volume is left alone
    Nobody,
    /// The slow device: what the cache has is given up, even where it was not written back yet
    Slow,
    /// The volume as it is on its devices, what the cache has first
    AsItIs,
}

/// Repairs it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = volume::spec(&args.design, &args.set)?;
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
    output::print(&format!(
        "{state}: {} commits replayed, {} damaged copies made good, {} extents lost\n",
        opened.commits, opened.repaired, opened.lost
    ))
}
