//! The fear: a device fails under a volume that is being served, and data is lost that other devices have too.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::served::{Client, EIO, Served, config, spec};
use peryton_drive::{Effect, Fault, OfflineError, Service, Settings, VolumeSpec, inspect, repair, replace};
use peryton_engine::{Cleaning, Config, Metadata, Opened, Trust};
use peryton_units::Nanos;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;

const UNIT: usize = 16 << 10;
const NONE: [u64; 0] = [];

fn kill(served: &Served, device: u8, effect: Effect) {
    let fault = Fault { device, only: None, from: 0, to: u64::MAX, times: None, effect };
    served.handle.fault(fault).unwrap();
}

/// Writes whole and partial extents, some of them hot; returns the content of the volume.
fn fill(client: &mut Client, seed: u64) -> Vec<u8> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut model = vec![0; client.size as usize];
    for _ in 0..300 {
        let hot = random.random_bool(0.7);
        let units = if hot { 64 } else { client.size as usize / UNIT };
        let at = random.random_range(0..units) * UNIT + random.random_range(0..2) * 512;
        let len = [UNIT - 512, 4096, 512][random.random_range(0..3)];
        let mut data = vec![0; len];
        random.fill_bytes(&mut data);
        client.write(at as u64, &data, false).unwrap();
        model[at..at + len].copy_from_slice(&data);
        if random.random_bool(0.3) {
            client.read(at as u64, len).unwrap();
        }
    }
    client.flush().unwrap();
    model
}

/// Replaces a device by the one at its own path, whatever that holds.
fn put_in(spec: &VolumeSpec, name: &str, accept_loss: bool) -> Result<Opened, OfflineError> {
    let path = &spec.devices.iter().find(|device| device.name == name).unwrap().path;
    replace(spec, name, path, true, accept_loss)
}

/// Reads everything; returns the units whose reads fail. The others must have the correct data.
fn failing(client: &mut Client, model: &[u8], unit: usize) -> Vec<u64> {
    let mut failed = Vec::new();
    for at in (0..model.len()).step_by(unit) {
        match client.read(at as u64, unit) {
            Ok(data) => assert!(data == model[at..at + unit], "wrong data at {at}"),
            Err(error) => {
                assert_eq!(error, EIO);
                failed.push(at as u64);
            }
        }
    }
    failed
}

/// The lost ranges in the status, in units.
fn named(status: &Value, unit: u64) -> Vec<u64> {
    let lost = &status["lost"];
    assert_eq!(lost["more"], false, "{lost}");
    let ranges = lost["ranges"].as_array().unwrap().iter();
    let ranges = ranges.map(|range| (range["offset"].as_u64().unwrap(), range["length"].as_u64().unwrap()));
    ranges.flat_map(|(from, len)| (from / unit * unit..from + len).step_by(unit as usize)).collect()
}

/// Sends a little traffic until the server has noticed the failure and made it durable.
fn degraded(served: &Served, client: &mut Client) -> Value {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let status = served.handle.status().unwrap();
        let events = served.handle.events();
        if status["state"] == "degraded" && events.iter().any(|event| event["event"] == "device_gone") {
            return status;
        }
        let _ = client.write(0, &[0; 512], false);
        let _ = client.flush();
        let _ = client.read(0, 512);
        thread::sleep(Duration::from_millis(30));
    }
    panic!("the server does not notice that a device is dead");
}

/// Makes the write-back delay long, so that no data is written back while the test runs.
fn lazy(mut config: Config) -> Config {
    config.tuning.writeback_delay = Nanos::from_s(3600);
    config.tuning.cleaning = Cleaning::UNBOUNDED;
    config.tuning.demotion_low = 0;
    config.tuning.demotion_high = 0;
    config
}

fn without(names: &[&str]) -> Settings {
    Settings { without: names.iter().map(|name| (*name).to_owned()).collect(), ..Settings::default() }
}

fn refusal(directory: &std::path::Path, config: Config) -> String {
    let endpoint = directory.join("nbd").display().to_string().parse().unwrap();
    Service::open(&spec(directory, config), &endpoint, Settings::default()).unwrap_err().to_string()
}

