//! Which figures that rest on estimates decide the answer.

use peryton_device::OFF_BY;
use serde::Serialize;

use super::{Figures, Ranked, Terms, rank, sort_by_cost};

/// A figure that would put another device first if it were off.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decisive {
    /// Whose figure.
    pub device: String,
    /// Which: `bandwidth_mb_per_s`, `busy_w`, `idle_w`, `standby_w` or `price_usd`.
    pub figure: &'static str,
    /// How far off it would have to be taken: 0.3 is 30 % more.
    pub off_by: f64,
    /// The device that would be first then.
    pub first: String,
    /// The estimates that the figure rests on, as paths of the profile.
    pub estimates: Vec<String>,
}

/// By what devices are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Energy over the run time.
    Energy,
    /// Purchase and electricity.
    Cost,
}

/// Takes each figure that rests on estimates, one at a time, 30 % less and 30 % more, and ranks the devices again ([`rank`]).
/// Returns the figures for which another device then comes first.
pub fn decisive(figures: &[Figures], terms: &Terms<'_>, order: Order) -> Vec<Decisive> {
    let first = |figures: &[Figures]| {
        let mut ranked = rank(figures, terms);
        if order == Order::Cost {
            sort_by_cost(&mut ranked);
        }
        ranked.into_iter().next().map(|row: Ranked| row.figures.device)
    };
    let Some(now) = first(figures) else { return Vec::new() };
    let mut found = Vec::new();
    let mut varied = figures.to_vec();
    for (index, one) in figures.iter().enumerate() {
        for (figure, estimates) in &one.estimates {
            for off_by in [-OFF_BY, OFF_BY] {
                let Some(value) = value(&mut varied[index], figure) else { continue };
                *value *= 1.0 + off_by;
                let then = first(&varied);
                varied[index] = one.clone();
                if let Some(first) = then.filter(|then| *then != now) {
                    let (device, estimates) = (one.device.clone(), estimates.clone());
                    found.push(Decisive { device, figure, off_by, first, estimates });
                }
            }
        }
    }
    found
}

fn value<'a>(figures: &'a mut Figures, figure: &str) -> Option<&'a mut f64> {
    match figure {
        "bandwidth_mb_per_s" => Some(&mut figures.bandwidth_mb_per_s),
        "busy_w" => Some(&mut figures.busy_w),
        "idle_w" => Some(&mut figures.idle_w),
        "standby_w" => figures.standby_w.as_mut(),
        "price_usd" => figures.price_usd.as_mut(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_device::Profile;

    use super::*;
    use crate::energy::{Demand, Pattern, Policy, Prices, Span};

    fn device(name: &str, busy_w: f64, note: &str) -> Figures {
        let text = format!(
            "name = '{name}'\ndescription = ''\nclass = 'ssd'\ncapacity = '1TB'\nsources = ['a sheet']\n[data_sheet]\n\
             seq_read_mb_per_s = 100.0\nseq_read_w = {busy_w:?}\nidle_w = 0.5\n[flash]\nchannels = 1\ndies_per_channel = 1\npage = '4KiB'\n\
             pages_per_block = 64\nread = '50us'\nprogram = '500us'\nerase = '1ms'\nchannel_mb_per_s = 200\ninterface_mb_per_s = 200\n\
             cycles = 1000\nover_provisioning = 0.1\nidle_w = 0.5\nstandby_w = 0.5\n[provenance]\n'data_sheet.*' = 'published [1]'\n'data_sheet.seq_read_w' = '{note}'\n"
        );
        Figures::of(&Profile::parse(&text, name).unwrap(), &Pattern::large(false, 1.0)).unwrap()
    }

    fn decide(other_w: f64, note: &str) -> Vec<Decisive> {
        let figures = [device("known", 2.0, "published [1]"), device("guessed", other_w, note)];
        let demand = Demand::new(50.0, 50.0, 1e5).unwrap();
        let prices = Prices { usd_per_kwh: 0.1 };
        let (policies, span) = (&[Policy::Idle], Span::Seconds(1e6));
        decisive(&figures, &Terms { demand: &demand, alpha: 1.0, policies, span, prices }, Order::Energy)
    }

    #[test]
    fn an_estimate_that_decides_is_named_and_no_other() {
        let found = decide(2.4, "estimated: as others");
        assert_eq!(found.len(), 1, "{found:?}");
        let one = &found[0];
        assert_eq!(
            (one.device.as_str(), one.figure, one.off_by, one.first.as_str()),
            ("guessed", "busy_w", -0.3, "guessed")
        );
        assert_eq!(one.estimates, ["data_sheet.seq_read_w"]);
        // Too far away to matter, or stated by the maker.
        assert_eq!(decide(4.0, "estimated: as others"), []);
        assert_eq!(decide(2.4, "measured [1]"), []);
    }
}
