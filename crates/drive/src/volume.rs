//! An engine, its buffers, and a back end: requests in, replies out. Without threads, clock or sockets.

use std::{fmt, io, mem, ops::Range};

use peryton_engine::{
    Buffer, Buffers, Command, Commands, DeviceError, DeviceId, Engine, IoId, Location, Power, Request, RequestError,
    RequestId, ResizeEnd, ResizeError, ResizePlan, SuccessionEnd, SuccessionError, SuccessionPlan, Tuning, TuningError,
};
use peryton_units::{Bytes, Nanos, Op};
use thiserror::Error;

use crate::{
    arena::{Arena, Memory},
    backend::{Action, Backend, Operation},
    disks::{Disks, Doubt},
    read_only::Reader,
    shared_memory::{NoMemory, SharedMemory},
    written::Written,
};

/// The data of a host request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// No data: flushes and discards.
    None,
    /// Memory as long as the request. It belongs to the volume until the reply.
    At(Memory),
    /// A write of zeros, no longer than [`Volume::longest_zeros`].
    Zeros {
        /// Whether room for them is kept on the devices.
        allocate: bool,
    },
}

/// The answer to a host request.
pub type Reply = (RequestId, Result<(), RequestError>);

/// The buffers of moves would take more memory than allowed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "moves would need {need_mib} MiB of buffers, more than the {most_mib} MiB that they may have: lower \
     placement.max_moves, or raise --move-memory"
)]
pub struct TooMuchMemory {
    need_mib: u64,
    most_mib: u64,
}

