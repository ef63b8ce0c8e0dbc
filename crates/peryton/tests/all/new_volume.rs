//! `peryton create --fast DEVICE --slow DEVICE`, and which devices it refuses. The fear: it overwrites a design, or a device
//! that is in use.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::{self, Run, peryton};
use crate::serving::Serving;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A folder with two empty devices.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("fast.img", 16 * MIB), ("slow.img", 64 * MIB)] {
        File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
    }
    folder
}

/// Makes a volume whose design is volume.toml, unless `more` begins with another.
fn format(folder: &Path, more: &[&str]) -> Run {
    let is_named = more.first().is_some_and(|word| word.ends_with(".toml"));
    let name = if is_named { &[][..] } else { &["volume.toml"] };
    peryton(folder, &[&["create", "--fast", "fast.img", "--slow", "slow.img"], name, more].concat())
}

fn is_empty(path: &Path) -> bool {
    fs::read(path).unwrap().iter().all(|byte| *byte == 0)
}

#[test]
fn a_volume_on_two_devices_needs_no_design_but_the_one_that_is_written() {
    for (mode, more) in [
        ("caching", &["--write", "through"][..]),
        ("caching", &[]),
        ("tiering", &[]),
        ("partitioned", &[]),
        ("logging", &[]),
    ] {
        let folder = folder();
        let made = format(folder.path(), &[&["v.toml", "--json", "--mode", mode], more].concat()).ok();
        let value: Value = serde_json::from_str(&made.out).unwrap();
        assert_eq!(value["design"], "v.toml", "{value}");
        let is_risky = more.is_empty();
        assert_eq!(value["remarks"].as_array().map_or(0, Vec::len), usize::from(is_risky), "{mode}: {value}");
        assert_eq!(made.err.contains("two drives as md RAID 1"), is_risky, "{mode}: {}", made.err);
        // Also from another folder.
        let away = tempfile::tempdir().unwrap();
        peryton(away.path(), &["check", folder.path().join("v.toml").to_str().unwrap()]).ok();
        let (_serving, mut client) = Serving::start(folder.path(), &[]);
        assert_eq!(Some(client.size), value["size"].as_u64());
        client.write(0, &[7; 4096], true).unwrap();
    }
}

#[test]
fn a_design_that_is_there_is_overwritten_only_by_force() {
    let folder = folder();
    let design = folder.path().join("volume.toml");
    fs::write(&design, "mine").unwrap();
    format(folder.path(), &[]).fails(2, &["volume.toml: there is a design already", "stays as it is"]);
    assert_eq!(fs::read_to_string(&design).unwrap(), "mine");
    assert!(is_empty(&folder.path().join("fast.img")) && is_empty(&folder.path().join("slow.img")));
    // A link that leads nowhere is a name that is taken, too.
    std::os::unix::fs::symlink("nowhere", folder.path().join("link.toml")).unwrap();
    format(folder.path(), &["link.toml"]).fails(2, &["link.toml: there is a design already"]);
    let made = format(folder.path(), &["--force"]).ok();
    assert!(made.out.contains("peryton serve volume.toml"), "{}", made.out);
    assert!(fs::read_to_string(&design).unwrap().contains("mode = \"caching\""));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "something is left behind");
}

