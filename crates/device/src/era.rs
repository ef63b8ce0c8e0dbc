//! The years of the devices that a plan may use.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use crate::Profile;

/// Years of sale, such as `2022-2026`, or `all`.
///
/// ```
/// use peryton_device::{Era, Profile};
///
/// let disk_of_2013 = Profile::named("seagate-st4000dm000")?;
/// assert!(!Era::default().has(&disk_of_2013));
/// assert!("2010-2014".parse::<Era>()?.has(&disk_of_2013) && "all".parse::<Era>()?.has(&disk_of_2013));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Era(Option<RangeInclusive<u32>>);

/// The years of the newest shipped devices.
const NEWEST: RangeInclusive<u32> = 2022..=2026;

impl Default for Era {
    fn default() -> Era {
        Era(Some(NEWEST))
    }
}

impl Era {
    /// Whether a device was on sale in one of these years. A device without years is only in the era `all`.
    pub fn has(&self, profile: &Profile) -> bool {
        let Some(years) = &self.0 else { return true };
        let Some(from) = profile.year else { return false };
        from <= *years.end() && profile.sold_until.unwrap_or(from) >= *years.start()
    }
}

impl FromStr for Era {
    type Err = String;

    fn from_str(text: &str) -> Result<Era, String> {
        if text == "all" {
            return Ok(Era(None));
        }
        let year = |text: &str| text.parse::<u32>().ok().filter(|year| (1900..=2100).contains(year));
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        match (year(from), year(to)) {
            (Some(from), Some(to)) if from <= to => Ok(Era(Some(from..=to))),
            _ => Err("write years such as 2022-2026, one year, or all".to_owned()),
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("all"),
            Some(years) => write!(f, "{}-{}", years.start(), years.end()),
        }
    }
}
