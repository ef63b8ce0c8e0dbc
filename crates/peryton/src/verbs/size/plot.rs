//! Small plots of a curve in text.

use peryton_plan::size::{SizeCurve, SizePoint};
use peryton_units::Bytes;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    symbols::Marker,
    text::Line,
    widgets::{Axis, Chart, Dataset, GraphType, Widget},
};

use crate::table;

const ROWS: u16 = 11;
/// The narrowest plot, the widest, and the columns between two.
const NARROWEST: usize = 34;
const WIDEST: usize = 64;
const GAP: usize = 2;

type Figure = (&'static str, fn(&SizePoint) -> Option<f64>);

/// What is drawn, as far as there is room.
const FIGURES: &[Figure] = &[
    ("mean response time, ms", |point| Some(point.metrics.mean_ms)),
    ("p99, ms", |point| Some(point.metrics.p99_ms)),
    ("mean flush, ms", |point| point.metrics.flush_mean_ms),
];

/// Response times against size, side by side; nothing if there is no room, or only one size.
pub fn of(curve: &SizeCurve, width: usize) -> String {
    let there_is = |figure: &&Figure| curve.points.iter().filter_map(figure.1).count() > 1;
    let figures: Vec<&Figure> = FIGURES.iter().filter(there_is).collect();
    let most = (width + GAP) / (NARROWEST + GAP);
    let count = figures.len().min(most);
    if count == 0 {
        return String::new();
    }
    let each = ((width + GAP) / count - GAP).min(WIDEST);
    let plots: Vec<Vec<String>> = figures.into_iter().take(count).map(|figure| plot(curve, *figure, each)).collect();
    let mut text = String::new();
    for row in 0..usize::from(ROWS) {
        let cells: Vec<&str> = plots.iter().map(|plot| plot[row].as_str()).collect();
        text += cells.join(&" ".repeat(GAP)).trim_end();
        text.push('\n');
    }
    text + "\n"
}

/// One plot as rows of the same width.
fn plot(curve: &SizeCurve, (title, figure): Figure, width: usize) -> Vec<String> {
    let place = |bytes: u64| (bytes.max(1) as f64).log2();
    let line: Vec<(f64, f64)> =
        curve.points.iter().filter_map(|point| Some((place(point.size_bytes), figure(point)?))).collect();
    let enough = curve.knees.first().map(|knee| knee.size_bytes);
    let marked = curve.points.iter().filter(|point| Some(point.size_bytes) == enough);
    let marked: Vec<(f64, f64)> = marked.filter_map(|point| Some((place(point.size_bytes), figure(point)?))).collect();
    let ends = [line[0].0, line[line.len() - 1].0];
    let most = line.iter().map(|(_, value)| *value).fold(0.0, f64::max).max(1e-6) * 1.05;
    let sizes = [curve.points.first(), curve.points.last()].into_iter().flatten();
    let sizes: Vec<Line<'_>> = sizes.map(|point| Line::from(Bytes(point.size_bytes).to_string())).collect();
    let values = [0.0, most / 2.0, most].map(|value| Line::from(table::number(value)));
    let datasets = vec![
        Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).data(&line),
        Dataset::default().marker(Marker::Dot).graph_type(GraphType::Scatter).data(&marked),
    ];
    let chart = Chart::new(datasets)
        .x_axis(Axis::default().bounds(ends).labels(sizes))
        .y_axis(Axis::default().bounds([0.0, most]).labels(values));
    let area = Rect::new(0, 0, width as u16, ROWS - 1);
    let mut buffer = Buffer::empty(area);
    chart.render(area, &mut buffer);
    let row = |row: u16| (0..area.width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
    std::iter::once(format!("{title:<width$}")).chain((0..area.height).map(row)).collect()
}
