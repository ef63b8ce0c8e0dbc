//! The paper's models of a device: they predict its mean response time and its erase rate from the characteristics of a
//! workload (sections 4.2 and 4.3, equations (2) and (3)).

use std::{collections::BTreeMap, fs, path::Path};

use peryton_plan::capacity::{Kind, Like, Progress};
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    regression::{LogLinear, Observations, RegressionError, variance_inflation},
    training::Training,
};

/// The characteristics of one device's workload; W of the paper's equations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predictors {
    /// Share of reads.
    pub read_share: f64,
    /// Share of requests that begin where the previous one ended.
    pub sequential_share: f64,
    /// Mean time between requests.
    pub inter_arrival_ms: f64,
    /// Mean size of a request.
    pub request_kib: f64,
    /// On flash, the share of the stored data that is touched; on a disk, the share of its capacity.
    pub utilisation: f64,
}

impl Predictors {
    /// The predictors of a trace on a device with this utilisation.
    pub fn of(like: &Like, utilisation: f64) -> Predictors {
        Predictors {
            read_share: like.read_share,
            sequential_share: like.sequential_share,
            inter_arrival_ms: like.inter_arrival_ms,
            request_kib: like.request_kib,
            utilisation,
        }
    }

    fn values(&self) -> [f64; 5] {
        let Predictors { read_share, sequential_share, inter_arrival_ms, request_kib, utilisation } = *self;
        [read_share, sequential_share, inter_arrival_ms, request_kib, utilisation]
    }
}

/// The form in which a model gets the characteristics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The characteristics themselves, as in the paper.
    Paper,
    /// Logarithms of time and size, and rates, since both range over several powers of ten.
    Extended,
    /// As `Extended`, for figures that only writes affect: with the logarithm of the write share.
    ExtendedWrites,
}

impl Form {
    fn names(self) -> &'static [&'static str] {
        match self {
            Form::Paper => &["read_share", "sequential_share", "inter_arrival_ms", "request_kib", "utilisation"],
            Form::Extended => &[
                "read_share",
                "sequential_share",
                "ln inter_arrival_ms",
                "ln request_kib",
                "utilisation",
                "requests_per_ms",
                "kib_per_ms",
                "reads × size",
                "reads × utilisation",
                "reads × rate",
                "ln kib_per_ms",
            ],
            Form::ExtendedWrites => &[
                "ln write_share",
                "sequential_share",
                "ln inter_arrival_ms",
                "ln request_kib",
                "utilisation",
                "requests_per_ms",
                "kib_per_ms",
                "ln kib_per_ms",
            ],
        }
    }

    fn row(self, of: &Predictors) -> Vec<f64> {
        let Predictors { read_share, sequential_share, inter_arrival_ms, request_kib, utilisation } = *of;
        let (ln_time, ln_size) = (inter_arrival_ms.ln(), request_kib.ln());
        let (requests_per_ms, kib_per_ms) = (1.0 / inter_arrival_ms, request_kib / inter_arrival_ms);
        // Both are centred near the middle of their drawn range, so that their product is not determined by them.
        let (reads, size) = (read_share - 0.4, ln_size - 3.0);
        match self {
            Form::Paper => of.values().to_vec(),
            Form::Extended => vec![
                read_share,
                sequential_share,
                ln_time,
                ln_size,
                utilisation,
                requests_per_ms,
                kib_per_ms,
                reads * size,
                reads * (utilisation - 0.4),
                reads * ln_time,
                kib_per_ms.ln(),
            ],
            Form::ExtendedWrites => vec![
                (1.0 - read_share).max(LEAST_WRITE_SHARE).ln(),
                sequential_share,
                ln_time,
                ln_size,
                utilisation,
                requests_per_ms,
                kib_per_ms,
                kib_per_ms.ln(),
            ],
        }
    }
}

/// The write share assumed of a workload that only reads, so that its logarithm exists.
const LEAST_WRITE_SHARE: f64 = 0.01;
/// A predictor with a larger variance inflation than this is left out.
const MOST_INFLATION: f64 = 10.0;

/// A model of one figure of one device, and how accurate it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The form of its predictors.
    pub form: Form,
    /// The predictors in use, with their coefficients.
    pub coefficients: Vec<(String, f64)>,
    /// The predictors that were left out because others determine them, with their variance inflation at that time.
    pub dropped: Vec<(String, Option<f64>)>,
    /// `a₀` or `b₀` of the equations.
    pub intercept: f64,
    /// Adjusted R² of the logarithm, on the training set.
    pub adjusted_r2: f64,
    /// Number of traces in the training set.
    pub observations: u64,
    /// Mean of |predicted − observed| / observed on the training set.
    pub training_error: f64,
    /// Number of traces that were held out of training.
    pub held_out: u64,
    /// Mean of |predicted − observed| / observed on the held-out traces.
    pub held_out_error: f64,
}

