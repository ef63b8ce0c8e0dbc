//! `peryton keys`: the reference of design keys, on the terminal and in `docs/`.

use std::fs;

use crate::common::{peryton, repository};
use serde_json::Value;

#[test]
fn the_reference_that_is_shipped_is_that_of_the_code() {
    let folder = tempfile::tempdir().unwrap();
    let printed = peryton(folder.path(), &["keys", "--markdown"]).ok().out;
    let shipped = fs::read_to_string(repository().join("docs/design-keys.md")).unwrap_or_default();
    assert!(
        printed == shipped,
        "docs/design-keys.md is not of this source: peryton keys --markdown > docs/design-keys.md"
    );
}

#[test]
fn a_part_of_the_keys_is_shown_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let keys = |args: &[&str]| peryton(folder.path(), &[&["keys"], args].concat());
    let all = keys(&[]).ok().out;
    assert!(all.lines().count() > 80 && all.contains("* placement.max_moves"), "{all}");
    let some = keys(&["placement.writeback"]).ok().out;
    assert!(some.contains("placement.writeback.dirty_target") && some.contains("default 0.4"), "{some}");
    assert!(some.contains("may change while") && !some.contains("max_moves"), "{some}");
    let device = keys(&["devices.ssd.pr"]).ok().out;
    assert!(
        device.contains("devices.NAME.profile") && device.contains("price_usd") && !device.contains("stripe"),
        "{device}"
    );
    let model = keys(&["devices.NAME.model.queue"]).ok().out;
    assert!(model.contains("queue.depth (disk)") && model.contains("default 2s"), "{model}");
    keys(&["placment"]).fails(2, &["'placment'", "did you mean 'placement'?"]);
    let json: Vec<Value> = serde_json::from_str(&keys(&["placement", "--json"]).ok().out).unwrap();
    let write = json.iter().find(|key| key["key"] == "placement.write").unwrap();
    assert_eq!(write["words"], serde_json::json!(["back", "through", "around"]));
    assert_eq!((&write["placements"], &write["live"]), (&serde_json::json!(["caching"]), &Value::Bool(true)));
}

/// The fear: a design file of the repository has a key that the reference lacks, because something else reads it.
#[test]
fn every_key_of_the_examples_is_in_the_reference() {
    fn paths(table: &toml::Table, before: &str, into: &mut Vec<String>) {
        for (key, value) in table {
            let path = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
            match value {
                toml::Value::Table(table) if !path.ends_with(".model") => paths(table, &path, into),
                _ => into.push(path),
            }
        }
    }
    let mut checked = 0;
    for entry in fs::read_dir(repository().join("examples/papers")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let table: toml::Table = toml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let mut found = Vec::new();
        paths(&table, "", &mut found);
        for path in found {
            let known = peryton_sim::design_keys().any(|key| key.is_at(&path));
            assert!(known, "{}: {path}", file.display());
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked}");
}
