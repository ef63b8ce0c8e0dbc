//! MixedStore's dynamic controller (MixDC, section 5): each write goes where it is predicted to be answered sooner.
//!
//! `predictor.rs` predicts the fast device's response time, and `regulator.rs` limits writes to it if it would wear out
//! too soon. The owner of the [`Controller`] routes writes accordingly, and does background work when the host is idle.

mod predictor;
mod regulator;
mod settings;
mod stats;

use peryton_units::{Bytes, Nanos, Op};

use predictor::{Prediction, Predictor};
use regulator::{ACCOUNT_WORDS, Regulator};
pub use settings::{Partition, Predict, Regulation, WearBudget};
pub use stats::PartitionStats;

/// One of the two devices: the target of a write, or the device that served a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The fast device.
    #[default]
    Fast,
    /// The slow device.
    Slow,
}

/// A request in flight whose response time the predictor will learn from.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Nanos,
    prediction: Prediction,
}

/// The newest response time of the slow device weighs 2^-`MEAN_SHIFT` in its mean.
const MEAN_SHIFT: u32 = 5;
/// After this long without a measurement of a device, a write is sent to it to get one.
const STALE: Nanos = Nanos::from_s(10);
/// The host counts as idle after this many times its mean inter-arrival time without a request.
const IDLE_ARRIVALS: u64 = 8;

/// The controller of one volume.
///
/// # Examples
///
/// The slow device answers in 1 ms and the fast one in 5 ms, as a flash drive may while it collects garbage:
///
/// ```
/// use peryton_policy::{Partition, PartitionStats, partition::{Controller, Way}};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let mut controller = Controller::new(&Partition::default());
/// let mut stats = PartitionStats::default();
/// for step in 0..1000 {
///     let now = Nanos::from_ms(10 * step);
///     let way = controller.arrived(now, 0, (Op::Write, Bytes(step * 8192), Bytes::kib(4)), &mut stats);
///     let took = if way == Way::Fast { Nanos::from_ms(5) } else { Nanos::from_ms(1) };
///     let end = now.saturating_add(took);
///     controller.served(end, way, Op::Write, took);
///     controller.answered(end, 0, &mut stats);
/// }
/// assert!(stats.writes_slow > 900, "{stats:?}");
/// ```
#[derive(Debug)]
pub struct Controller {
    predictor: Predictor,
    regulator: Regulator,
    /// The requests by their numbers.
    asked: Vec<Option<Asked>>,
    /// The target of the write that is being submitted.
    pub way: Way,
    slow_mean: Option<Nanos>,
    slow_news: Nanos,
    /// When a write to the fast device was last measured; the field before is the same for the slow one.
    fast_news: Nanos,
    last_arrival: Nanos,
    mean_gap: Nanos,
    next_offset: u64,
}

impl Controller {
    /// Makes a controller without measurements.
    pub fn new(tuning: &Partition) -> Controller {
        Controller {
            predictor: Predictor::new(tuning.predict),
            regulator: Regulator::new(tuning.regulation, tuning.seed),
            asked: Vec::new(),
            way: Way::Fast,
            slow_mean: None,
            slow_news: Nanos::ZERO,
            fast_news: Nanos::ZERO,
            last_arrival: Nanos::ZERO,
            mean_gap: Nanos::ZERO,
            next_offset: 0,
        }
    }

