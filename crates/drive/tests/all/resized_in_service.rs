//! The fear: a device grows or shrinks while the volume is served, and afterwards data is missing or old, the volume cannot be opened, or
//! clients notice more of it than a pause.

use std::{fs::File, path::Path, thread, time::Duration};

use crate::model::write;
use crate::served::{Client, Served, config, refusal, ways};
use peryton_drive::{Effect, Fault, NewSize, Settings, Stoppable, Successor};
use peryton_units::{Bytes, Nanos};
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn grow(size: Option<Bytes>) -> NewSize {
    NewSize { size: size.map(|size| size.0), bytes_per_s: None }
}

fn shrink(size: Bytes) -> NewSize {
    NewSize { size: Some(size.0), bytes_per_s: None }
}

fn make_larger(directory: &Path, name: &str, by: Bytes) {
    let file = File::options().write(true).open(directory.join(name)).unwrap();
    file.set_len(file.metadata().unwrap().len() + by.0).unwrap();
}

fn check(client: &mut Client, model: &[u8]) {
    for at in (0..model.len()).step_by(64 << 10) {
        let len = (64 << 10).min(model.len() - at);
        assert!(client.read(at as u64, len).unwrap() == model[at..at + len], "wrong data at {at}");
    }
}

/// Resizes a device while a client writes. Returns the data that it has then.
fn resize(served: &Served, name: &str, new: NewSize, client: &mut Client, model: &mut [u8]) -> Bytes {
    let mut random = Pcg64::seed_from_u64(9);
    served.handle.resize(name, new).unwrap();
    while !served.handle.status().unwrap()["change"].is_null() {
        write(client, model, 20, &mut random);
    }
    let status = served.handle.status().unwrap();
    let last = &status["last_change"];
    assert_eq!(last["succeeded"], true, "{name}: {status}");
    assert!(served.handle.events().iter().any(|event| event["event"] == "resized" && event["device"] == name));
    Bytes(last["size_bytes"].as_u64().unwrap())
}

/// Grows a device while a client writes, and opens the volume again.
fn grown(placement: &str, index: usize, settings: Settings) {
    let name = ["fast", "slow"][index];
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let mut config = config(placement);
    let served = Served::new(at, config.clone(), settings.clone());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(3));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 300, &mut random);
    let said = served.handle.resize(name, grow(None)).unwrap_err();
    assert!(said.contains("make the device larger first"), "{said}");
    make_larger(at, name, Bytes::mib(1) + Bytes::kib(64));
    let size = resize(&served, name, grow(None), &mut client, &mut model);
    assert!(size > config.devices[index] + Bytes::kib(900), "{placement} {name}: {size}");
    write(&mut client, &mut model, 100, &mut random);
    check(&mut client, &model);
    // What has come to the volume reads as zeros, as a new part of a file does, and can be written.
    let mut client = served.client();
    let grows = index == 1 || matches!(placement, "tiering" | "single" | "linear");
    assert_eq!(client.size > model.len() as u64, grows, "{placement} {name}");
    model.resize(client.size as usize, 0);
    check(&mut client, &model);
    write(&mut client, &mut model, 300, &mut random);
    drop(client);
    assert_eq!(served.stop().traffic.failed, 0);
    let said = refusal(at, config.clone());
    assert!(said.contains("the data size of device"), "{said}");
    config.devices[index] = size;
    let served = Served::start(at, config, settings);
    check(&mut served.client(), &model);
    assert_eq!(served.stop().traffic.failed, 0);
}

#[test]
fn nothing_is_lost_when_a_device_grows() {
    for placement in ["tiering", "back", "through", "around", "partitioned"] {
        for index in [0, 1] {
            grown(placement, index, ways()[0].clone());
        }
    }
    grown("linear", 1, ways()[0].clone());
    grown("single", 0, ways()[0].clone());
}

#[test]
fn it_does_not_matter_how_devices_are_reached() {
    for settings in ways().into_iter().skip(1) {
        grown("back", 0, settings);
    }
}