#[test]
fn a_volume_that_cannot_be_made_leaves_no_design_behind_and_a_former_one_as_it_was() {
    let folder = folder();
    let content = vec![7; 5 * MIB as usize];
    fs::write(folder.path().join("slow.img"), &content).unwrap();
    format(folder.path(), &["v.toml"]).fails(2, &["'slow' holds data of an unknown kind", "name another device"]);
    assert!(!folder.path().join("v.toml").exists());
    // By force what is there would be destroyed, but this device is too small.
    File::create(folder.path().join("fast.img")).unwrap().set_len(4096).unwrap();
    fs::write(folder.path().join("v.toml"), "mine").unwrap();
    format(folder.path(), &["v.toml", "--force"]).fails(2, &["devices.fast"]);
    assert_eq!(fs::read_to_string(folder.path().join("v.toml")).unwrap(), "mine");
    assert!(fs::read(folder.path().join("slow.img")).unwrap() == content);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "something is left behind");
    // Files that were made for it go as well, whether the other device is refused when it is opened or later.
    for slow in ["nowhere/slow.img", "slow.img"] {
        let new =
            ["create", "new.toml", "--mode", "caching", "--fast", "new.img", "--fast-size", "8MiB", "--slow", slow];
        peryton(folder.path(), &[&new[..], &["--size", "64MiB"]].concat()).fails(2, &["'slow'"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "{slow}: something is left behind");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let folder = folder();
    format(folder.path(), &["--mode", "tiering", "--write", "back"])
        .fails(2, &["--write: has no effect with --mode tiering"]);
    peryton(folder.path(), &["create", "v.toml", "--fast", "fast.img"]).fails(2, &["--slow"]);
    peryton(folder.path(), &["create", "v.toml"]).fails(2, &["v.toml: there is no such design", "--fast"]);
    peryton(folder.path(), &["create"]).fails(2, &["NAME"]);
    peryton(folder.path(), &["create", "v.toml", "--fast", "none.img", "--slow", "slow.img"])
        .fails(2, &["none.img", "is there"]);
    peryton(folder.path(), &["create", "v.toml", "--fast", "slow.img", "--slow", "./slow.img"])
        .fails(2, &["are the same"]);
    assert!(!folder.path().join("volume.toml").exists());
}

/// What this test has set up, which is taken down again in the opposite order.
struct Tidied(Vec<Vec<String>>);

impl Drop for Tidied {
    fn drop(&mut self) {
        for command in self.0.iter().rev() {
            let _ = Command::new(&command[0]).args(&command[1..]).output();
        }
    }
}

fn sh(command: &[&str]) -> Option<Output> {
    Command::new(command[0]).args(&command[1..]).output().ok().filter(|output| output.status.success())
}

/// A loop device with partitions, if this machine lets us have one.
fn loop_device(file: &Path, tidied: &mut Tidied) -> Option<PathBuf> {
    let made = sh(&["losetup", "--find", "--show", "--partscan", file.to_str()?])?;
    let path = String::from_utf8(made.stdout).ok()?.trim().to_owned();
    tidied.0.push(vec!["losetup".into(), "--detach".into(), path.clone()]);
    Some(path.into())
}

/// The users that this machine can make, of a real block device; `crates/drive/src/block` has tests of the others.
#[test]
fn devices_in_use_are_refused_by_what_uses_them_even_by_force() {
    let folder = folder();
    let mut tidied = Tidied(Vec::new());
    let slow = folder.path().join("slow.img");
    let Some(device) = loop_device(&slow, &mut tidied) else {
        return eprintln!("skipped: this needs root and loop devices");
    };
    let device = device.to_str().unwrap();
    let refused = |parts: &[&str]| {
        for (slow, more) in [(device, &["--force"][..]), (device, &[])] {
            let run =
                peryton(folder.path(), &[&["create", "w.toml", "--fast", "fast.img", "--slow", slow], more].concat());
            run.fails(2, parts);
        }
        assert!(!folder.path().join("volume.toml").exists());
    };
    // The file of a loop device.
    format(folder.path(), &["--force"]).fails(2, &["'slow' is the file of the loop device loop", "losetup --detach"]);
    let mounted = folder.path().join("a mount");
    fs::create_dir(&mounted).unwrap();
    for command in [["umount", mounted.to_str().unwrap()], ["swapoff", device]] {
        tidied.0.push(command.map(str::to_owned).to_vec());
    }
    if sh(&["mkfs.ext4", "-q", device]).is_some() && sh(&["mount", device, mounted.to_str().unwrap()]).is_some() {
        refused(&[device, "'slow' is mounted at", "a mount: unmount it first"]);
        sh(&["umount", mounted.to_str().unwrap()]).unwrap();
        let run = peryton(folder.path(), &["create", "w.toml", "--fast", "fast.img", "--slow", device]);
        run.fails(2, &["'slow' holds an ext2, ext3 or ext4 file system: name another device"]);
    } else {
        eprintln!("skipped: a file system that is mounted");
    }
    if sh(&["mkswap", device]).is_some() && sh(&["swapon", device]).is_some() {
        refused(&[device, "'slow' is used as swap space: swapoff it first"]);
        sh(&["swapoff", device]).unwrap();
    } else {
        eprintln!("skipped: swap space in use");
    }
    // A disk of which one partition is in use.
    let mut table = [0; 512];
    table[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    std::os::unix::fs::FileExt::write_all_at(&fs::OpenOptions::new().write(true).open(device).unwrap(), &table, 0)
        .unwrap();
    let partition = format!("{device}p1");
    if sh(&["partx", "--add", device]).is_some()
        && sh(&["mkfs.ext4", "-q", &partition]).is_some()
        && sh(&["mount", &partition, mounted.to_str().unwrap()]).is_some()
    {
        let name = partition.trim_start_matches("/dev/");
        refused(&[&format!("'slow' has the partition {name}, which is mounted at")]);
        sh(&["umount", mounted.to_str().unwrap()]).unwrap();
        let run = peryton(folder.path(), &["create", "w.toml", "--fast", "fast.img", "--slow", device]);
        run.fails(2, &["'slow' holds swap space"]);
    } else {
        eprintln!("skipped: a partition that is mounted");
    }
    // Another program has it for itself.
    let holder =
        "import os,sys,time; os.open(sys.argv[1], os.O_RDWR | os.O_EXCL); print('open', flush=True); time.sleep(60)";
    let mut holder =
        Command::new("python3").args(["-c", holder, device]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut String::new())
        .unwrap();
    // That it is waited for is said meanwhile.
    let asked = ["create", "w.toml", "--fast", "fast.img", "--slow", device];
    let told = peryton(folder.path(), &asked);
    assert!(told.err.contains("is in use: waiting for at most 5 s"), "{}", told.err);
    let run = peryton(folder.path(), &[&asked[..], &["--quiet"]].concat());
    holder.kill().and_then(|()| holder.wait()).unwrap();
    run.fails(2, &["'slow' is in use by another program", "holds swap space", "lsof"]);
    // Only its content is left.
    let made = peryton(folder.path(), &["create", "v.toml", "--fast", "fast.img", "--slow", device, "--force"]).ok();
    let text = fs::read_to_string(folder.path().join("v.toml")).unwrap();
    assert!(made.out.contains(device) && text.contains("may be another device"), "{}{text}", made.out);
    peryton(folder.path(), &["check", "v.toml"]).ok();
}

#[test]
fn without_paths_the_design_is_for_simulations() {
    let folder = common::folder();
    let run = peryton(folder.path(), &["create", "design.toml", "--mode", "caching"]).ok();
    assert!(run.out.contains("design.toml, caching") && run.out.contains("nothing was formatted"), "{}", run.out);
    let text = fs::read_to_string(folder.path().join("design.toml")).unwrap();
    assert!(text.contains("# ") && text.contains("write = \"back\"") && text.contains("peryton create"), "{text}");
    peryton(folder.path(), &["sim", "design.toml", "--trace", "trace.csv", "--limit", "100"]).ok();
    // It is not overwritten by mistake.
    peryton(folder.path(), &["create", "design.toml", "--mode", "caching"])
        .fails(2, &["design.toml: there is a design", "--force"]);
    peryton(folder.path(), &["create", "design.toml", "--force", "--write", "through"]).ok();
    assert!(fs::read_to_string(folder.path().join("design.toml")).unwrap().contains("write = \"through\""));
    let printed = peryton(folder.path(), &["create", "-", "--mode", "tiering", "--size", "64GiB"]).ok();
    assert!(printed.out.contains("mode = \"tiering\"") && printed.out.contains("size = \"64GiB\""), "{}", printed.out);
}

#[test]
fn image_files_with_sizes_are_made() {
    let folder = common::folder();
    let options =
        ["--fast", "a.img", "--fast-size", "64MiB", "--slow", "b.img", "--size", "256MiB", "--fast-profile", "fixed"];
    let made = peryton(folder.path(), &[&["create", "my.toml"][..], &options].concat()).ok();
    assert!(made.out.contains("peryton serve my.toml"), "{}", made.out);
    peryton(folder.path(), &["check", "my.toml"]).ok();
}

#[test]
fn mistakes_in_a_design_are_one_line_and_write_nothing() {
    let folder = common::folder();
    let table: &[(&[&str], &[&str])] = &[
        (&["--mode", "cache"], &["cache", "caching"]),
        (&["--fast-profile", "wd-black"], &["wd-black", "did you mean"]),
        (&["--mode", "tiering", "--write", "back"], &["--write", "tiering"]),
        (&["--mode", "single", "--slow-profile", "fixed"], &["--slow-profile", "single"]),
        (&["--fast-size", "100TiB"], &["devices.fast.size"]),
        (&["--size", "0"], &["volume.size"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), &[&["create", "design.toml"][..], args].concat()).fails(2, parts);
        assert!(!folder.path().join("design.toml").exists(), "{args:?}");
    }
    peryton(folder.path(), &["create", "nowhere/my.toml", "--mode", "caching"]).fails(1, &["nowhere/my.toml"]);
    for name in ["", "..", "-x", "a b", "ä", "x".repeat(49).as_str()] {
        peryton(folder.path(), &["create", "--mode", "caching", "--", name]).fails(2, &["is no name for a volume"]);
    }
}
