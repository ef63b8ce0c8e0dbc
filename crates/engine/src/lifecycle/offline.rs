//! Operations on a volume that is not open: repair and detach.

use std::collections::HashMap;

use peryton_format::{storage::Storage, superblock::VolumeState};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Buffers, Command, Commands, DeviceId, IoId},
    api::config::{Config, MOST_MOVES, Placement},
    api::error::{DetachError, DeviceError, OpenError},
    api::excuses::{Excuse, Excuses},
    api::opened::{Opened, Trust},
    lifecycle::any::{AnyDrive, with_drive},
    lifecycle::drive::Drive,
    lifecycle::inspect::Overlay,
    lifecycle::superblocks::mend_superblocks,
    lifecycle::volume::{Opening, open},
    log::LogDrive,
    placement::PlacementOps,
};

/// The most bytes of zeros in one write.
const ZEROS: u64 = 1 << 20;
/// The most rounds in a row that write nothing back: devices fail, or a long log is examined that has no live data.
const MOST_IN_VAIN: u32 = 1000;
/// The same, where it is known that something will be left.
const MOST_IN_VAIN_OF_DAMAGED: u32 = 8;
const TOO_MUCH: &str = "more of the log is damaged than its commits can list: copy what can be read to another volume";
/// How often the clock is advanced until nothing waits.
const SETTLES: u32 = 3;
/// Write-backs under way at once: two extents, or as many smaller ones as a command can carry. (Half of the moves may be
/// write-backs.)
fn moves_at_once(placement: &Placement) -> u32 {
    let (Placement::Caching(pair) | Placement::Partitioned(pair)) = placement else { return 2 };
    (2 * (AT_ONCE.0 / pair.extent.0.max(1)) as u32).clamp(2, MOST_MOVES)
}

const AT_ONCE: Bytes = Bytes::mib(1);

/// The place of a detached volume's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The device that has all of the data.
    pub device: DeviceId,
    /// Offset of the volume on this device.
    pub at: Bytes,
    /// Length of the volume.
    pub len: Bytes,
    /// Number of extents (of a log: blocks) that were written back for it.
    pub written_back: u64,
    /// How much is lost, and reads as it was before.
    pub lost: Bytes,
}

/// Opens a volume and closes it again, which repairs what a crash or a damaged copy left behind. `trust` says which
/// device is right if another program has written to one. [`Opened::dirty`] is what is still to be written back.
///
/// # Errors
/// Those of [`Engine::open_without`](crate::Engine::open_without).
pub fn repair(
    config: Config,
    storage: &mut dyn Storage,
    trust: Trust,
    without: &[DeviceId],
) -> Result<Opened, OpenError> {
    let mended = mend_superblocks(&config, storage, trust, without)?;
    let (mut drive, mut opened) =
        open(config, storage, Opening { trust, names_damage: true, ..Opening::without(without) })?;
    opened.repaired += mended;
    let mut hand = Hand::default();
    // A device that fails is not given up: the operation fails, and can be run again.
    with_drive!(&mut drive, drive => drive.io.excuses = Excuses::all(Excuse::MayComeBack));
    if let AnyDrive::Log(drive) = &mut drive {
        drive.verify_everything(&mut hand, storage);
        opened.lost += drive.placed.damaged_blocks().saturating_sub(opened.lost);
        if drive.placed.damaged_blocks() > 0 || drive.placed.has_unverifiable() {
            drive.write_back_what_can_be(&mut hand, storage, MOST_IN_VAIN_OF_DAMAGED);
            if drive.placed.is_stuck() {
                return Err(OpenError::Damaged { device: hand.failed.map_or(0, DeviceId::index), what: TOO_MUCH });
            }
        }
    }
    let closed = with_drive!(&mut drive, drive => {
        let settled = hand.settle(drive, storage);
        opened.dirty = drive.placed.dirty_left();
        settled.and_then(|()| drive.close(VolumeState::Clean, storage))
    });
    closed.map_err(|device| OpenError::Device { device: hand.failed.unwrap_or(device).index() })?;
    Ok(opened)
}

