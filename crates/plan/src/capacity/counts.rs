//! How many devices of a kind: the search begins with a few numbers of each, and here the gaps between them are searched by halving.
//!
//! More devices are taken to be no slower and to live no shorter, and to cost more. So between a number that is too small and one that is
//! enough the least is found by simulation. Numbers that cost as much as the best design so far need none.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    candidate::{Candidate, Member, Tier},
    error::PlanError,
    narrow::{excess, grows_with_flash, shortage},
    sample::Sample,
    search::{FIRST_SAMPLE, Known, Of, Problem, Search, State},
};
use crate::{constraint::strain, evaluate::Metrics, metric::Metric};

/// What others are compared with.
const ALONE: [Of; 2] = [Of::Flash, Of::Disks];

/// Designs that differ in the number of devices in one role, by that number. Those of one number differ in the capacity of their flash.
type Line<'a> = BTreeMap<u32, Vec<&'a Known>>;

impl Search<'_> {
    /// Adds designs with other numbers of devices to those that are known, with their figures, until none can be better than the best.
    pub(super) fn search_counts(&mut self, state: &mut State) -> Result<(), PlanError> {
        let sample = Sample::draw(self.workload, FIRST_SAMPLE).map_err(PlanError::Trace)?;
        let mut exact = self.affordable();
        loop {
            let next = self.next_numbers(state);
            if next.is_empty() {
                return Ok(());
            }
            let candidates = if self.grid.is_empty() { next } else { self.grid.all(next, self.workload)? };
            let mut fresh: Vec<usize> = (state.known.len()..state.known.len() + candidates.len()).collect();
            state.known.extend(candidates.into_iter().map(Known::new));
            if let Some(sample) = &sample {
                let rung = self.rung(&mut state.known, sample, 0, &fresh)?;
                match state.rungs.first_mut().filter(|first| first.requests == rung.requests) {
                    Some(first) => first.candidates += rung.candidates,
                    None => state.rungs.insert(0, rung),
                }
                fresh.clear();
            }
            let run = self.finals(&mut state.known, state.slack, fresh, exact)?;
            exact = exact.saturating_sub(run);
            let run = run + self.refine(&mut state.known)? + self.compared(&mut state.known, &ALONE)?;
            if let Some(whole) = state.rungs.last_mut() {
                whole.candidates += run;
            }
        }
    }

    /// The designs to simulate next, of each line and each problem one.
    fn next_numbers(&self, state: &State) -> Vec<Candidate> {
        let mut lines: BTreeMap<(Tier, Candidate), Line<'_>> = BTreeMap::new();
        for one in &state.known {
            let shape = one.candidate.with_capacity(None);
            for (tier, member) in shape.counted_tiers() {
                let any = Member { count: 0, spares: 0, ..member };
                let line = lines.entry((tier, shape.with_members(tier, any))).or_default();
                line.entry(member.data_devices()).or_default().push(one);
            }
        }
        let mut all = BTreeSet::new();
        for problem in &self.problems {
            let best = self.answer(state, problem).and_then(|answer| state.known[answer.index].figures());
            let best = best.map_or(f64::INFINITY, |metrics| self.objective.cost(metrics));
            for ((tier, shape), line) in &lines {
                all.extend(self.next_number(problem, best, state.slack, (*tier, shape), line));
            }
        }
        // What others are compared with is the best of its kind, whatever it costs.
        let asked = &self.problems[0];
        for of in ALONE {
            let best = self.best_of(&state.known, of).and_then(|index| state.known[index].figures());
            let met = best.filter(|metrics| strain(&asked.constraints, metrics) <= 1.0);
            let best = met.map_or(f64::INFINITY, |metrics| self.objective.cost(metrics));
            for ((tier, shape), line) in lines.iter().filter(|((_, shape), _)| of.has(shape, self.catalogue)) {
                all.extend(self.next_number(asked, best, 1.0, (*tier, shape), line));
            }
        }
        let known: BTreeSet<Candidate> = state.known.iter().map(|one| one.candidate.with_capacity(None)).collect();
        all.into_iter().filter(|one| !known.contains(one)).collect()
    }

    /// The design of a line to simulate next for a problem: the largest number of devices that could be better than the best, if none as
    /// large is known, or one in the middle of a gap.
    fn next_number(
        &self,
        problem: &Problem,
        best: f64,
        slack: f64,
        (tier, shape): (Tier, &Candidate),
        line: &Line<'_>,
    ) -> Option<Candidate> {
        let of_tier = shape.counted_tiers().find(|(one, _)| *one == tier)?.1;
        let with = |data: u32| Some(shape.with_members(tier, self.enumerate.so_many(of_tier, data)?));
        let budget = problem.constraints.iter().filter(|one| one.metric == Metric::Dollars).map(|one| one.limit);
        let budget = budget.fold(f64::INFINITY, f64::min);
        let may_be_bought = |data: u32| {
            let Some(candidate) = with(data) else { return false };
            let least = self.grid.least_costly(&candidate).dollars(self.catalogue);
            let better = self.objective != Metric::Dollars || least < best;
            least.is_finite()
                && least <= budget
                && better
                && candidate.is_worth_its_devices(self.catalogue, &self.enumerate)
        };
        let first = *line.keys().next()?;
        let top = largest(first, self.enumerate.most, may_be_bought)?;
        let of = |all: &[&Known], strain: &dyn Fn(&Metrics) -> f64| {
            all.iter().all(|one| match (&one.exact, &one.sampled) {
                (Some(metrics), _) => strain(metrics) > 1.0,
                (None, Some((metrics, _))) => strain(metrics) > slack,
                (None, None) => false,
            })
        };
        let short = |all: &[&Known]| of(all, &|metrics| shortage(&problem.constraints, metrics));
        let over = |all: &[&Known]| of(all, &|metrics| excess(&problem.constraints, metrics));
        let cost = |all: &[&Known]| {
            let figures = all.iter().filter_map(|one| one.figures());
            figures.map(|metrics| self.objective.cost(metrics)).min_by(f64::total_cmp).unwrap_or(f64::NEG_INFINITY)
        };
        if grows_with_flash(self.objective) {
            return if line.contains_key(&top) { None } else { with(top) };
        }
        let (&low, below) = line.range(..=top).rev().find(|(_, all)| short(all)).or_else(|| line.iter().next())?;
        let (high, above) = match line.range(low + 1..).next() {
            Some((&high, all)) if high <= top => (high, Some(all)),
            // What is dearer than the best shows whether it is worth to look below.
            Some((_, all)) if all.iter().any(|one| one.figures().is_some()) => (top + 1, Some(all)),
            _ if low < top => return with(top),
            _ => return None,
        };
        let bound = match above {
            _ if self.objective == Metric::Dollars => f64::NEG_INFINITY,
            Some(above) => cost(below).min(cost(above)),
            None => f64::NEG_INFINITY,
        };
        let hopeless = above.is_some_and(|above| short(above)) || over(below) || bound >= best;
        (high - low > 1 && !hopeless).then(|| with(low + (high - low) / 2)).flatten()
    }
}

/// The largest number up to `most` for which this holds, as it does for all below it but perhaps not for the first.
fn largest(first: u32, most: u32, holds: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut low, mut high) = (first, most.max(first) + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    (low > first).then_some(low)
}
