//! Which sample of a trace to simulate.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::SimError;

/// Number of slices of a sample.
pub(super) const SLICES: usize = 8;
/// Which share of a trace's regions to simulate.
///
/// ```
/// use peryton_sim::Sampling;
///
/// let sample: Sampling = "0.01".parse()?;
/// assert_eq!((sample.share(), sample.seed), (0.01, 0));
/// let error = "1%".parse::<Sampling>().unwrap_err();
/// assert!(error.to_string().contains("above 0 and up to 1, such as 0.01"));
/// # Ok::<(), peryton_sim::ParseSamplingError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    share: f64,
    /// Another seed gives another sample.
    pub seed: u64,
}

/// A share that is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("'{0}' is no share: give a number above 0 and up to 1, such as 0.01")]
pub struct ParseSamplingError(String);

impl Sampling {
    /// A sample of this share.
    ///
    /// # Errors
    /// The share is not above 0, or above 1.
    pub fn new(share: f64, seed: u64) -> Result<Sampling, ParseSamplingError> {
        match share > 0.0 && share <= 1.0 {
            true => Ok(Sampling { share, seed }),
            false => Err(ParseSamplingError(share.to_string())),
        }
    }

    /// Another sample of the same share.
    pub fn with_seed(self, seed: u64) -> Sampling {
        Sampling { seed, ..self }
    }

    /// The share of the regions.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Whether that is all of them.
    pub fn is_whole(&self) -> bool {
        self.share >= 1.0
    }

    /// The slice of what has this hash; `None` if it is not in the sample.
    pub(super) fn slice(self, hash: u64) -> Option<usize> {
        // SplitMix64's steps, so that every seed has a sample of its own.
        let mut mixed = hash ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits: exactly the numbers that a float between 0 and 1 can tell apart.
        let at = (mixed >> 11) as f64 / (1u64 << 53) as f64 / self.share;
        (at < 1.0).then(|| ((at * SLICES as f64) as usize).min(SLICES - 1))
    }

    /// The error that a larger sample would avoid.
    pub(super) fn too_small(self, problem: String, least: f64) -> SimError {
        let remedy = match least < 0.7 {
            true => format!("sample about {}, or leave --sample out", rounded_up(least)),
            false => "leave --sample out".to_owned(),
        };
        SimError::Sample { sample: self.to_string(), problem: format!("{problem}: {remedy}") }
    }
}

/// A share with two digits.
fn rounded_up(share: f64) -> f64 {
    let digit = 10f64.powf(1.0 - share.log10().floor());
    (share * digit).ceil() / digit
}

impl FromStr for Sampling {
    type Err = ParseSamplingError;
    fn from_str(text: &str) -> Result<Sampling, ParseSamplingError> {
        let wrong = || ParseSamplingError(crate::document::one_line(text));
        Sampling::new(text.trim().parse().map_err(|_| wrong())?, 0).map_err(|_| wrong())
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.share)
    }
}
