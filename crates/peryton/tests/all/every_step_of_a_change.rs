//! Each step of a change in service: the server is killed at its n-th write, flush or discard, or that one fails, or the device refuses
//! all from there on, or is full. Then the volume goes on as it was or as it becomes, clients are not cut, and what was flushed is there when
//! it is opened again. The pause in which requests wait is measured.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::interposed::{self, At, Point};
use crate::served::Client;

const BLOCK: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(30);
/// So long a change waits for room before there is some.
const WITHOUT_ROOM: Duration = Duration::from_millis(500);
const SMALL: &str = "small.img";
const NEW: &str = "new.img";
const ALL: &[&str] = &[SMALL, "large.img", NEW];
const FAST: &[&str] = &[SMALL, NEW];

/// What happens, and to which files.
const FAULTS: [(Point, &[&str]); 6] = [
    (Point::Fails, ALL),
    (Point::Refuses, ALL),
    (Point::Refuses, FAST),
    (Point::Fills, ALL),
    (Point::Dies, FAST),
    (Point::Kills, ALL),
];

/// A change.
struct Change {
    name: &'static str,
    args: &'static [&'static str],
    /// What is done to the files before it.
    prepare: fn(&Path),
    /// Whether the volume is without the fast device before.
    removed: bool,
}

fn nothing(_: &Path) {}

fn larger(folder: &Path) {
    let small = File::options().write(true).open(folder.join(SMALL)).unwrap();
    small.set_len(small.metadata().unwrap().len() + (512 << 10)).unwrap();
}

fn a_new_one(folder: &Path) {
    File::create(folder.join(NEW)).unwrap().set_len(fs::metadata(folder.join(SMALL)).unwrap().len()).unwrap();
}

const CHANGES: [Change; 6] = [
    Change { name: "remove", args: &["remove", "v.toml", "small", "--wait"], prepare: nothing, removed: false },
    Change { name: "grow", args: &["resize", "v.toml", "small", "--wait"], prepare: larger, removed: false },
    Change {
        name: "shrink",
        args: &["resize", "v.toml", "small", "--to", "384KiB", "--wait"],
        prepare: nothing,
        removed: false,
    },
    Change {
        name: "replace",
        args: &["replace", "v.toml", "small", "--with", NEW, "--wait"],
        prepare: a_new_one,
        removed: false,
    },
    Change {
        name: "fill",
        args: &["replace", "v.toml", "small", "--with", NEW, "--wait"],
        prepare: a_new_one,
        removed: true,
    },
    Change { name: "re-add", args: &["re-add", "v.toml", "small", "--wait"], prepare: nothing, removed: true },
];

fn design() -> String {
    let device =
        |name: &str, size: &str| format!("[devices.{name}]\nprofile = 'fixed'\nsize = '{size}'\npath = '{name}.img'\n");
    format!(
        "{}{}[durability]\nprocess_death = 'shared-memory'\ndirectory = '.'\n[failure]\npatience = '0s'\n[placement]\n\
         mode = 'caching'\nfast = 'small'\nslow = 'large'\nextent = '16KiB'\ncommit_interval = '20ms'\n\
         promotion = {{ threshold = 0 }}\ndemotion = {{ low = 4, high = 8 }}\nwriteback = {{ delay = '10min' }}\n",
        device("small", "512KiB"),
        device("large", "1MiB")
    )
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(File::create(folder.join("err")).unwrap());
    command
}

fn ended(child: &mut Child, folder: &Path) -> ExitStatus {
    interposed::ended(child, PATIENCE, || fs::read_to_string(folder.join("err")).unwrap())
}

fn client(folder: &Path, child: &mut Child) -> Option<Client> {
    interposed::client(folder, child, PATIENCE)
}

fn terminate(child: &mut Child, folder: &Path) -> ExitStatus {
    interposed::terminate(child);
    ended(child, folder)
}

/// A folder in memory, where flushes take no time, if there is one.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir().then(|| tempfile::tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn value(block: u64) -> u8 {
    1 + (block % 200) as u8
}

/// A volume that was closed, dirty, with or without its fast device.
fn base(removed: bool) -> tempfile::TempDir {
    let folder = folder();
    fs::write(folder.path().join("v.toml"), design()).unwrap();
    peryton(folder.path(), &["create", "v.toml"]).ok();
    let mut child = command(folder.path(), &["serve", "v.toml"]).spawn().unwrap();
    let mut client = client(folder.path(), &mut child).expect("it is served");
    for block in 0..client.size / BLOCK as u64 {
        client.write(block * BLOCK as u64, &[value(block); BLOCK], false).unwrap();
    }
    client.flush().unwrap();
    if removed {
        peryton(folder.path(), &["remove", "v.toml", "small", "--wait"]).ok();
    }
    drop(client);
    assert!(terminate(&mut child, folder.path()).success());
    folder
}

/// Compares; `may_lack`: what only a device has that died may be lost.
fn check(client: &mut Client, folder: &Path, may_lack: bool, case: &str) {
    for block in 0..client.size / BLOCK as u64 {
        match client.read(block * BLOCK as u64, BLOCK) {
            Ok(found) => {
                assert!(found.iter().all(|byte| *byte == value(block)), "{case}: block {block} is {}", found[0])
            }
            Err(_) if may_lack => {}
            Err(error) => {
                panic!("{case}: block {block}: {error}: {}", fs::read_to_string(folder.join("err")).unwrap())
            }
        }
    }
}

