//! The driver's half of the engine's contract on fake disks: it carries out each command when its caller says so.

use std::{cell::OnceCell, collections::BTreeMap, fmt::Debug, ops::Range};

use peryton_engine::{
    Buffer, Buffers, Command, Commands, DeviceError, DeviceId, Engine, IoId, Request, RequestError, RequestId, Tuning,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::memory::Memory;

/// Fake disks. What they hold is a row of cells; a cell may stand for many bytes.
pub trait Disks {
    /// What a cell holds.
    type Cell: Copy + PartialEq + Debug;
    /// What a write carries.
    type Payload: Clone + Debug;
    /// The bytes that a cell stands for.
    const CELL: u64;
    /// What a cell of zeros holds.
    const ZERO: Self::Cell;
    /// What a buffer holds that nothing was read into.
    const UNSET: Self::Cell;
    /// Whether metadata is encoded and written; a volume that was never formatted has none.
    const KEEPS_METADATA: bool = true;

    /// A write of cells.
    fn data(cells: &[Self::Cell]) -> Self::Payload;

    /// A write of cells that were read with [`Disks::read_any`].
    fn copied(cells: &[Self::Cell]) -> Self::Payload {
        Self::data(cells)
    }

    /// Reads anything, metadata included, to be copied to another disk.
    ///
    /// # Errors
    /// There is something that cannot be read.
    fn read_any(&self, device: DeviceId, at: Bytes, into: &mut [Self::Cell]) -> Result<(), DeviceError> {
        self.read(device, at, into)
    }

    /// Two disks change places.
    fn swap(&mut self, _one: DeviceId, _other: DeviceId) {}

    /// Whether that is what the payload carries.
    fn is_still(payload: &Self::Payload, cells: &[Self::Cell]) -> bool;

    /// The cells as bytes, for checksums.
    fn to_bytes(cells: &[Self::Cell]) -> Vec<u8>;

    /// Bytes as cells.
    fn from_bytes(bytes: &[u8]) -> Vec<Self::Cell>;

    /// A write of metadata.
    fn metadata(&self, device: DeviceId, at: Bytes, bytes: Vec<u8>) -> Self::Payload;

    /// Whether every command to the device fails, without an effect.
    fn is_dead(&self, device: DeviceId) -> bool;

    /// Reads data.
    ///
    /// # Errors
    /// There is something that cannot be read.
    fn read(&self, device: DeviceId, at: Bytes, into: &mut [Self::Cell]) -> Result<(), DeviceError>;

    /// A write, a zeroing or a discard has completed.
    fn write(&mut self, device: DeviceId, at: Bytes, payload: Self::Payload, effect: Effect, rng: &mut Pcg64Mcg);

    /// What a flush that begins now will cover.
    fn mark(&self, device: DeviceId) -> u64;

    /// A flush that began at `mark` has succeeded.
    fn flushed(&mut self, device: DeviceId, mark: u64);

    /// A flush has failed. Says whether anything that was not flushed has been lost.
    fn flush_failed(&mut self, _device: DeviceId, _rng: &mut Pcg64Mcg) -> bool {
        false
    }
}

/// How often a flush that fails loses writes in flight as well.
const LOSES_IN_FLIGHT: f64 = 0.5;

/// How much of a write there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All of it.
    Whole,
    /// It failed: some of it at most, at random.
    Failed,
    /// It is a discard, which is a hint: some of it at most, at random.
    Hint,
    /// The device had it in its cache when a flush failed: some of it at most, at random.
    Lost,
}

/// A request of the host that has not been answered.
#[derive(Debug)]
pub struct Asked<C> {
    /// The request.
    pub request: Request,
    /// The caller's number for the time at which it was submitted.
    pub from: u32,
    /// What a write writes, or what a read has got so far.
    pub data: Vec<C>,
    /// The same as bytes, once the engine has encoded them.
    bytes: OnceCell<Vec<u8>>,
}

/// A buffer of the driver's for moves.
#[derive(Debug)]
struct MoveBuffer<C> {
    data: Vec<C>,
    bytes: OnceCell<Vec<u8>>,
}

