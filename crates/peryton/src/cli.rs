//! The command line: its verbs, and the call of each.

use std::path::PathBuf;

use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::ArgPredicate,
    error::{ContextKind, ContextValue, ErrorKind},
    value_parser,
};

#[cfg(feature = "plan")]
use crate::verbs::{advise, greenest, lifetime, plan, size, tune};
use crate::{
    destination,
    failure::Failure,
    output, terminal,
    verbs::{
        adopt, calibrate, check, clean, completions, detach, devices, dump, evacuate, events, format, grow, health,
        init, keys, man, readmit, repair, replace, schema, serve, set, shrink, sim, status, supervise, sweep, top,
        trace, twin, ublk,
    },
};

/// Plan, simulate and run a hybrid drive: fast and slow devices behind one block device.
#[derive(Debug, Parser)]
#[command(name = "peryton", version, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// The verb to run.
    #[command(subcommand)]
    pub verb: Verb,
    /// Number of threads for simulations and searches; by default one for each core. Results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Leave out progress bars and remarks; errors are printed
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show all columns of tables, however wide the terminal is
    #[arg(long, global = true)]
    pub wide: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Ask what a design should be, and write it with comments
    Init(init::Args),
    /// Simulate one or several designs under a trace, and compare them
    Sim(sim::Args),
    /// Simulate designs, traces, replays and values of keys, each with each, into a data set of Parquet
    Sweep(sweep::Args),
    /// Describe, convert and generate traces
    #[command(subcommand)]
    Trace(trace::Verb),
    /// List the device profiles, or show one beside its data sheet
    Devices(devices::Args),
    /// Fit a profile to a device of your own: to latencies that were measured on it
    Calibrate(calibrate::Args),
    /// Show what more or less of the fast device of a design would do, and where more stops paying
    #[cfg(feature = "plan")]
    Size(size::Args),
    /// Find better settings of a design under a trace
    #[cfg(feature = "plan")]
    Tune(tune::Args),
    /// Plan which devices to buy so that a workload meets budgets of response time, lifetime, power and money
    #[cfg(feature = "plan")]
    Plan(plan::Args),
    /// List devices by the energy and money that a workload needs on them
    #[cfg(feature = "plan")]
    Greenest(greenest::Args),
    /// Compute how long a mixed SSD array lives
    #[cfg(feature = "plan")]
    Lifetime(lifetime::Args),
    /// Format the devices of a design as a volume
    Format(format::Args),
    /// Take over a disk that has data: it keeps them and gains a cache
    Adopt(adopt::Args),
    /// Serve a volume as a block device: over NBD, or of this machine (--ublk)
    Serve(serve::Args),
    /// Serve a volume as a block device of this machine, and start the server again when it ends unexpectedly
    Supervise(supervise::Args),
    /// List the block devices of this machine that are volumes, or remove one whose server has gone
    #[command(subcommand)]
    Ublk(ublk::Verb),
    /// Check a volume that is not being served
    Check(check::Args),
    /// Repair a volume after a crash, or replace a lost device
    Repair(repair::Args),
    /// Make a device part of the volume again that was given up, with the data that it holds
    Readmit(readmit::Args),
    /// Print the metadata of a volume
    Dump(dump::Args),
    /// Write all data back to the slow device, so that it can be used without Peryton
    Detach(detach::Args),
    /// Print the state of a volume that is being served
    Status(status::Args),
    /// Show what a volume that is being served does now, on a screen that is drawn again and again
    Top(top::Args),
    /// Change settings of a volume that is being served
    Set(set::Args),
    /// Print the events of a volume that is being served
    Events(events::Args),
    /// Read the health of drives once: wear, errors, temperature (SMART, NVMe)
    Health(health::Args),
    /// Replay what a drive recorded on models of its devices, and set prediction beside measurement
    Twin(twin::Args),
    /// Simulate other settings and devices for a drive in service on its own recorded requests
    #[cfg(feature = "plan")]
    Advise(advise::Args),
    /// Write everything home that is dirty in the cache of a volume that is being served
    Clean(clean::Args),
    /// Let another device take the place of one of a volume that is being served
    Replace(replace::Args),
    /// Let a volume that is being served use more of a device, after that was made larger
    Grow(grow::Args),
    /// Let a volume that is being served use less of its fast device
    Shrink(shrink::Args),
    /// Empty the fast device of a cache that is being served, so that it can be pulled
    Evacuate(evacuate::Args),
    /// List the keys of design files: what each sets, its type and default, and what may change while a volume is served
    Keys(keys::Args),
    /// Print the JSON Schema of reports
    Schema(schema::Args),
    /// Print manual pages
    Man(man::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// The file of `-o`.
const OUTPUT: &str = "json-output";

/// The whole program: every verb that has `--json` has `-o` as well.
pub fn command() -> Command {
    with_output(Cli::command())
}

fn with_output(command: Command) -> Command {
    let prints_json = |arg: &Arg| arg.get_id().as_str() == "json" && matches!(arg.get_action(), ArgAction::SetTrue);
    let has_json = command.get_arguments().any(prints_json);
    let command = command.mut_subcommands(with_output);
    if !has_json {
        return command;
    }
    let output = Arg::new(OUTPUT)
        .short('o')
        .long("output")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Write JSON to this file, in place of printing (- for standard output)");
    command.arg(output).mut_arg("json", |json| json.default_value_if(OUTPUT, ArgPredicate::IsPresent, "true"))
}

/// The file of `-o` of the verb that is to run.
fn output_file(matches: &ArgMatches) -> Option<PathBuf> {
    let mut matches = matches;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    matches.try_get_one::<PathBuf>(OUTPUT).ok().flatten().cloned()
}

/// Reads the command line, and prints help and version.
pub fn parse() -> Result<Cli, Failure> {
    let matches = command().try_get_matches();
    let parsed = matches.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, output_file(&matches))));
    if let Ok((_, Some(path))) = &parsed
        && !output::is_stdout(path)
    {
        destination::set(path).map_err(|error| Failure::failed(format!("-o {}: {error}", path.display())))?;
    }
    parsed.map(|(cli, _)| cli).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&error.render().to_string())?;
            Err(Failure::quiet())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::bad_input("nothing to do: give a verb, or see --help"))
        }
        _ => Err(Failure::bad_input(match below_zero(&error) {
            Some((option, value)) => format!("{option} {value}: takes no value below 0"),
            None => one_line(&error.render().to_string()),
        })),
    })
}

