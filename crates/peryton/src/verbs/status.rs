//! `peryton status`: what a volume that is being served says of itself.

use std::path::PathBuf;

use peryton_drive::control::{self, Ask};
use peryton_units::{Bytes, Nanos};
use serde_json::Value;

use crate::{failure::Failure, output, table};

/// Options of `peryton status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The control socket of the volume
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut status = Value::Null;
    control::ask(&args.socket, &Ask::Status, |mut answer| {
        status = answer["status"].take();
        true
    })?;
    if args.json { output::print_json(&status) } else { output::print(&shown(&status)) }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn bytes(value: &Value) -> Bytes {
    Bytes(number(value))
}

fn shown(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let up = Nanos((status["uptime_s"].as_f64().unwrap_or(0.0) as u64) * 1_000_000_000);
    let mut lines = vec![format!(
        "{}: {}, up {up}, {} clients, {} requests in flight, {} of {} of buffers free",
        text(&status["name"]),
        bytes(&status["size"]),
        number(&status["clients"]),
        number(&status["requests_in_flight"]),
        bytes(&status["pool"]["free_bytes"]),
        bytes(&status["pool"]["bytes"]),
    )];
    let hits = table::percent(status["fast_hit_ratio"].as_f64());
    let moves = &status["ledger"]["moves"];
    lines.push(format!(
        "{hits} % hits on the fast device, {} dirty extents, {} lost; {} promotions, {} demotions, {} write-backs",
        number(&status["dirty_extents"]),
        number(&status["lost_extents"]),
        number(&moves["promotions"]),
        number(&moves["demotions"]),
        number(&moves["writebacks"]),
    ));
    let settings: Vec<String> = status["settings"].as_array().into_iter().flatten().map(text).collect();
    if !settings.is_empty() {
        lines.push(format!("set: {}", settings.join(", ")));
    }
    let faults = status["faults"].as_array().map_or(0, Vec::len);
    if faults > 0 {
        lines.push(format!("{faults} faults are in force, as a drill"));
    }
    let mut traffic = table::figures(&["", "requests", "mean us", "p50", "p99", "p99.9", "max"]);
    for kind in ["read", "write", "flush", "other"] {
        let row = &status["traffic"][kind];
        let mut cells = vec![kind.to_owned(), number(&row["requests"]).to_string()];
        let some = number(&row["requests"]) > 0;
        let figures = ["mean_us", "p50_us", "p99_us", "p999_us", "max_us"];
        cells.extend(figures.iter().map(|key| table::optional(row[*key].as_f64().filter(|_| some))));
        traffic.add_row(cells);
    }
    let mut devices = table::figures(&["device", "state", "reads", "writes", "flushes", "errors", "retries", "path"]);
    let rows = status["devices"].as_object().into_iter().flatten();
    for (row, (name, device)) in rows.enumerate() {
        let ledger = &status["ledger"]["devices"][row];
        let sum =
            |key: &str| -> String { ledger[key].as_array().into_iter().flatten().map(number).sum::<u64>().to_string() };
        devices.add_row(vec![
            name.clone(),
            text(&device["state"]),
            sum("reads"),
            sum("writes"),
            number(&ledger["flushes"]).to_string(),
            number(&device["errors"]).to_string(),
            number(&device["retries"]).to_string(),
            device["path"].as_str().unwrap_or("-").to_owned(),
        ]);
    }
    format!("{}\n{}{}", lines.join("\n"), table::shown(&traffic), table::shown(&devices))
}
