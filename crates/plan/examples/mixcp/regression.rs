//! Multiple linear regression by least squares, with figures of its quality: adjusted R², and the variance inflation of
//! predictors, which shows whether they carry information of their own.
//!
//! MixedStore (section 4.3) fits the logarithm of the mean response time and of the erase rate, equations (2) and (3):
//! [`LogLinear`].

use serde::Serialize;
use thiserror::Error;

/// Observations: the predictors and the observed value of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// A row for each observation, all of the same length.
    pub predictors: Vec<Vec<f64>>,
    /// The observed values.
    pub observed: Vec<f64>,
}

/// A linear function of the predictors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Linear {
    /// `a_0`.
    pub intercept: f64,
    /// `a_1` to `a_n`.
    pub coefficients: Vec<f64>,
    /// Share of the variance that is explained, less the share that as many random predictors would explain.
    pub adjusted_r2: f64,
}

/// A [`Linear`] function that gives the logarithm of the value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogLinear(pub Linear);

/// The reason why no fit is possible.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RegressionError {
    /// Too few observations.
    #[error("{observations} observations for {unknowns} unknowns: a regression needs more of them")]
    TooFew {
        /// Number of observations.
        observations: usize,
        /// Number of coefficients, including the intercept.
        unknowns: usize,
    },
    /// A predictor is a linear combination of the others.
    #[error("predictor {predictor} follows from those before it, or never changes: leave it out")]
    Dependent {
        /// The index of the predictor, from zero.
        predictor: usize,
    },
    /// A value is not finite, or has no logarithm.
    #[error("observation {observation} has a value that cannot be fitted: {value}")]
    Value {
        /// The index of the observation, from zero.
        observation: usize,
        /// The value.
        value: f64,
    },
}

/// A column is dependent on the columns before it if its remainder relative to itself is smaller than this.
const DEPENDENT: f64 = 1e-9;

impl Linear {
    /// Fits by Householder's QR factorisation, which does not square the condition of the problem as normal equations do.
    ///
    /// # Errors
    /// There are too few observations, predictors depend on each other, or a value is not finite.
    pub fn fit(data: &Observations) -> Result<Linear, RegressionError> {
        let rows = data.observed.len();
        let unknowns = data.predictors.first().map_or(0, Vec::len) + 1;
        if rows <= unknowns {
            return Err(RegressionError::TooFew { observations: rows, unknowns });
        }
        for (observation, (row, observed)) in data.predictors.iter().zip(&data.observed).enumerate() {
            if let Some(value) = row.iter().chain([observed]).find(|value| !value.is_finite()) {
                return Err(RegressionError::Value { observation, value: *value });
            }
        }
        // Columns of ones and of the predictors, each centred on its mean and divided by its spread. Both are undone
        // below.
        let mean = |of: &dyn Fn(usize) -> f64| (0..rows).map(of).sum::<f64>() / rows as f64;
        let (mut columns, mut scales) = (Vec::new(), Vec::new());
        for predictor in 0..unknowns - 1 {
            let value = |row: usize| data.predictors[row][predictor];
            let middle = mean(&value);
            let spread = mean(&|row| (value(row) - middle).powi(2)).sqrt();
            if spread <= DEPENDENT * middle.abs() || spread == 0.0 {
                return Err(RegressionError::Dependent { predictor });
            }
            columns.push((0..rows).map(|row| (value(row) - middle) / spread).collect::<Vec<f64>>());
            scales.push((middle, spread));
        }
        let middle = mean(&|row| data.observed[row]);
        let mut rest: Vec<f64> = data.observed.iter().map(|value| value - middle).collect();
        let total: f64 = rest.iter().map(|value| value * value).sum();
        let scaled = solve(&mut columns, &mut rest)?;
        let coefficients: Vec<f64> = scaled.iter().zip(&scales).map(|(scaled, (_, spread))| scaled / spread).collect();
        let shift: f64 = coefficients.iter().zip(&scales).map(|(coefficient, (middle, _))| coefficient * middle).sum();
        let unexplained: f64 = rest[unknowns - 1..].iter().map(|value| value * value).sum();
        let r2 = if total > 0.0 { 1.0 - unexplained / total } else { 1.0 };
        let adjusted_r2 = 1.0 - (1.0 - r2) * (rows - 1) as f64 / (rows - unknowns) as f64;
        Ok(Linear { intercept: middle - shift, coefficients, adjusted_r2 })
    }