/// The driver's buffers as bytes.
struct AsBytes<'a, D: Disks> {
    requests: &'a BTreeMap<u64, Asked<D::Cell>>,
    moves: &'a [MoveBuffer<D::Cell>],
    runs: &'a [MoveBuffer<D::Cell>],
}

impl<D: Disks> Buffers for AsBytes<'_, D> {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        let (bytes, offset) = match buffer {
            Buffer::Request { id, offset } => {
                let asked = &self.requests[&id.0];
                (asked.bytes.get_or_init(|| D::to_bytes(&asked.data)), offset)
            }
            Buffer::Move { index, offset } => {
                let buffer = &self.moves[index as usize];
                (buffer.bytes.get_or_init(|| D::to_bytes(&buffer.data)), offset)
            }
            Buffer::Run { index, offset } => {
                let buffer = &self.runs[index as usize];
                (buffer.bytes.get_or_init(|| D::to_bytes(&buffer.data)), offset)
            }
            Buffer::Copy { .. } | Buffer::Metadata => unreachable!("metadata is encoded, and a copy is not looked at"),
        };
        &bytes[offset.0 as usize..][..len.0 as usize]
    }
}

/// A command that has not been completed.
#[derive(Clone, Debug)]
pub struct Pending<P> {
    /// The command.
    pub command: Command,
    /// What it writes.
    pub payload: Option<P>,
    /// For a flush, what it covers.
    pub(crate) mark: u64,
    /// The disk that it was sent to, if another one has taken its place since.
    sent_to: Option<DeviceId>,
    /// Whether a flush that failed has lost it: the device had carried it out, and had yet to say so.
    pub(crate) lost: bool,
}

impl<P> Pending<P> {
    /// The device that it is for.
    pub fn device(&self) -> DeviceId {
        device_of(&self.command)
    }

    /// The disk that carries it out.
    pub fn disk(&self) -> DeviceId {
        self.sent_to.unwrap_or(self.device())
    }
}

fn device_of(command: &Command) -> DeviceId {
    match command {
        Command::Read { device, .. }
        | Command::Write { device, .. }
        | Command::Flush { device, .. }
        | Command::Discard { device, .. }
        | Command::Zero { device, .. } => *device,
        _ => unreachable!("done at once"),
    }
}

/// An answer that the caller has to look at.
pub type Answer<C> = (RequestId, Asked<C>, Result<(), RequestError>);

/// More commands than these do not follow from each other at one moment, whatever the small drives of these simulations do.
const MOST_AT_ONCE: u64 = 1_000_000;

/// An engine, its fake disks, and what is under way between them.
pub struct Driver<D: Disks> {
    /// The engine.
    pub engine: Engine,
    /// Its disks.
    pub disks: D,
    /// The time.
    pub now: Nanos,
    /// A command takes less than this; zero for no time at all.
    pub most_latency: Nanos,
    /// Requests that have not been answered, by their ids.
    pub requests: BTreeMap<u64, Asked<D::Cell>>,
    /// Commands that have not been completed.
    pub pending: Vec<Pending<D::Payload>>,
    /// A flush has failed since the caller last cleared this.
    pub flush_failed: bool,
    /// One of them has lost something that it should have covered.
    pub flush_lost: bool,
    /// Answers that the caller has not taken yet.
    pub answered: Vec<Answer<D::Cell>>,
    buffers: Vec<MoveBuffer<D::Cell>>,
    run_buffers: Vec<MoveBuffer<D::Cell>>,
    /// The buffer through which a device is copied.
    copy_buffer: Vec<D::Cell>,
    /// The most move buffers that the engine has asked for.
    most_buffers: u32,
    next_id: u64,
    out: Commands,
    /// What outlives the process.
    pub memory: Option<Memory>,
}

impl<D: Disks> Driver<D> {
    /// With nothing under way.
    pub fn new(engine: Engine, disks: D) -> Driver<D> {
        Driver {
            most_buffers: engine.move_buffers(),
            engine,
            disks,
            now: Nanos::ZERO,
            most_latency: Nanos::from_ms(2),
            requests: BTreeMap::new(),
            pending: Vec::new(),
            flush_failed: false,
            flush_lost: false,
            answered: Vec::new(),
            buffers: Vec::new(),
            run_buffers: Vec::new(),
            copy_buffer: Vec::new(),
            next_id: 0,
            out: Commands::new(),
            memory: None,
        }
    }

