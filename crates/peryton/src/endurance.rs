//! How much of its life each device of a served volume has left, in words.

use std::time::{SystemTime, UNIX_EPOCH};

use peryton_drive::SECONDS_NOT_COUNTED;
use peryton_units::Nanos;
use serde_json::Value;

use crate::table;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The devices of which something was counted.
fn devices(status: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let devices = status["devices"].as_object().into_iter().flatten();
    devices.map(|(name, device)| (name, &device["endurance"])).filter(|(_, endurance)| endurance.is_object())
}

fn ago(unix_s: &Value) -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Nanos::from_s(now.saturating_sub(number(unix_s)))
}

/// A line for each device.
pub fn lines(status: &Value) -> Vec<String> {
    devices(status).map(|(name, endurance)| line(name, endurance)).collect()
}

fn line(name: &str, endurance: &Value) -> String {
    let mark = &endurance["since_mark"];
    let pages = |wear: &Value| {
        format!("{} pages written and {} read", number(&wear["pages_written"]), number(&wear["pages_read"]))
    };
    let by = match (&endurance["limit_start_stops"], endurance["read_effect"].as_u64()) {
        (limit, _) if limit.is_u64() => format!("{} of its {limit} starts and stops", number(&mark["start_stops"])),
        (_, Some(effect)) => format!("{} ({effect} reads count as a write)", pages(mark)),
        (_, None) => pages(mark),
    };
    let mut text = match (endurance["left_eu"].as_f64(), mark["used_eu"].as_f64()) {
        (Some(left), Some(used)) => format!(
            "{name} has {left:.3} eu of its life left; in the last {} it used {}: {by}",
            ago(&mark["since_unix_s"]),
            table::number(used),
        ),
        _ => format!(
            "{name}: {} in the last {}; its remaining life is not known without a profile, endurance.{name}.written or \
             endurance.{name}.start_stops",
            pages(mark),
            ago(&mark["since_unix_s"]),
        ),
    };
    let unclosed = number(&endurance["unclosed"]);
    if unclosed > 0 {
        let kills = if unclosed == 1 { "a kill".to_owned() } else { format!("{unclosed} kills each") };
        text.push_str(&format!("; the last {SECONDS_NOT_COUNTED} s before {kills} may not be counted"));
    }
    text
}

/// One line about all devices of which it is known.
pub fn short(status: &Value) -> Option<String> {
    let one = |(name, endurance): (&String, &Value)| {
        let (left, used) = (endurance["left_eu"].as_f64()?, endurance["since_mark"]["used_eu"].as_f64()?);
        Some(format!("{name} {left:.1} ({} since the mark)", table::number(used)))
    };
    let all: Vec<String> = devices(status).filter_map(one).collect();
    (!all.is_empty()).then(|| format!("life left, in eu: {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_known_is_said_and_what_is_not() {
        let wear = |used: Option<f64>| json!({ "since_unix_s": 0, "used_eu": used, "pages_written": 5, "pages_read": 70, "start_stops": 3 });
        let status = |endurance: Value| json!({ "devices": { "d": { "endurance": endurance } } });
        let flash = status(
            json!({ "left_eu": 999_990.0, "limit_bytes_written": 1, "read_effect": 10, "since_mark": wear(Some(1.5)),
            "unclosed": 2 }),
        );
        let text = lines(&flash).remove(0);
        assert!(text.starts_with("d has 999990.000 eu of its life left; in the last "), "{text}");
        assert!(text.contains("it used 1.50: 5 pages written and 70 read (10 reads count as a write)"), "{text}");
        assert!(text.ends_with("; the last 5 s before 2 kills each may not be counted"), "{text}");
        let disk = status(
            json!({ "left_eu": 999_990.0, "limit_start_stops": 300_000, "since_mark": wear(Some(10.0)), "unclosed": 0 }),
        );
        assert!(lines(&disk)[0].ends_with("it used 10.0: 3 of its 300000 starts and stops"), "{:?}", lines(&disk));
        let unknown = status(json!({ "since_mark": wear(None), "unclosed": 0 }));
        assert!(
            lines(&unknown)[0].contains("is not known without a profile, endurance.d.written"),
            "{:?}",
            lines(&unknown)
        );
        assert_eq!(short(&disk).unwrap(), "life left, in eu: d 999990.0 (10.0 since the mark)");
        assert_eq!((short(&unknown), lines(&json!({ "devices": { "d": { "endurance": null } } })).len()), (None, 0));
    }
}
