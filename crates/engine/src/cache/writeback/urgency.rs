//! When dirty extents are written back, and how many at a time. No I/O and no map: figures in, decisions out.
//!
//! ```text
//! urgency   because                                         chooses                            at a time
//! Asked     the user wants what is dirty now to be clean    all that were dirty then           as many as can be
//! Full      no further extent may become dirty              those not written again lately     as many as can be
//! Overdue   one has been dirty for longer than max_age      those older than half of max_age   as many as can be
//! Filling   7/8 of dirty_target are dirty; until 3/4 are    those not written again lately     more, the nearer to it
//! Aging     one will be as old as max_age soon              those older than half of max_age   a few
//! Idle      the slow device is idle                         older than delay, and not
//!                                                           written again lately               a few
//! ```
//! Filling and Aging go down to one command at a time while the host's response times are above their bound. Where there is no bound,
//! Aging does while the host waits for the slow device. What is above them in the table does not heed that.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::CleaningState, api::config::Tuning, cache::blocks::FULL, cache::map::dirty::AgePosition,
    cache::movers::table::InRun, cache::writeback::failures::Failures, io::slab::Slab,
};

/// A command of cleaning carries this many bytes at most, if extents are smaller than that.
pub(in crate::cache) const LONGEST_RUN: Bytes = Bytes::mib(1);
/// The buffers for commands that carry several extents.
pub(in crate::cache) const RUN_BUFFERS: u32 = 4;
/// The most commands of cleaning at a time.
const MOST_COMMANDS: u32 = 32;
const FEW_COMMANDS: u32 = 4;
/// The span over which response times of the host are measured, and the number of them that makes a percentile.
const WINDOW: Nanos = Nanos::from_s(1);
const FEWEST_RESPONSES: u64 = 20;
/// The interval between checks whether a busy slow device has become idle.
const LOOKS_EVERY: Nanos = Nanos::from_ms(100);
/// The most dirty extents that a pass examines at once and in a millisecond, besides some with each call: otherwise passes over
/// many extents of which none is to be written back now would take all of the processor.
const MOST_EXAMINED: u32 = 1024;
const EXAMINED_PER_CALL: u32 = 2;
/// The rate of cleaning is measured over this much time at the least.
const RATE_SPAN: Nanos = Nanos::from_ms(500);

/// The inputs of a decision.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Figures {
    pub(in crate::cache) now: Nanos,
    /// Number of dirty extents, and since when the oldest is dirty.
    pub(in crate::cache) dirty: u32,
    pub(in crate::cache) oldest: Nanos,
    /// The most extents that may be dirty.
    pub(in crate::cache) most: Option<u32>,
    /// Whether the host has something in flight on the slow device.
    pub(in crate::cache) slow_is_busy: bool,
    /// Whether the slow device is in standby, and after what idle time it will be.
    pub(in crate::cache) slow_sleeps: bool,
    pub(in crate::cache) sleeps_after: Option<Nanos>,
    /// The bytes of all dirty extents.
    pub(in crate::cache) bytes: Bytes,
}

/// A decision of the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) struct Decision {
    pub(in crate::cache) state: CleaningState,
    /// The most commands at a time.
    pub(in crate::cache) commands: u32,
    /// When to decide again, at the latest.
    pub(in crate::cache) again: Nanos,
}

/// A pass over the dirty extents, by address, from where the last one ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Pass {
    pub(in crate::cache) state: CleaningState,
    pub(in crate::cache) start: u32,
    pub(in crate::cache) wrapped: bool,
    /// Whether an extent was chosen.
    pub(in crate::cache) found: bool,
    /// How full the units of an extent must be for it to be chosen.
    pub(in crate::cache) least: u32,
}

/// A pass over the extents that have been dirty longest. It looks at these alone, because there may be many others.
#[derive(Debug, Default)]
pub(in crate::cache) struct Old {
    /// The extents that the pass has left, the next one at the end.
    pub(in crate::cache) list: Vec<u32>,
    /// Whether the pass has begun and not ended: its last extent was chosen, but there was no pause yet.
    pub(in crate::cache) begun: bool,
    /// The position of the last extent on the list, if there are more.
    pub(in crate::cache) after: Option<AgePosition>,
}

/// The most extents in a pass over those that have been dirty longest.
pub(in crate::cache) const MOST_OLD: usize = 2_048;

/// Neighbours that are written back together.
#[derive(Debug)]
pub(in crate::cache) struct Run {
    pub(in crate::cache) buffer: u32,
    /// Their moves, in the order of their origins.
    pub(in crate::cache) moves: Vec<u32>,
    /// How many moves are still reading, and how many have not ended.
    pub(in crate::cache) reading: u32,
    pub(in crate::cache) left: u32,
}

