//! `peryton keys`: lists the keys of design files.

use std::fmt::Write;

use peryton_sim::{DesignKey, KeyDefault, ModelKey, design_keys, model_keys};
use serde_json::{Value, json};

use crate::{completing, failure::Failure, output};

/// Options of `peryton keys`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  peryton keys                        # all keys, a line each
  peryton keys placement.writeback    # those of a table, in full
  peryton keys devices.NAME.model     # the parameters of device models")]
pub struct Args {
    /// Show the keys that begin with this in full
    ///
    /// Show the keys that begin with this in full; devices may have their names or NAME.
    #[arg(value_name = "PREFIX", add = completing::prefix())]
    prefix: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print all keys as a document (docs/design-keys.md)
    #[arg(long, conflicts_with = "prefix")]
    markdown: bool,
}

/// The table of a design whose keys are those of a device model.
const MODEL: &str = "devices.NAME.model";

/// Prints the keys.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.markdown {
        return output::print(&document());
    }
    let prefix = args.prefix.as_deref().unwrap_or_default();
    let keys: Vec<&DesignKey> = design_keys().filter(|key| begins(key.path, prefix)).collect();
    let models: Vec<ModelKey> =
        model_keys().into_iter().filter(|key| begins(&format!("{MODEL}.{}", key.path), prefix)).collect();
    if keys.is_empty() && models.is_empty() {
        let known = design_keys().flat_map(|key| [key.path, key.path.split('.').next().unwrap_or_default()]);
        let hint = match peryton_device::nearest(prefix, known) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => "peryton keys lists all".to_owned(),
        };
        return Err(Failure::bad_input(format!("'{prefix}': no key begins with that: {hint}")));
    }
    if args.json {
        let all = keys.iter().map(|key| as_json(key)).chain(models.iter().map(model_as_json));
        return output::print_json(&all.collect::<Vec<_>>());
    }
    if args.prefix.is_none() {
        return output::tell(&lines(&keys));
    }
    let mut text = String::new();
    for key in keys {
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "{}\n    {}\n    {}; default {}; placements: {}{}\n",
            key.path,
            key.about(),
            key.kind(),
            key.default,
            key.placement_names(),
            if key.live { "; may change while the volume is served" } else { "" }
        );
    }
    for key in models {
        let default = key.default.map_or_else(String::new, |default| format!("; default {default}"));
        let _ = writeln!(text, "{MODEL}.{} ({})\n    {}\n    {}{default}", key.path, key.model, key.about, key.kind);
    }
    output::tell(&text)
}

/// Whether a key is in the table of this name, or begins with it.
fn begins(path: &str, prefix: &str) -> bool {
    let mut mine = path.split('.');
    let parts: Vec<&str> = prefix.split('.').collect();
    parts.iter().enumerate().all(|(index, part)| {
        mine.next().is_some_and(|mine| {
            let last = index + 1 == parts.len();
            // Only device tables are named; names at the end of a prefix may be incomplete.
            mine == *part
                || (last && mine.starts_with(part))
                || (mine == "NAME" && !part.is_empty() && *part != "read_effect")
        })
    })
}

fn lines(keys: &[&DesignKey]) -> String {
    let width = keys.iter().map(|key| key.path.len()).max().unwrap_or(0);
    let mut text = String::new();
    for key in keys {
        let live = if key.live { '*' } else { ' ' };
        let _ = writeln!(text, "{live} {:width$}  {}; default {}", key.path, key.kind(), key.default);
    }
    text + "* may change while the volume is served (peryton set). In full: peryton keys PREFIX\n"
}

fn as_json(key: &DesignKey) -> Value {
    let default = match key.default {
        KeyDefault::Required => json!({ "required": true }),
        KeyDefault::Value(value) => json!({ "default": value }),
        KeyDefault::Else(text) => json!({ "default_text": text }),
    };
    let mut entry = json!({ "key": key.path, "about": key.about(), "type": key.type_name, "live": key.live });
    let placements: Vec<&str> = key.placements.iter().map(|kind| kind.name()).collect();
    let words = (key.words)();
    if let Value::Object(entry) = &mut entry {
        if !words.is_empty() {
            entry.insert("words".to_owned(), words.into());
        }
        if !key.unit.is_empty() {
            entry.insert("unit".to_owned(), key.unit.into());
        }
        entry.insert("placements".to_owned(), placements.into());
        if let Value::Object(default) = default {
            entry.extend(default);
        }
    }
    entry
}

