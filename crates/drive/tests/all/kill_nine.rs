//! The fear: flushed data is lost when the server is killed.

use std::{
    collections::HashMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::served::{Client, PLACEMENTS, READ, WRITE, config, end_with_the_test, spec};
use peryton_drive::{Endpoint, Service, Settings, format};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const DIRECTORY: &str = "PERYTON_TEST_DIRECTORY";
const PLACEMENT: &str = "PERYTON_TEST_PLACEMENT";
const SECTOR: u64 = 512;

/// Not a test: the code of the child process.
#[test]
fn child() {
    let (Ok(directory), Ok(placement)) = (env::var(DIRECTORY), env::var(PLACEMENT)) else { return };
    end_with_the_test();
    let directory = PathBuf::from(directory);
    let spec = spec(&directory, config(&placement));
    let service = Service::open(&spec, &Endpoint::Unix(directory.join("nbd")), Settings::default()).unwrap();
    service.run().unwrap();
}

fn start(directory: &Path, placement: &str) -> Child {
    // Removes the previous server's socket.
    let _ = fs::remove_file(directory.join("nbd"));
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "kill_nine::child", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(PLACEMENT, placement)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The possible contents of each sector: the stamps since its last flushed write, and that write's.
struct Model {
    may: HashMap<u64, Vec<u64>>,
    next: u64,
}

impl Model {
    fn sector(stamp: u64) -> Vec<u8> {
        stamp.to_le_bytes().repeat(SECTOR as usize / 8)
    }

    fn check(&mut self, sector: u64, found: &[u8]) {
        let stamp = u64::from_le_bytes(found[..8].try_into().unwrap());
        assert!(found == Model::sector(stamp), "sector {sector} is torn");
        let may = self.may.get(&sector).map_or(&[0][..], Vec::as_slice);
        assert!(may.contains(&stamp), "sector {sector} holds {stamp}, and may hold {may:?}");
        // A sector keeps the content that was read, whichever it is.
        self.may.insert(sector, vec![stamp]);
    }
}

fn round(client: &mut Client, model: &mut Model, random: &mut Pcg64, child: &mut Child) {
    let sectors = client.size / SECTOR;
    for sector in 0..sectors / 64 {
        let found = client.read(sector * 64 * SECTOR, 64 * SECTOR as usize).unwrap();
        for (index, found) in found.chunks(SECTOR as usize).enumerate() {
            model.check(sector * 64 + index as u64, found);
        }
    }
    let steps = random.random_range(10..120);
    for step in 0..steps {
        if random.random_range(0..12) == 0 {
            client.flush().unwrap();
            for may in model.may.values_mut() {
                may.drain(..may.len() - 1);
            }
            continue;
        }
        // Half of the writes go to sectors that were written before.
        let most = if random.random_range(0..2) == 0 { sectors } else { 400 };
        let (first, count) = (random.random_range(0..most - 70), random.random_range(1..64));
        let mut data = Vec::new();
        for sector in first..first + count {
            model.next += 1;
            data.extend(Model::sector(model.next));
            model.may.entry(sector).or_insert_with(|| vec![0]).push(model.next);
        }
        let last = step + 1 == steps;
        let fua = random.random_range(0..10) == 0 && !last;
        client.send(WRITE, u16::from(fua), first * SECTOR, (count * SECTOR) as u32, &data);
        if last {
            break;
        }
        assert_eq!(client.answer().unwrap().1, 0);
        if fua {
            for sector in first..first + count {
                let may = model.may.get_mut(&sector).unwrap();
                may.drain(..may.len() - 1);
            }
        }
    }
    client.send(READ, 0, 0, 4096, &[]);
    thread::sleep(Duration::from_micros(random.random_range(0..3000)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_flushed_byte_is_lost() {
    for placement in PLACEMENTS {
        let directory = tempfile::tempdir().unwrap();
        format(&spec(directory.path(), config(placement)), false).unwrap();
        let mut model = Model { may: HashMap::new(), next: 0 };
        let mut random = Pcg64::seed_from_u64(11);
        for _ in 0..6 {
            let mut child = start(directory.path(), placement);
            let mut client = Client::connect(&directory.path().join("nbd"));
            round(&mut client, &mut model, &mut random, &mut child);
        }
    }
}
