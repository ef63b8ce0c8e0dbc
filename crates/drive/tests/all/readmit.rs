//! The fear: a device that was given up and works again cannot return, or returns with older data.

use std::{fs, path::Path};

use crate::served::{Client, EIO, Served, config, spec};
use peryton_drive::{Effect, Endpoint, Fault, Service, Settings, inspect, readmit};
use peryton_engine::{Cleaning, Config, Metadata};
use peryton_units::Nanos;

const UNIT: usize = 16 << 10;

fn lazy(placement: &str) -> Config {
    let mut config = config(placement);
    if placement != "through" {
        config.tuning.writeback_delay = Nanos::from_s(3600);
        config.tuning.cleaning = Cleaning::UNBOUNDED;
    }
    config
}

fn content(at: u64, round: u8) -> Vec<u8> {
    (at + u64::from(round) * 0x0101_0000_0001).to_le_bytes().repeat(UNIT / 8)
}

fn write_units(client: &mut Client, units: impl Iterator<Item = u64>, round: u8, model: &mut [u8]) {
    for unit in units {
        let at = unit * UNIT as u64;
        if at + UNIT as u64 > client.size {
            break;
        }
        if client.write(at, &content(at, round), false).is_ok() {
            model[unit as usize] = round;
        }
    }
    let _ = client.flush();
    let _ = client.flush();
}

fn without(name: &str) -> Settings {
    Settings { without: vec![name.to_owned()], ..Settings::default() }
}

/// Reads everything; returns the places that differ from the model.
fn differing(client: &mut Client, model: &[u8]) -> Vec<usize> {
    let wrong = |unit: &usize| {
        let at = (*unit * UNIT) as u64;
        let expected = if model[*unit] == 0 { vec![0; UNIT] } else { content(at, model[*unit]) };
        client.read(at, UNIT) != Ok(expected)
    };
    (0..model.len()).filter(wrong).collect()
}

