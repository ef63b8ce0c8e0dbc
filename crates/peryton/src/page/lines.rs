//! Lines of figures against sizes, on a logarithmic scale of sizes.

use maud::{Markup, html};
use peryton_units::Bytes;

use crate::table;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 240.0;
/// Room for the figures on the left, the sizes below, and above and at the right.
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 26.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 14.0;

/// A line: its name, its style, and sizes with figures.
pub struct Series {
    pub name: &'static str,
    pub class: &'static str,
    pub points: Vec<(u64, f64)>,
}

/// A card with lines; nothing if no line has two points. `mark` is a size at which a line stands, with its name.
pub fn lines(title: &str, unit: &str, series: &[Series], mark: Option<(u64, &str)>) -> Markup {
    let series: Vec<&Series> = series.iter().filter(|series| series.points.len() > 1).collect();
    let all = || series.iter().flat_map(|series| &series.points);
    let (least, most) = (all().map(|point| point.0).min(), all().map(|point| point.0).max());
    let (Some(least), Some(most)) = (least, most) else { return html! {} };
    let highest = all().map(|point| point.1).filter(|value| value.is_finite()).fold(0.0, f64::max);
    if least == most || highest <= 0.0 {
        return html! {};
    }
    let top = highest * 1.05;
    let log = |size: u64| (size.max(1) as f64).ln();
    let x = |size: u64| LEFT + (log(size) - log(least)) / (log(most) - log(least)) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - value.clamp(0.0, top) / top) * (HEIGHT - TOP - BOTTOM);
    let at = |place: f64| format!("{place:.1}");
    html! {
        div class="card" {
            h3 { (title) " " span { (unit) } }
            @if series.len() > 1 {
                p class="key" {
                    @for series in &series { span style={ "background:var(--" (series.class) ")" } {} (series.name) }
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" {
                title { (title) " against size" }
                @for value in steps(top) {
                    line class="grid" x1=(at(LEFT)) x2=(at(WIDTH - RIGHT)) y1=(at(y(value))) y2=(at(y(value))) {}
                    text class="axis" x=(at(LEFT - 6.0)) y=(at(y(value) + 4.0)) text-anchor="end" { (table::number(value)) }
                }
                @for size in sizes(least, most) {
                    line class="grid" x1=(at(x(size))) x2=(at(x(size))) y1=(at(TOP)) y2=(at(HEIGHT - BOTTOM)) {}
                    text class="axis" x=(at(x(size))) y=(at(HEIGHT - 8.0)) text-anchor="middle" { (Bytes(size)) }
                }
                @if let Some((size, name)) = mark.filter(|(size, _)| (least..=most).contains(size)) {
                    line class="mark" x1=(at(x(size))) x2=(at(x(size))) y1=(at(TOP)) y2=(at(HEIGHT - BOTTOM)) {
                        title { (name) }
                    }
                }
                @for series in &series {
                    polyline class={ "line " (series.class) } points=(
                        series.points.iter().map(|(size, value)| format!("{:.1},{:.1}", x(*size), y(*value))).collect::<Vec<_>>().join(" ")
                    ) {}
                    @for (size, value) in &series.points {
                        circle class=(series.class) cx=(at(x(*size))) cy=(at(y(*value))) r="2.5" {
                            title { (Bytes(*size)) ": " (table::number(*value)) " " (unit) ", " (series.name) }
                        }
                    }
                }
            }
        }
    }
}

/// Four or five round steps from 0 to a figure.
fn steps(top: f64) -> Vec<f64> {
    let rough = top / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough).unwrap_or(rough);
    (0..).map(|count| f64::from(count) * step).take_while(|value| *value <= top).collect()
}

/// At most six powers of two between two sizes.
fn sizes(least: u64, most: u64) -> Vec<u64> {
    let (first, last) = (least.max(1).next_power_of_two().ilog2(), most.max(1).ilog2());
    let every = (last.saturating_sub(first) / 6 + 1) as usize;
    (first..=last).step_by(every).map(|power| 1u64 << power).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let series = |points: &[(u64, f64)]| Series { name: "a", class: "read", points: points.to_vec() };
        let drawn = |points: &[(u64, f64)]| lines("t", "ms", &[series(points)], Some((2, "enough"))).into_string();
        for points in [&[][..], &[(1, 1.0)], &[(1, 1.0), (1, 2.0)], &[(1, 0.0), (2, 0.0)]] {
            assert_eq!(drawn(points), "", "{points:?}");
        }
        let text = drawn(&[(1, 3.0), (2, 2.0), (1 << 40, f64::INFINITY)]);
        assert!(text.contains("polyline") && text.contains("mark") && !text.contains("NaN") && !text.contains("inf,"));
    }

    #[test]
    fn scales_are_round_and_few() {
        assert_eq!(steps(10.5), [0.0, 5.0, 10.0]);
        assert_eq!(steps(1.05), [0.0, 0.5, 1.0]);
        assert!((3..=6).contains(&steps(7.3e-4).len()));
        assert_eq!(sizes(3 << 20, 65 << 20), [4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20]);
        assert!((1..=7).contains(&sizes(1, u64::MAX).len()));
    }
}
