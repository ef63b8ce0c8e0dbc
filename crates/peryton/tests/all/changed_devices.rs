//! `peryton remove`, `re-add` and `replace --update-design` of a volume that is being served. The fear: the operator pulls a device that
//! is needed, or is left with a volume that does not start without a hand.
#![cfg(target_os = "linux")]

use std::{
    fs,
    fs::File,
    thread,
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::serving::Serving;
use peryton_format::holder::RENEWED_EVERY_S;

const MIB: u64 = 1 << 20;

const DESIGN: &str = "# Of the attic.\n[devices.ssd]\npath = 'ssd.img'   # the fast one\nsize = '32MiB'\n[devices.hdd]\npath = 'hdd.img'\nsize = '32MiB'\n\
                      [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\nwriteback = { delay = '1h', max_age = '2h' }\n";

#[test]
fn an_evacuated_device_is_pulled_and_comes_back_and_the_design_follows() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |args: &[&str]| peryton(at, args);
    let (serving, mut client) = Serving::create(at, DESIGN);
    // So much, and in this order, that it is neither "little", which goes home at once, nor a stream, which goes past the cache.
    let data: Vec<u8> = (0..6 * MIB).map(|byte| (byte / 4096 + byte) as u8).collect();
    for from in (0..data.len()).step_by(64 << 10).rev() {
        client.write(4 * MIB + from as u64, &data[from..from + (64 << 10)], false).unwrap();
    }
    client.flush().unwrap();

    run(&["remove", "v.toml"]).fails(2, &["DEVICE"]);
    run(&["remove", "v.toml", "hdd"]).fails(2, &["'hdd' has all 32MiB", "peryton replace"]);
    run(&["remove", "v.toml", "--stop"]).fails(2, &["no remove is under way"]);
    run(&["remove", "v.toml", "ssd", "--rate", "0"]).fails(2, &["--rate 0"]);
    run(&["re-add", "v.toml", "ssd"]).fails(2, &["'ssd' is part of the volume"]);
    let begun = run(&["remove", "v.toml", "ssd", "--rate", "64KiB"]).ok();
    assert!(begun.out.contains("of 'ssd'; peryton status v.toml shows how far it is"), "{}", begun.out);
    let status = run(&["status", "v.toml"]).ok().out;
    assert!(status.contains("REMOVING: ssd: "), "{status}");
    run(&["replace", "v.toml", "hdd", "--with", "x.img"]).fails(2, &["x.img"]);
    // The server is killed amid it: nothing has changed.
    drop((client, serving));
    run(&["check", "v.toml"]);
    let (serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(4 * MIB, data.len()).unwrap() == data);
    assert!(!run(&["status", "v.toml"]).ok().out.contains("REMOVING"));
    let done = run(&["remove", "v.toml", "ssd", "--wait"]).ok();
    assert_eq!(done.out, "'ssd' is removed: the volume goes on without it, and it can be taken out\n");
    let status = run(&["status", "v.toml"]).ok().out;
    assert!(status.contains("removed: ssd") && !status.contains("DEGRADED"), "{status}");
    fs::rename(at.join("ssd.img"), at.join("pulled.img")).unwrap();
    assert!(client.read(4 * MIB, data.len()).unwrap() == data);
    drop((client, serving));

    // It is neither needed nor waited for.
    let checked = run(&["check", "v.toml"]);
    assert!(!checked.out.contains("superblock is not whole") && !checked.out.contains("missing"), "{}", checked.out);
    let (serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(4 * MIB, data.len()).unwrap() == data);
    run(&["re-add", "v.toml", "ssd"]).fails(2, &["ssd.img", "there is nothing", "--path"]);
    let done = run(&["re-add", "v.toml", "ssd", "--path", "pulled.img", "--update-design"]).ok();
    assert!(done.out.contains("'ssd' is part of the volume again after a pause of"), "{}", done.out);
    assert!(client.read(4 * MIB, data.len()).unwrap() == data);
    File::create(at.join("new.img")).unwrap().set_len(64 * MIB).unwrap();
    let done = run(&["replace", "v.toml", "hdd", "--with", "new.img", "--wait", "--update-design"]).ok();
    let real = at.canonicalize().unwrap();
    let (new, design) = (real.join("new.img"), real.join("v.toml"));
    assert!(done.out.contains(&format!("'hdd' is {} now\n", new.display())), "{}", done.out);
    assert!(done.out.contains("v.toml has the new path"), "{}", done.out);
    let text = fs::read_to_string(design).unwrap();
    let pulled = real.join("pulled.img").display().to_string();
    let replaced = |quote: &str| {
        DESIGN
            .replace("'ssd.img'", &format!("{quote}{pulled}{quote}"))
            .replace("'hdd.img'", &format!("{quote}{}{quote}", new.display()))
    };
    assert_eq!(text, replaced("\""));
    drop((client, serving));

    // The volume starts without a hand.
    let (serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(4 * MIB, data.len()).unwrap() == data);
    drop((client, serving));
    let (serving, client) = Serving::start(at, &["--set", "devices.hdd.path=new.img"]);
    let refused = run(&["replace", "v.toml", "hdd", "--with", "x.img", "--update-design"]);
    refused.fails(2, &["--update-design", "devices.hdd.path was given with --set"]);
    drop((client, serving));
}

/// The fear: a device names a server that was killed, and the one that takes it back stops, because that one seems to have it.
#[test]
fn a_device_of_a_server_that_was_killed_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("v.toml"), DESIGN).unwrap();
    peryton(at, &["create", "v.toml"]).ok();
    drop(Serving::start(at, &[]));
    fs::rename(at.join("ssd.img"), at.join("pulled.img")).unwrap();
    let (_serving, mut client) = Serving::start(at, &["--without", "ssd"]);
    fs::rename(at.join("pulled.img"), at.join("ssd.img")).unwrap();
    peryton(at, &["re-add", "v.toml", "ssd", "--wait"]).ok();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(RENEWED_EVERY_S + 1) {
        client.read(0, 4096).unwrap();
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_for_a_volume_in_service_is_refused_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("v.toml"), DESIGN).unwrap();
    peryton(at, &["re-add", "v.toml", "ssd", "--wait"]).fails(2, &["--wait", "is not"]);
    for verb in ["status", "top", "events", "writeback"] {
        let once: &[&str] = if verb == "top" { &["--once"] } else { &[] };
        peryton(at, &[&[verb, "v.toml"], once].concat())
            .fails(3, &["'v.toml' is not being served", "peryton serve v.toml"]);
        peryton(at, &[&[verb, "w.toml"], once].concat()).fails(2, &["w.toml", "give the path of a design"]);
    }
}
