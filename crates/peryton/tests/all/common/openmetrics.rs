//! A strict reader of OpenMetrics 1.0, as far as servers of volumes use it.

use std::collections::{BTreeMap, BTreeSet};

/// A metric with its samples.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub unit: Option<String>,
    /// By the name with the suffix, and the labels in the order of their names.
    pub samples: BTreeMap<(String, Vec<(String, String)>), f64>,
}

/// All metrics of a page by their names.
#[derive(Debug)]
pub struct Page(pub BTreeMap<String, Family>);

impl Page {
    /// The value of the sample with these labels, among others.
    pub fn value(&self, sample: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |all: &[(String, String)]| {
            labels.iter().all(|(name, value)| all.iter().any(|(other, is)| other == name && is == value))
        };
        let mut found =
            self.0.values().flat_map(|family| &family.samples).filter(|((name, all), _)| name == sample && has(all));
        let value = found.next().map(|(_, value)| *value);
        assert!(found.next().is_none(), "{sample} {labels:?} is ambiguous");
        value
    }

    /// The sum of all samples with this name.
    pub fn sum(&self, sample: &str) -> f64 {
        self.0
            .values()
            .flat_map(|family| &family.samples)
            .filter(|((name, _), _)| name == sample)
            .map(|(_, value)| value)
            .sum()
    }
}

/// Reads a page; returns what is wrong with it otherwise.
pub fn parse(text: &str) -> Result<Page, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut described = BTreeSet::new();
    for line in body.split_terminator('\n') {
        let wrong = |what: &str| format!("{what}: {line}");
        if line.is_empty() || line.ends_with(' ') || line.contains('\r') {
            return Err(wrong("a bad line"));
        }
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (word, name, value) = (words.next(), words.next(), words.next());
            let (Some(word), Some(name), Some(value)) = (word, name, value) else { return Err(wrong("a bad comment")) };
            check_name(name, true).map_err(|what| wrong(&what))?;
            if name != current {
                if families.contains_key(name) {
                    return Err(wrong("families are mixed"));
                }
                current = name.to_owned();
                families.insert(current.clone(), Family::default());
            }
            if !described.insert((word.to_owned(), name.to_owned())) {
                return Err(wrong("it is described twice"));
            }
            let family = families.get_mut(name).expect("it was just added");
            if !family.samples.is_empty() {
                return Err(wrong("it is described after its samples"));
            }
            match word {
                "TYPE" if ["counter", "gauge", "histogram", "info"].contains(&value) => family.kind = value.to_owned(),
                "HELP" => family.help = value.to_owned(),
                "UNIT" if name.ends_with(&format!("_{value}")) => family.unit = Some(value.to_owned()),
                _ => return Err(wrong("a bad description")),
            }
            continue;
        }
        let (name, labels, value) = sample(line).map_err(|what| wrong(&what))?;
        let family = families.get_mut(&current).ok_or_else(|| wrong("a sample without a family"))?;
        let suffix = name.strip_prefix(current.as_str()).ok_or_else(|| wrong("a sample of another family"))?;
        let allowed: &[&str] = match family.kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            _ => return Err(wrong("a family without a type")),
        };
        if !allowed.contains(&suffix) {
            return Err(wrong("a sample that its type does not have"));
        }
        if value.is_nan() || (family.kind != "gauge" && !(value >= 0.0 && value.is_finite())) {
            return Err(wrong("a bad value"));
        }
        if family.samples.insert((name, labels), value).is_some() {
            return Err(wrong("the same sample twice"));
        }
    }
    for (name, family) in &families {
        if family.samples.is_empty() || family.help.is_empty() || family.kind.is_empty() {
            return Err(format!("{name}: it has no samples, help or type"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(Page(families))
}

fn check_name(name: &str, colons: bool) -> Result<(), String> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || (colons && letter == ':');
    let starts = name.starts_with(|first: char| !first.is_ascii_digit());
    if starts && name.chars().all(good) { Ok(()) } else { Err(format!("the name '{name}'")) }
}

type LabelSet = Vec<(String, String)>;
type Sample = (String, LabelSet, f64);

fn sample(line: &str) -> Result<Sample, String> {
    let (name, rest) = line.split_at(line.find(['{', ' ']).ok_or("no value")?);
    check_name(name, true)?;
    let (mut labels, mut rest) = (Vec::new(), rest);
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"").ok_or("a bad label")?;
            check_name(label, false)?;
            let mut text = String::new();
            let mut letters = value.char_indices();
            let end = loop {
                match letters.next().ok_or("a label without an end")? {
                    (_, '\\') => text.push(match letters.next() {
                        Some((_, 'n')) => '\n',
                        Some((_, other @ ('\\' | '"'))) => other,
                        _ => return Err("a bad escape".to_owned()),
                    }),
                    (at, '"') => break at + 1,
                    (_, other) => text.push(other),
                }
            };
            labels.push((label.to_owned(), text));
            rest = &value[end..];
            rest = match rest.strip_prefix(',') {
                Some(more) if !more.starts_with('}') => more,
                Some(_) => return Err("a comma at the end".to_owned()),
                None if rest.starts_with('}') => rest,
                None => return Err("no comma between labels".to_owned()),
            };
        }
        rest = &rest[1..];
    }
    labels.sort();
    if labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a label twice".to_owned());
    }
    let number = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let known = number.chars().all(|letter| letter.is_ascii_digit() || "+-.eE".contains(letter));
    let value = if known { number.parse().map_err(|_| "a bad number")? } else { return Err("a bad number".to_owned()) };
    Ok((name.to_owned(), labels, value))
}

