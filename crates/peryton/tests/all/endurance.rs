//! The fear: what status says of a device's life is not what was done to it, or is forgotten with the server.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::FileExt, net::UnixStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::serving::Serving;
use peryton_format::{
    holder::{HOLDER_AT, decode},
    wear::Account,
};
use serde_json::Value;

const LIMIT: f64 = 1e9;
const DESIGN: &str = "[devices.small]\nsize = '8MiB'\npath = 'small.img'\n\
                      [devices.large]\nsize = '16MiB'\npath = 'large.img'\n\
                      [endurance.small]\nwritten = '1GB'\n[endurance.large]\nstart_stops = 300000\n\
                      [placement]\nmode = 'linear'\ndevices = ['small', 'large']\n";

fn endurance(folder: &Path, device: &str, more: &[&str]) -> Value {
    let args = [&["status", "v.toml", "--json"], more].concat();
    let mut status: Value = serde_json::from_str(&peryton(folder, &args).ok().out).unwrap();
    status["devices"][device]["endurance"].take()
}

fn pages(wear: &Value) -> (u64, u64) {
    (wear["pages_read"].as_u64().unwrap(), wear["pages_written"].as_u64().unwrap())
}

/// What the device itself says.
fn kept(folder: &Path) -> Account {
    let mut block = [0; 4096];
    File::open(folder.join("small.img")).unwrap().read_exact_at(&mut block, HOLDER_AT.0).unwrap();
    decode(&block).unwrap_or_default().account
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn life_is_counted_in_pages_and_outlives_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let (serving, mut client) = Serving::start(folder, &[]);
    let told = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(!told.contains("hits"), "a volume without a map has no fast device that is hit: {told}");
    let before = endurance(folder, "small", &["--mark"]);
    for page in 0..100_u64 {
        client.write(page * 8192 + 512, &[7; 512], false).unwrap();
    }
    let after = endurance(folder, "small", &[]);
    // A renewal of the block that has the counts is a page, too.
    let marked = pages(&after["since_mark"]).1;
    assert!((100..110).contains(&marked), "{after}");
    let (read, written) = pages(&after["counted"]);
    let used = |ratio: f64| 1e6 * 4096.0 * (written as f64 + read as f64 * ratio) / LIMIT;
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-6 * expected.max(1.0);
    assert!(near(&after["left_eu"], 1e6 - used(0.0)) && near(&after["counted"]["used_eu"], used(0.0)), "{after}");
    assert!(near(&after["since_mark"]["used_eu"], 1e6 * 4096.0 * marked as f64 / LIMIT), "{after}");
    assert!(after["left_eu"].as_f64() < before["left_eu"].as_f64(), "{before} {after}");

    // A read counts as the design says from now on.
    peryton(folder, &["set", "v.toml", "endurance.read_effect=2"]).ok();
    let with_reads = endurance(folder, "small", &[]);
    let (read, written) = pages(&with_reads["counted"]);
    assert!(read > 0, "superblocks were read");
    let used = 1e6 * 4096.0 * (written as f64 + read as f64 / 2.0) / LIMIT;
    assert!(near(&with_reads["left_eu"], 1e6 - used), "{with_reads}");
    let disk = endurance(folder, "large", &[]);
    assert_eq!((&disk["left_eu"], &disk["limit_start_stops"]), (&1e6.into(), &300_000.into()), "{disk}");
    let text = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(text.contains("small has 9") && text.contains("(2 reads count as a write)"), "{text}");
    assert!(text.contains("large has 1000000.000 eu of its life left"), "{text}");

    // A kill loses what the device was not told yet, which is told every five seconds.
    wait_until("the device is told", || kept(folder).worn.pages_written >= written);
    assert_eq!(with_reads["unclosed"], 0);
    drop(serving);
    let told = kept(folder).worn.pages_written;
    let (serving, _client) = Serving::start(folder, &[]);
    let again = endurance(folder, "small", &[]);
    assert!((told..told + 100).contains(&pages(&again["counted"]).1), "{told}: {again}");
    assert_eq!(
        (&again["unclosed"], &again["counted"]["since_unix_s"]),
        (&1.into(), &before["counted"]["since_unix_s"])
    );
    assert_eq!(again["since_mark"]["since_unix_s"], before["since_mark"]["since_unix_s"]);
    let text = peryton(folder, &["status", "v.toml"]).ok().out;
    assert!(text.contains("the last 5 s before a kill may not be counted"), "{text}");

    // A close in good order loses nothing.
    drop(_client);
    let last = pages(&endurance(folder, "small", &[])["counted"]).1;
    UnixStream::connect(folder.join("v.control")).unwrap().write_all(b"{\"verb\":\"stop\"}\n").unwrap();
    serving.ended();
    let closed = kept(folder);
    assert!(closed.worn.pages_written > last && closed.unclosed == 1, "{closed:?}");
    // Nor does it begin again with another volume on the same device.
    peryton(folder, &["create", "v.toml", "--force"]).ok();
    let (_serving, _client) = Serving::start(folder, &[]);
    let anew = endurance(folder, "small", &[]);
    assert!(pages(&anew["counted"]).1 > closed.worn.pages_written && anew["unclosed"] == 1, "{anew}");
}
