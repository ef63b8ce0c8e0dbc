//! One verb a file.

pub mod check;
pub mod completions;
pub mod detach;
pub mod devices;
pub mod dump;
pub mod events;
pub mod format;
pub mod greenest;
pub mod lifetime;
pub mod man;
pub mod plan;
pub mod repair;
pub mod serve;
pub mod set;
pub mod sim;
pub mod status;
pub mod trace;
pub mod tune;

use crate::{
    cli::{Cli, Verb},
    failure::Failure,
};

/// Does what was asked.
pub fn run(cli: Cli) -> Result<(), Failure> {
    match cli.verb {
        Verb::Sim(args) => sim::run(args),
        Verb::Trace(verb) => trace::run(verb),
        Verb::Devices(args) => devices::run(args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Greenest(args) => greenest::run(args),
        Verb::Lifetime(args) => lifetime::run(args),
        Verb::Plan(args) => plan::run(args),
        Verb::Format(args) => format::run(&args),
        Verb::Serve(args) => serve::run(args),
        Verb::Check(args) => check::run(&args),
        Verb::Repair(args) => repair::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Detach(args) => detach::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Set(args) => set::run(args),
        Verb::Events(args) => events::run(&args),
        Verb::Man(args) => man::run(&args),
        Verb::Completions(args) => completions::run(&args),
    }
}