/// Checks that buckets are cumulative, and that the last one has all.
fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut groups: BTreeMap<LabelSet, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), value) in &family.samples {
        if sample.ends_with("_bucket") {
            let bound =
                labels.iter().find(|(label, _)| label == "le").ok_or(format!("{name}: a bucket without a bound"))?;
            let bound = if bound.1 == "+Inf" {
                f64::INFINITY
            } else {
                bound.1.parse().map_err(|_| format!("{name}: a bad bound"))?
            };
            let others = labels.iter().filter(|(label, _)| label != "le").cloned().collect();
            groups.entry(others).or_default().push((bound, *value));
        }
    }
    for (labels, mut buckets) in groups {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        if !buckets.is_sorted_by(|one, other| one.1 <= other.1) {
            return Err(format!("{name} {labels:?}: its buckets are not cumulative"));
        }
        let count = family.samples.get(&(format!("{name}_count"), labels.clone()));
        let last = buckets.last().filter(|(bound, _)| bound.is_infinite()).map(|(_, value)| value);
        if count.is_none() || count != last || !family.samples.contains_key(&(format!("{name}_sum"), labels.clone())) {
            return Err(format!("{name} {labels:?}: the last bucket has not all"));
        }
    }
    Ok(())
}

/// Shows that the reader itself is strict.
pub fn refuses_what_is_wrong() {
    let good =
        "# HELP a_bytes Help\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"\\\"\"} 1\n# EOF\n";
    parse(good).expect("it is valid");
    for (from, to) in [
        ("# EOF\n", "# EOF"),
        ("# EOF\n", "# EOF\n\n"),
        ("_total", ""),
        ("counter", "counters"),
        ("# UNIT a_bytes bytes", "# UNIT a_bytes seconds"),
        (" 1\n", " NaN\n"),
        (" 1\n", " -1\n"),
        (" 1\n", " 1\na_bytes_total{x=\"\\\"\"} 1\n"),
        ("\\\"\"}", "\\q\"}"),
        ("\\\"\"}", "\\\"\",}"),
        ("# HELP a_bytes Help\n", ""),
        ("# EOF", "b 1\n# EOF"),
    ] {
        assert!(parse(&good.replacen(from, to, 1)).is_err(), "'{from}' → '{to}' was taken for valid");
    }
}
