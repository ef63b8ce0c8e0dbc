//! `peryton status`: prints the state of a volume that is being served.

use peryton_drive::control::Ask;
use peryton_engine::{AdaptiveView, PastLog};
use peryton_units::{Bytes, Nanos};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    cleaning, condition::WHAT_IS_NOT_KNOWN, drive_health, endurance, exit_code, failure::Failure, in_service,
    naming::Served, output, table,
};

/// Options of `peryton status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Begin a second count of the devices' wear now
    #[arg(long)]
    mark: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Requests the state and prints it.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.mark {
        args.volume.value(&Ask::Mark {}, "ok")?;
    }
    let status = args.volume.value(&Ask::Status {}, "status")?;
    if args.json {
        output::print_json(&status)?;
    } else {
        output::tell(&shown(&status))?;
    }
    // A volume that is being served is not closed, and may be dirty.
    match number(&status["lost"]["bytes"]) > 0 || status["lost"]["unknown"] == true {
        true => Err(Failure::quietly(exit_code::LOST)),
        false => Ok(()),
    }
}

/// What needs the attention of a person, a line each.
pub fn warnings(status: &Value) -> Vec<String> {
    let devices = status["devices"].as_object().into_iter().flatten().filter(|(_, device)| device["state"] == "outage");
    let mut lines: Vec<String> = devices.map(|(name, device)| outage(name, &device["outage"])).collect();
    lines.extend([doubt(status), unprotected(status), lacks_records(status)].into_iter().flatten());
    lines.extend(FILES.iter().filter_map(|(state, what)| {
        let names = in_state(status, state).join(" and ");
        (!names.is_empty()).then(|| format!("{}: the file of {names} {what}", state.to_uppercase()))
    }));
    lines.extend(read_only(status));
    if status["state"] == "degraded" || number(&status["lost"]["bytes"]) > 0 {
        lines.push(degraded(status, &status["lost"]));
    }
    lines
}

/// The states of devices whose file is not at its path, and what is said of the file.
const FILES: [(&str, &str); 2] = [
    (
        "moved",
        "is not at its path any more: move it back, or set its path in the design, before the next server is started",
    ),
    ("deleted", "was deleted, and its data end with the server: peryton replace copies them"),
];

/// The devices in this state.
fn in_state<'a>(status: &'a Value, state: &str) -> Vec<&'a str> {
    let devices = status["devices"].as_object().into_iter().flatten();
    devices.filter(|(_, device)| device["state"] == state).map(|(name, _)| name.as_str()).collect()
}

/// The most lost ranges that are printed; the JSON has all of them.
const MOST_RANGES: usize = 8;

