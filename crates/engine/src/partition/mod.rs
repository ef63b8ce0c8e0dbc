//! MixedStore's dynamic controller (MixDC, section 5): each write goes where it is predicted to be answered sooner.
//!
//! `predictor.rs` learns what the fast device will take, `regulator.rs` spares it where it would wear out too soon;
//! `hybrid/partitioned.rs` routes accordingly and tidies up when the host is idle.

mod config;
mod predictor;
mod regulator;

use peryton_units::{Bytes, Nanos, Op};

pub use config::{Partition, Predict, Regulation, WearBudget};
pub use predictor::Prediction;

use crate::{command::DeviceId, core::RequestIndex, ledger::PartitionLedger};
use predictor::Predictor;
use regulator::Regulator;

/// Where a write is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Way {
    #[default]
    Fast,
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
#[derive(Debug)]
pub(crate) struct Controller {
    fast: DeviceId,
    predictor: Predictor,
    regulator: Regulator,
    /// By request index.
    asked: Vec<Option<Asked>>,
    /// Where the write that is being taken in goes.
    pub(crate) way: Way,
    slow_mean: Option<Nanos>,
    slow_news: Nanos,
    /// The same of a write to the fast device.
    fast_news: Nanos,
    last_arrival: Nanos,
    mean_gap: Nanos,
    next_offset: u64,
}

impl Controller {
    pub(crate) fn new(fast: DeviceId, tuning: &Partition) -> Controller {
        Controller {
            fast,
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

    /// A request has come: decides where it goes if it is a write.
    pub(crate) fn arrived(
        &mut self,
        now: Nanos,
        index: RequestIndex,
        (op, offset, len): (Op, Bytes, Bytes),
        books: &mut PartitionLedger,
    ) {
        let gap = now.saturating_sub(self.last_arrival);
        self.mean_gap = Nanos(self.mean_gap.0 - (self.mean_gap.0 >> 4) + (gap.0 >> 4));
        self.last_arrival = now;
        let sequential = offset.0 == self.next_offset;
        self.next_offset = offset.0 + len.0;
        self.predictor.arrived(op, sequential, gap);
        if op != Op::Write {
            self.way = Way::Fast;
            return;
        }
        let prediction = self.predictor.predict(len);
        self.way = match (&prediction, self.slow_mean) {
            // The slow device is asked now and then, or its mean would stay what it was in a bad hour.
            (_, None) if books.writes_fast + books.writes_slow >= FIRST_FAST => Way::Slow,
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
            books.regulated += 1;
            self.way = Way::Slow;
        }
        match self.way {
            Way::Fast => {
                books.writes_fast += 1;
                self.fast_news = now;
            }
            Way::Slow => books.writes_slow += 1,
        }
        let row = index.index();
        if row >= self.asked.len() {
            self.asked.resize(row + 1, None);
        }
        let teaches = prediction.filter(|_| self.way == Way::Fast);
        self.asked[row] = teaches.map(|prediction| Asked { at: now, prediction });
    }

    /// Which device's programs it would help to know.
    pub(crate) fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        self.regulator.asks(now).then_some(self.fast)
    }

    /// What a device has programmed, and all that was written to it.
    pub(crate) fn programmed(&mut self, device: DeviceId, bytes: Bytes, written: Bytes) {
        if device == self.fast {
            self.regulator.programmed(bytes, written);
        }
    }

    /// A device has served a command for the host.
    pub(crate) fn served(&mut self, now: Nanos, device: DeviceId, op: Op, took: Nanos) {
        if device == self.fast {
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
    pub(crate) fn answered(&mut self, now: Nanos, index: RequestIndex, books: &mut PartitionLedger) {
        if let Some(Asked { at, prediction }) = self.asked.get_mut(index.index()).and_then(Option::take) {
            self.predictor.learn(&prediction, now.saturating_sub(at), books);
        }
    }

    /// Whether the host has paused for longer than its requests are usually apart, and since when it may be said so.
    pub(crate) fn idle(&self, now: Nanos, tuning: &Partition) -> Result<(), Nanos> {
        let pause = tuning.idle_after.max(Nanos(self.mean_gap.0.saturating_mul(IDLE_ARRIVALS).min(MOST_PAUSE.0)));
        let due = self.last_arrival.saturating_add(pause);
        if now >= due { Ok(()) } else { Err(due) }
    }
}

/// The host need not pause longer than this to count as idle.
const MOST_PAUSE: Nanos = Nanos::from_s(1);
/// So many writes go to the fast device before the slow one is first tried.
const FIRST_FAST: u64 = 8;
