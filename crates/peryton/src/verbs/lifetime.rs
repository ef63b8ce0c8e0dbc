//! `peryton lifetime`: computes the lifetime of a mixed SSD array by the analytic model.

use std::{fmt::Display, path::PathBuf};

use peryton_plan::lifetime::{Array, Lifetime, LifetimeError, Wear};
use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{failure::Failure, output, page, table};

/// Options of `peryton lifetime`. Each option is also a key of the file, and replaces it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The model is that of \"Mixed SSD arrays\", section IV, equations (2)-(6). Every miss is written to the cache, and every dirty block \
that leaves the cache to the storage.

The case study of the paper as a file (or by options: --read 160MB):
  # cache and storage also have capacity, cycles, read, write, write_amplification
  cache = { profile = \"mixed-array-high-end-100gb\" }
  storage = { profile = \"mixed-array-low-end-200gb\", count = 3 }
  [workload]
  read = \"160MB\"
  write = \"200MB\"
  read_hit = 0.9
  write_hit = 0.85
  dirty = 0.65
  read_size = \"16KiB\"
  write_size = \"16KiB\"")]
pub struct Args {
    /// The array and its workload: tables workload, cache and storage
    #[arg(value_name = "ARRAY.toml")]
    file: Option<PathBuf>,
    /// Bytes read per second, such as 160MB
    #[arg(long, value_name = "SIZE")]
    read: Option<Bytes>,
    /// Bytes written per second
    #[arg(long, value_name = "SIZE")]
    write: Option<Bytes>,
    /// Share of the reads that hit the cache
    #[arg(long, value_name = "SHARE")]
    read_hit: Option<f64>,
    /// Share of the writes whose block is in the cache
    #[arg(long, value_name = "SHARE")]
    write_hit: Option<f64>,
    /// Share of the blocks leaving the cache that are dirty
    #[arg(long, value_name = "SHARE")]
    dirty: Option<f64>,
    /// Size of a read
    #[arg(long, value_name = "SIZE")]
    read_size: Option<Bytes>,
    /// Size of a write
    #[arg(long, value_name = "SIZE")]
    write_size: Option<Bytes>,
    /// Share of the misses that may enter the cache, such as 0.5,1
    ///
    /// Share of the misses that may enter the cache; several, separated by commas, give a column each.
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',')]
    admit: Vec<f64>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    storage: StorageArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Defines a tier's options, which are the same for both tiers except for their names.
macro_rules! tier_args {
    ($name:ident, $tier:literal) => {
        #[derive(Debug, clap::Args)]
        struct $name {
            #[arg(
                                long = $tier,
                                id = $tier,
                                value_name = "PROFILE",
                                help = concat!("Profile of the ", $tier, "'s drives: a name, or the path of a file")
                            )]
            profile: Option<String>,
            #[arg(
                                long = concat!($tier, "-count"),
                                id = concat!($tier, "-count"),
                                value_name = "N",
                                help = concat!("How many drives the ", $tier, " has")
                            )]
            count: Option<u32>,
            #[arg(
                                long = concat!($tier, "-capacity"),
                                id = concat!($tier, "-capacity"),
                                value_name = "SIZE",
                                help = concat!("Capacity of each drive of the ", $tier)
                            )]
            capacity: Option<Bytes>,
            #[arg(
                                long = concat!($tier, "-cycles"),
                                id = concat!($tier, "-cycles"),
                                value_name = "N",
                                help = concat!("Writes that a cell of the ", $tier, " endures")
                            )]
            cycles: Option<f64>,
            #[arg(
                                long = concat!($tier, "-read"),
                                id = concat!($tier, "-read"),
                                value_name = "TIME",
                                help = concat!("Time of a read from the ", $tier)
                            )]
            read: Option<Nanos>,
            #[arg(
                                long = concat!($tier, "-write"),
                                id = concat!($tier, "-write"),
                                value_name = "TIME",
                                help = concat!("Time of a write to the ", $tier)
                            )]
            write: Option<Nanos>,
            #[arg(
                                long = concat!($tier, "-amplification"),
                                id = concat!($tier, "-amplification"),
                                value_name = "X",
                                help = concat!("Bytes that the ", $tier, " programs per byte written")
                            )]
            write_amplification: Option<f64>,
        }

        impl $name {
            fn table(&self) -> toml::Table {
                let mut keys = toml::Table::new();
                set(&mut keys, "profile", &self.profile);
                set(&mut keys, "count", &self.count.map(i64::from));
                set_text(&mut keys, "capacity", &self.capacity);
                set(&mut keys, "cycles", &self.cycles);
                set_time(&mut keys, "read", self.read);
                set_time(&mut keys, "write", self.write);
                set(&mut keys, "write_amplification", &self.write_amplification);
                keys
            }
        }
    };
}

tier_args!(CacheArgs, "cache");
tier_args!(StorageArgs, "storage");

fn set<T: Clone + Into<toml::Value>>(keys: &mut toml::Table, key: &str, value: &Option<T>) {
    if let Some(value) = value {
        keys.insert(key.to_owned(), value.clone().into());
    }
}

fn set_text(keys: &mut toml::Table, key: &str, value: &Option<Bytes>) {
    set(keys, key, &value.map(|value| format!("{}B", value.0)));
}

