//! Completions: what shells ask, and what they are answered.

use std::{fs, path::Path, process::Command};

use crate::common::{folder, peryton};

/// What the program answers a shell for a line whose last word is being written.
fn asked(folder: &Path, shell: &str, words: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_peryton"))
        .arg("--")
        .arg("peryton")
        .args(words)
        .env("PERYTON_COMPLETE", shell)
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("_CLAP_IFS", "\n")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn shells_are_offered_verbs_options_keys_devices_and_values() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let offered = |words: &[&str]| asked(folder.path(), shell, words);
        // Beside a candidate zsh and fish get what it is.
        let has = |words: &[&str], wanted: &str| {
            let found = offered(words);
            let is = |line: &String| {
                line == wanted
                    || line.replace("\\:", ":").starts_with(&format!("{wanted}:"))
                    || line.starts_with(&format!("{wanted}\t"))
            };
            assert!(found.iter().any(is), "{shell}: '{wanted}' is not offered after {words:?}: {found:?}");
        };
        has(&["si"], "size");
        has(&["sim", "caching.toml", "--swe"], "--sweep");
        has(&["sim", "caching.toml", "--set", "devices."], "devices.ssd.size=");
        has(&["sim", "caching.toml", "--sweep", "placement.promotion."], "placement.promotion.threshold=");
        has(&["keys", "devices.N"], "devices.NAME.profile");
        has(&["set", "x.toml", "placement.max"], "placement.max_moves=");
        has(&["size", "--objective", "p9"], "p99");
        let live = offered(&["set", "x.toml", "placement.ext"]);
        assert!(live.is_empty(), "{shell}: an extent cannot change: {live:?}");
    }
}

/// Bash itself: it takes `KEY=VALUE` apart, and puts an answer in place of the last part.
#[test]
fn bash_completes_keys_and_their_values() {
    let folder = folder();
    if Command::new("bash").arg("--version").output().is_err() {
        eprintln!("skipped: there is no bash");
        return;
    }
    fs::write(folder.path().join("completions.bash"), peryton(folder.path(), &["completions", "bash"]).ok().out)
        .unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_peryton")).parent().unwrap();
    let complete = |line: &str, parts: &[&str], word: &str| {
        let words: Vec<String> = parts.iter().map(|part| format!("'{part}'")).collect();
        let script = format!(
            ". ./completions.bash; COMP_LINE='{line}'; COMP_POINT={}; COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; \
             _peryton_complete peryton '{word}' '' 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"; complete -p peryton",
            line.len(),
            words.join(" "),
            parts.len() - 1
        );
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let output =
            Command::new("bash").args(["-c", &script]).env("PATH", path).current_dir(folder.path()).output().unwrap();
        let mut found: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        assert!(found.pop().is_some_and(|last| last.contains("_peryton_complete")), "it is registered");
        found
    };
    let line = ["peryton", "sim", "caching.toml", "--set", "placement.write", "=", "th"];
    assert_eq!(complete("peryton sim caching.toml --set placement.write=th", &line, "th"), ["through"]);
    assert_eq!(
        complete("peryton sim caching.toml --set placement.write=", &line[..6], ""),
        ["back", "through", "around"]
    );
    let keys = complete(
        "peryton sim caching.toml --set placement.write",
        &[&line[..4], &["placement.write"]].concat(),
        "placement.write",
    );
    assert!(keys.len() > 3 && keys.contains(&"placement.writeback.delay=".to_owned()), "{keys:?}");
    assert_eq!(
        complete(
            "peryton sim caching.toml --set placement.max",
            &[&line[..4], &["placement.max"]].concat(),
            "placement.max"
        ),
        ["placement.max_moves="]
    );
    assert_eq!(complete("peryton siz", &["peryton", "siz"], "siz"), ["size"]);
}

#[test]
fn every_shell_has_a_script_that_asks() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = peryton(Path::new("."), &["completions", shell]).ok().out;
        assert!(script.contains("PERYTON_COMPLETE") && script.contains("peryton"), "{shell}: {script}");
    }
    // Nothing but that variable makes the program answer a shell.
    let run = Command::new(env!("CARGO_BIN_EXE_peryton")).arg("--version").env("COMPLETE", "bash").output().unwrap();
    assert!(String::from_utf8_lossy(&run.stdout).starts_with("peryton "));
}
