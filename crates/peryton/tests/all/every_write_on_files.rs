//! Every N on real files: for each management operation the built program fails at its first write, flush or discard, or is
//! killed there; then at its second, and so on until it passes untouched (after the first dozen a third of them, or with `EVERY=1` all). Whatever happens, an operation that did not succeed
//! says why in one line and can be run again, and what was flushed is there. (The crash simulation does the same on devices that
//! lose and tear what was not flushed: `crates/crash/tests/all/every_write.rs`, `every_command.rs`.)
#![cfg(target_os = "linux")]

#[allow(dead_code)]
use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::interposed::{self, At, Point, Watched, terminate};
use crate::served::{CACHE, Client, FLUSH, READ, WRITE};

const BLOCK: usize = 16 << 10;
const SECTOR: usize = 512;
const NAMES: [&str; 2] = ["small.img", "large.img"];
/// No operation takes so many.
const MOST: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

fn design(placement: &str, process_death: &str) -> String {
    let (sizes, rest) = match placement {
        "logging" => (["2MiB", "1MiB"], "mode = 'logging'\nlog = 'small'\nprimary = 'large'\n"),
        "tiering" => (
            ["512KiB", "1MiB"],
            "mode = 'tiering'\nfast = 'small'\nslow = 'large'\nextent = '16KiB'\ncommit_interval = '20ms'\n\
                       promotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n",
        ),
        _ => (
            ["512KiB", "1MiB"],
            "mode = 'caching'\nfast = 'small'\nslow = 'large'\nextent = '16KiB'\ncommit_interval = '20ms'\n\
               promotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\nwriteback = { delay = '50ms' }\n",
        ),
    };
    format!(
        "[devices.small]\nprofile = 'fixed'\nsize = '{}'\npath = 'small.img'\n[devices.large]\nprofile = 'fixed'\n\
         size = '{}'\npath = 'large.img'\n[durability]\nprocess_death = '{process_death}'\ndirectory = '.'\n[failure]\n\
         patience = '0s'\n[placement]\n{rest}",
        sizes[0], sizes[1]
    )
}

/// A folder in memory, where flushes take no time, if there is one.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let in_memory = memory.is_dir().then(|| tempfile::tempdir_in(memory).ok()).flatten();
    in_memory.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(fs::File::create(folder.join("err")).unwrap());
    command
}

fn at(folder: &Path, nth: u32, point: Point) -> At {
    At { nth, point, files: NAMES.map(|name| folder.join(name)).to_vec() }
}

fn ended(child: &mut Child) -> ExitStatus {
    interposed::ended(child, PATIENCE, String::new)
}

fn served(folder: &Path, child: &mut Child) -> Option<Client> {
    interposed::client(folder, child, PATIENCE)
}

fn content(value: u8) -> Vec<u8> {
    vec![value; BLOCK]
}

/// What may be read of each block, or that reading it may fail.
#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<u64, (Vec<u8>, bool)>);

impl Model {
    fn all(value: impl Fn(u64) -> u8, blocks: u64) -> Model {
        Model((0..blocks).map(|block| (block, (vec![value(block)], false))).collect())
    }

    /// Serves the volume untouched, and compares.
    fn check(&self, folder: &Path, case: &str) {
        let mut child = command(folder, &["serve", "v.toml", "--drills"]).spawn().unwrap();
        let Some(mut client) = served(folder, &mut child) else {
            panic!("{case}: it is not served any more: {}", fs::read_to_string(folder.join("err")).unwrap())
        };
        for (block, (may_be, may_fail)) in &self.0 {
            match client.read(block * BLOCK as u64, BLOCK) {
                Ok(found) => {
                    // A write that was not answered may be there in part: the kernel ends one between two pages if the process is killed.
                    let is_one = |sector: &[u8]| may_be.iter().any(|value| sector.iter().all(|byte| byte == value));
                    let is_it = found.chunks(SECTOR).all(is_one);
                    assert!(is_it, "{case}: block {block} is {} .. {}, not {may_be:?}", found[0], found[BLOCK - 1]);
                }
                Err(_) => assert!(may_fail, "{case}: block {block} cannot be read"),
            }
        }
        client.write(0, &content(250), true).unwrap();
        drop(client);
        terminate(&child);
        let status = ended(&mut child);
        assert!(status.success(), "{case}: {status:?}, {}", fs::read_to_string(folder.join("err")).unwrap());
    }
}