/// What a volume is detached without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgone<'a> {
    /// Devices that are not there, or that are not to be read.
    pub devices: &'a [DeviceId],
    /// Whether what is lost with them, or was before, may be lost.
    pub accept_loss: bool,
}

/// Writes all data to one device, which can then be used without Peryton: data that only the cache or the log has is written back. The
/// volume cannot be opened after that. `left` is called with the number of extents (of a log: blocks) that are still to be written, again
/// and again.
///
/// # Errors
/// No device of this placement can have all data, data is lost or cannot be written back, or a device has failed.
pub fn detach(
    mut config: Config,
    storage: &mut dyn Storage,
    Forgone { devices, accept_loss }: Forgone<'_>,
    left: &mut dyn FnMut(u64),
) -> Result<Detached, DetachError> {
    let device = config.placement.stands_alone().ok_or(DetachError::Divided)?;
    if devices.contains(&device) {
        return Err(DetachError::Alone { device: device.index() });
    }
    config.tuning.max_moves = moves_at_once(&config.placement);
    config.tuning.spin_down_after = Vec::new();
    let open_whole = |storage: &mut dyn Storage| {
        let (drive, opened) = open(config.clone(), storage, Opening::without(devices))?;
        match opened.lost {
            _ if accept_loss => Ok(drive),
            extents if extents > 0 => Err(DetachError::Lost { extents }),
            _ if opened.is_loss_unknown => Err(DetachError::LossUnknown),
            _ => Ok(drive),
        }
    };
    if !devices.is_empty() {
        // A refusal leaves the volume as it is, with its devices.
        open_whole(&mut Overlay::new(storage))?;
    }
    let mut drive = open_whole(storage)?;
    with_drive!(&mut drive, drive => drive.detach(storage, device, left))
}

impl<P: PlacementOps> Drive<P> {
    /// Writes back what the origin lacks, until nothing is left or this many rounds in a row write nothing.
    fn write_back_what_can_be(&mut self, hand: &mut Hand<'_>, storage: &mut dyn Storage, most_in_vain: u32) {
        let (mut least, mut in_vain) = (self.placed.dirty_left(), 0);
        while self.placed.dirty_left() > 0 && in_vain < most_in_vain {
            let mut out = Commands::new();
            hand.now += Nanos::from_ms(10);
            self.write_all_back(hand.now, &mut out);
            hand.carry_out(self, storage, out);
            in_vain = if self.placed.dirty_left() < least { 0 } else { in_vain + 1 };
            least = least.min(self.placed.dirty_left());
        }
    }

    fn detach(
        &mut self,
        storage: &mut dyn Storage,
        device: DeviceId,
        left: &mut dyn FnMut(u64),
    ) -> Result<Detached, DetachError> {
        let away = self.placed.dirty_left();
        let mut hand = Hand { left: Some(left), ..Hand::default() };
        self.io.excuses = Excuses::all(Excuse::MayComeBack);
        self.write_back_what_can_be(&mut hand, storage, MOST_IN_VAIN);
        let settled = hand.settle(self, storage);
        if self.placed.damaged_blocks() > 0 {
            return Err(DetachError::Lost { extents: self.placed.damaged_blocks() });
        }
        if self.placed.dirty_left() > 0 {
            return Err(DetachError::Dirty { extents: self.placed.dirty_left() });
        }
        settled.and_then(|()| self.close(VolumeState::Detached, storage)).map_err(|_| DetachError::Device)?;
        let (at, len, lost) = (self.data_at[device.index()], self.volume_size, self.losses(0).bytes);
        Ok(Detached { device, at, len, written_back: away, lost })
    }
}

impl Drive<LogDrive> {
    /// Verifies what opening the volume did not.
    fn verify_everything(&mut self, hand: &mut Hand<'_>, storage: &mut dyn Storage) {
        let mut out = Commands::new();
        while self.placed.verify_more(&mut self.io.call(&mut out)) {
            hand.carry_out(self, storage, std::mem::take(&mut out));
        }
    }
}

