//! A volume on devices that keep all writes: format, open, use, close or crash, open again.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use peryton_engine::{
    Buffer, Command, Config, ConfigError, DetachError, DeviceError, DeviceId, Engine, Formatting, Hybrid, Inspection,
    Logging, OpenError, Placement, Replacement, Request, RequestId, Storage, Trust, Tuning, Verdict, VolumeId,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: Bytes = Bytes::kib(4);

/// Devices in memory that keep every write, flushed or not.
#[derive(Clone)]
struct Memory(Vec<Option<Vec<u8>>>);

impl Storage for Memory {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.0[device.index()].as_ref().map(|bytes| Bytes(bytes.len() as u64))
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.0[device.index()].as_ref().ok_or(DeviceError)?;
        into.copy_from_slice(&bytes[at.0 as usize..at.0 as usize + into.len()]);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let bytes = self.0[device.index()].as_mut().ok_or(DeviceError)?;
        bytes[at.0 as usize..at.0 as usize + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn config(caching: bool) -> Config {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let placement = if caching { Placement::Caching(pair) } else { Placement::Tiering(pair) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 2, demotion_high: 4, ..Tuning::default() };
    Config { devices: vec![EXTENT * 16, EXTENT * 64], placement, tuning }
}

fn blank(config: &Config) -> Memory {
    let engine = Engine::new(config.clone()).unwrap();
    Memory(engine.device_bytes().iter().map(|size| Some(vec![0; size.0 as usize])).collect())
}

fn formatted(config: &Config) -> Memory {
    let mut storage = blank(config);
    let new = Formatting { volume: VolumeId(0xabc), unix_s: 1, zeroed: true, notes: "max_moves=3".to_string() };
    Engine::format(config, new, &mut storage).unwrap();
    storage
}

/// Carries commands out immediately, in order.
struct Machine {
    engine: Engine,
    storage: Memory,
    now: Nanos,
    moves: HashMap<u32, Vec<u8>>,
    host: Vec<u8>,
    answered: bool,
}

impl Machine {
    fn open(config: &Config, mut storage: Memory) -> Result<Machine, OpenError> {
        let (engine, _) = Engine::open(config.clone(), &mut storage)?;
        Ok(Machine { engine, storage, now: Nanos::ZERO, moves: HashMap::new(), host: Vec::new(), answered: false })
    }

    fn buffer(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { offset, .. } => (&mut self.host, offset),
            Buffer::Move { index, offset } => {
                let whole = self.engine.move_buffer_bytes().0 as usize;
                (self.moves.entry(index).or_insert_with(|| vec![0; whole]), offset)
            }
            Buffer::Metadata => unreachable!("metadata is encoded"),
        };
        &mut bytes[offset_range(at, len)]
    }

    fn obey(&mut self, mut out: Vec<Command>) {
        let mut at = 0;
        while at < out.len() {
            let command = out[at];
            at += 1;
            let io = match command {
                Command::Read { io, device, at, len, buffer, .. } => {
                    let mut bytes = vec![0; len.0 as usize];
                    self.storage.read(device, at, &mut bytes).unwrap();
                    self.buffer(buffer, len).copy_from_slice(&bytes);
                    io
                }
                Command::Write { io, device, at, len, buffer, .. } => {
                    let mut bytes = vec![0; len.0 as usize];
                    match buffer {
                        Buffer::Metadata => self.engine.encode_metadata(io, &mut bytes).expect("it is in flight"),
                        buffer => bytes.copy_from_slice(self.buffer(buffer, len)),
                    }
                    self.storage.write(device, at, &bytes).unwrap();
                    io
                }
                Command::Zero { io, device, at, len } => {
                    self.storage.write(device, at, &vec![0; len.0 as usize]).unwrap();
                    io
                }
                Command::Discard { io, .. } | Command::Flush { io, .. } => io,
                Command::Copy { from, to, len } => {
                    let bytes = self.buffer(from, len).to_vec();
                    self.buffer(to, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Clear { .. } => unreachable!("nothing is read that was not written"),
                Command::Encode { .. } => unreachable!("no log here"),
                Command::Power { .. } => continue,
                Command::Reply { result, .. } => {
                    result.unwrap();
                    self.answered = true;
                    continue;
                }
            };
            self.engine.complete(self.now, io, Ok(()), &mut out).expect("it is in flight");
        }
    }

    fn request(&mut self, op: Op, offset: u64, bytes: Vec<u8>) -> Vec<u8> {
        let len = Bytes(bytes.len() as u64);
        self.host = bytes;
        self.answered = false;
        self.now += Nanos::from_ms(100);
        let mut out = Vec::new();
        self.engine.submit(self.now, RequestId(0), Request { op, offset: Bytes(offset), len }, &mut out);
        self.obey(out);
        let mut out = Vec::new();
        self.engine.tick(self.now, &mut out);
        self.obey(out);
        assert!(self.answered);
        std::mem::take(&mut self.host)
    }

    fn settle(&mut self) {
        self.request(Op::Flush, 0, Vec::new());
        for _ in 0..200 {
            self.now += Nanos::from_s(1);
            let mut out = Vec::new();
            self.engine.tick(self.now, &mut out);
            self.obey(out);
        }
        assert!(self.engine.is_idle());
    }
}

fn offset_range(at: Bytes, len: Bytes) -> std::ops::Range<usize> {
    at.0 as usize..(at.0 + len.0) as usize
}

/// Writes all over the volume, flushing now and then; returns the content of the volume.
fn use_it(machine: &mut Machine, rounds: u64) -> Vec<u8> {
    let size = machine.engine.volume_size().0;
    let mut model = machine.request(Op::Read, 0, vec![0; size as usize]);
    for round in 0..rounds {
        let offset = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (size - 5000) / 512 * 512;
        let bytes = vec![(round % 251) as u8 + 1; 512 + (round % 9 * 512) as usize];
        model[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        machine.request(Op::Write, offset, bytes);
        if round % 17 == 0 {
            machine.request(Op::Flush, 0, Vec::new());
        }
    }
    model
}

fn check(machine: &mut Machine, model: &[u8]) {
    for (index, expected) in model.chunks(4096).enumerate() {
        let found = machine.request(Op::Read, index as u64 * 4096, vec![0xcc; expected.len()]);
        assert!(found == expected, "block {index} differs");
    }
    machine.engine.check_invariants();
}

#[test]
fn a_volume_that_was_closed_comes_back_as_it_was() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        let mut model = Vec::new();
        for generation in 1..4 {
            let mut machine = Machine::open(&config, storage).unwrap();
            if !model.is_empty() {
                check(&mut machine, &model);
            }
            model = use_it(&mut machine, 400);
            machine.settle();
            machine.engine.close(&mut machine.storage).unwrap();
            storage = machine.storage;
            let (_, opened) = Engine::open(config.clone(), &mut storage.clone()).unwrap();
            assert!(opened.clean && opened.generation == generation + 1, "{opened:?}");
            assert_eq!(opened.notes, "max_moves=3");
        }
    }
}

#[test]
fn a_volume_that_was_dropped_after_a_flush_comes_back_as_it_was() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        let mut commits = 0;
        for rounds in [1, 40, 400, 3000] {
            let mut machine = Machine::open(&config, storage).unwrap();
            let model = use_it(&mut machine, rounds);
            machine.request(Op::Flush, 0, Vec::new());
            storage = machine.storage;
            let (_, opened) = Engine::open(config.clone(), &mut storage.clone()).unwrap();
            assert!(!opened.clean);
            commits += opened.commits;
            let mut again = Machine::open(&config, storage.clone()).unwrap();
            check(&mut again, &model);
        }
        assert!(commits > 3, "nothing was ever replayed");
    }
}

