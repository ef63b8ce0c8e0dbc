//! Charts that the page's script draws: their data as JSON, and the places where they are drawn.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::{Value, json};

/// What a scale shows.
#[derive(Clone, Debug, Serialize)]
pub struct Scale {
    /// What it is.
    pub name: String,
    /// Its unit; `bytes` is shown as KiB and so on.
    pub unit: &'static str,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Its end, where that is known (100 %).
    pub max: Option<f64>,
}

impl Scale {
    pub fn new(name: &str, unit: &'static str) -> Scale {
        Scale { name: name.to_owned(), unit, log: false, max: None }
    }

    pub fn log(self) -> Scale {
        Scale { log: true, ..self }
    }

    pub fn up_to(self, max: f64) -> Scale {
        Scale { max: Some(max), ..self }
    }
}

/// A line, or points.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The number of its colour and its dashes.
    pub colour: usize,
    /// Its values, those of x in ascending order.
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    /// Intervals, which are shaded: x, the lower and the upper end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub band: Vec<[f64; 3]>,
    /// Whether its points are marked, or are all that is drawn.
    #[serde(skip_serializing_if = "Points::are_hidden")]
    pub points: Points,
}

/// Whether the points of a line are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Points {
    Hidden,
    Marked,
    Only,
}

impl Points {
    fn are_hidden(&self) -> bool {
        *self == Points::Hidden
    }
}

impl Line {
    /// A line without marks; values that are no numbers are left out, and what is beyond four digits.
    pub fn new(name: &str, colour: usize, points: impl IntoIterator<Item = (f64, f64)>) -> Line {
        let finite = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (x, y) = finite.map(|(x, y)| (short(x, 6), short(y, 4))).unzip();
        Line { name: name.to_owned(), colour, x, y, band: Vec::new(), points: Points::Hidden }
    }

    pub fn points(self, points: Points) -> Line {
        Line { points, ..self }
    }

    /// With intervals.
    pub fn band(self, band: impl IntoIterator<Item = (f64, [f64; 2])>) -> Line {
        let ends = |(x, [low, high]): (f64, [f64; 2])| [short(x, 6), short(low, 4), short(high, 4)];
        Line { band: band.into_iter().map(ends).collect(), ..self }
    }
}

/// A figure with so many digits, because a file has no room for those that no screen shows.
pub fn short(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.*e}", digits.max(1) as usize - 1).parse().unwrap_or(value)
}

/// The charts of a page.
#[derive(Debug, Default)]
pub struct Figures {
    charts: Vec<Value>,
    /// The size of their data so far, in bytes.
    bytes: usize,
}

/// The most data of the charts of a page. With the script and its library the file has 2 MB at most, if there are not thousands of rows in
/// its tables.
pub const MOST_DATA: usize = 1_500_000;

impl Figures {
    fn add(&mut self, title: &str, note: &str, mut chart: Value, wide: bool) -> Markup {
        let id = format!("chart-{}", self.charts.len() + 1);
        chart["id"] = json!(id);
        chart["title"] = json!(title);
        let size = chart.to_string().len();
        if self.bytes + size > MOST_DATA {
            return html! { p class="about" { (title) ": left out, because the page would become too large." } };
        }
        self.bytes += size;
        self.charts.push(chart);
        html! {
            figure class=[Some(if wide { "card wide" } else { "card" })] id=(id) {
                figcaption { (title) @if !note.is_empty() { " " span { (note) } } }
            }
        }
    }

    /// Lines; `views` are several sets of them to choose from. Nothing if no line has a point.
    pub fn lines(
        &mut self,
        (title, note): (&str, &str),
        (x, y): (Scale, Scale),
        views: Vec<(String, Vec<Line>)>,
        marks: &[(f64, &str)],
    ) -> Markup {
        let views: Vec<Value> = views
            .into_iter()
            .map(|(name, lines)| (name, lines.into_iter().filter(|line| !line.x.is_empty()).collect::<Vec<_>>()))
            .filter(|(_, lines)| !lines.is_empty())
            .map(|(name, lines)| json!({ "name": name, "series": lines }))
            .collect();
        if views.is_empty() {
            return html! {};
        }
        let marks: Vec<Value> = marks.iter().map(|(x, name)| json!({ "x": x, "name": name })).collect();
        self.add(title, note, json!({ "kind": "lines", "x": x, "y": y, "views": views, "marks": marks }), false)
    }

    /// Grids of addresses and times.
    pub fn heat(&mut self, title: &str, note: &str, maps: &[Value]) -> Markup {
        if maps.is_empty() {
            html! {}
        } else {
            self.add(title, note, json!({ "kind": "heat", "maps": maps }), true)
        }
    }

    /// Things to choose from by weights that the reader moves.
    pub fn weigh(&mut self, title: &str, note: &str, choice: Value) -> Markup {
        self.add(title, note, choice, true)
    }

    /// The data of all charts.
    pub fn charts(&self) -> Value {
        json!({ "charts": self.charts })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn charts_of_nothing_are_nothing_and_data_are_bounded() {
        let mut figures = Figures::default();
        let axes = || (Scale::new("x", "s"), Scale::new("y", ""));
        let none = vec![("a".to_owned(), vec![Line::new("b", 0, [(f64::NAN, 1.0), (1.0, f64::INFINITY)])])];
        assert_eq!(figures.lines(("t", ""), axes(), none, &[]).into_string(), "");
        assert_eq!(figures.heat("t", "", &[]).into_string(), "");
        let many = || vec![("a".to_owned(), vec![Line::new("b", 0, (0..40_000).map(|n| (f64::from(n), 1.5)))])];
        for _ in 0..20 {
            figures.lines(("t", ""), axes(), many(), &[]);
        }
        let data = figures.charts().to_string().len();
        assert!((MOST_DATA / 2..MOST_DATA + 1000).contains(&data), "{data}");
    }

    #[test]
    fn figures_have_as_many_digits_as_a_screen_shows() {
        assert_eq!(short(123_456.0, 3), 123_000.0);
        assert_eq!((short(0.000_123_45, 2), short(0.0, 2), short(-1.26, 2)), (0.00012, 0.0, -1.3));
        assert_eq!(short(f64::INFINITY, 3), f64::INFINITY);
    }
}
