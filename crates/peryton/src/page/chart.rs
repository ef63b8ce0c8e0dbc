//! Charts: bars in a grid, and lines of figures on a scale as drawings.

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
                        b class=[mark.then_some("best")] { (table::optional(*value)) }
                    }
                }
            }
        }
    }
}

const WIDTH: f64 = 1000.0;
const LABELS: f64 = 190.0;
const ROW: f64 = 20.0;

/// A row of [`spans`]: its name, its style, and the figures: median, mean, p99 and p99.9.
pub struct LatencySpan {
    pub name: String,
    pub class: &'static str,
    pub figures: [f64; 4],
    /// Text shown when the pointer is over the row.
    pub note: String,
}

/// Percentiles on a logarithmic scale: strong from the median to p99, light up to p99.9, a line at the mean.
pub fn spans(unit: &str, rows: &[LatencySpan]) -> Markup {
    let known = || rows.iter().flat_map(|row| row.figures).filter(|value| *value > 0.0 && value.is_finite());
    let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
    if most <= 0.0 {
        return html! {};
    }
    let (low, high) = (least / 1.2, most * 1.2);
    let x = |value: f64| {
        let share = (value.max(low) / low).ln() / (high / low).ln();
        LABELS + share * (WIDTH - LABELS - 30.0)
    };
    let height = ROW * (rows.len() as f64 + 1.5);
    let ticks = ticks(low, high);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            @for tick in &ticks {
                line class="grid" x1=(at(x(*tick))) x2=(at(x(*tick))) y1="0" y2=(height - ROW) {}
                text class="axis" x=(at(x(*tick))) y=(height - 5.0) text-anchor="middle" { (tick) " " (unit) }
            }
            @for (index, row) in rows.iter().enumerate() {
                @let y = ROW * index as f64 + 4.0;
                @let [median, mean, p99, p999] = row.figures;
                g {
                    title { (row.note) }
                    text x="0" y=(y + 11.0) { (row.name) }
                    rect class=(row.class) opacity="0.35" x=(at(x(median))) y=(y + 3.0) width=(width(x(median), x(p999))) height="7" {}
                    rect class=(row.class) x=(at(x(median))) y=(y) width=(width(x(median), x(p99))) height="13" {}
                    line class="mean" x1=(at(x(mean))) x2=(at(x(mean))) y1=(y - 2.0) y2=(y + 15.0) {}
                }
            }
        }
    }
}

/// Round figures between two others: 1, 2 and 5 times powers of ten, or only the powers if there are many.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let steps: &[f64] = if high / low < 2e3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    // Parsed from decimal text, so that they print without rounding errors.
    let round = |decade: i32, step: f64| format!("{step}e{decade}").parse::<f64>().expect("a number");
    let all = decades.flat_map(|decade| steps.iter().map(move |step| round(decade, *step)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

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

fn width(from: f64, to: f64) -> String {
    at((to - from).max(1.5))
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
        assert_eq!(spans("ms", &[]).into_string(), "");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.07, 1.2), [0.1, 0.2, 0.5, 1.0]);
        assert_eq!(ticks(0.0009, 15.0), [0.001, 0.01, 0.1, 1.0, 10.0]);
        assert!(ticks(1e-9, 1e9).len() < 20);
    }

    #[test]
    fn no_figure_leaves_its_drawing() {
        let row = |figures| LatencySpan { name: "a".into(), class: "read", figures, note: String::new() };
        let text = spans("ms", &[row([1.0, 1.0, 1.0, 1.0]), row([1e-3, 0.0, 5e4, 1e5])]).into_string();
        let numbers = text.split("x=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(numbers.clone().count() > 4);
        assert!(numbers.into_iter().all(|x| (0.0..=WIDTH).contains(&x)), "{text}");
    }
}