/// The speed of cleaning, while there is some.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    since: Nanos,
    bytes: u64,
    per_s: Option<u64>,
}

/// The state of cleaning.
#[derive(Debug)]
pub(in crate::cache) struct Cleaner {
    pub(in crate::cache) state: CleaningState,
    /// The dirty extents before this one have been passed last.
    pub(in crate::cache) cursor: u32,
    pub(in crate::cache) pass: Option<Pass>,
    pub(in crate::cache) old: Old,
    /// The number of dirty extents that may be examined now, and since when no more have been allowed for the time.
    pub(in crate::cache) may_examine: u32,
    allowed_at: Nanos,
    /// Until when the decision to rest stands, unless `crowded_from` extents are dirty; and when to decide again at the latest.
    resting: Option<(Nanos, Nanos)>,
    /// No pass of this urgency or a lower one begins before this time.
    pub(in crate::cache) rests: (CleaningState, Nanos),
    /// Passes choose units of this fullness and more: since too many extents became dirty, a pass has gone over the fuller ones.
    pub(in crate::cache) full_enough: u32,
    pub(in crate::cache) failures: Failures,
    pub(in crate::cache) runs: Slab<Run>,
    pub(in crate::cache) free_buffers: Vec<u32>,
    /// Lists of moves of runs that are over, for later runs.
    pub(in crate::cache) spare_lists: Vec<Vec<u32>>,
    /// Commands of cleaning at work: runs, and single write-backs.
    pub(in crate::cache) commands: u32,
    /// When the host last used the slow device.
    pub(in crate::cache) slow_used: Nanos,
    /// When the writes that wait for a write-back go on; the end of time if none waits.
    pub(in crate::cache) releases_at: Nanos,
    /// `peryton writeback` was asked at this time: all extents that were dirty then are to be written back.
    pub(in crate::cache) asked: Option<Nanos>,
    filling: bool,
    aging: bool,
    p99: Option<Nanos>,
    window_ends: Nanos,
    rate: Rate,
    /// When the share of dirty extents last kept a write from making another one dirty.
    pub(in crate::cache) throttled: Option<Nanos>,
}

impl Cleaner {
    pub(in crate::cache) fn new() -> Cleaner {
        Cleaner {
            state: CleaningState::Resting,
            cursor: 0,
            pass: None,
            old: Old::default(),
            may_examine: MOST_EXAMINED,
            allowed_at: Nanos::ZERO,
            resting: None,
            rests: (CleaningState::Resting, Nanos::ZERO),
            full_enough: FULL,
            failures: Failures::default(),
            runs: Slab::new(),
            free_buffers: (0..RUN_BUFFERS).rev().collect(),
            spare_lists: Vec::new(),
            commands: 0,
            slow_used: Nanos::ZERO,
            releases_at: Nanos(u64::MAX),
            asked: None,
            filling: false,
            aging: false,
            p99: None,
            window_ends: Nanos::ZERO,
            rate: Rate::default(),
            throttled: None,
        }
    }
}

/// The longest time for which an extent may be dirty.
pub(in crate::cache) fn max_age(tuning: &Tuning) -> Nanos {
    tuning.cleaning.max_age.max(tuning.writeback_delay)
}

