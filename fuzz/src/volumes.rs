//! Small volumes that have been used, for targets that damage them.

use std::{collections::HashMap, ops::Range, sync::Arc};

use peryton_engine::{
    Buffer, Buffers, Command, Commands, Config, DeviceError, DeviceId, Engine, Formatting, Hybrid, Journal, Logging,
    Placement, Request, RequestId, Storage, Tuning, VolumeId, handoff::Found,
};
use peryton_format::block::{BLOCK_LEN, seal_as_it_is};
use peryton_units::{Bytes, Nanos, Op};

/// The name of every volume here, which goes into its checksums.
pub const VOLUME: VolumeId = VolumeId(0xabc);
/// The size of a metadata block.
pub const BLOCK: usize = BLOCK_LEN;

/// Devices in memory. Copying them takes time for the blocks written since `Memory::settle`.
#[derive(Clone)]
pub struct Memory {
    settled: Arc<Vec<Vec<u8>>>,
    written: HashMap<(usize, usize), Box<[u8; BLOCK]>>,
    /// The data that a killed server has left.
    pub left: Option<Found>,
}

impl Memory {
    fn blank(sizes: &[Bytes]) -> Memory {
        let devices = sizes.iter().map(|size| vec![0; size.0 as usize]).collect();
        Memory { settled: Arc::new(devices), written: HashMap::new(), left: None }
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.settled.len()
    }

    /// Number of blocks of a device.
    pub fn blocks(&self, device: usize) -> usize {
        self.settled[device].len() / BLOCK
    }

    /// A block of a device.
    pub fn block(&self, device: usize, index: usize) -> &[u8] {
        let written = self.written.get(&(device, index)).map(|block| &block[..]);
        written.unwrap_or_else(|| &self.settled[device][index * BLOCK..(index + 1) * BLOCK])
    }

    /// A block of a device, for writing.
    pub fn block_mut(&mut self, device: usize, index: usize) -> &mut [u8] {
        let settled = &self.settled[device][index * BLOCK..(index + 1) * BLOCK];
        let copy = || Box::new(settled.try_into().expect("a block is as long as a block"));
        &mut self.written.entry((device, index)).or_insert_with(copy)[..]
    }

    /// Adds the written blocks to the content that all copies share.
    fn settle(self) -> Memory {
        let mut devices = (*self.settled).clone();
        for ((device, index), block) in self.written {
            devices[device][index * BLOCK..(index + 1) * BLOCK].copy_from_slice(&block[..]);
        }
        Memory { settled: Arc::new(devices), written: HashMap::new(), left: None }
    }

    /// The blocks that a range of a device covers: block, range within it, and range of the data.
    fn pieces(&self, device: DeviceId, at: Bytes, len: usize) -> Result<Vec<(usize, Range<usize>)>, DeviceError> {
        let end = usize::try_from(at.0).ok().and_then(|at| at.checked_add(len)).ok_or(DeviceError)?;
        let size = self.settled.get(device.index()).ok_or(DeviceError)?.len();
        if end > size {
            return Err(DeviceError);
        }
        let begin = end - len;
        let blocks = begin / BLOCK..end.div_ceil(BLOCK);
        Ok(blocks.map(|block| (block, begin.max(block * BLOCK) % BLOCK..(end - block * BLOCK).min(BLOCK))).collect())
    }
}

impl Storage for Memory {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        Some(Bytes(self.settled[device.index()].len() as u64))
    }

    fn read(&mut self, device: DeviceId, at: Bytes, mut into: &mut [u8]) -> Result<(), DeviceError> {
        for (block, range) in self.pieces(device, at, into.len())? {
            let (now, later) = into.split_at_mut(range.len());
            now.copy_from_slice(&self.block(device.index(), block)[range]);
            into = later;
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, mut from: &[u8]) -> Result<(), DeviceError> {
        for (block, range) in self.pieces(device, at, from.len())? {
            let (now, later) = from.split_at(range.len());
            self.block_mut(device.index(), block)[range].copy_from_slice(now);
            from = later;
        }
        Ok(())
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }

    fn left_in_memory(&mut self, _: VolumeId, _: bool) -> Option<Found> {
        self.left.clone()
    }
}