    /// The predicted value for these predictors.
    pub fn predict(&self, predictors: &[f64]) -> f64 {
        self.intercept + self.coefficients.iter().zip(predictors).map(|(a, x)| a * x).sum::<f64>()
    }
}

/// Solves `columns × x ≈ rest`. `rest` is rotated: from index `columns.len()` on it then holds the residual.
fn solve(columns: &mut [Vec<f64>], rest: &mut [f64]) -> Result<Vec<f64>, RegressionError> {
    let unknowns = columns.len();
    for pivot in 0..unknowns {
        let (done, ahead) = columns.split_at_mut(pivot + 1);
        let column = &mut done[pivot];
        let whole: f64 = column.iter().map(|value| value * value).sum::<f64>().sqrt();
        let norm: f64 = column[pivot..].iter().map(|value| value * value).sum::<f64>().sqrt();
        if norm <= DEPENDENT * whole {
            return Err(RegressionError::Dependent { predictor: pivot });
        }
        let diagonal = if column[pivot] > 0.0 { -norm } else { norm };
        let mut mirror = column[pivot..].to_vec();
        mirror[0] -= diagonal;
        let length: f64 = mirror.iter().map(|value| value * value).sum();
        let reflect = |other: &mut [f64]| {
            let along: f64 = mirror.iter().zip(&*other).map(|(a, b)| a * b).sum();
            other.iter_mut().zip(&mirror).for_each(|(value, part)| *value -= 2.0 * along / length * part);
        };
        ahead.iter_mut().for_each(|other| reflect(&mut other[pivot..]));
        reflect(&mut rest[pivot..]);
        column[pivot] = diagonal;
    }
    let mut solution = vec![0.0; unknowns];
    for row in (0..unknowns).rev() {
        let known: f64 = (row + 1..unknowns).map(|column| columns[column][row] * solution[column]).sum();
        solution[row] = (rest[row] - known) / columns[row][row];
    }
    Ok(solution)
}

impl LogLinear {
    /// Fits the logarithm of the observed values, which must be positive.
    ///
    /// # Errors
    /// The errors of [`Linear::fit`], and an observation without a logarithm.
    pub fn fit(data: &Observations) -> Result<LogLinear, RegressionError> {
        if let Some(observation) = data.observed.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
            return Err(RegressionError::Value { observation, value: data.observed[observation] });
        }
        let observed = data.observed.iter().map(|value| value.ln()).collect();
        Ok(LogLinear(Linear::fit(&Observations { predictors: data.predictors.clone(), observed })?))
    }

    /// The predicted value for these predictors.
    pub fn predict(&self, predictors: &[f64]) -> f64 {
        self.0.predict(predictors).exp()
    }

    /// The mean of |predicted − observed| / observed.
    pub fn mean_error(&self, data: &Observations) -> f64 {
        let error = |(row, observed): (&Vec<f64>, &f64)| (self.predict(row) / observed - 1.0).abs();
        data.predictors.iter().zip(&data.observed).map(error).sum::<f64>() / data.observed.len() as f64
    }
}

