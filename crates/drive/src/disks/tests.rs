use peryton_engine::{Excuse, Excuses};
use peryton_units::Nanos;
use proptest::prelude::*;

use super::{
    fault::{Effect, Fault, Only},
    *,
};

const SIZE: usize = 64 << 10;

/// A disk that takes whole blocks only, in any order, sometimes only a part of a command, and sometimes fails it.
struct Kernel {
    data: Vec<u8>,
    ability: Ability,
    in_flight: Vec<Raw>,
}

impl Kernel {
    /// Carries out the `pick`th command in flight.
    fn answer(&mut self, disks: &mut Disks, pick: usize, mood: u8) {
        let raw = self.in_flight.swap_remove(pick % self.in_flight.len());
        let Ability { block, memory, .. } = self.ability.clone();
        let (at, len) = (raw.at as usize, raw.len as usize);
        if raw.ask != Ask::Sync {
            assert!(raw.at.is_multiple_of(block) && raw.len.is_multiple_of(block) && raw.len > 0, "{raw:?}");
            assert!(at + len <= SIZE);
        }
        match mood {
            0 => return disks.answered(raw.slot, -libc::EINTR),
            1 if matches!(raw.ask, Ask::ZeroRange | Ask::Punch) => return disks.answered(raw.slot, -libc::EOPNOTSUPP),
            _ => {}
        }
        let len = if mood == 2 && raw.len > block { len / 2 } else { len };
        match raw.ask {
            Ask::Read | Ask::Write => {
                assert_eq!(raw.memory.address() as u64 % memory, 0, "{raw:?}");
                if raw.ask == Ask::Read {
                    unsafe { raw.memory.slice_mut(len) }.copy_from_slice(&self.data[at..at + len]);
                } else {
                    self.data[at..at + len].copy_from_slice(unsafe { raw.memory.slice(len) });
                }
                disks.answered(raw.slot, len as i32);
            }
            Ask::Sync => disks.answered(raw.slot, 0),
            Ask::Punch | Ask::ZeroRange => {
                self.data[at..at + raw.len as usize].fill(0);
                disks.answered(raw.slot, 0);
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Step {
    action: u8,
    at: usize,
    len: usize,
    skew: usize,
    pick: usize,
    mood: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Many operations meet in few blocks; some are long enough for several chunks.
    let at = prop_oneof![4 => 0..3 * 4096_usize, 1 => 0..SIZE - 1];
    let len = prop_oneof![4 => 1..2000_usize, 2 => Just(512), 2 => Just(4096), 1 => 1..SIZE];
    let step = (0..10_u8, at, len, 0..5000_usize, any::<usize>(), 0..30_u8);
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let step = |(action, at, len, skew, pick, mood)| Step { action, at, len, skew, pick, mood };
        steps.into_iter().map(step).collect()
    })
}

struct Running {
    io: u32,
    action: Action,
    at: usize,
    len: usize,
    memory: Vec<u8>,
    skew: usize,
    expected: Vec<u8>,
}

fn run(steps: Vec<Step>, ability: Ability) {
    let mut disks = Disks::new(vec![ability.clone()]).unwrap();
    let mut kernel = Kernel { data: vec![0; SIZE], ability, in_flight: Vec::new() };
    let mut plain = vec![0_u8; SIZE];
    let mut running: Vec<Running> = Vec::new();
    let settle = |disks: &mut Disks, running: &mut Vec<Running>| {
        for (io, result) in disks.finished.drain(..) {
            let index =
                running.iter().position(|r| r.io == io.index() as u32).expect("it was begun, and not yet finished");
            let done = running.swap_remove(index);
            assert_eq!(result, Ok(()));
            if done.action == Action::Read {
                assert_eq!(
                    &done.memory[done.skew..done.skew + done.len],
                    done.expected,
                    "read of {} at {}",
                    done.len,
                    done.at
                );
            }
        }
    };
    for (number, step) in steps.into_iter().enumerate() {
        let Step { action, at, len, skew, pick, mood } = step;
        let len = len.min(SIZE - at);
        let action = match action {
            0..4 => Action::Write,
            4..7 => Action::Read,
            7 if at % 2 == 0 => Action::Zero,
            7 => Action::ZeroAllocated,
            8 => Action::Flush,
            _ => Action::Discard,
        };
        // The engine keeps operations on the same bytes apart, and nothing reads what was discarded.
        let apart = |other: &Running| {
            let reads = action == Action::Read && other.action == Action::Read;
            reads || other.at + other.len <= at || at + len <= other.at
        };
        if action != Action::Discard && running.iter().all(apart) {
            let mut memory = vec![0; skew + len];
            let mut expected = Vec::new();
            match action {
                Action::Write => {
                    memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (number * 31 + i) as u8 | 1);
                    plain[at..at + len].copy_from_slice(&memory[skew..]);
                }
                Action::Read => expected = plain[at..at + len].to_vec(),
                Action::Zero | Action::ZeroAllocated => plain[at..at + len].fill(0),
                Action::Flush | Action::Discard => {}
            }
            let (at64, len64) = if action == Action::Flush { (0, 0) } else { (at as u64, len as u64) };
            // SAFETY: the operation that uses it is kept with it.
            let place = unsafe { Memory::of(&mut memory[skew..]) };
            let io = IoId::new(number as u32, 0);
            let operation = Operation { io, device: DeviceId(0), action, at: at64, len: len64, memory: place };
            let flush = action == Action::Flush;
            let (at, len) = if flush { (0, 0) } else { (at, len) };
            running.push(Running { io: io.index() as u32, action, at, len, memory, skew, expected });
            disks.start(operation);
            kernel.in_flight.append(&mut disks.raw);
            settle(&mut disks, &mut running);
        }
        if !kernel.in_flight.is_empty() && !pick.is_multiple_of(3) {
            kernel.answer(&mut disks, pick, mood);
            kernel.in_flight.append(&mut disks.raw);
            settle(&mut disks, &mut running);
        }
    }
    while !kernel.in_flight.is_empty() {
        kernel.answer(&mut disks, 0, 9);
        kernel.in_flight.append(&mut disks.raw);
        settle(&mut disks, &mut running);
    }
    assert!(running.is_empty() && disks.in_flight() == 0, "everything that was begun must finish");
    assert_eq!(disks.free_bounces.len(), BOUNCES as usize, "bounce buffers come back");
    assert!(disks.exclusive == 0 && disks.locks.is_empty(), "locks come back");
    assert!(kernel.data == plain, "the device must hold what was written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Guards against two writes to different bytes of one block, one of which undoes the other.
    #[test]
    fn writes_to_one_block_do_not_undo_each_other(
        steps in steps(), block in prop_oneof![Just(512_u64), Just(4096)], memory in prop_oneof![Just(4_u64), Just(512)],
        zero_range in any::<bool>(), punch in any::<bool>(),
    ) {
        run(steps, Ability { block, memory, punch, zero_range, ..plain() });
    }

    /// Buffered files take anything as it is.
    #[test]
    fn any_alignment_on_a_file_that_takes_any(steps in steps()) {
        run(steps, Ability { block: 1, memory: 1, ..plain() });
    }
}

pub(super) fn plain() -> Ability {
    Ability { block: 512, memory: 512, punch: true, zero_range: true, wear: std::sync::Arc::default() }
}

fn operation(io: u32, action: Action, at: u64, len: u64, memory: Memory) -> Operation {
    Operation { io: IoId::new(io, 0), device: DeviceId(0), action, at, len, memory }
}

/// A client writes single bytes to a few blocks, as many at once as it may.
#[test]
fn many_writes_to_few_blocks_end_within_two_seconds() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    let (mut byte, mut device) = ([7_u8; 1], vec![0_u8; 64 << 10]);
    let began = std::time::Instant::now();
    for n in 0..16_384 {
        // SAFETY: the byte outlives every operation, and only this thread looks at it.
        let memory = unsafe { Memory::of(&mut byte) };
        disks.start(operation(n, Action::Write, u64::from(n) * 4 % (64 << 10), 1, memory));
    }
    while let Some(raw) = disks.raw.pop() {
        let at = raw.at as usize..(raw.at + raw.len) as usize;
        match raw.ask {
            Ask::Read => unsafe { raw.memory.slice_mut(raw.len as usize) }.copy_from_slice(&device[at]),
            _ => device[at].copy_from_slice(unsafe { raw.memory.slice(raw.len as usize) }),
        }
        disks.answered(raw.slot, raw.len as i32);
    }
    assert_eq!(disks.finished.len(), 16_384);
    assert!(device.iter().step_by(4).all(|byte| *byte == 7));
    assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
}

/// Zeroes that a device is told to store wear it like data; what it may give up does not.
#[test]
fn stored_zeroes_wear_a_device_and_discards_do_not() {
    let worn = |action, ability: Ability, mood: i32| {
        let mut disks = Disks::new(vec![ability.clone()]).unwrap();
        ability.wear.take_up(Default::default(), false, 1);
        disks.start(operation(1, action, 512, 64 << 10, disks.zeros.at(0)));
        while let Some(raw) = disks.raw.pop() {
            let transfers = matches!(raw.ask, Ask::Read | Ask::Write);
            let result = if transfers { raw.len as i32 } else { mood };
            disks.answered(raw.slot, result);
        }
        let worn = ability.wear.account().unwrap().worn;
        (worn.bytes_written, worn.pages_written)
    };
    let (stored, nothing) = ((64 << 10, 17), (0, 0));
    assert_eq!(worn(Action::ZeroAllocated, Ability { wear: Default::default(), ..plain() }, 0), stored);
    let no_punch = || Ability { punch: false, wear: Default::default(), ..plain() };
    assert_eq!(worn(Action::Zero, no_punch(), 0), stored);
    assert_eq!(worn(Action::Zero, Ability { wear: Default::default(), ..plain() }, 0), nothing);
    assert_eq!(worn(Action::Discard, Ability { wear: Default::default(), ..plain() }, 0), nothing);
    // A device that cannot is sent zeroes as data, which count once.
    assert_eq!(worn(Action::ZeroAllocated, no_punch(), -libc::EOPNOTSUPP), stored);
}

#[test]
fn a_disk_that_stops_has_worn() {
    let ability = plain();
    let mut disks = Disks::new(vec![ability.clone()]).unwrap();
    ability.wear.take_up(Default::default(), false, 1);
    let stops = || ability.wear.account().unwrap().worn.start_stops;
    for round in 1..=3 {
        disks.standby(DeviceId(0));
        // A device on two drives hears of each.
        disks.rested(DeviceId(0));
        disks.rested(DeviceId(0));
        assert_eq!(stops(), round);
        disks.start(operation(round as u32, Action::Flush, 0, 0, Memory::NONE));
        while let Some(raw) = disks.raw.pop() {
            disks.answered(raw.slot, 0);
        }
    }
}

#[test]
fn a_failed_command_is_repeated_a_bounded_number_of_times() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    let memory = disks.zeros.at(0);
    disks.start(operation(7, Action::Read, 0, 4096, memory));
    let mut asked = 0;
    while let Some(raw) = disks.raw.pop() {
        asked += 1;
        disks.answered(raw.slot, -libc::EIO);
    }
    assert_eq!(asked, u32::from(ATTEMPTS));
    assert_eq!(disks.finished, [(IoId::new(7, 0), Err(DeviceError))]);
    assert_eq!((disks.health()[0].errors, disks.health()[0].retries), (1, u64::from(ATTEMPTS) - 1));
}

