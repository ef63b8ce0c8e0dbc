//! A table whose rows the reader sorts, without a script: each column has a choice in its header, and each row its place by
//! that column.

use maud::{Markup, PreEscaped, html};

/// A column: its title, and of each row the text and the place when sorted by the column, from 0.
pub struct Column {
    pub title: String,
    pub cells: Vec<(String, usize)>,
}

impl Column {
    /// A column of figures, the best first; those that are absent come last.
    pub fn figures(
        title: &str,
        values: &[Option<f64>],
        more_is_better: bool,
        show: impl Fn(Option<f64>) -> String,
    ) -> Column {
        let cost = |value: Option<f64>| match value.filter(|value| !value.is_nan()) {
            Some(value) if more_is_better => -value,
            Some(value) => value,
            None => f64::INFINITY,
        };
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by(|a, b| cost(values[*a]).total_cmp(&cost(values[*b])));
        let mut places = vec![0; values.len()];
        order.into_iter().enumerate().for_each(|(place, row)| places[row] = place);
        let cells = values.iter().zip(places).map(|(value, place)| (show(*value), place));
        Column { title: title.to_owned(), cells: cells.collect() }
    }

    /// A column of words; equal ones together, in the order in which they come first.
    pub fn words(title: &str, words: &[String]) -> Column {
        let first = |word: &String| words.iter().position(|other| other == word).unwrap_or(0);
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_key(|row| first(&words[*row]));
        let mut places = vec![0; words.len()];
        order.into_iter().enumerate().for_each(|(place, row)| places[row] = place);
        Column { title: title.to_owned(), cells: words.iter().cloned().zip(places).collect() }
    }
}

/// The table; it begins sorted by the first column.
pub fn table(columns: &[Column]) -> Markup {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let rules: String = (0..columns.len())
        .map(|index| format!(".sorted:has(#by{index}:checked) tbody tr {{ order: var(--by{index}); }}\n"))
        .collect();
    let places = |row: usize| {
        columns
            .iter()
            .enumerate()
            .map(|(index, column)| format!("--by{index}:{};", column.cells[row].1))
            .collect::<String>()
    };
    html! {
        style { (PreEscaped(rules)) }
        div class="scroll" {
            table class="sorted" role="table" style={ "grid-template-columns: repeat(" (columns.len()) ", max-content)" } {
                thead role="rowgroup" {
                    tr role="row" {
                        @for (index, column) in columns.iter().enumerate() {
                            th role="columnheader" {
                                label {
                                    input type="radio" name="sorted-by" id={ "by" (index) } checked[index == 0];
                                    (column.title)
                                }
                            }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for row in 0..rows {
                        tr role="row" style=(places(row)) {
                            @for column in columns { td role="cell" { (column.cells[row].0) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_places_by_each_column() {
        let places = |column: Column| column.cells.into_iter().map(|cell| cell.1).collect::<Vec<_>>();
        let values = [Some(2.0), None, Some(1.0), Some(f64::NAN), Some(2.0)];
        let show = |_: Option<f64>| String::new();
        assert_eq!(places(Column::figures("a", &values, false, show)), [1, 3, 0, 4, 2]);
        assert_eq!(places(Column::figures("a", &values, true, show)), [0, 3, 2, 4, 1]);
        let words = ["lru", "arc", "lru", "arc"].map(str::to_owned);
        assert_eq!(places(Column::words("a", &words)), [0, 2, 1, 3]);
        let text = table(&[Column::words("<b>", &words), Column::figures("x", &[None; 4], true, show)]).into_string();
        assert!(text.contains("&lt;b&gt;") && text.contains("--by0:2;--by1:1;") && text.matches("<tr").count() == 5);
        assert!(!table(&[]).into_string().contains("<td"));
    }
}
