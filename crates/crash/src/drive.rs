//! The engine on fake disks. The run decides when each of the engine's commands completes.

use std::{cell::OnceCell, collections::BTreeMap, rc::Rc};

use peryton_engine::{
    Buffer, Buffers, Command, Commands, Config, DeviceError, DeviceId, Engine, IoId, OpenError, Opened, Request,
    RequestError, RequestId, Storage,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::disk::{Disk, Entry, Payload, SECTOR, Tag, expand, tag_of};

/// A request of the host that has not been answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    /// The model's time at which the host submitted the request.
    pub(crate) from: u32,
    /// The tags that a write writes, or that a read has returned so far.
    pub(crate) data: Vec<Tag>,
    /// The same data as bytes; filled when the engine first encodes them.
    bytes: OnceCell<Vec<u8>>,
}

/// One of the driver's buffers for moves.
#[derive(Debug)]
struct MoveBuffer {
    data: Vec<Tag>,
    bytes: OnceCell<Vec<u8>>,
}

fn bytes_of(data: &[Tag]) -> Vec<u8> {
    let mut bytes = vec![0; data.len() * SECTOR as usize];
    bytes.chunks_exact_mut(SECTOR as usize).zip(data).for_each(|(into, tag)| expand(*tag, into));
    bytes
}

/// Gives the engine the driver's buffers as bytes.
struct AsBytes<'a> {
    requests: &'a BTreeMap<u64, Asked>,
    moves: &'a [MoveBuffer],
}

impl Buffers for AsBytes<'_> {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (bytes, offset) = match buffer {
            Buffer::Request { id, offset } => {
                let asked = &self.requests[&id.0];
                (asked.bytes.get_or_init(|| bytes_of(&asked.data)), offset)
            }
            Buffer::Move { index, offset } => {
                let buffer = &self.moves[index as usize];
                (buffer.bytes.get_or_init(|| bytes_of(&buffer.data)), offset)
            }
            Buffer::Metadata => unreachable!("metadata is encoded"),
        };
        &bytes[offset.0 as usize..][..len.0 as usize]
    }
}

/// A command that has not been completed.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) command: Command,
    /// The content that the command writes, if it writes.
    payload: Option<Payload>,
    /// For a flush: the number up to which it covers the disk's writes.
    mark: u64,
}

impl Pending {
    pub(crate) fn device(&self) -> DeviceId {
        match self.command {
            Command::Read { device, .. }
            | Command::Write { device, .. }
            | Command::Flush { device, .. }
            | Command::Discard { device, .. }
            | Command::Zero { device, .. } => device,
            _ => unreachable!("done at once"),
        }
    }

    /// The write that the command may leave on the disk if the power goes while it is in flight.
    fn entry(&self, rng: &mut Pcg64Mcg) -> Option<Entry> {
        match self.command {
            Command::Write { at, .. } | Command::Zero { at, .. } => {
                Some(Entry::new(at, self.payload.clone().expect("a write has a payload")))
            }
            Command::Discard { at, .. } => {
                Some(Entry::new(at, self.payload.clone().expect("a discard zeroes")).partial(rng))
            }
            _ => None,
        }
    }
}

/// An answer of the engine that the run has not checked yet.
pub(crate) type Answer = (RequestId, Asked, Result<(), RequestError>);

pub(crate) struct Drive {
    pub(crate) engine: Engine,
    pub(crate) disks: Vec<Disk>,
    pub(crate) now: Nanos,
    pub(crate) requests: BTreeMap<u64, Asked>,
    pub(crate) pending: Vec<Pending>,
    pub(crate) answered: Vec<Answer>,
    buffers: Vec<MoveBuffer>,
    next_id: u64,
    out: Commands,
}

fn sectors(bytes: Bytes) -> usize {
    (bytes.0 / SECTOR) as usize
}

/// The sectors of the volume that a request touches; none for a flush.
pub(crate) fn span(request: &Request) -> std::ops::Range<usize> {
    if request.op == Op::Flush {
        return 0..0;
    }
    sectors(request.offset)..sectors(request.offset + request.len)
}

