use std::fmt;

use peryton_units::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};

use super::{error::Wrong, random::Random};

/// The size of a request or of a file. Drawn sizes are rounded to the alignment, and are at least one unit of it. In a
/// specification a plain size (`"4KiB"`) is constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Size {
    /// A constant size.
    Constant(Bytes),
    /// Any multiple of the alignment from `min` to `max`, all equally likely.
    Uniform {
        /// The smallest size.
        min: Bytes,
        /// The largest size.
        max: Bytes,
    },
    /// One of a list, by weight.
    Weighted(Vec<(Bytes, f64)>),
    /// Lognormal with the given mean, cut at `max`.
    Lognormal {
        /// The mean of the size, before it is cut and rounded.
        mean: Bytes,
        /// Standard deviation of the size's natural logarithm.
        sigma: f64,
        /// Larger draws are cut to this.
        max: Bytes,
    },
    /// Gamma with the given mean and shape, cut at `max`: Filebench's file sizes, with shape 1.5.
    Gamma {
        /// The mean of the size, before it is cut and rounded.
        mean: Bytes,
        /// The shape; 1 is exponential, larger is narrower.
        shape: f64,
        /// Larger draws are cut to this.
        max: Bytes,
    },
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Table {
    Constant { bytes: Bytes },
    Uniform { min: Bytes, max: Bytes },
    Weighted { choices: Vec<(Bytes, f64)> },
    Lognormal { mean: Bytes, sigma: f64, max: Bytes },
    Gamma { mean: Bytes, shape: f64, max: Bytes },
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a size such as \"4KiB\", or a table with kind = constant, uniform, weighted, lognormal or gamma",
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map(Size::Constant).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                let bytes = u64::try_from(bytes);
                bytes.map(|b| Size::Constant(Bytes(b))).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Size, A::Error> {
                Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
                    Table::Constant { bytes } => Size::Constant(bytes),
                    Table::Uniform { min, max } => Size::Uniform { min, max },
                    Table::Weighted { choices } => Size::Weighted(choices),
                    Table::Lognormal { mean, sigma, max } => Size::Lognormal { mean, sigma, max },
                    Table::Gamma { mean, shape, max } => Size::Gamma { mean, shape, max },
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Draws sizes.
#[derive(Clone, Debug)]
pub(super) struct SizeSampler {
    unit: u64,
    largest: u64,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    Constant(u64),
    /// In units of the alignment.
    Uniform {
        min: u64,
        choices: u64,
    },
    /// Sizes with the share of draws up to and including each.
    Weighted(Vec<(u64, f64)>),
    Lognormal {
        mean: f64,
        sigma: f64,
    },
    Gamma {
        shape: f64,
        scale: f64,
    },
}

impl SizeSampler {
    /// `unit` is the alignment.
    pub(super) fn new(size: &Size, unit: Bytes) -> Result<SizeSampler, Wrong> {
        let aligned = |key: &str, bytes: Bytes| {
            if bytes.0 == 0 {
                return Err(Wrong::new(key, "is zero: a request has at least one byte"));
            }
            if !bytes.is_multiple_of(unit) {
                return Err(Wrong::new(
                    key,
                    format!("{bytes} is not a multiple of the alignment {unit}: change either"),
                ));
            }
            Ok(bytes.0)
        };
        let positive = |key: &str, value: f64| {
            let good = value.is_finite() && value > 0.0;
            if good { Ok(value) } else { Err(Wrong::new(key, format!("is {value}, expected a positive number"))) }
        };
        let (shape, largest) = match size {
            Size::Constant(bytes) => (Shape::Constant(aligned("size", *bytes)?), bytes.0),
            Size::Uniform { min, max } => {
                let (min, max) = (aligned("size.min", *min)?, aligned("size.max", *max)?);
                if min > max {
                    return Err(Wrong::new("size.min", "is above size.max: exchange them"));
                }
                (Shape::Uniform { min: min / unit.0, choices: (max - min) / unit.0 + 1 }, max)
            }
            Size::Weighted(choices) => {
                let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
                if choices.iter().any(|&(_, weight)| weight < 0.0) || !total.is_finite() || total <= 0.0 {
                    let what =
                        "the weights must be at least 0, and one above: write [[\"4KiB\", 0.7], [\"64KiB\", 0.3]]";
                    return Err(Wrong::new("size.choices", what));
                }
                let mut sum = 0.0;
                let mut cumulative = Vec::with_capacity(choices.len());
                for &(bytes, weight) in choices {
                    sum += weight / total;
                    cumulative.push((aligned("size.choices", bytes)?, sum));
                }
                let largest = cumulative.iter().map(|&(bytes, _)| bytes).max().expect("a positive total has a term");
                (Shape::Weighted(cumulative), largest)
            }
            Size::Lognormal { mean, sigma, max } => {
                let (sigma, max) = (positive("size.sigma", *sigma)?, aligned("size.max", *max)?);
                (Shape::Lognormal { mean: positive("size.mean", mean.0 as f64)?, sigma }, max)
            }
            Size::Gamma { mean, shape, max } => {
                let (shape, max) = (positive("size.shape", *shape)?, aligned("size.max", *max)?);
                (Shape::Gamma { shape, scale: positive("size.mean", mean.0 as f64)? / shape }, max)
            }
        };
        if let Size::Lognormal { mean, max, .. } | Size::Gamma { mean, max, .. } = size
            && mean > max
        {
            return Err(Wrong::new("size.mean", format!("{mean} is above size.max {max}: raise the latter")));
        }
        Ok(SizeSampler { unit: unit.0, largest, shape })
    }

    /// The largest possible size.
    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        match &self.shape {
            Shape::Constant(bytes) => *bytes,
            Shape::Uniform { min, choices } => (min + random.below(*choices)) * self.unit,
            Shape::Weighted(cumulative) => {
                let u = random.unit();
                let index = cumulative.partition_point(|&(_, upto)| upto <= u);
                // Rounding may leave the last sum slightly below one.
                cumulative[index.min(cumulative.len() - 1)].0
            }
            Shape::Lognormal { mean, sigma } => self.rounded(random.lognormal(*mean, *sigma)),
            Shape::Gamma { shape, scale } => self.rounded(random.gamma(*shape, *scale)),
        }
    }

    fn rounded(&self, bytes: f64) -> u64 {
        let units = (bytes / self.unit as f64).round() as u64;
        units.clamp(1, self.largest / self.unit) * self.unit
    }
}
