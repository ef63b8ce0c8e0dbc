//! `peryton init`: a commented design, with and without a terminal.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;

use common::{folder, peryton};

#[test]
fn without_a_terminal_defaults_make_a_design_that_simulates() {
    let folder = folder();
    let run = peryton(folder.path(), &["init"]).ok();
    assert!(
        run.out.is_empty() && run.err.contains("wrote design.toml, caching") && run.err.lines().count() == 1,
        "{}",
        run.err
    );
    let text = fs::read_to_string(folder.path().join("design.toml")).unwrap();
    assert!(text.contains("# ") && text.contains("write = \"back\"") && text.contains("peryton init"), "{text}");
    peryton(folder.path(), &["sim", "design.toml", "--trace", "trace.csv", "--limit", "100"]).ok();
    // It is not overwritten by mistake.
    peryton(folder.path(), &["init"]).fails(2, &["design.toml exists", "--force"]);
    let quiet = peryton(folder.path(), &["init", "--force", "--quiet", "--write", "through"]).ok();
    assert!(
        quiet.err.is_empty()
            && fs::read_to_string(folder.path().join("design.toml")).unwrap().contains("write = \"through\"")
    );
    let printed = peryton(folder.path(), &["init", "-", "--mode", "tiering", "--volume", "64GiB"]).ok();
    assert!(
        printed.out.contains("mode = \"tiering\"")
            && printed.out.contains("size = \"64GiB\"")
            && printed.err.is_empty()
    );
}

#[test]
fn a_design_with_paths_can_be_formatted() {
    let folder = folder();
    let options = [
        "--fast",
        "fixed",
        "--fast-size",
        "64MiB",
        "--fast-path",
        "fast.img",
        "--slow-path",
        "slow.img",
        "--volume",
        "256MiB",
    ];
    let run = peryton(folder.path(), &[&["init", "my.toml"][..], &options].concat()).ok();
    assert!(run.err.contains("peryton format my.toml"), "{}", run.err);
    peryton(folder.path(), &["format", "my.toml"]).ok();
    peryton(folder.path(), &["check", "my.toml"]).ok();
}

#[test]
fn mistakes_are_one_line_and_write_nothing() {
    let folder = folder();
    let table: &[(&[&str], &[&str])] = &[
        (&["--mode", "cache"], &["cache", "caching"]),
        (&["--fast", "wd-black"], &["wd-black", "did you mean"]),
        (&["--mode", "tiering", "--write", "back"], &["--write", "tiering"]),
        (&["--mode", "single", "--slow", "fixed"], &["--slow", "single"]),
        (&["--fast-size", "100TiB"], &["devices.fast.size"]),
        (&["--volume", "0"], &["volume.size"]),
        (&["nowhere/my.toml"], &["nowhere/my.toml"]),
    ];
    for (args, parts) in table {
        let code = if args[0].starts_with("nowhere") { 1 } else { 2 };
        peryton(folder.path(), &[&["init"][..], args].concat()).fails(code, parts);
        assert!(!folder.path().join("design.toml").exists(), "{args:?}");
    }
}