fn degraded(status: &Value, lost: &Value) -> String {
    let gone = in_state(status, "gone");
    let ranges = lost["ranges"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = ranges.iter().take(MOST_RANGES).map(|range| {
        let from = number(&range["offset"]);
        format!("{from} to {}", from + number(&range["length"]))
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if ranges.len() > MOST_RANGES { ", ..." } else { "" };
    let without = if gone.is_empty() { String::new() } else { format!("DEGRADED: without {}", gone.join(" and ")) };
    let known = match number(&lost["bytes"]) {
        0 => None,
        bytes => Some(format!("LOST: {} until overwritten or discarded: bytes {shown}{more}", Bytes(bytes))),
    };
    let unknown = (lost["unknown"] == true).then(|| format!("LOST: {WHAT_IS_NOT_KNOWN}"));
    let lost: Vec<String> = known.into_iter().chain(unknown).collect();
    let lost = if lost.is_empty() { "no loss is known".to_owned() } else { lost.join("; ") };
    if without.is_empty() { lost } else { format!("{without}; {lost}") }
}

/// A line for each device that was evacuated.
fn evacuated(status: &Value) -> impl Iterator<Item = String> {
    let devices = status["devices"].as_object().into_iter().flatten();
    devices
        .filter(|(_, device)| device["state"] == "evacuated")
        .map(|(name, _)| format!("removed: {name}: the volume goes on without it; peryton re-add takes it back, empty"))
}

/// A line about the volume as a block device of this machine.
fn block_device(device: &Value) -> Option<String> {
    let path = device["path"].as_str()?;
    let how = if device["taken_over"] == true { ", taken over from an earlier server" } else { "" };
    let state = device["state"].as_str().unwrap_or("?");
    let name = device["name"].as_str().unwrap_or("?");
    let in_flight = number(&device["requests_in_flight"]);
    Some(format!("block device {path} ({name}): {state}{how}, {in_flight} requests in flight"))
}

/// A line about a device that fails and may return.
fn outage(name: &str, outage: &Value) -> String {
    let seconds = |key: &str| Nanos((outage[key].as_f64().unwrap_or(0.0) as u64) * 1_000_000_000);
    let error = outage["error"].as_str().unwrap_or("?");
    let begins = format!("OUTAGE: {name} has failed for {} ({error})", seconds("since_s"));
    let fails = match outage["full"] == true {
        true => "; writes and flushes that need space fail",
        false => ", and stays, because no other device has its data: writes and flushes that need it fail",
    };
    if let Some(way_out) = outage["way_out"].as_str() {
        return format!("{begins}{fails}. {way_out}");
    }
    let left = seconds("patience_left_s");
    if left == Nanos::ZERO {
        return format!("{begins}, longer than commands wait (failure.patience): they fail");
    }
    let then = if outage["full"] == true { "then they fail" } else { "then the device is given up" };
    let waiting = number(&outage["commands_waiting"]);
    format!("{begins}; commands waiting: {waiting}, for at most {left} more (failure.patience), {then}")
}

/// A line about a flush that failed, while it matters.
fn doubt(status: &Value) -> Option<String> {
    let devices = status["devices"].as_object().into_iter().flatten();
    let failed = devices.filter(|(_, device)| number(&device["failed_flushes"]) > 0 && device["state"] != "gone");
    let failed: Vec<&str> = failed.map(|(name, _)| name.as_str()).collect();
    let of = if failed.is_empty() { "a device".to_owned() } else { failed.join(" and ") };
    if status["stopped"] == true {
        return Some(format!(
            "STOPPED: a flush of {of} failed, and every request fails until {of} can be flushed again; then the server recovers \
             all that was flushed before, and continues"
        ));
    }
    (status["in_doubt"] == true).then(|| {
        format!(
            "IN DOUBT: a flush of {of} failed; writes since the last good flush may be lost, and the next flush of each \
             client fails"
        )
    })
}

/// A line about what a kill would lose, if the design asks for less.
fn unprotected(status: &Value) -> Option<String> {
    let kept = &status["process_death"];
    (kept["unprotected"] == true).then(|| {
        let why = kept["not_kept"].as_str().unwrap_or("?");
        format!("UNPROTECTED: if the server is killed, acknowledged writes that are not flushed may be lost: {why}")
    })
}

/// A line about what a server before left no records of.
fn lacks_records(status: &Value) -> Option<String> {
    (status["opened"]["lacks_records"] == true).then(|| {
        "LACKS RECORDS: the previous server was killed and left none: writes that it answered and that were not flushed may be \
         lost; check the file system"
            .to_owned()
    })
}

/// A line about a volume that is only read.
fn read_only(status: &Value) -> Option<String> {
    let why = status["read_only"]["why"].as_str()?;
    Some(format!("READ-ONLY: {why}"))
}

/// Lines about the drives beneath the devices, and whether they rest.
fn drives(status: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, device) in status["devices"].as_object().into_iter().flatten() {
        for drive in device["health"]["drives"].as_array().into_iter().flatten() {
            let about = drive_health::name(&drive["health"]);
            let on = drive["drive"].as_str().unwrap_or("?");
            match drive["health"].is_object() {
                true => lines.push(format!("{name} on {about}: {}", drive_health::line(&drive["health"]))),
                false if drive["error"].is_null() => lines.push(format!("{name} on {on}: its health was not read yet")),
                false => {}
            }
            if let Some(error) = drive["error"].as_str() {
                lines.push(format!("{name} on {on}: its health is not read now: {error}"));
            }
        }
        let rest = &device["rest"];
        if let Some(cannot) = rest["cannot"].as_str() {
            lines.push(format!("{name} is served without standby: {cannot}"));
        } else if let Some(after) = rest["after_s"].as_f64() {
            let now = if rest["resting"] == true { "in standby" } else { "awake" };
            lines.push(format!(
                "{name} is {now}; it was put into standby {} times, for {} altogether (after {} of idleness)",
                number(&rest["cycles"]),
                Nanos(rest["total_s"].as_f64().unwrap_or(0.0) as u64 * 1_000_000_000),
                Nanos((after * 1e9) as u64),
            ));
        }
    }
    lines
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn bytes(value: &Value) -> Bytes {
    Bytes(number(value))
}

/// A line about the hill climbing: its steps and its settings.
fn climb(climb: &Value) -> String {
    let setting = |pair: &Value| {
        let (key, value) = (pair[0].as_str()?, pair[1].as_u64()?);
        let is_time = key.ends_with("window") || key.ends_with("delay");
        Some(if is_time { format!("{key}={}", Nanos(value)) } else { format!("{key}={value}") })
    };
    let now: Vec<String> = climb["settings"].as_array().into_iter().flatten().filter_map(setting).collect();
    format!(
        "climbing: {} steps tried, {} given up early, {} kept; of those {} taken back for a cap, {} regretted, {} restored; \
         now {}",
        number(&climb["tried"]),
        number(&climb["given_up"]),
        number(&climb["kept"]),
        number(&climb["taken_back"]),
        number(&climb["regretted"]),
        number(&climb["restored"]),
        now.join(", ")
    )
}

/// A line about the adaptive admission, if there is one.
pub fn adaptive(status: &Value) -> Option<String> {
    let view = AdaptiveView::deserialize(&status["adaptive_admission"]).ok()?;
    Some(format!("admission: {view}"))
}

/// A line about the map, if there is one: hits, dirty and lost extents, and moves.
fn mapped(status: &Value) -> Option<String> {
    let moves = &status["ledger"]["moves"];
    let dirty = status["dirty_extents"].as_u64()?;
    Some(format!(
        "{} % hits on the fast device, {} dirty extents, {} lost; {} promotions, {} demotions, {} write-backs",
        table::percent(status["fast_hit_ratio"].as_f64()),
        dirty,
        number(&status["lost_extents"]),
        number(&moves["promotions"]),
        number(&moves["demotions"]),
        number(&moves["writebacks"]),
    ))
}

/// A line about what went past the fast device, by the reason; none if nothing did.
fn bypassed(ledger: &Value) -> Option<String> {
    let (all, of) = (&ledger["bypasses"], |key: &str| number(&ledger["bypasses"][key]));
    let counts = [
        (number(&ledger["bypassed"]), "not admitted"),
        (of("sequential"), "of sequential streams"),
        (of("congested"), "because the fast device was slower"),
        (of("dirty_target"), "because too much was dirty"),
    ];
    let some: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
    (all.is_object() && !some.is_empty()).then(|| format!("bypassed accesses: {}", some.join(", ")))
}

/// A line about what is kept of what the cache has learnt.
fn warm(status: &Value) -> Option<String> {
    let warm = &status["warm"];
    if !warm.is_object() {
        return None;
    }
    let age = |snapshot: &Value| match snapshot["age_s"].as_u64() {
        Some(age) => format!("{} old", Nanos::from_s(age)),
        None => "of unknown age".to_owned(),
    };
    let began = &warm["began"];
    let start = if began.is_object() {
        let (snapshot, unknown) = (&began["snapshot"], number(&began["unknown_extents"]));
        let policy = if began["has_policy"] == true { "" } else { ", of another replacement policy" };
        let others =
            if unknown > 0 { format!(", {unknown} other extents entered the cache after it") } else { String::new() };
        format!(
            "began warm: {} extents from a snapshot that was {}{policy}{others}",
            number(&began["restored_extents"]),
            age(snapshot)
        )
    } else {
        "began cold".to_owned()
    };
    let last = &warm["last"];
    let is_out = |device: &Value| matches!(device["state"].as_str(), Some("gone" | "evacuated"));
    let next = match () {
        () if status["devices"].as_object().into_iter().flatten().any(|(_, device)| is_out(device)) => {
            "no snapshots while a device is not part of the volume".to_owned()
        }
        () if number(&warm["room_bytes"]) == 0 => {
            "no snapshots, because the volume was made without room for them".to_owned()
        }
        () if warm["interval_s"].is_null() => "no snapshots (placement.warm.interval is never)".to_owned(),
        () if last.is_object() => {
            format!("last snapshot {}, {} of {} extents", age(last), bytes(&last["bytes"]), number(&last["extents"]))
        }
        () => "no snapshot yet".to_owned(),
    };
    let failed = number(&warm["failed"]);
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    Some(format!("{start}; {next}{failures}"))
}

/// A line about the log: logged writes, migrations and reads.
fn logged(log: &Value) -> String {
    let migrations = log["migrations"].as_object().into_iter().flatten().map(|(_, count)| number(count)).sum::<u64>();
    let by = |key: &str| number(&log["direct_by"][key]);
    let by = PastLog { selective: by("selective"), outrun: by("outrun"), no_room: by("no_room"), failed: by("failed") };
    let past = by.sentence().map(|past| format!(". {past}")).unwrap_or_default();
    format!(
        "{} logged, {} written past the log; {migrations} migrations of {}; {} of {} reads needed the log{past}",
        bytes(&log["bytes_appended"]),
        bytes(&log["bytes_direct"]),
        bytes(&log["bytes_migrated"]),
        number(&log["reads_from_log"]),
        number(&log["reads"]),
    )
}

/// A line about the part of the volume that one of several primaries has.
fn part(part: &Value) -> String {
    let lost = part["lost_bytes"].as_u64().unwrap_or(0);
    let state = match (part["gone"] == true, lost) {
        (true, _) => format!("; the volume is without it, and {} cannot be read", bytes(&part["lost_bytes"])),
        (false, 0) => String::new(),
        (false, _) => format!("; {} cannot be read", bytes(&part["lost_bytes"])),
    };
    let text = |key: &str| part[key].as_str().unwrap_or("?");
    format!("{} on {}: {}{state}", text("export"), text("device"), bytes(&part["size"]))
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
    let log = &status["ledger"]["logging"];
    lines.extend(if log.is_object() { Some(logged(log)) } else { mapped(status) });
    lines.extend(bypassed(&status["ledger"]));
    lines.extend(cleaning::lines(status));
    lines.extend(warm(status));
    lines.extend(block_device(&status["ublk"]));
    lines.extend(warnings(status));
    lines.extend(status["parts"].as_array().into_iter().flatten().map(part));
    if let Some(age) = status["log_age_s"].as_f64() {
        let newer = if status["state"] == "degraded" {
            "the oldest write that is lost with the log"
        } else {
            "the oldest write in the log"
        };
        let bound = if cleaning::is_known(age, status) { "at most" } else { "at least" };
        lines.push(format!("{newer} is {bound} {} old", Nanos((age * 1e9) as u64)));
    }
    lines.extend(in_service::line(&status["change"]));
    lines.extend(evacuated(status));
    lines.extend(drives(status));
    lines.extend(endurance::lines(status));
    let displaced = &status["displaced"];
    if displaced["elsewhere"] == true {
        lines.push(format!(
            "taken over with data: '{}' has the only copy of the first {} of the volume",
            text(&displaced["device"]),
            bytes(&displaced["bytes"])
        ));
    }
    let settings: Vec<String> = status["settings"].as_array().into_iter().flatten().map(text).collect();
    if !settings.is_empty() {
        lines.push(format!("set: {}", settings.join(", ")));
    }
    if status["climb"].is_object() {
        lines.push(climb(&status["climb"]));
    }
    lines.extend(adaptive(status));
    let faults = status["faults"].as_array().map_or(0, Vec::len);
    if faults > 0 {
        lines.push(format!("faults that a drill has injected: {faults}"));
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
        let counts = &status["ledger"]["devices"][row];
        let sum =
            |key: &str| -> String { counts[key].as_array().into_iter().flatten().map(number).sum::<u64>().to_string() };
        devices.add_row(vec![
            name.clone(),
            text(&device["state"]),
            sum("reads"),
            sum("writes"),
            number(&counts["flushes"]).to_string(),
            number(&device["errors"]).to_string(),
            number(&device["retries"]).to_string(),
            device["path"].as_str().unwrap_or("-").to_owned(),
        ]);
    }
    format!("{}\n{}{}", lines.join("\n"), traffic.shown(), devices.shown())
}
