//! What the engine does when a driver breaks its contract: it reports that where it can, and its tables stay correct.

use std::collections::HashSet;

use peryton_engine::{
    Command, Commands, Config, DeviceError, DeviceId, DriverError, Engine, Hybrid, IoId, Logging, Placement, Request,
    RequestId, Tuning,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const EXTENT: Bytes = Bytes::kib(4);

/// A small drive of every placement.
fn engines() -> Vec<(&'static str, Engine)> {
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT };
    let logging = Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: EXTENT };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 1,
        demotion_high: 2,
        writeback_delay: Nanos(0),
        ..Tuning::default()
    };
    let placements = [
        ("linear", Placement::Linear { devices: vec![DeviceId(0), DeviceId(1)] }),
        ("tiering", Placement::Tiering(pair)),
        ("caching", Placement::Caching(pair)),
        ("partitioned", Placement::Partitioned(pair)),
        ("logging", Placement::Logging(logging)),
    ];
    let devices =
        |name| if name == "logging" { vec![EXTENT * 512, Bytes::mib(4)] } else { vec![EXTENT * 32, EXTENT * 128] };
    let engine = |(name, placement)| {
        let config = Config { devices: devices(name), placement, tuning: tuning.clone() };
        (name, Engine::new(config).expect("the configuration is sound"))
    };
    placements.into_iter().map(engine).collect()
}

fn id_of(command: &Command) -> Option<IoId> {
    match command {
        Command::Read { io, .. }
        | Command::Write { io, .. }
        | Command::Flush { io, .. }
        | Command::Discard { io, .. }
        | Command::Zero { io, .. } => Some(*io),
        _ => None,
    }
}

/// Runs random requests and completions; calls `between` between any two calls, with an id that was completed and one
/// that is in flight.
fn run(
    engine: &mut Engine,
    seed: u64,
    mut between: impl FnMut(&mut Engine, Nanos, Option<IoId>, &[IoId]),
) -> Vec<Command> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (mut flying, mut done, mut all) = (Vec::new(), None, Vec::new());
    // They succeed: a log stops when one fails, and issues nothing more.
    let mut flushes = HashSet::new();
    let mut now = Nanos::from_s(1);
    for number in 0..2_000 {
        let mut out = Commands::new();
        now += Nanos(rng.random_range(0..2_000_000));
        if flying.is_empty() || rng.random_bool(0.4) {
            let op = [Op::Read, Op::Write, Op::Write, Op::Discard, Op::Flush][rng.random_range(0..5)];
            let len = EXTENT * rng.random_range(1..4);
            let offset = EXTENT * rng.random_range(0..(engine.volume_size().0 - len.0) / EXTENT.0);
            engine.submit(now, RequestId(number), Request { op, offset, len }, &mut out);
        } else if rng.random_bool(0.1) {
            engine.tick(now, &mut out);
        } else {
            let io = flying.swap_remove(rng.random_range(0..flying.len()));
            let fails = rng.random_bool(0.02) && !flushes.contains(&io);
            let result = if fails { Err(DeviceError) } else { Ok(()) };
            engine.complete(now, io, result, &mut out).expect("it is in flight");
            done = Some(io);
        }
        flying.extend(out.iter().filter_map(id_of));
        flushes.extend(out.iter().filter(|command| matches!(command, Command::Flush { .. })).filter_map(id_of));
        all.append(&mut out);
        between(engine, now, done, &flying);
    }
    all
}

