//! The fear: a device that was gone cannot come back while the volume is served, or brings old data with it; or one that was evacuated
//! is needed or believed afterwards; or clients notice more of it than a pause.

use std::{fs, fs::File, thread, time::Duration};

use crate::model::write;
use crate::served::{Client, Served, config, refusal, ways};
use peryton_drive::{Effect, Fault, NewSize, Only, Settings, Stoppable, Successor};
use peryton_engine::{Cleaning, Config, Journal};
use peryton_units::Nanos;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

fn lazy(placement: &str) -> Config {
    let mut config = config(placement);
    config.tuning.writeback_delay = Nanos::from_s(3600);
    config.tuning.cleaning = Cleaning::UNBOUNDED;
    config
}

fn check(client: &mut Client, model: &[u8], case: &str) {
    for at in (0..model.len()).step_by(16 << 10) {
        let len = (16 << 10).min(model.len() - at);
        assert!(client.read(at as u64, len).unwrap() == model[at..at + len], "{case}: wrong data at {at}");
    }
}

/// Lets a device vanish, and waits until it is given up.
fn vanishes(served: &Served, client: &mut Client, device: u8) {
    let fault = Fault { device, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
    served.handle.fault(fault).unwrap();
    assert!((0..200).any(|_| {
        for at in (0..client.size).step_by(16 << 10) {
            let _ = client.read(at, 512);
        }
        let _ = client.flush();
        thread::sleep(Duration::from_millis(10));
        served.handle.events().iter().any(|event| event["event"] == "device_gone")
    }));
    let _ = client.flush();
}

/// What is written while the device is away must not be read as it was before from the device that comes back.
fn returned(placement: &str, device: u8, settings: &Settings) {
    let name = ["fast", "slow"][usize::from(device)];
    let case = format!("{placement}, {name}");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut config = config(placement);
    config.tuning.commit_interval = Nanos::from_ms(50);
    let served = Served::new(at, config.clone(), settings.clone());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(3));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 300, &mut random);
    // Copies of what was read.
    check(&mut client, &model, &case);
    served.handle.clean().ok();
    served.wait_for(|status| status["dirty_extents"] == 0);
    client.flush().unwrap();
    // What the map calls dirty when the slow device vanishes stays lost if its copy is evicted meanwhile: the map is committed before.
    thread::sleep(Duration::from_secs(1));
    assert!(served.handle.readmit(name, None, false).unwrap_err().contains("is part of the volume"), "{case}");
    vanishes(&served, &mut client, device);
    // Some ranges may be lost now: only whole extents can be written there.
    let extent = 16 << 10;
    for index in (0..model.len() / extent).step_by(3) {
        let mut data = vec![0; extent];
        random.fill_bytes(&mut data);
        if client.write((index * extent) as u64, &data, false).is_ok() {
            model[index * extent..(index + 1) * extent].copy_from_slice(&data);
        }
    }
    let _ = client.flush();
    let _ = client.flush();
    served.handle.heal().unwrap();
    let back = served.handle.readmit(name, None, false).unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(back["path"], at.join(name).display().to_string(), "{case}");
    let status = served.handle.status().unwrap();
    assert_eq!(status["state"], "healthy", "{case}: {status}");
    // Extents that were on their way from one device to the other stay lost.
    let lost = status["lost"]["ranges"].as_array().unwrap().clone();
    assert!(lost.len() < if placement == "tiering" { 16 } else { 1 }, "{case}: {lost:?}");
    for range in lost {
        let (from, len) = (range["offset"].as_u64().unwrap() as usize, range["length"].as_u64().unwrap() as usize);
        client.write(from as u64, &model[from..from + len], false).unwrap();
    }
    assert!(served.handle.events().iter().any(|event| event["event"] == "readmitted" && event["device"] == name));
    check(&mut client, &model, &case);
    write(&mut client, &mut model, 100, &mut random);
    check(&mut client, &model, &case);
    drop(client);
    served.stop();
    let served = Served::start(at, config, settings.clone());
    check(&mut served.client(), &model, &case);
    served.stop();
}