    /// From now on keeps in memory what the next process has to know.
    pub fn keep_in_memory(&mut self) {
        self.memory = Memory::of(&mut self.engine);
    }

    /// The cells that this many bytes take.
    pub fn cells(bytes: Bytes) -> usize {
        (bytes.0 / D::CELL) as usize
    }

    /// The cells of the volume that a request is about.
    pub fn span(request: &Request) -> Range<usize> {
        if request.op == Op::Flush {
            return 0..0;
        }
        Self::cells(request.offset)..Self::cells(request.offset + request.len)
    }

    /// Submits a request; `data` is its buffer.
    pub fn submit(&mut self, request: Request, from: u32, data: Vec<D::Cell>) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.requests.insert(id.0, Asked { request, from, data, bytes: OnceCell::new() });
        self.call(|engine, now, out| engine.submit(now, id, request, out));
        id
    }

    /// Calls the engine and takes the commands that come of it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut Engine, Nanos, &mut Commands) -> R) -> R {
        let mut out = std::mem::take(&mut self.out);
        let result = call(&mut self.engine, self.now, &mut out);
        self.most_buffers = self.most_buffers.max(self.engine.move_buffers());
        self.obey(out);
        result
    }

    /// The driver says that a device is dead.
    pub fn device_failed(&mut self, device: DeviceId) {
        self.call(|engine, now, out| engine.device_failed(now, device, out));
    }

    fn buffer(&mut self, buffer: Buffer, len: Bytes) -> &mut [D::Cell] {
        let (whole, offset) = match buffer {
            Buffer::Request { id, offset } => {
                let asked = self.requests.get_mut(&id.0).expect("the engine used the buffer of an answered request");
                asked.bytes.take();
                (&mut asked.data, offset)
            }
            Buffer::Move { index, offset } => {
                assert!(index < self.most_buffers, "move buffer {index} is beyond the bound");
                let len = Self::cells(self.engine.move_buffer_bytes());
                (Self::buffer_at(&mut self.buffers, index, len), offset)
            }
            Buffer::Run { index, offset } => {
                let (buffers, bytes) = self.engine.run_buffers();
                assert!(index < buffers, "buffer {index} for runs is beyond the bound");
                (Self::buffer_at(&mut self.run_buffers, index, Self::cells(bytes)), offset)
            }
            Buffer::Copy { offset } => {
                let length = Self::cells(self.engine.copy_buffer_bytes());
                self.copy_buffer.resize(length.max(self.copy_buffer.len()), D::UNSET);
                (&mut self.copy_buffer, offset)
            }
            Buffer::Metadata => unreachable!("metadata is encoded, and never read by a command"),
        };
        &mut whole[Self::cells(offset)..][..Self::cells(len)]
    }

    fn buffer_at(buffers: &mut Vec<MoveBuffer<D::Cell>>, index: u32, len: usize) -> &mut Vec<D::Cell> {
        while buffers.len() <= index as usize {
            buffers.push(MoveBuffer { data: vec![D::UNSET; len], bytes: OnceCell::new() });
        }
        let buffer = &mut buffers[index as usize];
        buffer.bytes.take();
        &mut buffer.data
    }

    fn obey(&mut self, mut out: Commands) {
        if let Some(memory) = &mut self.memory {
            self.engine.take_records(|record| memory.store(record));
        }
        for command in out.drain(..) {
            let (mut payload, mut mark) = (None, 0);
            match command {
                Command::Copy { from, to, len } => {
                    let data = self.buffer(from, len).to_vec();
                    self.buffer(to, len).copy_from_slice(&data);
                    continue;
                }
                Command::Clear { buffer, len } => {
                    self.buffer(buffer, len).fill(D::ZERO);
                    continue;
                }
                Command::Power { .. } => continue,
                Command::Succeed { device, successor } => {
                    self.disks.swap(device, successor);
                    let under_way = self.pending.iter_mut().filter(|pending| pending.device() == device);
                    under_way.for_each(|pending| pending.sent_to = Some(successor));
                    continue;
                }
                Command::Encode { io, into, len } => {
                    if D::KEEPS_METADATA {
                        let cells = D::from_bytes(&self.encode(io, len));
                        self.buffer(into, len).copy_from_slice(&cells);
                    }
                    continue;
                }
                Command::Reply { id, result } => {
                    let asked = self.requests.remove(&id.0).expect("a request is answered once");
                    self.answered.push((id, asked, result));
                    continue;
                }
                Command::Write { io, device, at, len, buffer: Buffer::Metadata, .. } => {
                    if D::KEEPS_METADATA {
                        payload = Some(self.disks.metadata(device, at, self.encode(io, len)));
                    }
                }
                Command::Write { buffer: buffer @ Buffer::Copy { .. }, len, .. } => {
                    payload = Some(D::copied(self.buffer(buffer, len)));
                }
                Command::Write { buffer, len, .. } => payload = Some(D::data(self.buffer(buffer, len))),
                Command::Zero { len, .. } | Command::Discard { len, .. } => {
                    payload = Some(D::data(&vec![D::ZERO; Self::cells(len)]));
                }
                Command::Flush { device, .. } => mark = self.disks.mark(device),
                Command::Read { .. } => {}
            }
            self.pending.push(Pending { command, payload, mark, sent_to: None, lost: false });
        }
        self.out = out;
    }

    fn encode(&self, io: IoId, len: Bytes) -> Vec<u8> {
        let mut bytes = vec![0; len.0 as usize];
        let buffers = AsBytes::<D> { requests: &self.requests, moves: &self.buffers, runs: &self.run_buffers };
        self.engine.encode_with(io, &mut bytes, &buffers).expect("it is in flight");
        bytes
    }

    /// Completes a command; those behind it may change their order. `fails`: it reports a failure, and has an effect on
    /// some of its cells at most.
    pub fn complete(&mut self, index: usize, fails: bool, rng: &mut Pcg64Mcg) -> (Command, bool) {
        let pending = self.pending.swap_remove(index);
        self.complete_taken(pending, fails, rng)
    }

    /// The same, and the others keep their order.
    pub fn complete_at(&mut self, index: usize, fails: bool, rng: &mut Pcg64Mcg) -> (Command, bool) {
        let pending = self.pending.remove(index);
        self.complete_taken(pending, fails, rng)
    }

    /// Completes the oldest command, and those that follow from it, until none is left.
    ///
    /// # Panics
    /// If there is no end to them: the engine tries something again and again without a pause.
    pub fn complete_all(&mut self, rng: &mut Pcg64Mcg) {
        let mut completed = 0;
        while !self.pending.is_empty() {
            for pending in std::mem::take(&mut self.pending) {
                self.complete_taken(pending, false, rng);
                completed += 1;
            }
            assert!(completed < MOST_AT_ONCE, "{completed} commands at one moment, and more: no progress is made");
        }
    }

    fn complete_taken(&mut self, pending: Pending<D::Payload>, fails: bool, rng: &mut Pcg64Mcg) -> (Command, bool) {
        let device = pending.disk();
        let Pending { command, payload, mark, lost, sent_to: _ } = pending;
        let dead = self.disks.is_dead(device);
        let mut failed = fails || dead;
        let io = match command {
            Command::Read { io, at, len, buffer, .. } => {
                if !failed && buffer != Buffer::Metadata {
                    let mut data = vec![D::ZERO; Self::cells(len)];
                    failed = match buffer {
                        Buffer::Copy { .. } => self.disks.read_any(device, at, &mut data).is_err(),
                        _ => self.disks.read(device, at, &mut data).is_err(),
                    };
                    if !failed {
                        self.buffer(buffer, len).copy_from_slice(&data);
                    }
                }
                io
            }
            Command::Write { io, at, len, buffer, .. } => {
                if let Some(payload) = payload {
                    let is_still = buffer == Buffer::Metadata || D::is_still(&payload, self.buffer(buffer, len));
                    assert!(is_still, "a buffer changed while it was written: {command:?}");
                    if !dead {
                        let effect = match failed {
                            true => Effect::Failed,
                            false if lost => Effect::Lost,
                            false => Effect::Whole,
                        };
                        self.disks.write(device, at, payload, effect, rng);
                    }
                }
                io
            }
            Command::Zero { io, at, .. } | Command::Discard { io, at, .. } => {
                let payload = payload.expect("it zeroes");
                let effect = match command {
                    Command::Discard { .. } => Effect::Hint,
                    _ if failed => Effect::Failed,
                    _ if lost => Effect::Lost,
                    _ => Effect::Whole,
                };
                if !dead {
                    self.disks.write(device, at, payload, effect, rng);
                }
                io
            }
            Command::Flush { io, .. } => {
                let is_of_volume = device_of(&command).index() < self.engine.device_bytes().len();
                self.flush_failed |= failed && is_of_volume;
                if !failed {
                    self.disks.flushed(device, mark);
                } else if !dead {
                    let lost = self.disks.flush_failed(device, rng) | self.lose_in_flight(device, rng);
                    self.flush_lost |= lost && is_of_volume;
                }
                io
            }
            Command::Copy { .. }
            | Command::Clear { .. }
            | Command::Encode { .. }
            | Command::Power { .. }
            | Command::Succeed { .. }
            | Command::Reply { .. } => unreachable!("done at once"),
        };
        if self.most_latency > Nanos::ZERO {
            self.now += Nanos(rng.random_range(0..self.most_latency.0));
        }
        if !failed {
            let buffers = AsBytes::<D> { requests: &self.requests, moves: &self.buffers, runs: &self.run_buffers };
            if let Some(verified) = self.engine.verify(io, &buffers) {
                self.engine.verified(verified);
            }
        }
        let result = if failed { Err(DeviceError) } else { Ok(()) };
        self.call(|engine, now, out| engine.complete(now, io, result, out).expect("each command is completed once"));
        (command, failed)
    }

    /// A flush of the device has failed. Writes in flight may have been in its cache already, and be lost with the rest of it,
    /// though the device will say that they succeeded. Says whether there is any.
    fn lose_in_flight(&mut self, device: DeviceId, rng: &mut Pcg64Mcg) -> bool {
        if !rng.random_bool(LOSES_IN_FLIGHT) {
            return false;
        }
        let mut any = false;
        for pending in self.pending.iter_mut().filter(|pending| pending.payload.is_some() && pending.disk() == device) {
            pending.lost |= rng.random_bool(0.5);
            any |= pending.lost;
        }
        any
    }

    /// Lets time pass. The devices program three times what is written to them, and say so when they are asked.
    pub fn tick(&mut self, span: Nanos) {
        self.now += span;
        self.call(|engine, now, out| engine.tick(now, out));
        if let Some(device) = self.engine.asks_what_was_programmed(self.now) {
            let written: u64 = self.engine.stats().devices[device.index()].bytes_written.iter().sum();
            self.engine.programmed(device, Bytes(3 * written));
        }
    }

    /// Re-tunes; a tuning that is refused must change nothing.
    pub fn retune(&mut self, tuning: Tuning) -> bool {
        let before = self.engine.tuning().clone();
        let done = self.call(|engine, now, out| engine.retune(now, tuning, out).is_ok());
        assert!(done || *self.engine.tuning() == before, "a refused tuning changed something");
        done
    }

    /// Reads a range with nothing else under way, letting time pass where only a timer is left.
    ///
    /// # Errors
    /// What the engine answered.
    ///
    /// # Panics
    /// If it is never answered.
    pub fn read_now(&mut self, range: Range<usize>, rng: &mut Pcg64Mcg) -> Result<Vec<D::Cell>, RequestError> {
        let (offset, len) = (Bytes(range.start as u64 * D::CELL), Bytes(range.len() as u64 * D::CELL));
        let id = self.submit(Request { op: Op::Read, offset, len }, 0, vec![D::UNSET; range.len()]);
        for _ in 0..1000 {
            self.complete_all(rng);
            if let Some(at) = self.answered.iter().position(|(other, ..)| *other == id) {
                let (_, asked, result) = self.answered.swap_remove(at);
                return result.map(|()| asked.data);
            }
            self.tick(Nanos::from_ms(500));
        }
        panic!("a read of cells {range:?} is never answered");
    }
}
