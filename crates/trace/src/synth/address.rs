use std::fmt;

use peryton_units::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};

use super::{
    error::{Wrong, share},
    files::{Files, FilesSampler},
    permutation::Permutation,
    random::Random,
    zipf::Zipf,
};

/// The addresses of requests that are not sequential. In a specification, plain `"uniform"` is the first kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Address {
    /// Every aligned place is equally likely.
    Uniform,
    /// Extents with popularity rank^−`exponent`, scattered over the footprint; uniform within an extent.
    Zipf {
        /// The exponent: 0 is uniform, 1 the classic law.
        exponent: f64,
        /// The unit of popularity; the alignment if absent.
        extent: Option<Bytes>,
    },
    /// Regions with given shares of accesses and space, made of scattered extents; the rest of both is for the rest of
    /// the volume.
    HotCold {
        /// The regions.
        regions: Vec<Region>,
        /// The unit that is hot or cold; the alignment if absent.
        extent: Option<Bytes>,
    },
    /// Files of varying popularity.
    Files(Files),
}

/// A share of the accesses for a share of the space.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Share of the accesses.
    pub accesses: f64,
    /// Share of the footprint.
    pub space: f64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Table {
    Uniform {},
    Zipf { exponent: f64, extent: Option<Bytes> },
    HotCold { regions: Vec<Region>, extent: Option<Bytes> },
    Files(Files),
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Address;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"uniform\", or a table with kind = uniform, zipf, hot_cold or files")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
                match text {
                    "uniform" => Ok(Address::Uniform),
                    _ => Err(E::custom(format!("'{text}' needs more than a word: write {{ kind = \"{text}\", … }}"))),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Address, A::Error> {
                Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
                    Table::Uniform {} => Address::Uniform,
                    Table::Zipf { exponent, extent } => Address::Zipf { exponent, extent },
                    Table::HotCold { regions, extent } => Address::HotCold { regions, extent },
                    Table::Files(files) => Address::Files(files),
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A place: the start and length of a request, and the end of its file (or of the request, if it has no file).
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) file_end: u64,
}

/// Draws places within a footprint that begins at zero.
#[derive(Clone)]
pub(super) struct AddressSampler {
    unit: u64,
    footprint: u64,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Uniform,
    Zipf { zipf: Zipf, extents: Extents },
    HotCold { regions: Vec<Range>, extents: Extents },
    Files(FilesSampler),
}

/// A range of ranks of extents that share accesses evenly.
#[derive(Clone, Debug)]
struct Range {
    /// Share of accesses up to and including this range.
    upto: f64,
    first: u64,
    count: u64,
}

#[derive(Clone)]
struct Extents {
    bytes: u64,
    places: Permutation,
}

/// The most extents: the most popular ranks of Zipf that the sampler's floating-point numbers can distinguish.
const MAX_EXTENTS: u64 = 1 << 50;

impl AddressSampler {
    /// `seed` determines which extents or files are the popular ones.
    pub(super) fn new(address: &Address, footprint: Bytes, unit: Bytes, seed: u64) -> Result<AddressSampler, Wrong> {
        let extents = |extent: &Option<Bytes>| {
            let bytes = extent.unwrap_or(unit);
            if bytes.0 == 0 || !bytes.is_multiple_of(unit) {
                let what = format!("{bytes} is not a positive multiple of the alignment {unit}: change either");
                return Err(Wrong::new("address.extent", what));
            }
            let count = footprint.0 / bytes.0;
            if !(1..=MAX_EXTENTS).contains(&count) {
                let what =
                    format!("{bytes} divides the footprint {footprint} into {count} extents: expected 1 to 2^50");
                return Err(Wrong::new("address.extent", what));
            }
            Ok((count, Extents { bytes: bytes.0, places: Permutation::new(count, seed) }))
        };
        let kind = match address {
            Address::Uniform => Kind::Uniform,
            Address::Zipf { exponent, extent } => {
                if !(0.0..=MAX_EXPONENT).contains(exponent) {
                    let what = format!("is {exponent}, expected a number from 0 to {MAX_EXPONENT}");
                    return Err(Wrong::new("address.exponent", what));
                }
                let (count, extents) = extents(extent)?;
                Kind::Zipf { zipf: Zipf::new(count, *exponent), extents }
            }
            Address::HotCold { regions, extent } => {
                let (count, extents) = extents(extent)?;
                Kind::HotCold { regions: ranges(regions, count)?, extents }
            }
            Address::Files(files) => Kind::Files(FilesSampler::new(files, footprint.0, unit, seed)?),
        };
        Ok(AddressSampler { unit: unit.0, footprint: footprint.0, kind })
    }

