//! Small volumes that have been used, for targets that damage them.

use std::collections::HashMap;

use peryton_engine::{
    Buffer, Buffers, Command, Commands, Config, DeviceError, DeviceId, Engine, Formatting, Hybrid, Logging, Placement,
    Request, RequestId, Storage, Tuning, VolumeId,
};
use peryton_units::{Bytes, Nanos, Op};

/// The name of every volume here, which goes into its checksums.
pub const VOLUME: VolumeId = VolumeId(0xabc);
/// What metadata is sealed in.
pub const BLOCK: usize = 4096;

/// Devices in memory.
#[derive(Clone)]
pub struct Memory(pub Vec<Vec<u8>>);

impl Storage for Memory {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        Some(Bytes(self.0[device.index()].len() as u64))
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.0[device.index()].get(at.0 as usize..).and_then(|bytes| bytes.get(..into.len()));
        into.copy_from_slice(bytes.ok_or(DeviceError)?);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let bytes = self.0[device.index()].get_mut(at.0 as usize..).and_then(|bytes| bytes.get_mut(..from.len()));
        bytes.ok_or(DeviceError)?.copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A configuration of each placement that has metadata.
pub fn configs() -> Vec<Config> {
    let extent = Bytes::kib(4);
    let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent };
    let logging = Logging { primary: DeviceId(0), log: DeviceId(1), block: Bytes::kib(4) };
    let tuning = Tuning { promotion_threshold: 0, demotion_low: 2, demotion_high: 4, ..Tuning::default() };
    let devices = vec![extent * 16, extent * 64];
    [
        (Placement::Tiering(pair), devices.clone()),
        (Placement::Caching(pair), devices.clone()),
        (Placement::Partitioned(pair), devices.clone()),
        (Placement::Linear { devices: vec![DeviceId(0), DeviceId(1)] }, devices),
        (Placement::Logging(logging), vec![Bytes::kib(256), Bytes::mib(1)]),
    ]
    .into_iter()
    .map(|(placement, devices)| Config { devices, placement, tuning: tuning.clone() })
    .collect()
}

#[derive(Default)]
struct Buffered {
    moves: HashMap<u32, Vec<u8>>,
    host: Vec<u8>,
    whole: usize,
}

impl Buffered {
    fn bytes_mut(&mut self, buffer: Buffer, len: Bytes) -> &mut [u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { offset, .. } => (&mut self.host, offset),
            Buffer::Move { index, offset } => (self.moves.entry(index).or_insert_with(|| vec![0; self.whole]), offset),
            Buffer::Metadata => panic!("metadata is encoded"),
        };
        &mut bytes[at.0 as usize..(at + len).0 as usize]
    }
}

impl Buffers for Buffered {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (bytes, at) = match buffer {
            Buffer::Request { offset, .. } => (&self.host, offset),
            Buffer::Move { index, offset } => (&self.moves[&index], offset),
            Buffer::Metadata => panic!("metadata is encoded"),
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
    /// Opens what is there.
    pub fn open(config: &Config, mut storage: Memory) -> Option<Used> {
        let (engine, _) = Engine::open(config.clone(), &mut storage).ok()?;
        let buffers = Buffered { whole: engine.move_buffer_bytes().0 as usize, ..Buffered::default() };
        Some(Used { engine, storage, now: Nanos::ZERO, buffers })
    }

    /// One request and all that comes of it. Errors of the devices are the volume's to bear.
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
                        Buffer::Metadata => self.engine.encode_with(io, &mut bytes, &self.buffers),
                        buffer => bytes.copy_from_slice(self.buffers.bytes_mut(buffer, len)),
                    }
                    (io, self.storage.write(device, at, &bytes))
                }
                Command::Encode { io, into, len } => {
                    let mut bytes = vec![0; len.0 as usize];
                    self.engine.encode_with(io, &mut bytes, &self.buffers);
                    self.buffers.bytes_mut(into, len).copy_from_slice(&bytes);
                    continue;
                }
                Command::Zero { io, device, at, len } => (io, self.storage.write(device, at, &vec![0; len.0 as usize])),
                Command::Discard { io, .. } | Command::Flush { io, .. } => (io, Ok(())),
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
            self.engine.complete(self.now, io, result, &mut out);
        }
    }
}

/// A volume of this configuration after some use; closed in good order or not.
pub fn used(config: &Config, closed: bool) -> Memory {
    let sizes = Engine::new(config.clone()).expect("the configuration works");
    let mut storage = Memory(sizes.device_bytes().iter().map(|size| vec![0; size.0 as usize]).collect());
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
    if closed {
        used.engine.close(&mut used.storage).expect("the devices are well");
    }
    used.storage
}

/// Makes a block's checksum right again, so that what it says is looked at and not only that it is damaged.
pub fn reseal(block: &mut [u8]) {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&VOLUME.0.to_le_bytes()), &block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}
