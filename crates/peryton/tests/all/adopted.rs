//! `peryton import`: disks with real file systems are taken over, used and given back. The fear: a byte of them is lost or moved, the
//! disk alone is mounted while the fast device has newer data, or a disk is taken over that cannot be.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
    process::Command,
};

use crate::common::{Run, peryton};
use crate::served::Client;
use crate::serving::Serving;
use serde_json::Value;

const MIB: u64 = 1 << 20;
const PIECE: usize = 256 << 10;

/// Runs a tool; `None` if it is not there.
fn tool(folder: &Path, name: &str, args: &[&str]) -> Option<std::process::Output> {
    let path = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|at| Path::new(at).join(name));
    let path = path.iter().find(|path| path.exists())?;
    Some(Command::new(path).args(args).current_dir(folder).output().unwrap())
}

fn ok(what: &str, output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {said}");
}

fn empty(folder: &Path, name: &str, size: u64) {
    File::create(folder.join(name)).unwrap().set_len(size).unwrap();
}

/// Bytes that depend on a seed.
fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Files for a file system.
fn tree(folder: &Path) {
    fs::create_dir_all(folder.join("tree/below/it")).unwrap();
    for number in 0..60 {
        let at = ["tree", "tree/below", "tree/below/it"][number as usize % 3];
        fs::write(folder.join(at).join(format!("file{number}")), bytes(number, 1000 + 7919 * number as usize)).unwrap();
    }
}

/// A file system on slow.img, with files; `None` if it cannot be made here.
fn file_system(folder: &Path, kind: &str) -> Option<()> {
    tree(folder);
    let made = match kind {
        "ext4" => {
            empty(folder, "slow.img", 64 * MIB);
            tool(folder, "mkfs.ext4", &["-q", "-F", "-d", "tree", "slow.img"])?
        }
        _ => {
            empty(folder, "slow.img", 320 * MIB);
            let mut proto = String::from("/\n0 0\nd--755 0 0\n");
            for number in 0..60 {
                let at = ["tree", "tree/below", "tree/below/it"][number % 3];
                let path = folder.join(at).join(format!("file{number}"));
                proto.push_str(&format!("file{number} ---644 0 0 {}\n", path.display()));
            }
            fs::write(folder.join("proto"), proto + "$\n").unwrap();
            tool(folder, "mkfs.xfs", &["-q", "-f", "-p", "proto", "slow.img"])?
        }
    };
    ok(kind, &made);
    Some(())
}

/// The file system is whole, by its own checker.
fn check(folder: &Path, kind: &str, image: &str) {
    let checked = match kind {
        "ext4" => tool(folder, "e2fsck", &["-fn", image]),
        _ => tool(folder, "xfs_repair", &["-n", image]),
    };
    if let Some(checked) = checked {
        ok(kind, &checked);
    }
}

/// All files of an ext4 file system, with a checksum of each.
fn files_of_ext4(folder: &Path, image: &str) -> String {
    let to = folder.join("dumped");
    let _ = fs::remove_dir_all(&to);
    fs::create_dir(&to).unwrap();
    let Some(dumped) = tool(folder, "debugfs", &["-R", "rdump / dumped", image]) else { return String::new() };
    ok("debugfs", &dumped);
    let sums =
        Command::new("sh").arg("-c").arg("find . -type f | sort | xargs sha256sum").current_dir(&to).output().unwrap();
    ok("sha256sum", &sums);
    String::from_utf8(sums.stdout).unwrap()
}

fn adopt(folder: &Path, more: &[&str]) -> Run {
    peryton(folder, &[&["import", "v.toml", "--slow", "slow.img", "--fast", "fast.img"], more].concat())
}

fn read_all(client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    while (all.len() as u64) < client.size {
        let len = PIECE.min(client.size as usize - all.len());
        all.extend(client.read(all.len() as u64, len).unwrap());
    }
    all
}

/// Writes what differs, as a file system on the volume would.
fn write_differences(client: &mut Client, before: &[u8], after: &[u8]) -> usize {
    let mut written = 0;
    for (index, (before, after)) in before.chunks(4096).zip(after.chunks(4096)).enumerate() {
        if before != after {
            client.write(index as u64 * 4096, after, false).unwrap();
            written += 1;
        }
    }
    client.flush().unwrap();
    written
}

