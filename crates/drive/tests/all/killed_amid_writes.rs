//! The fear: an answered but unflushed write is lost when the server is killed while the machine keeps running.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::served::{Client, PLACEMENTS, WRITE, config, end_with_the_test, spec};
use peryton_drive::{
    Endpoint, Given, Notified, Notifier, ProcessDeath, Service, Settings, Successor, VolumeSpec, format, inspect,
    repair,
};
use peryton_engine::{LogCaching, OpenError, Trust};
use peryton_units::{Bytes, Nanos};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const DIRECTORY: &str = "PERYTON_TEST_DIRECTORY";
const PLACEMENT: &str = "PERYTON_TEST_PLACEMENT";
const MEMORY: &str = "PERYTON_TEST_MEMORY";
const REPLACES: &str = "PERYTON_TEST_REPLACES";
const BLOCK: u64 = 4096;
/// The number of writes in flight.
const DEPTH: usize = 24;
const ROUNDS: usize = 5;

/// A volume without flushes of its own and with constant moves.
fn volume(directory: &Path, placement: &str) -> VolumeSpec {
    let (name, selective) = match placement {
        "selective" => ("logging", true),
        name => (name, false),
    };
    let mut config = config(name);
    config.tuning.commit_interval = Nanos::from_s(3600);
    config.tuning.writeback_delay = Nanos::from_ms(5);
    config.tuning.logging.gather_delay = Nanos::from_ms(1);
    if selective {
        // Half of the writes bypass the log.
        config.tuning.logging.caching = LogCaching::Selective { overwrite_ratio_ppm: 500_000 };
        config.tuning.logging.triggers.size = Some(Bytes::mib(2));
    }
    let spec = spec(directory, config);
    let process_death = match env::var(MEMORY) {
        Ok(memory) if memory == "off" => ProcessDeath::Off,
        Ok(memory) if memory.starts_with('/') => ProcessDeath::SharedMemory { directory: Some(memory.into()) },
        _ => return spec,
    };
    VolumeSpec { process_death, ..spec }
}

/// Not a test: the code of the child process.
#[test]
fn child() {
    let (Ok(directory), Ok(placement)) = (env::var(DIRECTORY), env::var(PLACEMENT)) else { return };
    end_with_the_test();
    let directory = PathBuf::from(directory);
    let spec = volume(&directory, &placement);
    let settings = Settings { notifier: Notifier::from_environment().unwrap(), ..Settings::default() };
    let service = Service::open(&spec, &Endpoint::Unix(directory.join("nbd")), settings).unwrap();
    if let Ok(name) = env::var(REPLACES) {
        let (handle, path) = (service.handle(), directory.join("new"));
        let new = Successor { path, bytes_per_s: None, accept_loss: false, force: true, update_design: false };
        thread::spawn(move || handle.replace(&name, new).unwrap());
    }
    service.run().unwrap();
}

/// Puts the device into the design's path that is in charge, and makes an empty one for the next replacement. Returns whether
/// the device was replaced.
fn in_charge(directory: &Path, placement: &str, name: &str) -> bool {
    let (old, new) = (directory.join(name), directory.join("new"));
    let opened = || inspect(&volume(directory, placement), false, &[]).unwrap().opened;
    let replaced = match opened() {
        Err(OpenError::Replaced { .. }) => {
            fs::rename(&new, &old).unwrap();
            true
        }
        opened => {
            opened.unwrap();
            // The other one is refused.
            if new.exists() {
                fs::rename(&old, directory.join("kept")).unwrap();
                fs::rename(&new, &old).unwrap();
                assert!(opened_is_refused(&volume(directory, placement)), "{placement} {name}: both are accepted");
                fs::rename(directory.join("kept"), &old).unwrap();
            }
            false
        }
    };
    opened().unwrap();
    let size = fs::metadata(&old).unwrap().len();
    fs::File::create(&new).unwrap().set_len(size).unwrap();
    replaced
}

