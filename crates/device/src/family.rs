//! A file with several devices: what they share is said once, what differs in `[member."NAME"]`, and what capacity scales is scaled.
//!
//! ```toml
//! capacity = "7.68TB"          # of the device that the shared values describe
//!
//! [flash]
//! dies_per_channel = 8
//!
//! [member."drive-7.68tb"]      # as above
//!
//! [member."drive-1.92tb"]      # has two dies on a channel
//! capacity = "1.92TB"
//! data_sheet = { seq_write_mb_per_s = 4100 }
//! ```

use peryton_units::Bytes;

/// The table with the members of a family.
const MEMBERS: &str = "member";

/// Numbers and sizes in proportion to the capacity, where a member does not say them itself.
const SCALED: [&str; 6] = [
    "endurance.written",
    "flash.dies_per_channel",
    "flash.slc_cache.size",
    "flash.slc_cache.fixed",
    "disk.tracks.capacity",
    "disk.shingled.cache",
];

/// The names of the members; none of a file that describes one device.
pub(crate) fn members(table: &toml::Table) -> Vec<&str> {
    let members = table.get(MEMBERS).and_then(toml::Value::as_table);
    members.into_iter().flat_map(|members| members.keys().map(String::as_str)).collect()
}

/// The profile of one member.
pub(crate) fn member(mut shared: toml::Table, name: &str) -> Result<toml::Table, String> {
    let Some(toml::Value::Table(mut members)) = shared.remove(MEMBERS) else {
        return Err("it describes one device, not a family".to_owned());
    };
    let Some(toml::Value::Table(own)) = members.remove(name) else {
        let known: Vec<&str> = members.keys().map(String::as_str).collect();
        return Err(format!("no member '{name}': use one of {}", known.join(", ")));
    };
    let capacity = |table: &toml::Table| table.get("capacity")?.as_str()?.parse::<Bytes>().ok();
    if let (Some(of), Some(whole)) = (capacity(&own), capacity(&shared)) {
        let part = of.0 as f64 / whole.0.max(1) as f64;
        for path in SCALED {
            if find(&own, path).is_none()
                && let Some(value) = find_mut(&mut shared, path)
            {
                *value = scaled(value, part);
            }
        }
    }
    merge(&mut shared, &own);
    shared.insert("name".to_owned(), name.into());
    Ok(shared)
}

fn find<'a>(table: &'a toml::Table, path: &str) -> Option<&'a toml::Value> {
    match path.split_once('.') {
        Some((key, rest)) => find(table.get(key)?.as_table()?, rest),
        None => table.get(path),
    }
}

fn find_mut<'a>(table: &'a mut toml::Table, path: &str) -> Option<&'a mut toml::Value> {
    match path.split_once('.') {
        Some((key, rest)) => find_mut(table.get_mut(key)?.as_table_mut()?, rest),
        None => table.get_mut(path),
    }
}

/// Counts stay whole and above zero, sizes whole sectors of 4 KiB.
fn scaled(value: &toml::Value, part: f64) -> toml::Value {
    const SECTOR: u64 = 4096;
    match value {
        toml::Value::Integer(count) => toml::Value::Integer(((*count as f64 * part).round() as i64).max(1)),
        toml::Value::String(size) => match size.parse::<Bytes>() {
            Ok(size) => format!("{}B", (size.0 as f64 * part / SECTOR as f64).round().max(1.0) as u64 * SECTOR).into(),
            Err(_) => value.clone(),
        },
        other => other.clone(),
    }
}

/// Puts single values in place of others.
pub(crate) fn merge(table: &mut toml::Table, overrides: &toml::Table) {
    for (key, value) in overrides {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}