impl Fitted {
    /// Fits a model, leaving out predictors that others explain.
    pub fn fit(
        form: Form,
        training: &[(Predictors, f64)],
        held_out: &[(Predictors, f64)],
    ) -> Result<Fitted, RegressionError> {
        let names = form.names();
        let all: Vec<Vec<f64>> = training.iter().map(|(of, _)| form.row(of)).collect();
        let mut kept: Vec<usize> = (0..names.len()).collect();
        let pick = |row: &[f64], kept: &[usize]| kept.iter().map(|index| row[*index]).collect::<Vec<f64>>();
        let mut dropped = Vec::new();
        loop {
            let rows: Vec<Vec<f64>> = all.iter().map(|row| pick(row, &kept)).collect();
            let inflation = variance_inflation(&rows);
            // Of several that determine each other, the last of the list is left out, because the first are the
            // paper's.
            let worst = inflation.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            match worst {
                Some((index, vif)) if *vif > MOST_INFLATION => {
                    dropped.push((names[kept[index]].to_owned(), Some(*vif).filter(|vif| vif.is_finite())));
                    kept.remove(index);
                }
                _ => break,
            }
        }
        let data = |of: &[(Predictors, f64)]| Observations {
            predictors: of.iter().map(|(of, _)| pick(&form.row(of), &kept)).collect(),
            observed: of.iter().map(|(_, observed)| *observed).collect(),
        };
        let (seen, unseen) = (data(training), data(held_out));
        let model = LogLinear::fit(&seen)?;
        Ok(Fitted {
            form,
            coefficients: kept
                .iter()
                .zip(&model.0.coefficients)
                .map(|(index, a)| (names[*index].to_owned(), *a))
                .collect(),
            dropped,
            intercept: model.0.intercept,
            adjusted_r2: model.0.adjusted_r2,
            observations: training.len() as u64,
            training_error: model.mean_error(&seen),
            held_out: held_out.len() as u64,
            held_out_error: if held_out.is_empty() { 0.0 } else { model.mean_error(&unseen) },
        })
    }

    /// The figure predicted for this workload.
    pub fn predict(&self, of: &Predictors) -> f64 {
        let (names, row) = (self.form.names(), self.form.row(of));
        let term = |(name, a): &(String, f64)| {
            names.iter().position(|known| known == name).map_or(0.0, |index| a * row[index])
        };
        (self.intercept + self.coefficients.iter().map(term).sum::<f64>()).exp()
    }
}

/// The models of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceModels {
    /// Models of its mean response time in ms, one for each form.
    pub response: Vec<Fitted>,
    /// Models of its erases per second, one for each form; empty for a device that does not wear.
    pub erases: Vec<Fitted>,
    /// The number of erases in its rated life.
    pub rated_erases: Option<f64>,
    /// The bytes that the host may write in its rated life.
    pub rated_written: Option<f64>,
    /// The range of each characteristic in training: least and most, in the order of the paper's predictors.
    pub ranges: [(f64, f64); 5],
    /// Training traces that the device could not keep up with, which have no mean response time.
    pub overloaded: u64,
    /// Training traces under which no block was erased, which have no logarithm of the erase rate.
    pub no_erases: u64,
}

impl DeviceModels {
    /// The form with the smallest error on the training set.
    fn best(of: &[Fitted]) -> Option<&Fitted> {
        of.iter().min_by(|a, b| a.training_error.total_cmp(&b.training_error))
    }

    /// The model of the response time that predictions use.
    pub fn best_response(&self) -> Option<&Fitted> {
        DeviceModels::best(&self.response)
    }

    /// The model of the erase rate that predictions use.
    pub fn best_erases(&self) -> Option<&Fitted> {
        DeviceModels::best(&self.erases)
    }

    /// Whether a characteristic of the workload is outside the range of the training set.
    pub fn extrapolates(&self, of: &Predictors) -> bool {
        // The mean of a drawn trace varies by about a tenth.
        of.values().iter().zip(&self.ranges).any(|(value, (least, most))| *value < least * 0.9 || *value > most * 1.1)
    }
}

/// Models of several devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// The [`MODEL_VERSION`] that they were trained by.
    version: u32,
    /// The models of each device, by a key that contains the device and the training.
    devices: BTreeMap<String, DeviceModels>,
}

/// The version of the models. It changes when training would have another result: when device models, the
/// characteristics drawn, or the form of the predictors change.
pub const MODEL_VERSION: u32 = 4;

