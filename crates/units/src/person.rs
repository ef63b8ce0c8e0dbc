//! Figures as a person reads them: at most three significant digits, in a unit that a person would use.

use crate::SECONDS_PER_YEAR;

/// From here on nobody counts the digits: 10,000 trillions.
const LONGEST: f64 = 1e16;

/// A figure as a person reads it: three significant digits, with commas between thousands, or an exponent where there are too many.
///
/// ```
/// use peryton_units::{person, person_ms, person_years};
///
/// assert_eq!([0.07861, 4.2, 12.0, 1_188_632.0].map(person), ["0.0786", "4.2", "12", "1,190,000"]);
/// assert_eq!((person(9.99e15), person(-1.234e300)), ("9,990,000,000,000,000".to_owned(), "-1.23e300".to_owned()));
/// assert_eq!((person_ms(0.086), person_ms(540_091.0)), ("0.086 ms".to_owned(), "9 min".to_owned()));
/// assert_eq!((person_years(2.07e-5), person_years(4.25)), ("10.9 min".to_owned(), "4.25 y".to_owned()));
/// ```
pub fn person(value: f64) -> String {
    if value.abs() < 999.5 {
        return three_digits(value, 9);
    }
    if !value.is_finite() {
        return "unlimited".to_owned();
    }
    if value.abs() >= LONGEST {
        return format!("{value:.2e}");
    }
    let step = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    let digits = format!("{:.0}", ((value / step).round() * step).abs());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

/// A time in milliseconds, in the unit that a person would use.
pub fn person_ms(ms: f64) -> String {
    if ms < 10_000.0 { format!("{} ms", person(ms)) } else { person_years(ms / 1e3 / SECONDS_PER_YEAR) }
}

/// No decision depends on a longer time, and no model of wear holds for it.
pub const MOST_YEARS: f64 = 1_000.0;

/// A time in years, in the unit that a person would use. Above [`MOST_YEARS`] it says only that.
pub fn person_years(years: f64) -> String {
    if years > MOST_YEARS {
        return format!("> {} y", person(MOST_YEARS));
    }
    let seconds = years * SECONDS_PER_YEAR;
    let units = [
        (1.0 / 12.0, "months"),
        (1.0 / 365.25, "days"),
        (3_600.0 / SECONDS_PER_YEAR, "h"),
        (60.0 / SECONDS_PER_YEAR, "min"),
    ];
    if years >= 1.0 {
        return format!("{} y", person(years));
    }
    match units.into_iter().find(|(unit, _)| years >= 2.0 * unit) {
        Some((unit, name)) => format!("{} {name}", person(years / unit)),
        None => format!("{} s", person(seconds)),
    }
}

/// Three significant digits without trailing zeros, and no more decimals than this.
fn three_digits(value: f64, most_decimals: i32) -> String {
    let before = value.abs().max(1e-9).log10().floor() as i32;
    let text = format!("{value:.*}", (2 - before).clamp(0, most_decimals) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
