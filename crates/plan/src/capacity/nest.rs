//! Three tiers: after the search, faster devices in front of the best designs of two tiers.
//!
//! Every third tier on every design of two would be too many candidates. It costs more than what it is in front of, and makes it faster or
//! spares it. So where the objective is a price, it can be the best only in front of a design that is cheaper than the best one and misses a
//! budget; where it is another, in front of one that is good already.

use std::collections::BTreeSet;

use super::{
    candidate::{Candidate, Member, Slow},
    dominated,
    error::PlanError,
    grid::MOST_OF_A_SHAPE,
    sample::Sample,
    search::{FIRST_SAMPLE, Known, Of, Search, State},
};
use crate::{constraint::strain, metric::Metric};

/// The most designs of two tiers that get a third one, each with other devices.
const MOST_BASES: usize = 6;
/// The most designs of three tiers, and the requests that samples for all of them have together.
const MOST: usize = 24;
const REQUESTS: u64 = 400_000;
/// The most that are simulated with the whole trace, with those of two tiers that are wanted after them.
const MOST_EXACT: usize = 4;

impl Search<'_> {
    /// Adds designs of three tiers to those that are known, with their figures.
    pub(super) fn add_three_tiers(&mut self, state: &mut State) -> Result<(), PlanError> {
        let is_sampled = state.rungs.len() > 1;
        let most = if is_sampled { MOST } else { MOST_EXACT };
        let mut candidates = self.three_tiers(&state.known);
        candidates.truncate(if self.grid.is_empty() { most } else { most.div_ceil(MOST_OF_A_SHAPE) });
        if candidates.is_empty() {
            return Ok(());
        }
        if !self.grid.is_empty() {
            candidates = self.grid.all(candidates, self.workload)?;
        }
        let known = &mut state.known;
        let fresh: Vec<usize> = (known.len()..known.len() + candidates.len()).collect();
        known.extend(candidates.into_iter().map(Known::new));
        let requests = (REQUESTS / fresh.len() as u64).max(FIRST_SAMPLE);
        if is_sampled && let Some(sample) = Sample::draw(self.workload, requests).map_err(PlanError::Trace)? {
            let round = state.rungs.len() - 1;
            let rung = self.rung(known, &sample, round, &fresh)?;
            state.rungs.insert(round, rung);
        }
        let run = self.finals(known, state.slack, Vec::new(), MOST_EXACT)?;
        let more = self.refine(known)? + self.compared(known, &[Of::ThreeTiers])?;
        if let Some(whole) = state.rungs.last_mut() {
            whole.candidates += run + more;
        }
        Ok(())
    }

    /// The candidates: of each design of two tiers that gets a third one the cheapest first, in turn.
    fn three_tiers(&self, known: &[Known]) -> Vec<Candidate> {
        let mut all: Vec<(usize, usize, Candidate)> = Vec::new();
        for (base, found) in self.bases(known).into_iter().enumerate() {
            all.extend(found.into_iter().enumerate().map(|(rank, one)| (rank, base, one)));
        }
        all.sort_by_key(|(rank, base, _)| (*rank, *base));
        all.into_iter().map(|(.., candidate)| candidate).collect()
    }

    /// A third tier in front of a design of two, the cheapest first.
    fn in_front_of(&self, two_tiers: &Candidate) -> Vec<Candidate> {
        let mut found = two_tiers.behind_faster(self.catalogue, &self.enumerate);
        dominated::left_out(&mut found, self.catalogue);
        let price = |candidate: &Candidate| candidate.dollars(self.catalogue);
        found.sort_by(|a, b| price(a).total_cmp(&price(b)).then_with(|| a.cmp(b)));
        found
    }

    /// The designs of three tiers on each design of two that may gain by a third one: the best that meets the budgets, whatever it costs, and
    /// then, where the objective is a price, those that miss a budget and cost less with a third tier than the best design.
    fn bases(&self, known: &[Known]) -> Vec<Vec<Candidate>> {
        let budgets = &self.problems[0].constraints;
        let is_price = matches!(self.objective, Metric::Dollars | Metric::Ownership);
        let exact = known.iter().filter_map(|one| one.exact.as_ref());
        let met = exact.filter(|metrics| strain(budgets, metrics) <= 1.0).map(|metrics| self.objective.cost(metrics));
        let best = met.fold(f64::INFINITY, f64::min);
        let may = |one: &&Known| one.candidate.is_hybrid() && one.candidate.drive().is_none();
        let mut two_tiers: Vec<(bool, f64, &Candidate)> = Vec::new();
        for one in known.iter().filter(may) {
            let Some(metrics) = one.figures() else { continue };
            let strain = strain(budgets, metrics);
            let misses = strain > 1.0;
            two_tiers.push((misses, if misses { strain } else { self.objective.cost(metrics) }, &one.candidate));
        }
        two_tiers.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then_with(|| a.2.cmp(b.2)));
        let (mut devices, mut chosen) = (BTreeSet::new(), Vec::new());
        for (misses, _, candidate) in two_tiers {
            let Some(Slow::Devices(slow)) = candidate.slow else { continue };
            let of = |member: Member| (member.kind, member.count);
            if devices.contains(&(of(candidate.fast), of(slow))) {
                continue;
            }
            let found = self.in_front_of(candidate);
            let Some(cheapest) = found.first() else { continue };
            let may_be_best = !is_price || (misses && cheapest.dollars(self.catalogue) < best);
            if chosen.is_empty() || may_be_best {
                devices.insert((of(candidate.fast), of(slow)));
                chosen.push(found);
            }
            if chosen.len() == MOST_BASES {
                break;
            }
        }
        chosen
    }
}