/// This holds in release builds too: no check here is a debug assertion.
#[test]
fn a_second_or_unknown_completion_is_refused_and_changes_nothing() {
    for ((name, mut careful), (_, mut careless)) in engines().into_iter().zip(engines()) {
        let expected = run(&mut careful, 1, |_, _, _, _| {});
        let mut refused = 0;
        let found = run(&mut careless, 1, |engine, now, done, flying| {
            let out = &mut Commands::new();
            let never = [IoId::new(0, 1 << 20), IoId::new(u32::MAX >> 1, 0), IoId::new(flying.len() as u32 + 500, 7)];
            for io in never.into_iter().chain(done) {
                for result in [Ok(()), Err(DeviceError)] {
                    let later = now + Nanos::from_s(3600);
                    let answer = engine.complete(later, io, result, out);
                    assert_eq!(answer, Err(DriverError::NotInFlight { io }), "{name}");
                    assert_eq!(engine.encode_metadata(io, &mut [0; 4096]), answer, "{name}");
                    refused += 1;
                }
            }
            assert!(out.is_empty(), "{name}: nothing follows from a completion that is refused");
            engine.check_invariants();
        });
        assert!(refused > 10_000, "{name}: {refused}");
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_id_names_one_command_only_and_its_index_leads_back_to_it() {
    for (name, mut engine) in engines() {
        let mut given = HashSet::new();
        let commands = run(&mut engine, 2, |engine, _, done, flying| {
            for io in flying {
                assert_eq!(engine.id_at(io.index()), Some(*io), "{name}");
                assert!(io.index() < 600, "{name}: an index is small, for the tables of drivers");
            }
            assert!(done.is_none_or(|io| engine.id_at(io.index()) != Some(io)), "{name}");
        });
        for io in commands.iter().filter_map(id_of) {
            assert!(given.insert(io), "{name}: {io:?} was given twice");
        }
        assert!(given.len() > 500, "{name}: {}", given.len());
    }
}

#[test]
fn only_what_is_metadata_is_encoded() {
    for (name, mut engine) in engines() {
        let mut out = Commands::new();
        engine.submit(Nanos(0), RequestId(0), Request { op: Op::Read, offset: Bytes(0), len: EXTENT }, &mut out);
        for io in out.iter().filter_map(id_of) {
            let answer = engine.encode_metadata(io, &mut [0; 4096]);
            assert_eq!(answer, Err(DriverError::NotMetadata { io }), "{name}");
        }
    }
}

/// A clock that is set back must not falsify measurements or timers: the engine's time stands still until the clock has
/// caught up.
#[test]
fn time_that_goes_back_is_taken_for_the_latest_so_far() {
    for ((name, mut steady), (_, mut set_back)) in engines().into_iter().zip(engines()) {
        let request = |number: u64| Request {
            op: if number.is_multiple_of(3) { Op::Read } else { Op::Write },
            offset: EXTENT * (number * 7 % 32),
            len: EXTENT,
        };
        let drive = |engine: &mut Engine, time: &dyn Fn(u64) -> Nanos| {
            let mut commands = Vec::new();
            for number in 0..3_000 {
                let mut out = Commands::new();
                let now = time(number);
                engine.submit(now, RequestId(number), request(number), &mut out);
                engine.tick(now, &mut out);
                let mut next = 0;
                while let Some(command) = out.get(next).copied() {
                    next += 1;
                    if let Some(io) = id_of(&command) {
                        engine.complete(now, io, Ok(()), &mut out).expect("it is in flight");
                    }
                }
                engine.check_invariants();
                commands.append(&mut out);
            }
            commands
        };
        // Every so often the clock is an hour behind for a while.
        let latest = |number: u64| Nanos::from_ms(10_000_000 + number * 10);
        let behind = |number: u64| number % 100 >= 60;
        let held = |number: u64| latest(if behind(number) { number / 100 * 100 + 59 } else { number });
        let expected = drive(&mut steady, &held);
        let jumps = |number: u64| {
            if behind(number) { latest(number).saturating_sub(Nanos::from_s(3600)) } else { latest(number) }
        };
        assert_eq!(drive(&mut set_back, &jumps), expected, "{name}");
    }
}

/// The engine does not interpret a request's id: the driver cannot tell the replies apart, but each request is
/// answered.
#[test]
fn a_request_id_used_twice_at_a_time_is_answered_twice() {
    for (name, mut engine) in engines() {
        let mut out = Commands::new();
        for block in 0..8 {
            let request = Request { op: Op::Write, offset: EXTENT * block, len: EXTENT };
            engine.submit(Nanos(block), RequestId(7), request, &mut out);
        }
        engine.tick(Nanos::from_s(1), &mut out);
        let mut next = 0;
        while let Some(command) = out.get(next).copied() {
            next += 1;
            if let Some(io) = id_of(&command) {
                engine.complete(Nanos::from_s(1), io, Ok(()), &mut out).expect("it is in flight");
            }
            engine.check_invariants();
        }
        let replies = out.iter().filter(|command| matches!(command, Command::Reply { id: RequestId(7), .. })).count();
        assert_eq!(replies, 8, "{name}");
    }
}

/// The same for failures that a driver reports of devices that do not exist.
#[test]
fn a_failure_of_a_device_that_is_not_there_changes_nothing() {
    for (name, mut engine) in engines() {
        let mut out = Commands::new();
        engine.device_failed(Nanos(0), DeviceId(200), &mut out);
        assert!(out.is_empty() && engine.gone() == 0 && engine.is_idle(), "{name}");
    }
}

/// The device may have carried a write out, lost it with its cache when a flush failed, and say only then that it succeeded.
#[test]
fn a_write_that_was_in_flight_when_a_flush_failed_is_written_again() {
    for (name, mut engine) in engines() {
        if name == "logging" {
            // A log stops when a flush fails, and is opened again.
            continue;
        }
        let (mut now, mut out) = (Nanos::from_s(1), Commands::new());
        let writes = |out: &Commands| -> Vec<Command> {
            out.iter()
                .filter(|command| matches!(command, Command::Write { .. } | Command::Zero { .. }))
                .copied()
                .collect()
        };
        let request = |op, offset| Request { op, offset, len: if op == Op::Flush { Bytes::ZERO } else { EXTENT } };
        let mut complete = |engine: &mut Engine, command: &Command, result| {
            now += Nanos(1_000);
            let mut out = Commands::new();
            engine
                .complete(now, id_of(command).expect("a device carries it out"), result, &mut out)
                .expect("in flight");
            out
        };
        // One write is complete, so that there is something to flush.
        engine.submit(Nanos::from_s(1), RequestId(0), request(Op::Write, Bytes::ZERO), &mut out);
        let mut pending: Vec<Command> = out.drain(..).filter(|command| id_of(command).is_some()).collect();
        while let Some(command) = pending.pop() {
            pending.extend(complete(&mut engine, &command, Ok(())).drain(..).filter(|next| id_of(next).is_some()));
        }
        engine.submit(Nanos::from_s(1), RequestId(1), request(Op::Write, EXTENT), &mut out);
        let [in_flight] = writes(&out)[..] else { panic!("{name}: {out:?}") };
        out.clear();
        engine.submit(Nanos::from_s(1), RequestId(2), request(Op::Flush, Bytes::ZERO), &mut out);
        let device_of = |command: &Command| match command {
            Command::Write { device, .. } | Command::Flush { device, .. } => *device,
            _ => unreachable!("a write or a flush"),
        };
        let flushes: Vec<Command> = out.drain(..).filter(|next| matches!(next, Command::Flush { .. })).collect();
        assert!(flushes.iter().any(|flush| device_of(flush) == device_of(&in_flight)), "{name}: {flushes:?}");
        for flush in &flushes {
            complete(&mut engine, flush, Err(DeviceError));
        }
        let out = complete(&mut engine, &in_flight, Ok(()));
        let [again] = writes(&out)[..] else { panic!("{name}: {out:?}") };
        assert!(!out.iter().any(|next| matches!(next, Command::Reply { id: RequestId(1), .. })), "{name}: {out:?}");
        match (in_flight, again) {
            (
                Command::Write { io, device, at, len, buffer, cause },
                Command::Write { io: second, device: to, at: place, len: bytes, buffer: from, cause: why },
            ) => {
                assert_ne!(io, second, "{name}");
                assert_eq!((device, at, len, buffer, cause), (to, place, bytes, from, why), "{name}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let mut pending = vec![again];
        let mut answered = false;
        while let Some(command) = pending.pop() {
            let mut out = complete(&mut engine, &command, Ok(()));
            answered |= out.iter().any(|next| matches!(next, Command::Reply { id: RequestId(1), result: Ok(()) }));
            pending.extend(out.drain(..).filter(|next| id_of(next).is_some()));
        }
        assert!(answered, "{name}: the write is answered once it was written again");
    }
}
