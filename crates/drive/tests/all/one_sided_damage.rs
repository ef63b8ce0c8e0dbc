//! The fear: one device of a volume is older than the volume's state, or damaged while the other is intact, and this is
//! not noticed, or the volume cannot be used any more.

use std::{fs, os::unix::fs::FileExt, path::Path};

use crate::served::{Client, Served, config, spec};
use peryton_drive::{Endpoint, Service, Settings, inspect, repair};
use peryton_engine::{Config, Journal, Metadata, Trust};
use peryton_format::superblock::Superblock;

const UNIT: usize = 16 << 10;
const BLOCK: usize = 4096;
const MAPPED: [&str; 3] = ["back", "through", "tiering"];

fn content(at: u64, round: u8) -> Vec<u8> {
    (at + u64::from(round) * 0x0101_0000_0001 + 1).to_le_bytes().repeat(UNIT / 8)
}

/// Writes some units of every eight, each followed by a flush, so that there are many commits.
fn write_some(client: &mut Client, round: u8) {
    for at in (0..client.size / 2).step_by(UNIT * 8) {
        client.write(at, &content(at, round), true).unwrap();
    }
    client.flush().unwrap();
}

fn is_right(client: &mut Client, round: u8) -> bool {
    (0..client.size / 2).step_by(UNIT * 8).all(|at| client.read(at, UNIT) == Ok(content(at, round)))
}

fn refusal(directory: &Path, config: Config) -> String {
    let endpoint = Endpoint::Unix(directory.join("refused"));
    Service::open(&spec(directory, config), &endpoint, Settings::default()).unwrap_err().to_string()
}

/// The devices of a killed server, copied while nothing was in flight.
fn killed(from: &Path, config: &Config, round: u8) -> tempfile::TempDir {
    let served = Served::start(from, config.clone(), Settings::default());
    write_some(&mut served.client(), round);
    let left = tempfile::tempdir().unwrap();
    // Both devices are copied at one moment: nothing changed meanwhile.
    let names = ["fast", "slow"];
    let same = |name: &&str| fs::read(from.join(name)).unwrap() == fs::read(left.path().join(name)).unwrap();
    let still = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        for name in names {
            fs::copy(from.join(name), left.path().join(name)).unwrap();
        }
        names.iter().all(same)
    });
    assert!(still, "the devices never come to rest");
    served.stop();
    left
}

/// Overwrites the newest blocks of the journal.
fn destroy_newest(path: &Path, count: usize, with: u8) -> usize {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let bytes = fs::read(path).unwrap();
    let number = |block: &[u8]| u64::from_le_bytes(block[8..16].try_into().unwrap());
    let blocks = bytes.chunks_exact(BLOCK).enumerate().filter(|(_, block)| block[4..8] == *b"PYjl");
    let mut blocks: Vec<(u64, usize)> = blocks.map(|(index, block)| (number(block), index)).collect();
    blocks.sort_unstable();
    for (_, index) in blocks.iter().rev().take(count) {
        file.write_all_at(&[with; BLOCK], (index * BLOCK) as u64).unwrap();
    }
    blocks.len()
}

/// Where the last superblock is: room for snapshots may come after it.
fn last_superblock(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    let found = bytes.chunks_exact(BLOCK).rposition(|block| Superblock::decode(block).is_ok());
    (found.expect("the device has superblocks") * BLOCK) as u64
}

fn destroy_superblocks(path: &Path) {
    let last = last_superblock(path);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&[0; BLOCK], 0).unwrap();
    file.write_all_at(&[0; BLOCK], last).unwrap();
}

