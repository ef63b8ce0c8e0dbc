//! A pattern search (Hooke and Jeeves, Journal of the ACM 8, 1961) over the values of a profile, from several starts.

use std::cell::RefCell;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::knobs::Knob;

/// The cost of a value that is e times the usual one, or an e-th of it. It decides where the requests do not.
const UNUSUAL: f64 = 0.006;
/// The share of the tries that are drawn from the whole range.
const DRAWN: u32 = 6;
/// So many of these are improved.
const STARTS: usize = 6;
/// The cost of values that the model refuses.
const REFUSED: f64 = 1e6;

/// Values that were tried, with their costs on both sets of parts.
struct Tried {
    costs: [f64; 2],
    places: Vec<f64>,
}

/// The parts that decide.
#[derive(Clone, Copy)]
enum Set {
    First,
    Second,
    Both,
}

impl Set {
    fn of(self, tried: &Tried) -> f64 {
        match self {
            Set::First => tried.costs[0],
            Set::Second => tried.costs[1],
            Set::Both => (tried.costs[0] + tried.costs[1]) / 2.0,
        }
    }
}

struct Progress {
    tries: u32,
    best: f64,
}

/// Tries values on the fitted half.
pub(super) struct Search<'a> {
    knobs: &'a [Knob],
    /// The distances of the model with these values from the device, on each of two sets of parts. None: the model refuses them.
    cost: &'a dyn Fn(&[f64]) -> Option<[f64; 2]>,
    state: RefCell<Progress>,
    random: RefCell<Pcg64Mcg>,
    progress: &'a dyn Fn(u32, f64),
}

impl<'a> Search<'a> {
    pub fn new(
        knobs: &'a [Knob],
        cost: &'a dyn Fn(&[f64]) -> Option<[f64; 2]>,
        seed: u64,
        progress: &'a dyn Fn(u32, f64),
    ) -> Search<'a> {
        let state = RefCell::new(Progress { tries: 0, best: f64::INFINITY });
        let random = RefCell::new(Pcg64Mcg::seed_from_u64(seed));
        Search { knobs, cost, state, random, progress }
    }

    /// Models that were tried, and the cost of the best.
    pub fn found(&self) -> (u32, f64) {
        let state = self.state.borrow();
        (state.tries, state.best)
    }

    /// A number from 0 to below 1.
    fn draw(&self) -> f64 {
        self.random.borrow_mut().random()
    }

    /// The places of the values of the best model: of many that are drawn the best few are improved on the first set of parts. That which is
    /// nearest on the second set, which decided nothing before, is improved on both: the others followed their parts too closely.
    pub fn search(&self, tries: u32) -> Vec<f64> {
        let usual: Vec<f64> = self.knobs.iter().map(Knob::usual_place).collect();
        let drawn = tries / DRAWN;
        let mut found = vec![self.tried(usual)];
        for _ in 0..drawn {
            found.push(self.tried(self.knobs.iter().map(|_| self.draw()).collect()));
        }
        found.sort_by(|a, b| Set::First.of(a).total_cmp(&Set::First.of(b)));
        found.truncate(STARTS);
        let each = (tries - drawn) / 2 / STARTS as u32;
        let improved = found.into_iter().map(|start| self.refine_from(start, each, Set::First));
        let nearest = improved.min_by(|a, b| Set::Second.of(a).total_cmp(&Set::Second.of(b)));
        let left = tries.saturating_sub(self.found().0);
        self.refine_from(nearest.expect("the usual one is there"), left, Set::Both).places
    }

    /// The places of the values of the best model, where what is usual is near already: each value has a step of its own, which grows
    /// when it helps and shrinks when it does not.
    pub fn refine(&self, tries: u32) -> Vec<f64> {
        let start = self.tried(self.knobs.iter().map(Knob::usual_place).collect());
        self.refine_from(start, tries.saturating_sub(1), Set::Both).places
    }

    fn refine_from(&self, mut best: Tried, mut left: u32, on: Set) -> Tried {
        /// The first step, as a logarithm, and the smallest one.
        const STEPS: (f64, f64) = (0.4, 0.004);
        let mut steps = vec![STEPS.0; self.knobs.len()];
        while left > 0 {
            for (index, knob) in self.knobs.iter().enumerate() {
                let before = on.of(&best);
                for way in [1.0, -1.0] {
                    if left == 0 || on.of(&best) < before {
                        break;
                    }
                    left -= 1;
                    let mut places = best.places.clone();
                    places[index] = (places[index] + way * steps[index] / knob.width().max(0.02)).clamp(0.0, 1.0);
                    let tried = self.tried(places);
                    if on.of(&tried) < before {
                        best = tried;
                        steps[index] *= way;
                    }
                }
                steps[index] *= if on.of(&best) < before { 1.6 } else { 0.5 };
            }
            // When no step is left, some of all sizes are tried once more from here.
            if steps.iter().all(|step| step.abs() < STEPS.1) {
                steps.iter_mut().for_each(|step| *step = 0.02 + self.draw() * STEPS.0 * 2.0);
            }
        }
        best
    }

    fn tried(&self, places: Vec<f64>) -> Tried {
        let unusual: f64 = self
            .knobs
            .iter()
            .zip(&places)
            .map(|(knob, place)| ((place - knob.usual_place()) * knob.width()).powi(2))
            .sum();
        let costs = (self.cost)(&places).map_or([REFUSED; 2], |costs| costs.map(|cost| cost + UNUSUAL * unusual));
        let tried = Tried { costs, places };
        let mut state = self.state.borrow_mut();
        state.tries += 1;
        state.best = state.best.min(Set::Both.of(&tried));
        (self.progress)(state.tries, state.best);
        tried
    }
}
