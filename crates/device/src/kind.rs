//! The kinds of devices that are measured and fitted, and how the latencies of reads show which it is.

use peryton_units::{Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::validate::Measured;

/// The kind of a device, and of the model that is fitted to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A magnetic disk.
    Disk,
    /// A flash drive.
    Flash,
    /// A device that is known by its times alone: a virtual disk, or memory.
    Fixed,
}

impl Kind {
    /// What these requests were measured on: no flash takes milliseconds for the typical read, and no disk does not.
    pub fn of(requests: &[Measured]) -> Kind {
        const SLOW: Nanos = Nanos(1_500_000);
        let mut alone: Vec<Nanos> = Vec::new();
        let mut until = Nanos::ZERO;
        for request in requests.iter().filter(|request| request.io.op == Op::Read) {
            // With others in flight the latency would say how many they are.
            if request.at >= until {
                alone.push(request.latency);
            }
            until = until.max(request.at + request.latency);
        }
        alone.sort_unstable();
        match alone.get(alone.len() / 2) {
            Some(&median) if median >= SLOW => Kind::Disk,
            _ => Kind::Flash,
        }
    }
}