#[test]
fn a_mirror_whose_newest_journal_blocks_are_gone_is_made_good_from_the_other() {
    // A cache that writes through leaves its map out of the commits of the host's flushes.
    for placement in MAPPED.into_iter().filter(|placement| *placement != "through") {
        for name in ["fast", "slow"] {
            for with in [0, 0x5a] {
                let directory = tempfile::tempdir().unwrap();
                let mut config = config(placement);
                config.tuning.journal = Journal::Mirrored;
                Served::new(directory.path(), config.clone(), Settings::default()).stop();
                let left = killed(directory.path(), &config, 1);
                let blocks = destroy_newest(&left.path().join(name), 3, with);
                assert!(blocks > 6, "{placement}: only {blocks} blocks of journal: the test tests nothing");
                let case = format!("{placement}, {name}, {with}");
                let spec = spec(left.path(), config.clone());
                // An older copy would look the same.
                let error = refusal(left.path(), config.clone());
                assert!(error.contains("repair --trust as-it-is") && error.contains(name), "{case}: {error}");
                assert!(!error.contains("format") && !error.contains("--without"), "{case}: {error}");
                assert!(repair(&spec, Trust::None, &[]).is_err(), "{case}");
                let opened = repair(&spec, Trust::AsItIs, &[]).unwrap();
                assert_eq!(opened.lost, 0);
                let served = Served::start(left.path(), config, Settings::default());
                assert!(is_right(&mut served.client(), 1), "{case}");
                served.stop();
                assert_eq!(inspect(&spec, false, &[]).unwrap().metadata, Metadata::Whole, "{case}");
            }
        }
    }
}

#[test]
fn superblocks_that_are_gone_are_written_again() {
    for placement in MAPPED {
        for name in ["fast", "slow"] {
            for kills in [true, false] {
                let directory = tempfile::tempdir().unwrap();
                let config = config(placement);
                let case = format!("{placement}, {name}, killed: {kills}");
                Served::new(directory.path(), config.clone(), Settings::default()).stop();
                let before = fs::read(directory.path().join(name)).unwrap();
                let left = killed(directory.path(), &config, 1);
                let at = if kills { left.path() } else { directory.path() };
                destroy_superblocks(&at.join(name));
                let error = refusal(at, config.clone());
                assert!(error.contains("lost both its superblocks") && error.contains("repair"), "{case}: {error}");
                assert!(!error.contains("format"), "{case}: {error}");
                let spec = spec(at, config.clone());
                assert_eq!(inspect(&spec, false, &[]).unwrap().metadata, Metadata::Repairable, "{case}");
                let opened = repair(&spec, Trust::None, &[]).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert!(opened.repaired >= 2 && opened.lost == 0, "{case}: {opened:?}");
                let served = Served::start(at, config.clone(), Settings::default());
                assert!(is_right(&mut served.client(), 1), "{case}");
                served.stop();
                // An older copy without superblocks is not accepted as the present one.
                fs::write(at.join(name), before).unwrap();
                destroy_superblocks(&at.join(name));
                assert!(repair(&spec, Trust::AsItIs, &[]).is_err(), "{case}: an older copy");
            }
        }
    }
}

/// What a device said when the volume was closed is known to the others, as far as samples of its data say.
#[test]
fn superblocks_that_are_gone_are_written_again_without_a_map_if_the_operator_says_so() {
    for placement in ["linear", "logging"] {
        for name in ["fast", "slow"] {
            let directory = tempfile::tempdir().unwrap();
            let (at, config) = (directory.path(), config(placement));
            let served = Served::new(at, config.clone(), Settings::default());
            write_some(&mut served.client(), 1);
            served.stop();
            let case = format!("{placement}, {name}");
            destroy_superblocks(&at.join(name));
            let spec = spec(at, config.clone());
            for error in [refusal(at, config.clone()), repair(&spec, Trust::None, &[]).unwrap_err().to_string()] {
                assert!(error.contains("if it is the present device, repair --trust as-it-is"), "{case}: {error}");
                assert!(!error.contains("format"), "{case}: {error}");
            }
            let opened = repair(&spec, Trust::AsItIs, &[]).unwrap();
            assert!(opened.repaired >= 2 && opened.clean, "{case}: {opened:?}");
            let served = Served::start(at, config.clone(), Settings::default());
            assert!(is_right(&mut served.client(), 1), "{case}");
            served.stop();
            // What another program has written to is not what was closed.
            destroy_superblocks(&at.join(name));
            let file = fs::OpenOptions::new().write(true).open(at.join(name)).unwrap();
            file.write_all_at(&[0x77; 64 << 10], 1 << 20).unwrap();
            if (placement, name) != ("logging", "fast") {
                let error = repair(&spec, Trust::AsItIs, &[]).unwrap_err().to_string();
                assert!(error.contains("lost both its superblocks") && !error.contains("repair"), "{case}: {error}");
            }
        }
    }
}

