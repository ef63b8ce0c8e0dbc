//! `peryton create`, `check`, `dump`: every design that can be simulated can be formatted. `serve`, `detach`, `repair`:
//! a formatted volume can be used, and taken apart.

use std::{fs, path::Path, process::Command};

use crate::common::{self, peryton, repository};
use crate::serving::Serving;
use serde_json::Value;

const DEVICES: &str = "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n\
                       [devices.large]\nprofile = 'fixed'\nsize = '16MiB'\npath = 'large.img'\n[placement]\n";
const LOGGING: &str = "mode = 'logging'\nlog = 'small'\nprimary = 'large'\n";
const CACHING: &str = "mode = 'caching'\nfast = 'small'\nslow = 'large'\nextent = '64KiB'\npromotion = { threshold = 0 }\n\
                       demotion = { low = 4, high = 8 }\nwriteback = { delay = '1h' }\n";

/// Formats a volume, writes to it, flushes it and kills its server; returns the content.
fn killed(folder: &Path, placement: &str) -> Vec<u8> {
    fs::write(folder.join("v.toml"), format!("{DEVICES}{placement}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).ok();
    let (serving, mut client) = Serving::start(folder, &[]);
    let mut model = vec![0; client.size as usize];
    for n in 0..200 {
        let (at, byte) = (n * 7919 % (model.len() / 4096 - 2) * 4096, (n % 250 + 1) as u8);
        let block = &mut model[at..at + 4096 * (1 + n % 2)];
        block.fill(byte);
        client.write(at as u64, block, false).expect("a write");
    }
    client.flush().expect("a flush");
    drop(serving);
    model
}

#[test]
fn what_is_detached_stands_alone_with_every_flushed_byte() {
    for placement in [LOGGING, CACHING] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let model = killed(folder, placement);
        let alone = |at: usize| fs::read(folder.join("large.img")).expect("a file")[at..at + model.len()].to_vec();
        assert!(alone(1 << 20) != model, "there is nothing to write back: the test tests nothing");
        let detached: Value =
            serde_json::from_str(&peryton(folder, &["export", "v.toml", "--json"]).ok().out).expect("JSON");
        assert_eq!((&detached["device"], &detached["length"]), (&"large".into(), &model.len().into()), "{detached}");
        assert!(alone(detached["offset"].as_u64().expect("an offset") as usize) == model, "{placement}: other data");
        for verb in ["export", "repair", "serve"] {
            peryton(folder, &[verb, "v.toml"]).fails(2, &["was exported", "large", "stands alone"]);
        }
    }
}

#[test]
fn clean_writes_home_what_is_dirty_and_says_when_it_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("v.toml"), format!("{DEVICES}{CACHING}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).ok();
    let (_serving, mut client) = Serving::start(folder, &[]);
    // Fewer extents than may be dirty, each covered by its write.
    for extent in 0..30_u64 {
        client.write(extent << 17, &[extent as u8 + 1; 65536], false).expect("a write");
    }
    let status =
        || -> Value { serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).ok().out).expect("JSON") };
    let cleaning = &status()["cleaning"];
    assert_eq!((&cleaning["dirty_bytes"], &cleaning["state"]), (&(30 << 16).into(), &"resting".into()), "{cleaning}");
    let shown = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(shown.contains("dirty: ") && shown.contains("not cleaning now"), "{shown}");
    let done = peryton(folder, &["writeback", "v.toml", "--wait"]).ok();
    assert_eq!(done.out, "nothing is dirty\n");
    let status = status();
    assert_eq!((&status["cleaning"]["dirty_bytes"], &status["cleaning"]["clean_in_s"]), (&0.into(), &0.0.into()));
    let again: Value =
        serde_json::from_str(&peryton(folder, &["writeback", "v.toml", "--json"]).ok().out).expect("JSON");
    assert_eq!((&again["state"], &again["oldest_s"]), (&"resting".into(), &Value::Null), "{again}");
    for extent in 0..30_u64 {
        assert_eq!(client.read(extent << 17, 65536), Ok(vec![extent as u8 + 1; 65536]));
    }
}

#[test]
fn what_has_no_home_cannot_be_cleaned() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("v.toml"), format!("{DEVICES}{LOGGING}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).ok();
    let (_serving, _client) = Serving::start(folder, &[]);
    peryton(folder, &["writeback", "v.toml"]).fails(2, &["a log migrates its data by itself"]);
}

#[test]
fn a_lost_log_is_replaced_by_an_empty_one_only_knowingly() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    killed(folder, LOGGING);
    fs::remove_file(folder.join("small.img")).expect("it is there");
    peryton(folder, &["serve", "v.toml"]).fails(2, &["'small'", "not there", "--without"]);
    peryton(folder, &["replace", "v.toml", "small", "--with", "small.img"]).fails(2, &["'small'", "--accept-loss"]);
    let done = peryton(folder, &["replace", "v.toml", "small", "--with", "small.img", "--accept-loss"]).ok();
    assert!(done.out.contains("'small' is small.img now, which was empty"), "{}", done.out);
    peryton(folder, &["check", "v.toml"]).ok();
    let (_serving, mut client) = Serving::start(folder, &[]);
    client.write(0, &[7; 4096], true).expect("a write");
    assert_eq!(client.read(0, 4096), Ok(vec![7; 4096]));
}

