//! `peryton devices`: the profiles, and how far their models can be trusted.

use std::path::{Path, PathBuf};

use peryton_device::{ModelFigures, Profile, Throughput, WriteState, characterise, validate};
use peryton_units::Bytes;

use crate::{failure::Failure, output, table};

/// Options of `peryton devices`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name or the path of a profile: show its model beside its data sheet
    name: Option<String>,
    /// Replay a trace that was measured on a drive (its .model, .seek and .diskspecs beside it) on the model of the drive
    #[arg(long, value_name = "TRACE", conflicts_with = "name")]
    validate: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists, shows or validates.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.name {
        _ if !args.validate.is_empty() => validate_all(&args.validate, args.json),
        None => list(args.json),
        Some(name) => show(&name, args.json),
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

fn show(name: &str, json: bool) -> Result<(), Failure> {
    let profile = Profile::named(name)?;
    let model = characterise(&profile)?;
    if json {
        let mut about = about(&profile);
        about["model"] = serde_json::to_value(&model).map_err(Failure::failed)?;
        return output::print_json(&about);
    }
    let mut text = format!("{}\n{}, {}", profile.description, kind(&profile), size(profile.capacity));
    for part in [
        profile.year.map(|year| format!(", {year}")),
        profile.price_usd.map(|price| format!(", {price} USD")),
        profile.endurance.written.map(|limit| format!(", {} written", size(limit))),
        profile.endurance.cycles.map(|cycles| format!(", {cycles} cycles")),
        profile.endurance.start_stops.map(|limit| format!(", {limit} start-stops")),
    ] {
        text += &part.unwrap_or_default();
    }
    let mut rows = table::figures(&["", "data sheet", "model", "difference"]);
    for (what, sheet, model) in beside(&profile, &model) {
        let difference = sheet.zip(model).filter(|(sheet, _)| *sheet > 0.0);
        rows.add_row([
            what,
            table::optional(sheet),
            table::optional(model),
            difference.map_or_else(String::new, |(sheet, model)| format!("{:+.1} %", (model / sheet - 1.0) * 100.0)),
        ]);
    }
    text += "\n";
    text += &table::shown(&rows);
    text += "sources\n";
    for source in &profile.sources {
        text += &format!("  {source}\n");
    }
    output::print(&text)
}

/// Each figure: what it is, the data sheet's, the model's. Those that neither has are left out.
fn beside(profile: &Profile, model: &ModelFigures) -> Vec<(String, Option<f64>, Option<f64>)> {
    let sheet = &profile.data_sheet;
    let mb = |throughput: &Option<Throughput>| throughput.map(|t| t.mb_per_s);
    let iops = |throughput: &Option<Throughput>| throughput.map(|t| t.iops);
    let ms = |throughput: &Option<Throughput>| throughput.map(|t| t.mean_ms);
    let watts = |throughput: &Option<Throughput>| throughput.map(|t| t.mean_w);
    let written = sheet.rand_write_size.unwrap_or(Bytes::kib(4));
    let fresh = sheet.rand_write_iops.filter(|_| sheet.rand_write_state != Some(WriteState::Steady));
    let steady = sheet.rand_write_iops.filter(|_| sheet.rand_write_state == Some(WriteState::Steady));
    let percent = |share: f64| share * 100.0;
    let ftl = model.ftl_steady.as_ref();
    let valid = ftl.and_then(|ftl| ftl.fragmentation).map(|state| percent(state.valid_share));
    let cached = ftl.and_then(|ftl| ftl.mapping?.hit_ratio()).map(percent);
    let rows: [(String, Option<f64>, Option<f64>); 20] = [
        ("sequential read, MB/s".into(), sheet.seq_read_mb_per_s, mb(&model.seq_read)),
        ("sequential read at the end, MB/s".into(), None, mb(&model.seq_read_tail)),
        ("sequential write, MB/s".into(), sheet.seq_write_mb_per_s, mb(&model.seq_write)),
        ("random read 4KiB, deep queue, IOPS".into(), sheet.rand_read_iops, iops(&model.rand_read)),
        (format!("random write {written}, fresh, IOPS"), fresh, iops(&model.rand_write_fresh)),
        (format!("random write {written}, steady, IOPS"), steady, iops(&model.rand_write_steady)),
        ("write amplification, steady".into(), None, model.write_amplification_steady),
        ("valid data in blocks in use, steady, %".into(), None, valid),
        ("map entries found in RAM, steady, %".into(), None, cached),
        ("random read 4KiB, one at a time, ms".into(), sheet.rand_read_ms, ms(&model.rand_read_qd1)),
        ("random write 4KiB, one at a time, ms".into(), sheet.rand_write_ms, ms(&model.rand_write_qd1)),
        ("random read 1MiB, MB/s".into(), sheet.rand_read_mb_per_s, mb(&model.rand_read_large)),
        ("random read and write 1MiB, MB/s".into(), sheet.rand_mixed_mb_per_s, mb(&model.rand_mixed_large)),
        ("power, sequential read, W".into(), sheet.seq_read_w, watts(&model.seq_read)),
        ("power, sequential write, W".into(), sheet.seq_write_w, watts(&model.seq_write)),
        ("power, random read 1MiB, W".into(), sheet.rand_read_w, watts(&model.rand_read_large)),
        ("power, random read and write 1MiB, W".into(), sheet.rand_mixed_w, watts(&model.rand_mixed_large)),
        ("power, most under load, W".into(), sheet.active_w, model.most_w()),
        ("power, idle, W".into(), sheet.idle_w, Some(model.idle_w)),
        ("power, standby, W".into(), sheet.standby_w, Some(model.standby_w)),
    ];
    rows.into_iter().filter(|(_, sheet, model)| sheet.is_some() || model.is_some()).collect()
}

fn validate_all(traces: &[PathBuf], json: bool) -> Result<(), Failure> {
    let replay = |trace: &PathBuf| validate::replay(Path::new(trace)).map_err(Failure::bad_input);
    let validations = traces.iter().map(replay).collect::<Result<Vec<_>, _>>()?;
    if !json {
        let plots: Vec<String> = validations.iter().map(validate::Validation::render).collect();
        return output::print(&plots.join("\n"));
    }
    // One trace gives one object, as the other verbs do.
    match &validations[..] {
        [one] => output::print_json(one),
        all => output::print_json(all),
    }
}

fn about(profile: &Profile) -> serde_json::Value {
    let mut about = serde_json::json!({
        "name": profile.name,
        "description": profile.description,
        "class": profile.class,
        "capacity_bytes": profile.capacity.0,
        "sources": profile.sources,
        "data_sheet": profile.data_sheet,
        "endurance": profile.endurance,
    });
    // What is unknown is absent.
    if let Some(year) = profile.year {
        about["year"] = year.into();
    }
    if let Some(price) = profile.price_usd {
        about["price_usd"] = price.into();
    }
    about
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
