//! The fear: data in a log rots while the volume is closed, and is served, or written back, as if nothing had happened.

use std::{fs, os::unix::fs::FileExt};

use crate::served::{EIO, Served, config, spec, ways};
use peryton_drive::{Settings, repair};
use peryton_engine::{Config, Trust};

const BLOCK: usize = 4096;

fn content(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| (block as u8).wrapping_mul(7) ^ (at / 16) as u8 ^ 0x5a).collect()
}

/// The most volumes that are made for one whose damage no sample shows.
const MOST_VOLUMES: usize = 5;

/// A log with 200 blocks that was closed; a bit of the 78th has changed since.
fn volume_with_a_flipped_bit(config: &Config, settings: &Settings) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config.clone(), settings.clone());
    let mut client = served.client();
    for block in 0..200 {
        client.write(block * 2 * BLOCK as u64, &content(block), false).unwrap();
    }
    client.flush().unwrap();
    drop(client);
    served.stop();

    // The log is the device called fast.
    let path = directory.path().join("fast");
    let log = fs::read(&path).unwrap();
    let at = log.windows(BLOCK).step_by(512).position(|window| window == content(77)).unwrap() * 512;
    let device = fs::OpenOptions::new().write(true).open(&path).unwrap();
    device.write_all_at(&[log[at + 1234] ^ 0x10], at as u64 + 1234).unwrap();
    directory
}

#[test]
fn a_flipped_bit_is_an_error_that_is_named_and_everything_else_is_served() {
    for settings in ways() {
        let config = config("logging");
        // If a sample that the superblocks know has the block, the volume is refused. Samples lie elsewhere in each volume.
        let damaged = (0..MOST_VOLUMES).find_map(|_| {
            let directory = volume_with_a_flipped_bit(&config, &settings);
            let served = Served::try_start(directory.path(), config.clone(), settings.clone());
            if let Err(refused) = &served {
                assert!(refused.to_string().contains("was written to after the volume was closed"), "{refused}");
            }
            Some((directory, served.ok()?))
        });
        let (directory, served) = damaged.expect("not every volume has a sample there");
        let mut client = served.client();
        for block in (0..200).chain(70..80) {
            let read = client.read(block * 2 * BLOCK as u64, BLOCK);
            let expected = if block == 77 { Err(EIO) } else { Ok(content(block)) };
            assert!(read == expected, "block {block}: {:?}", read.map(|data| data[0]));
        }
        // Parts of it, and more than it.
        assert_eq!(client.read(77 * 2 * BLOCK as u64 + 512, 512), Err(EIO));
        assert_eq!(client.read(76 * 2 * BLOCK as u64, 5 * BLOCK), Err(EIO));
        let status = served.handle.status().unwrap();
        assert_eq!(status["lost"]["ranges"][0]["offset"], 77 * 2 * BLOCK as u64, "{}", status["lost"]);
        assert_eq!(status["lost"]["bytes"], BLOCK as u64);
        assert_eq!(status["ledger"]["logging"]["damaged_bytes"], BLOCK as u64);
        let told = served.handle.events();
        let told = serde_json::to_value(told).unwrap().to_string();
        assert!(told.contains("\"damage\""), "{told}");
        drop(client);
        served.stop();

        let opened = repair(&spec(directory.path(), config.clone()), Trust::None, &[]).unwrap();
        assert_eq!(opened.lost, 1);
        let served = Served::start(directory.path(), config.clone(), settings);
        let status = served.handle.status().unwrap();
        assert_eq!(status["lost"]["ranges"][0]["offset"], 77 * 2 * BLOCK as u64, "it is named before it is read");
        let mut client = served.client();
        assert_eq!(client.read(77 * 2 * BLOCK as u64, BLOCK), Err(EIO));
        client.write(77 * 2 * BLOCK as u64, &content(3), true).unwrap();
        assert_eq!(client.read(77 * 2 * BLOCK as u64, BLOCK).unwrap(), content(3));
        assert_eq!(served.handle.status().unwrap()["lost"]["bytes"], 0);
        drop(client);
        served.stop();
    }
}
