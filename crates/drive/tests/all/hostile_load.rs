//! The fear: one client uses all resources, and the others wait for it, or are disconnected as idle while they wait.
//!
//! Bounds on time are wide: they distinguish answers in milliseconds from answers that wait for the attacker.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::served::{self, Client, READ, Served, WRITE, ZEROES, config};
use peryton_drive::{Effect, Fault, Only, Settings, control};
use peryton_engine::{Config, DeviceId, Hybrid, Placement};
use peryton_units::Bytes;

const BLOCK_STATUS: u16 = 7;
const CACHE: u16 = 5;
const FLUSH: u16 = 3;

fn small_pool() -> Settings {
    Settings { pool: Bytes::mib(8), ..Settings::default() }
}

/// The longest time of one of many small requests.
fn slowest(client: &mut Client, count: u64) -> Duration {
    let mut slowest = Duration::ZERO;
    for n in 0..count {
        let began = Instant::now();
        if n % 2 == 0 {
            client.write(n % 64 * 4096, &[7; 4096], false).unwrap();
        } else {
            client.read(n % 64 * 4096, 4096).unwrap();
        }
        slowest = slowest.max(began.elapsed());
    }
    slowest
}

/// The bytes of a request.
fn request(command: u16, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

/// A client that has negotiated structured replies and block status, as a bare stream.
fn with_block_status(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    let option = |kind: u32, data: &[u8]| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    };
    let mut hello = 3_u32.to_be_bytes().to_vec();
    hello.extend(option(8, &[]));
    let mut contexts = 0_u32.to_be_bytes().to_vec();
    contexts.extend_from_slice(&1_u32.to_be_bytes());
    contexts.extend_from_slice(&15_u32.to_be_bytes());
    contexts.extend_from_slice(b"base:allocation");
    hello.extend(option(10, &contexts));
    hello.extend(option(7, &[0; 6]));
    stream.write_all(&hello).unwrap();
    // Greeting; three acknowledgements, a context and the export.
    let mut answers = vec![0; 18 + 20 + (20 + 4 + 15) + 20 + (20 + 12) + 20];
    stream.read_exact(&mut answers).unwrap();
    stream
}

#[test]
fn writes_whose_payload_trickles_leave_room_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), small_pool());
    let mut honest = served.client();
    // Each request is longer than a buffer by its first block, and there are more of them than the pool has space for.
    let mut attackers: Vec<Client> = (0..8).map(|_| served.client()).collect();
    for attacker in &mut attackers {
        attacker.send(WRITE, 0, 1, 4 << 20, &[1; 1000]);
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(200));
                for attacker in &mut attackers {
                    attacker.send_raw(&[1; 10]);
                }
            }
        });
        let slowest = slowest(&mut honest, 500);
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        let began = Instant::now();
        assert_eq!(honest.read(0, 1 << 20).unwrap().len(), 1 << 20);
        honest.write(0, &vec![2; 1 << 20], false).unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        stop.store(true, Ordering::Relaxed);
    });
    drop((attackers, honest));
    served.stop();
}

/// Answers that the client does not read fill the sockets and then the pool.
#[test]
fn readers_that_take_nothing_leave_room_for_small_requests() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), small_pool());
    let mut honest = served.client();
    let mut attackers: Vec<Client> = (0..20).map(|_| served.client()).collect();
    for attacker in &mut attackers {
        for n in 0..100 {
            attacker.send(READ, 0, n * 4096, 1 << 20, &[]);
        }
    }
    let slowest = slowest(&mut honest, 300);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    drop((attackers, honest));
    served.stop();
}

/// A disk of 16 GiB in extents of 16 KiB: a single answer requires a million look-ups.
fn many_extents() -> Config {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(16) };
    Config { devices: vec![Bytes::mib(64), Bytes::gib(16)], placement: Placement::Caching(pair), ..config("back") }
}

#[test]
fn block_status_of_everything_again_and_again_takes_turns() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), many_extents(), Settings::default());
    let mut honest = served.client();
    slowest(&mut honest, 64);
    let usual = slowest(&mut honest, 300);
    let mut attacker = with_block_status(&served.nbd);
    let flood: Vec<u8> = (0..2300).flat_map(|_| request(BLOCK_STATUS, 0, u32::MAX - 4095)).collect();
    attacker.write_all(&flood).unwrap();
    let slowest = slowest(&mut honest, 300);
    assert!(slowest < Duration::from_secs(1).max(5 * usual), "{slowest:?}, usually {usual:?}");
    // The answer is correct, though shorter than the request.
    attacker.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut first = [0; 20 + 4 + 8];
    attacker.read_exact(&mut first).unwrap();
    assert_eq!(&first[..8], &[0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5]);
    assert!(u32::from_be_bytes(first[24..28].try_into().unwrap()) > 0);
    drop((attacker, honest));
    served.stop();
}