fn opened_is_refused(spec: &VolumeSpec) -> bool {
    inspect(spec, false, &[]).unwrap().opened.is_err()
}

fn start(directory: &Path, placement: &str, memory: bool) -> Child {
    start_replacing(directory, placement, memory, None)
}

fn start_replacing(directory: &Path, placement: &str, memory: bool, replaces: Option<&str>) -> Child {
    // Removes the previous server's socket.
    let _ = fs::remove_file(directory.join("nbd"));
    let mut command = Command::new(env::current_exe().unwrap());
    if let Some(name) = replaces {
        command.env(REPLACES, name);
    }
    command
        .args(["--exact", "killed_amid_writes::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(PLACEMENT, placement)
        .env(MEMORY, if memory { "on" } else { "off" })
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The possible contents of each block: the last answered stamp, and later unanswered ones.
#[derive(Default)]
struct Model {
    answered: HashMap<u64, u64>,
    unanswered: HashMap<u64, Vec<u64>>,
    next: u64,
}

fn block(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(BLOCK as usize / 8)
}

impl Model {
    /// The number of blocks without their answered content; in blocks with an unanswered write, each sector may be old
    /// or new.
    fn lost(&mut self, client: &mut Client) -> usize {
        let mut lost = 0;
        let blocks = client.size / BLOCK;
        let runs = (0..blocks).step_by(64).map(|first| (first, 64.min(blocks - first)));
        let read = |(first, count): (u64, u64)| client.read(first * BLOCK, (count * BLOCK) as usize).unwrap();
        let all: Vec<u8> = runs.flat_map(read).collect();
        for (at, found) in (0..).zip(all.chunks(BLOCK as usize)) {
            let answered = self.answered.get(&at).copied().unwrap_or(0);
            let maybe = self.unanswered.remove(&at).unwrap_or_default();
            let allowed = |sector: &[u8]| {
                let stamp = u64::from_le_bytes(sector[..8].try_into().unwrap());
                sector == &stamp.to_le_bytes().repeat(64)[..] && (stamp == answered || maybe.contains(&stamp))
            };
            lost += usize::from(!found.chunks(512).all(allowed));
            if !maybe.is_empty() {
                // The block may be torn, so it is written again.
                self.next += 1;
                client.write(at * BLOCK, &block(self.next), false).unwrap();
                self.answered.insert(at, self.next);
            }
        }
        lost
    }

    /// Writes without flushes until the server is killed meanwhile. Returns the number of answered writes.
    fn write(&mut self, client: &mut Client, random: &mut Pcg64, child: &mut Child) -> usize {
        let blocks = client.size / BLOCK;
        let mut in_flight: HashMap<u64, (u64, Vec<u64>)> = HashMap::new();
        let until = Instant::now() + Duration::from_millis(random.random_range(100..500));
        let mut count = 0;
        loop {
            while in_flight.len() < DEPTH {
                // Most writes go to places that were written before, and some cover an extent.
                let near = if random.random_range(0..3) == 0 { blocks } else { 160 };
                let len = [1, 1, 1, 2, 4, 8][random.random_range(0..6)];
                let first = random.random_range(0..near - len);
                let first = if len >= 4 { first & !3 } else { first };
                let overlaps =
                    |(from, stamps): &(u64, Vec<u64>)| first < from + stamps.len() as u64 && *from < first + len;
                if in_flight.values().any(overlaps) {
                    continue;
                }
                let stamps: Vec<u64> = (0..len).map(|index| self.next + 1 + index).collect();
                self.next += len;
                for (at, stamp) in (first..).zip(&stamps) {
                    self.unanswered.entry(at).or_default().push(*stamp);
                }
                let data: Vec<u8> = stamps.iter().flat_map(|stamp| block(*stamp)).collect();
                let cookie = client.send(WRITE, 0, first * BLOCK, data.len() as u32, &data);
                in_flight.insert(cookie, (first, stamps));
            }
            if Instant::now() > until {
                break;
            }
            let (cookie, error) = client.answer().unwrap();
            assert_eq!(error, 0);
            self.is_answered(in_flight.remove(&cookie).unwrap());
            count += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Answers that were sent before the kill count.
        while let Ok((cookie, error)) = client.answer() {
            assert_eq!(error, 0);
            self.is_answered(in_flight.remove(&cookie).unwrap());
        }
        count
    }

    fn is_answered(&mut self, (first, stamps): (u64, Vec<u64>)) {
        for (at, stamp) in (first..).zip(stamps) {
            self.answered.insert(at, stamp);
            self.unanswered.remove(&at);
        }
    }
}

/// The number of answered blocks that are lost in a few rounds.
fn killed(placement: &str, memory: bool, repairs: bool) -> usize {
    let directory = tempfile::tempdir().unwrap();
    format(&volume(directory.path(), placement), false).unwrap();
    let (mut model, mut random) = (Model::default(), Pcg64::seed_from_u64(7));
    let (mut lost, mut answered) = (0, 0);
    for _ in 0..ROUNDS {
        let mut child = start(directory.path(), placement, memory);
        let mut client = Client::connect(&directory.path().join("nbd"));
        lost += model.lost(&mut client);
        answered += model.write(&mut client, &mut random, &mut child);
        if repairs {
            repair(&volume(directory.path(), placement), Trust::None, &[]).unwrap();
        }
    }
    let mut child = start(directory.path(), placement, memory);
    let mut client = Client::connect(&directory.path().join("nbd"));
    lost += model.lost(&mut client);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answered > 50 * ROUNDS, "only {answered} writes were answered: the test tests nothing");
    lost
}

#[test]
fn every_acknowledged_block_is_there_on_every_placement() {
    for placement in PLACEMENTS.into_iter().chain(["partitioned", "selective"]) {
        assert_eq!(killed(placement, true, false), 0, "{placement}");
    }
}

#[test]
fn repair_takes_over_what_was_answered() {
    for placement in ["tiering", "back", "selective"] {
        assert_eq!(killed(placement, true, true), 0, "{placement}");
    }
}

/// Kills servers while they replace a device, at random times; most rounds end before the new device is in charge, or after.
#[test]
fn a_device_is_replaced_and_the_server_is_killed_meanwhile() {
    for (placement, name) in [("tiering", "slow"), ("tiering", "fast"), ("back", "fast"), ("logging", "slow")] {
        let directory = tempfile::tempdir().unwrap();
        format(&volume(directory.path(), placement), false).unwrap();
        let (mut model, mut random) = (Model::default(), Pcg64::seed_from_u64(11));
        let (mut lost, mut answered, mut replaced) = (0, 0, 0);
        for _ in 0..ROUNDS {
            replaced += usize::from(in_charge(directory.path(), placement, name));
            let mut child = start_replacing(directory.path(), placement, true, Some(name));
            let mut client = Client::connect(&directory.path().join("nbd"));
            lost += model.lost(&mut client);
            answered += model.write(&mut client, &mut random, &mut child);
        }
        replaced += usize::from(in_charge(directory.path(), placement, name));
        let mut child = start(directory.path(), placement, true);
        let mut client = Client::connect(&directory.path().join("nbd"));
        lost += model.lost(&mut client);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(lost, 0, "{placement} {name}");
        assert!(replaced > 0 && answered > 50 * ROUNDS, "{placement} {name}: {replaced} replaced, {answered} answered");
    }
}

#[test]
fn without_the_memory_the_test_would_notice() {
    assert!(killed("tiering", false, false) > 0);
}

/// A copy of a volume has its identity: a snapshot of its devices, for a backup.
#[test]
fn a_copy_that_is_served_takes_nothing_from_a_server_that_is_killed() {
    const COUNT: u64 = 200;
    let (original, copy, memory) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = |directory: &Path| {
        let _ = fs::remove_file(directory.join("nbd"));
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "killed_amid_writes::child", "--nocapture"])
            .env(DIRECTORY, directory)
            .env(PLACEMENT, "tiering")
            .env(MEMORY, memory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    format(&volume(original.path(), "tiering"), false).unwrap();
    for name in ["fast", "slow"] {
        fs::copy(original.path().join(name), copy.path().join(name)).unwrap();
    }
    let stamp = |block: u64| (block + 1).to_le_bytes().repeat(BLOCK as usize / 8);
    let mut server = start(original.path());
    let mut client = Client::connect(&original.path().join("nbd"));
    let at = |block: u64| block * 37 % (client_blocks(&original)) * BLOCK;
    for block in 0..COUNT {
        client.write(at(block), &stamp(block), false).unwrap();
    }
    // It is served, used, and killed, too.
    let mut other = start(copy.path());
    Client::connect(&copy.path().join("nbd")).write(0, &[0xee; 4096], false).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    let mut again = start(copy.path());
    assert_eq!(Client::connect(&copy.path().join("nbd")).read(0, 4096).unwrap(), [0xee; 4096]);
    let mut server = start(original.path());
    let mut client = Client::connect(&original.path().join("nbd"));
    let lost = (0..COUNT).filter(|block| client.read(at(*block), BLOCK as usize).unwrap() != stamp(*block)).count();
    server.kill().unwrap();
    server.wait().unwrap();
    again.kill().unwrap();
    again.wait().unwrap();
    assert_eq!(lost, 0, "of {COUNT} acknowledged writes");
}

fn client_blocks(directory: &tempfile::TempDir) -> u64 {
    fs::metadata(directory.path().join("slow")).unwrap().len() / BLOCK / 2
}

/// With a program that watches the server the memory has no name, and no directory is needed.
#[test]
fn what_a_watched_server_leaves_is_kept_by_the_program_that_watches_it() {
    use std::os::{fd::OwnedFd, unix::fs::PermissionsExt as _};
    const COUNT: u64 = 200;
    let (directory, open_to_all) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::set_permissions(open_to_all.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    format(&volume(directory.path(), "tiering"), false).unwrap();
    let notified = Notified::at(&directory.path().join("notify")).unwrap();
    let start = |kept: Option<&OwnedFd>| {
        let _ = fs::remove_file(directory.path().join("nbd"));
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "killed_amid_writes::child", "--nocapture"]).env(DIRECTORY, directory.path());
        command.env(PLACEMENT, "tiering").env(MEMORY, open_to_all.path()).stdout(Stdio::null());
        notified.listen_to(&mut command, None, kept);
        command.spawn().unwrap()
    };
    let stamp = |block: u64| (block + 1).to_le_bytes().repeat(BLOCK as usize / 8);
    let at = |block: u64| block * 37 % client_blocks(&directory) * BLOCK;
    let kept = Arc::new(Mutex::new(None));
    let (socket, keeper) = (notified.socket().unwrap(), Arc::clone(&kept));
    // The server waits until its memory is kept, which is answered by closing the barrier.
    std::thread::spawn(move || {
        while let Ok((_, given)) = Notified::next(&socket) {
            if let Some(Given::Memory(memory)) = given {
                *keeper.lock().unwrap() = Some(memory);
            }
        }
    });
    for round in 0..3 {
        let mut server = start(kept.lock().unwrap().as_ref());
        let mut client = Client::connect(&directory.path().join("nbd"));
        let lost = (0..round * COUNT).filter(|block| client.read(at(*block), BLOCK as usize).unwrap() != stamp(*block));
        assert_eq!(lost.count(), 0, "of {} acknowledged writes", round * COUNT);
        for block in round * COUNT..(round + 1) * COUNT {
            client.write(at(block), &stamp(block), false).unwrap();
        }
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(kept.lock().unwrap().is_some(), "it has given its memory to keep");
    }
    assert_eq!(fs::read_dir(open_to_all.path()).unwrap().count(), 0, "nothing of it has a name");
}
