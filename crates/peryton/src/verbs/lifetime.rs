//! `peryton lifetime`: computes the lifetime of a mixed SSD array by the analytic model.

use std::{fmt::Display, path::PathBuf};

use peryton_plan::lifetime::{Array, Lifetime, Wear};
use serde::Serialize;

use crate::{design_edit, failure::Failure, output, page, table};

/// Options of `peryton lifetime`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The model is that of \"Mixed SSD arrays\", section IV, equations (2)-(6). Every miss is written to the cache, and every dirty block \
that leaves the cache is written to the storage.

The case study of the paper as a file:
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
    file: PathBuf,
    /// Set a key of the file, such as workload.read_hit=0.5
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Share of the misses that may enter the cache, such as 0.5,1
    ///
    /// Share of the misses that may enter the cache; several, separated by commas, give a column each.
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',')]
    admit: Vec<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    let set = design_edit::with_settings("", &args.set).map_err(Failure::bad_input)?;
    let set = set.parse().map_err(|error: toml::de::Error| Failure::bad_input(error.message()))?;
    let rows = Array::load(Some(&args.file), &set)?.lifetimes(&args.admit)?;
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