fn is_degraded(served: &Served, client: &mut Client) -> bool {
    (0..100).any(|_| {
        for at in (0..client.size).step_by(UNIT) {
            let _ = client.read(at, 512);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        let reported = served.handle.events().iter().any(|event| event["event"] == "device_gone");
        reported && served.handle.status().unwrap()["state"] == "degraded"
    })
}

/// A volume one of whose devices vanished, and which was written to afterwards. Returns the model.
fn degraded_volume(directory: &Path, config: &Config, device: u8, again: bool) -> Vec<u8> {
    let served = Served::new(directory, config.clone(), Settings::default());
    let mut client = served.client();
    let units = client.size as usize / UNIT;
    let mut model = vec![0; units];
    write_units(&mut client, 0..units as u64, 1, &mut model);
    // Some extents are hot, so that they are on the fast device.
    for _ in 0..3 {
        write_units(&mut client, 0..60, 2, &mut model);
        for unit in 0..60 {
            client.read(unit * UNIT as u64, 4096).unwrap();
        }
    }
    let fault = Fault { device, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
    served.handle.fault(fault).unwrap();
    let _ = client.read(0, 512);
    let _ = client.read(client.size - 512, 512);
    let _ = client.write(0, &content(0, 2), false);
    let _ = client.write(client.size - UNIT as u64, &content(client.size - UNIT as u64, 1), false);
    let _ = client.flush();
    assert!(is_degraded(&served, &mut client), "{:?}, {device}", config.placement);
    write_units(&mut client, (0..units as u64).step_by(7), 3, &mut model);
    drop(client);
    let _ = served.end();
    if again {
        let name = ["fast", "slow"][usize::from(device)];
        let served = Served::start(directory, config.clone(), without(name));
        write_units(&mut served.client(), (0..units as u64).step_by(11), 4, &mut model);
        served.stop();
    }
    model
}

#[test]
fn what_was_given_up_comes_back_with_all_that_it_has() {
    for placement in ["back", "through", "tiering", "linear"] {
        for (device, name) in ["fast", "slow"].into_iter().enumerate() {
            for again in [false, true] {
                let directory = tempfile::tempdir().unwrap();
                let at = directory.path();
                let config = lazy(placement);
                let model = degraded_volume(at, &config, device as u8, again);
                let case = format!("{placement} without {name}, {again}");
                let spec = spec(at, config.clone());
                let back = readmit(&spec, name).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(back.opened.gone, 0);
                assert!(back.restored > 0 || matches!(placement, "through" | "linear"), "{case}: nothing came back");
                // Extents that were being moved: the source had released them, and the target had not made them
                // durable.
                let on_its_way = back.opened.lost;
                let moves = matches!(placement, "back" | "tiering");
                assert!(on_its_way == 0 || moves && on_its_way < 16, "{case}: {on_its_way} stay lost");
                let found = inspect(&spec, false, &[]).unwrap();
                assert_eq!((found.metadata, found.lost.bytes), (Metadata::Whole, on_its_way * UNIT as u64), "{case}");
                let served = Served::start(at, config.clone(), Settings::default());
                assert_eq!(served.handle.status().unwrap()["state"], "healthy", "{case}");
                let mut client = served.client();
                let differing_now = differing(&mut client, &model);
                let named = |unit: &usize| found.lost.ranges.contains(&((unit * UNIT) as u64, UNIT as u64));
                let lost = |unit: &usize| client.read((unit * UNIT) as u64, UNIT) == Err(EIO);
                assert_eq!(differing_now.len() as u64, on_its_way, "{case}");
                assert!(differing_now.iter().all(lost), "{case}: wrong data");
                assert!(differing_now.iter().all(|unit| named(unit) || found.lost.ranges.len() < on_its_way as usize));
                // The device is used again, and its data survives the following operations.
                let mut model = model;
                let units = model.len() as u64;
                write_units(&mut client, differing_now.iter().map(|unit| *unit as u64), 5, &mut model);
                write_units(&mut client, (0..units).step_by(3), 5, &mut model);
                drop(client);
                served.stop();
                let served = Served::start(at, config, Settings::default());
                assert_eq!(differing(&mut served.client(), &model), Vec::<usize>::new(), "{case}, afterwards");
                served.stop();
                // There is no device to readmit now.
                let error = readmit(&spec, name).unwrap_err().to_string();
                assert!(error.contains("was not given up"), "{error}");
            }
        }
    }
}

#[test]
fn an_older_copy_is_not_taken_back_and_nothing_changes() {
    for placement in ["back", "tiering", "linear"] {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let config = lazy(placement);
        let spec = spec(at, config.clone());
        let served = Served::new(at, config.clone(), Settings::default());
        write_units(&mut served.client(), 0..100, 1, &mut vec![0; 1000]);
        served.stop();
        fs::copy(at.join("fast"), at.join("older")).unwrap();
        let served = Served::start(at, config.clone(), Settings::default());
        write_units(&mut served.client(), 0..100, 2, &mut vec![0; 1000]);
        let fault = Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
        served.handle.fault(fault).unwrap();
        let mut client = served.client();
        let _ = client.write(0, &content(0, 2), false);
        let _ = client.flush();
        assert!(is_degraded(&served, &mut client));
        drop(client);
        let _ = served.end();
        fs::rename(at.join("fast"), at.join("present")).unwrap();
        fs::rename(at.join("older"), at.join("fast")).unwrap();
        let before = fs::read(at.join("slow")).unwrap();
        let error = readmit(&spec, "fast").unwrap_err().to_string();
        assert!(error.contains("was given up in generation") && error.contains("'fast'"), "{placement}: {error}");
        assert!(fs::read(at.join("slow")).unwrap() == before, "{placement}: a refusal has written something");
        // The present device is readmitted.
        fs::rename(at.join("present"), at.join("fast")).unwrap();
        readmit(&spec, "fast").unwrap();
        Served::start(at, config, Settings::default()).stop();
    }
}

/// A log that is emptied soon.
fn brief() -> Config {
    let mut config = config("logging");
    config.tuning.logging.triggers.timeout = Some(Nanos::from_ms(100));
    config
}

/// Waits until the primary has everything, and makes that durable.
fn is_emptied(served: &Served, client: &mut Client) {
    served.wait_for(|status| status["log_age_s"].is_null());
    client.flush().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    client.flush().unwrap();
}

fn vanishes(served: &Served, client: &mut Client, device: u8) {
    let fault = Fault { device, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
    served.handle.fault(fault).unwrap();
    assert!((0..200).any(|_| {
        let _ = client.read(0, 512);
        let _ = client.write(client.size - 512, &[1; 512], false);
        let _ = client.flush();
        std::thread::sleep(std::time::Duration::from_millis(10));
        served.handle.events().iter().any(|event| event["event"] == "device_gone")
    }));
}

#[test]
fn a_log_comes_back_if_all_that_it_has_is_on_the_primary_and_says_why_if_not() {
    for empty in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let (at, config) = (directory.path(), if empty { brief() } else { config("logging") });
        let served = Served::new(at, config.clone(), Settings::default());
        let mut client = served.client();
        let units = client.size / UNIT as u64;
        let mut model = vec![0; units as usize];
        write_units(&mut client, 0..units, 1, &mut model);
        if empty {
            is_emptied(&served, &mut client);
        }
        vanishes(&served, &mut client, 0);
        write_units(&mut client, (0..units).step_by(7), 3, &mut model);
        drop(client);
        let _ = served.end();
        let spec = spec(at, config.clone());
        let endpoint = Endpoint::Unix(at.join("nbd"));
        assert!(
            Service::open(&spec, &endpoint, Settings::default()).is_err(),
            "it is not served as if nothing had been"
        );
        let before = ["fast", "slow"].map(|name| fs::read(at.join(name)).unwrap());
        let done = readmit(&spec, "fast");
        if !empty {
            let error = done.unwrap_err().to_string();
            assert!(
                error.contains("'fast'") && error.contains("is a log with") && error.contains("is newer"),
                "{error}"
            );
            assert!(
                ["fast", "slow"].map(|name| fs::read(at.join(name)).unwrap()) == before,
                "a refusal writes nothing"
            );
            continue;
        }
        assert_eq!(done.unwrap().opened.gone, 0);
        let served = Served::start(at, config, Settings::default());
        let mut client = served.client();
        assert_eq!(differing(&mut client, &model[..units as usize - 1]), Vec::<usize>::new());
        drop(client);
        served.stop();
    }
}