impl Drive {
    /// Opens the volume on these disks.
    pub(crate) fn open(
        config: &Config,
        mut disks: Vec<Disk>,
        without: &[DeviceId],
    ) -> Result<(Drive, Opened), (OpenError, Vec<Disk>)> {
        let opened = Engine::open_without(config.clone(), &mut Direct { disks: &mut disks }, without);
        match opened {
            Ok((engine, opened)) => Ok((Drive::new(engine, disks), opened)),
            Err(error) => Err((error, disks)),
        }
    }

    pub(crate) fn new(engine: Engine, disks: Vec<Disk>) -> Drive {
        Drive {
            engine,
            disks,
            now: Nanos::ZERO,
            requests: BTreeMap::new(),
            pending: Vec::new(),
            answered: Vec::new(),
            buffers: Vec::new(),
            next_id: 0,
            out: Commands::new(),
        }
    }

    pub(crate) fn submit(&mut self, request: Request, from: u32, data: Vec<Tag>) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.requests.insert(id.0, Asked { request, from, data, bytes: OnceCell::new() });
        let mut out = std::mem::take(&mut self.out);
        self.engine.submit(self.now, id, request, &mut out);
        self.obey(out);
        id
    }

    /// Reports to the engine that a device is dead, as a driver would.
    pub(crate) fn device_failed(&mut self, device: DeviceId) {
        let mut out = std::mem::take(&mut self.out);
        self.engine.device_failed(self.now, device, &mut out);
        self.obey(out);
    }

    /// The model's time at which the oldest read in flight was submitted.
    pub(crate) fn oldest_read(&self) -> u32 {
        let reads = self.requests.values().filter(|asked| asked.request.op == Op::Read);
        reads.map(|asked| asked.from).min().unwrap_or(u32::MAX)
    }

    fn buffer(&mut self, buffer: Buffer, len: Bytes) -> &mut [Tag] {
        let (whole, offset) = match buffer {
            Buffer::Request { id, offset } => {
                let asked = self.requests.get_mut(&id.0).expect("the engine used the buffer of an answered request");
                asked.bytes.take();
                (&mut asked.data, offset)
            }
            Buffer::Move { index, offset } => {
                assert!(index < self.engine.move_buffers(), "move buffer {index} is beyond the bound");
                let len = sectors(self.engine.move_buffer_bytes());
                while self.buffers.len() <= index as usize {
                    self.buffers.push(MoveBuffer { data: vec![Tag::MAX; len], bytes: OnceCell::new() });
                }
                let buffer = &mut self.buffers[index as usize];
                buffer.bytes.take();
                (&mut buffer.data, offset)
            }
            Buffer::Metadata => unreachable!("metadata is encoded, and never read by a command"),
        };
        &mut whole[sectors(offset)..][..sectors(len)]
    }

    fn obey(&mut self, mut out: Commands) {
        for command in out.drain(..) {
            let (mut payload, mut mark) = (None, 0);
            match command {
                Command::Copy { from, to, len } => {
                    let data = self.buffer(from, len).to_vec();
                    self.buffer(to, len).copy_from_slice(&data);
                    continue;
                }
                Command::Clear { buffer, len } => {
                    self.buffer(buffer, len).fill(0);
                    continue;
                }
                Command::Power { .. } => continue,
                Command::Encode { io, into, len } => {
                    let bytes = self.encode(io, len);
                    let tags = bytes.chunks_exact(SECTOR as usize).map(tag_of);
                    self.buffer(into, len).iter_mut().zip(tags).for_each(|(into, tag)| *into = tag);
                    continue;
                }
                Command::Reply { id, result } => {
                    let asked = self.requests.remove(&id.0).expect("a request is answered once");
                    self.answered.push((id, asked, result));
                    continue;
                }
                Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                    let bytes = self.encode(io, len);
                    payload = Some(self.disks[device.index()].entry(at, bytes).payload);
                }
                Command::Write { buffer, len, .. } => {
                    payload = Some(Payload::Data(Rc::from(&*self.buffer(buffer, len))))
                }
                Command::Zero { len, .. } | Command::Discard { len, .. } => {
                    payload = Some(Payload::Data(vec![0; sectors(len)].into()));
                }
                Command::Flush { device, .. } => mark = self.disks[device.index()].mark(),
                Command::Read { .. } => {}
            }
            self.pending.push(Pending { command, payload, mark });
        }
        self.out = out;
    }

    fn encode(&self, io: IoId, len: Bytes) -> Vec<u8> {
        let mut bytes = vec![0; len.0 as usize];
        self.engine
            .encode_with(io, &mut bytes, &AsBytes { requests: &self.requests, moves: &self.buffers })
            .expect("it is in flight");
        bytes
    }

    /// Completes the command at `index`. If `fails` is true, the command reports an error and at most some of its
    /// sectors take effect.
    pub(crate) fn complete(&mut self, index: usize, fails: bool, rng: &mut Pcg64Mcg) -> (Command, bool) {
        let pending = self.pending.swap_remove(index);
        self.complete_taken(pending, fails, rng)
    }

    /// Completes the commands in flight, oldest first, and those that the engine issues meanwhile, until none is left.
    pub(crate) fn complete_all(&mut self, rng: &mut Pcg64Mcg) {
        while !self.pending.is_empty() {
            for pending in std::mem::take(&mut self.pending) {
                self.complete_taken(pending, false, rng);
            }
        }
    }

    fn complete_taken(&mut self, pending: Pending, fails: bool, rng: &mut Pcg64Mcg) -> (Command, bool) {
        let Pending { command, payload, mark } = pending;
        let device = pending_device(&command);
        let disk = &self.disks[device.index()];
        let mut failed = fails || disk.dead;
        let dead = disk.dead;
        let io = match command {
            Command::Read { io, at, len, buffer, .. } => {
                failed |= disk.is_bad(at, len);
                if !failed {
                    let mut data = vec![0; sectors(len)];
                    disk.read(at, &mut data);
                    self.buffer(buffer, len).copy_from_slice(&data);
                }
                io
            }
            Command::Write { io, at, len, buffer, .. } => {
                let payload = payload.expect("a write has a payload");
                if let Payload::Data(data) = &payload
                    && buffer != Buffer::Metadata
                {
                    let now = &*self.buffer(buffer, len);
                    assert!(now == &**data, "a buffer changed while it was written: {command:?}");
                }
                let entry = Entry::new(at, payload);
                if !failed {
                    self.disks[device.index()].write(entry);
                } else if !dead {
                    self.disks[device.index()].write(entry.partial(rng));
                }
                io
            }
            Command::Zero { io, at, .. } | Command::Discard { io, at, .. } => {
                let entry = Entry::new(at, payload.expect("it zeroes"));
                let whole = !failed && matches!(command, Command::Zero { .. });
                if whole {
                    self.disks[device.index()].write(entry);
                } else if !dead {
                    self.disks[device.index()].write(entry.partial(rng));
                }
                io
            }
            Command::Flush { io, .. } => {
                if !failed {
                    self.disks[device.index()].flushed(mark);
                }
                io
            }
            Command::Copy { .. }
            | Command::Clear { .. }
            | Command::Encode { .. }
            | Command::Power { .. }
            | Command::Reply { .. } => unreachable!("done at once"),
        };
        self.now += Nanos(rng.random_range(0..2_000_000));
        self.finish(io, failed);
        (command, failed)
    }

    fn finish(&mut self, io: IoId, failed: bool) {
        let mut out = std::mem::take(&mut self.out);
        let result = if failed { Err(DeviceError) } else { Ok(()) };
        self.engine.complete(self.now, io, result, &mut out).expect("each command is completed once");
        self.obey(out);
    }

    pub(crate) fn tick(&mut self, span: Nanos) {
        self.now += span;
        let mut out = std::mem::take(&mut self.out);
        self.engine.tick(self.now, &mut out);
        self.obey(out);
    }

    /// Applies a tuning; returns whether the engine accepted it. Panics if a refused tuning changed anything.
    pub(crate) fn retune(&mut self, tuning: peryton_engine::Tuning) -> bool {
        let before = self.engine.tuning().clone();
        let mut out = std::mem::take(&mut self.out);
        let done = self.engine.retune(self.now, tuning, &mut out).is_ok();
        self.obey(out);
        assert!(done || *self.engine.tuning() == before, "a refused tuning changed something");
        done
    }

    /// Returns the disks as the next start finds them if the power goes now.
    pub(crate) fn disks_after_crash(&self, rng: &mut Pcg64Mcg) -> Vec<Disk> {
        let disks = 0..self.disks.len();
        disks
            .map(|index| {
                let here = self.pending.iter().filter(|pending| pending.device().index() == index);
                let entries: Vec<Entry> = here.filter_map(|pending| pending.entry(rng)).collect();
                self.disks[index].after_crash(entries.into_iter(), rng)
            })
            .collect()
    }

    /// Reads a range with nothing else in flight. Advances the clock when only a timer is left to wait for.
    pub(crate) fn read_now(
        &mut self,
        range: std::ops::Range<usize>,
        rng: &mut Pcg64Mcg,
    ) -> Result<Vec<Tag>, RequestError> {
        let request = Request {
            op: Op::Read,
            offset: Bytes(range.start as u64 * SECTOR),
            len: Bytes(range.len() as u64 * SECTOR),
        };
        let id = self.submit(request, 0, vec![Tag::MAX; range.len()]);
        for _ in 0..1000 {
            self.complete_all(rng);
            if let Some(at) = self.answered.iter().position(|(other, ..)| *other == id) {
                let (_, asked, result) = self.answered.swap_remove(at);
                return result.map(|()| asked.data);
            }
            self.tick(Nanos::from_ms(500));
        }
        panic!("a read of sectors {range:?} is never answered");
    }
}