/// What a block gets in a round of writes.
fn written(round: u8, block: u64) -> u8 {
    round * 80 + block as u8 % 64
}

/// A volume that is used for a while by a server that is then killed, or ends in good order.
fn used(folder: &Path, placement: &str, kill: bool) -> Model {
    fs::write(folder.join("v.toml"), design(placement, "off")).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let mut child = command(folder, &["serve", "v.toml", "--drills"]).spawn().unwrap();
    let mut client = served(folder, &mut child).expect("it is served");
    let blocks = client.size / BLOCK as u64;
    for round in [1, 2] {
        for block in (0..blocks).filter(|block| round == 1 || block % 3 == 0) {
            client.write(block * BLOCK as u64, &content(written(round, block)), false).unwrap();
        }
        client.flush().unwrap();
        if placement == "logging" && round == 1 {
            client.try_ask(CACHE, 0, client.size as u32, &[]).unwrap();
        }
    }
    drop(client);
    if kill {
        child.kill().unwrap();
        child.wait().unwrap();
    } else {
        terminate(&child);
        assert!(ended(&mut child).success());
    }
    Model::all(|block| written(if block % 3 == 0 { 2 } else { 1 }, block), blocks)
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// What may be said when the operation is run again because it failed, or was killed, though it had done everything.
fn is_done(error: &str) -> bool {
    [
        "was not given up",
        "was exported",
        "is not missing",
        "is not part of a Peryton volume",
        "nothing to undo",
        "is taken over: peryton export",
    ]
    .iter()
    .any(|part| error.contains(part))
}

/// All of the first dozen, and of the rest a third for failures and another third for kills. With `EVERY=1` all.
fn is_sampled(point: Point, nth: u32) -> bool {
    let other = u32::from(point == Point::Kills);
    nth <= 12 || (nth + other).is_multiple_of(3) || std::env::var_os("EVERY").is_some()
}

/// Runs an operation at many N, failing and killed. Returns how many N there were.
fn every(base: &Path, args: &[&str], again: &[&str], check: impl Fn(&Path, &str)) -> u32 {
    let mut points = 0;
    for point in [Point::Fails, Point::Kills] {
        let mut reached = 0;
        for nth in (1..MOST).filter(|nth| is_sampled(point, *nth)) {
            let work = folder();
            let work = work.path();
            copy(base, work);
            let case = format!("{args:?}, {point:?} at {nth}");
            let Some(Watched { mut child, .. }) =
                interposed::start(command(work, args), at(work, nth, point)).map(|mut watched| {
                    let status = ended(&mut watched.child);
                    let untouched = watched.calls() < nth;
                    judge(work, status, point, untouched, &case);
                    watched
                })
            else {
                return 0;
            };
            if !is_well(ended(&mut child).code()) {
                let again = peryton(work, again);
                assert!(
                    is_well(Some(again.code)) || is_done(&again.err),
                    "{case}: it cannot be run again: {}",
                    again.err
                );
            }
            check(work, &case);
            points += nth - reached;
            reached = nth;
            if passed(work) {
                break;
            }
        }
    }
    points
}

/// Whether an operation did what it was asked to. The code says that the volume was not closed (4), or is dirty (8); nothing may be damaged
/// or lost.
fn is_well(code: Option<i32>) -> bool {
    matches!(code, Some(0 | 4 | 8 | 12))
}

/// Remembers in the folder that the program passed untouched.
fn judge(work: &Path, status: ExitStatus, point: Point, untouched: bool, case: &str) {
    let error = fs::read_to_string(work.join("err")).unwrap();
    if untouched {
        assert!(is_well(status.code()), "{case}: nothing failed, and it ends with {status:?}: {error}");
        fs::write(work.join("passed"), "").unwrap();
    } else if point == Point::Kills {
        assert_eq!(status.signal(), Some(libc::SIGKILL), "{case}: {error}");
    } else {
        let last = error.lines().last().unwrap_or_default();
        let said = matches!(status.code(), Some(1 | 2)) && last.starts_with("peryton: ");
        assert!(is_well(status.code()) || said, "{case}: {status:?}: {error}");
    }
}

fn passed(work: &Path) -> bool {
    work.join("passed").exists()
}

fn report(what: &str, points: u32, least: u32) {
    if points == 0 {
        return eprintln!("{what}: not run, for lack of seccomp filters that report calls");
    }
    eprintln!("{what}: {points} points, not all of them tried");
    assert!(points >= least, "{what} has more points than {points}");
}

#[test]
fn every_write_of_format_may_fail() {
    let mut points = 0;
    for placement in ["back", "logging"] {
        let base = folder();
        fs::write(base.path().join("v.toml"), design(placement, "off")).unwrap();
        points += every(base.path(), &["create", "v.toml"], &["create", "v.toml", "--force"], |work, case| {
            Model::all(|_| 0, 20).check(work, case);
        });
    }
    report("format", points, 60);
}

#[test]
fn every_write_of_repair_may_fail() {
    let mut points = 0;
    for placement in ["back", "logging"] {
        let base = folder();
        let model = used(base.path(), placement, true);
        points +=
            every(base.path(), &["repair", "v.toml"], &["repair", "v.toml"], |work, case| model.check(work, case));
    }
    report("repair", points, 120);
}

#[test]
fn every_write_of_detach_may_fail() {
    let mut points = 0;
    for placement in ["back", "logging"] {
        let base = folder();
        let model = used(base.path(), placement, true);
        points += every(base.path(), &["export", "v.toml"], &["export", "v.toml"], |work, case| {
            let done = peryton(work, &["export", "v.toml"]);
            assert!(is_done(&done.err), "{case}: {}", done.err);
            let bytes = fs::read(work.join("large.img")).unwrap();
            let whole = |from: usize| {
                model.0.iter().all(|(block, (may_be, _))| {
                    let at = from + *block as usize * BLOCK;
                    bytes.get(at..at + BLOCK).is_some_and(|found| found == content(may_be[0]))
                })
            };
            assert!((1..4).any(|mib| whole(mib << 20)), "{case}: what is detached does not stand alone");
        });
    }
    report("export", points, 120);
}

#[test]
fn every_write_of_replace_may_fail() {
    let base = folder();
    let model = used(base.path(), "through", false);
    fs::write(base.path().join("small.img"), "").unwrap();
    let design = design("through", "off");
    fs::write(base.path().join("v.toml"), &design).unwrap();
    let args = ["replace", "v.toml", "small", "--with", "small.img"];
    let again = ["replace", "v.toml", "small", "--with", "small.img", "--force"];
    // The cache had written everything back before it was closed, or the lost blocks say so.
    let points = every(base.path(), &args, &again, |work, case| {
        let mut model = model.clone();
        model.0.values_mut().for_each(|(_, may_fail)| *may_fail = true);
        model.check(work, case);
    });
    report("replace", points, 60);
}

/// The fear: there is no space for the metadata of one device, and the content of every device is lost for nothing.
#[test]
fn a_device_without_space_for_metadata_is_refused_and_everything_is_as_it_was() {
    let base = folder();
    used(base.path(), "through", true);
    fs::write(base.path().join("v.toml"), design("through", "off")).unwrap();
    let read = || NAMES.map(|name| fs::read(base.path().join(name)).unwrap());
    let before = read();
    let replace = ["replace", "v.toml", "small", "--with", "small.img", "--force", "--accept-loss"];
    for args in [&["create", "v.toml", "--force"][..], &replace] {
        for nth in 1..3 {
            let full = at(base.path(), nth, Point::Fills);
            let Some(mut watched) = interposed::start(command(base.path(), args), full) else { return };
            let status = ended(&mut watched.child);
            let said = fs::read_to_string(base.path().join("err")).unwrap();
            assert_eq!(status.code(), Some(1), "{args:?}: {said}");
            assert!(said.contains("small.img") && said.contains("No space left"), "{args:?}: {said}");
            assert!(read() == before, "{args:?}, {nth}: what the devices had is destroyed");
        }
    }
    peryton(base.path(), &replace).ok();
}

/// A disk with data, and an empty fast device.
fn disk_with_data(folder: &Path) -> Model {
    const MIB: usize = 1 << 20;
    let blocks = 12 * MIB / BLOCK;
    let bytes: Vec<u8> = (0..blocks as u64).flat_map(|block| content(written(1, block))).collect();
    fs::write(folder.join("large.img"), bytes).unwrap();
    fs::File::create(folder.join("small.img")).unwrap().set_len(16 << 20).unwrap();
    Model::all(|block| written(1, block), blocks as u64)
}

const ADOPT: [&str; 6] = ["import", "v.toml", "--slow", "large.img", "--fast", "small.img"];

#[test]
fn every_write_of_adopt_may_fail() {
    let base = folder();
    let model = disk_with_data(base.path());
    let before = fs::read(base.path().join("large.img")).unwrap();
    let undo = [&ADOPT[..], &["--undo"]].concat();
    let points = every(base.path(), &ADOPT, &ADOPT, |work, case| model.check(work, case));
    let points = points
        + every(base.path(), &ADOPT, &undo, |work, case| {
            let done = peryton(work, &undo);
            let is_as_it_was = fs::read(work.join("large.img")).unwrap() == before;
            let is_adopted = done.err.contains("is taken over: peryton export");
            assert!(is_as_it_was != is_adopted, "{case}: {}", done.err);
            if is_adopted {
                return model.check(work, case);
            }
            let said = done.out.trim().strip_prefix("the data of large.img are as they were: ");
            let had_begun = !done.err.contains("nothing to undo");
            assert!(
                said.is_some_and(
                    |said| ["its first part was copied back", "none of them had been changed"].contains(&said)
                ) == had_begun,
                "{case}: {}{}",
                done.out,
                done.err
            );
        });
    report("import", points, 160);
}

#[test]
fn every_write_of_giving_back_may_fail() {
    let base = folder();
    let mut model = disk_with_data(base.path());
    peryton(base.path(), &ADOPT).ok();
    // The copies of the folder have devices of their own.
    let design = fs::read_to_string(base.path().join("v.toml")).unwrap();
    let here = format!("{}/", fs::canonicalize(base.path()).unwrap().display());
    assert!(design.contains(&here), "{design}");
    fs::write(base.path().join("v.toml"), design.replace(&here, "")).unwrap();
    let mut child = command(base.path(), &["serve", "v.toml", "--drills"]).spawn().unwrap();
    let mut client = served(base.path(), &mut child).expect("it is served");
    for block in (0..model.0.len() as u64).filter(|block| block % 50 < 3) {
        client.write(block * BLOCK as u64, &content(written(2, block)), false).unwrap();
        model.0.insert(block, (vec![written(2, block)], false));
    }
    client.flush().unwrap();
    drop(client);
    child.kill().unwrap();
    child.wait().unwrap();
    let points = every(base.path(), &["export", "v.toml"], &["export", "v.toml"], |work, case| {
        let done = peryton(work, &["export", "v.toml"]);
        assert!(is_done(&done.err), "{case}: {}", done.err);
        let bytes = fs::read(work.join("large.img")).unwrap();
        for (block, (may_be, _)) in &model.0 {
            let found = &bytes[*block as usize * BLOCK..][..BLOCK];
            assert!(found == content(may_be[0]), "{case}: block {block} is {}", found[0]);
        }
    });
    report("giving back", points, 100);
}

/// A volume whose fast device was given up while it was served.
fn degraded(folder: &Path, placement: &str, device: u8) -> Model {
    let mut model = used(folder, placement, false);
    let mut child = command(folder, &["serve", "v.toml", "--drills"]).spawn().unwrap();
    let mut client = served(folder, &mut child).expect("it is served");
    let fault = format!("{{\"verb\":\"fault\",\"fault\":{{\"device\":{device},\"effect\":\"gone\"}}}}");
    let asked = peryton_control(folder, &fault);
    assert!(!asked.contains("error"), "{asked}");
    let began = Instant::now();
    while !peryton_control(folder, "{\"verb\":\"events\"}").contains("device_gone") {
        assert!(began.elapsed() < PATIENCE, "it is not given up");
        let blocks = client.size / BLOCK as u64;
        let _ = (0..blocks).map(|block| client.read(block * BLOCK as u64, 512)).filter(Result::is_err).count();
        let _ = client.flush();
    }
    for block in [1, 7, 30] {
        if client.write(block * BLOCK as u64, &content(77), false).is_ok() {
            model.0.insert(block, (vec![77], false));
        }
    }
    let _ = client.flush();
    drop(client);
    terminate(&child);
    ended(&mut child);
    model
}

fn peryton_control(folder: &Path, line: &str) -> String {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(folder.join("v.control")).unwrap();
    writeln!(stream, "{line}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    BufReader::new(stream).lines().map_while(Result::ok).collect()
}

#[test]
fn every_write_of_readmit_may_fail() {
    let mut points = 0;
    let base = folder();
    let mut model = degraded(base.path(), "back", 0);
    // What was being moved stays lost.
    model.0.values_mut().for_each(|(_, may_fail)| *may_fail = true);
    let args = ["re-add", "v.toml", "small"];
    points += every(base.path(), &args, &args, |work, case| model.check(work, case));
    report("re-add", points, 50);
}

/// How often a server is written to and flushed.
const ROUNDS: u64 = 4;

/// A server from its start to its end, after one with the design `before` was killed: it opens the volume, takes writes and flushes, keeps settings, writes home what it is asked
/// to, makes checkpoints (the journal has room for a few commits) and closes the volume.
fn session(before: &str, placement: &str, rounds: u64) -> u32 {
    let mut points = 0;
    let base = folder();
    let initial = used(base.path(), before, true);
    fs::write(base.path().join("v.toml"), design(placement, "shared-memory")).unwrap();
    for point in [Point::Fails, Point::Kills] {
        let mut reached = 0;
        for nth in (1..MOST).filter(|nth| is_sampled(point, *nth)) {
            let work = folder();
            let work = work.path();
            copy(base.path(), work);
            let case = format!("a server of {placement}, {point:?} at {nth}");
            let Some(mut watched) = interposed::start(command(work, &["serve", "v.toml"]), at(work, nth, point)) else {
                return 0;
            };
            let model = use_server(work, &mut watched, point, rounds, initial.clone());
            terminate(&watched.child);
            let status = ended(&mut watched.child);
            let untouched = watched.calls() < nth;
            judge(work, status, point, untouched, &case);
            model.check(work, &case);
            points += nth - reached;
            reached = nth;
            if untouched {
                break;
            }
        }
    }
    points
}

fn use_server(work: &Path, watched: &mut Watched, point: Point, rounds: u64, mut model: Model) -> Model {
    let Some(mut client) = served(work, &mut watched.child) else { return model };
    let (mut unflushed, mut value): (BTreeMap<u64, Vec<u8>>, u8) = (BTreeMap::new(), 1);
    for round in 0..rounds {
        for block in [round, 9 + round, 40, 20 + 2 * round] {
            value += 1;
            let row = model.0.entry(block).or_default();
            row.0.push(value);
            let Ok(error) = client.try_ask(WRITE, block * BLOCK as u64, BLOCK as u32, &content(value)) else {
                return model;
            };
            row.1 |= error != 0;
            match (error, point) {
                // A process that dies loses nothing that it answered.
                (0, Point::Kills) => row.0 = vec![value],
                (0, Point::Fails) => unflushed.insert(block, vec![value]).map_or((), drop),
                _ => {
                    unflushed.remove(&block);
                }
            }
        }
        if round == 1 {
            // It may be killed meanwhile.
            let _ = peryton(work, &["set", "v.toml", "placement.max_moves=3"]);
        }
        let hint = if placement_is_log(work) { client.try_ask(CACHE, 0, client.size as u32, &[]) } else { Ok(0) };
        let Ok(_) = hint else { return model };
        match client.try_ask(FLUSH, 0, 0, &[]) {
            Ok(0) => {
                for (block, values) in std::mem::take(&mut unflushed) {
                    model.0.insert(block, (values, false));
                }
            }
            // What was written since the last flush may be lost, in part or as a whole.
            Ok(_) => {
                for (block, values) in std::mem::take(&mut unflushed) {
                    model.0.entry(block).or_default().0.extend(values);
                }
            }
            Err(_) => return model,
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let Ok(_) = client.try_ask(READ, 0, 512, &[]) else { return model };
    model
}

fn placement_is_log(work: &Path) -> bool {
    fs::read_to_string(work.join("v.toml")).unwrap().contains("'logging'")
}

#[test]
fn every_write_of_a_server_of_a_cache_may_fail() {
    report("a server of a cache", session("back", "back", ROUNDS), 100);
}

#[test]
fn every_write_of_a_server_of_a_log_may_fail() {
    report("a server of a log", session("logging", "logging", ROUNDS), 100);
}

#[test]
#[ignore = "a fifth of the time of all; what differs from a cache has no operation of its own"]
fn every_write_of_a_server_of_tiers_may_fail() {
    report("a server of tiers", session("tiering", "tiering", ROUNDS), 100);
}

/// The drill: a server that is watched behaves as any other.
#[test]
fn a_program_that_is_watched_and_not_touched_works() {
    let base = folder();
    fs::write(base.path().join("v.toml"), design("back", "off")).unwrap();
    let Some(mut watched) =
        interposed::start(command(base.path(), &["create", "v.toml"]), at(base.path(), 0, Point::Fails))
    else {
        return;
    };
    assert!(ended(&mut watched.child).success());
    assert!(watched.calls() > 10, "only {} calls were seen", watched.calls());
    let files: Vec<PathBuf> = NAMES.map(|name| base.path().join(name)).to_vec();
    assert!(files.iter().all(|file| file.exists()));
}

/// The fear: an SSD that wears out, and takes reads only, takes with it what it can still give.
#[test]
fn a_device_that_refuses_writes_gives_what_only_it_has_to_the_other() {
    let folder = folder();
    let work = folder.path();
    let Model(model) = used(work, "back", true);
    let refusing = |args: &[&str]| {
        let small = At { nth: 1, point: Point::Refuses, files: vec![work.join(NAMES[0])] };
        let mut watched = interposed::start(command(work, args), small)?;
        let status = ended(&mut watched.child);
        Some((status.code(), watched.calls(), fs::read_to_string(work.join("err")).unwrap()))
    };
    for verb in ["repair", "export"] {
        let Some((code, _, error)) = refusing(&[verb, "v.toml"]) else {
            return eprintln!("not run, for lack of seccomp filters that report calls");
        };
        let said = ["'small' can be read, and refuses writes", "peryton export --read-only small"];
        assert!(
            matches!(code, Some(1 | 2)) && said.iter().all(|part| error.contains(part)),
            "{verb}: {code:?} {error}"
        );
    }
    peryton(work, &["export", "v.toml", "--read-only", "large"]).fails(2, &["'large'", "stand alone"]);
    let before = fs::read(work.join(NAMES[0])).unwrap();
    let (code, calls, error) = refusing(&["export", "v.toml", "--read-only", "small"]).unwrap();
    assert!(code == Some(0) && calls == 0, "{code:?} after {calls} writes: {error}");
    assert!(fs::read(work.join(NAMES[0])).unwrap() == before);
    // The device of the record refuses writes, so nothing says that the export was done: it can be repeated.
    let again = peryton(work, &["export", "v.toml", "--read-only", "small", "--json"]).ok().out;
    let offset = serde_json::from_str::<serde_json::Value>(&again).unwrap()["offset"].as_u64().unwrap() as usize;
    let large = fs::read(work.join(NAMES[1])).unwrap();
    for (block, (may_be, _)) in &model {
        let found = &large[offset + *block as usize * BLOCK..][..BLOCK];
        assert!(may_be.iter().any(|value| found.iter().all(|byte| byte == value)), "block {block} is {}", found[0]);
    }
}

/// The fear: a device that can still be read keeps a volume from being served, or what is served has lost what only that device has, or
/// is changed.
#[test]
fn a_volume_whose_device_refuses_writes_is_served_to_be_read() {
    for (placement, refusing) in [("back", 0), ("back", 1), ("tiering", 0), ("logging", 0), ("logging", 1)] {
        let folder = folder();
        let work = folder.path();
        let Model(model) = used(work, placement, true);
        let before = NAMES.map(|name| fs::read(work.join(name)).unwrap());
        let which = At { nth: 1, point: Point::Refuses, files: vec![work.join(NAMES[refusing])] };
        let Some(mut watched) = interposed::start(command(work, &["serve", "v.toml"]), which) else {
            return eprintln!("not run, for lack of seccomp filters that report calls");
        };
        let case = format!("{placement}, '{}'", NAMES[refusing]);
        let Some(mut client) = served(work, &mut watched.child) else {
            panic!("{case}: it is not served: {}", fs::read_to_string(work.join("err")).unwrap())
        };
        for (block, (may_be, _)) in &model {
            let found = client.read(block * BLOCK as u64, BLOCK);
            let is_it = |found: &[u8]| may_be.iter().any(|value| found.iter().all(|byte| byte == value));
            assert!(
                found.as_ref().is_ok_and(|found| is_it(found)),
                "{case}: block {block}: {:?}",
                found.map(|is| is[0])
            );
        }
        // Over the borders of everything, and of no whole sectors.
        assert_eq!(client.read(1000, 3 * BLOCK).unwrap().len(), 3 * BLOCK);
        let not_permitted = libc::EPERM as u32;
        assert_eq!(client.write(0, &content(1), false), Err(not_permitted), "{case}");
        assert_eq!(client.zeroes(0, BLOCK as u32), Err(not_permitted), "{case}");
        assert_eq!(client.flush(), Ok(()), "{case}");
        let (name, says) = (NAMES[refusing].trim_end_matches(".img"), peryton(work, &["status", "v.toml"]).ok().out);
        let line =
            says.lines().find(|line| line.starts_with("READ-ONLY: ")).unwrap_or_else(|| panic!("{case}: {says}"));
        assert!(line.contains(&format!("'{name}' can be read, and refuses writes")), "{case}: {line}");
        let way_out = if refusing == 0 && placement != "tiering" {
            "peryton export --read-only small"
        } else {
            "copy it to a device"
        };
        assert!(line.contains(way_out), "{case}: {line}");
        peryton(work, &["set", "v.toml", "placement.max_moves=3"]).fails(2, &["only read", "refuses writes"]);
        drop(client);
        terminate(&watched.child);
        let status = ended(&mut watched.child);
        assert!(status.success(), "{case}: {status:?}, {}", fs::read_to_string(work.join("err")).unwrap());
        assert!(fs::read(work.join(NAMES[refusing])).unwrap() == before[refusing], "{case}: it was written");
        Model(model).check(work, &case);
    }
}

/// The fear: looking at a volume changes it.
#[test]
fn a_volume_that_is_only_looked_at_stays_as_it_is() {
    let folder = folder();
    let work = folder.path();
    let Model(model) = used(work, "back", true);
    let before = NAMES.map(|name| fs::read(work.join(name)).unwrap());
    let mut child = command(work, &["serve", "v.toml", "--read-only"]).spawn().unwrap();
    let mut client = served(work, &mut child).expect("it is served");
    for (block, (may_be, _)) in &model {
        let found = client.read(block * BLOCK as u64, BLOCK).unwrap();
        assert!(may_be.iter().any(|value| found.iter().all(|byte| byte == value)), "block {block} is {}", found[0]);
    }
    drop(client);
    terminate(&child);
    assert!(ended(&mut child).success());
    assert!(NAMES.map(|name| fs::read(work.join(name)).unwrap()) == before, "a device was written");
    Model(model).check(work, "after that");
}
