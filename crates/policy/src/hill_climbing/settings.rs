//! What can be set of hill climbing.

use peryton_units::{Bytes, Nanos};

use crate::SettingError;

/// Hill climbing while the drive runs: how steps are tried, what is better, and what must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Climb {
    /// How long a step is tried, and how long the drive is watched before and after without it.
    pub every: Nanos,
    /// A span with fewer requests goes on until there are as many.
    pub requests: u32,
    /// Weight of the mean response time in what is to be least: a product of powers, as [`Objective`](crate::Objective)
    /// is.
    pub latency: f64,
    /// Weight of what is written to the fast device.
    pub wear: f64,
    /// Most that the mean response time may be, in every span.
    pub mean_cap: Option<Nanos>,
    /// Most that 99 of 100 requests may take, in every span.
    pub p99_cap: Option<Nanos>,
    /// Most that may be written to the fast device a day, on the average of a long time.
    pub fast_bytes_per_day: Option<Bytes>,
    /// Most that may be programmed into its flash a day, on the average of a long time. It has an effect only where
    /// something says what is programmed ([`Search::programmed`](super::Search::programmed)).
    pub fast_programmed_per_day: Option<Bytes>,
    /// Most that the devices may draw, on the average of a long time. It has an effect only where something says what
    /// they draw ([`Search::drew`](super::Search::drew)).
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
    /// Whether the values can work together.
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