/// Why a volume cannot be re-tuned. Its tuning is unchanged.
#[derive(Debug, Error)]
pub enum RetuneError {
    /// The engine refuses the tuning.
    #[error(transparent)]
    Tuning(#[from] TuningError),
    /// The buffers of moves would take more memory than allowed.
    #[error(transparent)]
    Memory(#[from] TooMuchMemory),
    /// The system has no memory.
    #[error("buffers for moves: {0}")]
    System(#[from] io::Error),
}

/// A volume that runs on any back end. Its driver passes in requests and completions, with the time, and takes replies
/// out. Everything that the engine commands is issued before a call returns.
#[derive(Debug)]
pub struct Volume<B> {
    /// Absent while another thread has it.
    engine: Option<Engine>,
    /// Carries operations out.
    pub backend: B,
    commands: Commands,
    replies: Vec<Reply>,
    /// The data of requests by their ids.
    requests: Vec<Data>,
    moves: Moves,
    metadata: Metadata,
    /// The buffer through which a device is copied that is being replaced.
    copy: Option<Arena>,
    zeros: Memory,
    longest_zeros: u64,
    observer: Observer,
    keeps_data: bool,
    memory: Result<SharedMemory, NoMemory>,
    /// Requests that wait until a change of the devices or of their sizes is complete; `None` while none has to wait. The table of requests
    /// bounds their number.
    held: Option<Vec<(RequestId, Request)>>,
    /// Which parts were ever written.
    written: Written,
    /// Reads, on a volume that is only read.
    reader: Option<Reader>,
}

/// The invariant of every call of the engine.
const HERE: &str = "nothing is asked of the engine while another thread has it";

type Observe = Box<dyn FnMut(Nanos, &Command) + Send>;

/// Called with every command before it is carried out.
#[derive(Default)]
struct Observer(Option<Observe>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observer" } else { "-" })
    }
}

/// The longest write of zeros, in bytes.
pub(crate) const LONGEST_ZEROS: usize = 1 << 20;

impl<B: Backend> Volume<B> {
    /// Makes a volume. `most_move_memory` bounds the buffers of moves and of runs, in bytes.
    ///
    /// # Errors
    /// The buffers of moves are larger than that, or the system has no memory.
    pub fn new(engine: Engine, backend: B, most_move_memory: u64) -> Result<Volume<B>, RetuneError> {
        let workspace = Workspace::new(&engine, most_move_memory)?;
        Ok(Volume::with(engine, backend, workspace))
    }

    /// The same, with memory that is there.
    pub(crate) fn with(engine: Engine, backend: B, Workspace { moves, metadata }: Workspace) -> Volume<B> {
        let zeros = metadata.zeros.at(0);
        let written = Written::new(engine.volume_size(), None);
        Volume {
            engine: Some(engine),
            backend,
            commands: Commands::new(),
            replies: Vec::new(),
            requests: Vec::new(),
            moves,
            metadata,
            copy: None,
            zeros,
            longest_zeros: LONGEST_ZEROS as u64,
            observer: Observer::default(),
            keeps_data: true,
            memory: Err(NoMemory::Off),
            held: None,
            written,
            reader: None,
        }
    }

    /// Sets the memory for records. Each record of the engine is stored there before the answer to the host.
    pub(crate) fn keep_in(&mut self, memory: Result<SharedMemory, NoMemory>) {
        self.memory = memory;
    }

    /// From now on the volume is only read: the engine is asked for the places of data, and for nothing else.
    pub(crate) fn only_read(&mut self) {
        self.reader = Some(Reader::default());
    }

    /// Sets what the last close has recorded: the offset from which on nothing was ever written.
    pub(crate) fn know_written(&mut self, from: Option<Bytes>) {
        self.written = Written::new(self.engine().volume_size(), from);
    }

    /// From where on nothing was ever written.
    pub(crate) fn written_to(&self) -> Bytes {
        self.written.end()
    }

    /// The volume has another size.
    pub(crate) fn size_has_changed(&mut self) {
        self.written.resize(self.engine().volume_size());
    }

    /// The place of the volume's byte at `offset`, and for how many bytes it applies; `None` past the end.
    pub(crate) fn location(&self, offset: Bytes) -> Option<Location> {
        self.location_within(offset, Bytes(u64::MAX))
    }

    /// The same, of no more than `most` bytes: what lies beyond is not looked at.
    fn location_within(&self, offset: Bytes, most: Bytes) -> Option<Location> {
        let mut at = self.engine().location(offset)?;
        at.len = at.len.min(most);
        // Without a device, lost data cannot be told from data that were never written.
        if !at.mapped || at.lost || self.engine().gone() != 0 {
            return Some(at);
        }
        let (is_written, len) = self.written.run(offset, at.len);
        let device = at.device.filter(|_| is_written);
        Some(Location { len, device, mapped: is_written, dirty: at.dirty && is_written, ..at })
    }

    /// When the engine has to be called next.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.engine().deadline().filter(|_| self.reader.is_none())
    }

    /// The shared memory that records go to, or why there is none.
    pub(crate) fn memory(&self) -> &Result<SharedMemory, NoMemory> {
        &self.memory
    }

    /// The same, to note another device there.
    pub(crate) fn memory_mut(&mut self) -> &mut Result<SharedMemory, NoMemory> {
        &mut self.memory
    }

    /// The engine, for reading its state.
    ///
    /// # Panics
    /// If another thread has it.
    #[inline]
    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().expect(HERE)
    }

