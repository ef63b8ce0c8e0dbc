//! Every write, flush and discard that a running volume makes for a checkpoint, for an eviction, for writing everything back and for
//! other settings fails in turn, or is the last one before the process is killed or the power goes.

#![allow(clippy::unwrap_used)]

use crate::crashing;
use crate::every;

use crashing::Machine;
use every::{Fault, Model, Volume, check, open, opens, placements};
use peryton_engine::{Command, Journal, Placement, Tuning, WritePolicy};
use peryton_units::{Bytes, Nanos, Op};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// A run with a fault at one command.
struct Run {
    machine: Machine,
    model: Model,
    fault: Fault,
    left: u32,
    struck: bool,
    rng: Pcg64Mcg,
}

impl Run {
    /// Carries everything out. Says whether the run goes on.
    fn carry_out(&mut self) -> bool {
        while let Some(pending) = self.machine.driver.pending.first() {
            let counts = !matches!(pending.command, Command::Read { .. });
            if counts && !self.struck && self.left == 0 {
                self.struck = true;
                if self.fault != Fault::FailsOnce {
                    return false;
                }
                self.machine.driver.complete_at(0, true, &mut self.rng);
                continue;
            }
            self.left -= u32::from(counts && !self.struck);
            self.machine.driver.complete_at(0, false, &mut self.rng);
        }
        true
    }

    /// Lets time pass until nothing is under way.
    fn rest(&mut self) -> bool {
        for _ in 0..40 {
            if !self.carry_out() {
                return false;
            }
            if self.machine.engine.is_idle() {
                return true;
            }
            self.machine.tick(Nanos::from_ms(500));
        }
        self.carry_out()
    }

    /// A request and its answer, if the run goes on.
    fn ask(&mut self, op: Op, offset: u64, bytes: Vec<u8>) -> Option<Result<(), ()>> {
        if op == Op::Write {
            self.model.begins(offset, &bytes);
        }
        let len = bytes.len();
        let id = self.machine.ask(op, offset, bytes);
        for _ in 0..40 {
            if !self.carry_out() {
                return None;
            }
            if let Some(at) = self.machine.driver.answered.iter().position(|(other, ..)| *other == id) {
                let (_, _, result) = self.machine.driver.answered.swap_remove(at);
                match op {
                    Op::Write if result.is_ok() => self.model.ends(offset, len),
                    Op::Flush if result.is_ok() => self.model.flush(),
                    Op::Flush => self.model.host_is_notified(),
                    _ => {}
                }
                return Some(result.map_err(drop));
            }
            self.machine.tick(Nanos::from_ms(250));
        }
        panic!("{op:?} is never answered");
    }
}

/// What a volume does that is to be disturbed. Says whether the run goes on.
type Act = fn(&mut Run) -> bool;

fn writes_everything_back(run: &mut Run) -> bool {
    for _ in 0..8 {
        run.machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
        if !run.rest() {
            return false;
        }
    }
    run.ask(Op::Flush, 0, Vec::new()).is_some()
}

fn evicts(run: &mut Run) -> bool {
    let size = run.machine.engine.volume_size();
    run.machine.driver.call(|engine, now, out| engine.host_dropped(now, Bytes::ZERO..size, out));
    run.rest() && run.ask(Op::Flush, 0, Vec::new()).is_some()
}

/// Writes and flushes until a checkpoint was written: a log's are its indexes.
fn makes_checkpoints(run: &mut Run) -> bool {
    let size = run.machine.engine.volume_size().0;
    let count = |run: &Run| {
        let stats = run.machine.engine.stats();
        stats.checkpoints + stats.logging.as_ref().map_or(0, |log| log.checkpoints)
    };
    let before = count(run);
    for round in 0..600 {
        let offset = (round * 7919 * 512) % (size - 8192) / 512 * 512;
        if run.ask(Op::Write, offset, vec![(round as u8) | 1; 1024]).is_none() {
            return false;
        }
        if run.ask(Op::Flush, 0, Vec::new()).is_none() {
            return false;
        }
        let extent = round * 5 * 4096 % size / 4096 * 4096;
        if run.ask(Op::Read, extent, vec![0; 4096]).is_none() {
            return false;
        }
        // Extents that go home and are written again are changes of the map, which lead to commits.
        if run.machine.engine.cleaning(run.machine.now).is_some() {
            run.machine.driver.call(|engine, now, out| engine.write_all_back(now, out));
            if !run.carry_out() {
                return false;
            }
        }
        run.machine.tick(Nanos::from_s(20));
        if !run.carry_out() {
            return false;
        }
        if run.struck || count(run) > before {
            break;
        }
    }
    assert!(run.struck || count(run) > before, "there was no checkpoint");
    run.rest() && run.ask(Op::Flush, 0, Vec::new()).is_some()
}