/// The kernel reports a lost write-back once: a second flush would succeed, and the engine would trust it.
#[test]
fn a_failed_flush_is_not_repeated() {
    for errno in [libc::EIO, libc::ENOSPC, libc::EAGAIN, libc::ENOMEM, libc::EDQUOT] {
        let mut disks = Disks::new(vec![plain()]).unwrap();
        disks.start(operation(7, Action::Flush, 0, 0, Memory::NONE));
        let raw = disks.raw.pop().expect("it is asked for");
        disks.answered(raw.slot, -errno);
        assert!(disks.raw.is_empty(), "asked again after error {errno}");
        assert_eq!(disks.finished, [(IoId::new(7, 0), Err(DeviceError))]);
        assert_eq!((disks.health()[0].failed_flushes, disks.health()[0].retries), (1, 0));
        // A flush that a drill fails is not repeated either.
        let fail = Fault { device: 0, only: None, from: 0, to: u64::MAX, times: Some(1), effect: Effect::Fail };
        disks.faults_mut().add(fail);
        disks.start(operation(8, Action::Flush, 0, 0, Memory::NONE));
        assert_eq!(disks.health()[0].failed_flushes, 2);
    }
    // A flush that the kernel never began is repeated.
    let mut disks = Disks::new(vec![plain()]).unwrap();
    disks.start(operation(7, Action::Flush, 0, 0, Memory::NONE));
    let raw = disks.raw.pop().expect("it is asked for");
    disks.answered(raw.slot, -libc::EINTR);
    let raw = disks.raw.pop().expect("it is asked for again");
    disks.answered(raw.slot, 0);
    assert_eq!(disks.finished, [(IoId::new(7, 0), Ok(()))]);
}

