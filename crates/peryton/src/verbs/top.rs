//! `peryton top`: shows what a volume does now, on a screen that is drawn again and again.

use std::{io::IsTerminal as _, time::Duration};

use peryton_units::Nanos;

use crate::{
    failure::Failure,
    naming::Served,
    output,
    top::{Sample, View, as_text, watch},
};

/// Options of `peryton top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Time between two screens, for rates and quantiles
    #[arg(long, value_name = "TIME", default_value = "1s")]
    interval: Nanos,
    /// Print one screen as text after one interval, and end
    #[arg(long)]
    once: bool,
}

/// The shortest interval: each costs the server some work.
const SHORTEST: Nanos = Nanos::from_ms(50);

/// Shows the volume until the user or the server ends.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.interval < SHORTEST {
        return Err(Failure::bad_input(format!("--interval {}: give {SHORTEST} or more", args.interval)));
    }
    let interval = Duration::from_nanos(args.interval.0);
    if args.once {
        let first = Sample::take(&args.volume)?;
        std::thread::sleep(interval);
        let second = Sample::take(&args.volume)?;
        return output::print(&as_text(&View::between(Some(&first), &second, None)));
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::bad_input("top: needs a terminal: give --once for one screen as text"));
    }
    watch(&args.volume, interval)
}
