use std::fmt;

use peryton_units::Nanos;
use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};

use super::{error::Wrong, random::Random};

/// The arrival times of requests. In a specification a plain time (`"1ms"`) is a constant interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// One request in every interval; all requests at the same time if it is zero.
    Constant(Nanos),
    /// Exponential intervals.
    Poisson {
        /// The mean interval.
        mean: Nanos,
    },
    /// Pareto intervals: many short, a few very long.
    Pareto {
        /// The mean interval.
        mean: Nanos,
        /// The tail's exponent, above 1; at 2 and below the variance is infinite.
        shape: f64,
    },
    /// Poisson arrivals during bursts, none between them; the lengths of bursts and silences are exponential.
    Bursty {
        /// The mean interval within a burst.
        interval: Nanos,
        /// The mean length of a burst.
        on: Nanos,
        /// The mean silence between bursts.
        off: Nanos,
    },
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Table {
    Constant { interval: Nanos },
    Poisson { mean: Nanos },
    Pareto { mean: Nanos, shape: f64 },
    Bursty { interval: Nanos, on: Nanos, off: Nanos },
}

impl<'de> Deserialize<'de> for Arrival {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arrival, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Arrival;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an interval such as \"1ms\", or a table with kind = constant, poisson, pareto or bursty")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Arrival, E> {
                text.parse().map(Arrival::Constant).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Arrival, A::Error> {
                Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
                    Table::Constant { interval } => Arrival::Constant(interval),
                    Table::Poisson { mean } => Arrival::Poisson { mean },
                    Table::Pareto { mean, shape } => Arrival::Pareto { mean, shape },
                    Table::Bursty { interval, on, off } => Arrival::Bursty { interval, on, off },
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// The fewest arrivals that a burst may have on average. With fewer, a gap would contain many empty bursts.
const MIN_ARRIVALS_PER_BURST: f64 = 0.01;

impl Arrival {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        match self {
            Arrival::Pareto { shape, .. } if !(*shape > 1.0 && shape.is_finite()) => {
                Err(Wrong::new("arrival.shape", format!("is {shape}: below 1 there is no mean, write for example 1.5")))
            }
            Arrival::Bursty { interval, .. } if interval.0 == 0 => {
                Err(Wrong::new("arrival.interval", "is zero: a burst would never end, write for example \"100us\""))
            }
            Arrival::Bursty { interval, on, .. } if (on.0 as f64) < interval.0 as f64 * MIN_ARRIVALS_PER_BURST => {
                Err(Wrong::new("arrival.on", format!("{on} is too short for arrivals every {interval}: lengthen it")))
            }
            _ => Ok(()),
        }
    }
}

/// Draws intervals.
pub(super) struct ArrivalSampler {
    arrival: Arrival,
    /// The rest of the burst, in nanoseconds.
    left: f64,
}

impl ArrivalSampler {
    pub(super) fn new(arrival: Arrival) -> ArrivalSampler {
        ArrivalSampler { arrival, left: 0.0 }
    }

    /// The mean interval in nanoseconds.
    pub(super) fn mean(&self) -> f64 {
        match self.arrival {
            Arrival::Constant(interval) => interval.0 as f64,
            Arrival::Poisson { mean } | Arrival::Pareto { mean, .. } => mean.0 as f64,
            Arrival::Bursty { interval, on, off } => interval.0 as f64 * (1.0 + off.0 as f64 / on.0 as f64),
        }
    }

    pub(super) fn gap(&mut self, random: &mut Random) -> Nanos {
        let nanos = match self.arrival {
            Arrival::Constant(interval) => return interval,
            Arrival::Poisson { mean } => random.exponential(mean.0 as f64),
            Arrival::Pareto { mean, shape } => random.pareto(mean.0 as f64 * (shape - 1.0) / shape, shape),
            Arrival::Bursty { interval, on, off } => {
                let gap = random.exponential(interval.0 as f64);
                let (mut need, mut total) = (gap, gap);
                // The exponential distribution has no memory: the part that a burst cut off continues in the next.
                while need > self.left {
                    need -= self.left;
                    total += random.exponential(off.0 as f64);
                    self.left = random.exponential(on.0 as f64);
                }
                self.left -= need;
                total
            }
        };
        Nanos(nanos.round() as u64)
    }
}
