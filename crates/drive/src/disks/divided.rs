//! A device that had data before it became part of the volume, and whose first part is displaced. Operations are cut at the borders of
//! the parts, and each command goes to the device that has its bytes. A flush is done when both devices are flushed.

use peryton_engine::{DeviceId, Displaced};
use peryton_units::Bytes;

use super::{Chunk, Disks, Effect, Job, chunk};
use crate::backend::{Action, Operation};

/// The device, and the place of its displaced part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divided {
    pub(super) map: Displaced,
    /// The kernel's number of the file with the displaced part.
    file: DeviceId,
    /// Whether the device with that file is gone.
    gone: bool,
}

impl Divided {
    /// The kernel's number of the file and the offset in it; `None` if the device there is gone.
    pub(super) fn place(&self, chunk: Chunk, at: u64) -> Option<(DeviceId, u64)> {
        match chunk {
            Chunk::None | Chunk::Flush => return Some((self.map.device, at)),
            Chunk::FlushHome => return Some((self.file, 0)),
            _ => {}
        }
        let place = self.map.locate(Bytes(at));
        match place.is_displaced {
            true if self.gone => None,
            true => Some((self.file, place.at.0)),
            false => Some((self.map.device, place.at.0)),
        }
    }

    /// Whether an operation touches a part that is displaced to another device.
    fn is_at_home(&self, operation: &Operation) -> bool {
        let (from, to) = self.map.range();
        let overlaps = operation.at < to.0 && from.0 < operation.at + operation.len;
        let touches = operation.action == Action::Flush || overlaps;
        self.map.is_elsewhere() && !self.gone && operation.device == self.map.device && touches
    }
}

impl Disks {
    /// Sets the device that had data before. `file`: the kernel's number of the file with the displaced part, `None` if it is missing.
    pub(crate) fn divide(&mut self, map: Displaced, file: Option<DeviceId>) {
        self.divided = Some(Divided { map, file: file.unwrap_or(map.home), gone: file.is_none() });
    }

    /// The engine has given a device up; the part that is displaced to it cannot be used any more.
    pub(crate) fn lose_home(&mut self, device: DeviceId) {
        if let Some(divided) = &mut self.divided
            && divided.map.home == device
        {
            divided.gone = true;
        }
    }

    /// The next chunk of a job; `None` if nothing remains.
    pub(super) fn plan(&mut self, slot: u32) -> Option<Chunk> {
        let job = self.jobs[slot as usize].as_mut().expect("a job that is planned exists");
        let operation = job.operation;
        let ability = &self.abilities[operation.device.index()];
        let Some(divided) = self.divided.filter(|divided| divided.map.device == operation.device) else {
            return Chunk::plan(&operation, job.done, ability, job.memory_at(job.done, &self.zeros));
        };
        if operation.action == Action::Flush {
            return Some(Chunk::Flush);
        }
        while job.done < operation.len {
            let at = operation.at + job.done;
            let len = divided.map.locate(Bytes(at)).together.0.min(operation.len - job.done);
            let part = Operation { at, len, ..operation };
            if let Some(chunk) = Chunk::plan(&part, 0, ability, job.memory_at(job.done, &self.zeros)) {
                return Some(chunk);
            }
            // A part of a discard that is smaller than a block.
            job.done += len;
        }
        None
    }

    /// The kernel's number of the file that a command goes to, and the offset there; `None`: the displaced part is lost with its device.
    #[inline]
    pub(super) fn target(&self, slot: u32, at: u64) -> Option<(DeviceId, u64)> {
        let job = self.jobs[slot as usize].as_ref()?;
        match &self.divided {
            Some(divided) if divided.map.device == job.operation.device => divided.place(job.chunk, at),
            _ => Some((job.operation.device, at)),
        }
    }

    /// Whether a flush of this job's device has to go on with the other device.
    #[inline]
    pub(super) fn has_home_to_flush(&self, slot: u32) -> bool {
        let Some(divided) = &self.divided else { return false };
        let device = self.jobs[slot as usize].as_ref().map(|job| job.operation.device);
        divided.map.is_elsewhere() && !divided.gone && device == Some(divided.map.device)
    }

    pub(super) fn flush_home(&mut self, slot: u32) {
        let job = self.jobs[slot as usize].as_mut().expect("a job that is stepped exists");
        job.chunk = Chunk::FlushHome;
        self.issue(slot);
    }

    /// The device that the command of a job's chunk was for.
    pub(super) fn asked(&self, slot: u32) -> DeviceId {
        let job = self.jobs[slot as usize].as_ref().expect("a job that is asked about exists");
        let device = job.operation.device;
        let Some(divided) = self.divided.filter(|divided| divided.map.device == device) else { return device };
        let (_, at, _, _) = match job.chunk {
            chunk::Chunk::Bounced { .. } if job.bounce.is_none() => return device,
            _ => Job::raw(job, &self.bounces, &self.zeros),
        };
        match divided.place(job.chunk, at) {
            Some((file, _)) if file == divided.file => divided.map.home,
            _ => device,
        }
    }

    /// The fault of the other device that affects an operation, because the operation touches the part that is displaced to that device.
    #[inline]
    pub(super) fn effect_at_home(&mut self, operation: &Operation) -> Option<Effect> {
        let divided = self.divided.filter(|divided| divided.is_at_home(operation))?;
        let at = operation.at.saturating_sub(divided.map.metadata.0) + divided.map.at.0;
        let there = Operation { device: divided.map.home, at, ..*operation };
        // A delay is for the commands of its own device.
        self.faults.effect(&there).filter(|effect| matches!(effect, Effect::Fail | Effect::Gone))
    }

    /// The other device has vanished, by a drill.
    #[cold]
    pub(super) fn home_vanished(&mut self, slot: u32, operation: Operation) {
        if let Some(divided) = &self.divided {
            self.vanished |= 1 << divided.map.home.index();
        }
        let error = "the device with what is displaced of this one has vanished";
        self.note_failure(&operation, error);
        self.give_up(slot, operation, error.to_owned());
    }
}
