//! The fear: a device is replaced while the volume is served, and afterwards data is missing or old, two devices count as the same one,
//! or clients notice more of it than a pause.

use std::{fs, fs::File, path::Path, thread, time::Duration};

use crate::model::write;
use crate::served::{Client, Served, config, refusal, ways};
use peryton_drive::{Effect, Fault, Only, Settings, Stoppable, Successor};
use peryton_units::Nanos;
use rand::SeedableRng;
use rand_pcg::Pcg64;

fn successor(path: &Path) -> Successor {
    Successor { path: path.to_owned(), bytes_per_s: None, accept_loss: false, force: false, update_design: false }
}

/// An empty file as large as the device of this name.
fn empty(directory: &Path, like: &str) -> std::path::PathBuf {
    let path = directory.join("new");
    let size = fs::metadata(directory.join(like)).unwrap().len();
    File::create(&path).unwrap().set_len(size).unwrap();
    path
}

fn check(client: &mut Client, model: &[u8]) {
    for at in (0..model.len()).step_by(64 << 10) {
        let len = (64 << 10).min(model.len() - at);
        assert!(client.read(at as u64, len).unwrap() == model[at..at + len], "wrong data at {at}");
    }
}

fn replaced(placement: &str, name: &str, settings: Settings) {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let served = Served::new(at, config(placement), settings.clone());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(3));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 300, &mut random);
    let path = empty(at, name);
    served.handle.replace(name, successor(&path)).unwrap();
    while !served.handle.status().unwrap()["change"].is_null() {
        write(&mut client, &mut model, 20, &mut random);
    }
    let status = served.handle.status().unwrap();
    assert_eq!(status["last_change"]["succeeded"], true, "{placement} {name}: {status}");
    assert_eq!(status["devices"][name]["path"], path.display().to_string());
    assert!(served.handle.events().iter().any(|event| event["event"] == "replaced" && event["device"] == name));
    write(&mut client, &mut model, 100, &mut random);
    check(&mut client, &model);
    drop(client);
    served.stop();
    let said = refusal(at, config(placement));
    assert!(said.contains("was replaced while the volume was served"), "{said}");
    fs::rename(at.join(name), at.join("old")).unwrap();
    fs::rename(&path, at.join(name)).unwrap();
    let served = Served::start(at, config(placement), settings);
    check(&mut served.client(), &model);
    assert_eq!(served.stop().traffic.failed, 0);
}

#[test]
fn the_new_device_has_everything_on_every_placement() {
    for placement in ["linear", "tiering", "back", "through", "partitioned", "logging"] {
        for name in ["fast", "slow"] {
            replaced(placement, name, ways()[0].clone());
        }
    }
}

#[test]
fn it_does_not_matter_how_devices_are_reached() {
    for settings in ways().into_iter().skip(1) {
        replaced("tiering", "slow", settings);
    }
}

#[test]
fn what_cannot_be_read_holds_the_copy_up_until_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 100, &mut Pcg64::seed_from_u64(5));
    // Linear data begin behind the first MiB.
    let (from, to) = ((1 << 20) + 40_960, (1 << 20) + 49_152);
    let bad = Fault { device: 0, only: Some(Only::Reads), from, to, times: None, effect: Effect::Fail };
    served.handle.fault(bad).unwrap();
    served.handle.replace("fast", successor(&empty(directory.path(), "fast"))).unwrap();
    let status = served.wait_for(|status| status["change"]["state"] == "unreadable");
    let unreadable = &status["change"]["unreadable"];
    assert_eq!(
        *unreadable,
        serde_json::json!({ "bytes": 8192, "ranges": [{ "offset": from, "length": 8192 }], "accepted": false })
    );
    served.handle.heal().unwrap();
    let data = vec![7; 8192];
    client.write(40_960, &data, false).unwrap();
    model[40_960..49_152].copy_from_slice(&data);
    let status = served.wait_for(|status| status["change"].is_null());
    assert_eq!(status["last_change"]["succeeded"], true);
    check(&mut client, &model);
    served.stop();
}

#[test]
fn what_cannot_be_read_is_zeros_if_that_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 100, &mut Pcg64::seed_from_u64(6));
    let (from, to) = ((1 << 20) + 40_960, (1 << 20) + 49_152);
    let bad = Fault { device: 0, only: Some(Only::Reads), from, to, times: None, effect: Effect::Fail };
    served.handle.fault(bad).unwrap();
    let new = Successor { accept_loss: true, ..successor(&empty(directory.path(), "fast")) };
    served.handle.replace("fast", new).unwrap();
    let status = served.wait_for(|status| status["change"].is_null());
    assert_eq!(status["last_change"]["succeeded"], true);
    model[40_960..49_152].fill(0);
    check(&mut client, &model);
    assert_eq!(served.handle.status().unwrap()["faults"], serde_json::json!([]), "the drill was for the old device");
    served.stop();
}

