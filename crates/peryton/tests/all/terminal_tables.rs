//! The fear: on a terminal of 80 columns tables and sentences are broken into pieces, or a pipe lacks columns.
//! (util-linux's `script` makes the terminal.)

use std::{path::Path, process::Command};

use crate::common::{folder, peryton};

/// What a verb prints on a terminal with so many columns; `None` where there is no `script`.
fn shown(folder: &Path, columns: u32, words: &str) -> Option<String> {
    // The shell would take `>` for itself.
    let quoted: String = words.split_whitespace().map(|word| format!(" '{word}'")).collect();
    let command = format!("stty cols {columns} rows 24; '{}'{quoted} --quiet", env!("CARGO_BIN_EXE_peryton"));
    let words = ["--quiet", "--return", "--command", &command, "/dev/null"];
    let ran = Command::new("script").args(words).current_dir(folder).output().ok()?;
    let text = String::from_utf8(ran.stdout).unwrap().replace('\r', "");
    assert!(ran.status.success(), "{command}:\n{text}");
    Some(text)
}

fn width(line: &str) -> usize {
    line.chars().count()
}

/// The lines of tables: those around a rule that begin with a space, as rows and titles do.
fn tables(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_row = |line: &&&str| line.starts_with(' ') || line.starts_with('─');
    let rules = (0..lines.len()).filter(|&at| lines[at].starts_with('─'));
    rules
        .flat_map(|rule| {
            let titles = lines[..rule].iter().rev().take_while(is_row);
            titles.chain(lines[rule..].iter().take_while(is_row)).copied().collect::<Vec<_>>()
        })
        .collect()
}

/// Checks what a verb prints, whose tables need more than 80 columns if `is_wide`.
fn check(folder: &Path, words: &str, is_wide: bool) {
    let Some(narrow) = shown(folder, 80, words) else {
        return println!("skipped: script (util-linux) is not installed");
    };
    assert!(!tables(&narrow).is_empty(), "peryton {words} prints no table:\n{narrow}");
    for line in tables(&narrow) {
        assert!(width(line) <= 80, "peryton {words}: {} columns: {line}\n{narrow}", width(line));
    }
    let piped = peryton(folder, &words.split_whitespace().collect::<Vec<_>>()).ok().out;
    assert!(!piped.contains("more with --wide"), "a pipe gets all columns of peryton {words}:\n{piped}");
    let widest = tables(&piped).into_iter().map(width).max().unwrap();
    assert_eq!(widest > 80, is_wide, "peryton {words}: {widest} columns:\n{piped}");
    let wide = shown(folder, 80, &format!("{words} --wide")).unwrap();
    assert_eq!(tables(&wide), tables(&piped), "--wide shows what a pipe gets of peryton {words}");
    let roomy = shown(folder, 400, words).unwrap();
    assert_eq!(tables(&roomy), tables(&piped), "a wide terminal shows all of peryton {words}");
}

#[test]
fn tables_of_simulations_fit_the_terminal() {
    let folder = folder();
    check(folder.path(), "sim caching.toml single.toml --trace trace.csv", true);
    check(folder.path(), "trace mrc trace.csv", true);
    check(
        folder.path(),
        "trace mrc trace.csv --replacement wsclock,lru,two_queue,s3fifo,arc,sieve,lirs,w_tiny_lfu",
        true,
    );
    let narrow = shown(folder.path(), 80, "sim caching.toml single.toml --trace trace.csv");
    let Some(narrow) = narrow else { return };
    // The columns that matter most stay, and a line says that others are left out.
    assert!(narrow.contains("IOPS") && narrow.contains("read ms") && !narrow.contains("standby"), "{narrow}");
    assert!(narrow.contains(" columns more with --wide\n"), "{narrow}");
}

#[test]
fn tables_of_devices_fit_the_terminal() {
    let folder = folder();
    check(folder.path(), "profiles", true);
    check(folder.path(), "profiles seagate-st4000dm000", true);
    check(folder.path(), "profiles intel-320-300gb --values", true);
}

#[test]
fn tables_of_planning_fit_the_terminal() {
    let folder = folder();
    let devices = "samsung-870-evo-1tb,seagate-st4000dm000";
    let load = "--capacity 100TB --peak 1000MB --average 100MB";
    check(folder.path(), &format!("energy {load} --emerald --devices {devices}"), true);
    check(folder.path(), "tune caching.toml --trace trace.csv --evaluations 4 --subject-to lifetime>=1s", false);
    check(folder.path(), "size --design caching.toml --trace trace.csv --points 3 --speed 0.1", true);
    let kept =
        shown(folder.path(), 80, "tune caching.toml --trace trace.csv --evaluations 4 --subject-to lifetime>=1s");
    assert!(
        kept.is_none_or(|text| text.contains("lifetime ≥") && text.contains(" met")),
        "the bounds are part of the answer"
    );
    let devices = "samsung-870-evo-1tb,seagate-st4000dm000";
    check(folder.path(), &format!("plan --trace trace.csv --latency 1s --devices {devices} --most 2"), true);
}

/// Lines go on below between words, with the words that a pipe gets.
#[test]
fn sentences_fit_the_terminal() {
    let folder = folder();
    let mut wrapped = 0;
    for words in [
        "trace info trace.csv",
        "trace overwrites trace.csv",
        "keys",
        "keys placement",
        "sim caching.toml single.toml --trace trace.csv --sensitivity",
        "profiles intel-320-300gb",
        "size --design caching.toml --trace trace.csv --points 3 --speed 0.1",
        "tune caching.toml --trace trace.csv --evaluations 4",
        "energy --capacity 100TB --peak 1000MB --average 100MB",
    ] {
        let Some(narrow) = shown(folder.path(), 80, words) else {
            return println!("skipped: script (util-linux) is not installed");
        };
        for line in narrow.lines() {
            assert!(width(line) <= 80 || !line.trim().contains(' '), "peryton {words}: {}: {line}", width(line));
        }
        let wide = shown(folder.path(), 80, &format!("{words} --wide")).unwrap();
        wrapped += usize::from(wide.lines().any(|line| width(line) > 80 && !tables(&wide).contains(&line)));
        if tables(&narrow).is_empty() {
            let plain = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(plain(&narrow), plain(&wide), "peryton {words}");
        }
    }
    assert!(wrapped > 4, "{wrapped} of them have long lines");
}
