//! `peryton format`, `check`, `dump`: whatever can be simulated can be made.

mod common;

use common::{peryton, repository};
use serde_json::Value;

#[test]
fn every_shipped_design_becomes_a_volume() {
    let designs = repository().join("examples/designs");
    let mut made = 0;
    for entry in std::fs::read_dir(designs).expect("the shipped designs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let text = std::fs::read_to_string(&path).expect("a design");
        let design: toml::Table = text.parse().expect("a design is TOML");
        let names: Vec<&String> = design["devices"].as_table().expect("a table").keys().collect();
        let set: Vec<String> = names
            .iter()
            .flat_map(|name| {
                let file = folder.path().join(format!("{name}.img"));
                ["--set".to_owned(), format!("devices.{name}.path={}", file.display())]
            })
            .collect();
        let path = path.to_str().expect("a name");
        let run = |verb: &str, more: &[&str]| {
            let set: Vec<&str> = set.iter().map(String::as_str).collect();
            peryton(folder.path(), &[&[verb, path], &set[..], more].concat())
        };
        let made_json: Value = serde_json::from_str(&run("format", &["--json"]).ok().out).expect("JSON");
        assert_eq!(made_json["devices"].as_array().map(Vec::len), Some(names.len()), "{path}");
        run("check", &[]).ok();
        assert!(run("dump", &[]).ok().out.contains(made_json["volume"].as_str().expect("a name")), "{path}");
        run("format", &[]).fails(2, &["a Peryton volume", "--force"]);
        made += 1;
    }
    assert!(made >= 6, "{made} designs ship");
}

#[test]
fn a_design_without_paths_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let design = repository().join("examples/designs/mixed-array.toml");
    let design = design.to_str().expect("a name");
    peryton(folder.path(), &["format", design]).fails(2, &["devices.cache.path", "such as path = \"cache.img\""]);
    let set = ["--set", "devices.cache.path=cache.img"];
    peryton(folder.path(), &[&["format", design], &set[..]].concat()).fails(2, &["devices.storage.path", "mdadm"]);
}
