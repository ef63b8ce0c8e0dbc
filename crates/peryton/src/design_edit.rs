//! Writes settings into the text of a design, whose comments stay.

use toml_edit::{DocumentMut, Item, Table, Value};

/// The text with these settings (`placement.extent=64KiB`), each in its table.
///
/// # Errors
/// A setting that is none, or that would be in what is no table.
pub fn with_settings(text: &str, set: &[String]) -> Result<String, String> {
    if set.is_empty() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    for setting in set {
        let wrong = |problem: &str| format!("--set {setting}: {problem}");
        let (path, value) = setting.split_once('=').ok_or_else(|| wrong("write it as key=value"))?;
        let value = value.trim();
        let value = value.parse::<Value>().unwrap_or_else(|_| Value::from(value));
        let mut keys: Vec<&str> = path.split('.').map(str::trim).collect();
        let last = keys.pop().filter(|last| !last.is_empty() && keys.iter().all(|key| !key.is_empty()));
        let last = last.ok_or_else(|| wrong("the key is a dotted path such as placement.extent"))?;
        let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
        for key in keys {
            let below = table.entry(key).or_insert_with(|| {
                let mut new = Table::new();
                new.set_implicit(true);
                Item::Table(new)
            });
            table = below.as_table_like_mut().ok_or_else(|| wrong(&format!("{key} is not a table")))?;
        }
        table.insert(last, Item::Value(value));
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_go_into_their_tables_and_comments_stay() {
        let text = "# Mine.\n[devices.a]\npath = 'a' # here\n\n[placement]\nmode = 'single'\n";
        let set = ["placement.promotion.threshold=2", "devices.a.size=8GiB", "power.a.spin_down_after='5s'"];
        let edited = with_settings(text, &set.map(str::to_owned)).unwrap();
        assert!(edited.contains("# Mine.") && edited.contains("# here"), "{edited}");
        let table: toml::Table = edited.parse().unwrap();
        assert_eq!(table["placement"]["promotion"]["threshold"].as_integer(), Some(2), "{edited}");
        assert_eq!(table["devices"]["a"]["size"].as_str(), Some("8GiB"));
        assert_eq!(table["power"]["a"]["spin_down_after"].as_str(), Some("5s"));
        for (bad, why) in [("x", "key=value"), (".=1", "dotted path"), ("placement.mode.x=1", "mode is not a table")] {
            let error = with_settings(text, &[bad.to_owned()]).unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
    }
}
