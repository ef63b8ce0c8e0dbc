//! Stores settings in the superblocks. The kernel ring writes them like all other data, so that the volume's thread
//! does not wait for each flush.
//!
//! The engine writes superblocks too when it fences a device. A superblock prepared here before that must not be
//! written after it. So each step begins only if the same devices are there as when the steps were prepared; otherwise
//! all steps are prepared again. And [`Disks`](crate::disks::Disks) delays commands of the engine that touch a block
//! which a step is writing.

use std::{collections::VecDeque, mem, sync::mpsc::SyncSender};

use peryton_engine::{DeviceError, DeviceId, IoId, Storage};
use peryton_units::Bytes;

use super::Server;
use crate::{
    arena::{Arena, Memory},
    backend::{Action, Operation},
};

/// How often storing begins again because a device is fenced meanwhile; a volume has no more devices than this.
const MOST_ATTEMPTS: u32 = 8;

#[derive(Debug)]
enum Step {
    Write { device: DeviceId, at: Bytes, bytes: Vec<u8> },
    Flush { device: DeviceId },
}

/// Records the writes that the engine would make.
struct Recorder<'a> {
    sizes: &'a [Option<Bytes>],
    steps: VecDeque<Step>,
}

impl Storage for Recorder<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.sizes.get(device.index()).copied().flatten()
    }

    fn read(&mut self, _: DeviceId, _: Bytes, _: &mut [u8]) -> Result<(), DeviceError> {
        Err(DeviceError)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.steps.push_back(Step::Write { device, at, bytes: from.to_vec() });
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.steps.push_back(Step::Flush { device });
        Ok(())
    }
}

/// Receives the result.
pub(super) type Answer = SyncSender<Result<Vec<String>, String>>;

#[derive(Debug)]
struct Work {
    steps: VecDeque<Step>,
    attempts: u32,
    /// The devices that were gone when the steps were prepared.
    gone: u32,
    buffer: Arena,
    answer: Option<Answer>,
    settings: Vec<String>,
}

/// The settings that are being stored, and those that follow; at most one for each control client.
#[derive(Debug, Default)]
pub(super) struct Notes {
    work: Option<Work>,
    waiting: VecDeque<(Vec<String>, Answer)>,
}

impl Notes {
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none() && self.waiting.is_empty()
    }
}

impl Server {
    /// Stores these settings, and answers when they are durable.
    pub(super) fn keep(&mut self, settings: Vec<String>, answer: Answer) {
        self.notes.waiting.push_back((settings, answer));
        self.keep_next_if_idle();
    }

    /// Stores waiting settings, unless the engine is writing superblocks that this would undo.
    pub(super) fn keep_next_if_idle(&mut self) {
        if self.notes.work.is_none() && !self.is_succeeding() {
            self.keep_next();
        }
    }

    fn keep_next(&mut self) {
        while let Some((settings, answer)) = self.notes.waiting.pop_front() {
            match Arena::new(crate::arena::PAGE) {
                Ok(buffer) => {
                    let steps = VecDeque::new();
                    let work = Work { steps, attempts: 0, gone: u32::MAX, buffer, answer: Some(answer), settings };
                    self.notes.work = Some(work);
                    return self.keep_on();
                }
                Err(error) => drop(answer.send(Err(not_kept(&error.to_string())))),
            }
        }
    }

    /// Begins the next step, or ends.
    fn keep_on(&mut self) {
        let gone = self.volume.engine().gone();
        let Some(work) = self.notes.work.as_mut() else { return };
        if work.gone != gone {
            work.attempts += 1;
            if work.attempts > MOST_ATTEMPTS {
                return self.kept(Err(not_kept("a device was given up meanwhile")));
            }
            let notes = match serde_json::to_string(&work.settings) {
                Ok(notes) => notes,
                Err(error) => return self.kept(Err(error.to_string())),
            };
            let sizes: Vec<Option<Bytes>> =
                self.about.devices.iter().map(|device| device.as_ref().map(|device| device.size)).collect();
            let mut recorder = Recorder { sizes: &sizes, steps: VecDeque::new() };
            let made = self.volume.engine_mut().store_notes(&notes, &mut recorder);
            (work.steps, work.gone) = (recorder.steps, gone);
            if let Err(error) = made {
                return self.kept(Err(not_kept(&error.to_string())));
            }
        }
        let Some(step) = work.steps.pop_front() else {
            let settings = mem::take(&mut work.settings);
            return self.kept(Ok(settings));
        };
        let io = IoId::new(0, 0);
        let operation = match step {
            Step::Flush { device } => {
                Operation { io, device, action: Action::Flush, at: 0, len: 0, memory: Memory::NONE }
            }
            Step::Write { device, at, bytes } => {
                if bytes.len() > work.buffer.len() {
                    return self.kept(Err(not_kept("a superblock is longer than a page")));
                }
                let memory = work.buffer.at(0);
                // SAFETY: the buffer belongs to this work alone, and no step is in flight.
                unsafe { memory.slice_mut(bytes.len()) }.copy_from_slice(&bytes);
                Operation { io, device, action: Action::Write, at: at.0, len: bytes.len() as u64, memory }
            }
        };
        self.volume.backend.start_own(operation);
    }

    /// Handles the end of a step.
    pub(super) fn notes_step_done(&mut self, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => self.keep_on(),
            Err(error) => self.kept(Err(not_kept(&error.to_string()))),
        }
    }

    fn kept(&mut self, result: Result<Vec<String>, String>) {
        if let Some(answer) = self.notes.work.take().and_then(|work| work.answer) {
            // A failure means that the client has gone.
            let _ = answer.send(result);
        }
        self.keep_next_if_idle();
    }
}

fn not_kept(why: &str) -> String {
    format!("in force, but not kept for the next time: {why}")
}