#[test]
fn a_cache_that_writes_through_dies_and_nothing_fails() {
    for effect in [Effect::Gone, Effect::Fail] {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config("through"), Settings::default());
        let mut client = served.client();
        let mut model = fill(&mut client, 1);
        kill(&served, 0, effect);
        // No flush or write fails, before and after the failure is noticed.
        for round in 0..40_u8 {
            let at = usize::from(round) * UNIT;
            client.write(at as u64, &[round; 4096], false).unwrap();
            model[at..at + 4096].fill(round);
            client.flush().unwrap();
            client.read(at as u64, 4096).unwrap();
        }
        model[..512].fill(0);
        let status = degraded(&served, &mut client);
        assert_eq!(status["lost"]["bytes"], 0, "{status}");
        assert_eq!(status["devices"]["fast"]["state"], "gone");
        assert_eq!(failing(&mut client, &model, UNIT), NONE);
        drop(client);
        served.stop();
        // The device that returns has older data.
        let error = refusal(directory.path(), config("through"));
        assert!(error.contains("was given up"), "{error}");
        let served = Served::start(directory.path(), config("through"), without(&["fast"]));
        let mut client = served.client();
        assert_eq!(failing(&mut client, &model, UNIT), NONE);
        client.write(0, &[9; 512], true).unwrap();
        model[..512].fill(9);
        drop(client);
        served.stop();
        // An empty cache replaces it, and the volume continues.
        let spec = spec(directory.path(), config("through"));
        let error = replace(&spec, "fast", &spec.devices[0].path, false, false).unwrap_err().to_string();
        assert!(error.contains("holds a Peryton volume: name another device"), "{error}");
        put_in(&spec, "fast", false).unwrap();
        assert_eq!(inspect(&spec, false, &[]).unwrap().metadata, Metadata::Whole);
        let served = Served::start(directory.path(), config("through"), Settings::default());
        let mut client = served.client();
        assert_eq!(served.handle.status().unwrap()["state"], "healthy");
        assert_eq!(failing(&mut client, &model, UNIT), NONE);
        drop(client);
        served.stop();
    }
}

#[test]
fn a_cache_that_writes_back_dies_and_what_was_dirty_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let config = lazy(config("back"));
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    let mut model = fill(&mut client, 2);
    let dirty = served.handle.status().unwrap()["dirty_extents"].as_u64().unwrap();
    assert!(dirty > 10, "only {dirty} extents are dirty: the test tests nothing");
    kill(&served, 0, Effect::Gone);
    // The first request that needs the failed device.
    let _ = client.read(0, 512);
    let status = degraded_quietly(&served);
    let lost = named(&status, UNIT as u64);
    assert_eq!(lost.len() as u64, dirty, "{status}");
    assert_eq!(client.flush(), Err(EIO), "a flush must say once that something was lost");
    client.flush().unwrap();
    assert_eq!(failing(&mut client, &model, UNIT), lost);
    // Some lost blocks are overwritten, some discarded, and some stay lost over restarts.
    for at in &lost[..lost.len() / 2] {
        client.write(*at, &[5; UNIT], false).unwrap();
        model[*at as usize..*at as usize + UNIT].fill(5);
    }
    let still = &lost[lost.len() / 2..];
    assert_eq!(client.write(still[0], &[1; 512], false), Err(EIO), "part of what is lost");
    client.flush().unwrap();
    assert_eq!(failing(&mut client, &model, UNIT), still);
    drop(client);
    served.stop();
    let spec = spec(directory.path(), config.clone());
    let report = inspect(&spec, false, &["fast".to_owned()]).unwrap();
    assert_eq!(report.lost.bytes, (still.len() * UNIT) as u64);
    assert_eq!(inspect(&spec, false, &[]).unwrap().metadata, Metadata::Unseen);
    repair(&spec, Trust::None, &["fast".to_owned()]).unwrap();
    let served = Served::start(directory.path(), config.clone(), without(&["fast"]));
    let mut client = served.client();
    assert_eq!(failing(&mut client, &model, UNIT), still);
    drop(client);
    served.stop();
    put_in(&spec, "fast", false).unwrap();
    let served = Served::start(directory.path(), config, Settings::default());
    let mut client = served.client();
    assert_eq!(failing(&mut client, &model, UNIT), still, "an empty cache brings nothing back");
    for at in still {
        client.trim(*at, UNIT as u32).unwrap();
        model[*at as usize..*at as usize + UNIT].fill(0);
    }
    client.flush().unwrap();
    assert_eq!(failing(&mut client, &model, UNIT), NONE);
    drop(client);
    served.stop();
}

