//! Where each value of a profile comes from.
//!
//! ```toml
//! sources = ["a data sheet", "a review"]
//!
//! [provenance]
//! "capacity, data_sheet.*" = "published [1]"
//! "data_sheet.rand_read_ms" = "measured [2]: one request at a time"
//! "flash.interface_mb_per_s" = "fitted to seq_read_mb_per_s"
//! "flash.read, flash.program" = "estimated: usual for TLC of that year"
//! ```
//!
//! A key names values, or a table of them with `.*`. The longest key that fits a value counts. A model as a whole (`flash.*`) is not
//! accepted: each of its values needs a line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use serde::{Serialize, Serializer};

use crate::nearest::nearest;

/// How a value came to be in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A document states it.
    Published,
    /// A document measured it.
    Measured,
    /// Chosen so that the model gives figures that are published or measured.
    Fitted,
    /// Neither: what is usual for such a device, or remembered.
    Estimated,
    /// The user's own, or the definition of a device that does not exist.
    Given,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Published => "published",
            Origin::Measured => "measured",
            Origin::Fitted => "fitted",
            Origin::Estimated => "estimated",
            Origin::Given => "given",
        })
    }
}

/// What is said of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How it came to be.
    pub origin: Origin,
    /// The document, counted from 1 in the profile's `sources`.
    pub document: Option<usize>,
    /// Keys of `[data_sheet]` (or of `[measured]`) that it was fitted to.
    pub fitted_to: Vec<String>,
    /// Where in the document, or why.
    pub note: String,
}

impl Statement {
    fn given() -> Statement {
        Statement { origin: Origin::Given, document: None, fitted_to: Vec::new(), note: "the design's".to_owned() }
    }

    fn parse(text: &str, documents: usize) -> Result<Statement, String> {
        let (head, note) = text.split_once(':').map_or((text, ""), |(head, note)| (head, note.trim()));
        let head = head.trim();
        let (word, rest) = head.split_once(' ').map_or((head, ""), |(word, rest)| (word, rest.trim()));
        let mut statement = Statement {
            origin: match word {
                "published" => Origin::Published,
                "measured" => Origin::Measured,
                "fitted" => Origin::Fitted,
                "estimated" => Origin::Estimated,
                "given" => Origin::Given,
                _ => return Err("begin with published, measured, fitted, estimated or given".to_owned()),
            },
            document: None,
            fitted_to: Vec::new(),
            note: note.to_owned(),
        };
        match statement.origin {
            Origin::Published | Origin::Measured => {
                let number = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
                let number: usize = number.parse().unwrap_or(0);
                if !(1..=documents).contains(&number) {
                    return Err(format!("say in which of the {documents} sources, such as '{word} [1]'"));
                }
                statement.document = Some(number);
            }
            Origin::Fitted => {
                if let Some(keys) = rest.strip_prefix("to ") {
                    statement.fitted_to = keys.split(',').map(|key| key.trim().to_owned()).collect();
                } else if !rest.is_empty() || note.is_empty() {
                    return Err("say to what, such as 'fitted to seq_read_mb_per_s'".to_owned());
                }
            }
            Origin::Estimated | Origin::Given => {
                if !rest.is_empty() || note.is_empty() {
                    return Err(format!("say why after a colon, such as '{word}: usual for TLC'"));
                }
            }
        }
        Ok(statement)
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(number) = self.document {
            write!(f, " [{number}]")?;
        }
        if !self.fitted_to.is_empty() {
            write!(f, " to {}", self.fitted_to.join(", "))?;
        }
        if !self.note.is_empty() {
            write!(f, ": {}", self.note)?;
        }
        Ok(())
    }
}

/// A value of a profile and what is said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced {
    /// As the file has it.
    pub value: toml::Value,
    /// Absent where the file says nothing.
    pub statement: Option<Arc<Statement>>,
}

/// All values of a profile by their path, such as `flash.read`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    values: BTreeMap<String, Sourced>,
}

/// Keys of a file that are no values of the device: descriptions, and the provenance itself.
const NO_VALUES: [&str; 6] = ["name", "description", "class", "sources", "provenance", "price_class"];
/// Tables whose values need statements of their own, or for their inner tables.
const MODELS: [&str; 2] = ["disk", "flash"];

impl Provenance {
    /// Of a whole profile; `table` still has `[provenance]`. What a family says of a value need not be true of a member that has no such value.
    pub(crate) fn of_file(table: &toml::Table, documents: usize, is_family: bool) -> Result<Provenance, String> {
        let mut values = BTreeMap::new();
        for (key, value) in table.iter().filter(|(key, _)| !NO_VALUES.contains(&key.as_str())) {
            collect(key, value, &mut values);
        }
        let mut provenance = Provenance { values };
        match table.get("provenance") {
            None => {}
            Some(toml::Value::Table(said)) => provenance.say(said, documents, is_family)?,
            Some(_) => return Err("provenance: write a table of values and where they come from".to_owned()),
        }
        Ok(provenance)
    }

