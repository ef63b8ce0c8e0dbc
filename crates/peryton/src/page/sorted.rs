//! A table whose rows the reader sorts by a click on a header (the page's script does it).

use maud::{Markup, html};
use peryton_units::Bytes;

use crate::table;

/// What the reader does with a table.
pub const ABOUT: &str = "A click on a column's title sorts the rows by it; another one turns the order.";

/// A cell: its text, and the figure by which it is sorted, if it is not the text.
type Cell = (String, Option<f64>);

/// A column: its title, and its cells.
pub struct Column {
    title: String,
    cells: Vec<Cell>,
    is_text: bool,
}

impl Column {
    /// A column of figures; those that are absent come last.
    pub fn figures(title: &str, values: &[Option<f64>]) -> Column {
        let cell = |value: &Option<f64>| (table::optional(*value), value.filter(|value| !value.is_nan()));
        Column { title: title.to_owned(), cells: values.iter().map(cell).collect(), is_text: false }
    }

    /// A column of counts.
    #[cfg(feature = "plan")]
    pub fn counts(title: &str, values: &[u64]) -> Column {
        let cells = values.iter().map(|value| (value.to_string(), Some(*value as f64))).collect();
        Column { title: title.to_owned(), cells, is_text: false }
    }

    /// A column of sizes.
    pub fn sizes(title: &str, values: &[Bytes]) -> Column {
        let cells = values.iter().map(|value| (value.to_string(), Some(value.0 as f64))).collect();
        Column { title: title.to_owned(), cells, is_text: false }
    }

    /// A column of words.
    pub fn words(title: &str, words: &[String]) -> Column {
        let cells = words.iter().map(|word| (word.clone(), None)).collect();
        Column { title: title.to_owned(), cells, is_text: true }
    }
}

/// The table.
pub fn table(columns: &[Column]) -> Markup {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="table" {
            table class="sortable" {
                thead { tr { @for column in columns { th scope="col" class=[column.is_text.then_some("text")] { (column.title) } } } }
                tbody {
                    @for row in 0..rows {
                        tr {
                            @for column in columns {
                                @let (text, figure) = &column.cells[row];
                                td class=[column.is_text.then_some("text")]
                                    data-value=[if column.is_text { None } else { Some(figure.map_or_else(String::new, |figure| figure.to_string())) }] { (text) }
                            }
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
    fn cells_have_the_figures_by_which_they_are_sorted() {
        let values = [Some(1234.567), None, Some(f64::NAN)];
        let text =
            table(&[Column::words("<b>", &["a".into(), "<i>".into(), "c".into()]), Column::figures("x", &values)]);
        let text = text.into_string();
        assert!(text.contains("&lt;b&gt;") && text.contains("&lt;i&gt;") && text.matches("<tr").count() == 4, "{text}");
        assert!(text.contains("data-value=\"1234.567\"") && text.matches("data-value=\"\"").count() == 2, "{text}");
        assert!(!table(&[]).into_string().contains("<td"));
    }
}