/// Opens the volume untouched, as it was or as it has become, and compares.
fn check_again(folder: &Path, may_lack: bool, case: &str) {
    let others: [&[&str]; 3] = [
        &["serve", "v.toml"],
        &["serve", "v.toml", "--set", "devices.small.path=new.img"],
        &["serve", "v.toml", "--without", "small"],
    ];
    let mut said = String::new();
    for args in others {
        let mut child = command(folder, args).spawn().unwrap();
        let Some(mut client) = client(folder, &mut child) else {
            said += &fs::read_to_string(folder.join("err")).unwrap();
            continue;
        };
        check(&mut client, folder, may_lack, &format!("{case}, opened again by {args:?} ({said})"));
        drop(client);
        assert!(terminate(&mut child, folder).success(), "{case}: {}", fs::read_to_string(folder.join("err")).unwrap());
        return;
    }
    panic!("{case}: it is not served any more: {said}");
}

fn status(folder: &Path) -> serde_json::Value {
    serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).out).unwrap_or_default()
}

/// What came of a change.
struct Done {
    /// How many steps there were.
    steps: u32,
    took: Duration,
    said: String,
}

/// Tries a change with something happening at the `nth` step of it; `None` if calls cannot be seen here.
fn tried(base: &Path, change: &Change, (point, names): (Point, &[&str]), nth: u32) -> Option<Done> {
    let folder = folder();
    let folder = folder.path();
    for entry in fs::read_dir(base).unwrap().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_file()) {
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    (change.prepare)(folder);
    let case = format!("{}, {point:?} at {nth} of {names:?}", change.name);
    let files = names.iter().map(|name| folder.join(name)).collect();
    let mut watched = interposed::start(command(folder, &["serve", "v.toml"]), At { nth: 0, point, files })?;
    let mut client = client(folder, &mut watched.child).expect("it is served");
    check(&mut client, folder, false, &case);
    let before = watched.calls();
    watched.arm(nth);
    let began = Instant::now();
    let mut asked = Command::new(env!("CARGO_BIN_EXE_peryton"));
    asked.args(change.args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    asked.stderr(File::create(folder.join("said")).unwrap());
    let mut asked = asked.spawn().unwrap();
    while point == Point::Fills && began.elapsed() < WITHOUT_ROOM && asked.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    if point == Point::Fills {
        watched.disarm();
    }
    let succeeded = ended(&mut asked, folder).success();
    let untouched = !watched.has_happened();
    let steps = watched.calls() - before;
    let said = fs::read_to_string(folder.join("said")).unwrap();
    let took = began.elapsed();
    let may_lack = point == Point::Dies && !untouched;
    if untouched {
        assert!(succeeded, "{case}: nothing failed: {said}");
        let pause = status(folder)["last_change"]["pause_s"].as_f64();
        assert!(pause.is_none_or(|pause| pause < 5.0), "{case}: {pause:?}");
    }
    if point == Point::Kills && !untouched {
        ended(&mut watched.child, folder);
        drop(client);
    } else {
        let alive = watched.child.try_wait().unwrap().is_none();
        let said = fs::read_to_string(folder.join("err")).unwrap();
        assert!(alive, "{case}: the server has ended: {said}");
        check(&mut client, folder, may_lack, &case);
        watched.disarm();
        check(&mut client, folder, may_lack, &case);
        let written = client.write(0, &[value(0); BLOCK], false);
        // A flush that has failed is told once.
        let _ = client.flush();
        let flushed = client.flush();
        if written.is_err() || flushed.is_err() {
            let status = status(folder);
            let refuses = |state: &serde_json::Value| ["read_only", "outage"].iter().any(|refuses| state == refuses);
            let is_refused = point == Point::Refuses && refuses(&status["state"]);
            assert!(
                is_refused,
                "{case}: {written:?}, {flushed:?}: {}, {status}",
                fs::read_to_string(folder.join("err")).unwrap()
            );
        }
        drop(client);
        let status = terminate(&mut watched.child, folder);
        let error = fs::read_to_string(folder.join("err")).unwrap();
        assert!(status.success() || error.contains("recovered when it is opened next"), "{case}: {status:?}: {error}");
    }
    check_again(folder, may_lack, &case);
    Some(Done { steps, took, said })
}

/// With `EVERY=N` each N-th step is tried, otherwise one drawn for each fault (`SEED`).
fn every_step(change: &Change) {
    let base = base(change.removed);
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let mut random = number("SEED").unwrap_or(change.name.len() as u64);
    let mut counted: Vec<(&[&str], u32)> = Vec::new();
    for fault in FAULTS {
        let known = counted.iter().find(|(names, _)| *names == fault.1).map(|(_, steps)| *steps);
        let steps =
            known.or_else(|| tried(base.path(), change, (Point::Fails, fault.1), u32::MAX / 2).map(|done| done.steps));
        let Some(steps) = steps else { return eprintln!("not run, for lack of seccomp filters that report calls") };
        counted.push((fault.1, steps));
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = 1 + (random >> 33) as u32 % steps;
        let every = number("EVERY").map_or(0, |every: u64| every as u32);
        for nth in (1..=steps).filter(|nth| if every > 0 { nth % every == 0 } else { *nth == drawn }) {
            let Some(Done { took, said, .. }) = tried(base.path(), change, fault, nth) else { return };
            println!("{}: {fault:?} at {nth} of {steps}: {took:.2?} {}", change.name, said.trim());
        }
    }
}

#[test]
fn a_device_leaves() {
    every_step(&CHANGES[0]);
}

#[test]
fn a_device_grows() {
    every_step(&CHANGES[1]);
}

#[test]
fn a_device_shrinks() {
    every_step(&CHANGES[2]);
}

#[test]
fn a_device_is_replaced() {
    every_step(&CHANGES[3]);
}

#[test]
fn an_empty_device_takes_the_place_of_one_that_left() {
    every_step(&CHANGES[4]);
}

#[test]
fn a_device_comes_back() {
    every_step(&CHANGES[5]);
}