#[test]
fn a_device_that_was_gone_comes_back_with_nothing_old() {
    for placement in ["back", "through", "tiering", "partitioned"] {
        for device in [0, 1] {
            returned(placement, device, &ways()[0]);
        }
    }
}

#[test]
fn it_does_not_matter_how_devices_are_reached() {
    for settings in ways().into_iter().skip(1) {
        returned("back", 0, &settings);
    }
}

#[test]
fn what_only_it_had_is_there_again_and_a_copy_of_it_at_another_path_will_do() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let served = Served::new(at, lazy("back"), Settings::default());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(4));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 100, &mut random);
    client.flush().unwrap();
    let dirty = served.handle.status().unwrap()["dirty_extents"].as_u64().unwrap();
    assert!(dirty > 5);
    vanishes(&served, &mut client, 0);
    assert!(served.handle.status().unwrap()["lost"]["bytes"].as_u64().unwrap() > 0);
    fs::rename(at.join("fast"), at.join("elsewhere")).unwrap();
    served.handle.heal().unwrap();
    let said = served.handle.readmit("fast", None, false).unwrap_err();
    assert!(said.contains("there is nothing") && said.contains("--path"), "{said}");
    let back = served.handle.readmit("fast", Some(at.join("elsewhere")), false).unwrap();
    assert_eq!((&back["restored_extents"], &back["lost_bytes"]), (&dirty.into(), &0.into()), "{back}");
    check(&mut client, &model, "dirty data");
    assert_eq!(served.handle.status().unwrap()["devices"]["fast"]["path"], at.join("elsewhere").display().to_string());
    drop(client);
    served.stop();
}

#[test]
fn what_is_not_the_device_that_was_given_up_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let config = config("back");
    let served = Served::new(at, config.clone(), Settings::default());
    write(&mut served.client(), &mut vec![0; 6 << 20], 50, &mut Pcg64::seed_from_u64(1));
    served.stop();
    fs::copy(at.join("fast"), at.join("older")).unwrap();
    let served = Served::start(at, config.clone(), Settings::default());
    let mut client = served.client();
    write(&mut client, &mut vec![0; 6 << 20], 50, &mut Pcg64::seed_from_u64(2));
    vanishes(&served, &mut client, 0);
    served.handle.heal().unwrap();
    let refused = |name: &str| served.handle.readmit("fast", Some(at.join(name)), false).unwrap_err();
    let said = refused("older");
    assert!(said.contains("'fast'") && said.contains("was given up in generation"), "{said}");
    let said = refused("slow");
    assert!(said.contains("another device of the volume"), "{said}");
    File::create(at.join("empty")).unwrap().set_len(16 << 20).unwrap();
    let said = refused("empty");
    assert!(said.contains("has no superblock of a Peryton volume"), "{said}");
    File::create(at.join("small")).unwrap().set_len(1 << 20).unwrap();
    assert!(refused("small").contains("it is not that device"), "{}", refused("small"));
    let said = served.handle.readmit("nothing", None, false).unwrap_err();
    assert!(said.contains("there is no device 'nothing'"), "{said}");
    // It was used without the other device.
    let alone = tempfile::tempdir().unwrap();
    fs::copy(at.join("fast"), alone.path().join("fast")).unwrap();
    let without = Settings { without: vec!["slow".to_owned()], ..Settings::default() };
    Served::start(alone.path(), config, without).stop();
    fs::copy(alone.path().join("fast"), at.join("alone")).unwrap();
    let said = refused("alone");
    assert!(said.contains("'fast'") && said.contains("was used without the other device"), "{said}");
    for said in [refused("older"), refused("alone"), refused("empty")] {
        assert!(!said.contains("--force") && !said.contains("--accept-loss") && !said.contains("format"), "{said}");
    }
    assert_eq!(served.handle.status().unwrap()["state"], "degraded");
    served.handle.readmit("fast", None, false).unwrap();
    served.stop();
}