/// The fear: the new device is in charge or is not, as the power fails, and clients wait until the other device takes writes again.
#[test]
fn a_device_that_cannot_record_it_leaves_the_old_one_in_charge() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("back");
    // Writes of clients wait for the next try; under load that takes longer than a tenth of a second.
    config.tuning.patience = Nanos::from_s(1);
    let served = Served::new(directory.path(), config.clone(), Settings::default());
    let (mut client, mut random) = (served.client(), Pcg64::seed_from_u64(9));
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 100, &mut random);
    let slowly = Successor { bytes_per_s: Some(4 << 20), ..successor(&empty(directory.path(), "fast")) };
    served.handle.replace("fast", slowly).unwrap();
    // It records the succession in its last block, and not in its first.
    let refused = Fault { device: 1, only: Some(Only::Writes), from: 0, to: 4096, times: None, effect: Effect::Outage };
    served.handle.fault(refused).unwrap();
    let has_refused = |status: &serde_json::Value, times: u64| {
        let errors = status["devices"]["slow"]["errors"].as_u64();
        status["change"]["state"] == "succeeding" && errors.is_some_and(|errors| errors >= times)
    };
    served.wait_for(|status| has_refused(status, 1));
    // Clients get an answer.
    write(&mut client, &mut model, 50, &mut random);
    check(&mut client, &model);
    // It is given up, and the device refuses to record that as well: it is not decided yet.
    served.wait_for(|status| has_refused(status, 4));
    served.handle.heal().unwrap();
    let status = served.wait_for(|status| status["change"].is_null());
    assert_eq!(status["last_change"]["why"], "a device of the volume refuses writes", "{status}");
    write(&mut client, &mut model, 50, &mut random);
    check(&mut client, &model);
    drop(client);
    served.stop();
    let served = Served::start(directory.path(), config, Settings::default());
    check(&mut served.client(), &model);
    served.stop();
}

#[test]
fn the_rate_is_bounded_and_it_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), Settings::default());
    let mut client = served.client();
    let mut model = vec![0; client.size as usize];
    write(&mut client, &mut model, 50, &mut Pcg64::seed_from_u64(8));
    let path = empty(directory.path(), "slow");
    let slowly = Successor { bytes_per_s: Some(1 << 20), ..successor(&path) };
    let state = served.handle.replace("slow", slowly).unwrap();
    assert_eq!((&state["device"], &state["most_bytes_per_s"]), (&"slow".into(), &(1 << 20).into()));
    let busy = served.handle.replace("fast", successor(&directory.path().join("another"))).unwrap_err();
    assert!(busy.contains("there is nothing"), "{busy}");
    thread::sleep(Duration::from_millis(1500));
    let copied = served.handle.status().unwrap()["change"]["done_bytes"].as_u64().unwrap();
    assert!(copied <= 3 << 20, "{copied} bytes in 1.5 s, at 1 MiB a second");
    served.handle.stop_change(Stoppable::Replace).unwrap();
    let status = served.wait_for(|status| status["change"].is_null());
    assert_eq!(status["last_change"]["why"], "it was stopped");
    check(&mut client, &model);
    drop(client);
    served.stop();
    // The old device is in charge, and the copy is refused.
    let served = Served::start(directory.path(), config("tiering"), Settings::default());
    check(&mut served.client(), &model);
    served.stop();
    fs::rename(&path, directory.path().join("slow")).unwrap();
    let said = refusal(directory.path(), config("tiering"));
    assert!(said.contains("older than the others") || said.contains("is an unfinished replacement"), "{said}");
}

#[test]
fn what_cannot_take_the_place_is_refused_in_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let served = Served::new(at, config("tiering"), Settings::default());
    let refused = |name: &str, new: Successor| served.handle.replace(name, new).unwrap_err();
    assert!(
        refused("hdd", successor(&at.join("x"))).contains("there is no device 'hdd': the volume has 'fast' and 'slow'")
    );
    assert!(refused("slow", successor(&at.join("x"))).contains("there is nothing"));
    assert!(refused("slow", successor(Path::new("x"))).contains("give the whole path"));
    assert!(refused("slow", successor(&at.join("fast"))).contains("is a device of the volume already"));
    fs::write(at.join("small"), [0; 8192]).unwrap();
    assert!(refused("slow", successor(&at.join("small"))).contains("the new device has 8KiB"));
    let mut used = vec![0; 1 << 20];
    used[1080..1082].copy_from_slice(&[0x53, 0xef]);
    fs::write(at.join("used"), used).unwrap();
    assert!(refused("slow", successor(&at.join("used"))).contains("--force would destroy"));
    assert_eq!(
        served.handle.stop_change(Stoppable::Replace).unwrap_err(),
        "no replace is under way that can be given up"
    );
    served.stop();
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let error = served.handle.replace("fast", successor(&empty(directory.path(), "fast"))).unwrap_err();
    assert!(error.contains("the volume has one device"), "{error}");
    served.stop();
}