    /// Records the arrival of a request and decides where it goes if it is a write. `request` is its number: a small
    /// one, which may be reused once this request has been [answered](Controller::answered).
    pub fn arrived(
        &mut self,
        now: Nanos,
        request: usize,
        (op, offset, len): (Op, Bytes, Bytes),
        stats: &mut PartitionStats,
    ) -> Way {
        let gap = now.saturating_sub(self.last_arrival);
        self.mean_gap = Nanos(self.mean_gap.0 - (self.mean_gap.0 >> 4) + (gap.0 >> 4));
        self.last_arrival = now;
        let sequential = offset.0 == self.next_offset;
        self.next_offset = offset.0 + len.0;
        self.predictor.arrived(op, sequential, gap);
        if op != Op::Write {
            self.way = Way::Fast;
            return self.way;
        }
        let prediction = self.predictor.predict(len);
        self.way = match (&prediction, self.slow_mean) {
            // The slow device is tried now and then; otherwise its mean would stay what it was in a bad hour.
            (_, None) if stats.writes_fast + stats.writes_slow >= FIRST_FAST => Way::Slow,
            (_, Some(_)) if now.saturating_sub(self.slow_news) > STALE => {
                self.slow_news = now;
                Way::Slow
            }
            // The fast device is tried now and then too; otherwise a prediction that keeps writes away from it could
            // not be corrected.
            (Some(prediction), Some(slow))
                if prediction.expected > slow && now.saturating_sub(self.fast_news) <= STALE =>
            {
                Way::Slow
            }
            _ => Way::Fast,
        };
        if self.way == Way::Fast && self.regulator.redirects(now, len) {
            stats.regulated += 1;
            self.way = Way::Slow;
        }
        match self.way {
            Way::Fast => {
                stats.writes_fast += 1;
                self.fast_news = now;
            }
            Way::Slow => stats.writes_slow += 1,
        }
        if request >= self.asked.len() {
            self.asked.resize(request + 1, None);
        }
        let teaches = prediction.filter(|_| self.way == Way::Fast);
        self.asked[request] = teaches.map(|prediction| Asked { at: now, prediction });
        self.way
    }

    /// Whether the controller uses the number of bytes that the fast device has programmed. Asks every few seconds.
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> bool {
        self.regulator.asks(now)
    }

    /// Reports how many bytes the fast device has programmed so far, as it counts them, and how many were written to it
    /// for that.
    pub fn programmed(&mut self, bytes: Bytes, written: Bytes) {
        self.regulator.programmed(bytes, written);
    }

    /// Reports the share of the fast device's life that is used up, in parts per million, and how long it has been in use, both as it
    /// says itself.
    pub fn worn(&mut self, used_ppm: u32, age: Option<Nanos>) {
        self.regulator.worn(used_ppm, age);
    }

    /// The account of the fast device's wear as of now, in words that last; `None` if nothing bounds it.
    pub fn wear_account(&self, now: Nanos) -> Option<[u32; ACCOUNT_WORDS]> {
        self.regulator.account(now)
    }

    /// Goes on with the account that an earlier controller of the same drive had.
    pub fn take_up_wear_account(&mut self, words: &[u32; ACCOUNT_WORDS]) {
        self.regulator.take_up(words);
    }

    /// Replaces another controller of the same drive: what it owes, and what devices have said of their wear, stays known.
    pub fn resume(&mut self, before: &Controller) {
        self.regulator.resume(&before.regulator);
    }

    /// Records that a device has served a command for the host.
    pub fn served(&mut self, now: Nanos, by: Way, op: Op, took: Nanos) {
        if by == Way::Fast {
            return self.predictor.served(took);
        }
        // Only writes are routed; a disk with a write cache answers them much sooner than reads.
        if op != Op::Write {
            return;
        }
        let mean = self.slow_mean.get_or_insert(took);
        *mean = Nanos(mean.0 - (mean.0 >> MEAN_SHIFT) + (took.0 >> MEAN_SHIFT));
        self.slow_news = now;
    }

    /// Records that a request has been answered.
    pub fn answered(&mut self, now: Nanos, request: usize, stats: &mut PartitionStats) {
        if let Some(Asked { at, prediction }) = self.asked.get_mut(request).and_then(Option::take) {
            self.predictor.learn(&prediction, now.saturating_sub(at), stats);
        }
    }

    /// Whether the host has paused for longer than its requests are usually apart.
    ///
    /// # Errors
    /// The time at which that will be so, if it is not so yet and no request arrives.
    pub fn idle(&self, now: Nanos, tuning: &Partition) -> Result<(), Nanos> {
        let pause = tuning.idle_after.max(Nanos(self.mean_gap.0.saturating_mul(IDLE_ARRIVALS).min(MOST_PAUSE.0)));
        let due = self.last_arrival.saturating_add(pause);
        if now >= due { Ok(()) } else { Err(due) }
    }
}

/// A pause longer than this always counts as idle.
const MOST_PAUSE: Nanos = Nanos::from_s(1);
/// Number of writes that go to the fast device before the slow one is first tried.
const FIRST_FAST: u64 = 8;