/// For each predictor, the factor by which the others inflate the variance of its coefficient: 1 / (1 − R²), with R² of
/// the regression of it on the others. A factor of 1 means that it is independent of them, and an infinite one that
/// they determine it; above 5 or 10 a predictor is commonly left out. Dependence among the others does not affect the
/// factor.
pub fn variance_inflation(predictors: &[Vec<f64>]) -> Vec<f64> {
    let of = |predictor: usize| {
        let observed: Vec<f64> = predictors.iter().map(|row| row[predictor]).collect();
        let without = |row: &Vec<f64>, left_out: usize| {
            let others = row.iter().enumerate().filter(|(other, _)| *other != left_out);
            others.map(|(_, value)| *value).collect::<Vec<f64>>()
        };
        let mut data =
            Observations { predictors: predictors.iter().map(|row| without(row, predictor)).collect(), observed };
        loop {
            let (rows, unknowns) = (data.predictors.len(), data.predictors[0].len() + 1);
            match Linear::fit(&data) {
                // R² itself, not the adjusted one.
                Ok(fit) => {
                    let unexplained = (1.0 - fit.adjusted_r2) * (rows - unknowns) as f64 / (rows - 1) as f64;
                    return if unexplained < DEPENDENT { f64::INFINITY } else { (1.0 / unexplained).max(1.0) };
                }
                Err(RegressionError::Dependent { predictor }) => {
                    data.predictors = data.predictors.iter().map(|row| without(row, predictor)).collect();
                }
                Err(_) => return f64::INFINITY,
            }
        }
    };
    (0..predictors.first().map_or(0, Vec::len)).map(of).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_linear_is_found_again(
            rows in prop::collection::vec((-50.0..50.0f64, -3.0..3.0f64, 1000.0..1010.0f64), 12..60),
            a in prop::array::uniform4(-5.0..5.0f64),
        ) {
            let predictors: Vec<Vec<f64>> = rows.iter().map(|(x, y, z)| vec![*x, *y, *z]).collect();
            let observed = predictors.iter().map(|x| a[0] + a[1] * x[0] + a[2] * x[1] + a[3] * x[2]).collect();
            let data = Observations { predictors, observed };
            let fit = Linear::fit(&data).unwrap();
            for (row, observed) in data.predictors.iter().zip(&data.observed) {
                prop_assert!((fit.predict(row) - observed).abs() < 1e-6 * (1.0 + observed.abs()));
            }
        }

        /// Residuals of least squares are orthogonal to the predictors.
        #[test]
        fn residuals_are_orthogonal(rows in prop::collection::vec((-5.0..5.0f64, 0.0..1.0f64, -9.0..9.0f64), 8..40)) {
            let predictors: Vec<Vec<f64>> = rows.iter().map(|(x, y, _)| vec![*x, *y]).collect();
            let data = Observations { predictors, observed: rows.iter().map(|(_, _, z)| *z).collect() };
            let Ok(fit) = Linear::fit(&data) else { return Ok(()) };
            let residuals: Vec<f64> = data.predictors.iter().zip(&data.observed).map(|(x, z)| z - fit.predict(x)).collect();
            for column in 0..2 {
                let along: f64 = residuals.iter().zip(&data.predictors).map(|(r, x)| r * x[column]).sum();
                prop_assert!(along.abs() < 1e-7 * rows.len() as f64);
            }
            prop_assert!(residuals.iter().sum::<f64>().abs() < 1e-7 * rows.len() as f64);
            prop_assert!(fit.adjusted_r2 <= 1.0);
        }
    }

    #[test]
    fn a_predictor_that_follows_from_others_is_named() {
        let row = |n: f64| vec![n, n * n, 3.0 * n - n * n];
        let predictors: Vec<Vec<f64>> = (0..20).map(|n| row(f64::from(n))).collect();
        assert!(variance_inflation(&predictors).iter().all(|vif| *vif > 1e6));
        let observed = vec![1.0; 20];
        assert_eq!(
            Linear::fit(&Observations { predictors, observed }),
            Err(RegressionError::Dependent { predictor: 2 })
        );
        let constant = Observations { predictors: vec![vec![4.0]; 9], observed: vec![1.0; 9] };
        assert_eq!(Linear::fit(&constant), Err(RegressionError::Dependent { predictor: 0 }));
    }

    #[test]
    fn what_follows_from_others_does_not_taint_a_bystander() {
        let row = |n: u32| vec![f64::from(n), f64::from(2 * n), f64::from(n * 31 % 47)];
        let found = variance_inflation(&(0..40).map(row).collect::<Vec<_>>());
        assert!(found[0].is_infinite() && found[1].is_infinite() && found[2] < 2.0, "{found:?}");
    }

    #[test]
    fn variance_inflation_of_two_is_that_of_their_correlation() {
        let predictors: Vec<Vec<f64>> =
            [(1.0, 2.0), (2.0, 1.0), (3.0, 4.0), (4.0, 3.0), (5.0, 5.0)].iter().map(|(x, y)| vec![*x, *y]).collect();
        // The correlation of the two predictors is 0.8.
        for vif in variance_inflation(&predictors) {
            assert!((vif - 1.0 / (1.0 - 0.64)).abs() < 1e-9, "{vif}");
        }
    }

    #[test]
    fn what_has_no_logarithm_is_refused() {
        let predictors: Vec<Vec<f64>> = (0..9).map(|n| vec![f64::from(n)]).collect();
        let mut observed: Vec<f64> = (0..9).map(|n| (0.5 + 0.3 * f64::from(n)).exp()).collect();
        let fit = LogLinear::fit(&Observations { predictors: predictors.clone(), observed: observed.clone() }).unwrap();
        assert!((fit.0.intercept - 0.5).abs() < 1e-9 && (fit.0.coefficients[0] - 0.3).abs() < 1e-9);
        observed[3] = 0.0;
        let refused = LogLinear::fit(&Observations { predictors, observed });
        assert_eq!(refused, Err(RegressionError::Value { observation: 3, value: 0.0 }));
    }
}
