//! The parameters of a replacement policy: numbers with a name, a default and bounds, written behind the policy's name as in
//! `two_queue:kin=0.2:kout=0.6`.

use std::{fmt, str::FromStr};

/// A number with six decimal places, so that settings can be compared.
///
/// ```
/// use peryton_policy::Millionths;
///
/// let share: Millionths = "0.25".parse()?;
/// assert_eq!((share.of(1000), share.to_string()), (250, "0.25".to_owned()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millionths(pub u64);

const WHOLE: u64 = 1_000_000;

impl Millionths {
    /// This share of a size, rounded down.
    pub const fn of(self, size: u64) -> u64 {
        (size as u128 * self.0 as u128 / WHOLE as u128) as u64
    }

    /// The number.
    pub const fn number(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// The number without its decimal places.
    pub const fn whole(self) -> u64 {
        self.0 / WHOLE
    }
}

impl fmt::Display for Millionths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

impl FromStr for Millionths {
    type Err = String;

    fn from_str(text: &str) -> Result<Millionths, String> {
        let number: f64 = text.parse().map_err(|_| format!("'{text}' is no number"))?;
        if !(0.0..=1e12).contains(&number) {
            return Err(format!("{text} is out of range"));
        }
        Ok(Millionths((number * WHOLE as f64).round() as u64))
    }
}

/// What there is to know about a parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its value if none is given.
    pub default: Millionths,
    /// The lowest and the highest value.
    pub bounds: (Millionths, Millionths),
}

/// Parses `key=value:key=value` and sets each value.
pub(crate) fn set_all(
    policy: &str,
    text: &str,
    known: &[Parameter],
    mut set: impl FnMut(usize, Millionths),
) -> Result<(), String> {
    for part in text.split(':') {
        let names = || known.iter().map(|parameter| parameter.name).collect::<Vec<_>>().join(", ");
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("'{part}' is no parameter of {policy}: write name=value, such as {}", example(known)));
        };
        let Some(index) = known.iter().position(|parameter| parameter.name == name) else {
            let has = if known.is_empty() { "which has none".to_owned() } else { format!("which has {}", names()) };
            return Err(format!("'{name}' is no parameter of {policy}, {has}"));
        };
        let value: Millionths = value.parse().map_err(|problem| format!("{policy}: {name}: {problem}"))?;
        let (least, most) = known[index].bounds;
        if !(least..=most).contains(&value) {
            return Err(format!("{policy}: {name}={value}: use {least} to {most}"));
        }
        set(index, value);
    }
    Ok(())
}

fn example(known: &[Parameter]) -> String {
    known.first().map_or_else(|| "none".to_owned(), |first| format!("{}={}", first.name, first.default))
}

/// Declares the parameters of a policy: name, default, lowest and highest value in millionths, and what it is.
macro_rules! parameters {
    ($($name:ident: $default:literal in $least:literal..=$most:literal, $about:literal;)*) => {
        /// The parameters of the policy.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Parameters {
            $(#[doc = $about] pub $name: $crate::Millionths,)*
        }

        impl Parameters {
            /// The values if none are given.
            pub const DEFAULT: Parameters = Parameters { $($name: $crate::Millionths($default),)* };
            /// What there is to know about each.
            pub const ALL: &'static [$crate::Parameter] = &[$($crate::Parameter {
                name: stringify!($name),
                about: $about,
                default: $crate::Millionths($default),
                bounds: ($crate::Millionths($least), $crate::Millionths($most)),
            },)*];

            /// The values, in the order of [`Parameters::ALL`].
            pub fn values(&self) -> Vec<$crate::Millionths> {
                vec![$(self.$name),*]
            }

            pub(crate) fn set(&mut self, index: usize, value: $crate::Millionths) {
                let places = [$(&mut self.$name),*];
                *places[index] = value;
            }
        }
    };
}
