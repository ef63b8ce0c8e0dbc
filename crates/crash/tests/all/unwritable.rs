//! The fear: a device that refuses writes, as worn SSDs do, counts as one that is lost, and what only it has goes with it.

use crate::crashing;

use crashing::{Disks, LOG, Machine, formatted, open};
use peryton_engine::{
    Cleaning, Config, DeviceError, DeviceId, Engine, Hybrid, Metadata, OpenError, Placement, Storage, Tuning, closed,
};
use peryton_units::{Bytes, Nanos, Op};

const FAST: DeviceId = DeviceId(0);
const SLOW: DeviceId = DeviceId(1);
const EXTENT: u64 = 16 << 10;
const EXTENTS: u64 = 8;

/// Devices of which one refuses writes; the other one does so after so many writes and flushes.
struct OnlyReads<'a> {
    disks: &'a mut Disks,
    device: DeviceId,
    left: u32,
}

impl OnlyReads<'_> {
    fn may(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        if device == self.device {
            return Err(DeviceError);
        }
        self.left = self.left.checked_sub(1).ok_or(DeviceError)?;
        Ok(())
    }
}

impl Storage for OnlyReads<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.disks.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        Storage::read(self.disks, device, at, into)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.may(device)?;
        Storage::write(self.disks, device, at, from)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        // A device that refuses writes has nothing to flush.
        if device == self.device { Ok(()) } else { self.may(device).and_then(|()| Storage::flush(self.disks, device)) }
    }
}

/// A cache with write-back, or a log, that loses power with data that only the one device has; and what the volume holds.
fn dirty(config: &Config) -> (Disks, Vec<u8>) {
    let mut machine: Machine = open(config, formatted(config)).unwrap();
    let mut model = vec![0; machine.engine.volume_size().0 as usize];
    for extent in 0..EXTENTS / 2 {
        let (at, value) = ((extent * EXTENT * 2) as usize, 1 + extent as u8);
        machine.request(Op::Write, at as u64, vec![value; 8192]);
        model[at..at + 8192].fill(value);
    }
    machine.request(Op::Flush, 0, Vec::new());
    assert!(machine.engine.dirty_bytes() > Bytes::ZERO);
    machine.driver.disks.lose_everything();
    (machine.driver.disks, model)
}

fn cache() -> Config {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes(EXTENT) };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 0,
        demotion_high: 0,
        cleaning: Cleaning::UNBOUNDED,
        writeback_delay: Nanos(u64::MAX >> 1),
        ..Tuning::default()
    };
    Config { devices: vec![Bytes(EXTENT * 6), Bytes(EXTENT * EXTENTS)], placement: Placement::Caching(pair), tuning }
}

/// The device with data that only it has, and the one that can stand alone.
fn volumes() -> [(Config, DeviceId, DeviceId); 2] {
    [(cache(), FAST, SLOW), (crashing::config(EXTENT * EXTENTS, 8 << 20, 4096), LOG, crashing::PRIMARY)]
}

#[test]
fn what_only_an_unwritable_device_has_goes_to_the_other_one() {
    for (config, device, home) in volumes() {
        let (disks, model) = dirty(&config);
        let refuse = |disks: &mut Disks| {
            Engine::open(config.clone(), &mut OnlyReads { disks, device, left: u32::MAX }).map(drop)
        };
        assert_eq!(refuse(&mut disks.clone()), Err(OpenError::Device { device: device.index() }));
        let mut rescued = disks.clone();
        let before = disks.0[device.index()].clone();
        let mut storage = OnlyReads { disks: &mut rescued, device, left: u32::MAX };
        let mut rounds = 0;
        let done = closed::rescue(config.clone(), &mut storage, device, &mut |_| rounds += 1).unwrap();
        assert!(rescued.0[device.index()] == before, "nothing is written to it");
        assert!(rounds > 0 && done.device == home && done.written_back > 0, "{done:?}");
        rescued.lose_everything();
        let alone = &rescued.0[home.index()].as_ref().unwrap().contents()[done.at.0 as usize..][..done.len.0 as usize];
        assert!(*alone == *model, "the other device has everything");
        // The volume is none any more, and neither device passes for it.
        assert!(Engine::open(config.clone(), &mut rescued.clone()).is_err());
        let found = closed::inspect(config.clone(), &mut rescued, false, &[]).unwrap();
        assert_eq!(found.metadata, Metadata::Unseen, "{found:?}");
    }
}

#[test]
fn a_rescue_that_is_cut_short_anywhere_can_be_made_again() {
    for (config, device, home) in volumes() {
        let (disks, model) = dirty(&config);
        let mut cut = 0;
        for left in 0.. {
            let mut there = disks.clone();
            let mut storage = OnlyReads { disks: &mut there, device, left };
            let done = closed::rescue(config.clone(), &mut storage, device, &mut |_| ());
            there.lose_everything();
            if let Ok(done) = done {
                let alone = there.0[home.index()].as_ref().unwrap().contents();
                assert!(alone[done.at.0 as usize..][..done.len.0 as usize] == *model);
                break;
            }
            cut += 1;
            // Whole again, the volume opens as it was; but for the last step, which may have gone half the way.
            let mut again = there.clone();
            if let Ok((engine, _)) = Engine::open(config.clone(), &mut again) {
                let mut machine = Machine::with(engine, again, 1);
                crashing::check_all(&mut machine, &model);
            }
            let mut storage = OnlyReads { disks: &mut there, device, left: u32::MAX };
            let done = closed::rescue(config.clone(), &mut storage, device, &mut |_| ()).unwrap();
            let alone = there.0[home.index()].as_ref().unwrap().contents();
            assert!(alone[done.at.0 as usize..][..done.len.0 as usize] == *model, "after {left} operations");
        }
        assert!(cut > 2, "{cut}");
    }
}
