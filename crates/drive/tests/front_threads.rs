//! The fear: clients that other threads serve get each other's data, wait for each other, or keep the server from ending.
#![allow(missing_docs, clippy::unwrap_used)]

mod served;

use std::{
    thread,
    time::{Duration, Instant},
};

use peryton_drive::{FrontThreads, Settings};
use peryton_units::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use served::{Client, READ, Served, WRITE, config};

/// What each of the clients has of the volume.
const PART: u64 = 512 << 10;
/// `ESHUTDOWN` on the wire.
const SHUTDOWN: u32 = 108;

fn threads(count: usize, ring: usize) -> Settings {
    Settings {
        pool: Bytes::mib(8 * count.max(1) as u64),
        front_threads: FrontThreads::Count(count),
        front_ring: ring,
        ..Settings::default()
    }
}

/// Writes and reads a part of the volume, with many requests at once, and compares what it reads with what it wrote.
fn use_part(client: &mut Client, part: u64, rounds: u32, seed: u64) -> Vec<u8> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut model = vec![0; PART as usize];
    for _ in 0..rounds {
        let mut under_way = Vec::new();
        // The requests of a round do not overlap, so each answer is known.
        for slot in 0..16 {
            let at = slot * (PART / 16) + random.random_range(0..8) * 512;
            let len = random.random_range(1..40) * 512;
            if random.random_bool(0.5) {
                let data: Vec<u8> = (0..len).map(|_| random.random()).collect();
                model[at as usize..(at + len) as usize].copy_from_slice(&data);
                under_way.push((client.send(WRITE, 0, part * PART + at, len as u32, &data), None));
            } else {
                under_way.push((client.send(READ, 0, part * PART + at, len as u32, &[]), Some((at, len))));
            }
        }
        while !under_way.is_empty() {
            let (cookie, error) = client.answer().unwrap();
            assert_eq!(error, 0);
            let found =
                under_way.iter().position(|(sent, _)| *sent == cookie).expect("an answer to what was sent, once");
            if let (_, Some((at, len))) = under_way.swap_remove(found) {
                assert!(client.data(len as usize) == model[at as usize..(at + len) as usize], "other data at {at}");
            }
        }
    }
    client.flush().unwrap();
    model
}

/// With rings of two and four entries, each side finds the other's full all the time.
#[test]
fn clients_of_several_threads_read_what_they_wrote() {
    for (count, ring, placement) in [(1, 1024, "tiering"), (2, 4, "back"), (3, 2, "single"), (2, 1024, "logging")] {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config(placement), threads(count, ring));
        let models: Vec<Vec<u8>> = thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|part| {
                    let mut client = served.client();
                    scope.spawn(move || use_part(&mut client, part, 40, part + 1))
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        let status = served.wait_for(|status| status["clients"] == 0);
        assert_eq!(status["front_threads"], count);
        assert_eq!(status["pool"]["bytes"], status["pool"]["free_bytes"], "{status}");
        assert_eq!(status["clients_served"], 4);
        let asked: u64 =
            ["read", "write"].iter().map(|kind| status["traffic"][kind]["requests"].as_u64().unwrap()).sum();
        assert_eq!(asked, 4 * 40 * 16, "each request counts once");
        served.stop();
        // Another server, with one thread, has the same.
        let served = Served::start(directory.path(), config(placement), threads(0, 1));
        let mut client = served.client();
        for (part, model) in models.iter().enumerate() {
            assert!(client.read(part as u64 * PART, PART as usize).unwrap() == *model, "part {part} of {placement}");
        }
        drop(client);
        served.stop();
    }
}

#[test]
fn a_client_that_dies_amid_its_requests_takes_nothing_from_others() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("tiering"), threads(2, 8));
    let mut honest = served.client();
    honest.write(0, &[7; 64 << 10], false).unwrap();
    for round in 0..20_u64 {
        let mut dying: Vec<Client> = (0..6).map(|_| served.client()).collect();
        for (number, client) in dying.iter_mut().enumerate() {
            for request in 0..20 {
                client.send(READ, 0, PART + request * 4096, 64 << 10, &[]);
                client.send(WRITE, 0, PART + request * 4096, 4096, &[number as u8; 4096]);
            }
            // A part of a payload, and a part of a header.
            client.send(WRITE, 0, PART, 1 << 20, &vec![1; 1000 * number]);
        }
        drop(dying);
        assert!(honest.read(0, 64 << 10).unwrap().iter().all(|byte| *byte == 7), "round {round}");
    }
    served.wait_for(|status| {
        status["clients"] == 1
            && status["requests_in_flight"] == 0
            && status["pool"]["bytes"] == status["pool"]["free_bytes"]
    });
    drop(honest);
    served.stop();
}

#[test]
fn a_client_that_takes_no_answers_delays_no_other_of_its_thread() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), threads(1, 16));
    let mut honest = served.client();
    let mut slow: Vec<Client> = (0..10).map(|_| served.client()).collect();
    for client in &mut slow {
        for n in 0..100 {
            client.send(READ, 0, n * 4096, 1 << 20, &[]);
        }
    }
    let mut slowest = Duration::ZERO;
    for n in 0..300 {
        let began = Instant::now();
        honest.write(n % 64 * 4096, &[7; 4096], false).unwrap();
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    drop((slow, honest));
    served.stop();
}

#[test]
fn a_server_that_stops_answers_what_its_threads_have_taken() {
    for round in 0..10_u64 {
        let directory = tempfile::tempdir().unwrap();
        let served = Served::new(directory.path(), config("tiering"), threads(2, 4));
        let mut clients: Vec<Client> = (0..4).map(|_| served.client()).collect();
        let mut sent = Vec::new();
        for (part, client) in clients.iter_mut().enumerate() {
            let mut cookies = Vec::new();
            for request in 0..64 {
                let at = part as u64 * PART + request * 4096;
                cookies.push((client.send(WRITE, 0, at, 4096, &[part as u8 + 1; 4096]), at));
            }
            sent.push(cookies);
        }
        thread::sleep(Duration::from_micros(300 * round));
        let began = Instant::now();
        let handle = served.handle.clone();
        handle.stop();
        let mut acknowledged = Vec::new();
        for (client, cookies) in clients.iter_mut().zip(&sent) {
            // What was read from the socket is answered; the rest is refused, or the connection ends.
            while let Ok((cookie, error)) = client.answer() {
                assert!(error == 0 || error == SHUTDOWN, "error {error}");
                let (_, at) = cookies.iter().find(|(sent, _)| *sent == cookie).expect("an answer to what was sent");
                acknowledged.extend((error == 0).then_some(*at));
            }
        }
        drop(clients);
        served.stop();
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let served = Served::start(directory.path(), config("tiering"), threads(1, 4));
        let mut client = served.client();
        for at in acknowledged {
            assert!(client.read(at, 4096).unwrap().iter().all(|byte| u64::from(*byte) == at / PART + 1), "at {at}");
        }
        drop(client);
        served.stop();
    }
}

#[test]
fn a_pool_that_gives_a_thread_too_little_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { pool: Bytes::mib(16), front_threads: FrontThreads::Count(3), ..Settings::default() };
    peryton_drive::format(&served::spec(directory.path(), config("single")), false).unwrap();
    let error = Served::try_start(directory.path(), config("single"), settings).err().unwrap().to_string();
    assert!(error.contains("3 threads") && error.contains("24MiB"), "{error}");
}