/// The server writes settings beside the engine, which writes the same blocks when it fences a device.
#[test]
fn the_engine_waits_for_a_block_that_the_server_is_writing() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    let memory = disks.zeros.at(0);
    disks.start_own(operation(0, Action::Write, 0, 4096, memory));
    disks.start(operation(1, Action::Write, 0, 4096, memory));
    disks.start(operation(2, Action::Write, 4096, 4096, memory));
    disks.start(operation(3, Action::Read, 0, 4096, memory));
    assert_eq!(disks.raw.len(), 3, "the first write of the engine waits");
    let own = disks.raw[0];
    disks.answered(own.slot, 4096);
    assert_eq!(disks.own_finished.take(), Some(Ok(())));
    assert_eq!(disks.raw.last().map(|raw| raw.at), Some(0));
    let rest = disks.raw.split_off(1);
    rest.iter().for_each(|raw| disks.answered(raw.slot, 4096));
    let mut finished: Vec<u32> = disks.finished.iter().map(|(io, _)| io.index() as u32).collect();
    finished.sort_unstable();
    assert_eq!(finished, [1, 2, 3]);
    assert_eq!(disks.in_flight(), 0);
}

/// The kernel reports a lost write-back to one caller; if that was the server, the server must report it to the engine.
#[test]
fn a_failed_flush_of_the_server_is_reported_to_the_engine() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    disks.start_own(operation(0, Action::Flush, 0, 0, Memory::NONE));
    let raw = disks.raw.pop().expect("it is asked for");
    disks.answered(raw.slot, -libc::EIO);
    assert_eq!(disks.own_finished.take(), Some(Err(DeviceError)));
    disks.start(operation(5, Action::Flush, 0, 0, Memory::NONE));
    assert!(disks.raw.is_empty(), "the kernel would say that all is well");
    assert_eq!(disks.finished, [(IoId::new(5, 0), Err(DeviceError))]);
    disks.start(operation(6, Action::Flush, 0, 0, Memory::NONE));
    assert_eq!(disks.raw.len(), 1, "once is enough");
    assert_eq!(disks.doubts()[0], Doubt::Lasting);
}