#[test]
fn one_byte_writes_are_taken_in_a_few_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let mut honest = served.client();
    let mut attacker = UnixStream::connect(&served.nbd).unwrap();
    let mut hello = 3_u32.to_be_bytes().to_vec();
    hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    attacker.write_all(&hello).unwrap();
    attacker.read_exact(&mut [0; 28]).unwrap();
    let flood: Vec<u8> = (0..16_384_u64)
        .flat_map(|n| {
            let mut bytes = request(WRITE, (1 << 20) + n * 37 % 500_000, 1);
            bytes.push(n as u8);
            bytes
        })
        .collect();
    let mut reader = attacker.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || attacker.write_all(&flood).unwrap());
        let replies = scope.spawn(move || {
            let mut replies = vec![0; 16_384 * 16];
            reader.read_exact(&mut replies).unwrap();
            replies.chunks(16).filter(|reply| reply[4..8] == [0; 4]).count()
        });
        while !replies.is_finished() {
            let slowest = slowest(&mut honest, 20);
            assert!(slowest < Duration::from_secs(1), "{slowest:?}");
            let status = served.handle.status().unwrap();
            let in_flight = status["requests_in_flight"].as_u64().unwrap();
            assert!(in_flight <= 128, "{in_flight} requests in flight");
        }
        assert_eq!(replies.join().unwrap(), 16_384);
    });
    drop(honest);
    served.stop();
}

#[test]
fn flushes_before_a_lagging_device_wait_in_their_socket() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let mut honest = served.client();
    lag(&served, Some(Only::Flushes), 2_000_000);
    let mut attacker = served.client();
    honest.write(0, &[1; 4096], false).unwrap();
    let flood: Vec<u8> = (0..4000).flat_map(|_| request(FLUSH, 0, 0)).collect();
    attacker.send_raw(&flood);
    thread::sleep(Duration::from_millis(300));
    let status = served.handle.status().unwrap();
    let in_flight = status["requests_in_flight"].as_u64().unwrap();
    assert!((2..=128).contains(&in_flight), "{in_flight} requests in flight");
    let slowest = slowest(&mut honest, 100);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    drop((attacker, honest));
    let began = Instant::now();
    served.stop();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

fn lag(served: &Served, only: Option<Only>, lag_us: u64) {
    let effect = Effect::Lag { lag_us };
    served.handle.fault(Fault { device: 0, only, from: 0, to: u64::MAX, times: None, effect }).unwrap();
}

#[test]
fn long_zeroes_take_turns_and_end_when_the_server_stops() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        devices: vec![Bytes::gib(5)],
        placement: Placement::Single { device: DeviceId(0) },
        ..config("single")
    };
    let mut spec = served::spec(directory.path(), config.clone());
    spec.devices.truncate(1);
    peryton_drive::format(&spec, false).unwrap();
    let nbd = directory.path().join("nbd");
    let endpoint = peryton_drive::Endpoint::Unix(nbd.clone());
    let service =
        peryton_drive::Service::open(&spec, &endpoint, Settings { drills: true, ..Settings::default() }).unwrap();
    let handle = service.handle();
    let server = thread::spawn(move || service.run());
    let mut honest = Client::connect(&nbd);
    const NO_HOLE: u16 = 2;
    // Slow enough that none of the requests ends.
    let effect = Effect::Lag { lag_us: 5000 };
    let fault = Fault { device: 0, only: Some(Only::Writes), from: 1 << 30, to: u64::MAX, times: None, effect };
    handle.fault(fault).unwrap();
    let mut attacker = Client::connect(&nbd);
    for _ in 0..120 {
        // Without NO_HOLE they would end at once, as nothing was ever written there.
        attacker.send(ZEROES, NO_HOLE, 1 << 30, u32::MAX - 4095, &[]);
    }
    let slowest = slowest(&mut honest, 200);
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    let status = handle.status().unwrap();
    assert!(status["device_commands_in_flight"].as_u64().unwrap() < 16, "{}", status["device_commands_in_flight"]);
    let began = Instant::now();
    handle.stop();
    // Requests that the server accepted are answered; the others never left the socket.
    let refused = (0..120).map_while(|_| attacker.answer().ok()).filter(|(_, error)| *error == 108).count();
    assert!((30..=128).contains(&refused), "{refused} were refused");
    drop((attacker, honest));
    server.join().unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// A slow client reads 128 KiB of one long answer every fifth of a second, for longer than a client may be idle.
#[test]
fn a_slow_reader_that_goes_on_reading_is_not_cut() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), many_extents(), Settings::default());
    let mut client = served.client();
    for at in (0..24_u64 << 20).step_by(1 << 20) {
        client.write(at, &vec![5; 1 << 20], false).unwrap();
    }
    let began = Instant::now();
    client.send(READ, 0, 0, 24 << 20, &[]);
    assert_eq!(client.answer().expect("it was cut off").1, 0);
    for _ in 0..8 * 24 {
        assert!(client.data(128 << 10).iter().all(|byte| *byte == 5));
        thread::sleep(Duration::from_millis(200));
    }
    assert!(began.elapsed() > Duration::from_secs(33));
    drop(client);
    served.stop();
}

