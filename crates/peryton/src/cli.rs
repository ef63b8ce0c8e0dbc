//! The command line: its verbs, and the call of each.

use clap::{
    Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
    value_parser,
};

use crate::{
    failure::Failure,
    output, terminal,
    verbs::{
        advise, calibrate, check, completions, create, disconnect, dump, energy, events, export, get, health, help,
        import, keys, lifetime, list, man, plan, profiles, re_add, remove, repair, replace, resize, schema, serve, set,
        sim, size, status, supervise, sweep, top, trace, tune, twin, writeback,
    },
};

/// Plan, simulate and run a hybrid drive: fast and slow devices behind one block device.
#[derive(Debug, Parser)]
#[command(name = "peryton", version = peryton_version::VERSION, propagate_version = true, disable_help_subcommand = true)]
pub struct Cli {
    /// The verb to run.
    #[command(subcommand)]
    pub verb: Verb,
    /// Threads for simulations and searches [default: one for each core]
    ///
    /// Threads for simulations and searches; results do not depend on it [default: one for each core].
    #[arg(long, global = true, value_name = "N", value_parser = value_parser!(u16).range(1..=1024), help_heading = GENERAL)]
    pub jobs: Option<u16>,
    /// Leave out progress bars and remarks; errors are printed
    #[arg(short, long, global = true, help_heading = GENERAL)]
    pub quiet: bool,
    /// Show all columns of tables, however wide the terminal is
    #[arg(long, global = true, help_heading = GENERAL)]
    pub wide: bool,
}

/// The heading of the options that every verb has.
const GENERAL: &str = "General options";

/// The heading of the options that say how a trace is read.
pub const READING: &str = "Reading the trace";

/// Options that most uses of their verbs leave alone.
const SELDOM: [&str; 28] = [
    "era",
    "spares",
    "fill-limit",
    "most",
    "flash",
    "runners-up",
    "speed",
    "for",
    "ublk-queues",
    "ublk-depth",
    "ublk-block",
    "no-direct",
    "prices",
    "own",
    "electricity",
    "no-flash-need",
    "fast-redundancy",
    "slow-redundancy",
    "replace-within",
    "afr",
    "per-day",
    "think-time",
    "sample-seed",
    "shelf-power",
    "alpha",
    "emerald",
    "tls-crl",
    "no-io-uring",
];

/// The verbs, in groups: what each group is for, and its verbs in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Decide what to buy and how to set it up",
        &["trace", "sim", "sweep", "plan", "size", "tune", "energy", "lifetime", "twin", "advise"],
    ),
    ("Make and mend a volume", &["create", "import", "export", "check", "repair", "dump"]),
    (
        "Run a volume",
        &["serve", "supervise", "list", "status", "top", "events", "get", "set", "writeback", "disconnect"],
    ),
    ("Look after devices", &["remove", "re-add", "replace", "resize", "health", "calibrate", "profiles"]),
    ("Look things up", &["help", "keys", "schema", "man", "completions"]),
];

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Describe, convert and generate traces
    #[command(subcommand)]
    Trace(trace::Verb),
    /// Simulate designs under a trace, and compare them
    Sim(sim::Args),
    /// Simulate all combinations of designs, traces and values of keys
    Sweep(sweep::Args),
    /// Plan which devices to buy for a workload and its budgets
    Plan(plan::Args),
    /// Show how response times change with the size of the fast device
    Size(size::Args),
    /// Find better settings of a design under a trace
    Tune(tune::Args),
    /// Rank devices by the energy and money that a workload needs
    Energy(energy::Args),
    /// Compute how long a mixed SSD array lives
    Lifetime(lifetime::Args),
    /// Compare a recording of a volume with its simulation
    Twin(twin::Args),
    /// Simulate other settings and devices under a recording of a volume
    Advise(advise::Args),
    /// Make a volume: write its design, and format its devices
    Create(create::Args),
    /// Take over a disk that has data, and give it a cache
    Import(import::Args),
    /// Write everything back to one device, to use it alone
    Export(export::Args),
    /// Check a volume that is not being served
    Check(check::Args),
    /// Repair a volume after a crash or damage
    Repair(repair::Args),
    /// Print the metadata of a volume
    Dump(dump::Args),
    /// Serve a volume as a block device, over NBD or by ublk
    Serve(serve::Args),
    /// Serve a volume, and start the server again when it ends unexpectedly
    Supervise(supervise::Args),
    /// List volumes that have a name or a block device
    List(list::Args),
    /// Print the state of a volume
    Status(status::Args),
    /// Show the activity of a volume on a screen that is drawn every second
    Top(top::Args),
    /// Print the events of a volume
    Events(events::Args),
    /// Print settings of a volume, and where each comes from
    Get(get::Args),
    /// Change settings of a volume while it is served
    Set(set::Args),
    /// Write back the dirty data of a cache
    Writeback(writeback::Args),
    /// Remove a block device whose server has gone
    Disconnect(disconnect::Args),
    /// Empty the fast device of a cache, so that it can be pulled
    Remove(remove::Args),
    /// Take back a device that was given up, with its data
    #[command(name = "re-add")]
    ReAdd(re_add::Args),
    /// Copy a device to a new one, which takes its place
    Replace(replace::Args),
    /// Change how much of a device the volume uses
    Resize(resize::Args),
    /// Read the health of drives: wear, errors, temperature (SMART, NVMe)
    Health(health::Args),
    /// Fit a profile to a device of your own
    Calibrate(calibrate::Args),
    /// List device profiles, or show one beside its data sheet
    Profiles(profiles::Args),
    /// Print every option of a verb, or the meaning of exit codes
    Help(help::Args),
    /// List the keys of designs: what each sets, and its default
    Keys(keys::Args),
    /// Print the JSON Schema of reports
    Schema(schema::Args),
    /// Print manual pages
    Man(man::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// The whole program. The help of a verb is one screen.
pub fn command() -> Command {
    on_one_screen(in_full(), "")
}

/// The same program, whose help has every option: `peryton help VERB` and the manual pages.
pub fn in_full() -> Command {
    let program = with_help(Cli::command());
    let help = grouped(&program);
    program.override_help(help)
}

/// How wide help is.
const HELP_COLUMNS: usize = 100;

/// Leaves out of the help of each verb what every verb has, how a trace is read, and what is seldom needed.
fn on_one_screen(command: Command, path: &str) -> Command {
    let leaves_out = |arg: &Arg| match arg.get_help_heading() {
        Some(GENERAL | READING) => true,
        _ => SELDOM.contains(&arg.get_long().unwrap_or_default()),
    };
    let has_more = command.get_arguments().any(|arg| leaves_out(arg) && arg.get_help_heading() != Some(GENERAL));
    let command = command.mut_args(|arg| {
        let hidden = leaves_out(&arg);
        arg.hide_short_help(hidden)
    });
    let command = match has_more {
        true => {
            let after = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
            command.after_help(format!("{after}More options: peryton help {path}"))
        }
        false => command,
    };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        on_one_screen(below, path.trim_start())
    })
}

