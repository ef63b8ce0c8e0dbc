//! What a screen shows: rates and quantiles between two samples, and the state at the second.

use std::collections::BTreeMap;

use peryton_units::{Bytes, Nanos};
use serde_json::Value;

use super::sample::Sample;
use crate::{cleaning, drive_health, endurance, verbs::status};

/// The kinds of requests that have a row.
pub const KINDS: [&str; 4] = ["read", "write", "flush", "discard"];
/// The share of the heat that is left after another interval.
const HEAT_KEPT: f64 = 0.8;

/// What a screen shows.
#[derive(Debug, Default)]
pub struct View {
    pub title: String,
    /// What needs the attention of a person.
    pub warnings: Vec<String>,
    /// In the order of [`KINDS`].
    pub traffic: Vec<Traffic>,
    pub cache: Vec<String>,
    pub devices: Vec<DeviceRow>,
    /// How much of their life they have left.
    pub life: Option<String>,
    /// What the drives beneath them say of their health.
    pub drives: Vec<DriveLine>,
    pub heat: Vec<Heat>,
    /// The bytes of the volume for each entry of the heat.
    pub heat_part: Bytes,
}

/// Requests of one kind in an interval.
#[derive(Debug, Default, PartialEq)]
pub struct Traffic {
    pub per_s: f64,
    /// Only reads and writes are counted in bytes.
    pub bytes_per_s: Option<f64>,
    /// p50, p99, p99.9 and the longest, in ns; `None` if there were no requests.
    pub quantiles: Option<[u64; 4]>,
}

/// A device.
#[derive(Debug, Default, PartialEq)]
pub struct DeviceRow {
    pub name: String,
    pub state: String,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub read_bytes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub errors: u64,
    pub path: String,
}

/// A drive beneath a device.
#[derive(Debug, Default, PartialEq)]
pub struct DriveLine {
    pub text: String,
    /// Whether it warns of something, fails, or could not be read.
    pub is_bad: bool,
}

/// How much a part of the volume is used: requests a second, of late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat {
    pub reads: f64,
    pub writes: f64,
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn sum(value: &Value) -> u64 {
    value.as_array().into_iter().flatten().map(number).sum()
}

fn text(value: &Value) -> String {
    plain(value.as_str().unwrap_or("?"))
}

/// What the server says may come from elsewhere, and a terminal obeys control characters.
fn plain(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

/// Differences of counts between two samples.
struct Between<'a> {
    /// `None` if there is none, or if another server has begun to count since.
    before: Option<&'a Sample>,
    after: &'a Sample,
    seconds: f64,
}

impl Between<'_> {
    fn more(&self, of: impl Fn(&Value) -> u64, at: impl Fn(&Sample) -> &Value) -> u64 {
        of(at(self.after)).saturating_sub(self.before.map_or(0, |before| of(at(before))))
    }

    fn status(&self, path: &str) -> u64 {
        self.more(|status| status.pointer(path).map_or(0, number), |sample| &sample.status)
    }

    fn rate(&self, path: &str) -> f64 {
        self.status(path) as f64 / self.seconds
    }
}

impl View {
    /// The view of an interval; without `before`, of the time since the volume was opened. `last` is the view before, whose heat
    /// fades.
    pub fn between(before: Option<&Sample>, after: &Sample, last: Option<&View>) -> View {
        let up = after.status["uptime_s"].as_f64().unwrap_or(0.0);
        // Counts begin again when the volume is opened again.
        let same = |before: &&Sample| before.status["generation"] == after.status["generation"];
        let before = before.filter(same);
        let since = before.map_or(up, |before| after.at.duration_since(before.at).as_secs_f64());
        let between = Between { before, after, seconds: since.max(1e-3) };
        let status = &after.status;
        View {
            title: title(status, up),
            warnings: warnings(status),
            traffic: KINDS.iter().map(|kind| traffic(&between, kind)).collect(),
            cache: cache(&between),
            devices: devices(&between),
            life: endurance::short(status).map(|line| plain(&line)),
            drives: drives(status),
            heat: heat(&between, last),
            heat_part: Bytes(number(&after.activity["heat"]["part_bytes"])),
        }
    }
}

