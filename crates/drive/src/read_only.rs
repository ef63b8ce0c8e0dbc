//! A volume with a device that cannot be written is served for reads only: nothing is written to any device, and nothing moves.
//!
//! The volume is opened on a copy of its metadata in memory ([`peryton_engine::Overlay`]), and its devices are opened to be read.
//! The engine, which would bring data in and write its map, is asked only from where each part can be read.

use std::path::PathBuf;

use peryton_engine::{DeviceError, DeviceId, Engine, IoId, Origin, Request, RequestError, RequestId, Source};
use peryton_units::{Bytes, Op};

use crate::{
    arena::Memory,
    backend::{Action, Backend, Operation},
};

/// Why a volume is served for reads only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnly {
    /// The device that cannot be written; `None`: this was asked for.
    pub device: Option<(String, PathBuf)>,
    /// The reason and the remedy, in one line.
    pub why: String,
}

/// A read of a part, from one of its copies.
#[derive(Debug)]
struct Part {
    request: RequestId,
    memory: Memory,
    len: Bytes,
    second: Option<(DeviceId, Bytes)>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    parts: u32,
    failed: Option<RequestError>,
}

/// Reads that are under way. There are no more than the parts of the requests that clients may have in flight.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The part of each number, if it is in use, and how often it was.
    parts: Vec<(Option<Part>, u32)>,
    free: Vec<u32>,
    /// By the ids of requests.
    waiting: Vec<Waiting>,
}

impl Reader {
    /// Takes a request. Returns its result if that is known already.
    pub(crate) fn submit<B: Backend>(
        &mut self,
        (engine, backend): (&Engine, &mut B),
        id: RequestId,
        request: Request,
        memory: Memory,
    ) -> Option<Result<(), RequestError>> {
        match request.op {
            Op::Read => {}
            // No data were written, so a flush has nothing to do.
            Op::Flush => return Some(Ok(())),
            Op::Write | Op::Discard => return Some(Err(RequestError::Device)),
        }
        let index = id.0 as usize;
        if index >= self.waiting.len() {
            self.waiting.resize(index + 1, Waiting::default());
        }
        self.waiting[index] = Waiting::default();
        let end = request.offset + request.len;
        let mut offset = request.offset;
        while offset < end {
            let Some(Source { len, origin }) = engine.source(offset) else {
                self.waiting[index].failed = Some(RequestError::OutOfRange);
                break;
            };
            let len = len.min(end - offset);
            let memory = memory.add((offset - request.offset).0 as usize).first(len.0 as usize);
            match origin {
                Origin::Lost => self.waiting[index].failed = Some(RequestError::Lost),
                Origin::Zeros => {
                    // SAFETY: the memory is this request's, and no other code uses it until the request is answered.
                    unsafe { memory.slice_mut(len.0 as usize).fill(0) };
                }
                Origin::At { first, second } => self.begin(backend, first, Part { request: id, memory, len, second }),
            }
            offset += len;
        }
        self.ended(id)
    }

    fn begin<B: Backend>(&mut self, backend: &mut B, (device, at): (DeviceId, Bytes), part: Part) {
        let Part { request, memory, len, .. } = part;
        self.waiting[request.0 as usize].parts += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.parts.push((None, 0));
            (self.parts.len() - 1) as u32
        });
        let row = &mut self.parts[slot as usize];
        *row = (Some(part), row.1.wrapping_add(1));
        let io = IoId::new(slot, row.1);
        backend.start(Operation { io, device, action: Action::Read, at: at.0, len: len.0, memory });
    }

    /// A part was read, or not. Returns the request and its result if that was the last one.
    pub(crate) fn complete<B: Backend>(
        &mut self,
        backend: &mut B,
        io: IoId,
        result: Result<(), DeviceError>,
    ) -> Option<(RequestId, Result<(), RequestError>)> {
        let part = self.parts.get_mut(io.index())?.0.take()?;
        self.free.push(io.index() as u32);
        let (request, second) = (part.request, part.second);
        match (result, second) {
            (Ok(()), _) => {}
            (Err(DeviceError), Some(second)) => self.begin(backend, second, Part { second: None, ..part }),
            (Err(DeviceError), None) => self.waiting[request.0 as usize].failed = Some(RequestError::Device),
        }
        self.waiting[request.0 as usize].parts -= 1;
        self.ended(request).map(|result| (request, result))
    }

    fn ended(&self, id: RequestId) -> Option<Result<(), RequestError>> {
        let Waiting { parts, failed } = self.waiting[id.0 as usize];
        (parts == 0).then(|| failed.map_or(Ok(()), Err))
    }
}