#[test]
fn an_empty_device_takes_the_place_of_one_that_is_gone() {
    for placement in ["back", "partitioned", "tiering"] {
        for (device, name) in [(0, "fast"), (1, "slow")] {
            let case = format!("{placement}, {name}");
            let directory = tempfile::tempdir().unwrap();
            let at = directory.path();
            let served = Served::new(at, config(placement), Settings::default());
            let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(7));
            let mut model = vec![0; client.size as usize];
            write(&mut client, &mut model, 200, &mut random);
            vanishes(&served, &mut client, device);
            let new = at.join("new");
            File::create(&new).unwrap().set_len(fs::metadata(at.join(name)).unwrap().len()).unwrap();
            let new =
                Successor { path: new, bytes_per_s: None, accept_loss: false, force: false, update_design: false };
            served.handle.heal().unwrap();
            let done = served.handle.replace(name, new).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(done["state"], "succeeded", "{case}");
            let status = served.handle.status().unwrap();
            assert_eq!((&status["state"], status["lost"]["bytes"] == 0), (&"healthy".into(), done["lost_bytes"] == 0));
            // Everything can be written again.
            for from in (0..model.len()).step_by(64 << 10) {
                random.fill_bytes(&mut model[from..from + (64 << 10)]);
                client.write(from as u64, &model[from..from + (64 << 10)], false).unwrap();
            }
            check(&mut client, &model, &case);
            drop(client);
            served.stop();
            fs::rename(at.join(name), at.join("old")).unwrap();
            fs::rename(at.join("new"), at.join(name)).unwrap();
            let served = Served::start(at, config(placement), Settings::default());
            check(&mut served.client(), &model, &case);
            served.stop();
            // The device that was gone is not part of the volume any more.
            fs::rename(at.join("old"), at.join(name)).unwrap();
            let said = refusal(at, config(placement));
            assert!(said.contains(&format!("'{name}'")), "{case}: {said}");
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    vanishes(&served, &mut client, 0);
    let new = directory.path().join("new");
    File::create(&new).unwrap().set_len(16 << 20).unwrap();
    let new = Successor { path: new, bytes_per_s: None, accept_loss: false, force: false, update_design: false };
    let said = served.handle.replace("fast", new).unwrap_err();
    assert!(said.contains("replace"), "{said}");
    drop(client);
    let _ = served.end();
}

/// The fear: the status says for good that everything is being written back, and a program waits for the end of that.
#[test]
fn a_write_back_on_demand_ends_with_the_device_that_it_needs() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), lazy("back"), Settings::default());
    let mut client = served.client();
    client.write(0, &[1; 64 << 10], true).unwrap();
    let fault = Fault { device: 1, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
    served.handle.fault(fault).unwrap();
    assert_eq!(served.handle.clean().unwrap()["state"], "asked");
    served.wait_for(|status| status["state"] == "degraded" && status["cleaning"]["state"] != "asked");
    drop(client);
    let _ = served.end();
}

/// The fear: a change is refused, and the device that was to come in has lost what it had.
#[test]
fn a_refused_change_leaves_the_new_device_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let (served, new) =
        (Served::new(directory.path(), config("through"), Settings::default()), directory.path().join("new"));
    let mut client = served.client();
    vanishes(&served, &mut client, 0);
    served.handle.heal().unwrap();
    let len = fs::metadata(directory.path().join("fast")).unwrap().len();
    let other: Vec<u8> = (0..len).map(|byte| (byte / 512) as u8 | 1).collect();
    fs::write(&new, &other).unwrap();
    let by =
        || Successor { path: new.clone(), bytes_per_s: None, accept_loss: false, force: true, update_design: false };
    let writes = Some(Only::Writes);
    let fault = Fault { device: 1, only: writes, from: 0, to: u64::MAX, times: Some(1), effect: Effect::Fail };
    served.handle.fault(fault).unwrap();
    let said = served.handle.replace("fast", by()).unwrap_err();
    assert!(said.contains("does not take writes"), "{said}");
    assert!(fs::read(&new).unwrap() == other, "what the device had is destroyed");
    served.handle.heal().unwrap();
    assert_eq!(served.handle.replace("fast", by()).unwrap()["state"], "succeeded");
    drop(client);
    served.stop();
}