    /// The engine, for storing notes. Its commands are not carried out.
    #[inline]
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        self.engine.as_mut().expect(HERE)
    }

    /// Hands the engine to another thread, with the memory that it keeps records in. Requests wait ([`Volume::hold`]) until it is back.
    pub(crate) fn lend(&mut self) -> (Engine, Result<SharedMemory, NoMemory>) {
        debug_assert!(self.held.is_some(), "requests wait for the engine");
        (self.engine.take().expect(HERE), mem::replace(&mut self.memory, Err(NoMemory::NotNeeded)))
    }

    /// The engine is back.
    pub(crate) fn take_back(&mut self, engine: Engine, memory: Result<SharedMemory, NoMemory>) {
        (self.engine, self.memory) = (Some(engine), memory);
    }

    /// The longest write of zeros; the caller must divide longer ones.
    pub fn longest_zeros(&self) -> u64 {
        self.longest_zeros
    }

    /// Declares that the back end keeps no data and the engine was not opened from devices, so metadata is not encoded.
    pub fn keep_no_data(&mut self) {
        self.keeps_data = false;
    }

    /// Calls `observer` with every command of the engine, in order.
    pub fn observe(&mut self, observer: impl FnMut(Nanos, &Command) + Send + 'static) {
        self.observer.0 = Some(Box::new(observer));
    }

    /// Submits a request of the host. Its id indexes a table: use small numbers, free for reuse after the reply.
    ///
    /// # Panics
    /// If the data of a read or write is shorter than the request, or zeros are longer than [`Volume::longest_zeros`].
    #[inline]
    pub fn submit(&mut self, now: Nanos, id: RequestId, request: Request, data: Data) {
        let index = id.0 as usize;
        if index >= self.requests.len() {
            self.requests.resize(index + 1, Data::None);
        }
        // With shorter data, devices would read or write past its end.
        let room = match data {
            _ if !matches!(request.op, Op::Read | Op::Write) => u64::MAX,
            Data::None => 0,
            Data::At(memory) => memory.len() as u64,
            Data::Zeros { .. } => self.longest_zeros,
        };
        assert!(request.len.0 <= room, "a request of {} with {room} bytes of data", request.len);
        self.requests[index] = data;
        if self.reader.is_some() {
            return self.begin(now, id, request);
        }
        if data == (Data::Zeros { allocate: false }) && self.held.is_none() && self.is_unwritten(&request) {
            return self.replies.push((id, Ok(())));
        }
        if request.op == Op::Write && data != (Data::Zeros { allocate: false }) {
            self.written.note(request.offset, request.len);
        }
        if let Some(held) = &mut self.held {
            return held.push((id, request));
        }
        self.begin(now, id, request);
    }

    #[inline]
    fn begin(&mut self, now: Nanos, id: RequestId, request: Request) {
        if let Some(reader) = &mut self.reader {
            let memory = if let Data::At(memory) = self.requests[id.0 as usize] { memory } else { Memory::NONE };
            let engine = self.engine.as_ref().expect(HERE);
            let result = reader.submit((engine, &mut self.backend), id, request, memory);
            return self.replies.extend(result.map(|result| (id, result)));
        }
        self.engine.as_mut().expect(HERE).submit(now, id, request, &mut self.commands);
        self.carry_out(now);
    }

    /// Whether nothing was ever written there, so that it reads as zeros.
    fn is_unwritten(&self, request: &Request) -> bool {
        let (mut at, end) = (request.offset, request.offset + request.len);
        while at < end {
            match self.location_within(at, end - at) {
                Some(place) if !place.mapped && !place.lost => at += place.len,
                _ => return false,
            }
        }
        end <= self.engine().volume_size()
    }

    /// From now on requests wait. Their number is bounded as that of all requests is: each id is in use once.
    pub(crate) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// From now on requests wait, and the engine begins nothing that can wait.
    pub(crate) fn hold_at_rest(&mut self, now: Nanos) {
        self.hold();
        self.engine.as_mut().expect(HERE).rest(now, true, &mut self.commands);
        self.carry_out(now);
    }

    /// The requests that have waited go on, in their order.
    pub(crate) fn release(&mut self, now: Nanos) {
        let Some(held) = self.held.take() else { return };
        self.engine.as_mut().expect(HERE).rest(now, false, &mut self.commands);
        for (id, request) in held {
            self.begin(now, id, request);
        }
        self.carry_out(now);
    }

    /// Ends what [`Volume::write_all_back`] has begun.
    pub(crate) fn pause_writing_back(&mut self) {
        self.engine.as_mut().expect(HERE).pause_writing_back();
    }

    /// Reports that the back end has carried an operation out, or failed to.
    #[inline]
    pub fn complete(&mut self, now: Nanos, io: IoId, result: Result<(), DeviceError>) {
        if let Some(reader) = &mut self.reader {
            return self.replies.extend(reader.complete(&mut self.backend, io, result));
        }
        self.metadata.done(io);
        if result.is_ok()
            && self.keeps_data
            && let Some(verified) = self.engine().verify(io, &*self)
        {
            self.engine.as_mut().expect(HERE).verified(verified);
        }
        // The engine's state is not affected, and other requests continue.
        if let Err(error) = self.engine.as_mut().expect(HERE).complete(now, io, result, &mut self.commands) {
            tracing::error!(%error, "the back end completed a command twice");
        }
        self.carry_out(now);
    }

    /// Reports that the device is dead: see [`Engine::device_failed`].
    pub fn device_failed(&mut self, now: Nanos, device: DeviceId) {
        self.engine.as_mut().expect(HERE).device_failed(now, device, &mut self.commands);
        self.carry_out(now);
    }

    /// Runs timers that are due. Returns when the next one is due.
    pub fn tick(&mut self, now: Nanos) -> Option<Nanos> {
        let next = self.engine.as_mut().expect(HERE).tick(now, &mut self.commands);
        self.carry_out(now);
        next
    }

    /// Writes back everything that is dirty now: see [`Engine::write_all_back`].
    pub fn write_all_back(&mut self, now: Nanos) {
        self.engine.as_mut().expect(HERE).write_all_back(now, &mut self.commands);
        self.carry_out(now);
    }

    /// Reports that the host has dropped a range from its own cache: see [`Engine::host_dropped`].
    pub fn evict(&mut self, now: Nanos, range: Range<Bytes>) {
        if self.held.is_some() {
            // It is a hint, and the volume is to come to rest.
            return;
        }
        self.engine.as_mut().expect(HERE).host_dropped(now, range, &mut self.commands);
        self.carry_out(now);
    }

    /// Reports how much a device has programmed so far, if that can be read: see [`Engine::programmed`].
    pub fn programmed(&mut self, device: DeviceId, bytes: Bytes) {
        self.engine.as_mut().expect(HERE).programmed(device, bytes);
    }

    /// Returns a device whose programmed bytes the engine wants to know now: see [`Engine::asks_what_was_programmed`].
    pub fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        self.engine.as_mut().expect(HERE).asks_what_was_programmed(now)
    }

    /// Reports how worn a device is, if it says so: see [`Engine::worn`].
    pub fn worn(&mut self, device: DeviceId, used_ppm: u32, age: Option<Nanos>) {
        self.engine.as_mut().expect(HERE).worn(device, used_ppm, age);
    }

    /// Reports how much energy all devices have drawn, if that can be measured: see [`Engine::drew`].
    pub fn drew(&mut self, microjoules: u64) {
        self.engine.as_mut().expect(HERE).drew(microjoules);
    }

    /// Changes the tuning of the running volume.
    ///
    /// # Errors
    /// The engine refuses the tuning, or it needs too much memory. The tuning is unchanged.
    pub fn retune(&mut self, now: Nanos, tuning: Tuning) -> Result<(), RetuneError> {
        let before = self.engine().tuning().clone();
        self.engine.as_mut().expect(HERE).retune(now, tuning, &mut self.commands)?;
        if let Err(error) = self.moves.grow(self.engine().move_buffers()) {
            self.engine
                .as_mut()
                .expect(HERE)
                .retune(now, before, &mut self.commands)
                .expect("what was in force is in order");
            self.carry_out(now);
            return Err(error);
        }
        self.carry_out(now);
        Ok(())
    }

    /// Begins to replace a device: see [`Engine::replace_in_service`].
    ///
    /// # Errors
    /// One line: it cannot be done, or the system has no memory.
    pub(crate) fn replace_in_service(&mut self, now: Nanos, plan: SuccessionPlan) -> Result<(), String> {
        self.engine
            .as_mut()
            .expect(HERE)
            .replace_in_service(now, plan, &mut self.commands)
            .map_err(|error| error.to_string())?;
        match Arena::new(self.engine().copy_buffer_bytes().0 as usize) {
            Ok(arena) => self.copy = Some(arena),
            Err(error) => {
                self.engine.as_mut().expect(HERE).stop_replacing(now, &mut self.commands);
                self.carry_out(now);
                return Err(format!("memory for copying: {error}"));
            }
        }
        self.carry_out(now);
        Ok(())
    }

    /// Puts the new device in charge: see [`Engine::succeed`].
    ///
    /// # Errors
    /// Not everything is copied.
    pub(crate) fn succeed(&mut self, now: Nanos) -> Result<(), SuccessionError> {
        self.engine.as_mut().expect(HERE).succeed(now, &mut self.commands)?;
        self.carry_out(now);
        Ok(())
    }

    /// Stops replacing a device: see [`Engine::stop_replacing`].
    pub(crate) fn stop_replacing(&mut self, now: Nanos) {
        self.engine.as_mut().expect(HERE).stop_replacing(now, &mut self.commands);
        self.carry_out(now);
    }

    /// How the replacement of a device came to its end, once.
    pub(crate) fn take_succession_end(&mut self) -> Option<SuccessionEnd> {
        let end = self.engine_mut().take_succession_end()?;
        self.copy = None;
        Some(end)
    }

    /// Begins to resize a device: see [`Engine::resize`].
    ///
    /// # Errors
    /// It cannot be done.
    pub(crate) fn resize(&mut self, now: Nanos, plan: ResizePlan) -> Result<(), ResizeError> {
        self.engine.as_mut().expect(HERE).resize(now, plan, &mut self.commands)?;
        self.carry_out(now);
        Ok(())
    }

    /// Stops resizing a device: see [`Engine::stop_resizing`].
    pub(crate) fn stop_resizing(&mut self, now: Nanos) {
        self.engine.as_mut().expect(HERE).stop_resizing(now);
    }

    /// How the resizing of a device came to its end, once.
    pub(crate) fn take_resize_end(&mut self) -> Option<ResizeEnd> {
        self.engine_mut().take_resize_end()
    }

    /// The replies so far; the caller removes them.
    pub fn replies(&mut self) -> &mut Vec<Reply> {
        &mut self.replies
    }

    /// Memory that operations will often use: start and length.
    pub(crate) fn buffers(&self) -> Vec<(Memory, usize)> {
        let arenas = self.moves.arenas.iter().chain([&self.metadata.zeros]);
        arenas.map(|arena| (arena.at(0), arena.len())).collect()
    }

    /// Returns the engine and the back end.
    pub(crate) fn into_parts(self) -> (Engine, B, Result<SharedMemory, NoMemory>) {
        (self.engine.expect(HERE), self.backend, self.memory)
    }

    #[inline]
    fn carry_out(&mut self, now: Nanos) {
        // Records are stored before the commands are issued. Replies are commands, so a kill between the two loses no answered write.
        if let Ok(memory) = &mut self.memory {
            self.engine.as_mut().expect(HERE).take_records(|record| memory.store(record));
        }
        let mut commands = mem::take(&mut self.commands);
        if self.reader.is_some() {
            // The other commands of the engine would write to a device.
            commands.clear();
        }
        for command in commands.drain(..) {
            if let Some(observer) = &mut self.observer.0 {
                observer(now, &command);
            }
            let (io, device, action, at, len, memory) = match command {
                Command::Read { io, device, at, len, buffer, cause: _ } => {
                    (io, device, Action::Read, at.0, len.0, self.memory_of(buffer))
                }
                Command::Write { io, device, at, len, buffer: Buffer::Metadata, cause: _ } => {
                    let memory = self.metadata.take(io, len.0 as usize);
                    // SAFETY: the buffer has this length and is this command's alone.
                    let bytes = unsafe { memory.slice_mut(len.0 as usize) };
                    if self.keeps_data {
                        self.engine().encode_with(io, bytes, &*self).expect("the engine has just asked for it");
                    }
                    (io, device, Action::Write, at.0, len.0, memory)
                }
                Command::Write { io, device, at, len, buffer, cause: _ } => match self.zeros_in(buffer) {
                    Some(action) => (io, device, action, at.0, len.0, Memory::NONE),
                    None => (io, device, Action::Write, at.0, len.0, self.memory_of(buffer)),
                },
                Command::Flush { io, device } => (io, device, Action::Flush, 0, 0, Memory::NONE),
                Command::Discard { io, device, at, len } => (io, device, Action::Discard, at.0, len.0, Memory::NONE),
                Command::Zero { io, device, at, len } => (io, device, Action::Zero, at.0, len.0, Memory::NONE),
                Command::Copy { from, to, len } => {
                    let (from, to) = (self.memory_of(from), self.memory_of(to));
                    let len = len.0 as usize;
                    // SAFETY: the engine names two buffers with this many bytes, neither of which a device is using.
                    unsafe { to.slice_mut(len).copy_from_slice(from.slice(len)) };
                    continue;
                }
                Command::Clear { buffer, len } => {
                    let (memory, len) = (self.memory_of(buffer), len.0 as usize);
                    // SAFETY: the engine names a buffer with this many bytes, which no device is using.
                    unsafe { memory.slice_mut(len).fill(0) };
                    continue;
                }
                Command::Encode { .. } if !self.keeps_data => continue,
                Command::Encode { io, into, len } => {
                    let mut bytes = vec![0; len.0 as usize];
                    self.engine().encode_with(io, &mut bytes, &*self).expect("the engine has just asked for it");
                    // SAFETY: the engine names a buffer with this many bytes, which no device is using yet.
                    unsafe { self.memory_of(into).slice_mut(bytes.len()).copy_from_slice(&bytes) };
                    continue;
                }
                Command::Power { device, state: Power::Standby } => {
                    self.backend.standby(device);
                    continue;
                }
                Command::Succeed { device, successor } => {
                    self.backend.succeed(device, successor);
                    continue;
                }
                Command::Reply { id, result } => {
                    self.replies.push((id, result));
                    continue;
                }
            };
            let memory =
                if matches!(action, Action::Read | Action::Write) { memory.first(len as usize) } else { memory };
            self.backend.start(Operation { io, device, action, at, len, memory });
        }
        // A back end reports completions later, never within `start`.
        debug_assert!(self.commands.is_empty());
        self.commands = commands;
    }
}