#[test]
fn a_command_that_is_always_interrupted_fails_in_the_end() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    let memory = disks.zeros.at(0);
    disks.start(operation(7, Action::Write, 0, 4096, memory));
    for _ in 0..1000 {
        let Some(raw) = disks.raw.pop() else { break };
        disks.answered(raw.slot, -libc::EAGAIN);
    }
    assert_eq!(disks.finished, [(IoId::new(7, 0), Err(DeviceError))]);
}

#[test]
fn faults_affect_only_matching_commands() {
    let mut disks = Disks::new(vec![plain()]).unwrap();
    let memory = disks.zeros.at(0);
    let fail =
        Fault { device: 0, only: Some(Only::Writes), from: 4096, to: 8192, times: Some(1), effect: Effect::Fail };
    disks.faults_mut().add(fail);
    disks.start(operation(1, Action::Write, 0, 4096, memory));
    disks.start(operation(2, Action::Read, 4096, 4096, memory));
    assert_eq!((disks.raw.len(), disks.finished.len()), (2, 0));
    disks.start(operation(3, Action::Write, 4096, 4096, memory));
    assert_eq!(disks.finished, [(IoId::new(3, 0), Err(DeviceError))]);
    disks.start(operation(4, Action::Write, 4096, 4096, memory));
    assert_eq!(disks.raw.len(), 3, "it was for one command");
    // A write that succeeds ends what a failure began.
    let slot = disks.raw[2].slot;
    disks.answered(slot, 4096);
    let lag = Fault { device: 0, only: None, from: 0, to: u64::MAX, times: None, effect: Effect::Lag { lag_us: 2 } };
    disks.faults_mut().add(lag);
    assert_eq!(disks.tick(Nanos(1000)), None);
    disks.start(operation(5, Action::Read, 0, 512, memory));
    assert_eq!(disks.raw.len(), 3);
    assert_eq!(disks.tick(Nanos(2999)), Some(Nanos(3000)));
    assert_eq!(disks.tick(Nanos(3000)), None);
    assert_eq!(disks.raw.len(), 4);
}