/// Sets what the format does not fix, there and back.
fn retunes(run: &mut Run) -> bool {
    let before = run.machine.engine.tuning().clone();
    let other =
        Tuning { journal: Journal::Mirrored, demotion_low: 0, demotion_high: 1, max_moves: 1, ..before.clone() };
    for tuning in [other, before] {
        run.machine.driver.retune(tuning);
        run.machine.tick(Nanos::from_ms(1));
        let written = run.rest() && run.ask(Op::Write, 4096, vec![9; 8192]).is_some();
        if !written || run.ask(Op::Flush, 0, Vec::new()).is_none() || !run.rest() {
            return false;
        }
    }
    true
}

fn begin(volume: &Volume, fault: Fault, left: u32) -> Run {
    let rng = Pcg64Mcg::seed_from_u64(u64::from(left));
    Run { machine: open(volume).unwrap(), model: volume.model.clone(), fault, left, struck: false, rng }
}

/// How many writes, flushes and discards it makes where nothing fails.
fn commands_of(volume: &Volume, act: Act) -> u32 {
    let mut run = begin(volume, Fault::Kill, u32::MAX);
    assert!(act(&mut run));
    u32::MAX - run.left
}

/// Strikes at the first command, at the second, and so on, until it passes untouched.
fn at_every(name: &str, volume: &Volume, act: Act) {
    at_each(name, volume, act, 0..=u32::MAX);
}

fn at_each(name: &str, volume: &Volume, act: Act, places: impl Iterator<Item = u32> + Clone) {
    for fault in [Fault::FailsOnce, Fault::Kill, Fault::Power] {
        for at in places.clone() {
            let context = format!("{name}, {fault:?} at {at}");
            let mut run = begin(volume, fault, at);
            let goes_on = act(&mut run);
            assert_eq!(goes_on, !run.struck || fault == Fault::FailsOnce, "{context}");
            let untouched = !run.struck;
            if goes_on {
                // What was in doubt is named by one flush at most; a log that has stopped stays so.
                let named = run.machine.engine.is_in_doubt();
                let flushed = run.ask(Op::Flush, 0, Vec::new()).expect("it goes on");
                assert!(flushed.is_ok() || named, "{context}: a flush fails for nothing");
                if flushed.is_err() && !run.machine.engine.has_stopped() {
                    assert_eq!(run.ask(Op::Flush, 0, Vec::new()), Some(Ok(())), "{context}: it fails again");
                }
            }
            let stopped = run.machine.engine.has_stopped();
            let all = fault != Fault::Power && !run.machine.driver.flush_lost;
            if goes_on && !stopped {
                let found =
                    check(&mut run.machine, &run.model, all).unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(found.is_empty(), "{context}: sectors {found:?} cannot be read");
                assert!(run.rest());
                run.machine.close();
            }
            let Run { machine, model, mut rng, .. } = run;
            let (mut disks, mut memory) = (machine.driver.disks, machine.driver.memory);
            if fault == Fault::Power {
                disks.crash(&mut rng);
            }
            if fault == Fault::Power || machine.driver.flush_lost || goes_on && !stopped {
                memory = None;
            }
            let left = Volume { disks, memory, model, config: volume.config.clone(), answered: all };
            match opens(&left, all) {
                Ok(found) => assert!(found.is_empty(), "{context}: sectors {found:?} cannot be read afterwards"),
                Err(error) => panic!("{context}: {error}"),
            }
            if untouched {
                break;
            }
        }
    }
}

#[test]
fn every_command_of_writing_back_may_fail() {
    for (name, config) in placements() {
        at_every(&format!("write back, {name}"), &Volume::killed(&config), writes_everything_back);
    }
}

#[test]
fn every_command_of_an_eviction_may_fail() {
    for (name, config) in placements() {
        if matches!(config.placement, Placement::Logging(_)) {
            at_every(&format!("evict, {name}"), &Volume::killed(&config), evicts);
        }
    }
}

#[test]
fn every_command_of_a_checkpoint_may_fail() {
    for (name, config) in placements() {
        // A host's flush of a cache without write-back commits no map, so it would take hours to a checkpoint.
        let commits = config.tuning.write == WritePolicy::Back;
        if commits && !matches!(config.placement, Placement::Linear { .. }) {
            let volume = Volume::killed(&config);
            // The first checkpoint comes after hundreds of commits: of what leads to it, every tenth or so.
            let whole = commands_of(&volume, makes_checkpoints);
            let name = format!("checkpoint, {name}");
            at_each(&name, &volume, makes_checkpoints, (0..whole).step_by(1 + whole as usize / 30));
            at_each(&name, &volume, makes_checkpoints, whole.saturating_sub(24)..=whole);
        }
    }
}

#[test]
fn every_command_of_other_settings_may_fail() {
    for (name, config) in placements() {
        at_every(&format!("set, {name}"), &Volume::killed(&config), retunes);
    }
}