fn title(status: &Value, up: f64) -> String {
    format!(
        "{}: {} {}, up {}, {} clients, {} requests in flight",
        text(&status["name"]),
        Bytes(number(&status["size"])),
        text(&status["state"]),
        Nanos(up as u64 * 1_000_000_000),
        number(&status["clients"]),
        number(&status["requests_in_flight"]),
    )
}

fn warnings(status: &Value) -> Vec<String> {
    let mut lines = status::warnings(status);
    // The first line is no warning.
    lines.extend(cleaning::lines(status).into_iter().skip(1));
    lines.iter().map(|line| plain(line)).collect()
}

/// Counts of response times by the upper end of their bucket, in ns.
fn histogram(sample: &Sample, kind: &str) -> BTreeMap<u64, u64> {
    let buckets = sample.activity["latency_ns"][kind].as_array();
    buckets.into_iter().flatten().map(|pair| (number(&pair[0]), number(&pair[1]))).collect()
}

fn traffic(between: &Between<'_>, kind: &str) -> Traffic {
    let mut counts = histogram(between.after, kind);
    if let Some(before) = between.before {
        for (bound, count) in histogram(before, kind) {
            counts.entry(bound).and_modify(|now| *now = now.saturating_sub(count));
        }
    }
    counts.retain(|_, count| *count > 0);
    let all: u64 = counts.values().sum();
    let bytes = match kind {
        "read" => Some("/traffic/bytes_read"),
        "write" => Some("/traffic/bytes_written"),
        _ => None,
    };
    let at = |share: f64| {
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all);
        let mut seen = 0;
        let reached = counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        reached.map_or(0, |(bound, _)| *bound)
    };
    Traffic {
        per_s: all as f64 / between.seconds,
        bytes_per_s: bytes.map(|path| between.rate(path)),
        quantiles: (all > 0).then(|| [at(0.5), at(0.99), at(0.999), at(1.0)]),
    }
}

fn cache(between: &Between<'_>) -> Vec<String> {
    let status = &between.after.status;
    let mut lines = Vec::new();
    let log = &status["ledger"]["logging"];
    if log.is_object() {
        lines.push(format!(
            "log: {}/s appended, {}/s past it, {}/s migrated; {:.0} of {:.0} reads/s needed it",
            cleaning::mebibytes(between.rate("/ledger/logging/bytes_appended") as u64),
            cleaning::mebibytes(between.rate("/ledger/logging/bytes_direct") as u64),
            cleaning::mebibytes(between.rate("/ledger/logging/bytes_migrated") as u64),
            between.rate("/ledger/logging/reads_from_log"),
            between.rate("/ledger/logging/reads"),
        ));
        return lines;
    }
    let (hits, misses) = (between.status("/ledger/fast_hits"), between.status("/ledger/fast_misses"));
    let all = number(&status["ledger"]["fast_hits"]) + number(&status["ledger"]["fast_misses"]);
    if all > 0 {
        let now = match hits + misses {
            0 => "–".to_owned(),
            some => format!("{:.1} %", 100.0 * hits as f64 / some as f64),
        };
        let ever = status["fast_hit_ratio"].as_f64().unwrap_or(0.0) * 100.0;
        let past = ["bypassed", "bypasses/sequential", "bypasses/congested", "bypasses/dirty_target"];
        let past: f64 = past.iter().map(|key| between.rate(&format!("/ledger/{key}"))).sum();
        lines.push(format!("hits: {now} ({ever:.1} % since the start); {past:.0} accesses/s bypass the fast device"));
    }
    lines.extend(status::adaptive(status));
    if status["cleaning"].is_object() {
        let first = cleaning::lines(status).into_iter().next();
        lines.push(first.unwrap_or_else(|| "dirty: nothing".to_owned()));
    }
    let moved = ["promotions", "demotions", "writebacks"].map(|key| between.rate(&format!("/ledger/moves/{key}")));
    if all > 0 || moved.iter().any(|rate| *rate > 0.0) {
        lines.push(format!(
            "moves: {:.0} promotions/s, {:.0} demotions/s, {:.0} write-backs/s, {}/s",
            moved[0],
            moved[1],
            moved[2],
            cleaning::mebibytes(between.rate("/ledger/moves/bytes") as u64)
        ));
    }
    lines
}

