//! One verb a file.

pub mod completions;
pub mod devices;
pub mod greenest;
pub mod lifetime;
pub mod sim;
pub mod trace;

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
        Verb::Greenest(args) => greenest::run(args),
        Verb::Lifetime(args) => lifetime::run(args),
        Verb::Completions(args) => completions::run(&args),
    }
}