fn set_time(keys: &mut toml::Table, key: &str, value: Option<Nanos>) {
    set(keys, key, &value.map(|value| format!("{}ns", value.0)));
}

impl Args {
    fn overlay(&self) -> toml::Table {
        let mut workload = toml::Table::new();
        for (key, value) in
            [("read", self.read), ("write", self.write), ("read_size", self.read_size), ("write_size", self.write_size)]
        {
            set_text(&mut workload, key, &value);
        }
        for (key, value) in [("read_hit", self.read_hit), ("write_hit", self.write_hit), ("dirty", self.dirty)] {
            set(&mut workload, key, &value);
        }
        let tables = [("workload", workload), ("cache", self.cache.table()), ("storage", self.storage.table())];
        let given = tables.into_iter().filter(|(_, table)| !table.is_empty());
        given.map(|(key, table)| (key.to_owned(), toml::Value::Table(table))).collect()
    }
}

/// Rewrites an error that names keys of a file so that it names options, for a user who gave options.
fn in_options(error: &str) -> String {
    let error = error.trim_start_matches("the command line: ");
    if let Some(key) = error.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return match key {
            "cache" | "storage" => format!("the {key} is missing: give --{key} PROFILE, or --{key}-capacity and so on"),
            key => format!("--{} is missing: give it, or the file of an array", key.replace('_', "-")),
        };
    }
    let mut message = error.to_owned();
    for key in ["read_hit", "write_hit", "read_size", "write_size", "dirty", "admit", "read", "write"] {
        message = message.replace(&format!("workload.{key}"), &format!("--{}", key.replace('_', "-")));
    }
    for tier in ["cache", "storage"] {
        for (key, option) in [("profile", ""), ("write_amplification", "-amplification")] {
            message = message.replace(&format!("{tier}.{key}"), &format!("--{tier}{option}"));
        }
        message = message.replace(&format!("{tier}."), &format!("--{tier}-"));
    }
    message
}

/// The JSON object printed for each share of admitted misses.
#[derive(Serialize)]
struct Printed<'a> {
    peryton_version: &'static str,
    command: String,
    #[serde(flatten)]
    lifetime: &'a Lifetime,
}

impl Printed<'_> {
    fn new(lifetime: &Lifetime) -> Printed<'_> {
        Printed { peryton_version: peryton_version::VERSION, command: page::command_line(), lifetime }
    }
}

/// Prints the lifetimes.
pub fn run(args: Args) -> Result<(), Failure> {
    if args.file.is_none() && args.overlay().is_empty() {
        return Err(Failure::bad_input(
            "give the file of an array, or its options: peryton lifetime --help shows both",
        ));
    }
    let failure = |error: LifetimeError| match args.file {
        None if !matches!(error, LifetimeError::Profile(_)) => Failure::bad_input(in_options(&error.to_string())),
        _ => error.into(),
    };
    let array = Array::load(args.file.as_deref(), &args.overlay()).map_err(failure)?;
    let rows = array.lifetimes(&args.admit).map_err(failure)?;
    if args.json {
        // One row is printed as a single object, as by the other verbs.
        let printed: Vec<Printed<'_>> = rows.iter().map(Printed::new).collect();
        return match &printed[..] {
            [one] => output::print_json(one),
            all => output::print_json(all),
        };
    }
    output::tell(&shown(&rows))
}

fn shown(rows: &[Lifetime]) -> String {
    let mut header = vec![String::new()];
    header.extend(rows.iter().map(|row| match rows {
        [_] => "array".to_owned(),
        _ => format!("admit {}", row.admit),
    }));
    let mut shown = table::figures(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let mut line = |what: &str, of: &dyn Fn(&Lifetime) -> String| {
        shown.add_row([what.to_owned()].into_iter().chain(rows.iter().map(of)));
    };
    let wear = |tier: fn(&Lifetime) -> Wear, figure: fn(&Wear) -> String| move |row: &Lifetime| figure(&tier(row));
    let cache: fn(&Lifetime) -> Wear = |row| row.cache;
    let storage: fn(&Lifetime) -> Wear = |row| row.storage;
    for (name, tier) in [("cache", cache), ("storage", storage)] {
        line(&format!("{name}: written, MB/s"), &wear(tier, |wear| table::number(wear.bytes_written_per_s / 1e6)));
        line(&format!("{name}: writes per cell and second"), &wear(tier, |wear| small(wear.writes_per_cell_per_s)));
        line(&format!("{name}: share of its life per second"), &wear(tier, |wear| small(wear.wear_per_s)));
        line(&format!("{name}: lifetime, years"), &wear(tier, |wear| table::optional(wear.lifetime_years)));
    }
    line("lifetime, years", &|row| table::optional(row.lifetime_years));
    line("mean latency, ms", &|row| table::number(row.mean_latency_ms));
    line("mean latency by bytes, ms", &|row| table::number(row.mean_latency_by_bytes_ms));
    line("latency over lifetime, ms/year", &|row| table::optional(row.latency_over_lifetime));
    shown.shown()
}

fn small(value: impl Display + Into<f64>) -> String {
    format!("{:.2e}", value.into())
}