fn devices(between: &Between<'_>) -> Vec<DeviceRow> {
    let rows = between.after.status["devices"].as_object().into_iter().flatten().enumerate();
    let row = |(index, (name, device)): (usize, (&String, &Value))| {
        let rate = |key: &str| {
            let of = |sample: &Value| sum(&sample["ledger"]["devices"][index][key]);
            between.more(of, |sample| &sample.status) as f64 / between.seconds
        };
        DeviceRow {
            name: name.clone(),
            state: text(&device["state"]),
            reads_per_s: rate("reads"),
            writes_per_s: rate("writes"),
            read_bytes_per_s: rate("bytes_read"),
            written_bytes_per_s: rate("bytes_written"),
            errors: number(&device["errors"]),
            path: device["path"].as_str().map_or_else(|| "-".to_owned(), |_| text(&device["path"])),
        }
    };
    rows.map(row).collect()
}

fn drives(status: &Value) -> Vec<DriveLine> {
    let devices = status["devices"].as_object().into_iter().flatten();
    let of = |(device, about): (&String, &Value)| -> Vec<DriveLine> {
        let drives = about["health"]["drives"].as_array().into_iter().flatten();
        drives.map(|drive| drive_line(device, drive)).collect()
    };
    devices.flat_map(of).collect()
}

