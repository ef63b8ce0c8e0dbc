//! The fear: an fsynced file, or the file system itself, is lost when the drive below it is killed.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::Duration,
};

use crate::mounted::{Stack, until};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

const WRITERS: u64 = 3;
/// The name of a file that is replaced repeatedly; the number of its version is its content's seed.
const REPLACED: &str = "replaced";

fn content(seed: u64) -> Vec<u8> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut bytes = vec![0; random.random_range(1..60_000)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// The files that were fsynced.
#[derive(Default)]
struct Kept {
    files: Vec<(PathBuf, u64)>,
    /// The newest version known to be durable; the one after it may be there instead.
    replaced: HashMap<PathBuf, u64>,
}

fn write(path: &Path, seed: u64) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&content(seed))?;
    file.sync_all()
}

/// Makes the entries of a directory durable. After a device below it has failed, ext4 lets an fsync of a directory
/// succeed without effect (Linux 6.18), but not an fsync of a file in it. So the file is fsynced last.
fn sync(folder: &Path, file: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()?;
    File::open(file)?.sync_all()
}

/// Writes files until an operation fails because the drive is gone.
fn writer(folder: &Path, number: u64, kept: &Mutex<Kept>) -> io::Result<()> {
    for count in 0.. {
        let seed = count * WRITERS + number;
        let path = folder.join(format!("{number}-{count}"));
        write(&path, seed)?;
        sync(folder, &path)?;
        kept.lock().unwrap().files.push((path, seed));
        let (replaced, new) = (folder.join(format!("{REPLACED}-{number}")), folder.join(format!("new-{number}")));
        write(&new, seed)?;
        fs::rename(&new, &replaced)?;
        sync(folder, &replaced)?;
        kept.lock().unwrap().replaced.insert(replaced, seed);
    }
    Ok(())
}

impl Kept {
    fn check(&self) {
        for (path, seed) in &self.files {
            let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(found == content(*seed), "{}: not what was fsynced", path.display());
        }
        for (path, seed) in &self.replaced {
            let found = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let sound = [*seed, seed + WRITERS].iter().any(|seed| found == content(*seed));
            let is = (0..1000).find(|seed| found == content(*seed));
            let (path, len) = (path.display(), found.len());
            assert!(sound, "{path}: neither version {seed} nor the next, but {is:?} in {len} bytes");
        }
    }
}

/// 20 kills. After each, the file system is mounted, which replays its journal, every file that had been fsynced is
/// compared, and e2fsck must find no error.
#[test]
fn twenty_kills_and_no_fsynced_file_is_lost() {
    if !Stack::is_possible() {
        return;
    }
    let mut random = Pcg64::seed_from_u64(20);
    for placement in ["tiering", "back", "through", "logging"] {
        let mut stack = Stack::new(placement, 96);
        let mut before: Option<Kept> = None;
        for round in 0..5 {
            stack.mount(if round % 2 == 0 { "discard" } else { "nodiscard" });
            let folder = stack.root().join(format!("round-{round}"));
            fs::create_dir(&folder).unwrap();
            File::open(stack.root()).unwrap().sync_all().unwrap();
            let kept = Mutex::new(Kept::default());
            thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS)
                    .map(|number| {
                        let (folder, kept) = (&folder, &kept);
                        scope.spawn(move || writer(folder, number, kept))
                    })
                    .collect();
                until("a few files", || (kept.lock().unwrap().files.len() > 10).then_some(()));
                thread::sleep(Duration::from_micros(random.random_range(0..300_000)));
                stack.kill();
                for writer in writers {
                    writer.join().unwrap().expect_err("a drive that is gone takes no files");
                }
            });
            stack.take_down();
            stack.serve();
            stack.mount("nodiscard");
            let kept = kept.into_inner().unwrap();
            kept.check();
            if let Some(before) = before.replace(kept) {
                before.check();
                // Makes space for the next round, and gives the file system something to discard.
                fs::remove_dir_all(stack.root().join(format!("round-{}", round - 1))).unwrap();
            }
            assert!(stack.unmount());
            stack.is_sound();
        }
    }
}
