//! Hill climbing on the settings of a running drive: which settings the search may change, within which bounds, and
//! when. The search itself is in `peryton_policy::hill_climbing`.

use peryton_policy::{
    ClimbView, ResponseTimes,
    hill_climbing::{Counted, Direction, Knob, Search, System},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::config::{Placement, Tuning, WritePolicy},
    cache::step::CacheIo,
};

/// The settings that hill climbing may change; every value within the bounds is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Threshold,
    Window,
    Moves,
    Delay,
}

impl Setting {
    /// The search's description of a setting. `most_moves`: the user's value, because the drive has buffers for that
    /// many moves.
    fn knob(self, most_moves: u64) -> Knob {
        let second = Nanos::from_s(1).0;
        let (name, least, most, smallest_step, less_data) = match self {
            Setting::Threshold => ("placement.promotion.threshold", 0, 256, 1, Some(Direction::Up)),
            Setting::Window => ("placement.promotion.window", second, 3600 * second, second, Some(Direction::Down)),
            Setting::Moves => ("placement.max_moves", 1, most_moves, 1, Some(Direction::Down)),
            Setting::Delay => ("placement.writeback.delay", 0, 600 * second, second, None),
        };
        Knob { name, least, most, smallest_step, less_data }
    }

    fn get(self, tuning: &Tuning) -> u64 {
        match self {
            Setting::Threshold => u64::from(tuning.promotion_threshold),
            Setting::Window => tuning.promotion_window.0,
            Setting::Moves => u64::from(tuning.max_moves),
            Setting::Delay => tuning.writeback_delay.0,
        }
    }

    fn set(self, tuning: &mut Tuning, value: u64) {
        match self {
            Setting::Threshold => tuning.promotion_threshold = value as u32,
            Setting::Window => tuning.promotion_window = Nanos(value),
            Setting::Moves => tuning.max_moves = value as u32,
            Setting::Delay => tuning.writeback_delay = Nanos(value),
        }
    }
}

/// Changes settings while the drive runs.
#[derive(Debug)]
pub(crate) struct Tuner {
    /// The settings, in the order of the search's knobs.
    settings: Vec<Setting>,
    search: Search,
}

impl Tuner {
    /// Makes a tuner if the tuning asks for one and the placement has settings to tune.
    pub(crate) fn new(placement: &Placement, tuning: &Tuning) -> Option<Box<Tuner>> {
        let config = tuning.climb.as_ref()?;
        let mut settings = vec![Setting::Threshold, Setting::Moves, Setting::Window];
        match placement {
            Placement::Tiering(_) => {}
            // The write-back delay comes first: it usually helps most, and it causes no wear.
            Placement::Caching(_) if tuning.write == WritePolicy::Back => settings.insert(0, Setting::Delay),
            Placement::Caching(_) => {}
            _ => return None,
        }
        let most_moves = u64::from(tuning.max_moves);
        let knobs = settings.iter().map(|setting| setting.knob(most_moves)).collect();
        Some(Box::new(Tuner { search: Search::new(config, knobs), settings }))
    }

    /// Replaces another tuner on the same drive. The used part of unchanged budgets stays used.
    pub(crate) fn resume(&mut self, before: &Tuner) {
        self.search.resume(&before.search);
    }

    pub(crate) fn view(&self, tuning: &Tuning) -> ClimbView {
        self.search.view(&self.values(tuning))
    }

    fn values(&self, tuning: &Tuning) -> Vec<u64> {
        self.settings.iter().map(|setting| setting.get(tuning)).collect()
    }

    /// Whether [`Tuner::tick`] has something to do; if not, asks to be called when it has.
    pub(crate) fn is_due(&mut self, io: &mut CacheIo) -> bool {
        io.due(self.search.next_look());
        self.search.is_due(io.now)
    }

    /// Does what is due. Returns whether it changed the tuning in `io`.
    pub(crate) fn tick(&mut self, io: &mut CacheIo, counted: Counted) -> bool {
        let mut values = self.values(&io.tuning);
        let now = io.now;
        let mut system = System { responses: io.responses_mut(), values: &mut values };
        let changed = self.search.tick(&mut system, now, counted);
        for (setting, value) in self.settings.iter().zip(values) {
            setting.set(&mut io.tuning, value);
        }
        io.due(self.search.next_look());
        changed
    }

    /// Whether the search uses the number of bytes that the fast device programmed.
    pub(crate) fn asks_what_was_programmed(&self) -> bool {
        self.search.asks_what_was_programmed()
    }

    pub(crate) fn programmed(&mut self, bytes: Bytes) {
        self.search.programmed(bytes.0);
    }

    /// Whether the search uses the energy that the devices drew.
    pub(crate) fn asks_what_was_drawn(&self) -> bool {
        self.search.asks_what_was_drawn()
    }

    pub(crate) fn drew(&mut self, microjoules: u64) {
        self.search.drew(microjoules);
    }

    /// Notes that the statistics start from zero after `counted`.
    pub(crate) fn statistics_reset(&mut self, io: &mut CacheIo, counted: Counted) {
        let now = io.now;
        let responses: &mut ResponseTimes = io.responses_mut();
        self.search.statistics_reset(responses, now, counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings are stored in narrower types than the search's numbers.
    #[test]
    fn every_bound_of_a_knob_is_a_value_of_its_setting() {
        for setting in [Setting::Threshold, Setting::Window, Setting::Moves, Setting::Delay] {
            let knob = setting.knob(u64::from(crate::MOST_MOVES));
            for value in [knob.least, knob.most] {
                let mut tuning = Tuning::default();
                setting.set(&mut tuning, value);
                assert_eq!(setting.get(&tuning), value, "{setting:?}");
                assert_eq!(tuning.check(), Ok(()), "{setting:?} at {value}");
            }
        }
    }
}