fn opened_with(config: &Config, storage: &Memory) -> Result<(), OpenError> {
    Engine::open(config.clone(), &mut storage.clone()).map(|_| ())
}

#[test]
fn devices_that_are_not_the_volume_are_refused_by_name() {
    let config = config(true);
    let good = formatted(&config);
    assert_eq!(opened_with(&config, &good), Ok(()));

    assert_eq!(opened_with(&config, &blank(&config)), Err(OpenError::NotFormatted { device: 0 }));

    let mut missing = good.clone();
    missing.0[1] = None;
    assert_eq!(opened_with(&config, &missing), Err(OpenError::Missing { device: 1 }));

    let mut foreign = blank(&config);
    let new = Formatting { volume: VolumeId(9), unix_s: 1, zeroed: true, notes: String::new() };
    Engine::format(&config, new, &mut foreign).unwrap();
    let mixed = Memory(vec![good.0[0].clone(), foreign.0[1].clone()]);
    assert!(matches!(opened_with(&config, &mixed), Err(OpenError::Foreign { .. })));

    let mut other = config.clone();
    other.devices[1] = EXTENT * 32;
    assert!(matches!(opened_with(&other, &good), Err(OpenError::Mismatch { .. })));

    let mut written = good.clone();
    let data_at = Engine::new(config.clone()).unwrap().data_at(DeviceId(1)).0 as usize;
    written.0[1].as_mut().unwrap()[data_at + 1024] ^= 1;
    assert_eq!(opened_with(&config, &written), Err(OpenError::Changed { device: 1 }));
}

