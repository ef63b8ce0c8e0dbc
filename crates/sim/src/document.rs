//! A TOML document in which every value carries the place where it was written, for error messages.

use std::{
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};

use peryton_units::{Bytes, Nanos};
use toml::de::{DeTable, DeValue};

use crate::{DesignError, design::key::Key};

/// The largest design file; a design is about a page of text.
const LARGEST_FILE: u64 = 1 << 20;
/// The most designs inside each other. A request passes through an engine for each.
const MOST_NESTED: usize = 8;

/// The place in which a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A line of the file, counted from 1.
    Line(usize),
    /// A line of another file, which the file names as the design of a device.
    Of(Arc<str>, usize),
    /// On the command line, as this override.
    Override(usize, String),
    /// The value is not written anywhere.
    Absent,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    place: Place,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    /// The keys in the order of the file.
    Table(Vec<(String, Node)>),
    Leaf(toml::Value),
}

/// A file with its overrides applied.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) file: String,
    root: Node,
}

impl Document {
    pub(crate) fn read(path: &Path) -> Result<Document, DesignError> {
        Document::parse(&Document::text(path)?, path.display().to_string())
    }

    /// The text of a file that may be a design.
    pub(crate) fn text(path: &Path) -> Result<String, DesignError> {
        let file = path.display().to_string();
        let failed = |source| DesignError::Read { file: file.clone(), source };
        let about = std::fs::metadata(path).map_err(failed)?;
        if !about.is_file() {
            return Err(DesignError::NotADesign { file, why: "not a regular file" });
        }
        if about.len() > LARGEST_FILE {
            return Err(DesignError::NotADesign { file, why: "larger than 1MiB" });
        }
        let bytes = std::fs::read(path).map_err(failed)?;
        String::from_utf8(bytes).map_err(|_| DesignError::NotADesign { file, why: "not text" })
    }

    pub(crate) fn parse(text: &str, file: String) -> Result<Document, DesignError> {
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let line = |at: usize| starts.partition_point(|start| *start <= at);
        match DeTable::parse(text) {
            Ok(table) => {
                let value = Value::Table(entries(table.into_inner(), &line));
                Ok(Document { file, root: Node { place: Place::Absent, value } })
            }
            Err(error) => {
                let place = format!("{file}:{}", line(error.span().map_or(0, |span| span.start)));
                Err(DesignError::Syntax { place, problem: one_line(error.message()) })
            }
        }
    }