impl Volume<Disks> {
    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.backend.in_flight() == 0 && (self.reader.is_some() || self.engine().is_idle())
    }

    /// Marks the records as doubtful while a device may have lost data that were written to it, or a host has still to hear of a failed
    /// flush (`is_owed`). A server that takes this one's place then ignores them, and each host hears of it.
    #[inline]
    pub(crate) fn heed_doubt(&mut self, is_owed: bool) {
        if let Ok(memory) = &mut self.memory {
            memory.doubt(is_owed || self.backend.doubts().contains(&Doubt::Lasting));
        }
    }
}

impl<B> Volume<B> {
    /// How a device gets the data of a buffer if they are zeros of the host.
    #[inline]
    fn zeros_in(&self, buffer: Buffer) -> Option<Action> {
        let Buffer::Request { id, .. } = buffer else { return None };
        match self.requests[id.0 as usize] {
            Data::Zeros { allocate: true } => Some(Action::ZeroAllocated),
            Data::Zeros { allocate: false } => Some(Action::Zero),
            Data::None | Data::At(_) => None,
        }
    }

    #[inline]
    fn memory_of(&self, buffer: Buffer) -> Memory {
        match buffer {
            Buffer::Request { id, offset } => match self.requests[id.0 as usize] {
                Data::At(memory) => memory.add(offset.0 as usize),
                Data::Zeros { .. } => self.zeros,
                Data::None => unreachable!("a request without data has a buffer asked of it"),
            },
            Buffer::Move { index, offset } => self.moves.at(index).add(offset.0 as usize),
            Buffer::Run { index, offset } => self.moves.run_at(index).add(offset.0 as usize),
            Buffer::Copy { offset } => {
                self.copy.as_ref().expect("there is a buffer while a device is copied").at(offset.0 as usize)
            }
            Buffer::Metadata => unreachable!("metadata is written only, and only while the engine runs"),
        }
    }
}

