//! A run that begins and ends as a recording of a drive in service did: in the state in which that drive was opened, with the
//! changes of its settings, and up to the time of its last counts.

use std::collections::HashMap;

use peryton_engine::{DeviceError, DeviceId, Engine, Storage, Tuning};
use peryton_units::{Bytes, Nanos};

use crate::{Design, SimError, machine::Machine};

/// The unit in which metadata is read.
const BLOCK: usize = 4096;

/// What a recording says besides its requests.
#[derive(Debug, Default)]
pub struct AsRecorded {
    /// The state at the start; without it the drive is empty.
    pub state: Option<OpenedState>,
    /// The run goes on after the last reply until this time, which ends the measured span.
    pub until: Nanos,
    /// Settings that come into force, in the order of their times, each before the first request at or after its time.
    pub changes: Vec<(Nanos, Tuning)>,
    /// How long the answer of each request took, in their order; empty if that is not known.
    pub took: Vec<Nanos>,
}

/// The state of a volume when it was opened: what the opening read of its devices. An opening that reads the same gets to the
/// same state, whatever was in the map.
#[derive(Debug, Default)]
pub struct OpenedState {
    sizes: Vec<Option<Bytes>>,
    /// Blocks by device and number; those of zeros have no bytes.
    blocks: HashMap<(u8, u64), Option<Box<[u8]>>>,
}

impl OpenedState {
    /// Devices of these sizes, of which nothing was read.
    pub fn new(sizes: Vec<Option<Bytes>>) -> OpenedState {
        OpenedState { sizes, blocks: HashMap::new() }
    }

    /// Adds what was read, in the order of the reads: what was read again had been written meanwhile.
    pub fn add(&mut self, device: u8, at: Bytes, bytes: &[u8]) {
        for (index, block) in (at.0 / BLOCK as u64..).zip(bytes.chunks(BLOCK)) {
            let content = block.iter().any(|byte| *byte != 0).then(|| block.into());
            self.blocks.entry((device, index)).or_insert(content);
        }
    }

    /// The engine of this design, opened in this state.
    fn open(&self, design: &Design) -> Result<Engine, SimError> {
        let mut overlay = Overlay { state: self, written: HashMap::new() };
        let opened = Engine::open(design.config(), &mut overlay);
        opened.map(|(engine, _)| engine).map_err(|error| SimError::State { problem: error.to_string() })
    }
}

/// A state, and what one opening writes.
struct Overlay<'a> {
    state: &'a OpenedState,
    written: HashMap<(u8, u64), Box<[u8]>>,
}

impl Storage for Overlay<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.state.sizes.get(device.index()).copied().flatten()
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        for (index, block) in (at.0 / BLOCK as u64..).zip(into.chunks_mut(BLOCK)) {
            let key = (device.0, index);
            let written = self.written.get(&key).map(|bytes| Some(&**bytes));
            let found = written.or_else(|| self.state.blocks.get(&key).map(Option::as_deref)).ok_or(DeviceError)?;
            match found {
                None => block.fill(0),
                Some(bytes) => block.copy_from_slice(bytes.get(..block.len()).ok_or(DeviceError)?),
            }
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        for (index, block) in (at.0 / BLOCK as u64..).zip(from.chunks(BLOCK)) {
            self.written.insert((device.0, index), block.into());
        }
        Ok(())
    }

    fn flush(&mut self, _device: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl AsRecorded {
    /// Puts a drive that was built into the state at the start.
    pub(crate) fn begin(&self, design: &Design, machine: &mut Machine) -> Result<(), SimError> {
        let Some(state) = &self.state else { return Ok(()) };
        let [volume] = &mut machine.volumes[..] else {
            return Err(SimError::State { problem: "a drive in service is one volume".to_owned() });
        };
        volume.engine = state.open(design)?;
        Ok(())
    }
}
