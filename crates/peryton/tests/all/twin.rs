//! `peryton serve --record`, `twin`: what a drive measured comes back from models of its devices, and a wrong model is named.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::served::Client;
use crate::serving::Serving;
use peryton_drive::{
    Effect, Fault, Only,
    control::{self, Ask},
};
use serde_json::Value;

/// Files with delays, which the profiles `fixed` describe.
const DESIGN: &str = "[devices.ssd]\nprofile = 'fixed'\nsize = '32MiB'\npath = 'ssd.img'\n\
                      model = { read = '1ms', write = '1ms', parallelism = 64 }\n\
                      [devices.hdd]\nprofile = 'fixed'\nsize = '64MiB'\npath = 'hdd.img'\n\
                      model = { read = '6ms', write = '6ms', parallelism = 64 }\n\
                      [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n\
                      promotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n";
const LAGS_US: [(u8, u64); 2] = [(0, 1_000), (1, 6_000)];

/// A folder in memory if there is one: the devices' own time is then small beside their delays.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn begin(folder: &Path, more: &[&str]) -> (Serving, Client) {
    let mut all = vec!["--record", "v.recording"];
    all.extend_from_slice(more);
    let serving = Serving::start(folder, &all);
    for (device, lag_us) in LAGS_US {
        for only in [Only::Reads, Only::Writes] {
            let fault =
                Fault { device, only: Some(only), from: 0, to: u64::MAX, times: None, effect: Effect::Lag { lag_us } };
            control::ask(&folder.join("v.control"), &Ask::Fault { fault }, |_| true).unwrap();
        }
    }
    serving
}

/// Requests with think times, most of them for a tenth of the volume.
fn work(client: &mut Client, requests: u64, seed: u64) {
    let mut random = seed;
    let mut below = |end: u64| {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        (random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    };
    let blocks = client.size / 4096;
    for number in 0..requests {
        let span = if below(10) < 8 { blocks / 10 } else { blocks };
        let at = below(span) * 4096;
        match below(10) {
            0..6 => drop(client.read(at, 4096).unwrap()),
            6..9 => client.write(at, &[number as u8; 4096], false).unwrap(),
            _ if number % 7 == 0 => client.flush().unwrap(),
            _ => client.write(at, &[number as u8; 4096], false).unwrap(),
        }
        std::thread::sleep(Duration::from_micros(below(2_000)));
    }
}

fn stop(folder: &Path, serving: Serving, client: Client) {
    drop(client);
    let control = folder.join("v.control");
    control::ask(&control, &Ask::Stop {}, |_| true).unwrap();
    let began = Instant::now();
    while control.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(serving);
}

fn twin(folder: &Path, more: &[&str]) -> Value {
    let mut args = vec!["twin", "v.recording", "--json"];
    args.extend_from_slice(more);
    serde_json::from_str(&peryton(folder, &args).ok().out).unwrap()
}

fn figure<'a>(twin: &'a Value, name: &str) -> &'a Value {
    let all = twin["figures"].as_array().unwrap();
    all.iter().find(|figure| figure["figure"] == name).unwrap_or_else(|| panic!("{name} is not in {twin:#}"))
}

/// Settings that make the models as slow as the devices were.
fn calibrated(twin: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for device in ["ssd", "hdd"] {
        for (kind, key) in [("reads", "read"), ("writes", "write")] {
            // Other programs interrupt some; half of them show what the device does. Too few commands say nothing.
            let name = format!("{device}: a command, {kind}, median");
            let all = twin["figures"].as_array().unwrap();
            let Some(found) = all.iter().find(|figure| figure["figure"] == *name) else { continue };
            let us = found["measured"].as_f64().unwrap();
            set.push("--set".to_owned());
            set.push(format!("devices.{device}.model.{key}={:.0}ns", us * 1e3));
        }
    }
    set
}