fn patient(devices: usize) -> Disks {
    let mut disks = Disks::new(vec![plain(); devices]).unwrap();
    disks.set_patience(Nanos::from_s(60));
    disks
}

/// Answers everything that is asked with this; returns how much was asked.
fn answer_all(disks: &mut Disks, result: i32) -> usize {
    let mut asked = 0;
    while let Some(raw) = disks.raw.pop() {
        asked += 1;
        disks.answered(raw.slot, if result < 0 { result } else { raw.len as i32 });
    }
    asked
}

#[test]
fn what_may_come_back_is_waited_for_and_asked_seldom() {
    for errno in [libc::EIO, libc::ETIMEDOUT, libc::ENOLINK, libc::ENOSPC, libc::EDQUOT, libc::EROFS] {
        let mut disks = patient(1);
        let memory = disks.zeros.at(0);
        for id in 0..100 {
            disks.start(operation(id, Action::Write, u64::from(id) * 4096, 4096, memory));
        }
        let mut asked = answer_all(&mut disks, -errno);
        assert_eq!((disks.in_flight(), disks.excuses().of(DeviceId(0))), (100, Some(Excuse::MayComeBack)));
        let mut now = Nanos::ZERO;
        while now < Nanos::from_s(50) {
            now = disks.next_due().expect("it is tried again").max(Nanos(now.0 + 1));
            disks.tick(now);
            asked += answer_all(&mut disks, -errno);
        }
        assert!(asked < 400, "{asked} commands to a device that does not answer");
        assert!(disks.finished.is_empty());
        let outage = disks.outage(0).unwrap();
        assert_eq!((outage.waiting, outage.full), (100, errno == libc::ENOSPC || errno == libc::EDQUOT));
        // It is back: all go on, the first that is tried and the others.
        disks.tick(Nanos(now.0 + 2_000_000_000));
        answer_all(&mut disks, 0);
        assert_eq!(disks.finished.len(), 100, "{errno}");
        assert!(disks.finished.iter().all(|(_, result)| result.is_ok()));
        assert_eq!((disks.excuses(), disks.in_flight(), disks.outage(0)), (Excuses::default(), 0, None));
    }
}

