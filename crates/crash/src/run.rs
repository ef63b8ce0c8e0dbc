//! One run: a host with a random design, power losses at random moments, recovery, and further requests after it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use peryton_engine::{Cause, Command, Journal};
use peryton_format::block::BLOCK;
use peryton_units::{Bytes, Nanos, Op};
use rand::{Rng, RngExt};

use crate::{
    design::{admission_by, random_tuning, random_write_unit},
    disk,
    options::{Options, Outcome},
    world::{World, say, writes_through},
};

/// So many steps a long commit may take until it writes.
const MOST_STEPS_TO_COMMIT: u32 = 300;

/// Runs one seed and checks every read.
///
/// # Errors
/// A description of the first wrong result: a sector that holds what it cannot hold, a request that is never answered
/// or that fails although nothing else failed, a volume that cannot be opened or is opened although it must not be, or
/// a panic of the engine.
pub fn run(seed: u64, options: &Options) -> Result<Outcome, String> {
    disk::forget_bytes();
    let run = || {
        let mut world = World::new(seed, options)?;
        match world.run() {
            Err(error) if !world.is_rightly_refused(&error) => Err(error),
            _ => Ok(world.outcome),
        }
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        Err(format!("panic: {}", text.unwrap_or_else(|| "of an unknown kind".to_string())))
    })
}

impl World {
    /// Runs some steps, then loses power or closes, and opens again; several times.
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.random_range(2..6) {
            if self.habits.long_discard_one_in > 0 && self.chance(2) {
                self.commit_at_length()?;
            } else {
                let steps = [20, 100, 300][self.rng.random_range(0..3)];
                for _ in 0..steps {
                    self.step()?;
                }
            }
            // A drive with a dead device does not become idle before the device is given up.
            if self.chance(4) && self.is_given_up() {
                self.close()?
            } else {
                self.crash()?
            }
            if self.deaths.over {
                return Ok(());
            }
            if self.chance(2) {
                self.read_everything()?;
            }
        }
        self.faults.calm = true;
        self.settle()?;
        self.read_everything()
    }

    fn step(&mut self) -> Result<(), String> {
        let roll = self.rng.random_range(0..100);
        if roll < 45 && self.drive.requests.len() < self.habits.depth {
            self.request();
        } else if roll < 92 && !self.drive.pending.is_empty() {
            self.complete_one();
        } else {
            let span = Nanos(self.rng.next_u64() % 200_000_000);
            self.tick(span);
        }
        self.answers()?;
        if self.chance(self.habits.retune_one_in) {
            let mut tuning = random_tuning(self.plan.fast_extents, &mut self.rng);
            tuning.write_unit = random_write_unit(tuning.commit_interval.0, self.plan.unit_of());
            tuning.replacement = self.replacement.unwrap_or(tuning.replacement);
            if let Some(by) = self.admission {
                tuning.admission = admission_by(by, self.past_hits, tuning.admission);
            }
            if self.beside {
                writes_through(&mut tuning);
            }
            let done = self.drive.retune(tuning);
            say!(self, "retuned: {done}, {:?}", self.drive.engine.tuning());
            self.faults.mirrored &= self.drive.engine.tuning().journal == Journal::Mirrored;
            self.answers()?;
        }
        self.maybe_succeed();
        self.maybe_resize()?;
        self.maybe_break_sector();
        self.maybe_die();
        self.maybe_lack_space()?;
        self.maybe_change_devices()?;
        self.check_losses(None)?;
        if self.chance(16) {
            self.drive.engine.check_invariants();
            self.drive.copies_agree()?;
        }
        if self.chance(self.habits.branch_one_in) {
            self.branch()?;
        }
        Ok(())
    }

    /// Has the map change by more than one block of the journal holds, and a commit of that get as far as its writes.
    fn commit_at_length(&mut self) -> Result<(), String> {
        let from = self.rng.random_range(0..self.model.sectors() / 2);
        self.group = [(Op::Discard, from..self.model.sectors()), (Op::Flush, 0..0)].into();
        let is_long = |command: &Command| matches!(command, Command::Write { len, cause: Cause::Metadata, .. } if *len > Bytes(BLOCK));
        for _ in 0..MOST_STEPS_TO_COMMIT {
            if self.drive.pending.iter().any(|pending| is_long(&pending.command)) && self.chance(4) {
                break;
            }
            self.step()?;
        }
        Ok(())
    }
}