/// The option with a value below zero, which clap takes for an option of its own: `--speed -3`.
fn below_zero(error: &clap::Error) -> Option<(String, String)> {
    let ContextValue::String(unknown) = error.get(ContextKind::InvalidArg)? else { return None };
    let is_number =
        |word: &str| word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let place = words.iter().position(|word| is_number(word) && word.starts_with(unknown.as_str()))?;
    let option = words.get(place.checked_sub(1)?)?;
    option.starts_with("--").then(|| (option.clone(), words[place].clone()))
}

/// Shortens an error of clap, which is a paragraph, to one line.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Runs the verb.
pub fn run(cli: Cli) -> Result<(), Failure> {
    if cli.quiet {
        terminal::be_quiet();
    }
    if cli.wide {
        terminal::be_wide();
    }
    if let Some(jobs) = cli.jobs {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs.into()).build_global();
        pool.map_err(|error| Failure::failed(format!("--jobs {jobs}: {error}")))?;
    }
    match cli.verb {
        Verb::Init(args) => init::run(&args),
        Verb::Sim(args) => sim::run(args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Trace(verb) => trace::run(verb),
        Verb::Devices(args) => devices::run(args),
        Verb::Calibrate(args) => calibrate::run(&args),
        #[cfg(feature = "plan")]
        Verb::Size(args) => size::run(&args),
        #[cfg(feature = "plan")]
        Verb::Tune(args) => tune::run(&args),
        #[cfg(feature = "plan")]
        Verb::Greenest(args) => greenest::run(args),
        #[cfg(feature = "plan")]
        Verb::Lifetime(args) => lifetime::run(args),
        #[cfg(feature = "plan")]
        Verb::Plan(args) => plan::run(args),
        Verb::Format(args) => format::run(&args),
        Verb::Serve(args) => serve::run(args),
        Verb::Supervise(args) => supervise::run(&args),
        Verb::Ublk(verb) => ublk::run(&verb),
        Verb::Check(args) => check::run(&args),
        Verb::Repair(args) => repair::run(&args),
        Verb::Readmit(args) => readmit::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Adopt(args) => adopt::run(&args),
        Verb::Detach(args) => detach::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Set(args) => set::run(args),
        Verb::Events(args) => events::run(&args),
        Verb::Health(args) => health::run(&args),
        Verb::Twin(args) => twin::run(&args),
        #[cfg(feature = "plan")]
        Verb::Advise(args) => advise::run(&args),
        Verb::Clean(args) => clean::run(&args),
        Verb::Replace(args) => replace::run(&args),
        Verb::Grow(args) => grow::run(&args),
        Verb::Shrink(args) => shrink::run(&args),
        Verb::Evacuate(args) => evacuate::run(&args),
        Verb::Keys(args) => keys::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Man(args) => man::run(&args, command()),
        Verb::Completions(args) => completions::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::builder::StyledStr;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    /// The fear: a verb has `--json` and no `-o`.
    #[test]
    fn every_verb_that_prints_json_can_write_it_to_a_file() {
        fn visit(command: &Command, found: &mut Vec<String>) {
            let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            let short = command.get_arguments().any(|arg| arg.get_short() == Some('o'));
            assert!(!has("json") || short, "{}", command.get_name());
            found.extend(has("json").then(|| command.get_name().to_owned()));
            command.get_subcommands().for_each(|below| visit(below, found));
        }
        let mut found = Vec::new();
        visit(&command(), &mut found);
        assert!(
            found.len() > 15 && found.contains(&"mrc".to_owned()) && found.contains(&"sim".to_owned()),
            "{found:?}"
        );
    }

    /// The fear: a flag says nothing about what it does.
    #[test]
    fn every_verb_and_every_argument_has_help() {
        fn visit(command: &Command, path: &str, found: &mut usize) {
            let path = format!("{path} {}", command.get_name());
            let told = |text: Option<&StyledStr>| text.is_some_and(|text| text.to_string().trim().len() > 3);
            assert!(told(command.get_about()), "{path}");
            for arg in command.get_arguments() {
                assert!(told(arg.get_help()), "{path}: {}", arg.get_id());
                assert!(!arg.is_hide_set(), "{path}: {} is hidden", arg.get_id());
                *found += 1;
            }
            command.get_subcommands().for_each(|below| visit(below, &path, found));
        }
        let mut found = 0;
        visit(&command(), "", &mut found);
        assert!(found > 200, "{found}");
    }
}