fn model_as_json(key: &ModelKey) -> Value {
    let mut entry = json!({
        "key": format!("{MODEL}.{}", key.path), "model": key.model, "about": key.about, "type": key.kind, "live": false,
    });
    if let (Value::Object(entry), Some(default)) = (&mut entry, &key.default) {
        entry.insert("default".to_owned(), default.as_str().into());
    }
    entry
}

/// The reference as a document.
fn document() -> String {
    let mut text = "\
# Design keys

This page lists every key of a design file. `peryton keys --markdown` makes it from the code that reads the keys. Tests compare its
defaults, words and placements with that code. A key that is *live* may change while the volume is served (`peryton set`).
`peryton keys PREFIX` prints a part of the page, and `--json` prints it as JSON.

Times are texts with a unit (`\"400us\"`, `\"5s\"`, `\"1min\"`, `\"2y\"`), sizes are texts with a unit (`\"4KiB\"`, `\"8GiB\"`) or whole numbers of bytes,
shares are numbers from 0 to 1. An unknown key is an error, and the message names the nearest key. `NAME` is the name of a device. The
option `--set` sets any key on the command line: `--set placement.promotion.threshold=1`.
"
    .to_owned();
    let mut table = None;
    for key in design_keys() {
        let mine = match key.path.split_once('.') {
            None => "",
            Some((table, rest)) if rest.starts_with("NAME.") => &key.path[..table.len() + 5],
            Some((table, _)) => table,
        };
        if table != Some(mine) {
            table = Some(mine);
            let title = if mine.is_empty() { "Outside of tables".to_owned() } else { format!("`[{mine}]`") };
            let _ = write!(
                text,
                "\n## {title}\n\n| key | type | default | live | placements | meaning |\n|---|---|---|---|---|---|\n"
            );
        }
        let name = if mine.is_empty() { key.path } else { &key.path[mine.len() + 1..] };
        let default = match key.default {
            KeyDefault::Value(value) => format!("`{}`", value.replace('\'', "\"")),
            other => other.to_string(),
        };
        let words = (key.words)();
        let kind = match words.is_empty() {
            true => key.kind(),
            false => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        };
        let live = if key.live { "yes" } else { "" };
        let row = [&format!("`{name}`"), &kind, &default, live, &key.placement_names(), key.about()];
        let _ = writeln!(text, "| {} |", row.map(cell).join(" | "));
    }
    text += "\n## Why these defaults\n\n\
        Commands that write a design leave out defaults. The table has the source of each default that was measured or taken from a paper.\n\
        [Settings that tune themselves](findings/tuning.md#defaults-beside-alternatives) has defaults beside their alternatives, on eight traces.\n\n| key | default | chosen by |\n|---|---|---|\n";
    for key in design_keys().filter(|key| !key.chosen_by.is_empty()) {
        let row = [&format!("`{}`", key.path), &key.default.to_string(), key.chosen_by];
        let _ = writeln!(text, "| {} |", row.map(cell).join(" | "));
    }
    text += "\n# Parameters of device models\n\n\
        The keys of `[devices.NAME.model]` replace values of the device's profile. A profile has these keys in the table of its model,\n\
        such as `[disk]`. `[]` is a list of tables. A default holds if neither profile nor design gives the key.\n";
    let mut model = "";
    for key in model_keys() {
        if key.model != model {
            model = key.model;
            let _ = write!(text, "\n## `[{model}]`\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
        }
        let default = key.default.as_deref().map_or_else(String::new, |default| format!("`{default}`"));
        let row = [&format!("`{}`", key.path), &key.kind, &default, &key.about];
        let _ = writeln!(text, "| {} |", row.map(|one| cell(one)).join(" | "));
    }
    text
}

/// Text of a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
