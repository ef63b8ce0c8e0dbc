//! A key of a design with several values, which may be written as `KEY=VALUE,VALUE`.

/// A key and the values that it is to have, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValues {
    /// The dotted key.
    pub key: String,
    /// The values, written as in an override.
    pub values: Vec<String>,
}

impl KeyValues {
    /// Reads `KEY=VALUE,VALUE`; `None` if it is no such thing. A value may be a list or a table of TOML, or a text in quotes:
    /// commas in it do not separate values.
    pub fn parse(text: &str) -> Option<KeyValues> {
        let (key, values) = text.split_once('=')?;
        let values: Vec<String> = apart(values).into_iter().map(|value| value.trim().to_owned()).collect();
        let key = key.trim().to_owned();
        (!key.is_empty() && values.iter().all(|value| !value.is_empty())).then_some(KeyValues { key, values })
    }
}

/// A value as in an override, `KEY=VALUE`: a text as it is, unless TOML would read it as something else.
pub fn override_text(value: &toml::Value) -> String {
    let is_bare = |text: &&str| !text.is_empty() && text.trim() == *text && text.parse::<toml::Value>().is_err();
    value.as_str().filter(is_bare).map_or_else(|| value.to_string(), str::to_owned)
}

/// A combination of values of several keys; those of the last key change first.
pub(crate) fn combination(keys: &[impl AsRef<[String]>], mut number: usize) -> Vec<String> {
    let mut chosen: Vec<String> = Vec::with_capacity(keys.len());
    for values in keys.iter().map(AsRef::as_ref).rev() {
        chosen.push(values[number % values.len()].clone());
        number /= values.len();
    }
    chosen.reverse();
    chosen
}

/// Cuts at the commas that are not within brackets or quotes.
fn apart(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0i32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) => quote = (open != c).then_some(open),
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, ',') if depth <= 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_at_commas_that_are_not_part_of_them() {
        let values = |text: &str| KeyValues::parse(text).map(|found| found.values);
        let list = |values: &[&str]| Some(values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
        assert_eq!(values("a.b=1, 2,x y"), list(&["1", "2", "x y"]));
        assert_eq!(values("a={low=1,high=2},{ low = 3 }"), list(&["{low=1,high=2}", "{ low = 3 }"]));
        assert_eq!(values("a=[1,[2,3]],'x,y',\"]\",5"), list(&["[1,[2,3]]", "'x,y'", "\"]\"", "5"]));
        for text in ["a", "=1", "a=", "a=1,,2", "a=1,", ""] {
            assert_eq!(values(text), None, "{text}");
        }
        // What is not closed is one value, which the design will refuse.
        assert_eq!(values("a=[1,2"), list(&["[1,2"]));
    }
}
