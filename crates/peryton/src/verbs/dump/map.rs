//! The map as text: a line for each entry, and a picture of which parts of the volume are used.

use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use peryton_units::{Bytes, Nanos};
use serde_json::Value;

use crate::top::shade;

/// The signs of a row of the picture, and its most rows.
const COLUMNS: u64 = 64;
const MOST_ROWS: u64 = 16;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Entries of the map, as JSON has them, and the names of the devices.
pub struct Map<'a> {
    pub rows: &'a [Value],
    pub names: &'a [String],
    /// Whether entries have different lengths.
    pub is_of_log: bool,
}

impl Map<'_> {
    /// An entry in a line.
    pub fn line(&self, row: &Value) -> String {
        let name = row["device"].as_u64().and_then(|device| self.names.get(device as usize));
        let mut line = number(&row["offset"]).to_string();
        if self.is_of_log {
            line.push_str(&format!(" +{}", number(&row["len"])));
        }
        line.push_str(&match (name, row["at"].as_u64()) {
            (Some(name), Some(at)) => format!(" {name} {at}"),
            _ => " -".to_owned(),
        });
        line.extend(row["blocks"].as_str().map(|blocks| format!(" {blocks}")));
        for flag in ["dirty", "lost"] {
            line.push_str(if row[flag] == true { flag_word(flag) } else { "" });
        }
        line.extend(row["state"].as_str().filter(|state| *state != "idle").map(|state| format!(" {state}")));
        if let Some(accesses) = row["accesses"].as_u64() {
            line.push_str(&format!(", {accesses} accesses"));
        }
        if let Some(last) = row["last_access_unix_s"].as_u64() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            line.push_str(&format!(", last {} ago", Nanos::from_s(now.saturating_sub(last))));
        }
        line
    }

    /// Writes all entries, after a picture of how often which parts were accessed, if that is known.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.picture().into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(
            out,
            "map (offset, {}device and place, flags, accesses)",
            if self.is_of_log { "length, " } else { "" }
        )?;
        self.rows.iter().try_for_each(|row| writeln!(out, "  {}", self.line(row)))
    }

    fn picture(&self) -> Vec<String> {
        let end = self.rows.iter().map(|row| number(&row["offset"]) + number(&row["len"])).max().unwrap_or(0);
        let each = self.rows.iter().map(|row| number(&row["len"])).max().unwrap_or(1).max(1);
        let of = |row: &Value| number(&row["accesses"]);
        if self.rows.iter().all(|row| of(row) == 0) {
            return Vec::new();
        }
        // A sign is for whole extents.
        let part = end.div_ceil(COLUMNS * MOST_ROWS).next_multiple_of(each);
        let mut cells = vec![0.0; end.div_ceil(part) as usize];
        self.rows.iter().for_each(|row| cells[(number(&row["offset"]) / part) as usize] += of(row) as f64);
        let hottest = cells.iter().copied().fold(0.0, f64::max);
        let head = format!("accesses by address, {} a cell, at most {hottest:.0}", Bytes(part));
        let rows = cells.chunks(COLUMNS as usize);
        let rows = rows.map(|row| format!("  {}", row.iter().map(|cell| shade(*cell, hottest)).collect::<String>()));
        std::iter::once(head).chain(rows).collect()
    }
}

fn flag_word(flag: &str) -> &'static str {
    if flag == "dirty" { " dirty" } else { " lost" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_picture_is_hot_where_accesses_are() {
        let row = |extent: u64, accesses: u64| json!({ "offset": extent << 20, "len": 1 << 20, "device": 0, "at": 4096, "accesses": accesses });
        let rows = [row(0, 4000), row(1, 1), json!({ "offset": 3 << 20, "len": 1 << 20 })];
        let map = Map { rows: &rows, names: &["ssd".to_owned()], is_of_log: false };
        let picture = map.picture();
        assert_eq!(picture, ["accesses by address, 1MiB a cell, at most 4000", "  █░··"]);
        assert_eq!(map.line(&rows[1]), "1048576 ssd 4096, 1 accesses");
        assert_eq!(map.line(&rows[2]), "3145728 -");
        let none = Map { rows: &rows[2..], ..map };
        assert!(none.picture().is_empty());
    }
}
