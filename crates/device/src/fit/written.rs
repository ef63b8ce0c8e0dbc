//! The text of a fitted profile, with where each of its values comes from.

use std::fmt::Write as _;

use peryton_units::Bytes;

use super::Kind;
use crate::{DataSheet, Profile, ProfileError};

/// What becomes a profile.
pub(super) struct Written<'a> {
    pub name: &'a str,
    pub kind: Kind,
    pub capacity: Bytes,
    /// The only entry of its list of sources.
    pub source: String,
    pub description: String,
    /// The model's values that differ from those of the template.
    pub values: &'a toml::Table,
    /// The keys of values that were fitted, and to what.
    pub fitted: &'a [&'a str],
    pub fitted_to: &'a str,
    /// What is said of the capacity.
    pub capacity_is: &'a str,
    /// Figures that were measured, and on what.
    pub measured: Option<(&'a DataSheet, &'a str)>,
}

impl Written<'_> {
    /// The text.
    pub fn text(&self) -> Result<String, ProfileError> {
        let bad = |what: String| ProfileError::Parse { place: self.name.to_owned(), what };
        let mut table: toml::Table =
            blank(self.kind, self.capacity).parse().map_err(|error| bad(format!("{error}")))?;
        let model = self.kind.table();
        if let Some(toml::Value::Table(model)) = table.get_mut(model) {
            replace(model, self.values);
        }
        let text = |text: &str| toml::Value::String(text.to_owned());
        table.insert("name".into(), text(self.name));
        table.insert("description".into(), text(&one_line(&self.description)));
        table.insert("sources".into(), toml::Value::Array(vec![text(&one_line(&self.source))]));
        if let Some((figures, _)) = self.measured {
            let figures = toml::Value::try_from(figures).map_err(|error| bad(error.to_string()))?;
            table.insert("measured".into(), figures);
        }
        let mut out = String::new();
        // Plain values come before tables in TOML.
        let (tables, plain): (Vec<_>, Vec<_>) = table.into_iter().partition(|(_, value)| value.is_table());
        let ordered = toml::Table::from_iter(plain.into_iter().chain(tables));
        out += &toml::to_string(&ordered).map_err(|error| bad(error.to_string()))?;
        let (mut fitted, mut rest, mut measured) = (Vec::new(), Vec::new(), Vec::new());
        let profile = Profile::parse(&out, self.name)?;
        for (path, _) in profile.provenance.values() {
            if path.starts_with("measured.") {
                measured.push(path.to_owned());
            }
            let Some(inner) = path.strip_prefix(model).and_then(|rest| rest.strip_prefix('.')) else { continue };
            let is = |key: &&str| inner == *key || inner.strip_prefix(*key).is_some_and(|rest| rest.starts_with('.'));
            if self.fitted.iter().any(is) { fitted.push(path.to_owned()) } else { rest.push(path.to_owned()) }
        }
        let _ = writeln!(out, "\n[provenance]");
        let mut say = |paths: &[String], what: &str| {
            if !paths.is_empty() {
                let _ = writeln!(out, "{} = \"{what}\"", toml::Value::String(paths.join(", ")));
            }
        };
        say(&fitted, &format!("fitted: to {}", self.fitted_to));
        say(&rest, "estimated: usual for such a device; latencies say nothing about it");
        if let Some((_, what)) = self.measured {
            say(&measured, &format!("measured [1]: {what}"));
        }
        say(&["capacity".to_owned()], self.capacity_is);
        Ok(out)
    }
}

/// The profile before it is fitted.
pub(super) fn blank(kind: Kind, capacity: Bytes) -> String {
    let text = kind.template().replacen("class =", &format!("capacity = \"{}B\"\nclass =", capacity.0), 1);
    text.replace("capacity = \"1GiB\"", &format!("capacity = \"{}B\"", capacity.0))
}

pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

fn replace(table: &mut toml::Table, values: &toml::Table) {
    for (key, value) in values {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) if !new.contains_key("after_read") => {
                replace(old, new)
            }
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}
