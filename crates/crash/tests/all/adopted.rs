//! A disk that has data is taken over, used, and given back, and every write and every flush of that fails in turn, or is the last
//! one before the process is killed or the power goes. At any time the disk alone looks as it was only if all of it is as it was, or
//! as the volume is; and the operation, run again, comes to its end with every byte.

#![allow(clippy::unwrap_used)]

use crate::crashing;
use crate::every;

use std::collections::HashMap;

use crashing::{Disk, Disks};
use every::{FAST, Fault, Faulty, SLOW};
use peryton_engine::{
    Buffer, Buffers, Command, Commands, Config, Engine, Forgone, Formatting, Hybrid, Placement, Request, RequestId,
    Storage, Translated, Tuning, VolumeId, WritePolicy,
    adoption::{self, AdoptError, Home, Plan, Taken},
    closed,
};
use peryton_units::{Bytes, Nanos, Op};

const EXTENT: u64 = 16 << 10;
/// No operation here makes more writes and flushes than this.
const MOST: u32 = 1_000;
/// The fast device, and a disk that ends within an extent.
const SIZES: [u64; 2] = [(5 << 20) + 4096, (6 << 20) + 4096];
const NEW: Formatting = Formatting { volume: VolumeId(0xabc), unix_s: 1, zeroed: false, notes: String::new() };

fn plan(home: Home) -> Plan {
    let pair = Hybrid { fast: FAST, slow: SLOW, extent: Bytes(EXTENT) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 0, demotion_high: 0, ..Tuning::default() };
    let config = Config { devices: vec![Bytes::ZERO; 2], placement: Placement::Caching(pair), tuning };
    // Room for what is displaced, at the end.
    let disk = SIZES[1] + if home == Home::Disk { 3 << 20 } else { 0 };
    adoption::plan(&config, &[Bytes(SIZES[0]), Bytes(disk)], home).unwrap()
}

/// A disk full of data, and an empty fast device.
fn disks(plan: &Plan) -> Disks {
    let mut slow = Disk::new((plan.displaced.needs().0 as usize).max(SIZES[1] as usize));
    for (at, sector) in slow.contents_mut().chunks_mut(512).enumerate() {
        sector[..8].copy_from_slice(&(at as u64 + 1).to_le_bytes());
        sector[8..].fill(at as u8 | 1);
    }
    Disks(vec![Some(Disk::new(SIZES[0] as usize)), Some(slow)])
}

fn contents(disks: &Disks, plan: &Plan) -> Vec<u8> {
    disks.0[SLOW.index()].as_ref().unwrap().contents()[..plan.displaced.volume.0 as usize].to_vec()
}

/// The volume of a host that waits for every answer.
struct Host<'a> {
    engine: Engine,
    disks: Translated<'a>,
    memory: Memory,
    now: Nanos,
}

#[derive(Default)]
struct Memory(HashMap<(u8, u64), Vec<u8>>);

impl Memory {
    fn part(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (key, offset) = match buffer {
            Buffer::Request { id, offset } => ((0, id.0), offset),
            Buffer::Move { index, offset } => ((1, u64::from(index)), offset),
            Buffer::Run { index, offset } => ((2, u64::from(index)), offset),
            Buffer::Copy { offset } => ((3, 0), offset),
            Buffer::Metadata => unreachable!("it is encoded"),
        };
        let (from, to) = (offset.0 as usize, (offset + len).0 as usize);
        let bytes = self.0.entry(key).or_default();
        bytes.resize(bytes.len().max(to), 0);
        &mut bytes[from..to]
    }
}

impl Buffers for Memory {
    fn bytes(&self, _: Buffer, _: Bytes) -> &[u8] {
        unreachable!("only a log has checksums of data")
    }
}