    /// Sets a dotted key to a TOML value, or to a bare string if the text is not a TOML value.
    pub(crate) fn set(&mut self, index: usize, text: &str) -> Result<(), DesignError> {
        let wrong = |problem: &str| DesignError::Override { text: one_line(text), problem: problem.to_owned() };
        let (path, value) = text.split_once('=').ok_or_else(|| wrong("write it as key=value"))?;
        let path: Vec<&str> = path.split('.').map(str::trim).collect();
        // The TOML parser has the same limit of depth.
        if path.len() > 80 || path.iter().any(|key| key.is_empty()) {
            return Err(wrong("the key is a dotted path such as placement.promotion.threshold"));
        }
        if path.len() > 3 && path[0] == "devices" && path[2] == "design" {
            self.include_designs()?;
        }
        let place = Place::Override(index, one_line(text));
        let value = match DeValue::parse(value.trim()) {
            Ok(value) => Node::new(value.into_inner(), place.clone(), &|_| place.clone()),
            Err(_) => Node { place: place.clone(), value: Value::Leaf(toml::Value::String(value.trim().to_owned())) },
        };
        let mut node = &mut self.root;
        for (depth, key) in path.iter().enumerate() {
            let Value::Table(entries) = &mut node.value else {
                return Err(wrong(&format!("{} is not a table", path[..depth].join("."))));
            };
            let at = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
                entries.push(((*key).to_owned(), Node { place: place.clone(), value: Value::Table(Vec::new()) }));
                entries.len() - 1
            });
            node = &mut entries[at].1;
        }
        *node = value;
        Ok(())
    }

    /// Puts the design of each device, where it is named by its file, in the place of that name; and so in these designs.
    pub(crate) fn include_designs(&mut self) -> Result<(), DesignError> {
        let mut files = Vec::from_iter(std::fs::canonicalize(&self.file));
        include(&self.file, &mut self.root, &mut files, 0)
    }

    /// The document with its overrides, except those in `ignored`, as TOML without comments.
    pub(crate) fn to_toml(&self, ignored: &[usize]) -> String {
        fn value(node: &Node, ignored: &[usize]) -> toml::Value {
            let kept = |node: &Node| !matches!(node.place, Place::Override(index, _) if ignored.contains(&index));
            match &node.value {
                Value::Leaf(leaf) => leaf.clone(),
                Value::Table(entries) => {
                    let below = entries.iter().filter(|(_, below)| kept(below));
                    toml::Value::Table(below.map(|(name, below)| (name.clone(), value(below, ignored))).collect())
                }
            }
        }
        toml::to_string(&value(&self.root, ignored)).expect("what was read as TOML can be written as TOML")
    }

    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys {
            document: self,
            path: String::new(),
            place: &Place::Absent,
            entries: self.entries(),
            asked: Vec::new(),
            without: None,
        }
    }

    fn entries(&self) -> &[(String, Node)] {
        match &self.root.value {
            Value::Table(entries) => entries,
            Value::Leaf(_) => unreachable!("the root of a document is a table"),
        }
    }

    /// The place of the deepest existing part of a dotted key.
    pub(crate) fn place(&self, path: &str) -> Place {
        let mut node = &self.root;
        for key in path.split('.') {
            let Value::Table(entries) = &node.value else { break };
            match entries.iter().find(|(name, _)| name == key) {
                Some((_, below)) => node = below,
                None => break,
            }
        }
        node.place.clone()
    }

    /// A place as text for messages.
    pub(crate) fn shown(&self, place: &Place) -> String {
        match place {
            Place::Line(line) => format!("{}:{line}", self.file),
            Place::Of(file, line) => format!("{file}:{line}"),
            Place::Override(_, text) => format!("{}: --set {text}", self.file),
            Place::Absent => self.file.clone(),
        }
    }

    /// An error about the key at `path`, which was written at `place`.
    pub(crate) fn wrong(&self, place: &Place, path: &str, problem: impl fmt::Display) -> DesignError {
        DesignError::Key { place: self.shown(place), key: path.to_owned(), problem: problem.to_string() }
    }
}

fn entries(table: DeTable<'_>, line: &impl Fn(usize) -> usize) -> Vec<(String, Node)> {
    let place = |at: usize| Place::Line(line(at));
    table
        .into_iter()
        .map(|(key, value)| {
            let key_place = place(key.span().start);
            (key.into_inner().into_owned(), Node::new(value.into_inner(), key_place, &place))
        })
        .collect()
}

/// The designs of the devices of the design at `root`, which is written in `file`. `files`: those that have this design inside.
fn include(file: &str, root: &mut Node, files: &mut Vec<PathBuf>, depth: usize) -> Result<(), DesignError> {
    let Some(Value::Table(devices)) = root.entry("devices").map(|node| &mut node.value) else { return Ok(()) };
    for (name, device) in devices {
        let Some(node) = device.entry("design") else { continue };
        let wrong = |node: &Node, problem: String| {
            let place = Document {
                file: file.to_owned(),
                root: Node { place: Place::Absent, value: Value::Table(Vec::new()) },
            };
            place.wrong(&node.place, &format!("devices.{}.design", one_line(name)), problem)
        };
        if depth == MOST_NESTED {
            return Err(wrong(node, format!("is the {depth}th design inside another: use at most {MOST_NESTED}")));
        }
        let written = match &node.value {
            Value::Table(_) => {
                let inside = if let Place::Of(inside, _) = &node.place { Some(Arc::clone(inside)) } else { None };
                include(inside.as_deref().unwrap_or(file), node, files, depth + 1)?;
                continue;
            }
            Value::Leaf(toml::Value::String(written)) => written,
            Value::Leaf(_) => continue,
        };
        let path = Path::new(file).parent().unwrap_or(Path::new("")).join(written);
        let known = std::fs::canonicalize(&path).ok();
        if known.as_ref().is_some_and(|known| files.contains(known)) {
            let problem = format!(
                "'{}' has this device inside it, so it would contain itself: name another design",
                one_line(written)
            );
            return Err(wrong(node, problem));
        }
        let Document { file: inner, root: mut design } = Document::read(&path)?;
        let before = files.len();
        files.extend(known);
        include(&inner, &mut design, files, depth + 1)?;
        files.truncate(before);
        design.is_of(&Arc::from(inner));
        design.place = Place::Of(Arc::from(path.display().to_string()), 1);
        *node = design;
    }
    Ok(())
}