#[test]
fn a_file_system_keeps_every_byte_and_comes_back_with_what_was_written_since() {
    for (kind, more) in [("ext4", &[][..]), ("xfs", &["--write", "through"]), ("ext4", &["--mode", "partitioned"])] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        if file_system(at, kind).is_none() {
            eprintln!("{kind}: not tried, for lack of its tools");
            continue;
        }
        empty(at, "fast.img", 48 * MIB);
        let before = fs::read(at.join("slow.img")).unwrap();
        let planned = adopt(at, &[more, &["--dry-run"]].concat()).ok();
        assert!(
            planned.out.contains("nothing was written") && planned.out.contains("the only copy of the first"),
            "{}",
            planned.out
        );
        assert!(fs::read(at.join("slow.img")).unwrap() == before && !at.join("v.toml").exists());
        assert!(fs::read(at.join("fast.img")).unwrap().iter().all(|byte| *byte == 0));

        let made = adopt(at, &[more, &["--json"]].concat()).ok();
        let made: Value = serde_json::from_str(&made.out).unwrap();
        assert_eq!(made["size"].as_u64(), Some(before.len() as u64), "the volume is as large as the disk: {made}");
        assert_eq!(made["displaced"]["elsewhere"], true);
        // The disk alone is nothing that can be mounted.
        if let Some(found) = tool(at, "blkid", &["-p", "slow.img"]) {
            assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{kind}");
        }
        // What the file system would have written to the volume.
        let after = changed(at, kind, &before);
        {
            let (_serving, mut client) = Serving::start(at, &[]);
            assert!(read_all(&mut client) == before, "{kind}: the volume differs from the disk");
            let written = write_differences(&mut client, &before, &after);
            assert!(written > 10, "{kind}: {written}");
            assert!(read_all(&mut client) == after, "{kind}");
            // The server is killed.
        }
        let (_serving, mut client) = Serving::start(at, &[]);
        assert!(read_all(&mut client) == after, "{kind}: after a kill");
        drop((client, _serving));
        assert!(adopt(at, more).ok().out.contains("was taken over already"));
        let checked = peryton(at, &["check", "v.toml"]);
        assert!(checked.out.contains("taken over with data: the first"), "{}", checked.out);
        let detached = peryton(at, &["export", "v.toml"]).ok();
        assert!(detached.out.contains("as it was before it was taken over"), "{}", detached.out);
        assert!(fs::read(at.join("slow.img")).unwrap() == after, "{kind}: the disk differs from the volume");
        check(at, kind, "slow.img");
        if kind == "ext4" {
            let files = files_of_ext4(at, "slow.img");
            assert!(files == files_of_ext4(at, "after.img") && (files.is_empty() || files.contains("new")), "{files}");
        }
        peryton(at, &["serve", "v.toml"]).fails(2, &["is not part of a Peryton volume"]);
    }
}

/// What the disk has after more files were written to it.
fn changed(folder: &Path, kind: &str, before: &[u8]) -> Vec<u8> {
    fs::write(folder.join("after.img"), before).unwrap();
    fs::write(folder.join("added"), bytes(99, 2 << 20)).unwrap();
    if kind == "ext4" {
        let commands = "write added new\nrm tree/none\nrm file0\nmkdir more\ncd more\nwrite added new2\n";
        fs::write(folder.join("commands"), commands).unwrap();
        ok("debugfs", &tool(folder, "debugfs", &["-w", "-f", "commands", "after.img"]).unwrap());
    } else {
        // A label changes the superblocks, and a write to the end of the disk what no file has.
        let labelled = tool(folder, "xfs_db", &["-x", "-c", "label changed", "after.img"]);
        labelled.iter().for_each(|labelled| ok("xfs_db", labelled));
        let image = File::options().write(true).open(folder.join("after.img")).unwrap();
        image.write_all_at(&bytes(5, 1 << 20), before.len() as u64 - 2 * MIB).unwrap();
    }
    fs::read(folder.join("after.img")).unwrap()
}

