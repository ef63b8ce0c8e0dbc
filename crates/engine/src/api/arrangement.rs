//! The placement of a configuration as the format describes it, and back.

use peryton_format::geometry::{Arrangement, LogPair, MapPair};

use crate::{
    api::config::{Hybrid, Placement},
    api::logging::Logging,
};

impl From<Hybrid> for MapPair {
    fn from(Hybrid { fast, slow, extent }: Hybrid) -> MapPair {
        MapPair { fast, slow, extent }
    }
}

impl From<MapPair> for Hybrid {
    fn from(MapPair { fast, slow, extent }: MapPair) -> Hybrid {
        Hybrid { fast, slow, extent }
    }
}

impl From<Logging> for LogPair {
    fn from(Logging { primary, log, block }: Logging) -> LogPair {
        LogPair { primary, log, block }
    }
}

impl From<LogPair> for Logging {
    fn from(LogPair { primary, log, block }: LogPair) -> Logging {
        Logging { primary, log, block }
    }
}

impl From<&Placement> for Arrangement {
    fn from(placement: &Placement) -> Arrangement {
        match placement.clone() {
            Placement::Single { device } => Arrangement::Single { device },
            Placement::Linear { devices } => Arrangement::Linear { devices },
            Placement::Tiering(pair) => Arrangement::Tiering(pair.into()),
            Placement::Caching(pair) => Arrangement::Caching(pair.into()),
            Placement::Partitioned(pair) => Arrangement::Partitioned(pair.into()),
            Placement::Logging(pair) => Arrangement::Logging(pair.into()),
        }
    }
}

impl From<&Arrangement> for Placement {
    fn from(arrangement: &Arrangement) -> Placement {
        match arrangement.clone() {
            Arrangement::Single { device } => Placement::Single { device },
            Arrangement::Linear { devices } => Placement::Linear { devices },
            Arrangement::Tiering(pair) => Placement::Tiering(pair.into()),
            Arrangement::Caching(pair) => Placement::Caching(pair.into()),
            Arrangement::Partitioned(pair) => Placement::Partitioned(pair.into()),
            Arrangement::Logging(pair) => Placement::Logging(pair.into()),
        }
    }
}