impl Cleaner {
    /// Decides whether to clean now. `responses`: the response times of the host since the last window ended.
    pub(in crate::cache) fn decide(&mut self, tuning: &Tuning, figures: &Figures) -> Decision {
        let Figures { now, dirty, oldest, most, .. } = *figures;
        if self.asked.is_some_and(|asked| oldest > asked) {
            self.asked = None;
        }
        let (max_age, age) = (max_age(tuning), now.saturating_sub(oldest));
        let half = Nanos(max_age.0 / 2);
        // A division, so it is computed only if it can decide. The result is at least half of max_age.
        let ages_at = |cleaner: &Cleaner| {
            let lead = cleaner.lead(max_age, figures.bytes);
            oldest.saturating_add(max_age.saturating_sub(lead))
        };
        self.aging = if self.aging { age >= half } else { now >= oldest.saturating_add(half) && now >= ages_at(self) };
        let most = most.unwrap_or(u32::MAX);
        self.filling = if self.filling { dirty > most - most / 4 } else { dirty >= most - most / 8 };
        let idle_at = self.idle_at(tuning, figures);
        let state = match () {
            () if self.asked.is_some() => CleaningState::Asked,
            () if dirty >= most => CleaningState::Full,
            () if age >= max_age => CleaningState::Overdue,
            () if self.filling => CleaningState::Filling,
            () if self.aging => CleaningState::Aging,
            () if idle_at.is_some_and(|at| at <= now) => CleaningState::Idle,
            () => CleaningState::Resting,
        };
        let slows = tuning.cleaning.max_foreground_p99.is_some_and(|most| self.p99.is_some_and(|p99| p99 > most));
        let commands = match state {
            CleaningState::Resting => 0,
            CleaningState::Filling | CleaningState::Aging if slows => 1,
            CleaningState::Idle if figures.slow_is_busy => 1,
            // A disk that serves the nearest command first would serve several write-backs, which are sorted by
            // address, before the requests of the host.
            CleaningState::Aging if figures.slow_is_busy && tuning.cleaning.max_foreground_p99.is_none() => 1,
            CleaningState::Idle | CleaningState::Aging => FEW_COMMANDS,
            CleaningState::Filling => {
                let (above, span) = (dirty.saturating_sub(most - most / 4), (most / 4).max(1));
                FEW_COMMANDS + (MOST_COMMANDS - FEW_COMMANDS) * above.min(span) / span
            }
            CleaningState::Overdue | CleaningState::Full | CleaningState::Asked => MOST_COMMANDS,
        };
        self.state = state;
        let again = match (state, idle_at) {
            (CleaningState::Resting, Some(idle_at)) => ages_at(self).min(idle_at),
            (CleaningState::Resting, None) => ages_at(self),
            _ => now.saturating_add(WINDOW),
        };
        let again = again.max(now);
        // A device that wakes up may be used at once.
        let stands = if figures.slow_sleeps { Nanos::ZERO } else { WINDOW };
        let rests = state == CleaningState::Resting;
        self.resting = rests.then(|| (again.min(now.saturating_add(stands)), again));
        Decision { state, commands, again }
    }

    /// Returns when to decide again if the last decision, to rest, still stands. Since then the oldest dirty extent can only have
    /// become a younger one, and the slow device has been used no earlier.
    #[inline]
    pub(in crate::cache) fn goes_on_resting(&self, now: Nanos) -> Option<Nanos> {
        let (until, again) = self.resting?;
        (now < until && self.asked.is_none()).then_some(again)
    }

    /// When the cleaning begins if the host writes nothing; `None` if that is not decided, or it has begun.
    pub(in crate::cache) fn begins_at(&self) -> Option<Nanos> {
        self.resting.map(|(_, again)| again)
    }

    /// Decides again with the next call.
    pub(in crate::cache) fn decides_again(&mut self) {
        self.resting = None;
    }

    /// How long before the oldest extent is as old as it may be the cleaning begins.
    fn lead(&self, max_age: Nanos, bytes: Bytes) -> Nanos {
        let takes = self.takes(bytes).unwrap_or(Nanos::ZERO);
        Nanos(takes.0.saturating_mul(2).clamp(max_age.0 / 8, max_age.0 / 2))
    }

    /// The time from which on the slow device counts as idle, if the host does not use it before; `None`: it is in standby.
    fn idle_at(&self, tuning: &Tuning, figures: &Figures) -> Option<Nanos> {
        if figures.slow_sleeps {
            return None;
        }
        let pause = tuning.cleaning.idle_after(tuning.writeback_delay);
        // Before the device goes into standby.
        let pause = figures.sleeps_after.map_or(pause, |after| pause.min(Nanos(after.0 / 2)));
        let allowed = tuning.cleaning.max_foreground_p99.is_some_and(|most| {
            // A fifth below the bound, so that cleaning does not go on and off all the time.
            self.p99.is_none_or(|p99| p99.0 <= most.0 / 5 * 4)
        });
        let free_at = match figures.slow_is_busy {
            _ if allowed => Nanos::ZERO,
            true => figures.now.saturating_add(pause.max(LOOKS_EVERY)),
            false => self.slow_used.saturating_add(pause),
        };
        Some(free_at.max(figures.oldest.saturating_add(tuning.writeback_delay)))
    }

    /// Takes the response times of the host into account once a window is over. Returns whether they are to be cleared.
    pub(in crate::cache) fn look_at_responses(&mut self, now: Nanos, count: u64, p99: impl FnOnce() -> Nanos) -> bool {
        if now < self.window_ends {
            return false;
        }
        self.window_ends = now.saturating_add(WINDOW);
        self.p99 = (count >= FEWEST_RESPONSES).then(p99);
        true
    }