#[test]
fn a_file_system_that_leaves_room_keeps_all_of_it_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    if file_system(at, "ext4").is_none() {
        return eprintln!("not tried, for lack of its tools");
    }
    empty(at, "fast.img", 32 * MIB);
    adopt(at, &["--home", "disk"]).fails(2, &["no room for", "uses 64MiB of 64MiB", "--home fast"]);
    assert!(!at.join("v.toml").exists());
    // It was made smaller: resize2fs, or a disk that is larger than what is on it.
    let image = File::options().write(true).open(at.join("slow.img")).unwrap();
    image.set_len(80 * MIB).unwrap();
    let before = fs::read(at.join("slow.img")).unwrap();
    let made = adopt(at, &["--json"]).ok();
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(
        (made["displaced"]["elsewhere"].as_bool(), made["displaced"]["device"].as_str()),
        (Some(false), Some("slow"))
    );
    let size = made["size"].as_u64().unwrap() as usize;
    assert!((64 << 20..80 << 20).contains(&size), "{made}");
    // The volume is all there without the fast device, which had nothing that had not gone home.
    {
        let (_serving, mut client) = Serving::start(at, &[]);
        assert!(read_all(&mut client) == before[..size]);
    }
    fs::remove_file(at.join("fast.img")).unwrap();
    {
        let (_serving, mut client) = Serving::start(at, &["--without", "fast"]);
        assert!(read_all(&mut client) == before[..size]);
        client.write(0, &[7; 4096], true).unwrap();
    }
    // Of its two superblocks the one that is left is found: the power may fail while the other is written.
    let image = File::options().write(true).open(at.join("slow.img")).unwrap();
    image.write_all_at(&[0xff; 512], 1024).unwrap();
    peryton(at, &["repair", "v.toml", "--without", "fast"]).ok();
    // Another device takes its place, and the disk comes back.
    empty(at, "fast.img", 32 * MIB);
    peryton(at, &["replace", "v.toml", "fast", "--with", "fast.img"]).ok();
    peryton(at, &["export", "v.toml"]).ok();
    let after = fs::read(at.join("slow.img")).unwrap();
    assert!(after[..4096] == [7; 4096] && after[4096..size] == before[4096..size]);
}

/// A disk with data of no kind, and a fast device.
fn plain(folder: &Path) -> Vec<u8> {
    let data = bytes(3, 24 << 20);
    fs::write(folder.join("slow.img"), &data).unwrap();
    empty(folder, "fast.img", 24 * MIB);
    data
}

#[test]
fn the_loss_of_the_fast_device_is_that_of_the_first_part_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let before = plain(at);
    let made = adopt(at, &["--json", "--write", "through"]).ok();
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert!(made["costs"][0].as_str().unwrap().contains("if it fails, they are lost as well"), "{made}");
    let moved = made["displaced"]["bytes"].as_u64().unwrap();
    fs::rename(at.join("fast.img"), at.join("away.img")).unwrap();
    let checked = peryton(at, &["check", "v.toml", "--without", "fast", "--json"]);
    let checked: Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!(checked["lost"]["ranges"][0], serde_json::json!([0, moved]), "{checked}");
    {
        let (_serving, mut client) = Serving::start(at, &["--without", "fast"]);
        assert!(client.read(0, 4096).is_err() && client.write(moved - 4096, &[1; 4096], false).is_err());
        assert!(client.read(moved, 4096).unwrap() == before[moved as usize..][..4096]);
        // The rest is served as before, flushes included, for longer than it takes to give a device up.
        for round in 0..40 {
            client.write(moved + MIB, &[round; 4096], true).unwrap();
            assert!(client.read(round as u64 * 4096, 4096).is_err());
            client.flush().unwrap();
        }
        assert_eq!(client.read(moved + MIB, 4096).unwrap(), [39; 4096]);
        let status = peryton(at, &["status", "v.toml", "--json"]).said();
        let status: Value = serde_json::from_str(&status.out).unwrap();
        assert_eq!(status["displaced"]["device"], "fast", "{status}");
        assert_eq!(status["lost"]["bytes"].as_u64(), Some(moved), "{status}");
    }
    // It can be replaced only by accepting that what it had reads as zeros.
    empty(at, "fast.img", 24 * MIB);
    peryton(at, &["replace", "v.toml", "fast", "--with", "fast.img"])
        .fails(2, &["would read as zeros", "--accept-loss"]);
    peryton(at, &["replace", "v.toml", "fast", "--with", "fast.img", "--accept-loss"]).ok();
    let (_serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(0, 4096).unwrap() == [0; 4096]);
    client.write(0, &[5; 4096], true).unwrap();
    drop((client, _serving));
    peryton(at, &["export", "v.toml"]).ok();
    let after = fs::read(at.join("slow.img")).unwrap();
    assert!(after[..4096] == [5; 4096] && after[moved as usize..][..4096] == before[moved as usize..][..4096]);
}