#[test]
fn an_older_copy_of_a_device_is_refused_whenever_it_was_made() {
    for caching in [false, true] {
        let config = config(caching);
        let mut machine = Machine::open(&config, formatted(&config)).unwrap();
        use_it(&mut machine, 50);
        let early = machine.storage.clone();
        use_it(&mut machine, 600);
        machine.request(Op::Flush, 0, Vec::new());
        let late = machine.storage.clone();
        for device in 0..2 {
            // The two devices are copies from the same generation.
            let mut mixed = late.clone();
            mixed.0[device] = early.0[device].clone();
            assert!(matches!(opened_with(&config, &mixed), Err(OpenError::Stale { device: at, .. }) if at == device));
            // The copy is from the previous generation.
            let mut next = late.clone();
            Engine::open(config.clone(), &mut next).unwrap();
            next.0[device] = late.0[device].clone();
            assert!(matches!(opened_with(&config, &next), Err(OpenError::Stale { device: at, .. }) if at == device));
        }
    }
}

#[test]
fn metadata_that_one_device_lost_is_restored_from_the_other() {
    for caching in [false, true] {
        let config = config(caching);
        let mut machine = Machine::open(&config, formatted(&config)).unwrap();
        let model = use_it(&mut machine, 600);
        machine.request(Op::Flush, 0, Vec::new());
        let data_at = machine.engine.data_at(DeviceId(0)).0 as usize;
        for device in 0..2 {
            let mut hurt = machine.storage.clone();
            let bytes = hurt.0[device].as_mut().unwrap();
            // One bit of every sector that holds metadata, except in the second superblock.
            for sector in bytes[..data_at].chunks_mut(512) {
                if sector.iter().any(|byte| *byte != 0) {
                    sector[300] ^= 4;
                }
            }
            let (_, opened) = Engine::open(config.clone(), &mut hurt.clone()).unwrap();
            assert!(opened.repaired > 0);
            let mut again = Machine::open(&config, hurt).unwrap();
            check(&mut again, &model);
        }
    }
}

fn inspected(config: &Config, storage: &mut Memory) -> Inspection {
    let before = storage.clone();
    let inspection = Engine::inspect(config.clone(), storage, true, &[]).unwrap();
    assert!(before.0 == storage.0, "a look changed something");
    inspection
}

