//! Charts that need no script: bars in a grid, and parts of a whole.

use maud::{Markup, html};

use crate::table;

/// Which of several figures is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    Least,
    Most,
}

impl Best {
    /// Marks each figure that is the best or equal to it; none if all are equal or there is only one.
    pub fn of(self, values: &[Option<f64>]) -> Vec<bool> {
        let known = || values.iter().flatten().copied().filter(|value| value.is_finite());
        let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let best = if self == Best::Least { least } else { most };
        values.iter().map(|value| least < most && *value == Some(best)).collect()
    }
}

/// A card with a bar for each row, starting at zero.
pub fn bars(title: &str, unit: &str, best: Option<Best>, rows: &[(&str, Option<f64>)]) -> Markup {
    let values: Vec<Option<f64>> = rows.iter().map(|row| row.1.filter(|value| value.is_finite())).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let whole = values.iter().flatten().all(|value| value.fract() == 0.0);
    let shown = |value: Option<f64>| match value {
        Some(value) if whole => format!("{value:.0}"),
        value => table::optional(value),
    };
    let marks = best.map_or_else(|| vec![false; rows.len()], |best| best.of(&values));
    html! {
        @if most > 0.0 {
            div class="card" {
                h3 { (title) " " span { (unit) } }
                div class="bars" {
                    @for (((name, _), value), mark) in rows.iter().zip(&values).zip(marks) {
                        span { (name) }
                        span { @if let Some(value) = value {
                            i style={ "width:" (format!("{:.2}", 100.0 * value / most)) "%" } {}
                        } }
                        b class=[mark.then_some("best")] { (shown(*value)) }
                    }
                }
            }
        }
    }
}

const WIDTH: f64 = 1000.0;
const LABELS: f64 = 230.0;
const ROW: f64 = 20.0;

/// A row of [`shares`]: its name, its parts with their styles, and the text after them.
pub struct Parts {
    pub name: String,
    pub parts: Vec<(&'static str, f64)>,
    pub words: String,
}

/// The parts of a whole, as shares of each row's sum.
pub fn shares(rows: &[Parts]) -> Markup {
    const BARS: f64 = 420.0;
    let height = ROW * rows.len() as f64 + 4.0;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            @for (index, row) in rows.iter().enumerate() {
                @let y = ROW * index as f64 + 4.0;
                @let whole: f64 = row.parts.iter().map(|part| part.1).sum();
                text x="0" y=(y + 11.0) { (row.name) }
                @if whole > 0.0 {
                    @for (number, (class, part)) in row.parts.iter().enumerate() {
                        @let before: f64 = row.parts[..number].iter().map(|part| part.1).sum();
                        rect class=(class) x=(at(LABELS + BARS * before / whole)) y=(y) width=(at(BARS * part / whole)) height="13" {
                            title { (class) ": " (table::percent(Some(part / whole))) " %" }
                        }
                    }
                }
                text class="axis" x=(at(LABELS + BARS + 12.0)) y=(y + 11.0) { (row.words) }
            }
        }
    }
}

/// A coordinate, to a tenth of a point; a screen shows no more.
fn at(x: f64) -> String {
    format!("{x:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_marked_where_there_is_a_choice() {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        assert_eq!(Best::Least.of(&some(&[2.0, 1.0, 3.0, 1.0])), [false, true, false, true]);
        assert_eq!(Best::Most.of(&[Some(2.0), None, Some(f64::NAN), Some(3.0)]), [false, false, false, true]);
        assert_eq!(Best::Most.of(&some(&[2.0, 2.0])), [false, false]);
        assert_eq!(Best::Most.of(&[None, Some(2.0)]), [false, false]);
        assert_eq!(Best::Most.of(&[]), [false; 0]);
    }

    #[test]
    fn charts_of_nothing_are_nothing() {
        assert_eq!(bars("x", "W", None, &[("a", None), ("b", Some(f64::NAN))]).into_string(), "");
        assert_eq!(shares(&[]).into_string().matches("rect").count(), 0);
    }
}
