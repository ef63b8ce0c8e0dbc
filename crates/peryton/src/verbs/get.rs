//! `peryton get`: prints keys of a volume: what each is, and where that comes from.

use peryton_drive::control::Ask;
use peryton_sim::{DesignText, KeyDefault, design_keys};
use serde::Serialize;

use crate::{completing, failure::Failure, naming::Served, output, table};

/// Options of `peryton get`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The last column names the origin of a value: peryton set (set), the design, or the default. For a volume that is not served, the verb \
prints the values of the design.

Examples:
  peryton get data                        # what is set, and what the design says
  peryton get data placement.writeback    # all keys of this table, with their defaults")]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Keys, or the beginnings of keys [default: those that are set or in the design]
    #[arg(value_name = "KEY", add = completing::prefix())]
    keys: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// A key and its value.
#[derive(Debug, Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    key: String,
    value: String,
    source: &'static str,
}

/// Looks and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = args.volume.design();
    let wrong = |error: String| Failure::bad_input(format!("{}: {error}", path.display()));
    let design: toml::Table =
        DesignText::read(path)?.text().parse().map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
    let mut set = Vec::new();
    if args.volume.is_served() {
        let settings = args.volume.value(&Ask::Status {}, "status")?["settings"].take();
        set.extend(settings.as_array().into_iter().flatten().filter_map(|setting| setting.as_str().map(str::to_owned)));
    }
    let rows = rows(&design, &set, &args.keys);
    if rows.is_empty() && !args.keys.is_empty() {
        return Err(Failure::bad_input(format!(
            "{}: no key begins with that: peryton keys lists all",
            args.keys.join(" ")
        )));
    }
    if args.json {
        return output::print_json(&rows);
    }
    let mut shown = table::text(&["key", "value", "source"]);
    for Row { key, value, source } in rows {
        shown.add_row(vec![key, value, source.to_owned()]);
    }
    output::tell(&shown.shown())
}

fn rows(design: &toml::Table, set: &[String], wanted: &[String]) -> Vec<Row> {
    let mut rows: Vec<Row> = set
        .iter()
        .filter_map(|setting| setting.split_once('='))
        .map(|(key, value)| Row { key: key.trim().to_owned(), value: value.trim().to_owned(), source: "set" })
        .collect();
    let mut add = |key: String, value: String, source: &'static str| {
        if rows.iter().all(|row| row.key != key) {
            rows.push(Row { key, value, source });
        }
    };
    let mut of_design = Vec::new();
    flatten("", design, &mut of_design);
    of_design.into_iter().for_each(|(key, value)| add(key, value, "design"));
    if !wanted.is_empty() {
        let devices = design.get("devices").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        let devices: Vec<&String> = devices.collect();
        for key in design_keys() {
            let default = match key.default {
                KeyDefault::Required => continue,
                KeyDefault::Value(value) => value.trim_matches('\'').to_owned(),
                KeyDefault::Else(text) => text.to_owned(),
            };
            match key.path.contains("NAME") {
                true => devices.iter().for_each(|name| add(key.path.replace("NAME", name), default.clone(), "default")),
                false => add(key.path.to_owned(), default, "default"),
            }
        }
        let is_wanted = |row: &Row| wanted.iter().any(|begun| row.key.starts_with(begun.as_str()));
        rows.retain(is_wanted);
    }
    rows.sort();
    rows
}

/// The keys of a table with their tables before them.
fn flatten(above: &str, table: &toml::Table, into: &mut Vec<(String, String)>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            toml::Value::Table(below) => flatten(&key, below, into),
            toml::Value::String(text) => into.push((key, text.clone())),
            other => into.push((key, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_comes_before_the_design_and_that_before_the_default() {
        let design = "[devices.ssd]\nsize = '1GiB'\n[placement]\nmode = 'caching'\nmax_moves = 8\nwriteback = { delay = '1s' }\n";
        let design: toml::Table = design.parse().expect("it is TOML");
        let found = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|word| (*word).to_owned()).collect();
            rows(&design, &["placement.max_moves=4".to_owned()], &wanted)
        };
        let one = |key: &str| {
            let row = found(&[key]).into_iter().find(|row| row.key == key).expect("it is there");
            (row.value, row.source)
        };
        assert_eq!(one("placement.max_moves"), ("4".to_owned(), "set"));
        assert_eq!(one("placement.writeback.delay"), ("1s".to_owned(), "design"));
        assert_eq!(one("placement.writeback.dirty_target").1, "default");
        assert_eq!(one("devices.ssd.size"), ("1GiB".to_owned(), "design"));
        assert_eq!(found(&[]).len(), 4);
        assert!(found(&["colour"]).is_empty());
    }
}
