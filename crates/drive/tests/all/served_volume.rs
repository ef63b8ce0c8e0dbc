//! The fear: a client reads data that it did not write.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, thread};

use crate::served::{Client, EIO, PLACEMENTS, READ, Served, WRITE, ZEROES, config, spec, ways};
use peryton_drive::{Effect, Fault, Only, Service, Settings, VolumeSpec, control, format};
use peryton_units::{Bytes, Nanos};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

fn random_bytes(random: &mut Pcg64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill_bytes(&mut bytes);
    bytes
}

/// A range of any alignment, often small, often at the place of an earlier one.
fn range(random: &mut Pcg64, size: u64) -> (u64, usize) {
    let offset = match random.random_range(0..3) {
        0 => random.random_range(0..size),
        1 => random.random_range(0..size.min(200_000)),
        _ => random.random_range(0..size / 512) * 512,
    };
    let most = match random.random_range(0..4) {
        0 => 512,
        1 => 5000,
        2 => 40_000,
        _ => 4096,
    };
    (offset, random.random_range(1..=most).min((size - offset) as usize))
}

/// Random requests of several clients, one at a time, compared with a plain array.
fn exercise(served: &Served, model: &mut Vec<u8>, random: &mut Pcg64, steps: usize) {
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    let size = clients[0].size;
    model.resize(size as usize, 0);
    for step in 0..steps {
        let client = &mut clients[step % 3];
        let (offset, len) = range(random, size);
        let (from, to) = (offset as usize, offset as usize + len);
        match random.random_range(0..20) {
            0..8 => {
                let data = random_bytes(random, len);
                client.write(offset, &data, random.random_range(0..8) == 0).unwrap();
                model[from..to].copy_from_slice(&data);
            }
            8..16 => assert!(client.read(offset, len).unwrap() == model[from..to], "read of {len} at {offset}"),
            16 => {
                client.zeroes(offset, len as u32).unwrap();
                model[from..to].fill(0);
            }
            17 => {
                // The content after a trim is undefined until it is written.
                client.trim(offset, len as u32).unwrap();
                client.zeroes(offset, len as u32).unwrap();
                model[from..to].fill(0);
            }
            18 => client.flush().unwrap(),
            _ => {
                let moves = random.random_range(1..20);
                served.handle.set(vec![format!("placement.max_moves={moves}")], vec![]).unwrap();
            }
        }
    }
}

fn whole(served: &Served) -> Vec<u8> {
    let mut client = served.client();
    let size = client.size;
    (0..size).step_by(1 << 20).flat_map(|at| client.read(at, (size - at).min(1 << 20) as usize).unwrap()).collect()
}

#[test]
fn what_is_written_is_read_again_by_every_way_and_after_every_stop() {
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        let mut random = Pcg64::seed_from_u64(7);
        let mut model = Vec::new();
        format(&spec(directory.path(), config(placement)), false).unwrap();
        for settings in ways() {
            let served = Served::start(directory.path(), config(placement), settings);
            assert!(model.is_empty() || whole(&served) == model, "{placement}: after it was closed");
            exercise(&served, &mut model, &mut random, 250);
            served.stop();
        }
    }
}

/// Requests of all clients in flight at once, each in a part of its own.
#[test]
fn clients_do_not_get_each_others_data() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), ways()[0].clone());
    thread::scope(|scope| {
        for part in 0..4_u64 {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.client();
                let mut random = Pcg64::seed_from_u64(part);
                let (begin, size) = (part * (client.size / 4) + part * 100, client.size / 4 - 1000);
                let mut model = vec![0; size as usize];
                for _ in 0..12 {
                    // A batch of writes and then a batch of reads, disjoint within the batch.
                    let batch: Vec<(u64, usize)> = (0..16)
                        .map(|slot| (slot * (size / 16) + random.random_range(0..1000), random.random_range(1..20_000)))
                        .collect();
                    for (at, len) in &batch {
                        let data = random_bytes(&mut random, *len);
                        model[*at as usize..*at as usize + len].copy_from_slice(&data);
                        client.send(WRITE, 0, begin + at, *len as u32, &data);
                    }
                    for _ in &batch {
                        assert_eq!(client.answer().unwrap().1, 0);
                    }
                    let first = client.send(READ, 0, begin + batch[0].0, batch[0].1 as u32, &[]);
                    for (at, len) in &batch[1..] {
                        client.send(READ, 0, begin + at, *len as u32, &[]);
                    }
                    for _ in &batch {
                        let (cookie, error) = client.answer().unwrap();
                        assert_eq!(error, 0);
                        let (at, len) = batch[(cookie - first) as usize];
                        assert!(client.data(len) == model[at as usize..at as usize + len]);
                    }
                }
            });
        }
    });
    served.stop();
}

