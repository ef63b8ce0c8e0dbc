//! What is done to a volume that nobody uses: putting it right, and taking it apart.

use std::collections::HashMap;

use peryton_units::{Bytes, Nanos};

use crate::{
    command::{Buffer, Command, Commands, DeviceId, IoId},
    config::{Config, Placement},
    engine::Engine,
    error::{DetachError, DeviceError, OpenError},
    metadata::superblock::State,
    storage::Storage,
    volume::{Opened, Trust},
};

/// Zeros are written in pieces of this size.
const ZEROS: u64 = 1 << 20;
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
    /// Extents that were written home for it.
    pub written_back: u64,
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
        let mut hand = Hand::new();
        hand.settle(&mut engine, storage);
        engine.close(storage).map_err(|DeviceError| OpenError::Device { device: 0 })?;
        Ok(opened)
    }

    /// Takes a volume apart, so that one device has everything and can be used without Peryton: what only the cache has
    /// is written home. The volume cannot be opened after that.
    pub fn detach(mut config: Config, storage: &mut dyn Storage) -> Result<Detached, DetachError> {
        let device = match &config.placement {
            Placement::Single { device } => *device,
            Placement::Caching(pair) | Placement::Partitioned(pair) => pair.slow,
            Placement::Tiering(_) | Placement::Linear { .. } => return Err(DetachError::Divided),
            Placement::Logging(_) => return Err(DetachError::Unsupported),
        };
        config.tuning.max_moves = AT_ONCE;
        config.tuning.spin_down_after = Vec::new();
        let (mut engine, opened) = Engine::open(config, storage)?;
        if opened.lost > 0 {
            return Err(DetachError::Lost { extents: opened.lost });
        }
        let dirty = u64::from(engine.dirty_extents());
        let mut hand = Hand::new();
        // Each round writes back at least one extent, unless a device fails.
        for _ in 0..=2 * dirty {
            let mut out = Commands::new();
            hand.now += Nanos::from_ms(10);
            engine.write_all_back(hand.now, &mut out);
            hand.carry_out(&mut engine, storage, out);
            if engine.dirty_extents() == 0 {
                break;
            }
        }
        hand.settle(&mut engine, storage);
        if engine.dirty_extents() > 0 {
            return Err(DetachError::Dirty { extents: engine.dirty_extents() });
        }
        engine.close_as(State::Detached, storage).map_err(|DeviceError| DetachError::Device)?;
        Ok(Detached { device, at: engine.data_at(device), len: engine.volume_size(), written_back: dirty })
    }
}

/// Carries commands out one after the other, for engines without a host.
struct Hand {
    now: Nanos,
    moves: HashMap<u32, Vec<u8>>,
}

impl Hand {
    fn new() -> Hand {
        Hand { now: Nanos::ZERO, moves: HashMap::new() }
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
        let extent = engine.move_buffer_bytes().0 as usize;
        let mut moved = |buffer: Buffer, len: Bytes| -> (u32, std::ops::Range<usize>) {
            let Buffer::Move { index, offset } = buffer else { unreachable!("there is no host") };
            self.moves.entry(index).or_insert_with(|| vec![0; extent]);
            (index, offset.0 as usize..(offset.0 + len.0) as usize)
        };
        Some(match command {
            Command::Read { io, device, at, len, buffer, .. } => {
                let (index, range) = moved(buffer, len);
                let into = self.moves.get_mut(&index).expect("just made");
                (io, storage.read(device, at, &mut into[range]))
            }
            Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                let mut bytes = vec![0; len.0 as usize];
                engine.encode_metadata(io, &mut bytes);
                (io, storage.write(device, at, &bytes))
            }
            Command::Write { io, device, at, len, buffer, .. } => {
                let (index, range) = moved(buffer, len);
                (io, storage.write(device, at, &self.moves[&index][range]))
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
            _ => return None,
        })
    }
}
