//! `peryton devices`: the profiles.

use peryton_device::Profile;
use peryton_units::Bytes;

use crate::{failure::Failure, output, table};

/// Options of `peryton devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A profile, or the path of one
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists or shows.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.name {
        None => list(args.json),
        Some(name) => list_one(&name, args.json),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let profiles = Profile::shipped().map(Profile::named).collect::<Result<Vec<_>, _>>()?;
    if json {
        let rows: Vec<_> = profiles.iter().map(about).collect();
        return output::print_json(&rows);
    }
    let mut rows = table::text(&["profile", "kind", "year", "size", "USD", "device"]);
    for profile in &profiles {
        rows.add_row([
            profile.name.clone(),
            kind(profile),
            profile.year.map_or_else(|| table::NONE.to_owned(), |year| year.to_string()),
            size(profile.capacity),
            table::optional(profile.price_usd),
            profile.description.clone(),
        ]);
    }
    output::print(&table::shown(&rows))
}

fn list_one(name: &str, json: bool) -> Result<(), Failure> {
    let profile = Profile::named(name)?;
    if json {
        return output::print_json(&about(&profile));
    }
    output::print(&format!("{}: {}\n", profile.name, profile.description))
}

fn about(profile: &Profile) -> serde_json::Value {
    serde_json::json!({
        "name": profile.name,
        "description": profile.description,
        "class": profile.class,
        "year": profile.year,
        "capacity_bytes": profile.capacity.0,
        "price_usd": profile.price_usd,
        "sources": profile.sources,
        "data_sheet": profile.data_sheet,
        "endurance": profile.endurance,
    })
}

fn kind(profile: &Profile) -> String {
    format!("{:?}", profile.class).to_lowercase()
}

/// As the makers count.
fn size(capacity: Bytes) -> String {
    match capacity.0 as f64 / 1e9 {
        gb if gb >= 1000.0 => format!("{} TB", table::number(gb / 1e3)),
        gb => format!("{} GB", table::number(gb)),
    }
}
