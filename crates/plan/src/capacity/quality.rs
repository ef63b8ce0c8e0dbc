//! The quality of the regressions: how far their predictions are from the simulations, and what they would have chosen.

use super::{
    catalogue::Catalogue,
    models::Trained,
    report::{Error, Found, ModelQuality, Regression},
};

/// Compares the plan of the regressions with that of the simulations. `choice` is the design that the regressions choose.
pub(super) fn regression(
    models: &Trained,
    catalogue: &Catalogue,
    choice: Option<String>,
    best: Option<&Found>,
    simulated: &[Found],
) -> Regression {
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let errors = |of: fn(&Error) -> Option<f64>| {
        mean(simulated.iter().filter_map(|found| of(found.prediction_error.as_ref()?)).map(f64::abs).collect())
    };
    let chosen = choice.as_ref().and_then(|name| simulated.iter().find(|found| found.design == *name));
    Regression {
        choice_meets: chosen.map(|found| found.meets),
        agrees: choice.is_some() && choice.as_ref() == best.map(|found| &found.design),
        choice,
        mean_error: errors(|error| Some(error.mean_ms)),
        lifetime_error: errors(|error| error.lifetime_years),
        rank_correlation: kendall(simulated),
        models: qualities(catalogue, models),
    }
}

/// The quality of the models of a catalogue's devices.
pub fn qualities(catalogue: &Catalogue, models: &Trained) -> Vec<ModelQuality> {
    let mut qualities = Vec::new();
    for kind in &catalogue.kinds {
        let Some(device) = models.devices.get(&kind.profile.name) else { continue };
        let figures =
            [("response", &device.response, device.best_response()), ("erases", &device.erases, device.best_erases())];
        for (figure, forms, best) in figures {
            for fitted in forms {
                let (device, used) = (kind.profile.name.clone(), best == Some(fitted));
                qualities.push(ModelQuality { device, figure, used, fitted: fitted.clone() });
            }
        }
    }
    qualities
}

/// Kendall's rank correlation of predicted and simulated response times: pairs in the same order less pairs in the opposite
/// order, over all pairs that differ.
fn kendall(simulated: &[Found]) -> Option<f64> {
    let pairs: Vec<(f64, f64)> =
        simulated.iter().filter_map(|found| Some((found.predicted.as_ref()?.mean_ms, found.metrics.mean_ms))).collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[..index] {
            let sign = (a.0 - b.0) * (a.1 - b.1);
            if sign != 0.0 {
                sum += sign.signum();
                count += 1.0;
            }
        }
    }
    (count > 0.0).then(|| sum / count)
}