impl Node {
    fn entry(&mut self, name: &str) -> Option<&mut Node> {
        let Value::Table(entries) = &mut self.value else { return None };
        entries.iter_mut().find(|(known, _)| known == name).map(|(_, node)| node)
    }

    /// Notes in which file its lines are.
    fn is_of(&mut self, file: &Arc<str>) {
        if let Place::Line(line) = self.place {
            self.place = Place::Of(Arc::clone(file), line);
        }
        if let Value::Table(entries) = &mut self.value {
            entries.iter_mut().for_each(|(_, below)| below.is_of(file));
        }
    }

    fn new(value: DeValue<'_>, place: Place, place_at: &impl Fn(usize) -> Place) -> Node {
        let value = match value {
            DeValue::Table(table) => Value::Table(
                table
                    .into_iter()
                    .map(|(key, value)| {
                        let place = place_at(key.span().start);
                        (key.into_inner().into_owned(), Node::new(value.into_inner(), place, place_at))
                    })
                    .collect(),
            ),
            leaf => Value::Leaf(plain(leaf)),
        };
        Node { place, value }
    }

    fn toml(&self) -> toml::Value {
        match &self.value {
            Value::Leaf(value) => value.clone(),
            Value::Table(entries) => {
                toml::Value::Table(entries.iter().map(|(key, node)| (key.clone(), node.toml())).collect())
            }
        }
    }
}

/// The value without its spans. An integer beyond 64 bits becomes the nearest float, which keys for whole numbers do
/// not accept.
fn plain(value: DeValue<'_>) -> toml::Value {
    match value {
        DeValue::String(text) => toml::Value::String(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => toml::Value::Integer(number),
            Err(_) => toml::Value::Float(number.as_str().parse().unwrap_or(f64::INFINITY)),
        },
        DeValue::Float(number) => toml::Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => toml::Value::Boolean(value),
        DeValue::Datetime(value) => toml::Value::Datetime(value),
        DeValue::Array(array) => toml::Value::Array(array.into_iter().map(|value| plain(value.into_inner())).collect()),
        DeValue::Table(table) => toml::Value::Table(
            table.into_iter().map(|(key, value)| (key.into_inner().into_owned(), plain(value.into_inner()))).collect(),
        ),
    }
}

/// Keys of designs, and values of keys (`key=value`), that there were once, and what to do in their place.
const REMOVED: &[(&str, &str)] = &[
    (
        "placement.fill",
        "a cache always has the parts of extents that are used, and reads on where that pays; leave it out",
    ),
    ("placement.share_frames", "leave it out; smaller extents (placement.extent) hold more of them"),
    (
        "placement.room_threshold",
        "leave it and promotion.threshold out: then extents come in at their first miss while there is room",
    ),
    (
        "placement.flushed_threshold",
        "leave it and promotion.threshold out: then writes that the host waits for come in at their first miss",
    ),
    ("placement.writeback.queue", "every dirty extent has a place; leave it out"),
    ("placement.journal=fast", "'named' writes to the slow device only what it needs if the fast one is lost"),
];

/// What to do in place of a key, or of a value of one, that there was once.
pub(crate) fn removed(what: &str) -> Option<&'static str> {
    REMOVED.iter().find(|(was, _)| *was == what).map(|(_, instead)| *instead)
}

