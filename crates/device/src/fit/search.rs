//! Simulated annealing (Kirkpatrick, Gelatt, Vecchi, Science 220, 1983) over the values of a profile, and then steps with one value at a
//! time.

use std::cell::RefCell;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::knobs::Knob;

/// The cost of a value that is e times the usual one, or an e-th of it. It decides where the requests do not.
pub(super) const UNUSUAL: f64 = 0.006;
/// The share of the tries, at the beginning, that are drawn from the whole range.
const ANYWHERE: u32 = 10;
/// The share of the tries at the end that change one value at a time.
const POLISH: u32 = 3;
/// Differences of cost at which annealing begins, and their fall by the last try.
const FIRST_TEMPERATURE: f64 = 0.002;
const LAST_TEMPERATURE: f64 = 0.01;
/// The cost of values that the model refuses.
const REFUSED: f64 = 1e6;

struct Progress {
    tries: u32,
    best: f64,
}

/// Tries values on the fitted half.
pub(super) struct Search<'a> {
    knobs: &'a [Knob],
    /// The distance of the model with these values from the device. None: the model refuses them.
    cost: &'a dyn Fn(&[f64]) -> Option<f64>,
    state: RefCell<Progress>,
    random: RefCell<Pcg64Mcg>,
    /// The cost of a value that is e times the usual one.
    unusual: f64,
    progress: &'a dyn Fn(u32, f64),
}

impl<'a> Search<'a> {
    pub fn new(
        knobs: &'a [Knob],
        cost: &'a dyn Fn(&[f64]) -> Option<f64>,
        (seed, unusual): (u64, f64),
        progress: &'a dyn Fn(u32, f64),
    ) -> Search<'a> {
        let state = RefCell::new(Progress { tries: 0, best: f64::INFINITY });
        let random = RefCell::new(Pcg64Mcg::seed_from_u64(seed));
        Search { knobs, cost, state, random, unusual, progress }
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

    /// The places of the values of the best model.
    pub fn search(&self, tries: u32) -> Vec<f64> {
        let usual: Vec<f64> = self.knobs.iter().map(Knob::usual_place).collect();
        let mut best = (self.try_places(&usual), usual);
        let anywhere = tries / ANYWHERE;
        for _ in 0..anywhere {
            let places: Vec<f64> = self.knobs.iter().map(|_| self.draw()).collect();
            let cost = self.try_places(&places);
            if cost < best.0 {
                best = (cost, places);
            }
        }
        let steps = (tries - anywhere - tries / POLISH).max(1);
        let cooling = LAST_TEMPERATURE.powf(1.0 / f64::from(steps));
        let (mut here, mut temperature) = (best.clone(), FIRST_TEMPERATURE);
        for _ in 0..steps {
            let places = self.beside(&here.1, temperature);
            let cost = self.try_places(&places);
            // What is worse is taken the more rarely the worse it is and the colder.
            if cost < here.0 || self.draw() < ((here.0 - cost) / temperature).exp() {
                here = (cost, places);
            }
            if here.0 < best.0 {
                best = here.clone();
            }
            temperature *= cooling;
        }
        self.polish(best, tries / POLISH)
    }

    /// The places of the values of the best model, where what is usual is near already: each value has a step of its own, which grows
    /// when it helps and shrinks when it does not.
    pub fn refine(&self, tries: u32) -> Vec<f64> {
        /// The first step, as a logarithm, and the smallest one.
        const STEPS: (f64, f64) = (0.4, 0.004);
        let usual: Vec<f64> = self.knobs.iter().map(Knob::usual_place).collect();
        let mut best = (self.try_places(&usual), usual);
        let mut steps = vec![STEPS.0; self.knobs.len()];
        let mut left = tries.saturating_sub(1);
        while left > 0 {
            for (index, knob) in self.knobs.iter().enumerate() {
                let before = best.0;
                for way in [1.0, -1.0] {
                    if left == 0 || best.0 < before {
                        break;
                    }
                    left -= 1;
                    let mut places = best.1.clone();
                    places[index] = (places[index] + way * steps[index] / knob.width().max(0.02)).clamp(0.0, 1.0);
                    let cost = self.try_places(&places);
                    if cost < best.0 {
                        best = (cost, places);
                        steps[index] *= way;
                    }
                }
                steps[index] *= if best.0 < before { 1.6 } else { 0.5 };
            }
            // When no step is left, some of all sizes are tried once more from here.
            if steps.iter().all(|step| step.abs() < STEPS.1) {
                steps.iter_mut().for_each(|step| *step = 0.02 + self.draw() * STEPS.0 * 2.0);
            }
        }
        best.1
    }

    /// Changes one value at a time, in steps that become smaller when none of them helps.
    fn polish(&self, mut best: (f64, Vec<f64>), mut left: u32) -> Vec<f64> {
        const LEAST_STEP: f64 = 0.01;
        let mut step = 0.5;
        while step > LEAST_STEP {
            let before = best.0;
            for (index, knob) in self.knobs.iter().enumerate() {
                for way in [step, -step] {
                    if left == 0 {
                        return best.1;
                    }
                    left -= 1;
                    let mut places = best.1.clone();
                    places[index] = (places[index] + way / knob.width().max(1.0)).clamp(0.0, 1.0);
                    let cost = self.try_places(&places);
                    if cost < best.0 {
                        best = (cost, places);
                    }
                }
            }
            if best.0 >= before {
                step /= 2.0;
            }
        }
        best.1
    }

    fn try_places(&self, places: &[f64]) -> f64 {
        let unusual: f64 = self
            .knobs
            .iter()
            .zip(places)
            .map(|(knob, place)| ((place - knob.usual_place()) * knob.width()).powi(2))
            .sum();
        let cost = (self.cost)(places).map_or(REFUSED, |cost| cost + self.unusual * unusual);
        let mut state = self.state.borrow_mut();
        state.tries += 1;
        state.best = state.best.min(cost);
        (self.progress)(state.tries, state.best);
        cost
    }

    /// Moves about a third of the values, the less the colder it is.
    fn beside(&self, places: &[f64], temperature: f64) -> Vec<f64> {
        let warmth = (temperature / FIRST_TEMPERATURE).clamp(0.0, 1.0).powf(0.4);
        let mut next = places.to_vec();
        let sure = (self.draw() * next.len() as f64) as usize;
        for (index, (place, knob)) in next.iter_mut().zip(self.knobs).enumerate() {
            if index == sure || self.draw() < 0.3 {
                let step = (self.draw() + self.draw() - 1.0) * (0.05 + 0.95 * warmth);
                // Steps are ratios: a range of three decades is moved through in steps as large as one of a decade.
                *place = (*place + step / knob.width().max(1.0)).clamp(0.0, 1.0);
            }
        }
        next
    }
}