/// The cache is gone for good: with one that was written through nothing is lost; otherwise it is said what, before anything changes.
#[test]
fn a_disk_whose_cache_has_gone_is_given_back() {
    for write in ["through", "back"] {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        if file_system(at, "ext4").is_none() {
            return eprintln!("not tried, for lack of its tools");
        }
        File::options().write(true).open(at.join("slow.img")).unwrap().set_len(80 * MIB).unwrap();
        let mut model = fs::read(at.join("slow.img")).unwrap();
        empty(at, "fast.img", 32 * MIB);
        adopt(at, &["--home", "disk", "--write", write]).ok();
        let (serving, mut client) = Serving::start(at, &["--set", "placement.writeback.delay=10min"]);
        for block in 0..64_u64 {
            let (offset, data) = (block * 200 * 1024, [block as u8; 4096]);
            client.write(offset, &data, false).unwrap();
            model[offset as usize..][..4096].copy_from_slice(&data);
        }
        client.flush().unwrap();
        drop((client, serving));
        fs::remove_file(at.join("fast.img")).unwrap();
        let before = fs::read(at.join("slow.img")).unwrap();
        peryton(at, &["export", "v.toml"]).fails(2, &["'fast' is not there", "--without fast"]);
        let without = ["export", "v.toml", "--without", "fast"];
        if write == "back" {
            let refused = peryton(at, &without);
            assert!(refused.code != 0 && refused.err.contains("only device 'fast'"), "{}", refused.err);
            assert!(refused.err.contains("--accept-loss"), "{}", refused.err);
            assert!(fs::read(at.join("slow.img")).unwrap() == before, "a refusal changes nothing");
            let said = peryton(at, &[&without[..], &["--accept-loss"]].concat()).ok().out;
            assert!(said.contains("are lost"), "{said}");
        } else {
            peryton(at, &without).ok();
            // Behind the file system is what was displaced.
            let (after, all) = (fs::read(at.join("slow.img")).unwrap(), 64 << 20);
            assert!(after[..all] == model[..all], "the disk differs from the volume");
        }
        // The disk is no part of a volume any more.
        assert_ne!(peryton(at, &["serve", "v.toml", "--without", "fast"]).code, 0);
    }
}

/// The fast device dies while the volume is served: the disk must not be given up with it.
#[test]
fn the_disk_goes_on_when_the_fast_device_dies() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let before = plain(at);
    adopt(at, &["--write", "through"]).ok();
    let (_serving, mut client) = Serving::start(at, &[]);
    client.write(20 * MIB, &[9; 4096], true).unwrap();
    let asked = peryton(at, &["status", "v.toml", "--json"]).said();
    let status: Value = serde_json::from_str(&asked.out).unwrap();
    let moved = status["displaced"]["bytes"].as_u64().unwrap();
    use std::io::{BufRead, BufReader, Write};
    let mut control = std::os::unix::net::UnixStream::connect(at.join("v.control")).unwrap();
    writeln!(control, "{{\"verb\":\"fault\",\"fault\":{{\"device\":0,\"effect\":\"gone\"}}}}").unwrap();
    let mut answer = String::new();
    BufReader::new(control.try_clone().unwrap()).read_line(&mut answer).unwrap();
    assert!(!answer.contains("error"), "{answer}");
    let began = std::time::Instant::now();
    loop {
        let _ = client.read(0, 4096);
        let _ = client.flush();
        let status = peryton(at, &["status", "v.toml", "--json"]).said();
        let status: Value = serde_json::from_str(&status.out).unwrap();
        if status["devices"]["fast"]["state"] == "gone" {
            assert_ne!(status["devices"]["slow"]["state"], "gone", "{status}");
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "{status}");
    }
    let _ = client.flush();
    for round in 0..10 {
        client.write(21 * MIB, &[round; 4096], true).unwrap();
        client.flush().unwrap();
    }
    assert!(client.read(0, 4096).is_err());
    assert_eq!(client.read(20 * MIB, 4096).unwrap(), [9; 4096]);
    assert!(client.read(moved, 4096).unwrap() == before[moved as usize..][..4096]);
}