#[test]
fn a_calibrated_twin_agrees_and_a_wrong_model_is_named() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    // The second session begins with what the first left in the cache.
    for seed in [7, 11] {
        let (serving, mut client) = begin(folder, &[]);
        work(&mut client, 1_500, seed);
        stop(folder, serving, client);
    }
    assert!(folder.join("v.recording.old").exists());
    let set = calibrated(&twin(folder, &[]));
    let set: Vec<&str> = set.iter().map(String::as_str).collect();
    let result = twin(folder, &set);
    assert_eq!(
        (&result["recording"]["dropped"], &result["recording"]["has_state"]),
        (&0.into(), &true.into()),
        "{result:#}"
    );
    assert_eq!(result["recording"]["requests"], 1_500);
    for name in [
        "fast hit ratio",
        "promotions",
        "ssd: reads",
        "hdd: reads",
        "ssd: written",
        "hdd: read",
        "all requests: median",
    ] {
        let figure = figure(&result, name);
        assert_eq!(figure["verdict"], "agrees", "{figure:#} {:#}", result["reasons"]);
    }
    let hits = figure(&result, "fast hit ratio")["measured"].as_f64().unwrap();
    assert!(hits > 0.3 && hits < 0.99, "{hits} is a poor test");

    let mut wrong = set.clone();
    wrong.extend(["--set", "devices.hdd.model.read=2ms"]);
    let result = twin(folder, &wrong);
    let reasons = result["reasons"].to_string();
    assert!(reasons.contains("device 'hdd': its reads took") && reasons.contains("peryton calibrate"), "{reasons}");
    assert_eq!(figure(&result, "hdd: a command, reads, median")["verdict"], "disagrees");
    assert_eq!(figure(&result, "ssd: a command, reads, median")["verdict"], "agrees");

    // A profile is the whole model: what the design changes of another one does not count. Single values still do.
    let model = "[fixed]\nread = '3ms'\nwrite = '6ms'\ncapacity = '128MiB'\nparallelism = 64\n";
    fs::write(folder.join("my.toml"), format!("name = 'my'\ndescription = 'mine'\nclass = 'fixed'\n{model}")).unwrap();
    let reads = |more: &[&str]| {
        let result = twin(folder, &[&["--profile", "hdd=my.toml"], more].concat());
        figure(&result, "hdd: a command, reads, median")["predicted"].as_f64().unwrap()
    };
    assert!((2_900.0..3_200.0).contains(&reads(&[])), "{}", reads(&[]));
    assert!((1_900.0..2_200.0).contains(&reads(&["--set", "devices.hdd.model.read=2ms"])));

    let page = peryton(folder, &["twin", "v.recording", "--report", "-"]).ok().out;
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("fast hit ratio") && page.contains("[placement]"));
    let shown = peryton(folder, &["twin", "v.recording"]).ok().out;
    assert!(shown.contains("fast hit ratio") && shown.contains("Trace "), "{shown}");

    // The same file is a trace.
    let info = peryton(folder, &["trace", "info", "v.recording"]).ok().out;
    assert!(info.contains("1500") || info.contains("1,500"), "{info}");
    peryton(folder, &["sim", "v.toml", "--trace", "v.recording"]).ok();
}

#[test]
fn a_killed_server_leaves_a_recording_and_rubbish_is_refused() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let (serving, mut client) = begin(folder, &["--record-limit", "8MiB"]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        work(&mut client, 100, 3);
    }
    let status: Value = serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).ok().out).unwrap();
    let recording = &status["recording"];
    assert_eq!((&recording["state"], &recording["dropped"]), (&"recording".into(), &0.into()), "{recording}");
    assert!(recording["requests"].as_u64().unwrap() >= 100);
    // A recording that is being written is read as well, also by its volume.
    let live: Value = serde_json::from_str(&peryton(folder, &["twin", "v.toml", "--json"]).ok().out).unwrap();
    assert!(live["recording"]["requests"].as_u64().unwrap() > 50);
    drop(serving);
    let killed = twin(folder, &[]);
    assert!(killed["recording"]["requests"].as_u64().unwrap() > 50, "{killed:#}");
    // The design is its volume, and only a server says where that records.
    peryton(folder, &["twin", "v.toml"]).fails(3, &["v.toml", "not being served"]);
    peryton(folder, &["twin", "nothing"]).fails(2, &["nothing", "no such volume"]);
    peryton(folder, &["twin", "v.recording", "--profile", "tape=fixed"]).fails(2, &["tape", "ssd, hdd"]);
    peryton(folder, &["twin", "v.recording", "--profile", "hdd"]).fails(2, &["DEVICE=PROFILE"]);
    fs::write(folder.join("letter"), "dear").unwrap();
    peryton(folder, &["serve", "v.toml", "--record", "letter"]).fails(2, &["letter", "no recording"]);
    assert_eq!(fs::read(folder.join("letter")).unwrap(), b"dear");
    let whole = fs::read(folder.join("v.recording")).unwrap();
    fs::write(folder.join("cut"), &whole[..whole.len() / 9]).unwrap();
    peryton(folder, &["twin", "cut"]).fails(2, &["cut"]);
}