impl<B> Buffers for Volume<B> {
    fn bytes(&self, buffer: Buffer, len: Bytes) -> &[u8] {
        // SAFETY: the engine names a buffer with this many bytes. Devices only read it meanwhile, if they use it at all.
        unsafe { self.memory_of(buffer).slice(len.0 as usize) }
    }
}

/// The buffers of moves: one arena for each time that their number grew.
#[derive(Debug)]
struct Moves {
    arenas: Vec<Arena>,
    buffers: Vec<Memory>,
    /// The buffers for neighbours that are written back together, and the bytes of all of them.
    runs: Vec<Memory>,
    run_bytes: u64,
    bytes: u64,
    most: u64,
}

/// The memory that a volume needs besides the engine's.
pub(crate) struct Workspace {
    moves: Moves,
    metadata: Metadata,
}

impl Workspace {
    /// Allocates them. `most` bounds the buffers of moves and of runs, in bytes.
    ///
    /// # Errors
    /// The buffers of moves are larger than that, or the system has no memory.
    pub(crate) fn new(engine: &Engine, most: u64) -> Result<Workspace, RetuneError> {
        Ok(Workspace { moves: Moves::new(engine, most)?, metadata: Metadata::new()? })
    }
}

impl Moves {
    fn new(engine: &Engine, most: u64) -> Result<Moves, RetuneError> {
        let (count, Bytes(each)) = engine.run_buffers();
        let (count, each) = (count as usize, each as usize);
        let mut moves = Moves {
            arenas: Vec::new(),
            buffers: Vec::new(),
            runs: Vec::new(),
            run_bytes: (count * each) as u64,
            bytes: engine.move_buffer_bytes().0,
            most,
        };
        if count > 0 {
            let arena = Arena::new(count * each)?;
            moves.runs.extend((0..count).map(|index| arena.at(index * each).first(each)));
            moves.arenas.push(arena);
        }
        moves.grow(engine.move_buffers())?;
        Ok(moves)
    }

