//! Prices of devices: of the command line, and of a file.

use std::path::Path;

use peryton_device::{PriceList, Profile};

use crate::failure::Failure;

/// All prices that the user gives: those of `--prices FILE`, and those of `--price` in their place. A file may have devices that take no
/// part, but none that is unknown.
pub(super) fn all(file: Option<&Path>, texts: &[String], devices: &[String]) -> Result<Vec<(String, f64)>, Failure> {
    let given = texts.iter().map(|text| one(text)).collect::<Result<Vec<_>, _>>()?;
    let mut prices = file.map_or_else(|| Ok(Vec::new()), |file| read(file, devices))?;
    prices.retain(|(name, _)| given.iter().all(|(other, _)| other != name));
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

/// The prices in a file of the devices that take part; without a choice, of all that are shipped.
fn read(path: &Path, devices: &[String]) -> Result<Vec<(String, f64)>, Failure> {
    let origin = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Failure::bad_input(format!("{origin}: {error}")))?;
    let list = PriceList::parse(&text, &origin).map_err(Failure::bad_input)?;
    let profiles = if devices.is_empty() {
        Profile::shipped().map(Profile::named).collect::<Result<Vec<_>, _>>()?
    } else {
        profiles(devices)?
    };
    let is_known = |name: &str| {
        Profile::named(name).is_ok()
            || PriceList::shipped().per_tb(name).is_some()
            || profiles.iter().any(|profile| profile.name == name)
    };
    if let Some(unknown) = list.names().find(|name| !is_known(name)) {
        let remedy = "peryton profiles lists the devices, and each has its class";
        return Err(Failure::bad_input(format!("{origin}: no device or class is called '{unknown}': {remedy}")));
    }
    let price = |mut profile: Profile| {
        profile.price_usd = None;
        profile.price_by(&list);
        profile.price_usd.map(|usd| (profile.name, usd))
    };
    Ok(profiles.into_iter().filter_map(price).collect())
}

/// The profiles of the devices that take part.
fn profiles(devices: &[String]) -> Result<Vec<Profile>, Failure> {
    let mut found = Vec::new();
    for device in devices {
        if !Path::new(device).is_dir() {
            found.push(Profile::named(device)?);
            continue;
        }
        let entries = std::fs::read_dir(device).map_err(|error| Failure::bad_input(format!("{device}: {error}")))?;
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some("toml".as_ref()))
        {
            found.push(Profile::named(&path.display().to_string())?);
        }
    }
    Ok(found)
}
