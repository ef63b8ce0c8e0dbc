//! Draws a view. A screen of 80 columns and 24 rows shows everything of two devices; on a smaller one, what does not fit is cut off.

use peryton_units::Bytes;
use ratatui::{
    Frame, Terminal,
    backend::TestBackend,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::view::{KINDS, Traffic, View};
use crate::{cleaning::mebibytes, table};

/// The size of a screen as text.
const TEXT_COLUMNS: u16 = 80;
const TEXT_ROWS: u16 = 60;
/// The most columns of the heat map, so that a row of it has a size that people know.
const MOST_HEAT_COLUMNS: usize = 64;
/// The shades of the heat map, from no requests to the most.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// The screen as text, without colours.
pub fn as_text(view: &View) -> String {
    let backend = TestBackend::new(TEXT_COLUMNS, TEXT_ROWS);
    let mut terminal = Terminal::new(backend).expect("a screen in memory can be made");
    terminal.draw(|frame| draw(frame, view, "")).expect("a screen in memory can be drawn");
    let buffer = terminal.backend().buffer();
    let row = |row: u16| -> String {
        let cells: String = (0..buffer.area.width).map(|column| buffer[(column, row)].symbol()).collect();
        cells.trim_end().to_owned()
    };
    let rows: Vec<String> = (0..buffer.area.height).map(row).collect();
    rows.join("\n").trim_end().to_owned() + "\n"
}

/// Draws the view; `footer` is in the last row.
pub fn draw(frame: &mut Frame<'_>, view: &View, footer: &str) {
    let area = frame.area();
    let mut lines = lines(view, area.width);
    let rows = usize::from(area.height);
    if !footer.is_empty() {
        lines.truncate(rows.saturating_sub(1));
        lines.resize(rows.saturating_sub(1), Line::default());
        lines.push(Line::styled(footer.to_owned(), Style::new().add_modifier(Modifier::DIM)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn lines(view: &View, columns: u16) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut lines = vec![Line::styled(view.title.clone(), bold)];
    let alarm = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    lines.extend(view.warnings.iter().map(|warning| Line::styled(warning.clone(), alarm)));
    let head =
        format!("{:<8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}", "", "per s", "MiB/s", "p50", "p99", "p99.9", "longest");
    lines.push(Line::styled(head, bold));
    lines.extend(KINDS.iter().zip(&view.traffic).map(|(kind, traffic)| Line::raw(traffic_row(kind, traffic))));
    lines.extend(view.cache.iter().flat_map(|line| folded(line, usize::from(columns))).map(Line::raw));
    lines.push(Line::styled(
        format!(
            "{:<12} {:<7} {:>8} {:>9} {:>9} {:>9} {:>7}  path",
            "device", "state", "reads/s", "MiB/s", "writes/s", "MiB/s", "errors"
        ),
        bold,
    ));
    for device in &view.devices {
        let row = format!(
            "{:<12} {:<7} {:>8} {:>9} {:>9} {:>9} {:>7}  {}",
            cut(&device.name, 12),
            device.state,
            table::number(device.reads_per_s),
            mib(device.read_bytes_per_s),
            table::number(device.writes_per_s),
            mib(device.written_bytes_per_s),
            device.errors,
            device.path
        );
        lines.push(if device.state == "ok" { Line::raw(row) } else { Line::styled(row, alarm) });
    }
    lines.extend(view.life.iter().flat_map(|line| folded(line, usize::from(columns))).map(Line::raw));
    for drive in &view.drives {
        let style = if drive.is_bad { alarm } else { Style::new() };
        lines.extend(folded(&drive.text, usize::from(columns)).into_iter().map(|line| Line::styled(line, style)));
    }
    lines.extend(heat_map(view, usize::from(columns)));
    lines
}

fn traffic_row(kind: &str, traffic: &Traffic) -> String {
    let bytes = table::cell(traffic.bytes_per_s, mib);
    let quantiles = match traffic.quantiles {
        Some(all) => all.map(time),
        None => [(); 4].map(|()| table::NONE.to_owned()),
    };
    let [p50, p99, p999, longest] = quantiles;
    let per_s = table::number(traffic.per_s);
    format!("{kind:<8} {per_s:>9} {bytes:>11} {p50:>9} {p99:>9} {p999:>9} {longest:>9}")
}

fn mib(bytes_per_s: f64) -> String {
    let text = mebibytes(bytes_per_s as u64);
    text.trim_end_matches("MiB").to_owned()
}

/// A time with three digits.
fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    format!("{} {unit}", table::number(value))
}

fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The line in as many as it needs, divided between words.
fn folded(line: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > columns {
            lines.push(format!("  {word}"));
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn heat_map(view: &View, columns: usize) -> Vec<Line<'static>> {
    if view.heat.is_empty() || columns == 0 {
        return Vec::new();
    }
    let columns = columns.min(MOST_HEAT_COLUMNS);
    let hottest = view.heat.iter().map(|heat| heat.reads + heat.writes).fold(0.0, f64::max);
    let row_bytes = Bytes(view.heat_part.0.saturating_mul(columns as u64));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let (reads, writes) = (Style::new().fg(Color::Cyan), Style::new().fg(Color::Magenta));
    let legend = Line::from(vec![
        Span::styled(format!("requests by place, {} a cell, {row_bytes} a row; ", view.heat_part), bold),
        Span::styled("mostly reads", reads),
        Span::raw(", "),
        Span::styled("mostly writes", writes),
    ]);
    let rows = view.heat.chunks(columns).map(|row| {
        Line::from_iter(row.iter().map(|heat| {
            let style = if heat.reads >= heat.writes { reads } else { writes };
            Span::styled(shade(heat.reads + heat.writes, hottest).to_string(), style)
        }))
    });
    std::iter::once(legend).chain(rows).collect()
}

/// The shades are logarithmic: each stands for eight times as many requests as the one before.
pub fn shade(all: f64, hottest: f64) -> char {
    const STEP: f64 = 8.0;
    // What has faded to less than this is cold.
    if all < 1e-3 {
        return SHADES[0];
    }
    let below = (hottest / all).log(STEP).floor().max(0.0);
    SHADES[(SHADES.len() - 1).saturating_sub(below as usize).max(1)]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::top::view::{DeviceRow, Heat, tests::sample};

    fn view() -> View {
        let now = Instant::now();
        View::between(Some(&sample(now, 1000)), &sample(now + Duration::from_secs(2), 3000), None)
    }

    #[test]
    fn a_screen_of_24_rows_shows_everything_of_two_devices() {
        let mut view = view();
        view.devices.push(DeviceRow {
            name: "a name that is long".into(),
            state: "outage".into(),
            ..DeviceRow::default()
        });
        view.warnings = vec!["OUTAGE: hdd".to_owned()];
        view.cache = vec![
            "dirty: 1.5GiB of at most 3GiB, the oldest for 12s; not cleaning now, 10.0MiB/s; clean in 3m if \
                           nothing is written"
                .to_owned(),
        ];
        view.heat = vec![Heat::default(); 256];
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen");
        terminal.draw(|frame| draw(frame, &view, "q ends")).expect("drawn");
        let text: String = terminal.backend().buffer().content.iter().map(|cell| cell.symbol()).collect();
        for part in ["discard", "OUTAGE: hdd", "if nothing is written", "a name that ", "a cell", "q ends"] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches(SHADES[0]).count(), 256, "{text}");
    }

    #[test]
    fn no_screen_is_too_small() {
        for (columns, rows) in [(1, 1), (3, 2), (20, 5), (500, 200)] {
            let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a screen");
            terminal.draw(|frame| draw(frame, &view(), "q ends")).expect("drawn");
        }
    }

    #[test]
    fn text_has_the_figures_and_nothing_that_a_terminal_obeys() {
        let text = as_text(&view());
        for part in ["v[2J: 1GiB healthy", "read      ", "1000", "1.00 us", "9.00 us", "hits: 25.0 %", "ssd", "█···"]
        {
            assert!(text.contains(part), "'{part}' is not in\n{text}");
        }
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
        assert!(text.lines().all(|line| line == line.trim_end()) && text.ends_with('\n'));
    }

    #[test]
    fn shades_are_logarithmic_and_the_coldest_part_in_use_is_visible() {
        let of = |reads: f64| shade(reads, 4096.0);
        assert_eq!([0.0, 0.01, 60.0, 100.0, 600.0, 4096.0].map(of), ['·', '░', '▒', '▓', '█', '█']);
    }
}