#[test]
fn patience_ends_and_a_lack_of_space_never_counts() {
    for (errno, excuse) in [(libc::EIO, Excuse::TakesReads), (libc::ENOSPC, Excuse::LacksSpace)] {
        let counts = errno == libc::EIO;
        let mut disks = patient(1);
        let memory = disks.zeros.at(0);
        disks.start(operation(1, Action::Write, 0, 4096, memory));
        answer_all(&mut disks, -errno);
        disks.start(operation(2, Action::Flush, 0, 0, Memory::NONE));
        assert!(disks.raw.is_empty(), "a flush behind writes that may still succeed");
        disks.tick(Nanos::from_s(61));
        assert_eq!(disks.finished, [(IoId::new(1, 0), Err(DeviceError))]);
        assert_eq!(disks.excuses().of(DeviceId(0)), Some(excuse));
        // The flush is asked for all the same; nothing waits from now on. Whether the device can be read is tried.
        assert_eq!(answer_all(&mut disks, -errno), 1 + if counts { usize::from(ATTEMPTS) } else { 1 });
        assert_eq!(disks.excuses().of(DeviceId(0)), Some(Excuse::MayComeBack), "the flush has failed just now");
        disks.start(operation(3, Action::Write, 0, 4096, memory));
        answer_all(&mut disks, -errno);
        assert_eq!((disks.finished.len(), disks.in_flight()), (3, 0));
        // Until something succeeds.
        disks.start(operation(4, Action::Write, 0, 4096, memory));
        disks.start(operation(5, Action::Flush, 0, 0, Memory::NONE));
        answer_all(&mut disks, 0);
        assert_eq!((disks.outage(0), disks.excuses()), (None, Excuses::default()));
    }
}

#[test]
fn writes_that_need_no_space_show_none_and_patience_is_counted_from_the_first_failure() {
    let mut disks = patient(1);
    let memory = disks.zeros.at(0);
    let answer = |disks: &mut Disks| {
        while let Some(raw) = disks.raw.pop() {
            disks.answered(raw.slot, if raw.at == 0 { -libc::ENOSPC } else { raw.len as i32 });
        }
    };
    let mut now = Nanos::ZERO;
    let mut id = 0;
    disks.start(operation(id, Action::Write, 0, 4096, memory));
    // Each of the others overwrites data; when it is tried it succeeds, and the first one fails again.
    while now < Nanos::from_ms(59_500) {
        answer(&mut disks);
        id += 1;
        disks.start(operation(id, Action::Write, 4096, 4096, memory));
        answer(&mut disks);
        now = Nanos(now.0 + 50_000_000);
        disks.tick(now);
    }
    answer(&mut disks);
    assert!(disks.finished.len() > 10 && disks.finished.iter().all(|(io, done)| io.index() != 0 && done.is_ok()));
    disks.finished.clear();
    while now < Nanos::from_s(62) {
        now = Nanos(now.0 + 50_000_000);
        disks.tick(now);
        answer(&mut disks);
    }
    assert!(disks.finished.contains(&(IoId::new(0, 0), Err(DeviceError))), "{:?}", disks.finished);
    assert_eq!(disks.in_flight(), 0);
}

#[test]
fn one_kind_or_one_device_does_not_hold_up_another() {
    let mut disks = patient(2);
    let memory = disks.zeros.at(0);
    disks.start(operation(1, Action::Write, 0, 4096, memory));
    answer_all(&mut disks, -libc::EIO);
    disks.start(operation(2, Action::Read, 0, 4096, memory));
    let other = Operation { device: DeviceId(1), ..operation(3, Action::Write, 0, 4096, memory) };
    disks.start(other);
    answer_all(&mut disks, 0);
    assert_eq!(disks.finished, [(IoId::new(3, 0), Ok(())), (IoId::new(2, 0), Ok(()))]);
    // Those that wait hold no bounce buffers: as many unaligned ones of the other device find theirs.
    for id in 10..10 + BOUNCES + 10 {
        disks.start(operation(id, Action::Write, u64::from(id) * 4096 + 1, 5, memory));
    }
    answer_all(&mut disks, 0);
    for id in 200..200 + BOUNCES {
        let at = u64::from(id) * 4096 + 1;
        disks.start(Operation { device: DeviceId(1), ..operation(id, Action::Write, at, 5, memory) });
    }
    answer_all(&mut disks, 0);
    assert_eq!(disks.finished.len(), 2 + BOUNCES as usize);
    disks.tick(Nanos::from_s(1));
    answer_all(&mut disks, 0);
    assert_eq!((disks.finished.len(), disks.in_flight()), (2 + 2 * BOUNCES as usize + 11, 0));
}