    /// How long it takes to write this many bytes back, at the rate that was last measured.
    pub(in crate::cache) fn takes(&self, bytes: Bytes) -> Option<Nanos> {
        let per_s = self.rate.per_s?.max(1);
        // Whole seconds and the rest apart, because a division of 128 bits takes long.
        let (seconds, rest) = (bytes.0 / per_s, bytes.0 % per_s);
        Some(Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(rest.saturating_mul(1_000_000_000) / per_s)))
    }

    pub(in crate::cache) fn bytes_per_s(&self) -> Option<u64> {
        self.rate.per_s
    }

    /// Allows a pass to examine more dirty extents: some for this call, and some for the time since the last one.
    #[inline]
    pub(in crate::cache) fn may_examine_more(&mut self, now: Nanos) {
        let passed_ms = now.saturating_sub(self.allowed_at).0 / 1_000_000;
        self.allowed_at += Nanos(passed_ms * 1_000_000);
        self.may_examine = match passed_ms {
            0 => (self.may_examine + EXAMINED_PER_CALL).min(MOST_EXAMINED),
            _ => MOST_EXAMINED,
        };
    }

    /// A command of cleaning begins.
    pub(in crate::cache) fn begins(&mut self, now: Nanos) {
        if self.commands == 0 {
            (self.rate.since, self.rate.bytes) = (now, 0);
        }
        self.commands += 1;
    }

    /// A command of cleaning is over.
    pub(in crate::cache) fn command_ended(&mut self, now: Nanos) {
        self.commands -= 1;
        if self.commands == 0 && self.rate.per_s.is_none() {
            self.rate.measure(now);
        }
    }

    /// A move of a run has ended. After the last one the buffer is free.
    pub(in crate::cache) fn left_run(&mut self, now: Nanos, InRun { run, .. }: InRun) {
        let row = &mut self.runs[run];
        row.left -= 1;
        if row.left > 0 {
            return;
        }
        let (buffer, moves) = (row.buffer, std::mem::take(&mut row.moves));
        self.runs.remove(run);
        self.free_buffers.push(buffer);
        self.spare_lists.push(moves);
        self.command_ended(now);
    }

    /// This many bytes are written back.
    pub(in crate::cache) fn wrote_origin(&mut self, now: Nanos, bytes: Bytes) {
        self.rate.bytes += bytes.0;
        if now.saturating_sub(self.rate.since) >= RATE_SPAN {
            self.rate.measure(now);
        }
    }

    /// Notes that no extent is dirty.
    pub(in crate::cache) fn all_is_clean(&mut self) {
        (self.state, self.asked, self.filling, self.aging) = (CleaningState::Resting, None, false, false);
    }
}