    /// Grows to `count` buffers. Pages that no move has used take no memory.
    fn grow(&mut self, count: u32) -> Result<(), RetuneError> {
        let more = (count as usize).saturating_sub(self.buffers.len());
        if more == 0 || self.bytes == 0 {
            return Ok(());
        }
        let need = self.bytes.saturating_mul(u64::from(count)).saturating_add(self.run_bytes);
        if need > self.most {
            return Err(TooMuchMemory { need_mib: need.div_ceil(1 << 20), most_mib: self.most >> 20 }.into());
        }
        let each = self.bytes as usize;
        let arena = Arena::new(more * each)?;
        self.buffers.extend((0..more).map(|index| arena.at(index * each).first(each)));
        self.arenas.push(arena);
        Ok(())
    }

    #[inline]
    fn run_at(&self, index: u32) -> Memory {
        self.runs[index as usize]
    }

    #[inline]
    fn at(&self, index: u32) -> Memory {
        self.buffers[index as usize]
    }
}

/// The buffers of metadata writes. The engine has few of them in flight.
#[derive(Debug)]
struct Metadata {
    zeros: Arena,
    free: Vec<Arena>,
    used: Vec<(IoId, Arena)>,
}

impl Metadata {
    fn new() -> io::Result<Metadata> {
        Ok(Metadata { zeros: Arena::new(LONGEST_ZEROS)?, free: Vec::new(), used: Vec::new() })
    }

    fn take(&mut self, io: IoId, len: usize) -> Memory {
        let found = self.free.iter().position(|arena| arena.len() >= len);
        let arena = match found {
            Some(index) => self.free.swap_remove(index),
            // A machine without memory for a journal block cannot continue.
            None => Arena::new(len.next_power_of_two()).expect("memory for a metadata write"),
        };
        let memory = arena.at(0).first(len);
        self.used.push((io, arena));
        memory
    }

    #[inline]
    fn done(&mut self, io: IoId) {
        if let Some(index) = self.used.iter().position(|(used, _)| *used == io) {
            self.free.push(self.used.swap_remove(index).1);
        }
    }
}
