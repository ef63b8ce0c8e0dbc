//! What a volume says about the dirty data of its cache, in words.

use peryton_units::{Bytes, Nanos};
use serde_json::Value;

fn bytes(value: &Value) -> Bytes {
    Bytes(value.as_u64().unwrap_or(0))
}

/// A time that is reported in seconds, without more digits than are of use.
pub fn time(seconds: f64) -> Nanos {
    let digits = if seconds < 10.0 { 100_000_000.0 } else { 1_000_000_000.0 };
    Nanos(((seconds * 1e9 / digits).ceil() * digits) as u64)
}

/// Whether an age in seconds is that of the data: ages begin anew with the server, so data that it found are older.
pub fn is_known(age: f64, status: &Value) -> bool {
    status["uptime_s"].as_f64().is_none_or(|uptime| age + 1.0 < uptime)
}

/// The name of a device that fails, and that cleaning may wait for.
pub fn waits_for(status: &Value) -> Option<&str> {
    let devices = status["devices"].as_object()?;
    devices.iter().find(|(_, device)| device["outage"].is_object()).map(|(name, _)| name.as_str())
}

/// The lines of the status: how much is dirty, and what is wrong with that. None if nothing is dirty.
pub fn lines(status: &Value) -> Vec<String> {
    let cleaning = &status["cleaning"];
    let Some(oldest) = cleaning["oldest_s"].as_f64() else { return Vec::new() };
    let fails = waits_for(status);
    let why = match cleaning["state"].as_str() {
        _ if let Some(name) = fails => &format!("cleaning waits for {name}"),
        _ if cleaning["is_under_way"] != true => "not cleaning now",
        Some("idle") => "cleaning, because the slow device is idle",
        Some("aging") => "cleaning, because of its age",
        Some("filling") => "cleaning, because much is dirty",
        Some("overdue") => "cleaning as fast as possible, because of its age",
        Some("full") => "cleaning as fast as possible, because too much is dirty",
        Some("asked") => "cleaning as fast as possible, as asked",
        _ => "not cleaning now",
    };
    let most = match cleaning["most_dirty_bytes"].as_u64() {
        Some(most) => format!(" of at most {}", Bytes(most)),
        None => String::new(),
    };
    let rate = cleaning["bytes_per_s"].as_u64().map(|rate| format!(", {}/s", mebibytes(rate))).unwrap_or_default();
    let until = match cleaning["clean_in_s"].as_f64() {
        Some(seconds) if fails.is_none() => format!("; clean in {} if nothing is written", time(seconds)),
        _ => String::new(),
    };
    let least = if is_known(oldest, status) { "" } else { "at least " };
    let mut lines = vec![format!(
        "dirty: {}{most}, the oldest for {least}{}; {why}{rate}{until}",
        bytes(&cleaning["dirty_bytes"]),
        time(oldest)
    )];
    if let Some(overdue) = cleaning["overdue_s"].as_f64() {
        lines.push(format!(
            "OVERDUE: data have been dirty for {} longer than placement.writeback.max_age: the slow device does not keep up, or fails",
            time(overdue)
        ));
    }
    if cleaning["throttles_writes"] == true {
        lines.push(
            "THROTTLED: dirty data are at their limit (placement.writeback.dirty_target), so writes wait for the slow device"
                .to_owned(),
        );
    }
    lines
}

/// A rate as people read it.
pub fn mebibytes(per_s: u64) -> String {
    format!("{:.1}MiB", per_s as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fear: it says that it cleans, and until when, while nothing is written back.
    #[test]
    fn the_line_says_what_is_done_and_not_what_is_wanted() {
        let status = |is_under_way: bool, outage: Value| {
            let cleaning = json!({
                "state": "full", "is_under_way": is_under_way, "dirty_bytes": 4096, "oldest_s": 3.0, "clean_in_s": 7.0,
            });
            lines(&json!({ "cleaning": cleaning, "devices": { "hdd": { "outage": outage } } })).remove(0)
        };
        assert!(status(true, Value::Null).ends_with("because too much is dirty; clean in 7s if nothing is written"));
        assert!(status(false, Value::Null).contains("not cleaning now; clean in 7s"));
        let fails = status(true, json!({ "error": "EIO" }));
        assert!(fails.ends_with("cleaning waits for hdd"), "{fails}");
    }
}