#[test]
fn a_volume_that_cannot_be_opened_says_which_device_is_to_blame_by_name_and_path() {
    let folder = common::folder();
    killed(folder.path(), CACHING);
    let small = folder.path().join("small.img");
    let large = folder.path().join("large.img");
    fs::rename(&small, folder.path().join("x")).and_then(|()| fs::rename(&large, &small)).expect("ours");
    fs::rename(folder.path().join("x"), &large).expect("ours");
    fs::OpenOptions::new().write(true).open(&large).and_then(|file| file.set_len(32 << 20)).expect("ours");
    let swapped =
        "device 'small' (small.img) of the design is device 'large' (large.img) of the volume: swap the paths";
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &[swapped]);
    peryton(folder.path(), &["repair", "v.toml"]).fails(2, &[swapped]);
    fs::write(&small, vec![0; 16 << 20]).expect("ours");
    let strange = "device 'small' (small.img) is not part of a Peryton volume, or has lost both its superblocks: name the right one, or open \
                   the volume without it; formatting destroys its data";
    peryton(folder.path(), &["serve", "v.toml"]).fails(2, &[strange]);
}

#[test]
fn every_shipped_design_becomes_a_volume() {
    let designs = repository().join("examples/papers");
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
        let made_json: Value = serde_json::from_str(&run("create", &["--json"]).ok().out).expect("JSON");
        assert_eq!(made_json["devices"].as_array().map(Vec::len), Some(names.len()), "{path}");
        run("check", &[]).ok();
        assert!(run("dump", &[]).ok().out.contains(made_json["volume"].as_str().expect("a name")), "{path}");
        run("create", &[]).fails(2, &["a Peryton volume", "--force"]);
        made += 1;
    }
    assert!(made >= 6, "{made} designs ship");
}

#[test]
fn format_makes_the_directory_durable_that_has_the_new_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = fs::canonicalize(folder.path()).map(|path| (path, folder)).expect("it is there");
    fs::write(folder.0.join("v.toml"), format!("{DEVICES}{CACHING}")).expect("a design");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o", "trace"]).arg(env!("CARGO_BIN_EXE_peryton"));
    let Ok(run) = strace.args(["create", "v.toml"]).current_dir(&folder.0).output() else {
        return eprintln!("skipped: there is no strace here");
    };
    let trace = fs::read_to_string(folder.0.join("trace")).unwrap_or_default();
    if !run.status.success() && !trace.contains("fdatasync") {
        return eprintln!("skipped: strace may not trace here: {}", String::from_utf8_lossy(&run.stderr));
    }
    let at = |call: &str, path: &str| {
        let lines = trace.lines().enumerate();
        lines.filter(|(_, line)| line.contains(call) && line.contains(path)).map(|(number, _)| number).last()
    };
    let directory = at(" fsync(", &format!("<{}>", folder.0.display()));
    let data = at(" fdatasync(", "small.img");
    assert!(directory.is_some() && directory > data, "{trace}");
}

#[test]
fn what_a_drive_in_service_cannot_do_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("v.toml"), format!("[volume]\ncount = 2\n{DEVICES}{LOGGING}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).fails(2, &["volume.count", "is 2", "remove it"]);
    fs::write(folder.join("v.toml"), format!("{DEVICES}{CACHING}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).ok();
    peryton(folder, &["serve", "v.toml", "--set", "power.large.spin_down_after=500ms"])
        .fails(2, &["is 500ms", "1s or more"]);
    peryton(folder, &["serve", "v.toml", "--health", "1s"]).fails(2, &["--health", "10s or more", "off"]);
    let (_serving, _client) = Serving::start(folder, &[]);
    for (setting, why) in [
        ("devices.small.path=/dev/null", "changes nothing"),
        ("devices.large.price_usd=3", "changes nothing"),
        ("seed.value=7", "changes nothing"),
        ("name=other", "changes nothing"),
        ("power.large.spin_down_after=10ms", "1s or more"),
        ("placement.extent=32KiB", "format has fixed"),
    ] {
        peryton(folder, &["set", "v.toml", setting]).fails(2, &[setting.split('=').next().unwrap_or_default(), why]);
    }
    peryton(folder, &["set", "v.toml", "placement.max_moves=4"]).ok();
}

/// The fear: a device that cannot be put into standby is not served, or is said to rest.
#[test]
fn a_file_is_served_without_standby_and_without_health() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(folder.join("v.toml"), format!("{DEVICES}{CACHING}")).expect("a design");
    peryton(folder, &["create", "v.toml"]).ok();
    let (_serving, mut client) = Serving::start(folder, &["--set", "power.large.spin_down_after=1s"]);
    client.read(0, 4096).expect("an answer");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let status: Value = serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).ok().out).expect("JSON");
    let large = &status["devices"]["large"];
    assert!(large["rest"]["cannot"].as_str().is_some_and(|why| why.contains("file")), "{large}");
    assert_eq!((&large["rest"]["cycles"], &large["rest"]["resting"]), (&0.into(), &false.into()), "{large}");
    assert!(large["health"]["drives"].is_array(), "{large}");
    let shown = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(shown.contains("large is served without standby"), "{shown}");
    peryton(folder, &["set", "v.toml", "power.large.spin_down_after=5min"]).ok();
    let shown = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(shown.contains("large is served without standby"), "{shown}");
    peryton(folder, &["set", "v.toml", "power.large.spin_down_after=never"]).ok();
    let shown = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(!shown.contains("standby"), "{shown}");
}