/// Waits for the degraded state without sending requests.
fn degraded_quietly(served: &Served) -> Value {
    for _ in 0..500 {
        let status = served.handle.status().unwrap();
        if status["state"] == "degraded" {
            return status;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("the server does not notice that a device is gone");
}

#[test]
fn a_cache_without_its_disk_serves_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let config = lazy(config("back"));
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    let model = fill(&mut client, 3);
    kill(&served, 1, Effect::Gone);
    let _ = client.read(client.size - 512, 512);
    let status = degraded_quietly(&served);
    let _ = client.flush();
    let failed = failing(&mut client, &model, UNIT);
    assert_eq!(failed, named(&status, UNIT as u64));
    assert!(failed.len() * UNIT < model.len(), "nothing is left");
    drop(client);
    served.stop();
    let served = Served::start(directory.path(), config, without(&["slow"]));
    let mut client = served.client();
    assert_eq!(failing(&mut client, &model, UNIT), failed);
    drop(client);
    served.stop();
}

#[test]
fn tiering_serves_what_is_on_the_other_device() {
    for (device, name) in [(0, "fast"), (1, "slow")] {
        let directory = tempfile::tempdir().unwrap();
        let config = lazy(config("tiering"));
        let served = Served::new(directory.path(), config.clone(), Settings::default());
        let mut client = served.client();
        let size = client.size as usize;
        let model = vec![7; size];
        for at in (0..size).step_by(1 << 20) {
            client.write(at as u64, &model[at..size.min(at + (1 << 20))], false).unwrap();
        }
        client.flush().unwrap();
        kill(&served, device, Effect::Gone);
        let _ = client.read(0, 512);
        let _ = client.read(size as u64 - 512, 512);
        let _ = client.flush();
        let status = degraded_quietly(&served);
        let failed = failing(&mut client, &model, UNIT);
        assert_eq!(failed, named(&status, UNIT as u64), "{name}");
        assert!(!failed.is_empty() && failed.len() * UNIT < size);
        client.flush().unwrap();
        drop(client);
        served.stop();
        assert!(refusal(directory.path(), config.clone()).contains("was given up"));
        let served = Served::start(directory.path(), config.clone(), without(&[name]));
        let mut client = served.client();
        assert_eq!(failing(&mut client, &model, UNIT), failed, "{name}");
        drop(client);
        served.stop();
        put_in(&spec(directory.path(), config.clone()), name, false).unwrap();
        let served = Served::start(directory.path(), config, Settings::default());
        let mut client = served.client();
        for at in &failed {
            client.write(*at, &[7; UNIT], false).unwrap();
        }
        assert_eq!(failing(&mut client, &model, UNIT), NONE, "{name}");
        drop(client);
        served.stop();
    }
}

#[test]
fn a_log_that_dies_leaves_the_older_image_and_says_how_old() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("logging");
    config.tuning.logging.triggers.timeout = None;
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    let model = fill(&mut client, 4);
    thread::sleep(Duration::from_millis(50));
    kill(&served, 0, Effect::Gone);
    let _ = client.read(0, 512);
    let _ = client.write(0, &model[..512], false);
    let status = degraded_quietly(&served);
    let _ = client.flush();
    let lost = named(&status, 512);
    assert!(!lost.is_empty());
    let age = status["log_age_s"].as_f64().unwrap();
    assert!((0.05..60.0).contains(&age), "{age}");
    let failed = failing(&mut client, &model, 512);
    assert!(failed.iter().all(|at| lost.contains(at)), "{} failed, {} are named", failed.len(), lost.len());
    // A write makes a block readable again.
    client.write(lost[lost.len() / 2], &[3; 4096], true).unwrap();
    assert_eq!(client.read(lost[lost.len() / 2], 4096).unwrap(), [3; 4096]);
    drop(client);
    served.stop();
    // With permission the older image is served, and no read fails.
    assert!(refusal(directory.path(), config.clone()).contains("was given up"));
    let served = Served::start(directory.path(), config.clone(), without(&["fast"]));
    let mut client = served.client();
    client.write(0, &[1; 4096], true).unwrap();
    let image = all(&mut client);
    drop(client);
    served.stop();
    // An empty log is accepted too, by a user who permits that older data is not marked.
    let error = put_in(&spec(directory.path(), config.clone()), "fast", false).unwrap_err().to_string();
    assert!(error.contains("--accept-loss"), "{error}");
    put_in(&spec(directory.path(), config.clone()), "fast", true).unwrap();
    let served = Served::start(directory.path(), config, Settings::default());
    let mut client = served.client();
    assert_eq!(served.handle.status().unwrap()["state"], "healthy");
    assert!(all(&mut client) == image, "the log brought something back");
    client.write(4096, &[2; 4096], true).unwrap();
    drop(client);
    served.stop();
}

