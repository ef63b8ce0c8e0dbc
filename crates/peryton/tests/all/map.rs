//! The fear: the map that a server tells is not that of its volume, or what is counted in it is lost with the server.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::common::peryton;
use crate::serving::Serving;
use serde_json::Value;

const DEVICES: &str = "[devices.small]\nsize = '8MiB'\npath = 'small.img'\n\
                       [devices.large]\nsize = '16MiB'\npath = 'large.img'\n[placement]\n";
const PAIR: &str = "fast = 'small'\nslow = 'large'\nextent = '64KiB'\npromotion = { threshold = 0 }\n\
                    demotion = { low = 4, high = 8 }\n";

/// What the control socket answers, line by line.
fn ask(folder: &Path, verb: &str) -> Vec<Value> {
    asked(folder, &format!("{{\"verb\":\"{verb}\"}}"))
}

fn asked(folder: &Path, line: &str) -> Vec<Value> {
    let mut socket = UnixStream::connect(folder.join("v.control")).unwrap();
    writeln!(socket, "{line}").unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(socket).lines() {
        lines.push(serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        if lines.last().unwrap()["ok"].is_boolean() {
            break;
        }
    }
    lines
}

fn dump(folder: &Path) -> Vec<Value> {
    let mut found: Value = serde_json::from_str(&peryton(folder, &["dump", "v.toml", "--json"]).said().out).unwrap();
    found["map"].as_array_mut().map(std::mem::take).unwrap_or_default()
}

fn made(placement: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("v.toml"), format!("{DEVICES}{placement}")).unwrap();
    peryton(folder.path(), &["create", "v.toml"]).ok();
    folder
}

fn stop(folder: &Path, serving: Serving) {
    assert_eq!(ask(folder, "stop")[0]["ok"], true);
    serving.ended();
}

/// What must be the same in the rows of a served and of a closed volume.
fn fixed(rows: &[Value]) -> Vec<Value> {
    let keys = ["offset", "len", "device", "at", "dirty", "lost", "blocks", "accesses"];
    rows.iter().map(|row| keys.map(|key| row[key].clone()).into_iter().collect()).collect()
}

fn accesses(rows: &[Value], extent: u64) -> Option<u64> {
    rows.iter().find(|row| row["offset"] == extent << 16)?["accesses"].as_u64()
}

#[test]
fn the_map_of_a_served_cache_counts_accesses_and_keeps_them() {
    for mode in ["caching", "tiering"] {
        let folder = made(&format!("mode = '{mode}'\n{PAIR}"));
        let folder = folder.path();
        let (serving, mut client) = Serving::start(folder, &[]);
        for extent in 0..20_u64 {
            for time in 0..=extent {
                client.write((extent << 16) + time * 512, &[7; 512], false).unwrap();
            }
        }
        client.read(5 << 16, 4096).unwrap();
        client.flush().unwrap();
        drop(client);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let rows = dump(folder);
        assert_eq!(
            (accesses(&rows, 0), accesses(&rows, 19), accesses(&rows, 5), accesses(&rows, 20)),
            (Some(1), Some(20), Some(7), None),
            "{mode}"
        );
        assert!(rows.iter().all(|row| row["last_access_unix_s"].as_u64().unwrap().abs_diff(now) < 60), "{rows:?}");
        assert!(rows.iter().all(|row| row["state"].is_string() && row["device"].is_u64()), "{mode}: {rows:?}");
        // The socket says the same, in parts.
        let answer = ask(folder, "map");
        let (last, parts) = answer.split_last().unwrap();
        assert_eq!((&last["ok"], &last["entries"]), (&true.into(), &rows.len().into()), "{last}");
        assert_eq!(last["of"], "extents");
        assert_eq!(parts[0]["devices"], serde_json::json!(["small", "large"]));
        let text = peryton(folder, &["dump", "v.toml"]).ok().out;
        assert!(text.contains("accesses by address, 64KiB a cell, at most 20\n"), "{text}");
        assert!(text.contains(", 20 accesses, last "), "{text}");

        // What is closed says the same, in the same words; and the next server goes on with it.
        stop(folder, serving);
        let closed = dump(folder);
        let known = |rows: &[Value]| fixed(rows).into_iter().filter(|row| row[7].is_u64()).count();
        assert_eq!((known(&closed), fixed(&closed)), (20, fixed(&rows)), "{mode}");
        let (serving, mut client) = Serving::start(folder, &[]);
        client.read(19 << 16, 4096).unwrap();
        assert_eq!((accesses(&dump(folder), 19), accesses(&dump(folder), 18)), (Some(21), Some(19)), "{mode}");
        // A kill loses what came after the last snapshot.
        drop((serving, client));
        let (_serving, _client) = Serving::start(folder, &[]);
        assert_eq!((accesses(&dump(folder), 19), accesses(&dump(folder), 18)), (Some(20), Some(19)), "{mode}");
    }
}