#[test]
fn nothing_is_lost_when_the_fast_device_shrinks_grows_and_shrinks() {
    for placement in ["back", "through", "partitioned"] {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let mut config = config(placement);
        let served = Served::new(at, config.clone(), ways()[0].clone());
        let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(4));
        let mut model = vec![0; client.size as usize];
        write(&mut client, &mut model, 600, &mut random);
        for size in [Bytes::kib(512), Bytes::mib(1), Bytes::kib(640)] {
            let new = if config.devices[0] < size { grow(Some(size)) } else { shrink(size) };
            config.devices[0] = resize(&served, "fast", new, &mut client, &mut model);
            assert_eq!(config.devices[0], size, "{placement}");
            write(&mut client, &mut model, 200, &mut random);
            check(&mut client, &model);
        }
        let used = served.handle.status().unwrap()["devices"]["fast"]["used"].as_u64().unwrap();
        drop(client);
        served.stop();
        // What lies behind can be cut off.
        let room = Bytes::mib(1);
        File::options().write(true).open(at.join("fast")).unwrap().set_len(used + room.0).unwrap();
        let served = Served::start(at, config, Settings::default());
        check(&mut served.client(), &model);
        served.stop();
    }
}

#[test]
fn a_shrink_can_be_stopped_and_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("back");
    config.devices = vec![Bytes::mib(4), Bytes::mib(16)];
    // What is dirty stays so, and has to be moved.
    config.tuning.writeback_delay = Nanos::from_s(600);
    let served = Served::new(directory.path(), config.clone(), ways()[0].clone());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(5));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 1500, &mut random);
    let slowly = NewSize { bytes_per_s: Some(16 << 10), ..shrink(Bytes::kib(512)) };
    served.handle.resize("fast", slowly).unwrap();
    thread::sleep(Duration::from_millis(200));
    let status = served.handle.status().unwrap();
    assert_eq!(status["change"]["state"], "emptying", "{status}");
    let said = served.handle.resize("slow", grow(None)).unwrap_err();
    assert!(said.contains("is being resized"), "{said}");
    let new = Successor {
        path: directory.path().join("none"),
        bytes_per_s: None,
        accept_loss: false,
        force: false,
        update_design: false,
    };
    File::create(&new.path).unwrap().set_len(32 << 20).unwrap();
    let said = served.handle.replace("fast", new).unwrap_err();
    assert!(said.contains("is being resized"), "{said}");
    served.handle.stop_change(Stoppable::Resize).unwrap();
    let status = served.handle.status().unwrap();
    assert_eq!(status["last_change"]["why"], "it was stopped");
    write(&mut client, &mut model, 100, &mut random);
    check(&mut client, &model);
    drop(client);
    served.stop();
    let served = Served::start(directory.path(), config, Settings::default());
    check(&mut served.client(), &model);
    served.stop();
}

#[test]
fn a_device_that_dies_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("back");
    config.devices = vec![Bytes::mib(4), Bytes::mib(16)];
    let served = Served::new(directory.path(), config, ways()[0].clone());
    let mut client = served.client();
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 1500, &mut Pcg64::seed_from_u64(6));
    let slowly = NewSize { bytes_per_s: Some(16 << 10), ..shrink(Bytes::kib(512)) };
    served.handle.resize("fast", slowly).unwrap();
    let gone = Fault { device: 1, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone };
    served.handle.fault(gone).unwrap();
    let _ = client.flush();
    let status = served.wait_for(|status| status["change"].is_null());
    assert_eq!(status["last_change"]["why"], "a device of the volume was given up", "{status}");
    let said = served.handle.resize("fast", shrink(Bytes::mib(1))).unwrap_err();
    assert!(said.contains("without device 'slow'"), "{said}");
    let _ = served.end();
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    for (placement, name, new, what) in [
        ("logging", "slow", grow(Some(Bytes::mib(64))), "log"),
        ("tiering", "fast", shrink(Bytes::mib(1)), "only the fast device of caching or partitioned can shrink"),
        ("back", "slow", shrink(Bytes::mib(1)), "would lose its end"),
        ("linear", "fast", grow(Some(Bytes::mib(64))), "grow the last device"),
        ("single", "fast", shrink(Bytes::mib(1)), "would lose its end"),
        ("back", "fast", grow(Some(Bytes::mib(64))), "make the device larger first"),
        ("back", "fast", shrink(Bytes::mib(2)), "already"),
        ("back", "third", grow(None), "there is no device 'third'"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), ways()[0].clone());
        let said = served.handle.resize(name, new).unwrap_err();
        assert!(said.contains(what) && !said.contains('\n'), "{placement} {name}: {said}");
        served.stop();
    }
}
