//! The fear: faults around a server end it, stop it, or are blamed on its clients: a log that cannot be written, a lack
//! of file descriptors, a pause.

use std::{
    fs::{self, File},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use crate::served::{Client, WRITE};

const DESIGN: &str =
    "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n[placement]\nmode = 'single'\n";

fn volume(folder: &Path) {
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_peryton")).args(["create", "v.toml"]).current_dir(folder).output();
    assert!(made.unwrap().status.success());
}

/// `peryton serve`, started by a shell, whose standard error goes to a place that the test chooses.
struct Serving(Child);

impl Serving {
    fn start(folder: &Path, shell: &str, log: &str, stderr: Stdio) -> Serving {
        let script = format!("{shell} exec {} serve v.toml", env!("CARGO_BIN_EXE_peryton"));
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir(folder).env("PERYTON_LOG", log).stdout(Stdio::null()).stderr(stderr);
        let serving = Serving(command.spawn().unwrap());
        let began = Instant::now();
        while UnixStream::connect(folder.join("v.control")).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        serving
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends SIGTERM; returns the exit status, and the time until the end.
    fn end(mut self) -> (ExitStatus, Duration) {
        self.signal("-TERM");
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn status(folder: &Path) -> serde_json::Value {
    let output = Command::new(env!("CARGO_BIN_EXE_peryton"))
        .args(["status", "v.toml", "--json"])
        .current_dir(folder)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Clients that connect and disconnect, each of which causes at least a line in the log.
fn chatter(folder: &Path, count: usize) {
    for _ in 0..count {
        let mut client = Client::connect(&folder.join("v.nbd"));
        client.write(0, &[3; 4096], false).unwrap();
    }
}

fn unread_pipe() -> (std::io::PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader, Stdio::from(OwnedFd::from(writer)))
}

#[test]
fn a_log_that_cannot_be_written_costs_lines_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    volume(folder);
    // A full file system, a pipe whose reader is gone, and a pipe that is not read.
    let full = Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let closed = unread_pipe().1;
    let (unread, pipe) = unread_pipe();
    for (what, stderr, clients) in [("full", full, 30), ("closed", closed, 30), ("unread", pipe, 1500)] {
        let serving = Serving::start(folder, "", "debug", stderr);
        chatter(folder, clients);
        let log = &status(folder)["log"];
        assert!(log["lines_dropped"].as_u64().is_some_and(|dropped| what == "unread" || dropped > 0), "{what}: {log}");
        let (status, took) = serving.end();
        assert!(status.success(), "{what}: {status:?}, signal {:?}", status.signal());
        assert!(took < Duration::from_secs(10), "{what}: {took:?}");
    }
    drop(unread);
}

#[test]
fn a_lack_of_descriptors_neither_spins_nor_floods_and_passes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    volume(folder);
    let log = File::create(folder.join("log")).unwrap();
    let serving = Serving::start(folder, "ulimit -n 32;", "info", Stdio::from(log));
    let mut clients = Vec::new();
    for _ in 0..60 {
        let stream = UnixStream::connect(folder.join("v.nbd")).unwrap();
        use std::io::Write as _;
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
        (&stream).write_all(&hello).unwrap();
        clients.push(stream);
        std::thread::sleep(Duration::from_millis(5));
    }
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", serving.0.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(500));
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks() - before;
    assert!(used < 60, "{used} hundredths of a second of processor time in three seconds");
    let text = fs::read_to_string(folder.join("log")).unwrap();
    assert!(text.contains("could not connect"), "the test tests nothing: {text}");
    assert!(text.lines().count() < 200, "{} lines", text.lines().count());
    drop(clients);
    Client::connect(&folder.join("v.nbd")).write(0, &[1; 512], true).unwrap();
    assert!(serving.end().0.success());
}

/// Clients are not late for the time in which the server itself was stopped.
#[test]
fn what_came_while_the_server_stood_still_counts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    volume(folder);
    let serving = Serving::start(folder, "", "info", Stdio::null());
    let mut client = Client::connect(&folder.join("v.nbd"));
    client.send(WRITE, 0, 0, 8192, &[9; 4096]);
    std::thread::sleep(Duration::from_millis(300));
    serving.signal("-STOP");
    client.send_raw(&[9; 4096]);
    std::thread::sleep(Duration::from_secs(34));
    serving.signal("-CONT");
    assert_eq!(client.answer().expect("it was cut off").1, 0);
    assert_eq!(client.read(0, 8192).unwrap(), [9; 8192]);
    drop(client);
    let (status, took) = serving.end();
    assert!(status.success() && took < Duration::from_secs(10), "{status:?} {took:?}");
}

/// The fear: a volume that could not be served has to be recovered.
#[test]
fn a_socket_path_that_is_taken_leaves_the_volume_closed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    volume(folder);
    fs::write(folder.join("v.nbd"), "mine").unwrap();
    let peryton =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_peryton")).args(args).current_dir(folder).output().unwrap();
    let refused = peryton(&["serve", "v.toml"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("v.nbd: is there already, and is no socket"), "{said}");
    assert_eq!(fs::read(folder.join("v.nbd")).unwrap(), b"mine");
    let checked = peryton(&["check", "v.toml"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// A log that keeps records for the death of the process.
const LOG: &str = "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n[devices.large]\nprofile = 'fixed'\n\
                   size = '32MiB'\npath = 'large.img'\n[durability]\nprocess_death = 'shared-memory'\ndirectory = '.'\n\
                   [placement]\nmode = 'logging'\nlog = 'small'\nprimary = 'large'\n";

fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_peryton")).args(args).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

/// The fear: a snapshot of both devices, put back in place after a kill, counts as damage for ever.
#[test]
fn a_log_that_was_rolled_back_after_a_kill_is_called_that_and_opened_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), LOG).unwrap();
    let peryton = |args: &[&str]| run(folder, args);
    assert_eq!(peryton(&["create", "v.toml"]).0, Some(0));
    let mut serving = Serving::start(folder, "", "info", Stdio::null());
    let write = |value: u8| {
        let mut client = Client::connect(&folder.join("v.nbd"));
        (0..100).for_each(|block| client.write(block << 16, &[value; 4096], false).unwrap());
        client.flush().unwrap();
    };
    write(1);
    let images = ["small.img", "large.img"].map(|name| (folder.join(name), fs::read(folder.join(name)).unwrap()));
    write(2);
    serving.0.kill().unwrap();
    serving.0.wait().unwrap();
    for (path, image) in images {
        // In place: it is the same file.
        std::os::unix::fs::FileExt::write_all_at(&File::options().write(true).open(path).unwrap(), &image, 0).unwrap();
    }
    for verb in ["check", "serve", "repair"] {
        let (code, said) = peryton(&[verb, "v.toml"]);
        let is_named = said.contains("rolled back to a snapshot") && said.contains("peryton repair --trust as-it-is");
        assert!(code != Some(0) && is_named, "{verb}: {code:?} {said}");
    }
    let (code, said) = peryton(&["repair", "v.toml", "--trust", "as-it-is"]);
    assert!(said.contains("0 blocks lost"), "{code:?} {said}");
    let serving = Serving::start(folder, "", "info", Stdio::null());
    let mut client = Client::connect(&folder.join("v.nbd"));
    for block in 0..100 {
        assert!(client.read(block << 16, 4096).unwrap() == [1; 4096], "block {block}");
    }
    drop(client);
    assert!(serving.end().0.success());
}

/// The fear: data in the log that rot after a kill count as those of an older copy, and the way out that is named gives up what was flushed.
#[test]
fn data_of_a_log_that_rot_after_a_kill_are_named_and_all_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("v.toml"), LOG).unwrap();
    assert_eq!(run(folder, &["create", "v.toml"]).0, Some(0));
    let mut serving = Serving::start(folder, "", "info", Stdio::null());
    let mut client = Client::connect(&folder.join("v.nbd"));
    for block in 0..100u8 {
        client.write(u64::from(block) << 16, &[block + 1; 4096], false).unwrap();
    }
    client.flush().unwrap();
    serving.0.kill().unwrap();
    serving.0.wait().unwrap();
    let log = fs::read(folder.join("small.img")).unwrap();
    let rots = log.windows(4096).step_by(512).position(|data| data == [41; 4096]).unwrap() * 512;
    let file = File::options().write(true).open(folder.join("small.img")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"rotten", rots as u64 + 1000).unwrap();
    for verb in ["check", "serve"] {
        let (code, said) = run(folder, &[verb, "v.toml"]);
        let is_named = said.contains("repair names the blocks that are lost") && !said.contains("--trust");
        assert!(code != Some(0) && is_named, "{verb}: {code:?} {said}");
    }
    let (code, said) = run(folder, &["repair", "v.toml"]);
    assert!(code.is_some_and(|code| code & 32 != 0) && said.contains("1 blocks lost"), "{code:?} {said}");
    let serving = Serving::start(folder, "", "info", Stdio::null());
    let mut client = Client::connect(&folder.join("v.nbd"));
    for block in 0..100u8 {
        let read = client.read(u64::from(block) << 16, 4096);
        match block {
            40 => assert!(read.is_err(), "what rots is read"),
            _ => assert!(read.unwrap() == [block + 1; 4096], "block {block}"),
        }
    }
    drop(client);
    assert!(serving.end().0.success());
}
