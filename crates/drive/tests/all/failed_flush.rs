//! The fear: the server treats a failed flush as a successful one, and does not report the data that it lost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::served::{self, EIO, PLACEMENTS, Served, config, spec};
use crate::tools::output_of;
use peryton_drive::{Effect, Endpoint, Fault, Only, ServeError, Service, Settings, format};
use peryton_units::Bytes;

fn flushes_fail(device: u8) -> Fault {
    Fault { device, only: Some(Only::Flushes), from: 0, to: u64::MAX, times: None, effect: Effect::Fail }
}

fn opens_clean(directory: &Path, placement: &str) -> bool {
    let endpoint = Endpoint::Unix(directory.join("again"));
    let service = Service::open(&spec(directory, config(placement)), &endpoint, Settings::default()).unwrap();
    service.opened().clean
}

#[test]
fn a_volume_whose_last_flush_failed_is_not_closed_clean() {
    for placement in PLACEMENTS {
        // Every placement flushes this device in the end.
        let device = if placement == "single" { 0 } else { 1 };
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), Settings::default());
        let mut client = served.client();
        client.write(client.size - 4096, &[7; 4096], false).unwrap();
        drop(client);
        served.handle.fault(flushes_fail(device)).unwrap();
        // A cache that has nothing dirty stops using the device instead, which is durable on the other one. What the volume needs stays.
        match served.end() {
            Err(ServeError::InDoubt { times, .. }) => assert!(times > 0),
            Err(ServeError::Outage { .. }) if !matches!(placement, "single" | "linear") => {}
            Err(error) => panic!("{placement}: {error}"),
            Ok(_) if matches!(placement, "single" | "linear") => panic!("{placement}: closed in good order"),
            Ok(_) => continue,
        }
        assert!(!opens_clean(directory.path(), placement), "{placement}: marked clean");
    }
}

fn events_named(served: &Served, name: &str) -> Vec<serde_json::Value> {
    served.handle.events().into_iter().filter(|event| event["event"] == name).collect()
}

#[test]
fn a_log_that_has_stopped_says_so_and_goes_on_when_its_device_works() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("logging");
    config.tuning.patience = peryton_units::Nanos::from_s(60);
    let served = Served::new(directory.path(), config, Settings::default());
    let before = served.handle.status().unwrap();
    assert_eq!(
        (&before["state"], &before["stopped"], &before["in_doubt"]),
        (&"healthy".into(), &false.into(), &false.into())
    );
    let mut client = served.client();
    client.write(0, &[7; 4096], false).unwrap();
    client.flush().unwrap();
    served.handle.fault(flushes_fail(0)).unwrap();
    client.write(8192, &[8; 4096], false).unwrap();
    assert_eq!(client.flush(), Err(EIO));
    let status = served.wait_for(|status| status["stopped"] == true);
    assert_eq!((&status["state"], &status["in_doubt"]), (&"stopped".into(), &true.into()));
    assert_eq!(client.write(0, &[7; 4096], false), Err(EIO));
    let events = events_named(&served, "in_doubt");
    assert_eq!(
        (events.len(), &events[0]["stopped"], &events[0]["devices"][0]),
        (1, &true.into(), &"fast".into()),
        "{events:?}"
    );
    served.handle.heal().unwrap();
    served.wait_for(|status| status["stopped"] == false);
    assert_eq!(client.read(0, 4096), Ok(vec![7; 4096]), "this was flushed");
    client.write(8192, &[9; 4096], false).unwrap();
    client.flush().unwrap();
    drop(client);
    served.end().unwrap();
    assert!(opens_clean(directory.path(), "logging"));
}

#[test]
fn a_doubt_is_shown_until_a_client_was_notified() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), Settings::default());
    let mut client = served.client();
    // No client waits for the flush of a commit.
    served.handle.fault(Fault { times: Some(1), ..flushes_fail(0) }).unwrap();
    client.write(0, &[7; 4096], false).unwrap();
    let status = served.wait_for(|status| status["in_doubt"] == true);
    assert_eq!((&status["state"], &status["stopped"]), (&"healthy".into(), &false.into()));
    assert_eq!(client.flush(), Err(EIO));
    served.wait_for(|status| status["in_doubt"] == false);
    assert_eq!(client.flush(), Ok(()));
    assert_eq!((events_named(&served, "in_doubt").len(), events_named(&served, "doubt_over").len()), (1, 1));
    drop(client);
    served.end().unwrap();
}

/// A client that has written nothing, and one whose write with FUA is durable, take no failure from the client whose data are lost.
#[test]
fn every_connection_hears_once_of_a_failed_flush() {
    for placement in PLACEMENTS {
        let device = u8::from(placement != "single" && placement != "logging");
        for by_fua in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let served = Served::new(directory.path(), config(placement), Settings::default());
            let (mut writer, mut other) = (served.client(), served.client());
            let at = if placement == "linear" { writer.size - 8192 } else { 0 };
            writer.write(at, &[7; 4096], false).unwrap();
            served.handle.fault(Fault { times: Some(1), ..flushes_fail(device) }).unwrap();
            let mut first = || if by_fua { other.write(at + 4096, &[8; 4096], true) } else { other.flush() };
            if first().is_ok() {
                // This placement needs no flush of that device for it.
                served.handle.heal().unwrap();
                drop((writer, other));
                drop(served.end());
                continue;
            }
            let mut late = served.client();
            served.wait_for(|status| status["stopped"] == false);
            assert_eq!(writer.flush(), Err(EIO), "{placement}: its data may be lost, and it hears nothing");
            for client in [&mut writer, &mut other, &mut late] {
                assert_eq!(client.flush(), Ok(()), "{placement}");
            }
            drop((writer, other, late));
            drop(served.end());
        }
    }
}