fn evacuated(placement: &str, journal: Journal) {
    let case = format!("{placement}, {journal:?}");
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut config = lazy(placement);
    config.tuning.journal = journal;
    let served = Served::new(at, config.clone(), Settings::default());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(11));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 300, &mut random);
    check(&mut client, &model, &case);
    served.handle.evacuate("fast", None).unwrap_or_else(|error| panic!("{case}: {error}"));
    // Clients go on meanwhile.
    while !served.handle.status().unwrap()["change"].is_null() {
        write(&mut client, &mut model, 20, &mut random);
    }
    let status = served.handle.status().unwrap();
    assert_eq!(status["last_change"]["succeeded"], true, "{case}: {status}");
    assert_eq!((&status["state"], &status["lost"]["bytes"]), (&"healthy".into(), &0.into()), "{case}");
    assert_eq!(status["devices"]["fast"]["state"], "evacuated", "{case}");
    let events = served.handle.events();
    assert!(events.iter().any(|event| event["event"] == "evacuated" && event["device"] == "fast"));
    assert!(!events.iter().any(|event| event["event"] == "device_gone"), "{case}");
    // It can be pulled.
    fs::rename(at.join("fast"), at.join("pulled")).unwrap();
    check(&mut client, &model, &case);
    write(&mut client, &mut model, 200, &mut random);
    client.flush().unwrap();
    check(&mut client, &model, &case);
    drop(client);
    served.stop();
    // Neither is it needed when the volume is served again, nor believed if it is there.
    for attached in [false, true] {
        if attached {
            fs::copy(at.join("pulled"), at.join("fast")).unwrap();
        }
        let served = Served::start(at, config.clone(), Settings::default());
        let status = served.handle.status().unwrap();
        assert_eq!((&status["state"], &status["devices"]["fast"]["state"]), (&"healthy".into(), &"evacuated".into()));
        let mut client = served.client();
        check(&mut client, &model, &case);
        write(&mut client, &mut model, 50, &mut random);
        if attached {
            served.handle.readmit("fast", None, false).unwrap_or_else(|error| panic!("{case}: {error}"));
            check(&mut client, &model, &case);
            write(&mut client, &mut model, 100, &mut random);
            check(&mut client, &model, &case);
            assert_eq!(served.handle.status().unwrap()["devices"]["fast"]["state"], "ok");
        }
        drop(client);
        served.stop();
    }
    let served = Served::start(at, config, Settings::default());
    check(&mut served.client(), &model, &case);
    served.stop();
}

#[test]
fn a_cache_is_emptied_and_pulled_while_clients_go_on() {
    for journal in [Journal::Mirrored, Journal::Named] {
        for placement in ["back", "through", "around", "partitioned"] {
            evacuated(placement, journal);
        }
    }
}

#[test]
fn what_the_volume_needs_is_not_evacuated() {
    for (placement, name, why) in [
        ("back", "slow", "has all "),
        ("tiering", "fast", "there is room for"),
        ("tiering", "slow", "there is room for"),
        ("linear", "fast", "not the fast device of caching"),
        ("logging", "fast", "not the fast device of caching"),
        ("back", "x", "there is no device 'x'"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), Settings::default());
        let said = served.handle.evacuate(name, None).unwrap_err();
        assert!(said.contains(why), "{placement}, {name}: {said}");
        assert!(said.contains("peryton replace") || name == "x", "{said}");
        assert_eq!(
            served.handle.stop_change(Stoppable::Remove).unwrap_err(),
            "no remove is under way that can be given up"
        );
        served.stop();
    }
}

