use std::{fmt::Display, path::Path};

/// A specification that cannot be read, or from which no trace can be drawn. The message is one line, with the key and
/// the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The specification.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The text is not a specification: a syntax error, an unknown key, a value of the wrong kind.
    #[error("{place}: {message}")]
    Text {
        /// File and line.
        place: String,
        /// The problem, and the accepted form.
        message: String,
    },
    /// The values cannot be met by any trace.
    #[error("{place}: {key}: {message}")]
    Value {
        /// The file.
        place: String,
        /// The key, with dots.
        key: String,
        /// The problem, and the remedy.
        message: String,
    },
}

/// A value that cannot be met, before the file's name is known.
#[derive(Debug)]
pub(super) struct Wrong {
    key: String,
    message: String,
}

impl Wrong {
    pub(super) fn new(key: impl Into<String>, message: impl Display) -> Wrong {
        Wrong { key: key.into(), message: message.to_string() }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The same error, for a key below the table `table`.
    pub(super) fn under(self, table: &str) -> Wrong {
        if table.is_empty() { self } else { Wrong { key: format!("{table}.{}", self.key), ..self } }
    }

    pub(super) fn in_file(self, place: &str) -> SynthError {
        SynthError::Value { place: place.to_owned(), key: self.key, message: self.message }
    }
}

/// Returns `value` if it is a share.
pub(super) fn share(key: &str, value: f64) -> Result<f64, Wrong> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    Err(Wrong::new(key, format!("is {value}, expected a share from 0 to 1")))
}

/// Turns an error of the TOML reader into one line that suggests the nearest key.
pub(super) fn text_error(path: &Path, text: &str, error: &toml::de::Error) -> SynthError {
    let place = match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            format!("{}:{}", path.display(), before.matches('\n').count() + 1)
        }
        None => path.display().to_string(),
    };
    let flat = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let message = suggestion(&flat).unwrap_or(flat);
    SynthError::Text { place, message }
}

/// Rewrites serde's ``unknown field `x`, expected one of `a`, `b` `` to name the nearest.
fn suggestion(message: &str) -> Option<String> {
    let kind = if message.starts_with("unknown field") { "key" } else { "kind" };
    message.strip_prefix("unknown field").or_else(|| message.strip_prefix("unknown variant"))?;
    let mut quoted = message.split('`').skip(1).step_by(2);
    let given = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    let nearest = known.iter().min_by_key(|key| distance(given, key))?;
    let listed = known.join(", ");
    if distance(given, nearest) <= given.chars().count().max(nearest.chars().count()) / 2 {
        Some(format!("unknown {kind} '{given}': did you mean '{nearest}'? (known: {listed})"))
    } else {
        Some(format!("unknown {kind} '{given}': expected one of {listed}"))
    }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
