//! The fear: a device that fails for a moment is given up permanently, with all data that only it has.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::served::{self, Client, EIO, PLACEMENTS, Served, spec};
use peryton_drive::{Effect, Endpoint, Fault, Only, ServeError, Service, Settings, format};
use peryton_engine::Config;
use peryton_units::{Bytes, Nanos};

const BLOCK: usize = 4096;

/// A configuration with patience for devices that return.
fn config(placement: &str) -> Config {
    let mut config = served::config(placement);
    config.tuning.patience = Nanos::from_s(60);
    config
}

fn all_of(device: u8, effect: Effect) -> Fault {
    Fault { device, only: None, from: 0, to: u64::MAX, times: None, effect }
}

/// Fills the volume and makes it durable; each block contains its offset.
fn fill(client: &mut Client) {
    assert!(overwrite(client), "a flush fails");
}

/// Writes every block; returns whether the flush afterwards succeeds.
fn overwrite(client: &mut Client) -> bool {
    for at in (0..client.size).step_by(BLOCK) {
        client.write(at, &block(at), false).unwrap();
    }
    client.flush().is_ok()
}

fn block(at: u64) -> Vec<u8> {
    (at / BLOCK as u64 + 1).to_le_bytes().repeat(BLOCK / 8)
}

/// The number of blocks that cannot be read; the others must have the correct data.
fn unreadable(client: &mut Client) -> u64 {
    let size = client.size;
    let fails = |at: &u64| match client.read(*at, BLOCK) {
        Ok(data) => {
            assert!(data == block(*at), "wrong data at {at}");
            false
        }
        Err(_) => true,
    };
    (0..size).step_by(BLOCK).filter(fails).count() as u64
}

/// Sends requests of every kind that accesses a device, for this long.
fn keep_busy(served: &Served, time: Duration) -> thread::JoinHandle<()> {
    let mut client = served.client();
    thread::spawn(move || {
        let began = Instant::now();
        let mut at = 0;
        while began.elapsed() < time {
            at = (at + 17 * BLOCK as u64) % client.size;
            let _ = client.write(at, &block(at), false);
            let _ = client.flush();
            let _ = client.read((at * 3) % client.size / 4096 * 4096, BLOCK);
        }
    })
}

/// A device fails all commands for 1.5 s while it is in use; returns the number of blocks that cannot be read
/// afterwards.
fn outage(placement: &str, device: u8, effect: Effect, config: &Config) -> (u64, String) {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    fill(&mut client);
    let busy = keep_busy(&served, Duration::from_millis(1600));
    served.handle.fault(all_of(device, effect)).unwrap();
    thread::sleep(Duration::from_millis(1500));
    served.handle.heal().unwrap();
    busy.join().unwrap();
    // A log that failed a flush is opened again when its devices work.
    served.wait_for(|status| status["state"] == "healthy" && client.read(0, BLOCK).is_ok());
    let lost = unreadable(&mut client);
    if lost == 0 {
        // Writes show that the device works again. A flush of a device that failed in the outage may be reported to the next flush of
        // the host only, if that had none under way: then the data are written again.
        if !overwrite(&mut client) {
            assert!(overwrite(&mut client), "{placement}, device {device}, {effect:?}: a second flush fails");
        }
    }
    let status = served.handle.status().unwrap();
    if lost == 0 {
        client.write(0, &block(0), false).unwrap();
        client.flush().unwrap();
        drop(client);
        let ended = served.end();
        assert!(ended.is_ok(), "{placement}, device {device}, {effect:?}: {ended:?}");
        let served = Served::start(directory.path(), config.clone(), Settings::default());
        assert_eq!(unreadable(&mut served.client()), 0, "{placement}, device {device}, {effect:?}: afterwards");
        served.stop();
    } else {
        drop(client);
        let _ = served.end();
    }
    (lost, status["state"].as_str().unwrap().to_owned())
}

#[test]
fn a_short_outage_costs_no_device_and_no_data() {
    let all_effects = |placement: &str| {
        for device in 0..if placement == "single" { 1 } else { 2 } {
            for effect in [Effect::Outage, Effect::Fail, Effect::Full] {
                let found = outage(placement, device, effect, &config(placement));
                assert_eq!(found, (0, "healthy".to_owned()), "{placement}, device {device}, {effect:?}");
            }
        }
    };
    // Each run mostly waits, so all placements run at once.
    thread::scope(|scope| {
        PLACEMENTS.iter().for_each(|placement| drop(scope.spawn(move || all_effects(placement))));
    });
}

