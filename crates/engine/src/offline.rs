//! What is done to a volume that nobody uses: putting it right, and taking it apart.

use std::collections::HashMap;

use peryton_format::{storage::Storage, superblock::VolumeState};
use peryton_units::{Bytes, Nanos};

use crate::{
    command::{Buffer, Buffers, Command, Commands, DeviceId, IoId},
    config::{Config, Placement},
    engine::Engine,
    error::{DetachError, DeviceError, OpenError},
    volume::{Opened, Trust},
};

/// Zeros are written in pieces of this size.
const ZEROS: u64 = 1 << 20;
/// A round writes something home, unless devices fail, or it looks through a long log of which nothing is left.
const MOST_IN_VAIN: u32 = 1000;
/// Write-backs under way at once: each has a buffer of an extent.
const AT_ONCE: u32 = 2;

/// Where a detached volume's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The device that stands alone.
    pub device: DeviceId,
    /// Where on it the volume begins.
    pub at: Bytes,
    /// How long it is.
    pub len: Bytes,
    /// Extents (of a log: blocks) that were written home for it.
    pub written_back: u64,
}

impl Placement {
    /// The device that has everything once the volume is detached, if it can be.
    pub(crate) fn stands_alone(&self) -> Option<DeviceId> {
        match self {
            Placement::Single { device } => Some(*device),
            Placement::Caching(pair) | Placement::Partitioned(pair) => Some(pair.slow),
            Placement::Logging(pair) => Some(pair.primary),
            Placement::Tiering(_) | Placement::Linear { .. } => None,
        }
    }
}

impl Engine {
    /// Opens a volume and closes it again, which makes good what a crash or a damaged copy left behind. `trust` settles
    /// which device is right where somebody else wrote to one.
    pub fn repair(
        config: Config,
        storage: &mut dyn Storage,
        trust: Trust,
        without: &[DeviceId],
    ) -> Result<Opened, OpenError> {
        let (mut engine, opened) = Engine::open_trusting(config, storage, trust, without)?;
        let mut hand = Hand::new(&engine);
        hand.settle(&mut engine, storage);
        engine.close(storage).map_err(|DeviceError| OpenError::Device { device: 0 })?;
        Ok(opened)
    }

    /// Takes a volume apart, so that one device has everything and can be used without Peryton: what only the cache has
    /// or the log has is written home. The volume cannot be opened after that.
    pub fn detach(mut config: Config, storage: &mut dyn Storage) -> Result<Detached, DetachError> {
        let device = config.placement.stands_alone().ok_or(DetachError::Divided)?;
        config.tuning.max_moves = AT_ONCE;
        config.tuning.spin_down_after = Vec::new();
        let (mut engine, opened) = Engine::open(config, storage)?;
        if opened.lost > 0 {
            return Err(DetachError::Lost { extents: opened.lost });
        }
        let away = engine.away();
        let mut hand = Hand::new(&engine);
        let (mut least, mut in_vain) = (away, 0);
        while engine.away() > 0 && in_vain < MOST_IN_VAIN {
            let mut out = Commands::new();
            hand.now += Nanos::from_ms(10);
            engine.write_all_back(hand.now, &mut out);
            hand.carry_out(&mut engine, storage, out);
            in_vain = if engine.away() < least { 0 } else { in_vain + 1 };
            least = least.min(engine.away());
        }
        hand.settle(&mut engine, storage);
        if engine.away() > 0 {
            return Err(DetachError::Dirty { extents: engine.away() });
        }
        engine.close_as(VolumeState::Detached, storage).map_err(|DeviceError| DetachError::Device)?;
        Ok(Detached { device, at: engine.data_at(device), len: engine.volume_size(), written_back: away })
    }
}

/// Carries commands out one after the other, for engines without a host.
struct Hand {
    now: Nanos,
    moves: Moves,
}

/// The buffers of moves, made when they are first used.
struct Moves {
    bytes: HashMap<u32, Vec<u8>>,
    each: usize,
}

impl Moves {
    fn bytes_mut(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let Buffer::Move { index, offset } = buffer else { unreachable!("there is no host") };
        let bytes = self.bytes.entry(index).or_insert_with(|| vec![0; self.each]);
        &mut bytes[offset.0 as usize..(offset.0 + len.0) as usize]
    }
}

impl Buffers for Moves {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let Buffer::Move { index, offset } = buffer else { unreachable!("there is no host") };
        &self.bytes[&index][offset.0 as usize..(offset.0 + len.0) as usize]
    }
}

impl Hand {
    fn new(engine: &Engine) -> Hand {
        let each = engine.move_buffer_bytes().0 as usize;
        Hand { now: Nanos::ZERO, moves: Moves { bytes: HashMap::new(), each } }
    }

    /// Lets time pass until nothing is in flight.
    fn settle(&mut self, engine: &mut Engine, storage: &mut dyn Storage) {
        for _ in 0..3 {
            self.now += Nanos::from_s(60);
            let mut out = Commands::new();
            engine.tick(self.now, &mut out);
            self.carry_out(engine, storage, out);
        }
        assert!(engine.is_idle(), "commands that are carried out at once leave nothing in flight");
    }

    fn carry_out(&mut self, engine: &mut Engine, storage: &mut dyn Storage, mut out: Commands) {
        let mut next = 0;
        while let Some(command) = out.get(next).copied() {
            next += 1;
            if let Some((io, result)) = self.one(engine, storage, command) {
                engine.complete(self.now, io, result, &mut out);
            }
        }
    }

    fn one(
        &mut self,
        engine: &Engine,
        storage: &mut dyn Storage,
        command: Command,
    ) -> Option<(IoId, Result<(), DeviceError>)> {
        Some(match command {
            Command::Read { io, device, at, len, buffer, .. } => {
                (io, storage.read(device, at, self.moves.bytes_mut(buffer, len)))
            }
            Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                let mut bytes = vec![0; len.0 as usize];
                engine.encode_with(io, &mut bytes, &self.moves);
                (io, storage.write(device, at, &bytes))
            }
            Command::Write { io, device, at, len, buffer, .. } => {
                (io, storage.write(device, at, self.moves.bytes_mut(buffer, len)))
            }
            Command::Zero { io, device, at, len } => {
                let zeros = vec![0; ZEROS.min(len.0) as usize];
                let write = |from: u64| {
                    let piece = &zeros[..ZEROS.min(len.0 - from) as usize];
                    storage.write(device, at + Bytes(from), piece)
                };
                (io, (0..len.0).step_by(ZEROS as usize).try_for_each(write))
            }
            Command::Flush { io, device } => (io, storage.flush(device)),
            Command::Discard { io, .. } => (io, Ok(())),
            Command::Copy { from, to, len } => {
                let bytes = self.moves.bytes_mut(from, len).to_vec();
                self.moves.bytes_mut(to, len).copy_from_slice(&bytes);
                return None;
            }
            Command::Clear { buffer, len } => {
                self.moves.bytes_mut(buffer, len).fill(0);
                return None;
            }
            Command::Encode { io, into, len } => {
                let mut bytes = vec![0; len.0 as usize];
                engine.encode_with(io, &mut bytes, &self.moves);
                self.moves.bytes_mut(into, len).copy_from_slice(&bytes);
                return None;
            }
            Command::Power { .. } => return None,
            Command::Reply { .. } => unreachable!("there is no host"),
        })
    }
}
