use thiserror::Error;

/// A size or a time that cannot be read. The message names the text and the accepted forms.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseUnitError {
    /// The text has no number at its start.
    #[error("'{text}' has no number: write {example}")]
    NoNumber {
        /// The text.
        text: String,
        /// An accepted text.
        example: &'static str,
    },
    /// The unit is missing where it is needed.
    #[error("'{text}' has no unit: write {example}; the units are {known}")]
    NoUnit {
        /// The text.
        text: String,
        /// An accepted text.
        example: &'static str,
        /// The known units.
        known: &'static str,
    },
    /// The unit is not known.
    #[error("'{text}' has an unknown unit '{unit}': use one of {known}")]
    Unit {
        /// The text.
        text: String,
        /// The unknown part.
        unit: String,
        /// The known units.
        known: &'static str,
    },
    /// The value does not fit 64 bits, or is not a whole number of the smallest unit.
    #[error("'{text}' is out of range: it must be a whole number of {smallest} from 0 to 18446744073709551615")]
    Range {
        /// The text.
        text: String,
        /// The unit that the value is stored in.
        smallest: &'static str,
    },
}

/// Splits `text` into decimal digits and unit, and scales exactly: `1.5KiB` is 1536, `0.3ns` is an error.
pub(crate) fn scaled(
    text: &str,
    example: &'static str,
    smallest: &'static str,
    known: &'static str,
    scale: impl Fn(&str) -> Option<u64>,
) -> Result<u64, ParseUnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() || fraction.contains('.') {
        return Err(ParseUnitError::NoNumber { text: text.to_owned(), example });
    }
    let unit_scale = scale(unit).ok_or_else(|| match unit {
        "" => ParseUnitError::NoUnit { text: text.to_owned(), example, known },
        _ => ParseUnitError::Unit { text: text.to_owned(), unit: unit.to_owned(), known },
    })?;
    let range = || ParseUnitError::Range { text: text.to_owned(), smallest };
    let scale = u128::from(unit_scale);
    let whole: u128 = whole.parse().map_err(|_| range())?;
    let mut value = whole.checked_mul(scale).ok_or_else(range)?;
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).map_err(|_| range())?;
        let denominator = 10u128.checked_pow(digits).ok_or_else(range)?;
        let numerator = fraction.parse::<u128>().map_err(|_| range())?.checked_mul(scale).ok_or_else(range)?;
        if numerator % denominator != 0 {
            return Err(range());
        }
        value = value.checked_add(numerator / denominator).ok_or_else(range)?;
    }
    u64::try_from(value).map_err(|_| range())
}

/// The text of `value` in the largest unit that leaves it whole, else with up to two decimals in the largest unit
/// that it reaches.
pub(crate) fn shortest(value: u64, units: &[(u64, &str)]) -> String {
    let exact = units.iter().find(|(scale, _)| value >= *scale && value.is_multiple_of(*scale));
    let (largest, name) = units.iter().find(|(scale, _)| value >= *scale).copied().unwrap_or(units[units.len() - 1]);
    match exact {
        Some((scale, name)) if value / scale < 10_000 => format!("{}{name}", value / scale),
        _ => {
            let text = format!("{:.2}", value as f64 / largest as f64);
            format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}