#[test]
fn an_evacuation_is_slow_on_demand_and_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = lazy("back");
    config.devices[0] = peryton_units::Bytes::mib(16);
    config.devices[1] = peryton_units::Bytes::mib(32);
    let served = Served::new(directory.path(), config, Settings::default());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(13));
    let mut model = vec![0; 12 << 20];
    write(&mut client, &mut model, 3000, &mut random);
    let before = served.handle.status().unwrap()["cleaning"]["dirty_bytes"].as_u64().unwrap();
    assert!(before > 8 << 20, "{before}");
    served.handle.evacuate("fast", Some(1 << 20)).unwrap();
    assert!(served.handle.evacuate("fast", None).unwrap_err().contains("is being evacuated"));
    thread::sleep(Duration::from_secs(1));
    let status = served.handle.status().unwrap();
    assert_eq!(status["change"]["state"], "emptying", "{}", status["change"]);
    served.handle.stop_change(Stoppable::Remove).unwrap();
    let status = served.handle.status().unwrap();
    assert_eq!((&status["change"], &status["last_change"]["why"]), (&().into(), &"it was stopped".into()));
    assert_eq!(status["devices"]["fast"]["state"], "ok");
    // Writes make the cache dirty again.
    served.handle.clean().unwrap();
    served.wait_for(|status| status["dirty_extents"] == 0);
    write(&mut client, &mut model, 20, &mut random);
    assert!(served.handle.status().unwrap()["dirty_extents"].as_u64().unwrap() > 0);
    check(&mut client, &model, "stopped");
    drop(client);
    served.stop();
}

/// A worn SSD takes reads only. A change cannot be made durable then: it is refused, and the volume goes on as it was.
#[test]
fn a_device_that_takes_reads_only_lets_nothing_change_and_the_volume_goes_on() {
    for (placement, device) in [("through", 0), ("through", 1), ("tiering", 0)] {
        for change in ["evacuate", "shrink", "grow"] {
            if placement == "tiering" && change != "grow" {
                continue;
            }
            let case = format!("{placement}, {device}, {change}");
            let directory = tempfile::tempdir().unwrap();
            let served = Served::new(directory.path(), lazy(placement), Settings::default());
            let mut client = served.client();
            let (mut model, mut random) = (vec![0; client.size as usize], Pcg64::seed_from_u64(5));
            write(&mut client, &mut model, 100, &mut random);
            client.flush().unwrap();
            served.handle.clean().ok();
            served.wait_for(|status| status["dirty_extents"] == 0 && status["device_commands_in_flight"] == 0);
            let writes = Some(Only::Writes);
            served
                .handle
                .fault(Fault { device, only: writes, from: 0, to: u64::MAX, times: None, effect: Effect::Fail })
                .unwrap();
            let size = fs::metadata(directory.path().join("fast")).unwrap().len();
            let begun = match change {
                "evacuate" => served.handle.evacuate("fast", None),
                "shrink" => {
                    let new = NewSize { size: Some(size / 2), bytes_per_s: None };
                    served.handle.resize("fast", new)
                }
                _ => {
                    File::options().write(true).open(directory.path().join("fast")).unwrap().set_len(2 * size).unwrap();
                    served.handle.resize("fast", NewSize { size: None, bytes_per_s: None })
                }
            };
            begun.unwrap_or_else(|error| panic!("{case}: {error}"));
            let status = served.wait_for(|status| status["last_change"].is_object());
            assert_eq!(status["last_change"]["succeeded"], false, "{case}: {status}");
            check(&mut client, &model, &case);
            let state = served.handle.status().unwrap()["state"].clone();
            assert_ne!(state, "stopped", "{case}");
            served.handle.heal().unwrap();
            check(&mut client, &model, &case);
            drop(client);
            served.stop();
        }
    }
}

/// While the volume is closed for a change, others hear of it what there is to hear, and the end that is asked for comes.
#[test]
fn the_status_is_answered_while_requests_wait() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), lazy("back"), Settings::default());
    let mut client = served.client();
    let (mut model, mut random) = (vec![0; client.size as usize], Pcg64::seed_from_u64(6));
    write(&mut client, &mut model, 100, &mut random);
    client.flush().unwrap();
    served.handle.evacuate("fast", None).unwrap();
    let status = served.wait_for(|status| status["last_change"].is_object());
    assert_eq!(status["last_change"]["succeeded"], true, "{status}");
    assert!(status["last_change"]["pause_s"].as_f64().is_some_and(|pause_s| pause_s < 5.0), "{status}");
    check(&mut client, &model, "without it");
    drop(client);
    served.stop();
}