/// The message for a key that is not in `known`.
pub(crate) fn unknown(key: &str, known: &[&str]) -> String {
    match peryton_device::nearest(key, known.iter().copied()) {
        Some(meant) => format!("unknown key: did you mean '{meant}'?"),
        None => {
            // A key that has keys of its own is there once for each of them.
            let mut each: Vec<&str> = Vec::new();
            for key in known {
                if !each.contains(key) {
                    each.push(key);
                }
            }
            format!("unknown key: use one of {}", each.join(", "))
        }
    }
}

/// `text` as one printable line of bounded length.
pub(crate) fn one_line(text: &str) -> String {
    const SHOWN: usize = 160;
    let mut line: String =
        text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned();
    if text.chars().nth(SHOWN).is_some() {
        line.push('…');
    }
    line
}

/// A value that was read, with its place.
#[derive(Clone, Debug)]
pub(crate) struct At<'a, T> {
    value: T,
    document: &'a Document,
    place: Place,
    path: String,
}

impl<'a, T> At<'a, T> {
    pub(crate) fn wrong(&self, problem: impl fmt::Display) -> DesignError {
        self.document.wrong(&self.place, &self.path, problem)
    }

    pub(crate) fn into_inner(self) -> T {
        self.value
    }

    /// The dotted path of the key.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The file and line, and the key, as text for messages.
    pub(crate) fn place(&self) -> String {
        format!("{}: {}", self.document.shown(&self.place), self.path)
    }

    /// Another value from the same place.
    pub(crate) fn with<U>(&self, value: U) -> At<'a, U> {
        At { value, document: self.document, place: self.place.clone(), path: self.path.clone() }
    }

    /// The index of the override that the value came from, if any.
    pub(crate) fn override_index(&self) -> Option<usize> {
        match self.place {
            Place::Override(index, _) => Some(index),
            _ => None,
        }
    }
}

impl<T> Deref for At<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// A type that the value of a key can have.
pub(crate) trait FromToml: Sized {
    /// The type's name in the reference of keys.
    const TYPE: &'static str;
    /// A description of the accepted values, for people.
    const EXPECTED: &'static str;
    /// Converts a value. The error is a description of the problem, or `None` if `EXPECTED` is sufficient.
    fn from_toml(value: &toml::Value) -> Result<Self, Option<String>>;
}

macro_rules! from_text {
    ($type:ty, $name:literal, $expected:literal) => {
        const TYPE: &'static str = $name;
        fn from_toml(value: &toml::Value) -> Result<$type, Option<String>> {
            value.as_str().ok_or(None)?.parse().map_err(|error: peryton_units::ParseUnitError| Some(error.to_string()))
        }
        const EXPECTED: &'static str = $expected;
    };
}

