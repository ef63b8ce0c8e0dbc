//! The least that any distribution of a fleet can cost: how far a found one may be from the best.
//!
//! Whatever volumes a drive has, they take no more of its room, of its devices' time and of its flash than there is, and are no more than
//! may share it. So the shares of its volumes
//! in each of these make no more than one, and neither do their means with any weights. A volume costs at least its mean
//! share of the cheapest drive for it, and the sum over all volumes bounds the cost from below: this is the dual of the linear program
//! in which volumes may be split over drives. The weights are improved step by step (subgradients; Held and Karp, 1971).

use rayon::prelude::*;

use super::{
    assign::Carries,
    carry::{Fleet, RESOURCES},
};

/// Steps, and how far the first one goes.
const STEPS: u32 = 60;
const FIRST_STEP: f64 = 0.5;

/// A cost that no distribution of the fleet is below.
pub(super) fn bound(fleet: &Fleet) -> f64 {
    let kinds = fleet.kinds.len();
    let mut weights = vec![[1.0 / RESOURCES as f64; RESOURCES]; kinds];
    let mut best = 0.0f64;
    let usd: Vec<f64> = (0..kinds).map(|kind| fleet.least_usd(kind)).collect();
    // Volumes in which a kind may not be used at all.
    let alone: Vec<Vec<bool>> = (0..fleet.count())
        .into_par_iter()
        .map(|volume| (0..kinds).map(|kind| fleet.usd(kind, &[volume]).is_some()).collect())
        .collect();
    for step in 0..STEPS {
        let cheapest = |volume: usize| {
            let of_kind = |kind: usize| {
                let mean = |shares: &[f64; RESOURCES]| {
                    shares.iter().zip(&weights[kind]).map(|(share, weight)| share * weight).sum::<f64>()
                };
                let least = fleet.shares(kind, volume).min_by(|a, b| mean(a).total_cmp(&mean(b)));
                least.map(|shares| (usd[kind] * mean(&shares), kind, shares))
            };
            (0..kinds)
                .filter(|kind| alone[volume][*kind])
                .filter_map(of_kind)
                .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        };
        let found: Vec<_> = (0..fleet.count()).into_par_iter().map(cheapest).collect();
        let (mut sum, mut slopes) = (0.0, vec![[0.0f64; RESOURCES]; kinds]);
        for (cost, kind, shares) in found.into_iter().flatten() {
            sum += cost;
            for (slope, share) in slopes[kind].iter_mut().zip(shares) {
                *slope += share;
            }
        }
        best = best.max(sum);
        // Towards what is most taken of each kind.
        let size = FIRST_STEP / f64::from(step + 1).sqrt();
        for (weights, slopes) in weights.iter_mut().zip(&slopes) {
            let most = slopes.iter().copied().fold(0.0, f64::max);
            if most <= 0.0 {
                continue;
            }
            let mut raised = [0.0; RESOURCES];
            for ((raised, weight), slope) in raised.iter_mut().zip(&*weights).zip(slopes) {
                *raised = weight * (size * slope / most).exp();
            }
            let all: f64 = raised.iter().sum();
            *weights = raised.map(|weight| weight / all);
        }
    }
    best
}