#[test]
fn health_says_what_it_cannot_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    peryton(folder, &["health"]).fails(2, &["DEVICE"]);
    peryton(folder, &["health", "none.img"]).fails(2, &["none.img", "name a device"]);
    let run = peryton(folder, &["health", "/dev/null", "--json"]);
    let all: Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!((run.code, all[0]["drives"].as_array().map(Vec::len)), (1, Some(0)), "{all}");
    assert!(all[0]["not_read"][0].as_str().is_some_and(|why| why.contains("/dev/null")), "{all}");
    let run = peryton(folder, &["health", "/dev/null"]);
    assert!(run.code == 1 && run.out.contains("not read:"), "{}", run.out);
}

#[test]
fn a_design_without_paths_says_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let design = repository().join("examples/papers/mixed-array.toml");
    let design = design.to_str().expect("a name");
    peryton(folder.path(), &["create", design]).fails(2, &["devices.cache.path", "such as path = \"cache.img\""]);
    let set = ["--set", "devices.cache.path=cache.img"];
    peryton(folder.path(), &[&["create", design], &set[..]].concat()).fails(2, &["devices.storage.path", "mdadm"]);
    fs::write(folder.path().join("v.toml"), format!("{DEVICES}{CACHING}")).expect("a design");
    let run = peryton(folder.path(), &["create", "v.toml", "--set", "placement.extent=32KiB"]).ok();
    assert!(run.err.contains("--set placement.extent=32KiB: v.toml does not say so"), "{}", run.err);
}

/// The fear: a script takes a volume for sound of which data are lost, or for one that is in order when it is not closed.
#[test]
fn closed_dirty_damaged_and_lost_are_four_things_each_with_a_count_and_an_exit_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    killed(folder, CACHING);
    let condition = |args: &[&str]| -> (i32, Value) {
        let run = peryton(folder, args);
        let found: Value = serde_json::from_str(&run.out).expect("JSON");
        assert_eq!(found["condition"]["exit_code"], run.code, "{found}");
        (run.code, found["condition"].clone())
    };
    let (code, found) = condition(&["check", "v.toml", "--json"]);
    assert_eq!((code, &found["closed"], &found["lost"]), (4 + 8, &false.into(), &0.into()), "{found}");
    assert!(found["dirty"].as_u64() > Some(0), "{found}");
    let (code, found) = condition(&["repair", "v.toml", "--json"]);
    assert_eq!((code, &found["closed"]), (8, &true.into()), "{found}");
    let shown = peryton(folder, &["check", "v.toml"]);
    assert!(shown.code == 8 && shown.out.contains("closed; ") && !shown.out.contains("not closed"), "{}", shown.out);
    assert!(shown.out.contains("extents dirty, 0 copies of metadata damaged, 0 extents lost"), "{}", shown.out);

    fs::rename(folder.join("small.img"), folder.join("away.img")).expect("it is there");
    let shown = peryton(folder, &["check", "v.toml"]);
    assert!(shown.code == 2 && shown.out.contains("not checked") && !shown.out.contains("damaged"), "{}", shown.out);
    let (code, found) = condition(&["check", "v.toml", "--without", "small", "--json"]);
    assert!(code & 32 != 0 && found["lost"].as_u64() > Some(0), "{found}");
    let lost = found["lost"].clone();
    let (code, found) = condition(&["repair", "v.toml", "--without", "small", "--json"]);
    assert_eq!((code, &found["lost"]), (32, &lost), "{found}");
    let shown = peryton(folder, &["check", "v.toml", "--without", "small"]);
    assert!(shown.code == 32 && !shown.out.contains("clean"), "{}", shown.out);
    let (serving, client) = Serving::start(folder, &["--without", "small"]);
    let status = peryton(folder, &["status", "v.toml"]);
    assert!(status.code == 32 && status.out.contains("LOST: "), "{} {}", status.code, status.out);
    drop((client, serving));
    let help = peryton(folder, &["help", "exit-codes"]).ok().out;
    for word in ["not served", "not closed", "dirty", "damaged", "lost"] {
        assert!(help.contains(word), "{help}");
    }
}