impl<'a> Host<'a> {
    fn open(plan: &Plan, disks: &'a mut Disks) -> Host<'a> {
        let mut disks = Translated::new(disks, plan.displaced);
        let (engine, _) = Engine::open(plan.config.clone(), &mut disks).unwrap();
        assert_eq!(engine.volume_size(), plan.displaced.volume);
        Host { engine, disks, memory: Memory::default(), now: Nanos::ZERO }
    }

    fn submit(&mut self, op: Op, offset: u64, len: u64) {
        self.now += Nanos::from_ms(1);
        let mut out = Commands::new();
        let request = Request { op, offset: Bytes(offset), len: Bytes(len) };
        self.engine.submit(self.now, RequestId(0), request, &mut out);
        self.carry_out(out);
    }

    fn write(&mut self, offset: u64, from: &[u8]) {
        let len = Bytes(from.len() as u64);
        self.memory.part(Buffer::Request { id: RequestId(0), offset: Bytes::ZERO }, len).copy_from_slice(from);
        self.submit(Op::Write, offset, len.0);
    }

    fn read_all(&mut self) -> Vec<u8> {
        let all = self.engine.volume_size().0;
        let buffer = Buffer::Request { id: RequestId(0), offset: Bytes::ZERO };
        let mut found = Vec::new();
        for at in (0..all).step_by(64 << 10) {
            let len = (64 << 10).min(all - at);
            self.submit(Op::Read, at, len);
            found.extend_from_slice(self.memory.part(buffer, Bytes(len)));
        }
        found
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            self.now += Nanos::from_s(100);
            let mut out = Commands::new();
            self.engine.tick(self.now, &mut out);
            self.carry_out(out);
        }
    }