/// The reason for patience: without it, the device is given up, and its data with it.
#[test]
fn without_patience_a_longer_outage_costs_the_device() {
    let mut config = config("tiering");
    config.tuning.patience = Nanos::ZERO;
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config, Settings::default());
    let mut client = served.client();
    fill(&mut client);
    let busy = keep_busy(&served, Duration::from_secs(4));
    served.handle.fault(all_of(0, Effect::Outage)).unwrap();
    busy.join().unwrap();
    served.handle.heal().unwrap();
    assert_eq!(served.handle.status().unwrap()["state"], "degraded");
    assert!(unreadable(&mut client) > 0);
    drop(client);
    let _ = served.end();
}

/// A device takes reads and nothing else for longer than the patience. Returns the state of the volume then.
fn takes_only_reads(placement: &str, device: u8) -> String {
    let mut config = served::config(placement);
    config.tuning.patience = Nanos::from_ms(300);
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    fill(&mut client);
    // A log stops when a flush fails.
    let refused: &[Only] = if placement == "logging" { &[Only::Writes] } else { &[Only::Writes, Only::Flushes] };
    for only in refused {
        served.handle.fault(Fault { only: Some(*only), ..all_of(device, Effect::Outage) }).unwrap();
    }
    let case = format!("{placement}, device {device}");
    let busy = keep_busy(&served, Duration::from_secs(4)).join();
    assert!(busy.is_ok(), "{case}: {}", served.handle.status().unwrap());
    let lost = unreadable(&mut client);
    assert_eq!(lost, 0, "{case}: readable data are given up: {}", served.handle.status().unwrap());
    let began = Instant::now();
    let _ = client.flush();
    assert!(began.elapsed() < Duration::from_secs(10), "{case}: a flush hangs");
    let status = served.handle.status().unwrap();
    assert_eq!(status["lost"]["bytes"], 0, "{case}: {status}");
    served.handle.heal().unwrap();
    let began = Instant::now();
    while !overwrite_if_possible(&mut client) {
        assert!(began.elapsed() < Duration::from_secs(20), "{case}: it does not come back: {status}");
        thread::sleep(Duration::from_millis(50));
    }
    drop(client);
    served.end().unwrap();
    let without = status["devices"]["fast"]["state"] == "gone";
    if !without {
        let served = Served::start(directory.path(), config, Settings::default());
        assert_eq!(unreadable(&mut served.client()), 0, "{case}: afterwards");
        served.stop();
    }
    status["state"].as_str().unwrap().to_owned()
}

/// Writes every block and flushes, if nothing fails.
fn overwrite_if_possible(client: &mut Client) -> bool {
    (0..client.size).step_by(BLOCK).all(|at| client.write(at, &block(at), false).is_ok()) && client.flush().is_ok()
}

/// The fear: a device that takes no writes any more, as a worn SSD, is given up with data that could be read.
#[test]
fn what_can_be_read_and_is_needed_is_not_given_up() {
    thread::scope(|scope| {
        for (placement, devices) in
            [("single", 1), ("linear", 2), ("tiering", 2), ("back", 2), ("through", 2), ("logging", 2)]
        {
            for device in 0..devices {
                scope.spawn(move || {
                    let state = takes_only_reads(placement, device);
                    // A cache is not needed once nothing in it is dirty: the volume goes on without it.
                    let is_cache = matches!((placement, device), ("back" | "through", 0));
                    assert_eq!(state, if is_cache { "degraded" } else { "outage" }, "{placement}, {device}");
                });
            }
        }
    });
}

#[test]
fn an_outage_is_reported_and_patience_runs_out() {
    let mut config = config("back");
    config.tuning.patience = Nanos::from_s(3600);
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config, Settings::default());
    let mut client = served.client();
    fill(&mut client);
    served.handle.fault(all_of(0, Effect::Outage)).unwrap();
    let busy = keep_busy(&served, Duration::from_secs(8));
    let device = served.wait_for(|status| status["devices"]["fast"]["state"] == "outage");
    assert_eq!(device["state"], "outage");
    thread::sleep(Duration::from_secs(3));
    let status = served.handle.status().unwrap();
    let outage = &status["devices"]["fast"]["outage"];
    assert!(outage["since_s"].as_f64().unwrap() >= 2.5, "{outage}");
    assert!((3500.0..3600.0).contains(&outage["patience_left_s"].as_f64().unwrap()), "{outage}");
    assert!(outage["commands_waiting"].as_u64().unwrap() > 0 && outage["full"] == false, "{outage}");
    assert!(outage["error"].as_str().unwrap().contains("Input/output error"), "{outage}");
    // A shorter patience during the outage: then the device is given up.
    served.handle.set(vec!["failure.patience=1s".to_owned()], vec![]).unwrap_err();
    served.wait_for(|status| status["state"] == "degraded");
    // The event comes when it is durable that the device is gone.
    served.wait_for(|_| served.handle.events().iter().any(|event| event["event"] == "device_gone"));
    let events = served.handle.events();
    let position = |name: &str| events.iter().position(|event| event["event"] == name).unwrap();
    assert!(position("outage") < position("device_gone"));
    busy.join().unwrap();
    drop(client);
    served.stop();
}

