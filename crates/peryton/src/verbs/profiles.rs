//! `peryton profiles`: the profiles, and how far their models can be trusted.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use peryton_device::{DataSheet, ModelFigures, Origin, Profile, Throughput, WriteState, characterise, validate};
use peryton_trace::Format;
use peryton_units::Bytes;

use crate::{
    failure::Failure,
    measured_args, output, page,
    table::{self, Column, Table},
};

/// Options of `peryton profiles`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name or the path of a profile: show its model beside its data sheet
    name: Option<String>,
    /// Replay a trace with measured latencies on the drive's model
    ///
    /// Replay a trace that was measured on a drive: on the model of NAME, or, without a name, on the model of the disk whose
    /// .model, .seek and .diskspecs are beside the trace.
    #[arg(long, value_name = "TRACE")]
    validate: Vec<PathBuf>,
    /// The format of the trace, one with latencies [default: recognised]
    ///
    /// One with latencies, such as flashnet, csv, msr or fio-log.
    #[arg(long, value_name = "FORMAT", requires = "validate", requires = "name")]
    format: Option<Format>,
    /// Also write a page with the distributions of the validated traces
    #[arg(long, value_name = "FILE", requires = "validate")]
    report: Option<PathBuf>,
    /// List every value of the profile and where it comes from
    ///
    /// List every value of the profile and where it comes from, without running the model.
    #[arg(long, requires = "name")]
    values: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists, shows or validates.
pub fn run(args: Args) -> Result<(), Failure> {
    match args.name {
        Some(name) if !args.validate.is_empty() => {
            let validations = validate_on(&name, &args.validate, args.format)?;
            show_validations(&validations, args.report.as_deref(), args.json)
        }
        None if !args.validate.is_empty() => {
            show_validations(&validate_all(&args.validate)?, args.report.as_deref(), args.json)
        }
        None => list(args.json),
        Some(name) if args.values => values(&name, args.json),
        Some(name) => show(&name, args.json),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let profiles = Profile::shipped().map(Profile::named).collect::<Result<Vec<_>, _>>()?;
    if json {
        let rows: Vec<_> = profiles.iter().map(about).collect();
        return output::print_json(&rows);
    }
    let name = |title| Column::names(title, 1);
    let about = Column::text("device", 1);
    let mut rows = Table::of(vec![name("profile"), name("kind"), name("year"), name("size"), name("USD"), about]);
    for profile in &profiles {
        rows.add_row([
            profile.name.clone(),
            kind(profile),
            table::cell(profile.year, |year| year.to_string()),
            size(profile.capacity),
            table::optional(profile.price_usd),
            profile.description.clone(),
        ]);
    }
    output::tell(&rows.shown())
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
        profile.price_usd.map(|price| {
            let when = profile.price_date.as_ref().map_or_else(String::new, |date| format!(" in {date}"));
            let guess = profile.provenance.of("price_usd").is_some_and(|said| said.origin == Origin::Estimated);
            format!(", {price} USD{when}{}", if guess { " (estimated)" } else { "" })
        }),
        profile.endurance.written.map(|limit| format!(", {} written", size(limit))),
        profile.endurance.cycles.map(|cycles| format!(", {cycles} cycles")),
        profile.endurance.start_stops.map(|limit| format!(", {limit} start-stops")),
        profile.afr.map(|afr| format!(", {:.2} % fail a year", afr * 100.0)),
    ] {
        text += &part.unwrap_or_default();
    }
    let measured = profile.measured != DataSheet::default();
    let figures = |(title, matters)| Column::figures(title, matters);
    let mut header = vec![Column::text("", 9)];
    header.extend([("data sheet", 8), ("model", 9), ("difference", 7), ("the model is", 4)].map(figures));
    if measured {
        header.extend([("measured", 6), ("difference ", 5)].map(figures));
    }
    let mut rows = Table::of(header);
    let difference = |stated: Option<f64>, model: Option<f64>| {
        let both = stated.zip(model).filter(|(stated, _)| *stated > 0.0);
        both.map_or_else(String::new, |(stated, model)| format!("{:+.1} %", (model / stated - 1.0) * 100.0))
    };
    for row in beside(&profile, &model) {
        let mut cells = vec![
            row.what,
            table::optional(row.sheet) + if is_estimate(&profile, "data_sheet", row.key) { " ?" } else { "" },
            table::optional(row.model),
            difference(row.sheet, row.model),
            made(&profile, row.key, row.sheet.or(row.measured)).to_owned(),
        ];
        if measured {
            cells.extend([table::optional(row.measured), difference(row.measured, row.model)]);
        }
        rows.add_row(cells);
    }
    text += "\n";
    text += &rows.shown();
    if profile.provenance.with(Origin::Estimated).any(|path| path.starts_with("data_sheet.")) {
        text += "? estimated, or remembered and not seen in the document\n";
    }
    text += &origins(&profile);
    text += "sources\n";
    for (number, source) in (1..).zip(&profile.sources) {
        text += &format!("  [{number}] {source}\n");
    }
    output::tell(&text)
}

