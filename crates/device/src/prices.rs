//! What devices cost: each by its name, or by a TB of its class.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::nearest::nearest;

/// A price, and when it was one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Price {
    /// US dollars: of one device, or of a TB (10¹² bytes) of a class.
    pub usd: f64,
    /// Such as `2026-08`.
    pub date: Option<String>,
    /// The source of the price, or how it was estimated.
    pub source: String,
}

/// Prices of devices and of classes of them.
///
/// ```
/// use peryton_device::{PriceList, Profile};
///
/// // What a TB of each class costs, with its source, is shipped; a profile without a price of its own is priced by it.
/// assert!(PriceList::shipped().per_tb("nvme-tlc").is_some());
/// // A file of one's own has a line for each device or class.
/// let own = PriceList::parse("name,usd,usd_per_tb\nseagate-exos-x24-24tb,700,\nnvme-tlc,,400\n", "prices.csv")?;
/// let mut drive = Profile::named("solidigm-d7-ps1010-7.68tb")?;
/// drive.price_by(&own);
/// assert_eq!(drive.price_usd, Some(400.0 * 7.68));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Of one device, by the name of its profile.
    #[serde(default)]
    device: BTreeMap<String, Price>,
    /// Of a TB, by class.
    #[serde(default)]
    class: BTreeMap<String, Price>,
    /// The user's own.
    #[serde(skip)]
    is_given: bool,
}

static SHIPPED: LazyLock<PriceList> =
    LazyLock::new(|| toml::from_str(include_str!("../prices.toml")).expect("the shipped prices are read by a test"));

/// Whether a device, or a TB, can cost this.
pub fn is_price(usd: f64) -> bool {
    usd > 0.0 && usd <= 1e9
}

impl PriceList {
    /// The classes that come with Peryton.
    pub fn shipped() -> &'static PriceList {
        &SHIPPED
    }

    /// Reads CSV with the columns `name` (of a profile, or of a class) and `usd` (of one device) or `usd_per_tb`, and perhaps `date`, in
    /// any order; `origin` names the file in errors.
    ///
    /// # Errors
    /// A line that is none of this: which, and what it should be.
    pub fn parse(text: &str, origin: &str) -> Result<PriceList, String> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let fields = |line: &str| -> Vec<String> { line.split(',').map(|field| field.trim().to_owned()).collect() };
        let expected = "expected a header with name and usd or usd_per_tb (and date): name,usd,usd_per_tb";
        let (_, header) = lines.next().ok_or_else(|| format!("{origin}: no line: {expected}"))?;
        let header = fields(header);
        if let Some(unknown) = header.iter().find(|key| !["name", "usd", "usd_per_tb", "date"].contains(&key.as_str()))
        {
            return Err(format!("{origin}:1: unknown column '{unknown}': {expected}"));
        }
        if !header.iter().any(|key| key == "name") || !header.iter().any(|key| key.starts_with("usd")) {
            return Err(format!("{origin}:1: {expected}"));
        }
        let mut list = PriceList { is_given: true, ..PriceList::default() };
        for (number, line) in lines {
            let place = |what: String| format!("{origin}:{number}: {what}");
            let row = fields(line);
            if row.len() != header.len() {
                return Err(place(format!("{} fields, and {} columns", row.len(), header.len())));
            }
            let field = |key: &str| {
                let index = header.iter().position(|column| column == key)?;
                Some(row[index].as_str()).filter(|value| !value.is_empty())
            };
            let dollars = |key: &str| -> Result<Option<f64>, String> {
                let Some(value) = field(key) else { return Ok(None) };
                let usd = value.parse().ok().filter(|usd: &f64| is_price(*usd));
                let expected = "expected dollars above 0, at most a billion, such as 349.99";
                usd.map(Some).ok_or_else(|| place(format!("{key} = {value}: {expected}")))
            };
            let name = field("name").ok_or_else(|| place("no name".to_owned()))?.to_owned();
            let price = |usd| Price { usd, date: field("date").map(str::to_owned), source: origin.to_owned() };
            match (dollars("usd")?, dollars("usd_per_tb")?) {
                (Some(usd), None) => drop(list.device.insert(name, price(usd))),
                (None, Some(usd)) => drop(list.class.insert(name, price(usd))),
                _ => return Err(place("give either usd, of one device, or usd_per_tb, of a class".to_owned())),
            }
        }
        Ok(list)
    }

    /// Another price of one such device, in place of the one that is here; `source` says who gives it.
    #[must_use]
    pub fn with(mut self, name: &str, usd: f64, source: &str) -> PriceList {
        self.is_given = true;
        self.device.insert(name.to_owned(), Price { usd, date: None, source: source.to_owned() });
        self
    }

    /// What a TB of a class costs.
    pub fn per_tb(&self, class: &str) -> Option<&Price> {
        self.class.get(class)
    }

    /// What one such device costs.
    pub fn of_device(&self, name: &str) -> Option<&Price> {
        self.device.get(name)
    }

    /// The devices and the classes that have a price here.
    pub fn all(&self) -> impl Iterator<Item = (&str, &Price)> {
        self.device.iter().chain(&self.class).map(|(name, price)| (name.as_str(), price))
    }

    /// Whether these are the user's own prices, and not the shipped ones.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// The class that was probably meant.
    pub(crate) fn nearest_class(&self, name: &str) -> Option<&str> {
        nearest(name, self.class.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_price_with_date_and_source() {
        assert!(PriceList::shipped().class.len() > 5);
        for (name, price) in &PriceList::shipped().class {
            assert!(price.usd > 0.0 && price.date.is_some() && !price.source.is_empty(), "{name}: {price:?}");
        }
    }

    #[test]
    fn a_line_that_says_no_price_is_refused_with_its_number() {
        for (text, message) in [
            ("", "no line"),
            ("name,price\nx,1\n", "p.csv:1: unknown column 'price'"),
            ("name\nx\n", "p.csv:1: expected a header"),
            ("name,usd\nx\n", "p.csv:2: 1 fields"),
            ("name,usd\nx,free\n", "p.csv:2: usd = free"),
            ("name,usd\nx,-3\n", "p.csv:2: usd = -3"),
            ("name,usd\n,3\n", "p.csv:2: no name"),
            ("name,usd,usd_per_tb\nx,1,2\n", "p.csv:2: give either"),
            ("name,usd,usd_per_tb\n\nx,,\n", "p.csv:3: give either"),
        ] {
            let refused = PriceList::parse(text, "p.csv").unwrap_err();
            assert!(refused.contains(message), "{text:?}: {refused}");
        }
        let read = PriceList::parse("# mine\nusd,name,date\n3.5,x,2026-11\n", "p.csv").unwrap();
        let price = read.of_device("x").unwrap();
        assert_eq!((price.usd, price.date.as_deref(), price.source.as_str()), (3.5, Some("2026-11"), "p.csv"));
    }
}