/// `-h` and `--help` are the same: a line for each option. The manual pages have the details.
fn with_help(command: Command) -> Command {
    let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let command = command.disable_help_flag(true).term_width(HELP_COLUMNS).arg(help.help_heading(GENERAL));
    let has_format = command.get_arguments().any(|arg| arg.get_id() == "format");
    // `peryton trace info --help` alone lists the formats of traces, which take six lines.
    let command = match has_format && command.get_name() != "info" {
        true => command.mut_arg("format", |format| format.hide_possible_values(true)),
        false => command,
    };
    // Every verb has the version, for its manual page; the option is the program's.
    command.mut_subcommands(|below| with_help(below).disable_version_flag(true))
}

/// The help of the whole program: its verbs in groups, a line each.
fn grouped(program: &Command) -> String {
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{}\n\nUsage: peryton VERB [OPTIONS]\n", about(program));
    for (title, verbs) in GROUPS {
        let found = verbs.iter().filter_map(|name| program.find_subcommand(name));
        let lines = found.map(|verb| format!("  {:<12} {}\n", verb.get_name(), about(verb)));
        text += &format!("\n{title}:\n{}", lines.collect::<String>());
    }
    let general =
        program.get_arguments().filter(|arg| arg.get_help_heading() == Some(GENERAL) && arg.get_id() != "help");
    text += "\nOptions of every verb:\n";
    for arg in general {
        let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
        let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
        let value = value.map(|names| format!(" {}", names[0])).unwrap_or_default();
        let option = format!("{short}--{}{value}", arg.get_long().unwrap_or_default());
        text += &format!("  {option:<12} {}\n", arg.get_help().map(ToString::to_string).unwrap_or_default());
    }
    text + "  -h, --help   Print the help of a verb: peryton VERB --help; every option: peryton help VERB\n\nThe version: peryton --version\n"
}