#[test]
fn inspecting_reports_the_condition_and_changes_nothing() {
    for caching in [false, true] {
        let config = config(caching);
        let mut storage = formatted(&config);
        assert_eq!(inspected(&config, &mut storage).verdict, Verdict::Clean);

        let mut machine = Machine::open(&config, storage).unwrap();
        use_it(&mut machine, 300);
        machine.request(Op::Flush, 0, Vec::new());
        let mut crashed = machine.storage.clone();
        let inspection = inspected(&config, &mut crashed);
        assert_eq!(inspection.verdict, Verdict::Repairable);
        assert!(!inspection.map.is_empty());
        for row in &inspection.map {
            let now = machine.engine.location(Bytes(row.offset)).unwrap();
            // A flush leaves updates that wait for a flush of the slow device to a later commit.
            if !caching && now.device.is_some_and(|device| device.index() == 0) {
                assert_eq!(now.device.map(DeviceId::index), row.device, "{row:?} {now:?}");
            }
        }

        machine.settle();
        machine.engine.close(&mut machine.storage).unwrap();
        let mut closed = machine.storage.clone();
        let inspection = inspected(&config, &mut closed);
        assert_eq!(inspection.verdict, Verdict::Clean, "{:?}", inspection.findings);
        for row in &inspection.map {
            let now = machine.engine.location(Bytes(row.offset)).unwrap();
            assert_eq!((now.device.map(DeviceId::index), now.dirty), (row.device, row.dirty));
        }

        let mut hurt = closed.clone();
        hurt.0[1].as_mut().unwrap()[100] ^= 1;
        assert_eq!(inspected(&config, &mut hurt).verdict, Verdict::Repairable);
        let mut gone = closed.clone();
        gone.0[1] = None;
        assert_eq!(inspected(&config, &mut gone).verdict, Verdict::Damaged);
    }
}

#[test]
fn everything_can_be_written_home_whatever_the_queue_holds() {
    let mut config = config(true);
    config.tuning.writeback_queue = 2;
    config.tuning.writeback_delay = Nanos::from_s(3600);
    let mut machine = Machine::open(&config, formatted(&config)).unwrap();
    let model = use_it(&mut machine, 60);
    assert!(machine.engine.dirty_extents() > 2);
    for _ in 0..100 {
        machine.now += Nanos::from_ms(100);
        let mut out = Vec::new();
        machine.engine.write_all_back(machine.now, &mut out);
        machine.obey(out);
    }
    assert_eq!(machine.engine.dirty_extents(), 0);
    let at = machine.engine.data_at(DeviceId(1)).0 as usize;
    assert!(machine.storage.0[1].as_ref().unwrap()[at..at + model.len()] == model[..], "the slow device stands alone");
}

#[test]
fn a_detached_device_stands_alone_and_the_volume_is_gone() {
    let config = config(true);
    let mut machine = Machine::open(&config, formatted(&config)).unwrap();
    let model = use_it(&mut machine, 500);
    machine.request(Op::Flush, 0, Vec::new());
    // The volume is not even closed in good order.
    let mut storage = machine.storage;
    let detached = Engine::detach(config.clone(), &mut storage).unwrap();
    assert!(detached.written_back > 0);
    let from = detached.at.0 as usize;
    assert!(storage.0[detached.device.index()].as_ref().unwrap()[from..from + detached.len.0 as usize] == model[..]);
    assert!(matches!(opened_with(&config, &storage), Err(OpenError::Detached { .. })));
    let mut tiering = formatted(&self::config(false));
    assert_eq!(Engine::detach(self::config(false), &mut tiering), Err(DetachError::Divided));
}

#[test]
fn after_a_foreign_write_the_user_says_which_device_is_right() {
    let config = config(true);
    let mut machine = Machine::open(&config, formatted(&config)).unwrap();
    let mut model = use_it(&mut machine, 500);
    machine.settle();
    machine.engine.close(&mut machine.storage).unwrap();
    let at = machine.engine.data_at(DeviceId(1)).0 as usize;
    let mut changed = machine.storage;
    changed.0[1].as_mut().unwrap()[at..at + 4096].fill(0x77);
    assert_eq!(opened_with(&config, &changed), Err(OpenError::Changed { device: 1 }));
    assert_eq!(inspected(&config, &mut changed).verdict, Verdict::Damaged);

    Engine::repair(config.clone(), &mut changed, Trust::Slow, &[]).unwrap();
    assert_eq!(inspected(&config, &mut changed).verdict, Verdict::Clean);
    model[..4096].fill(0x77);
    check(&mut Machine::open(&config, changed).unwrap(), &model);
}

fn on_fast(machine: &Machine, offset: u64) -> bool {
    machine.engine.location(Bytes(offset)).is_some_and(|at| at.device == Some(DeviceId(0)))
}