/// The fear: a full file system beneath a backing file looks like a broken disk, to clients and to the page cache.
#[test]
fn a_client_hears_that_there_is_no_space() {
    const NO_SPACE: u32 = 28;
    for (effect, heard) in [(Effect::Full, NO_SPACE), (Effect::Outage, EIO)] {
        let mut config = config("single");
        config.tuning.patience = Nanos::from_ms(100);
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config, Settings::default());
        let mut client = served.client();
        fill(&mut client);
        served.handle.fault(all_of(0, effect)).unwrap();
        assert_eq!(client.write(0, &block(0), true), Err(heard), "{effect:?}");
        // What is full can be read.
        let is_read = client.read(0, BLOCK).is_ok_and(|found| found == block(0));
        assert_eq!(is_read, effect == Effect::Full, "{effect:?}");
        served.handle.heal().unwrap();
        if effect == Effect::Full {
            // It is not given up.
            let began = Instant::now();
            while client.write(0, &block(0), true).is_err() {
                assert!(began.elapsed() < Duration::from_secs(20), "it does not come back");
                thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(client.read(0, BLOCK).unwrap(), block(0));
        }
        drop(client);
        let _ = served.end();
    }
}

#[test]
fn a_volume_in_an_outage_ends_when_it_is_asked_to() {
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), Settings::default());
        let mut client = served.client();
        fill(&mut client);
        served.handle.fault(all_of(0, Effect::Outage)).unwrap();
        // One request that waits, and one client that stays.
        for at in 0..64 {
            client.send(served::WRITE, 0, at * 16384, 512, &[1; 512]);
        }
        client.send(served::FLUSH, 0, 0, 0, &[]);
        thread::sleep(Duration::from_millis(300));
        let began = Instant::now();
        let ended = served.end();
        assert!(began.elapsed() < Duration::from_secs(10), "{placement}: {:?}", began.elapsed());
        // Volumes that did not write to the device can be closed.
        let untouched = matches!(placement, "around" | "through") && ended.is_ok();
        let left_open = matches!(ended, Err(ServeError::Outage { .. } | ServeError::InDoubt { .. }));
        assert!(left_open || untouched, "{placement}: {ended:?}");
        drop(client);
        let served = Served::start(directory.path(), config(placement), Settings::default());
        let mut client = served.client();
        for at in (2 << 20..client.size).step_by(BLOCK) {
            assert!(client.read(at, BLOCK).unwrap() == block(at), "{placement}");
        }
        assert_eq!(served.handle.status().unwrap()["state"], "healthy");
        drop(client);
        served.stop();
    }
}

#[test]
fn a_bad_sector_is_not_an_outage() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let mut client = served.client();
    fill(&mut client);
    let bad =
        Fault { only: Some(Only::Reads), from: (1 << 20) + 8192, to: (1 << 20) + 8193, ..all_of(0, Effect::Outage) };
    served.handle.fault(bad).unwrap();
    let began = Instant::now();
    assert_eq!(client.read(8192, BLOCK), Err(EIO));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    client.read(0, BLOCK).unwrap();
    assert_eq!(served.handle.status().unwrap()["state"], "healthy");
    served.handle.heal().unwrap();
    drop(client);
    served.stop();
}

#[test]
fn metadata_has_its_space_from_the_start() {
    use std::os::unix::fs::MetadataExt;
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        let made = format(&spec(directory.path(), config(placement)), false).unwrap();
        let sizes = config(placement).sizes().unwrap();
        for (index, device) in made.devices.iter().enumerate() {
            if sizes.devices[index] == Bytes::ZERO {
                continue;
            }
            let allocated = std::fs::metadata(&device.path).unwrap().blocks() * 512;
            let need = sizes.data_at[index].0 + 4096;
            assert!(allocated >= need, "{placement}, {}: {allocated} of {need}", device.name);
        }
    }
}

/// A file system in memory of a certain size; unmounted at the end.
struct Tmpfs(std::path::PathBuf);