#[test]
fn a_sector_that_cannot_be_read_is_reported_soon_and_a_vanished_device_at_once() {
    let mut disks = patient(1);
    let memory = disks.zeros.at(0);
    disks.start(operation(1, Action::Read, 1 << 20, 4096, memory));
    let mut now = Nanos::ZERO;
    while disks.finished.is_empty() {
        while let Some(raw) = disks.raw.pop() {
            disks.answered(raw.slot, if raw.at == 0 { raw.len as i32 } else { -libc::EIO });
        }
        now = disks.next_due().unwrap_or(now).max(now);
        disks.tick(now);
    }
    assert!(now < Nanos::from_s(1), "{now}");
    assert_eq!((disks.excuses(), disks.in_flight()), (Excuses::default(), 0));
    for errno in [libc::ENODATA, libc::EILSEQ, libc::ENXIO] {
        let mut disks = patient(1);
        disks.start(operation(1, Action::Read, 1 << 20, 4096, memory));
        answer_all(&mut disks, -errno);
        assert_eq!(disks.finished, [(IoId::new(1, 0), Err(DeviceError))]);
        assert_eq!(disks.vanished, u32::from(errno == libc::ENXIO));
    }
}

#[test]
fn a_flush_succeeds_after_those_before_it_and_fails_with_those_beside_it() {
    let flush = |device: u8, io: u32| {
        let device = DeviceId(device);
        Operation { device, ..operation(io, Action::Flush, 0, 0, Memory::NONE) }
    };
    let mut disks = Disks::new(vec![plain(); 2]).unwrap();
    let begin = |disks: &mut Disks, device, io| {
        disks.start(flush(device, io));
        disks.raw.pop().expect("it is asked for").slot
    };
    let (first, second, other) = (begin(&mut disks, 0, 1), begin(&mut disks, 0, 2), begin(&mut disks, 1, 3));
    // The second one's success is known first, and says nothing yet.
    disks.answered(second, 0);
    assert!(disks.finished.is_empty());
    disks.answered(other, 0);
    assert_eq!(disks.finished.drain(..).collect::<Vec<_>>(), [(IoId::new(3, 0), Ok(()))]);
    // The first has lost what the second should have covered.
    disks.answered(first, -libc::EIO);
    assert_eq!(
        disks.finished.drain(..).collect::<Vec<_>>(),
        [(IoId::new(1, 0), Err(DeviceError)), (IoId::new(2, 0), Err(DeviceError))]
    );
    assert_eq!((disks.health()[0].failed_flushes, disks.health()[1].failed_flushes), (2, 0));
    assert_eq!(disks.doubts(), [Doubt::Lasting, Doubt::None]);
    // A later one relies on nothing that was in flight then, and what succeeds in the wrong order is reported in the right one.
    let (first, second, third) = (begin(&mut disks, 0, 4), begin(&mut disks, 0, 5), begin(&mut disks, 0, 6));
    for slot in [third, second, first] {
        disks.answered(slot, 0);
    }
    assert_eq!(
        disks.finished.drain(..).map(|(io, result)| (io.index(), result)).collect::<Vec<_>>(),
        [(4, Ok(())), (5, Ok(())), (6, Ok(()))]
    );
    // The later one fails first: the earlier one may have got the success that was the other one's.
    let (first, second) = (begin(&mut disks, 0, 7), begin(&mut disks, 0, 8));
    disks.answered(second, -libc::EIO);
    disks.answered(first, 0);
    assert_eq!(
        disks.finished.drain(..).collect::<Vec<_>>(),
        [(IoId::new(8, 0), Err(DeviceError)), (IoId::new(7, 0), Err(DeviceError))]
    );
    assert_eq!(disks.in_flight(), 0);
}