impl Rate {
    fn measure(&mut self, now: Nanos) {
        let took = now.saturating_sub(self.since).0;
        if took == 0 || self.bytes == 0 {
            return;
        }
        let new = (u128::from(self.bytes) * 1_000_000_000 / u128::from(took)).min(u128::from(u64::MAX)) as u64;
        self.per_s = Some(self.per_s.map_or(new, |old| old / 2 + new / 2));
        (self.since, self.bytes) = (now, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::cleaning::Cleaning;

    const MOST: u32 = 400;

    fn tuning() -> Tuning {
        Tuning { writeback_delay: Nanos::from_s(30), cleaning: Cleaning::default(), ..Tuning::default() }
    }

    /// An idle device, and something that has been dirty for a second.
    fn figures() -> Figures {
        Figures {
            now: Nanos::from_s(1000),
            dirty: 10,
            oldest: Nanos::from_s(999),
            most: Some(MOST),
            slow_is_busy: false,
            slow_sleeps: false,
            sleeps_after: None,
            bytes: Bytes::mib(10),
        }
    }

    #[test]
    fn the_order_of_the_bounds_is_dirty_bytes_age_response_times() {
        let mut cleaner = Cleaner::new();
        let mut tuning = tuning();
        tuning.cleaning.max_foreground_p99 = Some(Nanos::from_ms(10));
        let mut decide = |dirty, age, p99| {
            assert!(cleaner.look_at_responses(Nanos(u64::MAX), 1000, || p99));
            (cleaner.filling, cleaner.aging, cleaner.window_ends) = (false, false, Nanos::ZERO);
            let oldest = figures().now.saturating_sub(age);
            let decision = cleaner.decide(&tuning, &Figures { dirty, oldest, slow_is_busy: true, ..figures() });
            (decision.state, decision.commands)
        };
        let (good, bad) = (Nanos::from_ms(1), Nanos::from_ms(100));
        let (young, old, overdue) = (Nanos::from_s(1), Nanos::from_s(580), Nanos::from_s(601));
        assert_eq!(decide(10, young, bad), (CleaningState::Resting, 0));
        assert_eq!(decide(10, old, bad), (CleaningState::Aging, 1));
        assert_eq!(decide(10, old, good), (CleaningState::Aging, FEW_COMMANDS));
        assert_eq!(decide(360, old, bad), (CleaningState::Filling, 1));
        assert!(decide(360, old, good).1 > FEW_COMMANDS);
        assert_eq!(decide(360, overdue, bad), (CleaningState::Overdue, MOST_COMMANDS));
        assert_eq!(decide(MOST, overdue, bad), (CleaningState::Full, MOST_COMMANDS));
        // Write-back that can wait need not wait for an idle device if response times are well below the bound.
        assert_eq!(decide(10, Nanos::from_s(31), good), (CleaningState::Idle, 1));
        assert_eq!(decide(10, Nanos::from_s(31), Nanos::from_ms(9)), (CleaningState::Resting, 0));
    }

    #[test]
    fn what_a_pass_may_examine_is_bounded_by_time_and_calls() {
        let mut cleaner = Cleaner::new();
        let mut examine = |at: Nanos| {
            cleaner.may_examine_more(at);
            std::mem::take(&mut cleaner.may_examine)
        };
        assert_eq!(examine(Nanos::ZERO), MOST_EXAMINED);
        assert_eq!(examine(Nanos(999_999)), EXAMINED_PER_CALL);
        assert_eq!(examine(Nanos::from_ms(1)), MOST_EXAMINED);
        assert_eq!(examine(Nanos(1_500_000)), EXAMINED_PER_CALL);
        assert_eq!(examine(Nanos::MAX), MOST_EXAMINED);
        assert_eq!(examine(Nanos::MAX), EXAMINED_PER_CALL);
    }

    #[test]
    fn filling_ends_below_where_it_begins() {
        let mut cleaner = Cleaner::new();
        let mut state = |dirty| cleaner.decide(&tuning(), &Figures { dirty, ..figures() }).state;
        assert_eq!(state(349), CleaningState::Resting);
        assert_eq!(state(350), CleaningState::Filling);
        assert_eq!(state(301), CleaningState::Filling);
        assert_eq!(state(300), CleaningState::Resting);
        assert_eq!(state(349), CleaningState::Resting);
    }

    #[test]
    fn aging_begins_early_enough_for_what_there_is_to_write() {
        for (seconds, begins) in [(1, 525), (60, 480), (200, 300), (10_000, 300)] {
            let mut cleaner = Cleaner::new();
            // A measured rate of 1 MiB a second.
            cleaner.rate.per_s = Some(1 << 20);
            let mut state = |age| {
                let oldest = figures().now.saturating_sub(Nanos::from_s(age));
                let figures = Figures { oldest, bytes: Bytes::mib(seconds), slow_is_busy: true, ..figures() };
                cleaner.decide(&tuning(), &figures)
            };
            assert_eq!(state(begins - 1).state, CleaningState::Resting, "{seconds} s");
            assert_eq!(state(begins - 1).again, figures().now + Nanos::from_ms(1000), "it looks again in time");
            assert_eq!(state(begins).state, CleaningState::Aging, "{seconds} s");
        }
    }

    #[test]
    fn an_idle_device_is_used_after_a_pause_and_a_sleeping_one_is_not() {
        let mut cleaner = Cleaner::new();
        cleaner.slow_used = Nanos::from_ms(999_500);
        let rested = Figures { oldest: Nanos::from_s(960), ..figures() };
        let mut decide = |figures: Figures| cleaner.decide(&tuning(), &figures);
        let wait = decide(rested);
        assert_eq!((wait.state, wait.again), (CleaningState::Resting, Nanos::from_ms(1_000_500)));
        assert_eq!(decide(Figures { now: wait.again, ..rested }).state, CleaningState::Idle);
        assert_eq!(decide(Figures { now: wait.again, slow_is_busy: true, ..rested }).state, CleaningState::Resting);
        let asleep = decide(Figures { now: wait.again, slow_sleeps: true, ..rested });
        assert_eq!((asleep.state, asleep.again), (CleaningState::Resting, Nanos::from_s(960 + 525)));
        // A device that would sleep soon is used before it does.
        let sleeps_after = Some(Nanos::from_ms(800));
        assert_eq!(decide(Figures { sleeps_after, ..rested }).state, CleaningState::Idle);
    }
}
