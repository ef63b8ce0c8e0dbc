//! The fear: `peryton top` leaves the terminal in a state in which the user cannot type, or shows what is not so.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::common::peryton;
use crate::served::Client;

const DESIGN: &str = "name = 'seen'\n[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n\
    [devices.large]\nprofile = 'fixed'\nsize = '16MiB'\npath = 'large.img'\n[placement]\nmode = 'caching'\nfast = 'small'\n\
    slow = 'large'\nextent = '64KiB'\npromotion = { threshold = 0 }\ndemotion = { low = 4, high = 8 }\n\
    writeback = { delay = '1h' }\n";

/// A running program, which is killed with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn serve(folder: &Path) -> Running {
    fs::write(folder.join("v.toml"), DESIGN).unwrap();
    peryton(folder, &["create", "v.toml"]).ok();
    let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
    let command = command.args(["serve", "v.toml"]).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("seen: "), "{line}");
    Running(child)
}

/// A terminal with 80 columns and 24 rows, and what a program has written to it.
struct Terminal {
    master: File,
    slave: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn new() -> Terminal {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let null = std::ptr::null_mut();
        // SAFETY: the numbers are local buffers for the results, and the name and the settings may be null.
        let (master, slave) = unsafe {
            assert_eq!(libc::openpty(&mut master, &mut slave, null, null.cast(), &size), 0);
            (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
        };
        let (master, written) = (File::from(master), Arc::new(Mutex::new(Vec::new())));
        let (mut from, to) = (master.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..len]);
            }
        });
        Terminal { master, slave, written }
    }

    fn settings(&self) -> (u32, u32, u32) {
        let mut settings = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the structure is a local buffer for the result.
        let settings = unsafe {
            assert_eq!(libc::tcgetattr(self.slave.as_raw_fd(), settings.as_mut_ptr()), 0);
            settings.assume_init()
        };
        (settings.c_iflag, settings.c_oflag, settings.c_lflag)
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn spawn(&self, command: &mut Command) -> Running {
        let stdio = || Stdio::from(self.slave.try_clone().unwrap());
        Running(command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap())
    }

    fn wait_for(&self, part: &str) {
        let began = Instant::now();
        while !self.written().contains(part) {
            assert!(began.elapsed() < Duration::from_secs(30), "'{part}' is not shown: {:?}", self.written());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the program has given the terminal back after it had taken it.
    fn is_restored(&self, before: (u32, u32, u32)) {
        thread::sleep(Duration::from_millis(100));
        let written = self.written();
        assert_eq!(self.settings(), before, "the settings are not restored: {written:?}");
        let (taken, left) = (written.rfind("\u{1b}[?1049h").unwrap(), written.rfind("\u{1b}[?1049l"));
        assert!(left.is_some_and(|left| left > taken), "the other screen is not left: {written:?}");
        let (hidden, shown) = (written.rfind("\u{1b}[?25l").unwrap(), written.rfind("\u{1b}[?25h"));
        assert!(shown.is_some_and(|shown| shown > hidden), "the cursor is hidden: {written:?}");
    }
}

fn end(mut running: Running) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = running.0.try_wait().unwrap() {
            return status;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "it does not end");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_screen_as_text_shows_traffic_cache_devices_and_heat() {
    let folder = tempfile::tempdir().unwrap();
    let _serving = serve(folder.path());
    let path = folder.path().join("v.nbd");
    let busy = thread::spawn(move || {
        let mut client = Client::connect(&path);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            client.write(0, &[1; 65536], false).unwrap();
            client.read(4 << 20, 4096).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
    });
    thread::sleep(Duration::from_millis(500));
    let shown = peryton(folder.path(), &["top", "v.toml", "--once", "--interval", "500ms"]).ok().out;
    busy.join().unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let row = |start: &str| -> Vec<String> {
        let found = shown.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}: {shown}"));
        found.split_whitespace().map(str::to_owned).collect()
    };
    for kind in ["read ", "write "] {
        assert!(row(kind)[1].parse::<f64>().unwrap() > 20.0, "{shown}");
        assert!(row(kind).iter().any(|cell| cell == "us" || cell == "ms"), "{shown}");
    }
    assert_eq!(row("flush")[1..], ["0", "–", "–", "–", "–", "–"].map(str::to_owned), "{shown}");
    assert!(shown.starts_with("seen: 16MiB healthy, up ") && shown.contains("dirty: 64KiB"), "{shown}");
    assert!(row("hits:")[1].parse::<f64>().unwrap() > 90.0 && shown.contains("small.img"), "{shown}");
    // 16 MiB in 256 parts: the writes begin in the first, the reads in the 65th.
    let heat: Vec<&str> = shown.lines().skip_while(|line| !line.contains("a cell")).skip(1).collect();
    assert!(heat[0].starts_with("█···") && heat[1].starts_with("█···") && heat[2].starts_with("····"), "{shown}");
}

#[test]
fn the_terminal_is_given_back_however_the_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    for way in ["q", "control-c", "SIGTERM", "SIGHUP", "the server is killed", "the server stops"] {
        let mut serving = serve(folder.path());
        let terminal = Terminal::new();
        let before = terminal.settings();
        let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
        let top = terminal.spawn(command.args(["top", "v.toml", "--interval", "100ms"]).current_dir(folder.path()));
        terminal.wait_for("seen: ");
        assert_ne!(terminal.settings(), before, "it has not taken the terminal");
        let signal = |name: &str, process: &Child| {
            assert!(Command::new("kill").args(["-s", name, &process.id().to_string()]).status().unwrap().success());
        };
        match way {
            "q" => (&terminal.master).write_all(b"q").unwrap(),
            "control-c" => (&terminal.master).write_all(b"\x03").unwrap(),
            "SIGTERM" => signal("TERM", &top.0),
            "SIGHUP" => signal("HUP", &top.0),
            "the server is killed" => serving.0.kill().unwrap(),
            _ => signal("TERM", &serving.0),
        }
        let status = end(top);
        terminal.is_restored(before);
        let last = terminal.written();
        if way.starts_with("the server") {
            assert!(
                !status.success() && last.trim_end().lines().last().unwrap().contains("peryton: "),
                "{way}: {last:?}"
            );
        } else {
            assert!(status.success(), "{way}: {status} {last:?}");
        }
        drop(serving);
        fs::remove_file(folder.path().join("small.img"))
            .and_then(|()| fs::remove_file(folder.path().join("large.img")))
            .unwrap();
    }
}

#[test]
fn without_a_terminal_or_a_server_one_line_says_so() {
    let folder = tempfile::tempdir().unwrap();
    peryton(folder.path(), &["top", "none.toml"]).fails(2, &["--once"]);
    peryton(folder.path(), &["top", "none.toml", "--once"]).fails(2, &["none.toml", "give the path of a design"]);
    peryton(folder.path(), &["top", "none.toml", "--once", "--interval", "1ms"]).fails(2, &["--interval", "50ms"]);
}