/// A client that only sends, and reads no answer until the end: the pool is bounded, and no client is starved.
#[test]
fn a_flood_waits_and_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { pool: Bytes::mib(8), ..Settings::default() };
    let served = Served::new(directory.path(), config("back"), settings);
    let mut patient = served.client();
    let mut flood = served.client();
    // No more answers than fit a socket, because this client would otherwise wait for itself.
    for _ in 0..150 {
        flood.send(READ, 0, 4096, 1 << 20, &[]);
    }
    for _ in 0..3 {
        patient.write(0, &[7; 100], false).unwrap();
    }
    let status = served.handle.status().unwrap();
    assert_eq!(status["pool"]["bytes"], 8 << 20, "{status}");
    for _ in 0..150 {
        assert_eq!(flood.answer().unwrap().1, 0);
        flood.data(1 << 20);
    }
    drop(flood);
    // One client disconnects in the middle of a write, and one while answers are being sent.
    let mut rude = served.client();
    rude.send(WRITE, 0, 0, 1 << 20, &[1; 1000]);
    drop(rude);
    let mut rude = served.client();
    for _ in 0..50 {
        rude.send(READ, 0, 0, 1 << 20, &[]);
    }
    drop(rude);
    assert_eq!(patient.read(0, 100).unwrap(), [7; 100]);
    drop(patient);
    for _ in 0..100 {
        let status = served.handle.status().unwrap();
        if status["clients"] == 0 {
            assert_eq!(status["pool"]["free_bytes"], status["pool"]["bytes"], "buffers are lost: {status}");
            served.stop();
            return;
        }
        thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("clients that have gone are still there");
}

#[test]
fn a_device_that_fails_fails_its_own_ranges_only() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("linear"), Settings::default());
    let mut client = served.client();
    // Data begins after the metadata; the second device has the last 6 MiB of the volume.
    served
        .handle
        .fault(Fault {
            device: 1,
            only: Some(Only::Reads),
            from: 0,
            to: u64::MAX,
            times: Some(2),
            effect: Effect::Fail,
        })
        .unwrap();
    client.write(0, &[1; 4096], false).unwrap();
    client.write(4 << 20, &[2; 4096], false).unwrap();
    assert_eq!(client.read(4 << 20, 4096), Err(EIO));
    assert_eq!(client.read(0, 4096).unwrap(), [1; 4096]);
    // A request on both devices fails as a whole.
    assert_eq!(client.read((2 << 20) - 100, 200), Err(EIO));
    assert_eq!(client.read(4 << 20, 4096).unwrap(), [2; 4096]);
    let status = served.handle.status().unwrap();
    assert_eq!(status["devices"]["slow"]["errors"], 2, "{status}");
    assert_eq!(status["devices"]["slow"]["state"], "errors");
    served.stop();
}

#[test]
fn write_through_survives_the_loss_of_its_cache() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("through"), Settings::default());
    let mut model = Vec::new();
    exercise(&served, &mut model, &mut Pcg64::seed_from_u64(3), 200);
    served
        .handle
        .fault(Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Fail })
        .unwrap();
    assert!(whole(&served) == model);
    served.handle.heal().unwrap();
    served.stop();
}

#[test]
fn a_second_server_is_locked_out_and_format_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), Settings::default());
    let again = format(&spec(directory.path(), config("tiering")), true).unwrap_err().to_string();
    assert!(again.contains("in use by another peryton"), "{again}");
    served.stop();
    let again = format(&spec(directory.path(), config("tiering")), false).unwrap_err().to_string();
    assert!(again.contains("holds a Peryton volume: name another device"), "{again}");
    format(&spec(directory.path(), config("tiering")), true).unwrap();
}

#[test]
fn settings_are_kept_and_wrong_ones_change_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), Settings::default());
    assert_eq!(served.handle.set(vec!["placement.max_moves=7".into()], vec![]).unwrap(), ["placement.max_moves=7"]);
    for wrong in ["placement.max_moves=0", "placement.max_moves=x", "rubbish", "colour=1"] {
        assert!(served.handle.set(vec![wrong.into()], vec![]).is_err(), "{wrong}");
    }
    served.stop();
    let served = Served::start(directory.path(), config("tiering"), Settings::default());
    assert_eq!(served.handle.status().unwrap()["settings"], serde_json::json!(["placement.max_moves=7"]));
    assert!(served.handle.set(vec![], vec!["placement.max_moves".into()]).unwrap().is_empty());
    assert!(served.handle.set(vec![], vec!["placement.max_moves".into()]).is_err());
    served.stop();
}