    /// Whether lengths come from the request size distribution.
    pub(super) fn uses_size(&self) -> bool {
        !matches!(&self.kind, Kind::Files(files) if files.is_whole())
    }

    /// The largest request of a file that is accessed whole.
    pub(super) fn max_request(&self) -> u64 {
        match &self.kind {
            Kind::Files(files) => files.max_request(),
            _ => u64::MAX,
        }
    }

    /// A place for a request of `len` bytes, which fit into the footprint.
    pub(super) fn draw(&self, len: u64, random: &mut Random) -> Place {
        let offset = match &self.kind {
            Kind::Uniform => random.below((self.footprint - len) / self.unit + 1) * self.unit,
            Kind::Zipf { zipf, extents } => self.within(extents, zipf.rank(random), len, random),
            Kind::HotCold { regions, extents } => {
                let u = random.unit();
                let index = regions.partition_point(|range| range.upto <= u).min(regions.len() - 1);
                let range = &regions[index];
                let rank = range.first + random.below(range.count);
                self.within(extents, rank, len, random)
            }
            Kind::Files(files) => {
                let (offset, len, file_end) = files.draw(len, self.unit, random);
                return Place { offset, len, file_end };
            }
        };
        Place { offset, len, file_end: offset + len }
    }

    /// An aligned place in the extent of that rank; at its start, if the request is as long as the extent or longer.
    fn within(&self, extents: &Extents, rank: u64, len: u64, random: &mut Random) -> u64 {
        let start = extents.places.at(rank) * extents.bytes;
        let free = extents.bytes.saturating_sub(len) / self.unit;
        let offset = if free == 0 { start } else { start + random.below(free + 1) * self.unit };
        offset.min((self.footprint - len) / self.unit * self.unit)
    }
}

/// The largest exponent; above it the first extent gets practically all accesses.
const MAX_EXPONENT: f64 = 10.0;

fn ranges(regions: &[Region], extents: u64) -> Result<Vec<Range>, Wrong> {
    let key = "address.regions";
    let (mut accesses, mut space, mut first) = (0.0, 0.0, 0);
    let mut ranges = Vec::with_capacity(regions.len() + 1);
    for region in regions {
        accesses += share(key, region.accesses)?;
        space += share(key, region.space)?;
        let end = ((space.min(1.0) * extents as f64).round() as u64).min(extents);
        if region.accesses == 0.0 {
            first = end;
            continue;
        }
        if end == first {
            let what =
                format!("space = {} of {extents} extents is none: give it more, or make extents smaller", region.space);
            return Err(Wrong::new(key, what));
        }
        ranges.push(Range { upto: accesses, first, count: end - first });
        first = end;
    }
    const ROUNDING: f64 = 1e-9;
    if accesses > 1.0 + ROUNDING || space > 1.0 + ROUNDING {
        let what = format!("take {accesses} of the accesses and {space} of the space: both must be at most 1");
        return Err(Wrong::new(key, what));
    }
    if accesses < 1.0 - ROUNDING {
        if first == extents {
            let what = format!("leave {:.4} of the accesses, but no space for them: lower space", 1.0 - accesses);
            return Err(Wrong::new(key, what));
        }
        ranges.push(Range { upto: 1.0, first, count: extents - first });
    }
    Ok(ranges)
}
