//! Notes what the opening of a volume reads: an opening that reads the same gets to the same state.

use peryton_engine::{DeviceError, DeviceId, Displaced, Storage, VolumeId, handoff::Found};
use peryton_recording::StateReads;
use peryton_units::Bytes;

/// Devices whose reads are noted.
#[derive(Debug)]
pub(crate) struct Noting<'a, S> {
    storage: &'a mut S,
    /// Absent if nothing is to be noted.
    reads: Option<StateReads>,
    /// The most bytes that may be noted.
    most: u64,
    why_not: Option<String>,
}

impl<'a, S: Storage> Noting<'a, S> {
    /// Notes at most this many bytes; `None`: nothing.
    pub(crate) fn new(storage: &'a mut S, most: Option<Bytes>) -> Noting<'a, S> {
        let (mut reads, most) = (most.map(|_| StateReads::default()), most.map_or(0, |most| most.0));
        // What is read would say that a device is divided, and a simulated one is not.
        let why_not = (storage.displaced().is_some() && reads.take().is_some())
            .then(|| "one of its devices had data before the volume was made (peryton import)".to_owned());
        Noting { storage, reads, most, why_not }
    }

    /// The payloads of the chunks with what was read, or the reason why they do not have the state.
    pub(crate) fn into_state(self) -> Result<Vec<Vec<u8>>, String> {
        match self.why_not {
            Some(why) => Err(why),
            None => Ok(self.reads.map(StateReads::into_payloads).unwrap_or_default()),
        }
    }
}

impl<S: Storage> Storage for Noting<'_, S> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.storage.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        self.storage.read(device, at, into)?;
        if let Some(reads) = &mut self.reads {
            reads.push(device.0, at, into);
            if reads.bytes() as u64 > self.most {
                self.reads = None;
                self.why_not =
                    Some("the map takes more than half of what may be recorded: raise --record-limit".to_owned());
            }
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.storage.write(device, at, from)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.storage.flush(device)
    }

    fn left_in_memory(&mut self, volume: VolumeId, clean: bool) -> Option<Found> {
        let found = self.storage.left_in_memory(volume, clean);
        if found.is_some() && !clean && self.reads.take().is_some() {
            self.why_not = Some("part of it was taken over from the memory of a server that was killed".to_owned());
        }
        found
    }

    fn forget_memory(&mut self, volume: VolumeId) {
        self.storage.forget_memory(volume);
    }

    fn has_closed(&mut self, volume: VolumeId) {
        self.storage.has_closed(volume);
    }

    fn displaced(&self) -> Option<Displaced> {
        self.storage.displaced()
    }
}