impl FromToml for Nanos {
    from_text!(Nanos, "time", "a time with its unit, such as \"5s\" or \"400us\"");
}
impl FromToml for Bytes {
    const TYPE: &'static str = "size";
    const EXPECTED: &'static str = "a size such as \"8GiB\", or a whole number of bytes";
    fn from_toml(value: &toml::Value) -> Result<Bytes, Option<String>> {
        match value {
            toml::Value::Integer(number) => u64::try_from(*number).map(Bytes).map_err(|_| None),
            toml::Value::String(text) => {
                text.parse().map_err(|error: peryton_units::ParseUnitError| Some(error.to_string()))
            }
            _ => Err(None),
        }
    }
}
impl FromToml for u64 {
    const TYPE: &'static str = "whole number";
    const EXPECTED: &'static str = "a whole number from 0";
    fn from_toml(value: &toml::Value) -> Result<u64, Option<String>> {
        value.as_integer().and_then(|number| u64::try_from(number).ok()).ok_or(None)
    }
}
impl FromToml for u32 {
    const TYPE: &'static str = "whole number";
    const EXPECTED: &'static str = "a whole number from 0 to 4294967295";
    fn from_toml(value: &toml::Value) -> Result<u32, Option<String>> {
        value.as_integer().and_then(|number| u32::try_from(number).ok()).ok_or(None)
    }
}
impl FromToml for f64 {
    const TYPE: &'static str = "number";
    const EXPECTED: &'static str = "a number from 0";
    fn from_toml(value: &toml::Value) -> Result<f64, Option<String>> {
        let number = match value {
            toml::Value::Integer(number) => *number as f64,
            toml::Value::Float(number) => *number,
            _ => return Err(None),
        };
        if number >= 0.0 && number.is_finite() { Ok(number) } else { Err(None) }
    }
}
impl FromToml for bool {
    const TYPE: &'static str = "true or false";
    const EXPECTED: &'static str = "true or false";
    fn from_toml(value: &toml::Value) -> Result<bool, Option<String>> {
        value.as_bool().ok_or(None)
    }
}
impl FromToml for String {
    const TYPE: &'static str = "text";
    const EXPECTED: &'static str = "text in quotes";
    fn from_toml(value: &toml::Value) -> Result<String, Option<String>> {
        value.as_str().map(str::to_owned).ok_or(None)
    }
}
impl FromToml for Vec<String> {
    const TYPE: &'static str = "list of texts";
    const EXPECTED: &'static str = "a list such as [\"ssd\", \"hdd\"]";
    fn from_toml(value: &toml::Value) -> Result<Vec<String>, Option<String>> {
        let list = value.as_array().ok_or(None)?;
        list.iter().map(|value| value.as_str().map(str::to_owned).ok_or(None)).collect()
    }
}
/// A text, or several.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMore(pub(crate) Vec<String>);

impl FromToml for OneOrMore {
    const TYPE: &'static str = "text, or list of texts";
    const EXPECTED: &'static str = "a name such as \"ssd\", or a list such as [\"ssd0\", \"ssd1\"]";
    fn from_toml(value: &toml::Value) -> Result<OneOrMore, Option<String>> {
        match value.as_str() {
            Some(one) => Ok(OneOrMore(vec![one.to_owned()])),
            None => Vec::from_toml(value).map(OneOrMore).map_err(|_| None),
        }
    }
}

/// The design of a device: the name of its file, or its tables.
pub(crate) struct NestedDesign;

impl FromToml for NestedDesign {
    const TYPE: &'static str = "text, or tables";
    const EXPECTED: &'static str = "the path of a design file, or the tables of a design";
    fn from_toml(value: &toml::Value) -> Result<NestedDesign, Option<String>> {
        if value.is_str() || value.is_table() { Ok(NestedDesign) } else { Err(None) }
    }
}
impl FromToml for toml::Table {
    const TYPE: &'static str = "table";
    const EXPECTED: &'static str = "a table";
    fn from_toml(value: &toml::Value) -> Result<toml::Table, Option<String>> {
        value.as_table().cloned().ok_or(None)
    }
}

/// Reads the keys of a table, and remembers which were read: any other key is an error.
pub(crate) struct Keys<'a> {
    document: &'a Document,
    path: String,
    place: &'a Place,
    entries: &'a [(String, Node)],
    asked: Vec<&'static str>,
    without: Option<&'static str>,
}