#[test]
fn the_control_socket_answers_rubbish_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let config = config("tiering");
    let spec = spec(directory.path(), config);
    format(&spec, false).unwrap();
    let endpoint = directory.path().join("nbd").display().to_string().parse().unwrap();
    let mut service = peryton_drive::Service::open(&spec, &endpoint, Settings::default()).unwrap();
    let path = directory.path().join("control");
    let control = service.control(&path).unwrap();
    let handle = service.handle();
    let thread = thread::spawn(move || service.run());
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::{fs::PermissionsExt, net::UnixStream},
    };
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    stream.write_all(b"rubbish\n\xff\xfe\n{}\n{\"verb\":\"status\"}\n").unwrap();
    for ok in [false, false, false, true] {
        let answer: serde_json::Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["ok"], ok, "{answer}");
    }
    stream.write_all(&vec![b'x'; control::LONGEST_LINE + 1]).unwrap();
    assert!(answers.next().unwrap().unwrap().contains("at most"));
    assert!(answers.next().is_none(), "it hangs up");
    let mut seen = Vec::new();
    let events = control::Ask::Events { after: 0, follow: false };
    control::ask(&path, &events, |event| {
        seen.push(event);
        true
    })
    .unwrap();
    assert_eq!(seen[0]["event"], "opened");
    handle.stop();
    thread.join().unwrap().unwrap();
    // The socket is gone before the devices are released, because the next server may need the path.
    let error = control::ask(&path, &control::Ask::Status {}, |_| true).unwrap_err().to_string();
    assert!(error.contains("give the control socket of a volume that is being served"), "{error}");
    assert!(!path.exists());
    drop(control);
}

/// One call submits a device's command and waits for its end, the next one sends the answer and waits for the client.
#[test]
fn a_request_of_a_client_with_one_in_flight_enters_the_kernel_twice() {
    const REQUESTS: u64 = 2_000;
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), Settings::default());
    let calls = || served.handle.status().unwrap()["kernel_calls"].as_u64();
    if calls().is_none() {
        println!("skipped: without io_uring");
        return drop(served.stop());
    }
    let mut client = served.client();
    client.write(0, &[7; 64 << 10], false).unwrap();
    for (what, most) in [("read", 2.1), ("write", 2.1)] {
        let before = calls().unwrap();
        for number in 0..REQUESTS {
            let at = number % 16 * 4096;
            match what {
                "read" => drop(client.read(at, 4096).unwrap()),
                _ => client.write(at, &[1; 4096], false).unwrap(),
            }
        }
        let each = (calls().unwrap() - before) as f64 / REQUESTS as f64;
        println!("{what}: {each:.3} calls");
        assert!(each <= most, "{each} calls for each {what}");
    }
    served.stop();
}

/// Whoever may write there could take the records away, or put others in their place.
#[test]
fn a_place_that_others_may_write_to_is_refused_and_the_status_says_so() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let served = Served::new(directory.path(), config("tiering"), Settings::default());
    let status = served.handle.status().unwrap();
    let why = status["process_death"]["not_kept"].as_str().unwrap();
    assert!(why.contains("others may write") && status["process_death"]["unprotected"] == true, "{status}");
    let events = served.handle.events();
    assert!(events.iter().any(|event| event["event"] == "unprotected"), "{events:?}");
    served.stop();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let served = Served::start(directory.path(), config("tiering"), Settings::default());
    assert_eq!(served.handle.status().unwrap()["process_death"]["unprotected"], serde_json::Value::Null);
    served.stop();
}

#[test]
fn devices_fail_on_demand_only_if_that_was_asked_for_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let spec = spec(directory.path(), config("tiering"));
    format(&spec, false).unwrap();
    let endpoint = directory.path().join("nbd").display().to_string().parse().unwrap();
    let service = Service::open(&spec, &endpoint, Settings::default()).unwrap();
    let handle = service.handle();
    let server = thread::spawn(move || service.run());
    let fault = Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Fail };
    let error = handle.fault(fault).unwrap_err();
    assert!(error.contains("--drills"), "{error}");
    handle.stop();
    server.join().unwrap().unwrap();
}