/// A device that dies with what was answered is another failure than a flush that failed before, and each client hears of it as well.
#[test]
fn every_connection_hears_of_a_device_that_dies_after_a_failed_flush() {
    for placement in ["back", "tiering", "partitioned"] {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), Settings::default());
        let (mut one, mut other) = (served.client(), served.client());
        one.write(0, &[7; 4096], false).unwrap();
        served.handle.fault(Fault { times: Some(1), ..flushes_fail(0) }).unwrap();
        if one.flush().is_err() {
            assert_eq!(other.flush(), Err(EIO), "{placement}");
        }
        served.handle.heal().unwrap();
        for at in (0..1 << 20).step_by(64 << 10) {
            one.write(at, &[8; 4096], false).unwrap();
            other.write(at + 4096, &[9; 4096], false).unwrap();
        }
        served
            .handle
            .fault(Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Gone })
            .unwrap();
        for at in (0..1 << 20).step_by(64 << 10) {
            let _ = one.write(at, &[7; 4096], false);
        }
        assert_eq!(one.flush(), Err(EIO), "{placement}");
        assert_eq!(other.flush(), Err(EIO), "{placement}: its data are lost, and it hears nothing");
        assert_eq!((one.flush(), other.flush()), (Ok(()), Ok(())), "{placement}");
        drop((one, other));
        drop(served.end());
    }
}

/// A loop device over a file in a tmpfs that is too small for it: writes go to the page cache, and write-back fails.
struct Loop {
    device: PathBuf,
    tmpfs: PathBuf,
}

impl Loop {
    /// `None` if this user or this machine has no loop devices.
    fn new(directory: &Path, room: &str, size: u64) -> Option<Loop> {
        let tmpfs = directory.join("tmpfs");
        fs::create_dir(&tmpfs).ok()?;
        let at = tmpfs.to_str()?;
        output_of("mount", &["-t", "tmpfs", "-o", &format!("size={room}"), "peryton-test", at])?;
        let image = tmpfs.join("image");
        fs::File::create(&image).ok()?.set_len(size).ok()?;
        match output_of("losetup", &["--find", "--show", image.to_str()?]) {
            Some(device) => Some(Loop { device: device.into(), tmpfs }),
            None => {
                output_of("umount", &[at]);
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        output_of("losetup", &["--detach", self.device.to_str().unwrap()]);
        for _ in 0..50 {
            if output_of("umount", &[self.tmpfs.to_str().unwrap()]).is_some() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

/// A volume by its file, and by a loop device of it: whoever comes second would destroy what the first one has.
#[test]
fn a_file_and_a_loop_device_of_it_are_not_served_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(directory.path(), "64m", 40 << 20) else {
        eprintln!("skipped: there are no loop devices here");
        return;
    };
    let volume = |path: PathBuf| {
        let mut config = config("single");
        config.devices[0] = Bytes::mib(32);
        let mut spec = spec(directory.path(), config);
        spec.devices.truncate(1);
        spec.devices[0].path = path;
        spec.config.devices.truncate(1);
        spec
    };
    let (by_loop, by_file) = (volume(device.device.clone()), volume(device.tmpfs.join("image")));
    format(&by_loop, true).unwrap();
    let open = |spec, name| Service::open(spec, &Endpoint::Unix(directory.path().join(name)), Settings::default());
    for (first, second) in [(&by_loop, &by_file), (&by_file, &by_loop)] {
        let service = open(first, "nbd").unwrap();
        let error = open(second, "other").unwrap_err().to_string();
        assert!(error.contains("another peryton"), "{error}");
        drop(service);
    }
}

/// If Linux cannot write pages back, it reports so only once.
#[test]
fn a_lost_write_back_reaches_the_client_and_is_not_closed_clean() {
    let directory = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(directory.path(), "6m", 40 << 20) else {
        eprintln!("skipped: there are no loop devices here");
        return;
    };
    let mut config = config("single");
    config.devices[0] = Bytes::mib(32);
    let mut spec = spec(directory.path(), config);
    spec.devices.truncate(1);
    spec.devices[0].path.clone_from(&device.device);
    spec.config.devices.truncate(1);
    format(&spec, true).unwrap();
    let settings = Settings { direct: false, ..Settings::default() };
    let nbd = directory.path().join("nbd");
    let service = Service::open(&spec, &Endpoint::Unix(nbd.clone()), settings).unwrap();
    let handle = service.handle();
    let thread = std::thread::spawn(move || service.run());
    let mut client = served::Client::connect(&nbd);
    for at in (0..16 << 20).step_by(1 << 20) {
        client.write(at, &[9; 1 << 20], false).unwrap();
    }
    // Only this flush reports the error; the kernel answers the next one with success.
    assert_eq!(client.flush(), Err(EIO), "a flush acknowledged what is gone");
    let status = handle.status().unwrap();
    assert_eq!(status["devices"]["fast"]["failed_flushes"], 1, "{status}");
    drop(client);
    handle.stop();
    let ended = thread.join().unwrap();
    assert!(matches!(ended, Err(ServeError::InDoubt { .. })), "{ended:?}");
    let service = Service::open(&spec, &Endpoint::Unix(nbd), Settings::default()).unwrap();
    assert!(!service.opened().clean);
}
