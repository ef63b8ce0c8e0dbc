//! What drives say of their health, in words: for `health` and `status`. Each figure is the drive's own unless it is called estimated.

use serde_json::Value;

use crate::table;

/// A number of bytes as people read it, in powers of 1,000 as drives are sold.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1e3, unit + 1);
    }
    format!("{} {}", table::number(value), UNITS[unit])
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// Whether the drive is well, and what it warns of.
pub fn judgement(health: &Value) -> String {
    let warnings: Vec<&str> = health["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let own = match health["passed"].as_bool() {
        Some(true) if warnings.is_empty() => "well, by its own judgement",
        Some(true) => "not failing, by its own judgement",
        Some(false) => "FAILING, by its own judgement",
        None => "it does not judge itself",
    };
    match warnings.is_empty() {
        true => own.to_owned(),
        false => format!("{own}; WARNS of {}", warnings.join(", ").replace('_', " ")),
    }
}

/// The figures of a drive: what each is, and its value.
pub fn figures(health: &Value) -> Vec<(&'static str, String)> {
    let number = |key: &str| health[key].as_u64();
    let mut rows: Vec<(&'static str, Option<String>)> = Vec::new();
    rows.push(("power state", text(health, "power").map(str::to_owned)));
    rows.push(("temperature", health["temperature_c"].as_i64().map(|celsius| format!("{celsius} °C"))));
    rows.push(("life used up", number("percentage_used").map(|used| format!("{used} %"))));
    let threshold = number("spare_threshold_percent").map(|least| format!(" (warns below {least} %)"));
    let spare = |spare: u64| format!("{spare} %{}", threshold.unwrap_or_default());
    rows.push(("spare left", number("spare_percent").map(spare)));
    rows.push(("media errors", number("media_errors").map(|count| count.to_string())));
    rows.push(("reallocated sectors", number("reallocated_sectors").map(|count| count.to_string())));
    rows.push(("pending sectors", number("pending_sectors").map(|count| count.to_string())));
    rows.push(("read by hosts", number("bytes_read").map(bytes)));
    rows.push(("written by hosts", number("bytes_written").map(bytes)));
    rows.push(("written to flash", number("nand_bytes_written").map(bytes)));
    let amplification = health["estimates"]["write_amplification"].as_f64();
    let measured = |value: f64| format!("{} over its life (measured: the quotient of the two)", table::number(value));
    rows.push(("write amplification", amplification.map(measured)));
    let cycles = number("power_cycles").map(|count| format!(", switched on {count} times")).unwrap_or_default();
    rows.push(("had power for", number("power_on_hours").map(|hours| format!("{hours} h{cycles}"))));
    rows.push(("starts of the motor", number("start_stops").map(|count| count.to_string())));
    rows.push(("power losses", number("unsafe_shutdowns").map(|count| count.to_string())));
    let left = health["estimates"]["years_left"].as_f64();
    let estimated = |years: f64| format!("{} years (estimated: at the rate of its life so far)", table::number(years));
    rows.push(("life left", left.map(estimated)));
    let watts = health["power_state_w"].as_f64();
    rows.push((
        "draws at most",
        watts.map(|watts| format!("{} W (as its power state is described)", table::number(watts))),
    ));
    rows.into_iter().filter_map(|(what, value)| Some((what, value?))).collect()
}

/// A drive's name and model.
pub fn name(health: &Value) -> String {
    let drive = text(health, "drive").unwrap_or("?");
    let serial = text(health, "serial").map(|serial| format!(", serial number {serial}")).unwrap_or_default();
    text(health, "model").map_or_else(|| drive.to_owned(), |model| format!("{drive}: {model}{serial}"))
}

/// A drive in one line.
pub fn line(health: &Value) -> String {
    const SHOWN: [&str; 8] = [
        "power state",
        "temperature",
        "life used up",
        "media errors",
        "written by hosts",
        "write amplification",
        "life left",
        "draws at most",
    ];
    let all = figures(health).into_iter().filter(|(what, _)| SHOWN.contains(what));
    let brief = |(what, value): (&str, String)| match what {
        "power state" => value,
        // The marks say what is measured and what is not.
        _ => format!(
            "{what} {}",
            value
                .replace(" over its life (measured: the quotient of the two)", " (measured)")
                .replace(" (estimated: at the rate of its life so far)", " (estimated)")
                .replace(" (as its power state is described)", " (described)")
        ),
    };
    let rest: Vec<String> = all.map(brief).collect();
    format!("{}: {}", judgement(health), rest.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_have_units_and_say_what_is_estimated() {
        let health = json!({
            "drive": "nvme0n1", "model": "A drive", "serial": "1", "passed": true, "warnings": ["power_loss_protection"],
            "percentage_used": 3, "temperature_c": -2, "bytes_written": 28_400_000_000_000_u64,
            "estimates": { "write_amplification": 1.83, "years_left": 12.2 },
        });
        assert_eq!(name(&health), "nvme0n1: A drive, serial number 1");
        assert_eq!(judgement(&health), "not failing, by its own judgement; WARNS of power loss protection");
        let rows = figures(&health);
        assert!(rows.contains(&("written by hosts", "28.4 TB".to_owned())), "{rows:?}");
        assert!(rows.iter().any(|(what, value)| *what == "life left" && value.contains("12.2 years (estimated")));
        assert!(!rows.iter().any(|(what, _)| *what == "media errors"), "what is not known is absent");
        let line = line(&health);
        assert!(line.contains("-2 °C") && line.contains("1.83 (measured)") && line.contains("(estimated)"), "{line}");
        assert_eq!((bytes(0), bytes(999), bytes(1000)), ("0 B".into(), "999 B".into(), "1.00 kB".into()));
    }
}
