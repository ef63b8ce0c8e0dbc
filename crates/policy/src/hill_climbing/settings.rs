//! The settings of hill climbing.

use peryton_units::{Bytes, Nanos};

use crate::SettingError;

/// Hill climbing while the drive runs: how steps are tried, what counts as better, and which caps must hold.
///
/// ```
/// use peryton_policy::Climb;
/// use peryton_units::{Bytes, Nanos};
///
/// // Latency counts; at most 20 GB a day may be written to the fast device.
/// let climb = Climb { fast_bytes_per_day: Some(Bytes(20_000_000_000)), ..Climb::default() };
/// assert!(climb.check().is_ok());
/// // An error names the design key and the remedy.
/// let error = Climb { every: Nanos::ZERO, ..climb }.check().unwrap_err();
/// assert!(error.to_string().contains("climb.every"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Climb {
    /// How long a step is tried, and how long the drive is observed before and after without it.
    pub every: Nanos,
    /// A span with fewer requests than this continues until it has as many.
    pub requests: u32,
    /// Weight of the mean response time in the objective, a product of powers like [`Objective`](crate::Objective).
    pub latency: f64,
    /// Weight of the bytes written to the fast device.
    pub wear: f64,
    /// The highest mean response time in any span.
    pub mean_cap: Option<Nanos>,
    /// The highest 99th percentile of response times in any span.
    pub p99_cap: Option<Nanos>,
    /// The most bytes that may be written to the fast device per day, as a long-term average.
    pub fast_bytes_per_day: Option<Bytes>,
    /// The most bytes that may be programmed into its flash per day, as a long-term average. It has an effect only if
    /// the caller reports what is programmed ([`Search::programmed`](super::Search::programmed)).
    pub fast_programmed_per_day: Option<Bytes>,
    /// The most power that the devices may draw, in watts, as a long-term average. It has an effect only if the caller
    /// reports what they draw ([`Search::drew`](super::Search::drew)).
    pub power_cap_w: Option<f64>,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb {
            every: Nanos::from_s(30),
            requests: 1000,
            latency: 1.0,
            wear: 0.0,
            mean_cap: None,
            p99_cap: None,
            fast_bytes_per_day: None,
            fast_programmed_per_day: None,
            power_cap_w: None,
        }
    }
}

impl Climb {
    /// Checks that the values can work together.
    ///
    /// # Errors
    /// The first setting that cannot work, with its design key.
    pub fn check(&self) -> Result<(), SettingError> {
        let bad = |key, value: String, remedy| Err(SettingError::Range { key, value, remedy });
        if self.every == Nanos::ZERO {
            return bad("climb.every", "0".to_owned(), "use a time such as 30s");
        }
        for (key, weight) in [("climb.latency", self.latency), ("climb.wear", self.wear)] {
            if !(0.0..=100.0).contains(&weight) {
                return bad(key, weight.to_string(), "use a weight from 0 to 100");
            }
        }
        if self.latency == 0.0 && self.wear == 0.0 {
            return bad("climb.latency", "0".to_owned(), "give it or climb.wear a weight above 0");
        }
        if let Some(watts) = self.power_cap_w
            && !(watts > 0.0 && watts.is_finite())
        {
            return bad("climb.caps.power", watts.to_string(), "use a power such as 8W");
        }
        Ok(())
    }
}
