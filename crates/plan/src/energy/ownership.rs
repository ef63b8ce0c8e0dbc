//! What devices cost over the years in which one has them: purchase, replacement of what is worn out and of what fails, and
//! electricity, the shelf's share included.

use peryton_units::SECONDS_PER_YEAR;
use serde::Serialize;

use super::{Demand, Figures, Line, Pattern};

/// For how long the cost of ownership is computed.
pub const OWNED_YEARS: f64 = 5.0;
/// More replacements of a device than this are an overload that money does not solve: no cost is given.
const MOST_LIVES: f64 = 1_000.0;

/// How many devices one needs after the other over so many years, of which each lasts `lifetime_years`; `None`: for ever.
pub(crate) fn lives(years: f64, lifetime_years: Option<f64>) -> f64 {
    lifetime_years.map_or(1.0, |lifetime| (years / lifetime).ceil().max(1.0))
}

/// The cost of the devices over five years, in which the demand goes on day and night.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ownership {
    /// The years.
    pub years: f64,
    /// How long a device lasts by its rated bytes, in years, if all of them are written alike; absent without a rating, or if
    /// nothing is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_rated_years: Option<f64>,
    /// Number of devices that replace worn ones.
    pub replaced: u64,
    /// To buy those that replace others; absent without a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement_usd: Option<f64>,
    /// Expected number of devices that fail, at their annual failure rate throughout the years, and are replaced; absent without a
    /// rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<f64>,
    /// To buy those that replace failed ones; absent without a price or a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_usd: Option<f64>,
    /// Power of the shelf, of all devices together.
    pub shelf_w: f64,
    /// Electricity of devices and shelf.
    pub energy_usd: f64,
    /// Purchase, replacement of worn and of failed devices, and electricity; absent without a price. Without a rate no failures are
    /// in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_usd: Option<f64>,
}

/// What the cost rests on besides the devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Household {
    pub(super) usd_per_kwh: f64,
    pub(super) shelf_w_per_device: f64,
}

impl Ownership {
    /// Of so many devices that draw `mean_power_w` together. `None` if devices would be worn out all the time.
    pub(super) fn of(
        figures: &Figures,
        (demand, pattern): (&Demand, &Pattern),
        devices: u64,
        mean_power_w: f64,
        household: Household,
    ) -> Option<Ownership> {
        let written_mb_per_s = demand.average_mb_per_s * (1.0 - pattern.read_share) / devices as f64;
        let lifetime_rated_years = figures
            .rated_written_mb
            .filter(|_| written_mb_per_s > 0.0)
            .map(|rated| rated / written_mb_per_s / SECONDS_PER_YEAR);
        let lives = lives(OWNED_YEARS, lifetime_rated_years);
        if lives > MOST_LIVES {
            return None;
        }
        let replaced = devices * (lives as u64 - 1);
        let replacement_usd = figures.price_usd.map(|price| price * replaced as f64);
        // Failures at a constant rate are a Poisson process: so many are expected, whatever was replaced meanwhile.
        let failed = figures.afr.map(|afr| -(-afr).ln_1p() * OWNED_YEARS * devices as f64);
        let failures_usd = figures.price_usd.zip(failed).map(|(price, failed)| price * failed);
        let shelf_w = household.shelf_w_per_device * devices as f64;
        let energy = Line { offset: 0.0, slope: mean_power_w + shelf_w }.priced(household.usd_per_kwh);
        let energy_usd = energy.at(OWNED_YEARS * SECONDS_PER_YEAR);
        let bought_usd = figures.price_usd.map(|price| price * (devices + replaced) as f64);
        let total_usd = bought_usd.map(|usd| usd + failures_usd.unwrap_or(0.0) + energy_usd);
        Some(Ownership {
            years: OWNED_YEARS,
            lifetime_rated_years,
            replaced,
            replacement_usd,
            failed,
            failures_usd,
            shelf_w,
            energy_usd,
            total_usd,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_device::Profile;

    use super::*;

    fn failing(average_mb_per_s: f64, shelf_w_per_device: f64, afr: Option<f64>) -> Option<Ownership> {
        let pattern = Pattern::large(true, 0.5);
        let mut profile = Profile::named("samsung-870-evo-1tb").unwrap();
        profile.price_usd = Some(100.0);
        profile.afr = afr;
        let figures = Figures::of(&profile, &pattern).unwrap();
        // The rating of the data sheet: 600 TB.
        assert_eq!(figures.rated_written_mb, Some(600e6));
        let demand = Demand::new(average_mb_per_s, average_mb_per_s, 1e6).unwrap();
        Ownership::of(&figures, (&demand, &pattern), 2, 10.0, Household { usd_per_kwh: 0.1, shelf_w_per_device })
    }

    fn cost(average_mb_per_s: f64, shelf_w_per_device: f64) -> Option<Ownership> {
        failing(average_mb_per_s, shelf_w_per_device, None)
    }

    #[test]
    fn devices_that_fail_are_bought_again() {
        // Of two devices, each of which fails in a year with the probability 1 − 1/e, one fails each half year.
        let found = failing(2.0, 0.0, Some(1.0 - (-1.0_f64).exp())).unwrap();
        assert!((found.failed.unwrap() - 10.0).abs() < 1e-9 && (found.failures_usd.unwrap() - 1000.0).abs() < 1e-6);
        let without = cost(2.0, 0.0).unwrap();
        assert_eq!((without.failed, without.failures_usd), (None, None));
        assert!((found.total_usd.unwrap() - without.total_usd.unwrap() - 1000.0).abs() < 1e-6);
    }

    #[test]
    fn what_the_writes_wear_out_is_bought_again_and_shelves_draw_power() {
        // Half of the bandwidth writes, half of that to each: 5 MB/s wear one out in 600e6 / 5 s = 3.8 years.
        let found = cost(20.0, 3.0).unwrap();
        assert!((found.lifetime_rated_years.unwrap() - 600e6 / 5.0 / SECONDS_PER_YEAR).abs() < 1e-9);
        assert_eq!((found.replaced, found.replacement_usd, found.shelf_w), (2, Some(200.0), 6.0));
        let kwh = 16.0 * 5.0 * SECONDS_PER_YEAR / 3.6e6;
        assert!((found.energy_usd - kwh * 0.1).abs() < 1e-9);
        assert!((found.total_usd.unwrap() - 400.0 - kwh * 0.1).abs() < 1e-9);
        assert_eq!(cost(2.0, 0.0).unwrap().replaced, 0);
        assert_eq!(cost(1e7, 0.0), None, "no money buys devices that last for minutes");
    }
}
