//! What a recording says besides requests: the drive, its state at the start, what it counted, and what changed.

use std::collections::BTreeMap;

use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Distribution,
    chunk::LONGEST,
    varint::{put, take},
};

/// What is recorded: the first chunk of each file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The version of Peryton.
    pub peryton_version: String,
    /// The name of the volume.
    pub name: String,
    /// When the recording began, in ms since 1970.
    pub began_unix_ms: u64,
    /// The number of the file, from 0: see [`Files`](crate::Files).
    #[serde(default)]
    pub file: u64,
    /// The text of the design file.
    pub design: String,
    /// Settings of the command line, `key=value` each.
    pub set: Vec<String>,
    /// The sizes of devices that the design does not give, by name.
    pub sizes: BTreeMap<String, Bytes>,
    /// What formatting has fixed, where that had to be asked: bytes of data on each device, and spare extents.
    pub formatted: Option<(Vec<Bytes>, u32)>,
    /// The size of the volume.
    pub volume: Bytes,
    /// The devices in the order of the design.
    pub devices: Vec<RecordedDevice>,
    /// Settings that were in force in addition to the design when the recording began.
    pub settings: Vec<String>,
    /// The reason why the state of the volume at the start is not part of the recording, if it is not.
    pub no_state: Option<String>,
    /// The most bytes of the recording.
    pub limit: Bytes,
}

/// A device of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDevice {
    /// Its name in the design.
    pub name: String,
    /// Its size; `None`: the volume was opened without it.
    pub size: Option<Bytes>,
}

/// What the drive had counted since it was opened, when it had answered the requests before this in the file and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The time since the start of the server.
    #[serde(with = "whole_nanos")]
    pub at: Nanos,
    /// The statistics of the engine.
    pub stats: Value,
    /// What the devices did, in the order of the design.
    pub devices: Vec<DeviceFigures>,
    /// Bytes whose only valid copy is on the fast device.
    pub dirty: Bytes,
}

/// How long the commands of a device took, from the engine's command to its completion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFigures {
    /// Reads.
    pub reads: Distribution,
    /// Writes.
    pub writes: Distribution,
    /// Flushes.
    pub flushes: Distribution,
}

/// Settings that changed while the volume was served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsChange {
    /// The time since the start of the server.
    #[serde(with = "whole_nanos")]
    pub at: Nanos,
    /// All settings that are in force from then on in addition to the design.
    pub settings: Vec<String>,
}

/// Why a recording ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The time since the start of the server.
    #[serde(with = "whole_nanos")]
    pub at: Nanos,
    /// Whether it had as many bytes as it may have, while the volume was served on. (A recording went no further then; now its oldest file goes.)
    pub is_full: bool,
}

/// Times as whole nanoseconds: texts for people have other units.
mod whole_nanos {
    use peryton_units::Nanos;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(at: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(at.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        u64::deserialize(from).map(Nanos)
    }
}

/// What the opening of the volume read from a device. An opening that reads the same gets to the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRead {
    /// The index of the device in the design.
    pub device: u8,
    /// The first byte.
    pub at: Bytes,
    /// What was there.
    pub bytes: Vec<u8>,
}

/// The blocks that are left out if they are zeros: most of a journal and of a map are.
const BLOCK: usize = 512;

/// The payloads of chunks with reads, as few as they fit into.
#[derive(Clone, Debug, Default)]
pub struct StateReads {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
    bytes: usize,
}

impl StateReads {
    /// Adds a read.
    pub fn push(&mut self, device: u8, at: Bytes, bytes: &[u8]) {
        // A part is one read of less than a chunk, with whole blocks before its end.
        for (index, part) in bytes.chunks(1 << 20).enumerate() {
            let before = self.last.len();
            self.last.push(device);
            put(&mut self.last, at.0 + ((index as u64) << 20));
            put(&mut self.last, part.len() as u64);
            let mut blocks = part.chunks(BLOCK).peekable();
            while blocks.peek().is_some() {
                let zeros = std::iter::from_fn(|| blocks.next_if(|block| block.iter().all(|byte| *byte == 0))).count();
                let data: Vec<&[u8]> =
                    std::iter::from_fn(|| blocks.next_if(|block| block.iter().any(|byte| *byte != 0))).collect();
                put(&mut self.last, zeros as u64);
                put(&mut self.last, data.len() as u64);
                data.iter().for_each(|block| self.last.extend_from_slice(block));
            }
            self.bytes += self.last.len() - before;
            if self.last.len() > LONGEST / 2 {
                self.full.push(std::mem::take(&mut self.last));
            }
        }
    }

    /// The number of bytes of all payloads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The payloads.
    pub fn into_payloads(mut self) -> Vec<Vec<u8>> {
        if !self.last.is_empty() {
            self.full.push(self.last);
        }
        self.full
    }
}

pub(crate) fn decode_state(mut from: &[u8]) -> Option<Vec<StateRead>> {
    let mut reads = Vec::new();
    while let Some((device, rest)) = from.split_first() {
        from = rest;
        let (at, len) = (take(&mut from)?, usize::try_from(take(&mut from)?).ok()?);
        if len > 1 << 20 {
            return None;
        }
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let (zeros, data) = (usize::try_from(take(&mut from)?).ok()?, usize::try_from(take(&mut from)?).ok()?);
            let zeros = zeros.checked_mul(BLOCK)?.min(len - bytes.len());
            bytes.resize(bytes.len() + zeros, 0);
            let data = data.checked_mul(BLOCK)?.min(len - bytes.len());
            bytes.extend_from_slice(from.get(..data)?);
            from = &from[data..];
            if zeros == 0 && data == 0 {
                return None;
            }
        }
        reads.push(StateRead { device: *device, at: Bytes(at), bytes });
    }
    Some(reads)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_come_back(
            reads in prop::collection::vec((0..3_u8, 0..1_u64 << 40, prop::collection::vec(prop_oneof![Just(0_u8), Just(7)], 1..9), 0..700_usize), 0..9),
        ) {
            let (mut state, mut wanted) = (StateReads::default(), Vec::new());
            for (device, at, blocks, odd) in reads {
                let mut bytes: Vec<u8> = blocks.iter().flat_map(|fill| [*fill; BLOCK]).collect();
                bytes.resize(bytes.len() + odd, 3);
                state.push(device, Bytes(at), &bytes);
                wanted.push(StateRead { device, at: Bytes(at), bytes });
            }
            let found: Vec<_> = state.into_payloads().iter().flat_map(|payload| decode_state(payload).unwrap()).collect();
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn rubbish_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_state(&bytes);
        }
    }

    #[test]
    fn an_empty_map_takes_few_bytes_and_a_long_one_several_chunks() {
        let mut state = StateReads::default();
        state.push(0, Bytes(4096), &vec![0; 40 << 20]);
        assert!(state.bytes() < 1000, "{}", state.bytes());
        state.push(1, Bytes(0), &vec![1; 10 << 20]);
        let payloads = state.into_payloads();
        assert!(payloads.len() > 1 && payloads.iter().all(|payload| payload.len() <= LONGEST));
        let bytes: usize =
            payloads.iter().flat_map(|payload| decode_state(payload).unwrap()).map(|read| read.bytes.len()).sum();
        assert_eq!(bytes, 50 << 20);
    }
}