/// After a crash nothing says whether the commits that a log has are the newest.
#[test]
fn a_log_without_superblocks_is_taken_after_a_crash_if_the_operator_says_that_it_is_the_present_one() {
    let directory = tempfile::tempdir().unwrap();
    let config = config("logging");
    Served::new(directory.path(), config.clone(), Settings::default()).stop();
    let left = killed(directory.path(), &config, 1);
    let at = left.path();
    let whole = fs::read(at.join("slow")).unwrap();
    destroy_superblocks(&at.join("slow"));
    let error = refusal(at, config.clone());
    assert!(error.contains("lost both its superblocks") && !error.contains("repair"), "{error}");
    fs::write(at.join("slow"), whole).unwrap();
    destroy_superblocks(&at.join("fast"));
    let spec = spec(at, config.clone());
    for error in [refusal(at, config.clone()), repair(&spec, Trust::None, &[]).unwrap_err().to_string()] {
        assert!(error.contains("if it is the present device, repair --trust as-it-is"), "{error}");
    }
    let opened = repair(&spec, Trust::AsItIs, &[]).unwrap();
    assert!(opened.repaired >= 2 && opened.lost == 0, "{opened:?}");
    let served = Served::start(at, config, Settings::default());
    assert!(is_right(&mut served.client(), 1));
    served.stop();
}

#[test]
fn an_older_copy_of_the_same_generation_is_noticed_after_a_clean_close() {
    for placement in ["linear", "back", "through", "tiering", "logging"] {
        for name in ["fast", "slow"] {
            let directory = tempfile::tempdir().unwrap();
            let at = directory.path();
            let config = config(placement);
            let served = Served::new(at, config.clone(), Settings::default());
            let mut client = served.client();
            write_some(&mut client, 1);
            fs::copy(at.join(name), at.join("older")).unwrap();
            write_some(&mut client, 2);
            drop(client);
            served.stop();
            fs::rename(at.join(name), at.join("present")).unwrap();
            fs::rename(at.join("older"), at.join(name)).unwrap();
            let error = refusal(at, config.clone());
            assert!(error.contains("copy from earlier") && error.contains(name), "{placement}, {name}: {error}");
            let spec = spec(at, config.clone());
            assert_eq!(inspect(&spec, false, &[]).unwrap().metadata, Metadata::Unseen);
            // The present one is still accepted.
            fs::rename(at.join("present"), at.join(name)).unwrap();
            let served = Served::start(at, config, Settings::default());
            assert!(is_right(&mut served.client(), 2), "{placement}, {name}");
            served.stop();
        }
    }
}

#[test]
fn after_a_kill_it_is_said_what_cannot_be_excluded() {
    let directory = tempfile::tempdir().unwrap();
    Served::new(directory.path(), config("tiering"), Settings::default()).stop();
    let left = killed(directory.path(), &config("tiering"), 1);
    let found = inspect(&spec(left.path(), config("tiering")), false, &[]).unwrap();
    assert_eq!(found.metadata, Metadata::Repairable);
    assert!(found.findings.iter().any(|finding| finding.contains("an older copy of it")), "{:?}", found.findings);
}