#[test]
fn a_copy_that_is_served_on_the_same_machine_is_named() {
    let (directory, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    format(&spec(directory.path(), config("back")), false).unwrap();
    for name in ["fast", "slow"] {
        fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
    }
    let served = Served::start(directory.path(), config("back"), Settings::default());
    let of_copy = VolumeSpec {
        process_death: spec(directory.path(), config("back")).process_death,
        ..spec(copy.path(), config("back"))
    };
    let endpoint = copy.path().join("nbd").display().to_string().parse().unwrap();
    let other = Service::open(&of_copy, &endpoint, Settings::default()).unwrap();
    let events = other.handle();
    let server = thread::spawn(move || other.run());
    let named = events.events().into_iter().find(|event| event["event"] == "copy");
    let named = named.expect("it is noticed");
    assert!(
        named["served"].as_str().unwrap().contains(&directory.path().join("fast").display().to_string()),
        "{named}"
    );
    events.stop();
    server.join().unwrap().unwrap();
    served.stop();
}

fn allocated(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    ["fast", "slow"]
        .into_iter()
        .filter_map(|name| fs::metadata(directory.join(name)).ok())
        .map(|about| about.blocks() * 512)
        .sum()
}

/// How many bytes the devices were given to write.
fn given(served: &Served) -> u64 {
    let status = served.handle.status().unwrap();
    let devices = status["ledger"]["devices"].as_array().unwrap();
    let written = devices.iter().flat_map(|device| device["bytes_written"].as_array().unwrap());
    written.map(|bytes| bytes.as_u64().unwrap()).sum()
}

/// The fear: a copy of a sparse image fills the fast device with zeros, and all of the volume is written.
#[test]
fn zeros_where_nothing_was_written_reach_no_device() {
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        // What the drive writes back by itself does not come from the zeros.
        let mut config = config(placement);
        config.tuning.writeback_delay = Nanos::from_s(3600);
        let served = Served::new(directory.path(), config.clone(), Settings::default());
        let fill = |served: &Served, from: u64| {
            let mut client = served.client();
            let before = given(served);
            for at in (from..client.size).step_by(1 << 20) {
                client.zeroes(at, (client.size - at).min(1 << 20) as u32).unwrap();
            }
            given(served) - before
        };
        assert_eq!(fill(&served, 0), 0, "{placement}");
        let mut client = served.client();
        client.write(4096, &[7; 8192], false).unwrap();
        assert_eq!(fill(&served, 1 << 20), 0, "{placement}: beyond what was written");
        client.zeroes(4096, 4096).unwrap();
        assert_eq!(client.read(4096, 8192).unwrap(), [[0; 4096], [7; 4096]].concat(), "{placement}");
        drop(client);
        served.stop();
        let served = Served::start(directory.path(), config, Settings::default());
        assert_eq!(fill(&served, 1 << 20), 0, "{placement}: after it was closed and opened");
        assert_eq!(served.client().read(8192, 4096).unwrap(), [7; 4096], "{placement}");
        served.stop();
    }
}

/// Copying a sparse image writes zeros to nearly all of a volume.
#[test]
fn a_sparse_file_does_not_grow_by_zeros() {
    const NO_HOLE: u16 = 2;
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), Settings::default());
        let mut client = served.client();
        client.flush().unwrap();
        let before = allocated(directory.path());
        let size = client.size;
        for at in (0..size).step_by(1 << 20) {
            client.zeroes(at, (size - at).min(1 << 20) as u32).unwrap();
        }
        client.flush().unwrap();
        let grown = allocated(directory.path()).saturating_sub(before);
        println!("{placement}: {grown} bytes of {size}");
        assert!(client.read(0, 65536).unwrap().iter().all(|byte| *byte == 0));
        // The journal, or the headers of a log.
        assert!(grown < 2 << 20, "{placement}: grew by {grown} bytes");
        if placement == "single" {
            client.write(0, &[9; 1 << 20], false).unwrap();
            let before = allocated(directory.path());
            client.zeroes(0, 1 << 20).unwrap();
            assert!(allocated(directory.path()) <= before - (512 << 10), "a hole is made");
            client.send(ZEROES, NO_HOLE, 0, 1 << 20, &[]);
            assert_eq!(client.answer().unwrap().1, 0);
            assert!(allocated(directory.path()) >= before - (64 << 10), "room is kept where that is asked for");
            assert!(client.read(0, 1 << 20).unwrap().iter().all(|byte| *byte == 0));
        }
        drop(client);
        served.stop();
    }
}