fn drive_line(device: &str, drive: &Value) -> DriveLine {
    let (name, health) = (text(&drive["drive"]), &drive["health"]);
    let says = match (drive["error"].as_str(), health.is_object()) {
        (Some(error), _) => plain(error),
        (None, true) => plain(&drive_health::line(health)),
        (None, false) => "not read yet".to_owned(),
    };
    let warns = health["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty());
    let is_bad = drive["error"].is_string() || warns || health["passed"] == false;
    DriveLine { text: format!("{device}, drive {name}: {says}"), is_bad }
}

fn heat(between: &Between<'_>, last: Option<&View>) -> Vec<Heat> {
    let parts = between.after.activity["heat"]["reads"].as_array().map_or(0, Vec::len);
    let rate = |key: &str, index: usize| {
        let of = |activity: &Value| number(&activity["heat"][key][index]);
        between.more(of, |sample| &sample.activity) as f64 / between.seconds
    };
    let fades = |index: usize| last.and_then(|last| last.heat.get(index)).copied();
    let blend = |now: f64, before: Option<f64>| before.map_or(now, |old| HEAT_KEPT * old + (1.0 - HEAT_KEPT) * now);
    (0..parts)
        .map(|index| Heat {
            reads: blend(rate("reads", index), fades(index).map(|heat| heat.reads)),
            writes: blend(rate("writes", index), fades(index).map(|heat| heat.writes)),
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    /// A server that has answered `reads` reads, half of them in 1 us and half in 9 us, all at the start of the volume.
    pub fn sample(at: Instant, reads: u64) -> Sample {
        let status = json!({
            "name": "v\u{1b}[2J", "size": 1 << 30, "state": "healthy", "uptime_s": 100.0, "generation": 3,
            "clients": 1, "requests_in_flight": 2, "fast_hit_ratio": 0.25,
            "traffic": { "bytes_read": reads * 4096, "bytes_written": 0 },
            "ledger": { "fast_hits": reads / 4, "fast_misses": reads - reads / 4, "bypassed": 0,
                "moves": { "promotions": reads, "demotions": 0, "writebacks": 0, "bytes": reads << 20 },
                "devices": [{ "reads": [reads, 0, 0, 0, reads], "writes": [0, 0, 0, 0, 0],
                    "bytes_read": [reads * 8192, 0, 0, 0, 0], "bytes_written": [0, 0, 0, 0, 0] }] },
            "devices": { "ssd": { "state": "ok", "errors": 0, "path": "/dev/x", "outage": null,
                "endurance": { "left_eu": 999_998.75, "since_mark": { "used_eu": 1.25 } }, "health": { "not_read": [], "drives": [
                { "drive": "nvme0n1", "error": null, "health": { "passed": true, "warnings": [], "percentage_used": 81, "estimates": {} } },
                { "drive": "sdb\u{1b}", "error": "it did not answer", "health": null }] } } },
            "cleaning": null, "lost": { "bytes": 0 }, "stopped": false, "in_doubt": false,
        });
        let activity = json!({
            "heat": { "part_bytes": 4 << 20, "reads": [reads, 0, 0, 0], "writes": [0, 0, 0, 0] },
            "latency_ns": { "read": [[1000, reads / 2], [9000, reads / 2]], "write": [], "flush": [], "discard": [] },
        });
        Sample { at, status, activity }
    }

    #[test]
    fn rates_and_quantiles_are_those_of_the_interval() {
        let now = Instant::now();
        let (before, after) = (sample(now, 1000), sample(now + Duration::from_secs(2), 3000));
        let view = View::between(Some(&before), &after, None);
        let reads = &view.traffic[0];
        assert_eq!((reads.per_s, reads.bytes_per_s), (1000.0, Some(4_096_000.0)));
        assert_eq!(reads.quantiles, Some([1000, 9000, 9000, 9000]));
        assert_eq!(view.traffic[1], Traffic { bytes_per_s: Some(0.0), ..Traffic::default() });
        assert_eq!((view.devices[0].reads_per_s, view.devices[0].read_bytes_per_s), (2000.0, 8_192_000.0));
        assert_eq!((view.heat[0].reads, view.heat[1].reads, view.heat_part), (1000.0, 0.0, Bytes::mib(4)));
        assert!(view.cache[0].starts_with("hits: 25.0 %"), "{:?}", view.cache);
        assert!(!view.title.contains('\u{1b}'), "{}", view.title);
        assert_eq!(view.life.as_deref(), Some("life left, in eu: ssd 999998.8 (1.25 since the mark)"));
        let drives: Vec<(&str, bool)> = view.drives.iter().map(|drive| (drive.text.as_str(), drive.is_bad)).collect();
        assert_eq!(drives[0], ("ssd, drive nvme0n1: well, by its own judgement: life used up 81 %", false));
        assert_eq!(drives[1], ("ssd, drive sdb: it did not answer", true));
        // The same again without traffic: the heat fades.
        let later = View::between(Some(&after), &sample(now + Duration::from_secs(3), 3000), Some(&view));
        assert_eq!((later.traffic[0].quantiles, later.heat[0].reads), (None, 800.0));
    }

    #[test]
    fn another_server_counts_from_its_own_start() {
        let now = Instant::now();
        let (before, mut after) = (sample(now, 3000), sample(now + Duration::from_secs(1), 1000));
        after.status["generation"] = 4.into();
        let view = View::between(Some(&before), &after, None);
        assert_eq!((view.traffic[0].per_s, view.traffic[0].quantiles), (10.0, Some([1000, 9000, 9000, 9000])));
    }

    #[test]
    fn what_a_person_has_to_know_is_said() {
        let mut sample = sample(Instant::now(), 10);
        sample.status["devices"]["ssd"]["outage"] =
            json!({ "since_s": 3.0, "patience_left_s": 27.0, "commands_waiting": 5, "error": "EIO" });
        sample.status["devices"]["ssd"]["state"] = "outage".into();
        sample.status["devices"]["hdd"] = json!({ "state": "gone" });
        sample.status["state"] = "degraded".into();
        sample.status["in_doubt"] = true.into();
        sample.status["cleaning"] = json!({ "oldest_s": 700.0, "state": "overdue", "dirty_bytes": 1, "overdue_s": 100.0,
            "throttles_writes": true });
        let view = View::between(None, &sample, None);
        let starts: Vec<&str> = view.warnings.iter().map(|line| line.split(':').next().unwrap_or_default()).collect();
        assert_eq!(starts, ["OUTAGE", "IN DOUBT", "DEGRADED", "OVERDUE", "THROTTLED"]);
    }
}