    fn carry_out(&mut self, mut out: Commands) {
        let mut next = 0;
        while let Some(command) = out.get(next).copied() {
            next += 1;
            let memory = &mut self.memory;
            let (io, result) = match command {
                Command::Read { io, device, at, len, buffer, .. } => {
                    (io, self.disks.read(device, at, memory.part(buffer, len)))
                }
                Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                    let mut bytes = vec![0; len.0 as usize];
                    self.engine.encode_with(io, &mut bytes, memory).unwrap();
                    (io, self.disks.write(device, at, &bytes))
                }
                Command::Write { io, device, at, len, buffer, .. } => {
                    (io, self.disks.write(device, at, memory.part(buffer, len)))
                }
                Command::Zero { io, device, at, len } => (io, self.disks.write(device, at, &vec![0; len.0 as usize])),
                Command::Flush { io, device } => (io, self.disks.flush(device)),
                Command::Discard { io, .. } => (io, Ok(())),
                Command::Copy { from, to, len } => {
                    let bytes = memory.part(from, len).to_vec();
                    memory.part(to, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Clear { buffer, len } => {
                    memory.part(buffer, len).fill(0);
                    continue;
                }
                Command::Reply { result, .. } => {
                    result.unwrap();
                    continue;
                }
                Command::Encode { .. } | Command::Power { .. } | Command::Succeed { .. } => continue,
            };
            self.engine.complete(self.now, io, result, &mut out).unwrap();
        }
    }
}

/// Runs an operation with a fault at its Nth write or flush. Returns what it said, and whether the fault struck.
fn strike<T>(
    disks: &mut Disks,
    (fault, at): (Fault, u32),
    run: impl FnOnce(&mut dyn Storage) -> Result<T, AdoptError>,
) -> (Result<T, AdoptError>, bool) {
    let mut memory = None;
    let mut faulty = Faulty::new(disks, &mut memory, fault, at, u64::from(at) * 7 + fault as u64);
    let result = run(&mut faulty);
    let (struck, mut rng) = (faulty.has_struck(), faulty.rng.clone());
    if struck && fault == Fault::Power {
        disks.crash(&mut rng);
    }
    (result, struck)
}

/// If the disk alone begins as it did, all of it is as it was, or as it is to be.
fn must_not_look_whole(disks: &Disks, plan: &Plan, first: &[u8], whole: &[u8], case: &str) {
    let now = contents(disks, plan);
    // Signatures of file systems are in the first 64 KiB; a torn block has some of it.
    let looks_so = now[..4096] == first[..4096];
    assert!(!looks_so || now == whole, "{case}: the disk alone looks whole and is not");
}

fn each_fault(mut run: impl FnMut(Fault, u32) -> bool) {
    for fault in Fault::ALL {
        let last = (0..MOST).find(|at| !run(fault, *at));
        let last = last.unwrap_or_else(|| panic!("{fault:?}: it makes more than {MOST} writes and flushes"));
        assert!(last > 8, "{fault:?} struck {last} times only");
    }
}

#[test]
fn every_write_of_taking_over_leaves_the_disk_or_the_volume() {
    for home in [Home::Fast, Home::Disk] {
        let plan = plan(home);
        let before = disks(&plan);
        let old = contents(&before, &plan);
        each_fault(|fault, at| {
            let case = format!("{home:?} {fault:?} at {at}");
            let mut disks = before.clone();
            let (result, struck) = strike(&mut disks, (fault, at), |disks| adoption::adopt(&plan, NEW, disks));
            assert!(struck || result == Ok((VolumeId(0xabc), Taken::New)), "{case}: {result:?}");
            must_not_look_whole(&disks, &plan, &old, &old, &case);
            // The operation is undone,
            let mut undone = disks.clone();
            match adoption::undo(&plan.config, &mut undone) {
                Ok(changed) => {
                    let was = contents(&disks, &plan) != old;
                    assert!(changed || !was, "{case}");
                    assert!(contents(&undone, &plan) == old, "{case}: it was not undone");
                    let again = adoption::undo(&plan.config, &mut undone);
                    assert!(matches!(again, Err(AdoptError::NothingBegun { .. })), "{case}: {again:?}");
                }
                Err(AdoptError::NothingBegun { .. }) => assert!(contents(&disks, &plan) == old, "{case}"),
                Err(AdoptError::IsAdopted { .. }) => {}
                Err(error) => panic!("{case}: {error}"),
            }
            // or it is run again, here after another crash amid that.
            let fault_again = (Fault::Power, at.wrapping_mul(31) % 40);
            let _ = strike(&mut disks, fault_again, |disks| adoption::adopt(&plan, NEW, disks));
            must_not_look_whole(&disks, &plan, &old, &old, &case);
            let other = Formatting { volume: VolumeId(0xdef), ..NEW };
            let (volume, _) =
                adoption::adopt(&plan, other.clone(), &mut disks).unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(adoption::adopt(&plan, other, &mut disks), Ok((volume, Taken::Already)), "{case}");
            assert!(contents(&disks, &plan)[..4096] != old[..4096], "{case}: the disk alone looks as it was");
            let found = Host::open(&plan, &mut disks).read_all();
            assert!(found == old, "{case}: the volume differs from the disk");
            struck
        });
    }
}

/// A volume with writes all over it that have not gone home, closed or not, and what it has.
fn used(home: Home, write: WritePolicy, close: bool) -> (Plan, Disks, Vec<u8>) {
    let mut plan = plan(home);
    plan.config.tuning.write = write;
    let mut disks = disks(&plan);
    let mut model = contents(&disks, &plan);
    adoption::adopt(&plan, NEW, &mut disks).unwrap();
    let mut host = Host::open(&plan, &mut disks);
    let size = model.len() as u64;
    let places = (0..14).map(|n| n * 111 * 4096 % (size - 8192)).chain([0, 512, size - 4096]);
    for (round, at) in places.enumerate() {
        let bytes = vec![round as u8 + 100; 4096];
        host.write(at, &bytes);
        model[at as usize..][..4096].copy_from_slice(&bytes);
    }
    host.submit(Op::Flush, 0, 0);
    assert_eq!(host.engine.dirty_extents() > 4, write == WritePolicy::Back);
    assert!(host.read_all() == model);
    if close {
        host.settle();
        let Host { mut engine, mut disks, .. } = host;
        engine.close(&mut disks).unwrap();
    }
    (plan, disks, model)
}

#[test]
fn every_write_of_giving_back_leaves_the_volume_or_the_disk() {
    for (home, close) in [(Home::Fast, false), (Home::Fast, true), (Home::Disk, false)] {
        let (plan, before, model) = used(home, WritePolicy::Back, close);
        each_fault(|fault, at| {
            let case = format!("{home:?} closed {close} {fault:?} at {at}");
            let mut disks = before.clone();
            let (result, struck) = strike(&mut disks, (fault, at), |disks| {
                adoption::give_back(&plan.config, Some(plan.displaced), disks, Forgone::default(), &mut |_| ())
            });
            assert!(struck || result.is_ok(), "{case}: {result:?}");
            must_not_look_whole(&disks, &plan, &model, &model, &case);
            // It may be given back already, and used by another program since.
            let done = contents(&disks, &plan) == model;
            // Whether a superblock still says how the disk is divided depends on how far it came.
            let again = |disks: &mut Disks| match adoption::is_returning(&plan.config, disks, &[]).unwrap() {
                true => adoption::give_back(&plan.config, None, disks, Forgone::default(), &mut |_| ()),
                false => {
                    adoption::give_back(&plan.config, Some(plan.displaced), disks, Forgone::default(), &mut |_| ())
                }
            };
            let mut changed = disks.clone();
            if !(done && result.is_ok()) {
                let fault_again = (Fault::Power, at.wrapping_mul(31) % 60);
                let _ = strike(&mut disks, fault_again, |disks| {
                    let displaced = Some(plan.displaced);
                    adoption::give_back(&plan.config, displaced, disks, Forgone::default(), &mut |_| ())
                });
                must_not_look_whole(&disks, &plan, &model, &model, &case);
                match again(&mut disks) {
                    Ok(_) => {}
                    // All was done but the last write, which removes the record of it.
                    Err(_) if contents(&disks, &plan) == model => {}
                    Err(error) => panic!("{case}: {error}"),
                }
            }
            assert!(contents(&disks, &plan) == model, "{case}: the disk differs from the volume");
            let fast = disks.0[FAST.index()].as_ref().unwrap().contents();
            let named = (0..fast.len()).step_by(4096).find(|at| fast[at + 8..at + 16] == *b"PERYTON\n");
            assert_eq!(named, None, "{case}: the fast device looks like a part of a volume");
            if done && adoption::is_returning(&plan.config, &mut changed, &[]).unwrap() {
                changed.0[SLOW.index()].as_mut().unwrap().contents_mut()[1024..1032].fill(77);
                again(&mut changed).unwrap();
                let now = contents(&changed, &plan);
                assert!(now[1024..1032] == [77; 8], "{case}: what another program wrote is overwritten");
            }
            struck
        });
    }
}

#[test]
fn a_disk_comes_back_whole_without_its_cache_and_at_every_write_of_that() {
    for close in [false, true] {
        let (plan, mut before, model) = used(Home::Disk, WritePolicy::Through, close);
        before.0[FAST.index()] = None;
        let forgone = Forgone { devices: &[FAST], accept_loss: false };
        let give_back = |disks: &mut Disks| {
            let returning = adoption::is_returning(&plan.config, disks, forgone.devices).unwrap();
            let displaced = (!returning).then_some(plan.displaced);
            adoption::give_back(&plan.config, displaced, disks, forgone, &mut |_| ())
        };
        each_fault(|fault, at| {
            let case = format!("closed {close} {fault:?} at {at}");
            let mut disks = before.clone();
            let (result, struck) = strike(&mut disks, (fault, at), |disks| {
                adoption::give_back(&plan.config, Some(plan.displaced), disks, forgone, &mut |_| ())
            });
            assert!(struck || result.is_ok(), "{case}: {result:?}");
            must_not_look_whole(&disks, &plan, &model, &model, &case);
            if contents(&disks, &plan) != model {
                let again = give_back(&mut disks).unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!((again.device, again.len), (SLOW, plan.displaced.volume), "{case}");
            }
            assert!(contents(&disks, &plan) == model, "{case}: the disk differs from the volume");
            struck
        });
    }
}

/// The fear: what only the cache had reads as it was before, and no message says so.
#[test]
fn what_is_lost_with_the_cache_is_named_before_the_disk_comes_back_without() {
    for home in [Home::Fast, Home::Disk] {
        let (plan, mut before, model) = used(home, WritePolicy::Back, false);
        before.0[FAST.index()] = None;
        let mut give_back = |accept_loss| {
            let forgone = Forgone { devices: &[FAST], accept_loss };
            adoption::give_back(&plan.config, Some(plan.displaced), &mut before, forgone, &mut |_| ())
        };
        let refused = give_back(false).unwrap_err();
        let AdoptError::Lost { device, bytes, first } = refused else { panic!("{refused:?}") };
        assert!(device == FAST.index() && bytes > first, "{refused}");
        assert_eq!(first, if home == Home::Fast { plan.displaced.bytes } else { Bytes::ZERO });
        let refused = refused.to_string();
        assert!(refused.contains(&bytes.to_string()) && refused.contains("--accept-loss"), "{refused}");
        give_back(true).unwrap();
        let now = contents(&before, &plan);
        let differ = now.chunks(4096).zip(model.chunks(4096)).filter(|(now, then)| now != then).count() as u64 * 4096;
        assert!(differ > 0 && differ <= bytes.0, "{differ} of {bytes}");
    }
}

#[test]
fn a_disk_that_was_changed_since_taking_it_over_began_is_copied_again() {
    let plan = plan(Home::Fast);
    let before = disks(&plan);
    for at in 0..60 {
        let mut disks = before.clone();
        let _ = strike(&mut disks, (Fault::Kill, at), |disks| adoption::adopt(&plan, NEW, disks));
        if contents(&disks, &plan) != contents(&before, &plan) {
            break;
        }
        // A file system is mounted meanwhile.
        let slow = disks.0[SLOW.index()].as_mut().unwrap();
        slow.contents_mut()[1024..1040].fill(42);
        slow.contents_mut()[(1 << 20) + 512..][..512].fill(43);
        let now = contents(&disks, &plan);
        let (_, taken) = adoption::adopt(&plan, NEW, &mut disks).unwrap();
        assert!(matches!(taken, Taken::New | Taken::BegunAgain));
        assert!(Host::open(&plan, &mut disks).read_all() == now, "killed at {at}");
    }
}

/// The fear: the record that the volume is made was lost, and taking it over again would empty its map.
#[test]
fn a_volume_that_was_used_is_not_made_again_though_its_record_is_missing() {
    let plan = plan(Home::Fast);
    let mut with_record = disks(&plan);
    adoption::adopt(&plan, NEW, &mut with_record).unwrap();
    let mut at = 0;
    let mut disks = loop {
        let mut disks = disks(&plan);
        let (result, _) = strike(&mut disks, (Fault::Kill, at), |disks| adoption::adopt(&plan, NEW, disks));
        let made = closed::inspect(plan.config.clone(), &mut Translated::new(&mut disks, plan.displaced), false, &[]);
        if result.is_err() && made.is_ok_and(|made| made.opened.is_ok_and(|opened| opened.clean)) {
            break disks;
        }
        at += 1;
        assert!(at < MOST);
    };
    let mut host = Host::open(&plan, &mut disks);
    host.write(0, &[9; 4096]);
    host.submit(Op::Flush, 0, 0);
    let found = host.read_all();
    assert_eq!(adoption::adopt(&plan, NEW, &mut disks).unwrap().1, Taken::Already);
    assert!(matches!(adoption::undo(&plan.config, &mut disks), Err(AdoptError::IsAdopted { .. })));
    assert!(Host::open(&plan, &mut disks).read_all() == found);
}

/// The fear: a second call describes a volume that is not the one on the disk, and writes a design that does not open it.
#[test]
fn another_volume_than_the_one_on_the_disk_is_not_called_taken_over() {
    let (as_it_is, other_home) = (plan(Home::Fast), plan(Home::Disk));
    let mut disks = disks(&as_it_is);
    adoption::adopt(&as_it_is, NEW, &mut disks).unwrap();
    let Placement::Caching(pair) = as_it_is.config.placement else { panic!("it is a cache") };
    let config = Config { placement: Placement::Partitioned(pair), ..as_it_is.config.clone() };
    let other_mode = Plan { config, ..as_it_is.clone() };
    for other in [other_home, other_mode] {
        let result = adoption::adopt(&other, NEW, &mut disks);
        assert!(matches!(result, Err(AdoptError::IsOtherVolume { .. })), "{result:?}");
    }
    assert_eq!(adoption::adopt(&as_it_is, NEW, &mut disks).unwrap().1, Taken::Already);
}

#[test]
fn a_volume_is_opened_with_its_own_translation_only() {
    let plan = plan(Home::Fast);
    let mut disks = disks(&plan);
    adoption::adopt(&plan, NEW, &mut disks).unwrap();
    let error = Engine::open(plan.config.clone(), &mut disks).unwrap_err().to_string();
    assert!(error.contains("taken over with data"), "{error}");
    let other = peryton_engine::Displaced { at: plan.displaced.at - Bytes::mib(1), ..plan.displaced };
    let error = Engine::open(plan.config.clone(), &mut Translated::new(&mut disks, other)).unwrap_err().to_string();
    assert!(error.contains("at 3MiB on the device") || error.contains("taken over"), "{error}");
}

/// Without the fast device the rest of the disk is served; what was displaced to it cannot be read, and the disk is not given up.
#[test]
fn without_its_fast_device_the_rest_of_the_volume_is_there() {
    for home in [Home::Fast, Home::Disk] {
        let plan = plan(home);
        let mut disks = disks(&plan);
        let old = contents(&disks, &plan);
        adoption::adopt(&plan, NEW, &mut disks).unwrap();
        disks.0[FAST.index()] = None;
        let mut seen = Translated::new(&mut disks, plan.displaced);
        let (engine, opened) = Engine::open_without(plan.config.clone(), &mut seen, &[FAST]).unwrap();
        assert_eq!((opened.lost, opened.gone), (0, 1));
        let from = if home == Home::Fast { plan.displaced.bytes } else { Bytes::ZERO };
        drop(engine);
        let mut read = vec![0; (old.len() - from.0 as usize) / 4096 * 4096];
        seen.read(SLOW, plan.displaced.metadata + from, &mut read).unwrap();
        assert!(read == old[from.0 as usize..][..read.len()]);
        if home == Home::Fast {
            assert!(seen.read(SLOW, plan.displaced.metadata, &mut read[..4096]).is_err());
        }
    }
}
