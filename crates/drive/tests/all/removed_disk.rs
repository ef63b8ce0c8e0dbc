//! The fear: a disk that is taken out looks to the drive like one that lacks space, and is waited for without end.

use std::{
    fs::File,
    path::Path,
    time::{Duration, Instant},
};

use crate::served::{Client, config, spec};
use crate::tools::output_of;
use peryton_drive::{Endpoint, Service, Settings, VolumeSpec, format};
use peryton_units::Nanos;

const BLOCK: usize = 4096;

/// A disk that can lose its size, as Linux shows a disk that was taken out.
struct Disk {
    device: String,
    image: File,
}

impl Disk {
    /// `None` if this user or this machine has no loop devices.
    fn new(path: &Path, size: u64) -> Option<Disk> {
        let image = File::create(path).ok()?;
        image.set_len(size).ok()?;
        Some(Disk { device: output_of("losetup", &["--find", "--show", path.to_str()?])?, image })
    }

    /// The drive may write meanwhile, which makes the image longer again: the disk may then be smaller, and not gone.
    fn take_out(&self) {
        self.image.set_len(0).unwrap();
        output_of("losetup", &["--set-capacity", &self.device]).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        output_of("losetup", &["--detach", &self.device]);
    }
}

#[test]
fn a_disk_that_was_taken_out_is_given_up_although_it_seems_to_lack_space() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::new(&directory.path().join("disk"), 64 << 20) else {
        eprintln!("skipped: there are no loop devices here");
        return;
    };
    let mut config = config("back");
    config.tuning.patience = Nanos::from_s(600);
    let mut spec = spec(directory.path(), config);
    spec.devices[0].path = disk.device.clone().into();
    format(&spec, true).unwrap();
    is_given_up(&spec, || disk.take_out());
}

/// The fear: writes make a file longer again that was cut off, and what it had reads as zeros without an error.
#[test]
fn a_file_that_was_cut_off_is_given_up_although_writes_make_it_longer() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("back");
    config.tuning.patience = Nanos::from_s(600);
    let spec = spec(directory.path(), config);
    format(&spec, true).unwrap();
    is_given_up(&spec, || {
        File::options().write(true).open(&spec.devices[0].path).unwrap().set_len(BLOCK as u64).unwrap();
    });
}

/// The fear: nothing is flushed after the cut, and what is written when the volume is closed makes the file long again.
#[test]
fn a_file_that_was_cut_off_is_given_up_before_the_volume_is_closed() {
    for waits in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let spec = spec(directory.path(), config("back"));
        format(&spec, true).unwrap();
        let nbd = directory.path().join("nbd");
        let service = Service::open(&spec, &Endpoint::Unix(nbd.clone()), Settings::default()).unwrap();
        let handle = service.handle();
        let thread = std::thread::spawn(move || service.run());
        let mut client = Client::connect(&nbd);
        client.write(0, &[9; BLOCK], false).unwrap();
        client.flush().unwrap();
        drop(client);
        File::options().write(true).open(&spec.devices[0].path).unwrap().set_len(BLOCK as u64).unwrap();
        let began = Instant::now();
        while waits && handle.status().unwrap()["state"] != "degraded" {
            assert!(began.elapsed() < Duration::from_secs(30), "{}", handle.status().unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        handle.stop();
        let _ = thread.join().unwrap();
        let again = Service::open(&spec, &Endpoint::Unix(nbd), Settings::default());
        assert!(again.is_err(), "waits: {waits}: the volume opens with a device that was cut off");
    }
}

/// The fear: a file is renamed or deleted while it is served, all looks well, and the next server finds nothing, or its data end with this one.
#[test]
fn a_file_that_is_not_at_its_path_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let spec = spec(directory.path(), config("back"));
    format(&spec, true).unwrap();
    let service = Service::open(&spec, &Endpoint::Unix(directory.path().join("nbd")), Settings::default()).unwrap();
    let handle = service.handle();
    let thread = std::thread::spawn(move || service.run());
    let name = spec.devices[0].name.clone();
    let state = || handle.status().unwrap()["devices"][&name]["state"].clone();
    assert_eq!(state(), "ok");
    let becomes = |wanted: &str| {
        let began = Instant::now();
        while state() != wanted {
            assert!(began.elapsed() < Duration::from_secs(30), "{}", handle.status().unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let (path, elsewhere) = (&spec.devices[0].path, directory.path().join("elsewhere"));
    std::fs::rename(path, &elsewhere).unwrap();
    becomes("moved");
    std::fs::rename(&elsewhere, path).unwrap();
    becomes("ok");
    // Another file is there now.
    std::fs::rename(path, &elsewhere).unwrap();
    std::fs::File::create(path).unwrap();
    becomes("moved");
    std::fs::remove_file(&elsewhere).unwrap();
    becomes("deleted");
    handle.stop();
    let _ = thread.join().unwrap();
}

/// Serves the volume until its first device is cut off and given up.
fn is_given_up(spec: &VolumeSpec, cut_off: impl FnOnce()) {
    let nbd = spec.devices[1].path.with_file_name("nbd");
    let service = Service::open(spec, &Endpoint::Unix(nbd.clone()), Settings::default()).unwrap();
    let handle = service.handle();
    let thread = std::thread::spawn(move || service.run());
    let mut client = Client::connect(&nbd);
    for at in (0..1 << 20).step_by(BLOCK) {
        client.write(at, &[9; BLOCK], false).unwrap();
    }
    client.flush().unwrap();
    cut_off();
    let began = Instant::now();
    while handle.status().unwrap()["state"] != "degraded" {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", handle.status().unwrap());
        let _ = client.write(3 << 20, &[3; BLOCK], false);
        let _ = client.flush();
    }
    // The flush after the loss fails once, because something that had been answered may be lost.
    let _ = client.flush();
    client.write(3 << 20, &[4; BLOCK], false).unwrap();
    client.flush().unwrap();
    assert_eq!(client.read(3 << 20, BLOCK).unwrap(), [4; BLOCK]);
    drop(client);
    handle.stop();
    thread.join().unwrap().unwrap();
}