/// A configuration of each placement; with a map of more than one block, and with commits on one device.
pub fn configs() -> Vec<Config> {
    let extent = Bytes::kib(4);
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent };
    let logging = Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: Bytes::kib(4) };
    let tuning = Tuning {
        promotion_threshold: 0,
        demotion_low: 2,
        demotion_high: 4,
        journal: Journal::Mirrored,
        ..Tuning::default()
    };
    let alone = Tuning { journal: Journal::Named, ..tuning.clone() };
    let small = vec![extent * 16, extent * 64];
    let config = |placement, devices: &[Bytes], tuning: &Tuning| Config {
        devices: devices.to_vec(),
        placement,
        tuning: tuning.clone(),
    };
    vec![
        config(Placement::Tiering(pair), &small, &tuning),
        config(Placement::Tiering(pair), &[extent * 16, extent * 1200], &tuning),
        config(Placement::Caching(pair), &small, &tuning),
        config(Placement::Caching(pair), &small, &alone),
        config(Placement::Partitioned(pair), &small, &tuning),
        config(Placement::Single { device: DeviceId(0) }, &small[..1], &tuning),
        config(Placement::Linear { devices: vec![DeviceId(0), DeviceId(1)] }, &small, &tuning),
        config(Placement::Logging(logging), &[Bytes::kib(256), Bytes::mib(1)], &tuning),
    ]
}

#[derive(Default)]
struct Buffered {
    moves: HashMap<u32, Vec<u8>>,
    runs: HashMap<u32, Vec<u8>>,
    host: Vec<u8>,
    whole: usize,
    whole_run: usize,
}

impl Buffered {
    fn bytes_mut(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { offset, .. } => (&mut self.host, offset),
            Buffer::Move { index, offset } => (self.moves.entry(index).or_insert_with(|| vec![0; self.whole]), offset),
            Buffer::Run { index, offset } => {
                (self.runs.entry(index).or_insert_with(|| vec![0; self.whole_run]), offset)
            }
            Buffer::Metadata => panic!("metadata is encoded"),
            Buffer::Copy { .. } => panic!("no device is replaced"),
        };
        &mut bytes[at.0 as usize..(at + len).0 as usize]
    }
}

impl Buffers for Buffered {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { offset, .. } => (&self.host, offset),
            Buffer::Move { index, offset } => (&self.moves[&index], offset),
            Buffer::Run { index, offset } => (&self.runs[&index], offset),
            Buffer::Metadata => panic!("metadata is encoded"),
            Buffer::Copy { .. } => panic!("no device is replaced"),
        };
        &bytes[at.0 as usize..(at + len).0 as usize]
    }
}

/// Opens a volume and sends it requests, one after the other; `None` if it cannot be opened.
pub struct Used {
    /// The engine.
    pub engine: Engine,
    /// Its devices.
    pub storage: Memory,
    now: Nanos,
    buffers: Buffered,
}

impl Used {
    /// Opens the volume.
    pub fn open(config: &Config, mut storage: Memory) -> Option<Used> {
        let (engine, _) = Engine::open(config.clone(), &mut storage).ok()?;
        let (whole, whole_run) = (engine.move_buffer_bytes().0 as usize, engine.run_buffers().1.0 as usize);
        let buffers = Buffered { whole, whole_run, ..Buffered::default() };
        Some(Used { engine, storage, now: Nanos::ZERO, buffers })
    }

    /// Sends one request and carries out all commands that follow. Errors of the devices are passed to the volume.
    pub fn request(&mut self, op: Op, offset: Bytes, len: Bytes) {
        self.now += Nanos::from_ms(100);
        self.buffers.host = vec![7; len.0 as usize];
        let mut out = Commands::new();
        self.engine.submit(self.now, RequestId(0), Request { op, offset, len }, &mut out);
        self.obey(out);
        for _ in 0..3 {
            let mut out = Commands::new();
            self.engine.tick(self.now, &mut out);
            self.obey(out);
            self.now += Nanos::from_ms(10);
        }
    }

