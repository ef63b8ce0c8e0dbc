//! Tables for people, and the formatting of their figures.

use comfy_table::{CellAlignment, ColumnConstraint, LineStyle, TableStyle, Width};

use maud::{Markup, Render, html};
use peryton_units::SECONDS_PER_YEAR;

use crate::terminal;

/// What the reader of a page does with a table.
pub const SORTED: &str = "A click on a column's title sorts the rows by it; another one turns the order.";

/// The text in place of a figure that does not apply.
pub const NONE: &str = "–";

/// A line below the header and no other lines.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A share as a person says it: `12 %`, `0.3 %`.
pub fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Text is not wrapped to less than this where a column can be left out in its place.
const LEAST_TEXT: usize = 16;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To the right.
    Figures,
    /// To the left.
    Names,
    /// To the left, and wrapped between words where the table would be too wide.
    Text,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its title; may have several lines.
    title: String,
    kind: Kind,
    /// How much it matters: those that matter least are left out first, and of equal ones the last.
    matters: u8,
    cells: Vec<String>,
}

impl Column {
    /// A column of figures.
    pub fn figures(title: impl Into<String>, matters: u8) -> Column {
        Column { title: title.into(), kind: Kind::Figures, matters, cells: Vec::new() }
    }

    /// A column of names, which are never broken.
    pub fn names(title: impl Into<String>, matters: u8) -> Column {
        Column { kind: Kind::Names, ..Column::figures(title, matters) }
    }

    /// A column of text.
    pub fn text(title: impl Into<String>, matters: u8) -> Column {
        Column { kind: Kind::Text, ..Column::figures(title, matters) }
    }

    /// The widest line, and the longest word.
    fn widths(&self) -> (usize, usize) {
        let lines = || self.cells.iter().chain([&self.title]).flat_map(|cell| cell.lines());
        let widest = |text: &str| text.chars().count();
        (lines().map(widest).max().unwrap_or(0), lines().flat_map(str::split_whitespace).map(widest).max().unwrap_or(0))
    }

    /// The columns by which it may be narrowed.
    fn slack(&self) -> usize {
        let (widest, word) = self.widths();
        if self.kind == Kind::Text { widest.saturating_sub(word.max(LEAST_TEXT)) } else { 0 }
    }
}

/// A table, for a terminal and for a page. On a terminal it is no wider than the terminal, unless `--wide` asks for all of it: text is
/// wrapped first, and then columns are left out. On a page the reader sorts its rows by a click on a header (the page's script does it).
#[derive(Clone, Debug)]
pub struct Table(Vec<Column>);

/// A table whose first column is names and whose other columns are figures; on a narrow terminal the last columns are left out.
pub fn figures<S: AsRef<str>>(header: &[S]) -> Table {
    let column = |(index, title): (usize, &S)| match index {
        0 => Column::names(title.as_ref(), 0),
        _ => Column::figures(title.as_ref(), 0),
    };
    Table(header.iter().enumerate().map(column).collect())
}

/// A table of text; on a narrow terminal the last columns are left out.
pub fn text(header: &[&str]) -> Table {
    Table(header.iter().map(|title| Column::text(*title, 0)).collect())
}

impl Table {
    /// A table of these columns. The first one is always shown.
    pub fn of(columns: Vec<Column>) -> Table {
        Table(columns)
    }

    /// Adds a row, which has a cell for each column.
    pub fn add_row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut cells = cells.into_iter();
        for column in &mut self.0 {
            column.cells.push(cells.next().expect("a row has a cell for each column").into());
        }
        assert!(cells.next().is_none(), "a row has a cell for each column");
    }

    /// Leaves out the columns in which no row has anything.
    pub fn without_empty_columns(mut self) -> Table {
        self.0.retain(|column| column.cells.iter().any(|cell| cell != NONE));
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|column| column.cells.is_empty())
    }

    /// The table as text, as the terminal can show it, with a line that says how many columns are left out.
    pub fn shown(&self) -> String {
        let (text, left_out) = self.fitting(terminal::table_columns());
        match left_out {
            0 => text,
            1 => text + "1 column more with --wide\n",
            _ => text + &format!("{left_out} columns more with --wide\n"),
        }
    }

    /// The table no wider than this, if that can be, and the number of columns that are left out for it.
    fn fitting(&self, width: Option<usize>) -> (String, usize) {
        let mut kept: Vec<&Column> = self.0.iter().collect();
        loop {
            let whole = set(&kept, &[]);
            let (Some(width), widest) = (width, widest_line(&whole)) else { return (whole, 0) };
            let left_out = self.0.len() - kept.len();
            if widest <= width {
                return (whole, left_out);
            }
            let least = kept.iter().enumerate().skip(1).rev().min_by_key(|(_, column)| column.matters);
            let slack: usize = kept.iter().map(|column| column.slack()).sum();
            match least {
                Some((at, _)) if slack < widest - width => drop(kept.remove(at)),
                _ => return (set(&kept, &narrowed(&kept, widest - width)), left_out),
            }
        }
    }
}