    fn say(&mut self, said: &toml::Table, documents: usize, is_family: bool) -> Result<(), String> {
        // Longer patterns come later, so that they replace what shorter ones said.
        let mut patterns: Vec<(&str, Arc<Statement>)> = Vec::new();
        for (keys, text) in said {
            let fail = |what: &str| format!("provenance of '{keys}': {what}");
            let Some(text) = text.as_str() else {
                return Err(fail("write a text such as \"published [1]\", and values with a dot in quotation marks"));
            };
            let statement = Arc::new(Statement::parse(text, documents).map_err(|what| fail(&what))?);
            patterns.extend(keys.split(',').map(|key| (key.trim(), Arc::clone(&statement))));
        }
        patterns.sort_by_key(|(pattern, _)| (pattern.len(), *pattern));
        for (pattern, statement) in patterns {
            let path = pattern.strip_suffix(".*").unwrap_or(pattern);
            if MODELS.contains(&path) {
                return Err(format!(
                    "provenance of '{pattern}': say it of each value of [{path}], or of its inner tables"
                ));
            }
            let mut known = false;
            for (value, sourced) in &mut self.values {
                if covers(path, value) {
                    sourced.statement = Some(Arc::clone(&statement));
                    known = true;
                }
            }
            if !known && !is_family {
                let near = nearest(path, self.values.keys().map(String::as_str));
                let hint = near.map_or(String::new(), |near| format!(": did you mean '{near}'?"));
                return Err(format!("provenance of '{path}': the profile has no such value{hint}"));
            }
        }
        Ok(())
    }

    /// Values of the model that a design replaces.
    pub(crate) fn given(&mut self, model: &str, overrides: &toml::Table) {
        let mut values = BTreeMap::new();
        overrides.iter().for_each(|(key, value)| collect(&format!("{model}.{key}"), value, &mut values));
        let statement = Arc::new(Statement::given());
        for (path, sourced) in values {
            self.values.insert(path, Sourced { statement: Some(Arc::clone(&statement)), ..sourced });
        }
    }

    /// A value that the file does not have, or has otherwise, and why it is that.
    pub(crate) fn set(&mut self, path: &str, value: toml::Value, origin: Origin, note: String) {
        let statement = Statement { origin, document: None, fitted_to: Vec::new(), note };
        self.values.insert(path.to_owned(), Sourced { value, statement: Some(Arc::new(statement)) });
    }

    /// Every value, in the order of the paths.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Sourced)> {
        self.values.iter().map(|(path, sourced)| (path.as_str(), sourced))
    }

    /// What is said of a value.
    pub fn of(&self, path: &str) -> Option<&Statement> {
        self.values.get(path)?.statement.as_deref()
    }

    /// The paths of the values that came about in this way.
    pub fn with(&self, origin: Origin) -> impl Iterator<Item = &str> {
        let is = move |sourced: &Sourced| sourced.statement.as_ref().is_some_and(|said| said.origin == origin);
        self.values().filter(move |(_, sourced)| is(sourced)).map(|(path, _)| path)
    }

    /// The paths of the values without a line.
    pub fn unsaid(&self) -> impl Iterator<Item = &str> {
        self.values().filter(|(_, sourced)| sourced.statement.is_none()).map(|(path, _)| path)
    }

    /// The keys of `[data_sheet]` that values of the model were fitted to.
    pub fn fitted_to(&self) -> BTreeSet<&str> {
        let said = self.values.values().filter_map(|sourced| sourced.statement.as_deref());
        said.flat_map(|statement| statement.fitted_to.iter().map(String::as_str)).collect()
    }
}

fn covers(pattern: &str, path: &str) -> bool {
    path.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Tables are gone through, all else is a value; so are the pairs of overheads, which are said in one line.
fn collect(path: &str, value: &toml::Value, values: &mut BTreeMap<String, Sourced>) {
    match value {
        toml::Value::Table(table) if !table.contains_key("after_read") => {
            table.iter().for_each(|(key, value)| collect(&format!("{path}.{key}"), value, values));
        }
        value => {
            values.insert(path.to_owned(), Sourced { value: value.clone(), statement: None });
        }
    }
}

impl Serialize for Provenance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            value: &'a toml::Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            origin: Option<Origin>,
            #[serde(skip_serializing_if = "Option::is_none")]
            document: Option<usize>,
            #[serde(skip_serializing_if = "<[_]>::is_empty")]
            fitted_to: &'a [String],
            #[serde(skip_serializing_if = "str::is_empty")]
            note: &'a str,
        }
        serializer.collect_map(self.values.iter().map(|(path, sourced)| {
            let said = sourced.statement.as_deref();
            let row = Row {
                value: &sourced.value,
                origin: said.map(|said| said.origin),
                document: said.and_then(|said| said.document),
                fitted_to: said.map_or(&[], |said| &said.fitted_to),
                note: said.map_or("", |said| &said.note),
            };
            (path, row)
        }))
    }
}