/// Reads the command line, and prints help and version.
pub fn parse() -> Result<Cli, Failure> {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::print(&error.render().to_string())?;
            Err(Failure::quiet())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::bad_input("nothing to do: give a verb, or see --help"))
        }
        _ => Err(Failure::bad_input(match below_zero(&error) {
            Some((option, value)) => format!("{option} {value}: takes no value below 0"),
            None => one_line(&error.render().to_string(), error.kind()),
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

/// Shortens an error of clap, which is a paragraph, to one line. If arguments are missing or unknown, it names the help that lists them.
fn one_line(message: &str, kind: ErrorKind) -> String {
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let usage = message.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).unwrap_or_default();
    let verb = usage.split_whitespace().take_while(is_name).collect::<Vec<_>>().join(" ");
    let lines = message.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("For more information"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    match kind {
        ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => {
            format!("{text}: see {verb} --help")
        }
        _ => text.to_owned(),
    }
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
    if !matches!(cli.verb, Verb::Serve(_)) {
        terminal::remark_warnings();
    }
    match cli.verb {
        Verb::Trace(verb) => trace::run(verb),
        Verb::Sim(args) => sim::run(args),
        Verb::Sweep(args) => sweep::run(&args),
        Verb::Plan(args) => plan::run(args),
        Verb::Size(args) => size::run(&args),
        Verb::Tune(args) => tune::run(&args),
        Verb::Energy(args) => energy::run(args),
        Verb::Lifetime(args) => lifetime::run(args),
        Verb::Twin(args) => twin::run(&args),
        Verb::Advise(args) => advise::run(&args),
        Verb::Create(args) => create::run(&args),
        Verb::Import(args) => import::run(&args),
        Verb::Export(args) => export::run(&args),
        Verb::Check(args) => check::run(&args),
        Verb::Repair(args) => repair::run(&args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Serve(args) => serve::run(args),
        Verb::Supervise(args) => supervise::run(&args),
        Verb::List(args) => list::run(&args),
        Verb::Status(args) => status::run(&args),
        Verb::Top(args) => top::run(&args),
        Verb::Events(args) => events::run(&args),
        Verb::Get(args) => get::run(&args),
        Verb::Set(args) => set::run(args),
        Verb::Writeback(args) => writeback::run(&args),
        Verb::Disconnect(args) => disconnect::run(&args),
        Verb::Remove(args) => remove::run(&args),
        Verb::ReAdd(args) => re_add::run(&args),
        Verb::Replace(args) => replace::run(&args),
        Verb::Resize(args) => resize::run(&args),
        Verb::Health(args) => health::run(&args),
        Verb::Calibrate(args) => calibrate::run(&args),
        Verb::Profiles(args) => profiles::run(args),
        Verb::Help(args) => help::run(&args, in_full()),
        Verb::Keys(args) => keys::run(&args),
        Verb::Schema(args) => schema::run(&args),
        Verb::Man(args) => man::run(&args, in_full()),
        Verb::Completions(args) => completions::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::builder::StyledStr;

    use super::*;

    /// The longest help of an option, which is a line.
    const LONGEST_HELP: usize = 80;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_verb_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| verbs.iter().copied()).collect();
        let program = command();
        let mut verbs: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(grouped, verbs);
    }

    /// The most lines of the help of a verb, and of the list of verbs.
    const SCREEN: (usize, usize) = (40, 60);

    /// The fear: help does not fit on a screen; and what it leaves out is nowhere.
    #[test]
    fn the_help_is_one_screen() {
        fn visit(command: &mut Command, full: &mut Command, most: usize) {
            let text = command.render_help().to_string();
            assert!(text.lines().count() <= most, "{} lines:\n{text}", text.lines().count());
            text.lines().for_each(|line| assert!(line.chars().count() <= HELP_COLUMNS, "{line}"));
            let whole = full.render_help().to_string();
            for arg in full.get_arguments().filter(|_| most == SCREEN.0) {
                let long = format!("--{}", arg.get_long().unwrap_or_default());
                assert!(arg.is_positional() || whole.contains(&long), "{long} is not in\n{whole}");
            }
            for (below, full) in command.get_subcommands_mut().zip(full.get_subcommands_mut()) {
                visit(below, full, SCREEN.0);
            }
        }
        let (mut program, mut full) = (command(), in_full());
        program.build();
        full.build();
        visit(&mut program, &mut full, SCREEN.1);
    }

    /// The fear: an option that the help leaves out is gone, and the list still has it.
    #[test]
    fn options_that_help_leaves_out_exist() {
        let program = command();
        for name in SELDOM {
            let has = |verb: &Command| verb.get_arguments().any(|arg| arg.get_long() == Some(name));
            assert!(program.get_subcommands().any(has), "{name}");
        }
    }

    /// Verbs whose result is a file, a screen, or text for another program; and `supervise`, whose server prints the result.
    const NO_JSON: &[&str] = &["trace", "convert", "synth", "supervise", "top", "help", "schema", "man", "completions"];

    /// The fear: a script cannot read what a verb prints.
    #[test]
    fn every_verb_with_a_result_prints_it_as_json() {
        fn visit(command: &Command) {
            let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
            let is_program = command.get_name() == "peryton";
            assert_eq!(has("json"), !is_program && !NO_JSON.contains(&command.get_name()), "{}", command.get_name());
            command.get_subcommands().for_each(visit);
        }
        visit(&command());
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
                let length = arg.get_help().map_or(0, |text| text.to_string().chars().count());
                assert!(
                    length <= LONGEST_HELP,
                    "{path}: {}: the help has {length} characters: put details into a second paragraph",
                    arg.get_id()
                );
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
