//! Tables for people, and the formatting of their figures.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// The text in place of a figure that does not apply.
pub const NONE: &str = "–";

/// A line below the header and no other lines.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A table whose first column is text and whose other columns are figures.
pub fn figures(header: &[&str]) -> Table {
    let mut table = text(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A table of text.
pub fn text(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(header.to_vec());
    let last = header.len() - 1;
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
    }
    table
}

/// A table as text with a newline at the end.
pub fn shown(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A column of a table that need not be shown.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its title; may have several lines.
    pub title: String,
    /// How much it matters: those that matter least are left out first.
    pub matters: u8,
    /// Its cells.
    pub cells: Vec<String>,
}

/// A table that is no wider than this, if that can be, and the number of columns that are left out for it. The first column is
/// text and always there.
pub fn fitting(columns: &[Column], width: Option<usize>) -> (String, usize) {
    let mut kept: Vec<&Column> = columns.iter().collect();
    loop {
        let header: Vec<&str> = kept.iter().map(|column| column.title.as_str()).collect();
        let mut table = figures(&header);
        for row in 0..kept.iter().map(|column| column.cells.len()).min().unwrap_or(0) {
            table.add_row(kept.iter().map(|column| column.cells[row].as_str()));
        }
        let text = shown(&table);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        // Of equal columns the last one goes first.
        let least = kept.iter().enumerate().skip(1).rev().min_by_key(|(_, column)| column.matters).map(|(at, _)| at);
        match least {
            Some(at) if width.is_some_and(|width| widest > width) => {
                kept.remove(at);
            }
            _ => return (text, columns.len() - kept.len()),
        }
    }
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

/// A share in percent, or a dash.
pub fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |share| format!("{:.1}", share * 100.0))
}

/// A figure, or a dash.
pub fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "plan")]
    #[test]
    fn a_table_that_is_too_wide_loses_what_matters_least() {
        let column = |title: &str, matters| Column { title: title.into(), matters, cells: vec!["12345".into(); 2] };
        let columns = [column("first", 0), column("b", 2), column("c", 1), column("d", 1)];
        let shown = |width| fitting(&columns, width);
        let header =
            |width| shown(width).0.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        assert_eq!(header(None).as_deref(), Some("first b c d"));
        let whole = shown(None).0.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert_eq!(shown(Some(whole)).1, 0);
        assert_eq!((header(Some(whole - 1)).as_deref(), shown(Some(whole - 1)).1), (Some("first b c"), 1));
        assert_eq!(header(Some(16)).as_deref(), Some("first b"));
        assert_eq!((header(Some(1)).as_deref(), shown(Some(1)).1), (Some("first"), 3));
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
