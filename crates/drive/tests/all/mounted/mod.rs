//! A volume served by another process, with nbdfuse, a loop device and ext4 on top: a stack that a kernel without the
//! `nbd` module can mount. It is removed after the test, even if the test fails.
#![allow(dead_code, missing_docs, clippy::unwrap_used)] // no user uses all of it

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use peryton_drive::{Endpoint, Service, Settings, VolumeSpec, format};
use peryton_engine::Config;
use peryton_units::Bytes;
use tempfile::TempDir;

use crate::{
    served::{config, spec},
    tools::out_of,
};

const DIRECTORY: &str = "PERYTON_TEST_DIRECTORY";
const PLACEMENT: &str = "PERYTON_TEST_PLACEMENT";
const MIB: &str = "PERYTON_TEST_MIB";
/// The longest wait; after it, the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The configuration of `served::config`, with devices large enough for a file system of this many MiB and a few files.
fn large(placement: &str, mib: u64) -> Config {
    let base = config(placement);
    let (fast, slow) = if placement == "logging" { (32, mib) } else { (mib / 8, mib) };
    Config { devices: vec![Bytes::mib(fast), Bytes::mib(slow)], ..base }
}

fn volume(directory: &Path, placement: &str, mib: u64) -> VolumeSpec {
    spec(directory, large(placement, mib))
}

/// Not a test: the code of the child process.
#[test]
fn child() {
    let (Ok(directory), Ok(placement), Ok(mib)) = (env::var(DIRECTORY), env::var(PLACEMENT), env::var(MIB)) else {
        return;
    };
    let directory = PathBuf::from(directory);
    let spec = volume(&directory, &placement, mib.parse().unwrap());
    let service = Service::open(&spec, &Endpoint::Unix(directory.join("nbd")), Settings::default()).unwrap();
    service.run().unwrap();
}

/// Whether a tool is installed; prints a line if it is not.
pub fn has(tool: &str) -> bool {
    let there = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success();
    if !there {
        println!("skipped: {tool} is not installed");
    }
    there
}

/// Runs a tool, for a minute at most.
pub fn run(tool: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(tool).args(arguments).output().unwrap()
}

/// Runs a tool that must succeed, and returns what it prints.
pub fn done(tool: &str, arguments: &[&str]) -> String {
    out_of(tool, arguments, &run(tool, arguments))
}

/// Waits until `is` returns a value.
pub fn until<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a child process.
pub fn end(child: Option<Child>) {
    if let Some(mut child) = child {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The volume and the layers above it.
pub struct Stack {
    directory: TempDir,
    placement: &'static str,
    mib: u64,
    server: Option<Child>,
    fuse: Option<Child>,
    /// Whether nbdfuse has mounted its file system.
    shown: bool,
    block: Option<String>,
    mounted: bool,
}

impl Stack {
    /// Whether such a stack works here; prints the reason if not.
    pub fn is_possible() -> bool {
        if !["nbdfuse", "losetup", "mkfs.ext4", "e2fsck", "timeout"].iter().all(|tool| has(tool)) {
            return false;
        }
        // Mounts an image of an empty file system in the same way, without any part of Peryton.
        let directory = tempfile::tempdir().unwrap();
        let (image, at) = (directory.path().join("image"), directory.path().join("at"));
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        let (image, at) = (image.to_str().unwrap(), at.to_str().unwrap());
        let mounts = Path::new("/dev/fuse").exists()
            && run("mkfs.ext4", &["-q", image]).status.success()
            && run("mount", &["-o", "loop", image, at]).status.success()
            && run("umount", &[at]).status.success();
        if !mounts {
            println!("skipped: mounting takes root, /dev/fuse, a loop device and ext4");
        }
        mounts
    }

    /// A new volume with a new file system.
    pub fn new(placement: &'static str, mib: u64) -> Stack {
        let directory = tempfile::tempdir().unwrap();
        // Databases do not run as root and need access to this folder.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["fuse", "at"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        format(&volume(directory.path(), placement, mib), false).unwrap();
        let (server, fuse, block) = (None, None, None);
        let mut stack = Stack { directory, placement, mib, server, fuse, shown: false, block, mounted: false };
        stack.serve();
        done("mkfs.ext4", &["-q", "-b", "4096", stack.block()]);
        stack
    }

    /// A path beside the volume's devices.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The folder where the file system is mounted.
    pub fn root(&self) -> PathBuf {
        self.beside("at")
    }

    fn block(&self) -> &str {
        self.block.as_deref().expect("a loop device")
    }

    /// Serves the volume, and makes a block device from it.
    pub fn serve(&mut self) {
        let socket = self.beside("nbd");
        // Removes the previous server's socket.
        let _ = fs::remove_file(&socket);
        let server = Command::new(env::current_exe().unwrap())
            .args(["--exact", "mounted::child", "--nocapture"])
            .env(DIRECTORY, self.directory.path())
            .env(PLACEMENT, self.placement)
            .env(MIB, self.mib.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.server = Some(server);
        until("a server that listens", || UnixStream::connect(&socket).ok());
        let fuse = self.beside("fuse");
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        // nbdfuse prints a line for each request that a killed server did not answer.
        self.fuse = Some(Command::new("nbdfuse").arg(&fuse).arg(uri).stderr(Stdio::null()).spawn().unwrap());
        let file = fuse.join("nbd");
        self.shown = true;
        until("nbdfuse", || fs::metadata(&file).ok().filter(|about| about.len() > 0));
        // Other tests search for a free loop device at the same time.
        self.block = Some(until("a free loop device", || {
            let output = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }));
    }

    /// Mounts the file system, which replays its journal.
    pub fn mount(&mut self, options: &str) {
        let at = self.root();
        done("mount", &["-t", "ext4", "-o", options, self.block(), at.to_str().unwrap()]);
        self.mounted = true;
    }

    /// Unmounts it; returns whether that worked. Programs that are ending may need a moment.
    pub fn unmount(&mut self) -> bool {
        let at = self.root();
        let began = Instant::now();
        while self.mounted {
            self.mounted = !run("umount", &[at.to_str().unwrap()]).status.success();
            if self.mounted && began.elapsed() > PATIENCE / 4 {
                self.mounted = !run("umount", &["--lazy", at.to_str().unwrap()]).status.success();
                return false;
            }
        }
        true
    }

    /// Checks that the whole file system is sound, with nothing for fsck to do or to replay.
    pub fn is_sound(&self) {
        assert!(!self.mounted);
        done("e2fsck", &["-f", "-n", self.block()]);
    }

    /// Kills the server with SIGKILL. Accesses to the mounted file system fail from now on.
    pub fn kill(&mut self) {
        end(self.server.take());
    }

    /// Removes all layers above the server, and stops the server.
    pub fn take_down(&mut self) {
        self.unmount();
        if let Some(block) = self.block.take() {
            run("losetup", &["--detach", &block]);
        }
        let fuse = self.beside("fuse");
        if self.shown && !run("umount", &[fuse.to_str().unwrap()]).status.success() {
            run("umount", &["--lazy", fuse.to_str().unwrap()]);
        }
        self.shown = false;
        end(self.fuse.take());
        end(self.server.take());
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.take_down();
    }
}
