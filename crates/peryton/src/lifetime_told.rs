//! What a lifetime rests on, in a sentence for tables and pages.

use peryton_sim::{LEAST_PARTS, LifetimeInterval};
use peryton_units::person_years;

use crate::table;

/// A lifetime of so many years from a span of so many seconds, without a full stop; nothing if nothing wears.
pub fn lifetime_told(years: Option<f64>, interval: &LifetimeInterval, span_s: f64) -> Option<String> {
    let (years, parts, by) = (person_years(years?), interval.lifetime_parts?, interval.lifetime_limited_by?);
    let (part_s, span) = (table::number(interval.lifetime_part_s?), table::number(span_s));
    Some(match interval.lifetime_years_low.zip(interval.lifetime_years_high) {
        Some((low, high)) => format!(
            "{years} by its {by} limit, {} to {} in the middle 90 % of mixtures of {parts} parts of {part_s} s each; only the \
             {span} s measured are in it, no other days",
            person_years(low),
            person_years(high),
        ),
        None => format!(
            "{years} by its {by} limit, without an interval: the {span} s measured are too short to split (devices wore in {} \
             of {parts} parts, and it takes {LEAST_PARTS}); take a longer trace",
            interval.lifetime_worn_parts.unwrap_or(0),
        ),
    })
}