/// Carries commands out one after the other, for a drive without a host.
#[derive(Default)]
struct Hand<'a> {
    now: Nanos,
    /// The device that has failed last.
    failed: Option<DeviceId>,
    moves: Moves,
    /// Is called with what is still to be written back.
    left: Option<&'a mut dyn FnMut(u64)>,
}

/// The most commands that are kept after they were carried out.
const MOST_DONE: usize = 1024;

/// The buffers of moves and of runs, made when they are first used.
#[derive(Default)]
struct Moves {
    bytes: HashMap<(bool, u32), Vec<u8>>,
}

impl Moves {
    fn bytes_mut(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (key, offset) = Moves::key(buffer);
        let (bytes, range) = (self.bytes.entry(key).or_default(), offset.0 as usize..(offset + len).0 as usize);
        bytes.resize(bytes.len().max(range.end), 0);
        &mut bytes[range]
    }

    /// Which buffer it is (of a run, and its number), and the offset in it.
    fn key(buffer: Buffer) -> ((bool, u32), Bytes) {
        match buffer {
            Buffer::Move { index, offset } => ((false, index), offset),
            Buffer::Run { index, offset } => ((true, index), offset),
            Buffer::Request { .. } | Buffer::Copy { .. } | Buffer::Metadata => unreachable!("there is no host"),
        }
    }
}

impl Buffers for Moves {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (key, offset) = Moves::key(buffer);
        &self.bytes[&key][offset.0 as usize..(offset.0 + len.0) as usize]
    }
}

impl Hand<'_> {
    /// Advances the clock until nothing is in flight. Where a device goes on failing, something always waits.
    fn settle<P: PlacementOps>(&mut self, drive: &mut Drive<P>, storage: &mut dyn Storage) -> Result<(), DeviceId> {
        for _ in 0..SETTLES {
            self.now += Nanos::from_s(60);
            let mut out = Commands::new();
            drive.tick(self.now, &mut out);
            self.carry_out(drive, storage, out);
        }
        if drive.is_idle() { Ok(()) } else { Err(self.failed.unwrap_or(DeviceId(0))) }
    }

    fn carry_out<P: PlacementOps>(&mut self, drive: &mut Drive<P>, storage: &mut dyn Storage, mut out: Commands) {
        let mut next = 0;
        while let Some(command) = out.get(next).copied() {
            next += 1;
            if let Some((io, result)) = self.one(drive, storage, command) {
                let device = drive.io.in_flight(io).map(|command| command.device);
                self.failed = if result.is_err() { device } else { self.failed };
                if result.is_ok()
                    && let Some(verified) = drive.verify(io, &self.moves)
                {
                    drive.placed.verified(verified);
                }
                drive.complete(self.now, io, result, &mut out).expect("each command is completed once");
                if let Some(left) = &mut self.left {
                    left(drive.placed.dirty_left());
                }
            }
            if next == MOST_DONE {
                out.drain(..next);
                next = 0;
            }
        }
    }

    fn one<P: PlacementOps>(
        &mut self,
        drive: &Drive<P>,
        storage: &mut dyn Storage,
        command: Command,
    ) -> Option<(IoId, Result<(), DeviceError>)> {
        Some(match command {
            Command::Read { io, device, at, len, buffer, .. } => {
                (io, storage.read(device, at, self.moves.bytes_mut(buffer, len)))
            }
            Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                let mut bytes = vec![0; len.0 as usize];
                drive.encode(io, &mut bytes, Some(&self.moves)).expect("the command is in flight");
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
                drive.encode(io, &mut bytes, Some(&self.moves)).expect("the command is in flight");
                self.moves.bytes_mut(into, len).copy_from_slice(&bytes);
                return None;
            }
            Command::Power { .. } | Command::Succeed { .. } => return None,
            Command::Reply { .. } => unreachable!("there is no host"),
        })
    }
}
