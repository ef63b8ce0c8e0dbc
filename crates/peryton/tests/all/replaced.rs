//! `peryton replace`: a device is replaced while the volume is served. The fear: the command leaves the operator with a volume that does
//! not start, or says something that is not so.
#![cfg(target_os = "linux")]

use std::{fs, fs::File, io::Write, process::Command, time::Duration};

use crate::common::peryton;
use crate::interposed::{self, At, Point, terminate};
use crate::serving::Serving;

const MIB: u64 = 1 << 20;

const DESIGN: &str = "[devices.ssd]\npath = 'ssd.img'\nsize = '8MiB'\n[devices.hdd]\npath = 'hdd.img'\nsize = '32MiB'\n\
                      [placement]\nmode = 'tiering'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n";

#[test]
fn a_device_is_replaced_and_the_design_is_what_remains_to_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |args: &[&str]| peryton(at, args);
    let (serving, mut client) = Serving::create(at, DESIGN);
    let data: Vec<u8> = (0..4 * MIB).map(|byte| (byte / 4096 + byte) as u8).collect();
    client.write(20 * MIB, &data, true).unwrap();

    run(&["replace", "v.toml", "hdd"]).fails(2, &["--with"]);
    run(&["replace", "v.toml", "hdd", "--with", "none.img"]).fails(2, &["none.img", "there is nothing"]);
    run(&["replace", "v.toml", "hdd", "--with", "hdd.img"]).fails(2, &["is a device of the volume already"]);
    run(&["replace", "v.toml", "--stop"]).fails(2, &["no replace is under way"]);
    File::create(at.join("new.img")).unwrap().set_len(8 * MIB).unwrap();
    run(&["replace", "v.toml", "hdd", "--with", "new.img"]).fails(2, &["the new device has 8MiB", "'hdd'"]);
    File::create(at.join("new.img")).unwrap().set_len(64 * MIB).unwrap();
    run(&["replace", "v.toml", "hdd", "--with", "new.img", "--rate", "0"]).fails(2, &["--rate 0"]);

    let begun = run(&["replace", "v.toml", "hdd", "--with", "new.img", "--rate", "4MiB"]).ok();
    assert!(begun.out.contains("of 'hdd'; peryton status v.toml shows how far it is"), "{}", begun.out);
    let status = run(&["status", "v.toml"]).ok().out;
    assert!(status.contains("REPLACING: hdd by ") && status.contains("new.img: "), "{status}");
    run(&["replace", "v.toml", "ssd", "--with", "new.img"]).fails(2, &["is in use by another peryton"]);
    assert!(run(&["replace", "v.toml", "--stop"]).ok().out.contains("the old device stays"));

    // The first attempt has left a superblock there. What is of something else is refused.
    File::create(at.join("used.img")).unwrap().write_all(&data).unwrap();
    File::options().write(true).open(at.join("used.img")).unwrap().set_len(64 * MIB).unwrap();
    run(&["replace", "v.toml", "hdd", "--with", "used.img", "--wait"]).fails(2, &["used.img", "--force"]);
    let done = run(&["replace", "v.toml", "hdd", "--with", "new.img", "--wait"]).ok();
    let new = at.canonicalize().unwrap().join("new.img");
    assert_eq!(done.out, format!("'hdd' is {} now: set the path of 'hdd' in the design to it\n", new.display()));
    assert!(client.read(20 * MIB, data.len()).unwrap() == data);
    drop((client, serving));

    // The server was killed; the design still has the old path.
    let checked = run(&["check", "v.toml"]);
    assert!(checked.code != 0 && checked.out.contains("was replaced while the volume was served"), "{}", checked.out);
    run(&["serve", "v.toml"]).fails(2, &["'hdd'", "set its path to the device that took its place"]);
    fs::write(at.join("v.toml"), DESIGN.replace("hdd.img", "new.img")).unwrap();
    let (_serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(20 * MIB, data.len()).unwrap() == data);
}

/// The fear: the server has died, and what only the old device has is given up without a word.
#[test]
fn a_device_with_the_only_copy_is_given_up_only_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |args: &[&str]| peryton(at, args);
    let (serving, mut client) = Serving::create(at, DESIGN);
    let data = vec![7; 1 << 20];
    client.write(20 * MIB, &data, true).unwrap();
    drop((client, serving));

    File::create(at.join("new.img")).unwrap().set_len(8 * MIB).unwrap();
    let replace = ["replace", "v.toml", "ssd", "--with", "new.img"];
    for args in [&["re-add", "v.toml", "other"][..], &["replace", "v.toml", "other", "--with", "new.img"]] {
        run(args).fails(2, &["there is no device 'other'", "'ssd' and 'hdd'"]);
    }
    run(&replace).fails(2, &["ssd.img) is there, and has 16 extents", "serve the volume", "--accept-loss"]);
    let (serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(20 * MIB, data.len()).unwrap() == data);
    drop((client, serving));

    let kept = fs::read(at.join("ssd.img")).unwrap();
    let set = ["--accept-loss", "--update-design", "--json", "--set", "devices.ssd.path=ssd.img"];
    let done = run(&[&replace[..], &set].concat());
    assert!(done.code == 1 && done.err.contains("the design is unchanged: "), "{} {}", done.code, done.err);
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert!(told["lost_extents"] == 16 && told["design_error"].as_str().unwrap().contains("--set"), "{told}");
    fs::write(at.join("ssd.img"), kept).unwrap();
    let again = ["--accept-loss", "--update-design", "--force"];
    let done = run(&[&replace[..], &again].concat()).ok();
    assert!(done.out.contains("16 extents are lost") && done.out.contains("v.toml has the new path"), "{}", done.out);
    let (_serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(20 * MIB, data.len()).is_err());
}

/// The fear: the file system of the new device is full, and nobody says so, or the command cannot be repeated.
#[test]
fn a_new_device_without_space_is_named_with_the_reason_and_the_command_can_be_repeated() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |args: &[&str]| peryton(at, args);
    fs::write(at.join("v.toml"), DESIGN).unwrap();
    run(&["create", "v.toml"]).ok();
    File::create(at.join("new.img")).unwrap().set_len(64 * MIB).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_peryton"));
    server.args(["serve", "v.toml"]).current_dir(at).stderr(File::create(at.join("err")).unwrap());
    let full = At { nth: 20, point: Point::Fills, files: vec![at.join("new.img")] };
    let Some(mut watched) = interposed::start(server, full) else { return };
    let client = interposed::client(at, &mut watched.child, PATIENCE).expect("it is served");
    drop(client);
    let replace = ["replace", "v.toml", "hdd", "--with", "new.img", "--wait"];
    run(&replace).fails(1, &["'hdd' is not replaced", "No space left on device"]);
    watched.disarm();
    assert!(run(&replace).ok().out.contains("'hdd' is "));
    terminate(&watched.child);
    assert!(interposed::ended(&mut watched.child, PATIENCE, String::new).success());
}