#[test]
fn the_map_of_a_served_log_has_what_is_newest_there() {
    let folder = made("mode = 'logging'\nlog = 'small'\nprimary = 'large'\n");
    let folder = folder.path();
    let (serving, mut client) = Serving::start(folder, &[]);
    assert!(dump(folder).is_empty());
    client.write(1 << 20, &[1; 8192], false).unwrap();
    client.write(4 << 20, &[2; 512], true).unwrap();
    let rows = dump(folder);
    let told: Vec<(u64, u64)> =
        rows.iter().map(|row| (row["offset"].as_u64().unwrap(), row["len"].as_u64().unwrap())).collect();
    assert_eq!(told, [(1 << 20, 8192), (4 << 20, 512)], "{rows:?}");
    // After a kill the log is as it was.
    drop((serving, client));
    assert_eq!(fixed(&dump(folder)), fixed(&rows));
}

/// Entries of one length are no sign of a cache, and a block device has no command for a hint.
#[test]
fn a_log_says_that_it_is_one_and_migrates_what_the_host_has_dropped() {
    let folder = made("mode = 'logging'\nlog = 'small'\nprimary = 'large'\n");
    let folder = folder.path();
    let (_serving, mut client) = Serving::start(folder, &[]);
    assert_eq!(ask(folder, "map")[0]["of"], "log_ranges", "even when it is empty");
    client.write(1 << 20, &[1; 4096], false).unwrap();
    client.write(4 << 20, &[2; 4096], true).unwrap();
    let text = peryton(folder, &["dump", "v.toml"]).ok().out;
    assert!(text.contains("map (offset, length, device and place") && text.contains("1048576 +4096 small"), "{text}");
    let hint = |offset: u64, length: u64| {
        asked(folder, &format!("{{\"verb\":\"evict\",\"offset\":{offset},\"length\":{length}}}")).remove(0)
    };
    assert_eq!(hint(1 << 20, 4096)["ok"], true);
    let began = Instant::now();
    while dump(folder).len() > 1 && began.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(50));
    }
    let left: Vec<u64> = dump(folder).iter().map(|row| row["offset"].as_u64().unwrap()).collect();
    assert_eq!(left, [4 << 20]);
    assert_eq!(client.read(1 << 20, 4096).unwrap(), [1; 4096]);
    for (offset, length) in [(16 << 20, 1), (u64::MAX, 4096)] {
        let refused = hint(offset, length);
        assert!(refused["error"].as_str().unwrap().contains("reach beyond the volume"), "{refused}");
    }
}

/// The fear: a large volume takes the memory of its whole map, whatever of it is used.
#[test]
fn what_was_never_accessed_takes_no_memory() {
    const GIB: u64 = 1 << 30;
    let folder = tempfile::tempdir().unwrap();
    let design = "[devices.small]\npath = 'small.img'\n[devices.large]\npath = 'large.img'\n[placement]\nmode = 'caching'\n\
                  fast = 'small'\nslow = 'large'\nextent = '16KiB'\n";
    for (name, bytes) in [("small.img", GIB), ("large.img", 256 * GIB)] {
        fs::File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
    }
    let (serving, client) = Serving::create(folder.path(), design);
    let extents = 256 * GIB / (16 << 10);
    let resident = serving.resident_bytes();
    assert!(resident < extents * 12, "{resident} bytes for {extents} extents");
    drop(client);
    stop(folder.path(), serving);
    let (serving, _client) = Serving::start(folder.path(), &[]);
    let again = serving.resident_bytes();
    assert!(again < extents * 12, "{again} bytes for {extents} extents after a start");
}