fn all(client: &mut Client) -> Vec<u8> {
    (0..client.size).step_by(1 << 20).flat_map(|at| client.read(at, 1 << 20).unwrap()).collect()
}

#[test]
fn a_log_outlives_its_primary() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("logging");
    config.tuning.logging.triggers.timeout = None;
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let mut client = served.client();
    let mut model = fill(&mut client, 5);
    kill(&served, 1, Effect::Gone);
    let _ = client.read(client.size - 512, 512);
    let status = degraded_quietly(&served);
    let _ = client.flush();
    let failed = failing(&mut client, &model, 512);
    assert_eq!(failed, named(&status, 512));
    assert!(failed.len() * 512 < model.len());
    drop(client);
    served.stop();
    let served = Served::start(directory.path(), config.clone(), without(&["slow"]));
    let mut client = served.client();
    assert_eq!(failing(&mut client, &model, 512), failed);
    drop(client);
    served.stop();
    // A new primary replaces the old one: lost data reads as zeros, whatever the new one contained.
    let error = put_in(&spec(directory.path(), config.clone()), "slow", false).unwrap_err().to_string();
    assert!(error.contains("zeros") && error.contains("--accept-loss"), "{error}");
    put_in(&spec(directory.path(), config.clone()), "slow", true).unwrap();
    let served = Served::start(directory.path(), config, Settings::default());
    let mut client = served.client();
    failed.iter().for_each(|at| model[*at as usize..*at as usize + 512].fill(0));
    assert_eq!(failing(&mut client, &model, 512), NONE);
    drop(client);
    served.stop();
}

#[test]
fn a_part_of_linear_is_replaced_and_reads_as_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    let mut model = fill(&mut client, 8);
    drop(client);
    served.stop();
    let spec = spec(directory.path(), config("linear"));
    std::fs::remove_file(directory.path().join("fast")).unwrap();
    let error = replace(&spec, "fast", &spec.devices[0].path, false, false).unwrap_err().to_string();
    assert!(error.contains("2MiB") && error.contains("--accept-loss"), "{error}");
    assert!(!directory.path().join("fast").exists(), "what is refused must change nothing");
    replace(&spec, "fast", &spec.devices[0].path, false, true).unwrap();
    let served = Served::start(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    model[..2 << 20].fill(0);
    assert_eq!(failing(&mut client, &model, UNIT), NONE);
    drop(client);
    served.stop();
}

#[test]
fn a_few_failures_kill_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), Settings::default());
    let mut client = served.client();
    let model = fill(&mut client, 6);
    for _ in 0..5 {
        let fault = Fault { device: 0, only: None, from: 0, to: u64::MAX, times: Some(3), effect: Effect::Fail };
        served.handle.fault(fault).unwrap();
        let _ = client.read(0, 512);
        client.flush().unwrap();
    }
    served.handle.heal().unwrap();
    // A device that has failed a command is back when the next one succeeds.
    let status = served.wait_for(|status| status["state"] == "healthy");
    assert_eq!((&status["state"], &status["lost"]["bytes"]), (&"healthy".into(), &0.into()), "{status}");
    assert_eq!(failing(&mut client, &model, UNIT), NONE);
    drop(client);
    served.stop();
}

#[test]
fn one_that_is_not_there_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    Served::new(directory.path(), config("through"), Settings::default()).stop();
    std::fs::remove_file(directory.path().join("fast")).unwrap();
    let error = refusal(directory.path(), config("through"));
    assert!(error.contains("'fast'") && error.contains("--without fast"), "{error}");
    let endpoint = directory.path().join("nbd").display().to_string().parse().unwrap();
    let spec = spec(directory.path(), config("through"));
    let error = Service::open(&spec, &endpoint, without(&["quick"])).unwrap_err().to_string();
    assert!(error.contains("no device 'quick'"), "{error}");
    let served = Served::start(directory.path(), config("through"), without(&["fast"]));
    served.client().write(0, &[1; 100], true).unwrap();
    served.stop();
}