#[test]
fn followers_and_idlers_do_not_keep_status_out() {
    let directory = tempfile::tempdir().unwrap();
    let spec = served::spec(directory.path(), config("single"));
    peryton_drive::format(&spec, false).unwrap();
    let endpoint = peryton_drive::Endpoint::Unix(directory.path().join("nbd"));
    let mut service = peryton_drive::Service::open(&spec, &endpoint, Settings::default()).unwrap();
    let path = directory.path().join("control");
    let control = service.control(&path).unwrap();
    let handle = service.handle();
    let server = thread::spawn(move || service.run());
    let status = || control::ask(&path, &control::Ask::Status {}, |_| true);
    let connect = |line: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        stream
    };
    let followers: Vec<UnixStream> = (0..100).map(|_| connect("{\"verb\":\"events\",\"follow\":true}\n")).collect();
    status().unwrap();
    // Clients that send nothing, and clients that never finish their request.
    let idlers: Vec<UnixStream> = (0..100).map(|n| connect(if n % 2 == 0 { "" } else { "{\"verb\":" })).collect();
    status().unwrap();
    drop((followers, idlers));
    handle.stop();
    server.join().unwrap().unwrap();
    assert!(!path.exists(), "the socket is taken away before the devices are given up");
    drop(control);
}

#[test]
fn a_lag_is_bounded_and_ends_with_heal_and_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let mut client = served.client();
    let endless =
        Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Lag { lag_us: u64::MAX } };
    assert!(served.handle.fault(endless).unwrap_err().contains("at most"));
    lag(&served, None, 60_000_000);
    client.send(READ, 0, 0, 4096, &[]);
    thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    served.handle.heal().unwrap();
    assert_eq!(client.answer().unwrap().1, 0);
    client.data(4096);
    assert!(began.elapsed() < Duration::from_secs(5));
    lag(&served, None, 60_000_000);
    client.send(READ, 0, 0, 4096, &[]);
    thread::sleep(Duration::from_millis(200));
    let began = Instant::now();
    served.stop();
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn settings_are_kept_without_stopping_the_volume() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("single"), Settings::default());
    let mut client = served.client();
    lag(&served, Some(Only::Flushes), 1_000_000);
    thread::scope(|scope| {
        let set = scope.spawn(|| {
            let began = Instant::now();
            served.handle.set(vec!["placement.max_moves=3".to_owned()], vec![]).unwrap();
            began.elapsed()
        });
        thread::sleep(Duration::from_millis(100));
        let slowest = slowest(&mut client, 100);
        assert!(slowest < Duration::from_millis(900), "{slowest:?}");
        let took = set.join().unwrap();
        assert!(took > Duration::from_secs(2), "answered before two flushes: {took:?}");
    });
    drop(client);
    served.stop();
    let served = Served::start(directory.path(), config("single"), Settings::default());
    assert_eq!(served.handle.status().unwrap()["settings"][0], "placement.max_moves=3");
    // Many changes at once: each is in force in the end.
    thread::scope(|scope| {
        for n in 1..9 {
            let served = &served;
            scope.spawn(move || served.handle.set(vec![format!("placement.max_moves={n}")], vec![]).unwrap());
        }
        served.handle.set(vec!["placement.promotion.threshold=5".to_owned()], vec![]).unwrap();
    });
    let settings = served.handle.status().unwrap()["settings"].clone();
    assert_eq!(settings.as_array().unwrap().len(), 2, "{settings}");
    served.stop();
    let served = Served::start(directory.path(), config("single"), Settings::default());
    assert_eq!(served.handle.status().unwrap()["settings"].as_array().unwrap().len(), 2);
    served.stop();
}

/// A host that drops data from its cache sends `CACHE`, because it will read the data here next time (Griffin, section
/// 7).
#[test]
fn a_hint_takes_data_out_of_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("logging");
    config.tuning.logging.triggers.timeout = None;
    let served = Served::new(directory.path(), config, Settings::default());
    let mut client = served.client();
    for n in 0..64_u64 {
        client.write(n * 4096, &[n as u8; 4096], false).unwrap();
    }
    let migrated = || served.handle.status().unwrap()["ledger"]["logging"]["bytes_migrated"].as_u64().unwrap();
    assert_eq!(migrated(), 0);
    let cookie = client.send(CACHE, 0, 0, 32 * 4096, &[]);
    assert_eq!(client.answer().unwrap(), (cookie, 0));
    let began = Instant::now();
    while migrated() < 32 * 4096 {
        assert!(began.elapsed() < Duration::from_secs(5), "{} bytes migrated", migrated());
        thread::sleep(Duration::from_millis(20));
    }
    for n in 0..64_u64 {
        assert_eq!(client.read(n * 4096, 4096).unwrap(), [n as u8; 4096]);
    }
    drop(client);
    served.stop();
}