fn run(program: &str, arguments: &[&str]) -> bool {
    std::process::Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let at = self.0.to_str().unwrap();
        (0..50).any(|_| {
            thread::sleep(Duration::from_millis(100));
            run("umount", &[at])
        });
    }
}

#[test]
fn a_full_file_system_makes_clients_wait_and_costs_no_device() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("tmpfs");
    std::fs::create_dir(&at).unwrap();
    if !run("mount", &["-t", "tmpfs", "-o", "size=64m", "peryton-test", at.to_str().unwrap()]) {
        eprintln!("skipped: this user cannot mount a tmpfs");
        return;
    }
    let _tmpfs = Tmpfs(at.clone());
    for placement in PLACEMENTS {
        // Enough patience, and so little that it ends: then clients get errors, and the device stays.
        for patience in [Nanos::from_s(60), Nanos::from_ms(300)] {
            let mut config = config(placement);
            config.tuning.patience = patience;
            let spec = spec(&at, config);
            format(&spec, true).unwrap();
            let nbd = directory.path().join(placement);
            let service = Service::open(&spec, &Endpoint::Unix(nbd.clone()), Settings::default()).unwrap();
            let handle = service.handle();
            let thread = thread::spawn(move || service.run());
            let mut client = Client::connect(&nbd);
            let half = client.size / 2 / BLOCK as u64 * BLOCK as u64;
            for offset in (0..half).step_by(BLOCK) {
                client.write(offset, &block(offset), false).unwrap();
            }
            client.flush().unwrap();
            // The rest of the space of the file system.
            let ballast = at.join("ballast");
            assert!(fill_up(&ballast) > 0);
            let mut other = Client::connect(&nbd);
            let writer = thread::spawn(move || {
                let mut failed = 0;
                for offset in (half..other.size).step_by(BLOCK) {
                    if let Err(error) = other.write(offset, &block(offset), false) {
                        eprintln!("{placement}, patience {patience}, at {offset}: {error}");
                        failed += 1;
                    }
                }
                // A flush of a device that failed in the outage may be reported to the first flush of the host after it.
                failed + u32::from(other.flush().is_err() && other.flush().is_err())
            });
            let began = Instant::now();
            let mut saw_outage = false;
            while began.elapsed() < Duration::from_secs(3) {
                saw_outage |= handle.status().unwrap()["state"] == "outage";
                thread::sleep(Duration::from_millis(50));
            }
            assert!(saw_outage, "{placement}: the file system was not full");
            std::fs::remove_file(&ballast).unwrap();
            let failed = writer.join().unwrap();
            assert!(failed == 0 || patience < Nanos::from_s(1), "{placement}: {failed} failed");
            for offset in (0..half).step_by(BLOCK) {
                assert!(client.read(offset, BLOCK).unwrap() == block(offset), "{placement} at {offset}");
            }
            if failed == 0 {
                assert_eq!(unreadable(&mut client), 0, "{placement}");
            }
            // The next write shows that there is space again.
            for offset in (0..client.size).step_by(16 << 10) {
                // In one of hundreds of runs the first write after the patience has ended still fails: not everything that the file system
                // has freed need be there at once.
                let began = Instant::now();
                while let Err(error) = client.write(offset, &[5; 16 << 10], false) {
                    let status = handle.status().unwrap();
                    eprintln!("{placement}, patience {patience}, at {offset}: {error}, {status}");
                    let may_fail = patience < Nanos::from_s(1) && began.elapsed() < Duration::from_secs(2);
                    assert!(may_fail, "{placement}: there is space, and no write succeeds");
                    thread::sleep(Duration::from_millis(20));
                }
            }
            client.flush().unwrap();
            // A device is known to be back when a command of it succeeds. The primary of a log gets one with the next migration,
            // which a hint begins.
            let (began, mut state) = (Instant::now(), handle.status().unwrap()["state"].clone());
            while state != "healthy" && began.elapsed() < Duration::from_secs(20) {
                let _ = client.cache(0, client.size as u32);
                let _ = client.flush();
                thread::sleep(Duration::from_millis(50));
                state = handle.status().unwrap()["state"].clone();
            }
            assert_eq!(state, "healthy", "{placement}, patience {patience}");
            drop(client);
            handle.stop();
            thread.join().unwrap().unwrap();
        }
    }
}

/// Writes until there is no space.
fn fill_up(path: &std::path::Path) -> u64 {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let mut filled = 0;
    for len in [1 << 20, 4096] {
        while file.write_all(&vec![1; len]).is_ok() {
            filled += len as u64;
        }
    }
    filled
}
