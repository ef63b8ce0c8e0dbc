//! One volume, two servers: by other names of its devices, or on two machines that share them. A mirror of the block that says who has a
//! device stands for the second name, because a lock on the file would find it sooner.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::served::{Served, config, refusal, spec};
use peryton_drive::{Settings, format};
use peryton_format::{
    holder::{HOLDER_AT, Holder, Torn, decode, encode},
    wear::Account,
};

fn block(directory: &Path) -> Vec<u8> {
    let mut block = vec![0; 4096];
    File::open(directory.join("fast")).unwrap().read_exact_at(&mut block, HOLDER_AT.0).unwrap();
    block
}

/// Who has the volume, as one of its devices says.
fn held(directory: &Path) -> Result<Option<Holder>, Torn> {
    decode(&block(directory)).map(|held| held.holder)
}

fn set_block(directory: &Path, block: &[u8]) {
    File::options().write(true).open(directory.join("fast")).unwrap().write_all_at(block, HOLDER_AT.0).unwrap();
}

/// The devices of a volume that is not served, and one of them says this.
fn left(holder: &Holder) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Served::new(directory.path(), config("back"), Settings::default()).stop();
    assert_eq!(held(directory.path()), Ok(None), "no server has a volume that was closed");
    set_block(directory.path(), &encode(Some(holder), &Account::default()));
    directory
}

/// Calls `renew` again and again while `done` runs.
fn meanwhile<T>(renew: impl Fn(u64) + Send + Sync, done: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let turns = 0..;
            turns.take_while(|_| !over.load(Ordering::Relaxed)).for_each(|turn| {
                renew(turn);
                thread::sleep(Duration::from_millis(20));
            });
        });
        let result = done();
        over.store(true, Ordering::Relaxed);
        result
    })
}

#[test]
fn a_volume_that_is_served_by_another_name_is_refused() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let served = Served::new(directory.path(), config("back"), Settings::default());
    let holder = held(directory.path()).unwrap().expect("who has the volume says so");
    assert_eq!(holder.pid, std::process::id());
    for name in ["fast", "slow"] {
        fs::copy(directory.path().join(name), other.path().join(name)).unwrap();
    }
    let (from, to) = (directory.path(), other.path());
    let said = meanwhile(move |_| set_block(to, &block(from)), || refusal(other.path(), config("back")));
    let by = format!("served by process {} on {}", std::process::id(), holder.host);
    assert!(said.contains(&by) && said.contains("stop that first"), "{said}");
    served.stop();
    assert_eq!(held(directory.path()), Ok(None));
}

#[test]
fn a_volume_that_another_machine_serves_is_refused_also_to_those_that_only_look() {
    let holder = Holder { nonce: 5, pid: 77, host: "other.example".to_owned(), boot: 1, ..Holder::default() };
    let directory = left(&holder);
    let renew = |renewals| {
        set_block(directory.path(), &encode(Some(&Holder { renewals, ..holder.clone() }), &Account::default()))
    };
    let spec = spec(directory.path(), config("back"));
    let said = meanwhile(renew, || {
        [
            refusal(directory.path(), config("back")),
            peryton_drive::inspect(&spec, false, &[]).unwrap_err().to_string(),
            peryton_drive::detach(&spec, &[], false, &mut |_| ()).unwrap_err().to_string(),
            format(&spec, true).unwrap_err().to_string(),
        ]
    });
    for said in said {
        assert!(said.contains("served by process 77 on other.example"), "{said}");
    }
}

#[test]
fn a_volume_whose_server_has_died_here_is_opened_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), Settings::default());
    let holder = held(directory.path()).unwrap().expect("who has the volume says so");
    served.stop();
    // A process of this start of this machine: one that never was, one whose number another has now, and this one, earlier.
    for dead in [
        Holder { pid: u32::MAX, nonce: 1, ..holder.clone() },
        Holder { pid: 1, started: u64::MAX, nonce: 2, ..holder.clone() },
        Holder { nonce: 3, ..holder },
    ] {
        set_block(directory.path(), &encode(Some(&dead), &Account::default()));
        let began = Instant::now();
        let served = Served::start(directory.path(), config("back"), Settings::default());
        served.client();
        assert!(began.elapsed() < Duration::from_secs(4), "{dead:?}: {:?}", began.elapsed());
        served.stop();
    }
}

/// The fear: both go on, because each believes that the other has ended.
#[test]
fn a_server_whose_volume_was_taken_stops_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::new(directory.path(), config("back"), Settings::default());
    let other = Holder { nonce: 5, pid: 77, host: "other.example".to_owned(), boot: 1, ..Holder::default() };
    set_block(directory.path(), &encode(Some(&other), &Account::default()));
    let began = Instant::now();
    while served.handle.status().is_some() {
        assert!(began.elapsed() < Duration::from_secs(10), "it goes on");
        thread::sleep(Duration::from_millis(20));
    }
    let error = served.end().unwrap_err().to_string();
    assert!(error.contains("was taken by process 77 on other.example"), "{error}");
    assert_eq!(held(directory.path()), Ok(Some(other)), "what the other one says is left alone");
}
