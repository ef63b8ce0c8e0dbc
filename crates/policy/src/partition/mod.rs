//! MixedStore's dynamic controller (MixDC, section 5): each write goes where it is predicted to be answered sooner.
//!
//! `predictor.rs` learns what the fast device will take, and `regulator.rs` spares it where it would wear out too soon.
//! The owner of the [`Controller`] routes accordingly, and tidies up when the host is idle.

mod predictor;
mod regulator;
mod settings;
mod stats;

use peryton_units::{Bytes, Nanos, Op};

use predictor::{Prediction, Predictor};
use regulator::Regulator;
pub use settings::{Partition, Predict, Regulation, WearBudget};
pub use stats::PartitionStats;

/// One of the two devices: where a write is sent, or what served a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The fast device.
    #[default]
    Fast,
    /// The slow device.
    Slow,
}

/// A request under way whose time will teach something.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Nanos,
    prediction: Prediction,
}

/// The mean of the slow device's response times: the weight of the newest is 2 to the power of minus this.
const MEAN_SHIFT: u32 = 5;
/// Without news of a device for this long, a write is sent there to have some.
const STALE: Nanos = Nanos::from_s(10);
/// The host is idle when it has asked nothing for so many times its mean inter-arrival time.
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
    /// By the number of the request.
    asked: Vec<Option<Asked>>,
    /// Where the write that is being taken in goes.
    pub way: Way,
    slow_mean: Option<Nanos>,
    slow_news: Nanos,
    /// The same of a write to the fast device.
    fast_news: Nanos,
    last_arrival: Nanos,
    mean_gap: Nanos,
    next_offset: u64,
}

impl Controller {
    /// A controller that has seen nothing yet.
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

    /// A request has come: decides where it goes if it is a write. `request` is its number: a small one, which another
    /// request may have once this one has been [answered](Controller::answered).
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
            // The slow device is asked now and then, or its mean would stay what it was in a bad hour.
            (_, None) if stats.writes_fast + stats.writes_slow >= FIRST_FAST => Way::Slow,
            (_, Some(_)) if now.saturating_sub(self.slow_news) > STALE => {
                self.slow_news = now;
                Way::Slow
            }
            // So is the fast one, or a prediction that keeps writes away from it could not be found wrong.
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

    /// Whether it would help to know what the fast device has programmed so far. Asks once in some seconds.
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> bool {
        self.regulator.asks(now)
    }

    /// Reports what the fast device has programmed so far, as it counts itself, and all that was written to it for that.
    pub fn programmed(&mut self, bytes: Bytes, written: Bytes) {
        self.regulator.programmed(bytes, written);
    }

    /// A device has served a command for the host.
    pub fn served(&mut self, now: Nanos, by: Way, op: Op, took: Nanos) {
        if by == Way::Fast {
            return self.predictor.served(took);
        }
        // It is writes that are to be sent here or there; a disk with a write cache answers them much sooner than reads.
        if op != Op::Write {
            return;
        }
        let mean = self.slow_mean.get_or_insert(took);
        *mean = Nanos(mean.0 - (mean.0 >> MEAN_SHIFT) + (took.0 >> MEAN_SHIFT));
        self.slow_news = now;
    }

    /// A request has been answered.
    pub fn answered(&mut self, now: Nanos, request: usize, stats: &mut PartitionStats) {
        if let Some(Asked { at, prediction }) = self.asked.get_mut(request).and_then(Option::take) {
            self.predictor.learn(&prediction, now.saturating_sub(at), stats);
        }
    }

    /// Whether the host has paused for longer than its requests are usually apart.
    ///
    /// # Errors
    /// When that will be so, if it is not yet and no request comes.
    pub fn idle(&self, now: Nanos, tuning: &Partition) -> Result<(), Nanos> {
        let pause = tuning.idle_after.max(Nanos(self.mean_gap.0.saturating_mul(IDLE_ARRIVALS).min(MOST_PAUSE.0)));
        let due = self.last_arrival.saturating_add(pause);
        if now >= due { Ok(()) } else { Err(due) }
    }
}

/// The host need not pause longer than this to count as idle.
const MOST_PAUSE: Nanos = Nanos::from_s(1);
/// So many writes go to the fast device before the slow one is first tried.
const FIRST_FAST: u64 = 8;
