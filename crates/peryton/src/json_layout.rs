//! The layout of JSON for people: indented, but lists of numbers and texts in one line.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// Indents objects, and lists of objects.
#[derive(Debug, Default)]
pub struct Layout {
    /// The objects and lists that are open.
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    is_list: bool,
    /// Whether its values have lines of their own.
    lined: bool,
}

impl Layout {
    fn new_line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b"\n")?;
        self.open.iter().try_for_each(|_| writer.write_all(b"  "))
    }

    /// Begins a line for a value of the innermost object or list.
    fn value_line<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if let Some(open) = self.open.last_mut() {
            open.lined = true;
        }
        self.new_line(writer)
    }

    fn end<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.open.pop().is_some_and(|open| open.lined) {
            self.new_line(writer)?;
        }
        writer.write_all(bracket)
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open.push(Open { is_list: true, lined: false });
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.open.last().is_some_and(|open| open.is_list) {
            self.value_line(writer)?;
        }
        self.open.push(Open { is_list: false, lined: false });
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.end(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.value_line(writer)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Serializer, Value, json};

    use super::*;

    #[test]
    fn objects_have_lines_and_numbers_share_one() {
        let value = json!({ "a": [1, 2.5, "x,"], "b": [{ "c": [], "d": {} }, { "e": [[1], [2]] }], "f": null });
        let mut text = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut text, Layout::default())).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "{",
            "  \"a\": [1,2.5,\"x,\"],",
            "  \"b\": [",
            "    {",
            "      \"c\": [],",
            "      \"d\": {}",
            "    },",
            "    {",
            "      \"e\": [[1],[2]]",
            "    }",
            "  ],",
            "  \"f\": null",
            "}",
        ];
        assert_eq!(lines, expected);
    }
}