/// The fear: an advisor of a drive that was in service for months knows only its first days.
#[test]
fn a_full_recording_has_what_came_last_and_its_twin_is_warmed_up() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let args = ["--record", "v.recording", "--record-limit", "1MiB"];
    let (serving, mut client) = Serving::start(folder, &args);
    let recording = || -> Value {
        let status = peryton(folder, &["status", "v.toml", "--json"]).ok().out;
        serde_json::from_str::<Value>(&status).unwrap()["recording"].clone()
    };
    // The drive counts every five seconds.
    let (began, mut requests) = (Instant::now(), 0_u64);
    // Once all files are there, as many requests again: then the first file has gone, whatever the pace of the machine.
    let mut full_at = None;
    while began.elapsed() < Duration::from_secs(12) || full_at.is_none_or(|full| requests < 2 * full) {
        if full_at.is_none() && recording()["files"].as_u64() >= Some(4) {
            full_at = Some(requests);
        }
        assert!(began.elapsed() < Duration::from_secs(200), "{:#}", recording());
        // What is kept has to span more than the time from one count to the next, however fast the machine is.
        let next = Instant::now() + Duration::from_millis(250);
        for _ in 0..2_000 {
            requests += 1;
            // The first half of the volume, later the second.
            let place = requests.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let half = if began.elapsed() < Duration::from_secs(2) { 0 } else { client.size / 2 };
            let at = half + place * place % (client.size / 8192) * 4096;
            match requests % 4 {
                0 => client.write(at, &[1; 4096], false).unwrap(),
                _ => drop(client.read(at, 4096).unwrap()),
            }
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let found = recording();
    assert_eq!((&found["state"], &found["dropped"]), (&"recording".into(), &0.into()), "{found}");
    assert!(found["bytes"].as_u64().unwrap() <= 1 << 20 && found["requests"] == requests, "{found}");
    drop(client);
    control::ask(&folder.join("v.control"), &Ask::Stop {}, |_| true).unwrap();
    serving.ended();

    let fast = ["--set", "devices.ssd.model.read=5us", "--set", "devices.ssd.model.write=5us"];
    let slow = ["--set", "devices.hdd.model.read=5us", "--set", "devices.hdd.model.write=5us"];
    let result = twin(folder, &[fast, slow].concat());
    let about = &result["recording"];
    let (kept, warm_up) = (about["requests"].as_u64().unwrap(), about["warm_up"].as_u64().unwrap());
    assert!(about["files"].as_u64() >= Some(3) && about["has_state"] == false && about["dropped"] == 0, "{about:#}");
    assert!(kept < requests && kept > 30_000 && (1..kept).contains(&warm_up), "{about:#}");
    let reasons = result["reasons"].to_string();
    assert!(reasons.contains("only filled it"), "{reasons}");
    // The counts are of the rest: as many hits and misses as requests, which are all within an extent.
    let reads = ["ssd: reads", "hdd: reads"].map(|name| figure(&result, name)["measured"].as_f64().unwrap());
    assert!(reads.iter().sum::<f64>() <= (kept - warm_up) as f64 * 1.1, "{reads:?} {about:#}");
    let hits = figure(&result, "fast hit ratio");
    assert_eq!(hits["verdict"], "agrees", "{hits:#} {about:#} {reasons}");

    // All files are one trace: of the requests that came last.
    let info: Value =
        serde_json::from_str(&peryton(folder, &["trace", "info", "v.recording", "--json"]).ok().out).unwrap();
    assert!(info["requests"].as_u64() >= Some(kept), "{info:#}");
    peryton(folder, &["advise", "v.recording", "--try", "placement.max_moves=4", "--only", fast[0], fast[1]]).ok();
}

#[test]
fn advise_finds_what_is_obviously_better_and_applies_it() {
    let folder = folder();
    let folder = folder.path();
    // No block is asked for so often that it would come into the cache.
    let design = DESIGN.replace("promotion = { threshold = 0 }", "promotion = { threshold = 200 }");
    fs::write(folder.join("v.toml"), design).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let (serving, mut client) = begin(folder, &[]);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(14) {
        work(&mut client, 100, 5);
    }
    let args = ["advise", "v.toml", "--objective", "p50", "--try", "placement.promotion.threshold=0,300", "--only"];
    let mut with_more = args.to_vec();
    with_more.extend(["--apply", "--json"]);
    let advice: Value = serde_json::from_str(&peryton(folder, &with_more).ok().out).unwrap();
    let others = advice["others"].as_array().unwrap();
    assert_eq!(others[0]["setting"], "placement.promotion.threshold = 0", "{advice:#}");
    assert_eq!((&others[0]["verdict"], &others[0]["live"]), (&"better".into(), &true.into()));
    assert_eq!(others[1]["verdict"], "no_difference", "{advice:#}");
    assert_eq!(advice["applied"]["settings"][0], "placement.promotion.threshold=0", "{advice:#}");
    let settings = || -> Value {
        let status: Value = serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).ok().out).unwrap();
        status["settings"].clone()
    };
    assert_eq!(settings()[0], "placement.promotion.threshold=0");
    // The command that undoes it.
    let undo = advice["applied"]["undo"].as_str().unwrap();
    let words: Vec<&str> = undo.split(' ').skip(1).collect();
    peryton(folder, &words).ok();
    assert_eq!(settings(), Value::Array(Vec::new()));
    let shown = peryton(folder, &args).ok().out;
    assert!(shown.contains("better, live") && shown.contains("no difference"), "{shown}");
    peryton(folder, &["advise", "v.recording", "--apply"]).fails(2, &["--apply", "is being served"]);
    drop(serving);
}
