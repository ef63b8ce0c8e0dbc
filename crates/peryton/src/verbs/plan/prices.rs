//! Prices of devices: of the command line, and of a file.

use std::path::Path;

use peryton_device::{PriceList, is_price};
use peryton_plan::capacity::OWN_PRICE;

use crate::failure::Failure;

/// All prices that the user gives: those of `--prices FILE`, and those of `--price` in their place.
pub(super) fn all(file: Option<&Path>, texts: &[String]) -> Result<PriceList, Failure> {
    let list = file.map_or_else(|| Ok(PriceList::default()), read)?;
    texts.iter().try_fold(list, |list, text| {
        let usd = |text: &str| text.trim().trim_start_matches('$').parse().ok();
        let found = text.split_once('=').and_then(|(name, price)| Some((name, usd(price)?)));
        let (name, usd) = found.filter(|(_, usd): &(_, f64)| is_price(*usd)).ok_or_else(|| {
            let remedy = "write a device and its price above 0, at most a billion USD, such as intel-320-300gb=529";
            Failure::bad_input(format!("--price {text}: {remedy}"))
        })?;
        Ok(list.with(name, usd, OWN_PRICE))
    })
}

fn read(path: &Path) -> Result<PriceList, Failure> {
    let origin = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{origin}: {error}")))?;
    PriceList::parse(&text, &origin).map_err(Failure::bad_input)
}