/// Evictions wait for a flush of the slow device, promotions do not. So after a crash the fast device can hold more
/// extents than the map may use, and the engine must reduce them.
#[test]
fn a_cache_recovered_with_too_many_extents_makes_room() {
    for (_, replacement) in Replacement::ALL {
        let mut config = config(true);
        config.devices = vec![EXTENT * 64, EXTENT * 200];
        config.tuning = Tuning { demotion_low: 0, demotion_high: 0, replacement, ..config.tuning };
        let mut machine = Machine::open(&config, formatted(&config)).unwrap();
        let read = |machine: &mut Machine, extents: std::ops::Range<u64>| {
            for extent in extents {
                machine.request(Op::Read, extent * EXTENT.0, vec![0; 512]);
            }
        };
        read(&mut machine, 0..64);
        machine.settle();
        read(&mut machine, 64..70);
        machine.request(Op::Flush, 0, Vec::new());
        let mut back = Machine::open(&config, machine.storage).unwrap();
        back.engine.check_invariants();
        let resident = |machine: &Machine| (0..200).filter(|at| on_fast(machine, at * EXTENT.0)).count();
        assert!(resident(&back) > 64, "{replacement:?}: nothing to put right");
        read(&mut back, 100..160);
        back.settle();
        assert!(resident(&back) <= 64, "{replacement:?}: still fuller than full");
        back.engine.check_invariants();
    }
}

/// A storage that loses power at a write.
struct Cut<'a> {
    storage: &'a mut Memory,
    left: u32,
}

impl Storage for Cut<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.storage.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        self.storage.read(device, at, into)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if self.left == 0 {
            return Err(DeviceError);
        }
        self.left -= 1;
        self.storage.write(device, at, if self.left == 0 { &from[..512] } else { from })
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        if self.left == 0 { Err(DeviceError) } else { Ok(()) }
    }
}

/// The header of a checkpoint can be newer than its entries if writing it failed and was begun again.
#[test]
fn the_only_checkpoint_that_can_be_read_is_not_the_next_to_be_overwritten() {
    for caching in [false, true] {
        let config = config(caching);
        let mut machine = Machine::open(&config, formatted(&config)).unwrap();
        let model = use_it(&mut machine, 300);
        machine.request(Op::Flush, 0, Vec::new());
        let mut storage = Machine::open(&config, machine.storage).unwrap().storage;
        for bytes in storage.0.iter_mut().flatten() {
            let number = |block: &[u8]| u64::from_le_bytes(block[8..16].try_into().unwrap());
            let headers = bytes.chunks_exact(4096).enumerate().filter(|(_, block)| block[4..8] == *b"PYch");
            let (at, _) = headers.max_by_key(|(_, block)| number(block)).unwrap();
            bytes[(at + 1) * 4096 + 100] ^= 1;
        }
        for writes in 1..12 {
            let mut storage = storage.clone();
            let cut = Engine::open(config.clone(), &mut Cut { storage: &mut storage, left: writes });
            assert!(cut.is_err() || writes > 6, "only {writes} writes");
            check(&mut Machine::open(&config, storage).unwrap(), &model);
        }
    }
}

/// A forged superblock may claim any device size.
#[test]
fn devices_larger_than_any_are_refused() {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let logging = Logging { primary: DeviceId(1), log: DeviceId(0), block: EXTENT };
    for placement in [
        Placement::Tiering(pair),
        Placement::Caching(pair),
        Placement::Logging(logging),
        Placement::Single { device: DeviceId(1) },
        Placement::Linear { devices: vec![DeviceId(0), DeviceId(1)] },
    ] {
        for devices in [[u64::MAX, u64::MAX], [u64::MAX, 1 << 30], [1 << 30, u64::MAX - 4095], [1 << 30, 1 << 63]] {
            let config = Config {
                devices: devices.map(Bytes).to_vec(),
                placement: placement.clone(),
                tuning: Tuning::default(),
            };
            assert!(matches!(Engine::new(config), Err(ConfigError::TooLarge { .. })), "{placement:?}");
        }
    }
}