impl<'a> Keys<'a> {
    fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The value of a key, if it exists.
    pub(crate) fn get<T: FromToml>(&mut self, key: &'static Key<T>) -> Result<Option<At<'a, T>>, DesignError> {
        let Some(node) = self.node(key.name()) else { return Ok(None) };
        let path = self.path(key.name());
        debug_assert!(key.entry.is_at(&path), "{} is read as {path}", key.entry.path);
        let plain = node.toml();
        match T::from_toml(&plain) {
            Ok(value) => Ok(Some(At { value, document: self.document, place: node.place.clone(), path })),
            Err(why) => {
                let found = one_line(&plain.to_string());
                let problem = why.unwrap_or_else(|| format!("found {found}, expected {}", T::EXPECTED));
                Err(self.document.wrong(&node.place, &path, one_line(&problem)))
            }
        }
    }

    /// The value of a key that must exist.
    pub(crate) fn require<T: FromToml>(&mut self, key: &'static Key<T>) -> Result<At<'a, T>, DesignError> {
        match self.get(key)? {
            Some(value) => Ok(value),
            None => Err(self.wrong_at(key.name(), format!("missing: give {}", T::EXPECTED))),
        }
    }

    /// The design under a key, as a document of its own, with what names it unless it names itself. `None` if there is a file's name, which
    /// [`Document::include_designs`] has not read.
    pub(crate) fn design(&mut self, key: &'static Key<NestedDesign>) -> Option<(Document, String)> {
        let node = self.node(key.name())?;
        let device = self.path.rsplit('.').next().unwrap_or_default();
        let (file, name) = match &node.place {
            Place::Of(file, _) => {
                let name = Path::new(&**file).file_stem().map_or_else(|| device.into(), |stem| stem.to_string_lossy());
                (file.to_string(), name.into_owned())
            }
            _ => (self.document.file.clone(), device.to_owned()),
        };
        matches!(node.value, Value::Table(_)).then(|| (Document { file, root: node.clone() }, name))
    }

    /// Something that is written under a name, whatever it is.
    pub(crate) fn written(&mut self, name: &'static str) -> Option<At<'a, ()>> {
        let node = self.node(name)?;
        Some(At { value: (), document: self.document, place: node.place.clone(), path: self.path(name) })
    }

    /// The overrides that wrote what is under a name, and anything below it.
    pub(crate) fn overrides_below(&self, name: &str) -> Vec<usize> {
        fn collect(node: &Node, into: &mut Vec<usize>) {
            if let Place::Override(index, _) = node.place {
                into.push(index);
            }
            if let Value::Table(entries) = &node.value {
                entries.iter().for_each(|(_, below)| collect(below, into));
            }
        }
        let mut found = Vec::new();
        self.entries.iter().filter(|(known, _)| known == name).for_each(|(_, node)| collect(node, &mut found));
        found
    }

    /// The keys of a table in this one; none if it does not exist.
    pub(crate) fn table(&mut self, key: &'static str) -> Result<Option<Keys<'a>>, DesignError> {
        let path = self.path(key);
        self.node(key).map(|node| self.below(path, node)).transpose()
    }

    fn below(&self, path: String, node: &'a Node) -> Result<Keys<'a>, DesignError> {
        match &node.value {
            Value::Table(entries) => Ok(Keys {
                document: self.document,
                path,
                place: &node.place,
                entries,
                asked: Vec::new(),
                without: None,
            }),
            Value::Leaf(value) => {
                let problem = format!("found {}, expected a table", one_line(&value.to_string()));
                Err(self.document.wrong(&node.place, &path, problem))
            }
        }
    }

    /// Every table below this one, with its name, in the order of the file; for tables whose keys are names.
    pub(crate) fn tables(self) -> Result<Vec<(At<'a, String>, Keys<'a>)>, DesignError> {
        self.entries
            .iter()
            .filter(|(name, _)| self.without != Some(name.as_str()))
            .map(|(name, node)| {
                let path = self.path(name);
                let at =
                    At { value: name.clone(), document: self.document, place: node.place.clone(), path: path.clone() };
                Ok((at, self.below(path, node)?))
            })
            .collect()
    }

    /// The same table without a key that has been read already.
    pub(crate) fn without(self, key: &'static str) -> Keys<'a> {
        Keys { without: Some(key), ..self }
    }

    /// An error about this table, or about a key that it lacks.
    pub(crate) fn wrong_at(&self, key: &str, problem: impl fmt::Display) -> DesignError {
        let path = if key.is_empty() { self.path.clone() } else { self.path(key) };
        self.document.wrong(self.place, &path, problem)
    }

    /// Checks that every key has been read.
    pub(crate) fn finish(self) -> Result<(), DesignError> {
        let Some((key, node)) = self.entries.iter().find(|(key, _)| !self.asked.contains(&key.as_str())) else {
            return Ok(());
        };
        let path = self.path(&one_line(key));
        let problem =
            removed(&path).map_or_else(|| unknown(key, &self.asked), |instead| format!("was removed: {instead}"));
        Err(self.document.wrong(&node.place, &path, problem))
    }
}