#[test]
fn what_cannot_be_taken_over_is_refused_in_one_line_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let before = plain(at);
    for (args, code, parts) in [
        (&["--mode", "tiering"][..], 2, &["possible values: caching, partitioned"][..]),
        (&["--mode", "logging"], 2, &["possible values: caching, partitioned"]),
        (&["--mode", "partitioned", "--write", "back"], 2, &["--write is for a cache"]),
        (&["--home", "disk"], 2, &["data of an unknown kind", "how much of the disk that uses is not known"]),
        (&["--undo"], 2, &["nothing to undo"]),
    ] {
        adopt(at, args).fails(code, parts);
    }
    let write = |name: &str, offset: u64, bytes: &[u8]| {
        File::options().write(true).open(at.join(name)).unwrap().write_all_at(bytes, offset).unwrap();
    };
    // Another program has data on the fast device.
    write("fast.img", 5 * MIB, b"x");
    adopt(at, &[]).fails(2, &["fast.img", "holds data of an unknown kind", "--force"]);
    empty(at, "fast.img", 24 * MIB);
    // The design is there, and is another one.
    fs::write(at.join("v.toml"), "something else").unwrap();
    adopt(at, &[]).fails(2, &["v.toml: there is another design already"]);
    fs::remove_file(at.join("v.toml")).unwrap();
    assert!(fs::read(at.join("slow.img")).unwrap() == before);
    assert!(fs::read(at.join("fast.img")).unwrap().iter().all(|byte| *byte == 0));
    // Kinds that are found elsewhere than at the start.
    let md = 0xa92b_4efc_u32.to_le_bytes();
    write("slow.img", 24 * MIB - 8192, &md);
    adopt(at, &[]).fails(2, &["a member of a RAID array (md)", "take over the array"]);
    write("slow.img", 24 * MIB - 8192, &before[(24 << 20) - 8192..][..4]);
    write("slow.img", 128 << 10, &0x00ba_b10c_u64.to_le_bytes());
    adopt(at, &[]).fails(2, &["ZFS"]);
    write("slow.img", 128 << 10, &before[128 << 10..][..8]);
    // Too small, empty, or cut off within a block.
    empty(at, "fast.img", 2 * MIB);
    let small = adopt(at, &[]);
    assert!(small.code == 2 && small.err.lines().count() == 1 && small.err.contains("fast"), "{}", small.err);
    empty(at, "fast.img", 24 * MIB);
    empty(at, "slow.img", 24 * MIB);
    adopt(at, &[]).fails(2, &["is empty: peryton create makes a volume of it"]);
    fs::write(at.join("slow.img"), &before[..MIB as usize]).unwrap();
    adopt(at, &[]).fails(2, &["devices.slow", "has 0B for data", "give it more"]);
    fs::write(at.join("slow.img"), &before[..before.len() - 100]).unwrap();
    adopt(at, &[]).fails(2, &["no multiple of", "truncate -s %4096"]);
    fs::write(at.join("slow.img"), &before).unwrap();
    adopt(at, &[]).ok();
    // A volume is not taken over into another one.
    empty(at, "other.img", 24 * MIB);
    peryton(at, &["import", "w.toml", "--slow", "slow.img", "--fast", "other.img"]).fails(2, &["a Peryton volume"]);
    peryton(at, &["create", "w.toml", "--slow", "slow.img", "--fast", "other.img"]).fails(2, &["a Peryton volume"]);
    adopt(at, &["--undo"]).fails(2, &["is taken over: peryton export gives it back"]);
    // Formatted again it is a volume like any other.
    peryton(at, &["create", "v.toml", "--slow", "slow.img", "--fast", "fast.img", "--force"]).ok();
    let (_serving, mut client) = Serving::start(at, &[]);
    assert!(client.read(0, 4096).unwrap() == [0; 4096]);
    drop((client, _serving));
    let checked = peryton(at, &["check", "v.toml"]);
    assert!(!checked.out.contains("taken over"), "{}", checked.out);
    let detached = peryton(at, &["export", "v.toml"]).ok();
    assert!(detached.out.contains("mount -o loop,offset="), "{}", detached.out);
}
