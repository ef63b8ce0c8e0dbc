//! Prices of devices: of the command line, and of a file.

use std::{collections::BTreeSet, path::Path};

use peryton_device::Profile;

use crate::failure::Failure;

/// All prices that the user gives: those of `--prices FILE`, and those of `--price` in their place. A file may have devices that take no
/// part, but none that nobody knows.
pub(super) fn all(file: Option<&Path>, texts: &[String], devices: &[String]) -> Result<Vec<(String, f64)>, Failure> {
    let given = texts.iter().map(|text| one(text)).collect::<Result<Vec<_>, _>>()?;
    let mut prices = file.map_or_else(|| Ok(Vec::new()), read)?;
    prices.retain(|(name, _)| given.iter().all(|(other, _)| other != name));
    if !devices.is_empty() && !prices.is_empty() {
        let taking_part = names(devices)?;
        prices.retain(|(name, _)| taking_part.contains(name));
    }
    Ok(given.into_iter().chain(prices).collect())
}

fn usd(text: &str) -> Option<f64> {
    text.trim().trim_start_matches('$').parse().ok().filter(|usd: &f64| usd.is_finite() && *usd > 0.0)
}

fn one(text: &str) -> Result<(String, f64), Failure> {
    let found = text.split_once('=').and_then(|(name, price)| Some((name.to_owned(), usd(price)?)));
    let remedy = "write a device and its price above 0, such as intel-320-300gb=529";
    found.ok_or_else(|| Failure::bad_input(format!("--price {text}: {remedy}")))
}

/// Lines of a name and US dollars; a header that has no number is passed over.
fn read(path: &Path) -> Result<Vec<(String, f64)>, Failure> {
    let at = |line: usize, problem: &str| Failure::bad_input(format!("{}:{line}: {problem}", path.display()));
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))?;
    let mut prices: Vec<(String, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let (name, price) = line.split_once(',').ok_or_else(|| at(number, "write device,USD"))?;
        let (name, price) = (name.trim().trim_matches('"'), price.trim().trim_matches('"'));
        let Some(price) = usd(price) else {
            if number == 1 && !price.contains(|c: char| c.is_ascii_digit()) {
                continue;
            }
            return Err(at(number, &format!("'{price}' is no price above 0 in US dollars")));
        };
        if prices.iter().any(|(known, _)| known == name) {
            return Err(at(number, &format!("'{name}' has a price already: leave one of them out")));
        }
        if Profile::named(name).is_err() && !Profile::shipped().any(|known| known == name) {
            return Err(at(number, &format!("no device is called '{name}': peryton devices lists them")));
        }
        prices.push((name.to_owned(), price));
    }
    Ok(prices)
}

/// The names of the devices that take part.
fn names(devices: &[String]) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    for device in devices {
        if !Path::new(device).is_dir() {
            found.insert(Profile::named(device)?.name);
            continue;
        }
        let entries = std::fs::read_dir(device).map_err(|error| Failure::bad_input(format!("{device}: {error}")))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("toml".as_ref()))
        {
            found.insert(Profile::named(&path.display().to_string())?.name);
        }
    }
    Ok(found)
}
