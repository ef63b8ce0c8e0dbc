//! The keys of design files: what each is, and the type with which it is read.
//!
//! A key is read with [`Keys::get`](crate::document::Keys::get), which takes nothing but a [`Key`]; so every key that is read has
//! an entry here, and the reference of all keys ([`design_keys`](super::design_keys)) is complete.

use std::marker::PhantomData;

use peryton_engine::PlacementKind;

/// A key of design files.
///
/// ```
/// let window = peryton_sim::design_keys().find(|key| key.path == "placement.promotion.window").unwrap();
/// assert_eq!(window.default.to_string(), "'60s'");
/// assert!(window.live && window.kind() == "time");
/// ```
#[derive(Clone, Debug)]
pub struct DesignKey {
    /// Its dotted path; `NAME` stands for the name of a device.
    pub path: &'static str,
    pub(crate) about: &'static str,
    /// The type of its value, such as `time` or `whole number`.
    pub type_name: &'static str,
    /// The words that it takes, if it is one of a few.
    pub words: fn() -> Vec<&'static str>,
    /// What a number counts, unless the value says its unit itself.
    pub unit: &'static str,
    /// What holds without it.
    pub default: KeyDefault,
    /// What chose the default: a measurement, or the paper that it is of; empty if there was nothing to choose.
    pub chosen_by: &'static str,
    /// The placements (`placement.mode`) that it applies to.
    pub placements: &'static [PlacementKind],
    /// Whether it may change while the volume is served (`peryton set`).
    pub live: bool,
    /// Another value, as TOML. It is for the tests, which try it, like the two below.
    pub(crate) example: &'static str,
    /// Settings without which the key does not apply.
    pub(crate) needs: &'static [&'static str],
    /// Whether the key is without effect on simulations.
    pub(crate) inert: bool,
}

/// What holds if a design does not have a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// The design is refused.
    Required,
    /// The same as with this value, as TOML.
    Value(&'static str),
    /// Something that no value says, or that depends on other keys.
    Else(&'static str),
}

impl std::fmt::Display for KeyDefault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            KeyDefault::Required => "required",
            KeyDefault::Value(value) => value,
            KeyDefault::Else(text) => text,
        })
    }
}

impl DesignKey {
    pub(crate) const PLAIN: DesignKey = DesignKey {
        path: "",
        about: "",
        type_name: "",
        words: Vec::new,
        unit: "",
        default: KeyDefault::Required,
        chosen_by: "",
        placements: &PlacementKind::ALL,
        live: false,
        example: "",
        needs: &[],
        inert: false,
    };

    /// What it sets, in sentences.
    pub fn about(&self) -> &'static str {
        // Each line of a comment begins with a space.
        self.about.trim()
    }

    /// Its type with the unit, or the words that it takes.
    pub fn kind(&self) -> String {
        let words = (self.words)();
        match (words.is_empty(), self.unit) {
            (false, _) => words.join(", "),
            (true, "") => self.type_name.to_owned(),
            (true, unit) => format!("{} ({unit})", self.type_name),
        }
    }

    /// The placements that it applies to, as text.
    pub fn placement_names(&self) -> String {
        if self.placements.len() == PlacementKind::ALL.len() {
            return "all".to_owned();
        }
        self.placements.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// Another value, as TOML, which changes a design; empty if there is none that always does. For tests.
    #[doc(hidden)]
    pub fn example(&self) -> &'static str {
        self.example
    }

    /// The settings without which the key does not apply. For tests.
    #[doc(hidden)]
    pub fn needs(&self) -> &'static [&'static str] {
        self.needs
    }

    /// Whether the key changes nothing. For tests.
    #[doc(hidden)]
    pub fn is_inert(&self) -> bool {
        self.inert
    }

    /// Whether it is the key of a dotted path of a design, in which devices have names.
    pub fn is_at(&self, path: &str) -> bool {
        let (mut mine, mut theirs) = (self.path.split('.'), path.split('.').map(str::trim));
        loop {
            match (mine.next(), theirs.next()) {
                (None, None) => return true,
                (Some("NAME"), Some(_)) => {}
                (Some(mine), Some(theirs)) if mine == theirs => {}
                _ => return false,
            }
        }
    }
}

/// A key with the type of its value.
#[derive(Debug)]
pub(crate) struct Key<T> {
    pub(crate) entry: DesignKey,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    pub(crate) const fn new(entry: DesignKey) -> Key<T> {
        Key { entry, value: PhantomData }
    }

    /// The last part of its path: its name within its table.
    pub(crate) fn name(&self) -> &'static str {
        self.entry.path.rsplit('.').next().unwrap_or(self.entry.path)
    }
}

/// Names of a list of words with their values.
pub(crate) fn names<T>(known: &[(&'static str, T)]) -> Vec<&'static str> {
    known.iter().map(|(name, _)| *name).collect()
}

/// Declares the keys that a file reads, and `KEYS`, the list of them.
macro_rules! keys {
    ($($(#[doc = $about:literal])+ $NAME:ident: $Type:ty = $path:literal { $($field:ident: $value:expr),* $(,)? })+) => {
        $(
            $(#[doc = $about])+
            pub(super) static $NAME: $crate::design::key::Key<$Type> =
                $crate::design::key::Key::new($crate::design::key::DesignKey {
                    path: $path,
                    about: concat!($($about),+),
                    type_name: <$Type as $crate::document::FromToml>::TYPE,
                    $($field: $value,)*
                    ..$crate::design::key::DesignKey::PLAIN
                });
        )+
        /// The keys that this file reads.
        pub(super) static KEYS: &[&$crate::design::key::DesignKey] = &[$(&$NAME.entry),+];
    };
}

pub(crate) use keys;
