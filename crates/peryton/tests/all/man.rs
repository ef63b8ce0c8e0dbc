//! Manual pages: there is one for each verb, and it lists the verb's options.

use std::{fs, process::Command};

#[test]
fn every_verb_has_a_page_with_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_peryton")).args(arguments).output().unwrap();
    assert!(run(&["man", "--out", folder.path().to_str().unwrap()]).status.success());
    for (page, option) in [
        ("peryton.1", "serve"),
        ("peryton-check.1", "json"),
        ("peryton-repair.1", "trust"),
        ("peryton-dump.1", "json"),
        ("peryton-export.1", "DESIGN.toml"),
        ("peryton-status.1", "json"),
        ("peryton-set.1", "KEY=VALUE"),
        ("peryton-events.1", "follow"),
        ("peryton-trace-mrc.1", "replacement"),
        ("peryton-supervise.1", "give"),
        ("peryton-disconnect.1", "DEVICE"),
        ("peryton-re-add.1", "DEVICE"),
        ("peryton-check.1", "EXIT STATUS"),
    ] {
        let text = fs::read_to_string(folder.path().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(text.contains(".TH") && text.contains(option), "{page} says nothing of {option}:\n{text}");
    }
    let again = tempfile::tempdir().unwrap();
    assert!(run(&["man", "--out", again.path().to_str().unwrap()]).status.success());
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(fs::read(&path).unwrap(), fs::read(again.path().join(path.file_name().unwrap())).unwrap());
    }
    let file = folder.path().join("peryton.1/below");
    let refused = run(&["man", "--out", file.to_str().unwrap()]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("peryton.1"));
}