fn pending_device(command: &Command) -> DeviceId {
    Pending { command: *command, payload: None, mark: 0 }.device()
}

/// Carries out the calls of `Engine::open` and its siblings on the disks, each at once.
pub(crate) struct Direct<'a> {
    pub(crate) disks: &'a mut [Disk],
}

impl Storage for Direct<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        let disk = &self.disks[device.index()];
        (!disk.dead).then(|| disk.size())
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let disk = &self.disks[device.index()];
        if disk.dead || disk.is_bad(at, Bytes(into.len() as u64)) {
            return Err(DeviceError);
        }
        disk.read_bytes(at, into);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let disk = &mut self.disks[device.index()];
        if disk.dead {
            return Err(DeviceError);
        }
        let entry = disk.entry(at, from.to_vec());
        disk.write(entry);
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        let disk = &mut self.disks[device.index()];
        if disk.dead {
            return Err(DeviceError);
        }
        let mark = disk.mark();
        disk.flushed(mark);
        Ok(())
    }
}

/// A storage that loses power at the write or flush after `left` others.
pub(crate) struct Fused<'a> {
    pub(crate) direct: Direct<'a>,
    pub(crate) left: u32,
    /// Whether the power has gone; `in_flight` then holds the write that it cut.
    pub(crate) blown: bool,
    pub(crate) in_flight: Option<(DeviceId, Entry)>,
}

impl<'a> Fused<'a> {
    pub(crate) fn new(disks: &'a mut [Disk], left: u32) -> Fused<'a> {
        Fused { direct: Direct { disks }, left, blown: false, in_flight: None }
    }

    fn blows(&mut self) -> bool {
        self.blown |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.blown
    }
}

impl Storage for Fused<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.direct.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        if self.blown { Err(DeviceError) } else { self.direct.read(device, at, into) }
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if self.blown {
            return Err(DeviceError);
        }
        if self.blows() {
            self.in_flight = Some((device, self.direct.disks[device.index()].entry(at, from.to_vec())));
            return Err(DeviceError);
        }
        self.direct.write(device, at, from)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        if self.blown || self.blows() {
            return Err(DeviceError);
        }
        self.direct.flush(device)
    }
}