impl Render for Table {
    fn render(&self) -> Markup {
        let class = |column: &Column| (column.kind != Kind::Figures).then_some("text");
        let figure = |column: &Column, row: usize| (column.kind == Kind::Figures).then(|| figure(&column.cells[row]));
        html! {
            div class="scroll" tabindex="0" role="region" aria-label="table" {
                table class="sortable" {
                    thead { tr { @for column in &self.0 { th scope="col" class=[class(column)] { (column.title.replace('\n', " ")) } } } }
                    tbody {
                        @for row in 0..self.0.first().map_or(0, |column| column.cells.len()) {
                            tr {
                                @for column in &self.0 {
                                    td class=[class(column)] data-value=[figure(column, row)] { (column.cells[row]) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The figure by which the rows of a page are sorted: the number at the start of a cell, in the smallest of its units. A cell without one
/// comes last.
fn figure(cell: &str) -> String {
    const UNITS: [(&str, f64); 12] = [
        ("µs", 1e-6),
        ("ms", 1e-3),
        ("min", 60.0),
        ("h", 3_600.0),
        ("days", 86_400.0),
        ("months", SECONDS_PER_YEAR / 12.0),
        ("y", SECONDS_PER_YEAR),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("GB", 1e9),
    ];
    let cell = cell.trim_start_matches(['~', '>', '±', ' ']).replace(',', "");
    let end = cell.find(|c: char| !c.is_ascii_digit() && !"+-.e".contains(c)).unwrap_or(cell.len());
    let Ok(number) = cell[..end].trim_end_matches('e').parse::<f64>() else { return String::new() };
    let unit = cell[end..].split_whitespace().next().unwrap_or_default();
    let factor = UNITS.iter().find(|(name, _)| unit == *name).map_or(1.0, |(_, factor)| *factor);
    (number * factor).to_string()
}

/// The widths of the columns of a table that has so many columns too many: the widest text is narrowed first.
fn narrowed(columns: &[&Column], mut excess: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = columns.iter().map(|column| column.widths().0).collect();
    let least: Vec<usize> = columns.iter().zip(&widths).map(|(column, width)| width - column.slack()).collect();
    while excess > 0 {
        let widest = (0..widths.len()).filter(|&at| widths[at] > least[at]).max_by_key(|&at| widths[at]);
        let Some(widest) = widest else { break };
        widths[widest] -= 1;
        excess -= 1;
    }
    widths
}

/// A table with a newline at the end, its columns no wider than these.
fn set(columns: &[&Column], widths: &[usize]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(STYLE).set_header(columns.iter().map(|column| column.title.as_str()));
    for row in 0..columns.iter().map(|column| column.cells.len()).min().unwrap_or(0) {
        table.add_row(columns.iter().map(|column| column.cells[row].as_str()));
    }
    let last = columns.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        let padding = if index == last { 0 } else { 2 };
        column.set_padding((0, padding));
        if columns[index].kind == Kind::Figures {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if let Some(width) = widths.get(index).and_then(|width| u16::try_from(*width).ok()) {
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(width + padding)));
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn widest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Three significant digits, without an exponent if possible.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !size.is_finite() => NONE.to_owned(),
        size if !(1e-3..1e9).contains(&size) => format!("{value:.2e}"),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A figure with half the width of its interval, in the digits that hold; `?` where its interval is not known.
pub fn estimate(value: f64, half_width: Option<f64>) -> String {
    let Some(half) = half_width else { return format!("{} \u{b1} ?", number(value)) };
    if half == 0.0 || !half.is_finite() {
        return number(value);
    }
    // One digit of the interval, two if the first is a 1.
    let place = half.log10().floor();
    let places = if half / 10f64.powf(place) < 2.0 { 1.0 - place } else { -place };
    let decimals = places.clamp(0.0, 6.0) as usize;
    let whole = 10f64.powf((-places).max(0.0));
    let rounded = |value: f64| if places < 0.0 { (value / whole).round() * whole } else { value };
    format!("{:.decimals$} \u{b1} {:.decimals$}", rounded(value), rounded(half))
}

/// What there is, as it is shown, or a dash.
pub fn cell<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), shown)
}

/// A share in percent, or a dash.
pub fn percent(share: Option<f64>) -> String {
    cell(share, |share| format!("{:.1}", share * 100.0))
}

/// A figure, or a dash.
pub fn optional(value: Option<f64>) -> String {
    cell(value, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: rows of a page are sorted by the first letters of their figures.
    #[test]
    fn on_a_page_a_cell_has_the_figure_by_which_it_is_sorted() {
        let mut table = Table::of(vec![Column::names("<b>", 1), Column::figures("x\ny", 1)]);
        for (name, cell) in [("a", "1.5 ms"), ("<i>", NONE), ("c", "12,300"), ("d", "2MiB *"), ("e", "> 1,000 y")] {
            table.add_row([name, cell]);
        }
        let text = table.render().into_string();
        for part in
            ["&lt;b&gt;", "&lt;i&gt;", ">x y<", "\"0.0015\"", "\"\"", "\"12300\"", "\"2097152\"", "\"31557600000\""]
        {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("<tr").count(), 6, "{text}");
    }

    #[test]
    fn figures_have_the_digits_that_hold() {
        let cases = [
            (6.6312, Some(0.0123), "6.631 \u{b1} 0.012"),
            (6.6312, Some(0.3), "6.6 \u{b1} 0.3"),
            (1234.5, Some(56.0), "1230 \u{b1} 60"),
            (0.5, Some(0.0), "0.500"),
            (42.0, None, "42.0 \u{b1} ?"),
        ];
        for (value, half, shown) in cases {
            assert_eq!(estimate(value, half), shown);
        }
    }

    fn header(table: &Table, width: Option<usize>) -> (String, usize) {
        let (text, left_out) = table.fitting(width);
        let words = text.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        (words.unwrap_or_default(), left_out)
    }

    #[test]
    fn a_table_that_is_too_wide_loses_what_matters_least() {
        let names = [("first", 0), ("b", 2), ("c", 1), ("d", 1)];
        let mut table = Table::of(names.map(|(title, matters)| Column::figures(title, matters)).into());
        table.add_row(["12345"; 4]);
        assert_eq!(header(&table, None), ("first b c d".to_owned(), 0));
        let whole = widest_line(&table.fitting(None).0);
        assert_eq!(table.fitting(Some(whole)), table.fitting(None));
        assert_eq!(header(&table, Some(whole - 1)), ("first b c".to_owned(), 1));
        assert_eq!(header(&table, Some(16)), ("first b".to_owned(), 2));
        assert_eq!(header(&table, Some(1)), ("first".to_owned(), 3));
    }

    #[test]
    fn text_is_wrapped_between_words_before_columns_are_left_out() {
        let mut table = Table::of(vec![Column::names("name", 9), Column::figures("n", 1), Column::text("about", 5)]);
        table.add_row(["a-name-of-21-letters *", "123456", "some words that have together 53 letters and commas, yes"]);
        let fits = |width: usize| {
            let (text, left_out) = table.fitting(Some(width));
            assert!(widest_line(&text) <= width, "{width}:\n{text}");
            assert!(text.contains("a-name-of-21-letters *"), "names are not broken:\n{text}");
            left_out
        };
        assert_eq!([90, 80, 60, 50].map(fits), [0, 0, 0, 1]);
        let (text, _) = table.fitting(Some(60));
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        let line = |text: &str| words(text).into_iter().filter(|word| !word.contains('─')).collect::<Vec<_>>();
        assert_eq!(line(&text), line(&table.fitting(None).0), "nothing is lost and no word broken:\n{text}");
    }

    #[test]
    #[should_panic(expected = "a cell for each column")]
    fn a_row_that_lacks_a_cell_is_refused() {
        figures(&["a", "b"]).add_row(["1"]);
    }

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (123_456.0, "123456"),
            (99.96, "100"),
            (12.345, "12.3"),
            (1.234, "1.23"),
            (0.0412, "0.041"),
            (1.5e-5, "1.50e-5"),
            (2.5e12, "2.50e12"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(optional(None), "–");
        assert_eq!(number(f64::NAN), "–");
    }
}