impl Models {
    /// Loads models from a file; empty if there is none, or if its models have another version.
    pub fn load(path: &Path) -> Result<Models, Error> {
        match fs::read(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Models::default()),
            Err(error) => Err(error.into()),
            Ok(text) => {
                let found: Models = serde_json::from_slice(&text)?;
                Ok(if found.version == MODEL_VERSION { found } else { Models::default() })
            }
        }
    }

    /// Writes the models to a file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        fs::write(path, serde_json::to_vec_pretty(self)?).map_err(Error::from)
    }

    /// Returns the models of these devices, and whether any of them had to be trained. New models are kept.
    pub fn train(
        &mut self,
        kinds: &[Kind],
        training: &Training,
        progress: &Progress<'_>,
    ) -> Result<(Trained, bool), Error> {
        self.version = MODEL_VERSION;
        let missing: Vec<&Kind> = kinds.iter().filter(|kind| !self.devices.contains_key(&training.key(kind))).collect();
        for (index, kind) in missing.iter().enumerate() {
            let what = format!("training models, device {} of {}", index + 1, missing.len());
            let trained = training.train(kind, &|done, of| progress(&what, done, of))?;
            // Use the models as they will be read from the file later, so that the result has the same digits.
            let text = serde_json::to_string(&trained).expect("models are numbers and names");
            let again = serde_json::from_str(&text).expect("it was just written");
            self.devices.insert(training.key(kind), again);
        }
        let of = |kind: &Kind| Some((kind.profile.name.clone(), self.devices.get(&training.key(kind))?.clone()));
        Ok((Trained { training: *training, devices: kinds.iter().filter_map(of).collect() }, !missing.is_empty()))
    }
}

/// The models of a catalogue's devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trained {
    /// The training.
    pub training: Training,
    /// The models by device name.
    pub devices: BTreeMap<String, DeviceModels>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Workloads that cover all ranges, generated without randomness.
    fn workloads(count: u32) -> Vec<Predictors> {
        let share = |n: u32, step: u32| f64::from(n * step % 97) / 97.0;
        let one = |n: u32| Predictors {
            read_share: share(n, 31),
            sequential_share: share(n, 7),
            inter_arrival_ms: 0.5 + 100.0 * share(n, 43),
            request_kib: 4.0 + 120.0 * share(n, 61),
            utilisation: share(n, 19),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn the_coefficients_of_the_papers_form_are_found_again() {
        let known = [-1.2, 0.4, -0.01, 0.02, 0.7];
        let log = |of: &Predictors| 0.3 + of.values().iter().zip(known).map(|(x, a)| a * x).sum::<f64>();
        let observed: Vec<(Predictors, f64)> = workloads(96).into_iter().map(|of| (of, log(&of).exp())).collect();
        let fitted = Fitted::fit(Form::Paper, &observed[..80], &observed[80..]).unwrap();
        assert!(fitted.dropped.is_empty() && (fitted.intercept - 0.3).abs() < 1e-9, "{fitted:?}");
        for ((_, found), wanted) in fitted.coefficients.iter().zip(known) {
            assert!((found - wanted).abs() < 1e-9, "{fitted:?}");
        }
        assert!(fitted.adjusted_r2 > 0.999_999 && fitted.training_error < 1e-9 && fitted.held_out_error < 1e-9);
        assert!((fitted.predict(&observed[3].0) / observed[3].1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_characteristic_that_follows_from_others_is_left_out_and_named() {
        let mut all = workloads(90);
        // Workloads with more reads have larger requests.
        all.iter_mut().for_each(|of| of.request_kib = 8.0 + 50.0 * of.read_share);
        let observed: Vec<(Predictors, f64)> = all.into_iter().map(|of| (of, 1.0 + of.read_share)).collect();
        let fitted = Fitted::fit(Form::Paper, &observed, &[]).unwrap();
        assert_eq!(fitted.dropped.len(), 1, "{fitted:?}");
        assert_eq!(fitted.coefficients.len(), 4);
        // In the extended form the logarithm of the rate is the difference of two others.
        let observed: Vec<(Predictors, f64)> = workloads(90).into_iter().map(|of| (of, of.request_kib)).collect();
        let fitted = Fitted::fit(Form::Extended, &observed, &[]).unwrap();
        let kept = |name: &str| fitted.coefficients.iter().any(|(known, _)| known == name);
        assert!(!(kept("ln kib_per_ms") && kept("ln request_kib") && kept("ln inter_arrival_ms")), "{fitted:?}");
        // The predicted figure is the logarithm of the size, which is one of the predictors.
        assert!(fitted.adjusted_r2 > 0.9, "{fitted:?}");
    }
}