/// Values of the model that are themselves figures of a data sheet, which it therefore gives back.
const TAKEN: [(&str, &str); 10] = [
    ("disk.tracks.outer_mb_per_s", "seq_read_mb_per_s"),
    ("disk.tracks.outer_mb_per_s", "seq_write_mb_per_s"),
    ("disk.tracks.inner_mb_per_s", "seq_read_tail_mb_per_s"),
    ("disk.tracks.inner_mb_per_s", "seq_write_tail_mb_per_s"),
    ("disk.power.idle_w", "idle_w"),
    ("disk.power.standby_w", "standby_w"),
    ("flash.idle_w", "idle_w"),
    ("flash.standby_w", "standby_w"),
    ("fixed.read", "rand_read_ms"),
    ("fixed.write", "rand_write_ms"),
];

/// What the agreement of model and sheet in a figure says.
fn made(profile: &Profile, key: &str, stated: Option<f64>) -> &'static str {
    let fitted: BTreeSet<&str> = profile.provenance.fitted_to();
    if stated.is_none() || key.is_empty() {
        ""
    } else if fitted.contains(key) {
        "fitted to it"
    } else if TAKEN.iter().any(|(path, of)| *of == key && profile.provenance.of(path).is_some()) {
        "given it"
    } else if profile.provenance.unsaid().next().is_some() {
        "unknown"
    } else {
        "not fitted to it"
    }
}

fn is_estimate(profile: &Profile, table: &str, key: &str) -> bool {
    profile.provenance.of(&format!("{table}.{key}")).is_some_and(|said| said.origin == Origin::Estimated)
}

/// How many values come from where.
fn origins(profile: &Profile) -> String {
    let all = [Origin::Published, Origin::Measured, Origin::Fitted, Origin::Estimated, Origin::Given];
    let mut parts: Vec<String> = Vec::new();
    for origin in all {
        let count = profile.provenance.with(origin).count();
        if count > 0 {
            parts.push(format!("{count} {origin}"));
        }
    }
    let unsaid = profile.provenance.unsaid().count();
    if unsaid > 0 {
        parts.push(format!("{unsaid} without a source in the profile"));
    }
    format!("values: {} (peryton profiles {} --values)\n", parts.join(", "), profile.name)
}

/// Every value and what is said of it.
fn values(name: &str, json: bool) -> Result<(), Failure> {
    let profile = Profile::named(name)?;
    if json {
        return output::print_json(&about(&profile));
    }
    let mut rows = table::text(&["value", "", "where it comes from"]);
    for (path, sourced) in profile.provenance.values() {
        let said = sourced.statement.as_ref().map_or_else(|| "not said".to_owned(), ToString::to_string);
        rows.add_row([path.to_owned(), sourced.value.to_string(), said]);
    }
    let mut text = rows.shown() + "sources\n";
    for (number, source) in (1..).zip(&profile.sources) {
        text += &format!("  [{number}] {source}\n");
    }
    output::tell(&text)
}

/// A figure of the data sheet, of a measurement, and of the model.
struct Beside {
    what: String,
    /// Its key in `[data_sheet]` and `[measured]`; empty where neither can have it.
    key: &'static str,
    sheet: Option<f64>,
    measured: Option<f64>,
    model: Option<f64>,
}