    fn obey(&mut self, mut out: Commands) {
        let mut at = 0;
        while at < out.len() {
            let command = out[at];
            at += 1;
            let (io, result) = match command {
                Command::Read { io, device, at, len, buffer, .. } => {
                    let mut bytes = vec![0; len.0 as usize];
                    let result = self.storage.read(device, at, &mut bytes);
                    self.buffers.bytes_mut(buffer, len).copy_from_slice(&bytes);
                    (io, result)
                }
                Command::Write { io, device, at, len, buffer, .. } => {
                    let mut bytes = vec![0; len.0 as usize];
                    match buffer {
                        Buffer::Metadata => {
                            self.engine.encode_with(io, &mut bytes, &self.buffers).expect("it is in flight")
                        }
                        buffer => bytes.copy_from_slice(self.buffers.bytes_mut(buffer, len)),
                    }
                    (io, self.storage.write(device, at, &bytes))
                }
                Command::Encode { io, into, len } => {
                    let mut bytes = vec![0; len.0 as usize];
                    self.engine.encode_with(io, &mut bytes, &self.buffers).expect("it is in flight");
                    self.buffers.bytes_mut(into, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Zero { io, device, at, len } => (io, self.storage.write(device, at, &vec![0; len.0 as usize])),
                Command::Discard { io, .. } | Command::Flush { io, .. } => (io, Ok(())),
                Command::Succeed { .. } => panic!("no device is replaced"),
                Command::Copy { from, to, len } => {
                    let bytes = self.buffers.bytes_mut(from, len).to_vec();
                    self.buffers.bytes_mut(to, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Clear { buffer, len } => {
                    self.buffers.bytes_mut(buffer, len).fill(0);
                    continue;
                }
                Command::Power { .. } | Command::Reply { .. } => continue,
            };
            if result.is_ok()
                && let Some(verified) = self.engine.verify(io, &self.buffers)
            {
                self.engine.verified(verified);
            }
            self.engine.complete(self.now, io, result, &mut out).expect("it is in flight");
        }
    }
}

/// The state in which a volume is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Closed cleanly.
    Closed,
    /// Crashed.
    Open,
    /// Closed cleanly, after a time without its last device.
    Without,
}

/// A volume of this configuration after some use; `None` if it cannot be left in that state.
pub fn used(config: &Config, left: Left) -> Option<Memory> {
    let sizes = Engine::new(config.clone()).expect("the configuration works");
    let mut storage = Memory::blank(sizes.device_bytes());
    let new = Formatting { volume: VOLUME, unix_s: 1, zeroed: true, notes: "max_moves=3".to_string() };
    Engine::format(config, new, &mut storage).expect("blank devices can be formatted");
    let mut used = Used::open(config, storage).expect("it was just formatted");
    let extents = used.engine.volume_size().0 / 4096;
    for n in 0..60u64 {
        let (offset, len) = (Bytes(n * 31 % (extents - 1) * 4096), Bytes(4096 * (1 + n % 2)));
        let op = [Op::Write, Op::Read, Op::Write, Op::Discard][n as usize % 4];
        used.request(op, offset, len);
        if n % 7 == 0 {
            used.request(Op::Flush, Bytes::ZERO, Bytes::ZERO);
        }
    }
    if left == Left::Open {
        return Some(used.storage.settle());
    }
    let (mut engine, mut storage) = (used.engine, used.storage);
    engine.close(&mut storage).expect("the devices are well");
    if left == Left::Without {
        let last = DeviceId(config.devices.len() as u8 - 1);
        (engine, _) = Engine::open_without(config.clone(), &mut storage, &[last]).ok()?;
        engine.close(&mut storage).expect("the devices are well");
    }
    Some(storage.settle())
}

/// Corrects a block's checksum, so that its content is checked and not only its damage.
pub fn reseal(block: &mut [u8]) {
    seal_as_it_is(block, VOLUME);
}