/// Each figure that the data sheet, the measurement or the model has.
fn beside(profile: &Profile, model: &ModelFigures) -> Vec<Beside> {
    let (sheet, measured) = (&profile.data_sheet, &profile.measured);
    let mb = |throughput: &Option<Throughput>| throughput.map(|t| t.mb_per_s);
    let iops = |throughput: &Option<Throughput>| throughput.map(|t| t.iops);
    let ms = |throughput: &Option<Throughput>| throughput.map(|t| t.mean_ms);
    let watts = |throughput: &Option<Throughput>| throughput.map(|t| t.mean_w);
    let written = sheet.rand_write_size.unwrap_or(Bytes::kib(4));
    let in_state = |sheet: &DataSheet, steady: bool| {
        sheet.rand_write_iops.filter(|_| (sheet.rand_write_state == Some(WriteState::Steady)) == steady)
    };
    let percent = |share: f64| share * 100.0;
    let ftl = model.ftl_steady.as_ref();
    let valid = ftl.and_then(|ftl| ftl.fragmentation).map(|state| percent(state.valid_share));
    let cached = ftl.and_then(|ftl| ftl.mapping?.hit_ratio()).map(percent);
    let row = |what: &str, key: &'static str, of: fn(&DataSheet) -> Option<f64>, model: Option<f64>| Beside {
        what: what.to_owned(),
        key,
        sheet: of(sheet),
        measured: of(measured),
        model,
    };
    let model_only = |what: &str, model: Option<f64>| row(what, "", |_| None, model);
    let writes = |state: &str, steady: bool, model: Option<f64>| Beside {
        what: format!("random write {written}, {state}, IOPS"),
        key: "rand_write_iops",
        sheet: in_state(sheet, steady),
        measured: in_state(measured, steady),
        model,
    };
    let rows = [
        row("sequential read, MB/s", "seq_read_mb_per_s", |s| s.seq_read_mb_per_s, mb(&model.seq_read)),
        row(
            "sequential read at the end, MB/s",
            "seq_read_tail_mb_per_s",
            |s| s.seq_read_tail_mb_per_s,
            mb(&model.seq_read_tail),
        ),
        row("sequential write, MB/s", "seq_write_mb_per_s", |s| s.seq_write_mb_per_s, mb(&model.seq_write)),
        row("random read 4KiB, deep queue, IOPS", "rand_read_iops", |s| s.rand_read_iops, iops(&model.rand_read)),
        writes("fresh", false, iops(&model.rand_write_fresh)),
        writes("steady", true, iops(&model.rand_write_steady)),
        model_only("write amplification, steady", model.write_amplification_steady),
        model_only("valid data in blocks in use, steady, %", valid),
        model_only("map entries found in RAM, steady, %", cached),
        row("random read 4KiB, one at a time, ms", "rand_read_ms", |s| s.rand_read_ms, ms(&model.rand_read_qd1)),
        row("random write 4KiB, one at a time, ms", "rand_write_ms", |s| s.rand_write_ms, ms(&model.rand_write_qd1)),
        row("random read 1MiB, MB/s", "rand_read_mb_per_s", |s| s.rand_read_mb_per_s, mb(&model.rand_read_large)),
        row(
            "random read and write 1MiB, MB/s",
            "rand_mixed_mb_per_s",
            |s| s.rand_mixed_mb_per_s,
            mb(&model.rand_mixed_large),
        ),
        row("power, sequential read, W", "seq_read_w", |s| s.seq_read_w, watts(&model.seq_read)),
        row(
            "power, sequential read at the end, W",
            "seq_read_tail_w",
            |s| s.seq_read_tail_w,
            watts(&model.seq_read_tail),
        ),
        row("power, sequential write, W", "seq_write_w", |s| s.seq_write_w, watts(&model.seq_write)),
        row("power, random read 1MiB, W", "rand_read_w", |s| s.rand_read_w, watts(&model.rand_read_large)),
        row("power, random read and write 1MiB, W", "rand_mixed_w", |s| s.rand_mixed_w, watts(&model.rand_mixed_large)),
        row("power, most under load, W", "active_w", |s| s.active_w, model.most_w()),
        row("power, idle, W", "idle_w", |s| s.idle_w, Some(model.idle_w)),
        row("power, standby, W", "standby_w", |s| s.standby_w, Some(model.standby_w)),
    ];
    let known = |row: &Beside| row.sheet.is_some() || row.measured.is_some() || row.model.is_some();
    rows.into_iter().filter(known).collect()
}

fn validate_all(traces: &[PathBuf]) -> Result<Vec<validate::Validation>, Failure> {
    traces.iter().map(|trace| validate::replay(Path::new(trace)).map_err(Failure::bad_input)).collect()
}

/// Replays traces with measured latencies on the model of a profile.
fn validate_on(name: &str, traces: &[PathBuf], format: Option<Format>) -> Result<Vec<validate::Validation>, Failure> {
    let profile = Profile::named(name)?;
    let replay = |trace: &PathBuf| {
        let requests = measured_args::read(trace, format)?;
        let of = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
        validate::replay_on(&format!("{} on {of}", profile.name), &profile, &requests).map_err(Failure::bad_input)
    };
    traces.iter().map(replay).collect()
}

fn show_validations(validations: &[validate::Validation], report: Option<&Path>, json: bool) -> Result<(), Failure> {
    if let Some(path) = report {
        output::write(path, page::validation(validations, &page::command_line()))?;
    }
    if !json {
        let plots: Vec<String> = validations.iter().map(validate::Validation::render).collect();
        return output::tell(&plots.join("\n"));
    }
    // One trace gives one object, as the other verbs do.
    match validations {
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
        "provenance": profile.provenance,
    });
    // What is unknown is absent.
    if let Some(year) = profile.year {
        about["year"] = year.into();
    }
    if let Some(year) = profile.sold_until {
        about["sold_until"] = year.into();
    }
    if let Some(price) = profile.price_usd {
        about["price_usd"] = price.into();
    }
    if let Some(afr) = profile.afr {
        about["afr"] = afr.into();
    }
    if let Some(date) = &profile.price_date {
        about["price_date"] = date.as_str().into();
    }
    if profile.measured != DataSheet::default() {
        about["measured"] = serde_json::json!(profile.measured);
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
