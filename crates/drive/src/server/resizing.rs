//! Grows or shrinks a device while the volume is served: lets the engine empty what is given up, lets requests wait, and opens the volume
//! with its new size.

use std::{io, sync::Arc};

use peryton_engine::{DeviceId, Opened, Resize, ResizeEnd, ResizeError, ResizePlan, ResizeStage};
use peryton_units::{Bytes, Nanos};
use rustix::fs::SeekFrom;
use serde_json::{Value, json};

use super::{
    BlockDevice, Handle, Server,
    resizing_state::{NewSize, Underway},
};
use crate::{clock::unix_s, events::What, open::Device, shared_memory::SharedMemory, storage::Files};

/// Requests wait at most so long for the volume to come to rest; then they go on, and it is tried again after the pause.
const MOST_HELD: Nanos = Nanos::from_s(2);
const HOLD_AGAIN: Nanos = Nanos::from_s(5);
/// A volume that was closed and cannot be opened again is tried after this pause, for so long; then the server ends.
const OPEN_AGAIN: Nanos = Nanos::from_s(1);
const OPEN_PATIENCE: Nanos = Nanos::from_s(30);
const ENDED: &str = "the volume is closed";

impl Server {
    fn begin_to_resize(&mut self, device: usize, room: Bytes, new: NewSize) -> Result<Value, String> {
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        let engine = self.volume.engine();
        let id = DeviceId(device as u8);
        let before = engine.data_bytes()[device];
        let size = new.size.map_or_else(|| engine.largest(id, room).max(before), Bytes);
        let mut plan = ResizePlan { device: id, size, room, rate: Bytes(new.bytes_per_s.unwrap_or(0)) };
        let name = self.about.names[device].clone();
        let is_other_way = if new.grows { plan.size < before } else { plan.size > before };
        if is_other_way {
            let (is, verb) = if new.grows { ("more", "peryton shrink") } else { ("less", "peryton grow") };
            return Err(format!("'{name}' has {before} of data, which is {is} than {}: use {verb}", plan.size));
        }
        let mut can = engine.can_resize(plan);
        if let (Err(ResizeError::MapTooLong { most, .. }), None) = (&can, new.size)
            && *most > before
        {
            plan.size = *most;
            can = engine.can_resize(plan);
        }
        can.map_err(|error| self.about.named(&error.to_string()))?;
        if let Some(device) = &mut self.about.devices[device] {
            device.size = room;
        }
        self.volume.resize(self.now, plan).map_err(|error| self.about.named(&error.to_string()))?;
        tracing::info!(device = name, from = %before, to = %plan.size, "the device is being resized");
        self.about.events.report(What::Resizing { device: name, from_bytes: before.0, to_bytes: plan.size.0 });
        self.resizing.now =
            Some(Underway { device, grows: new.grows, holds_since: None, again_at: self.now, fails_since: None });
        Ok(self.resizing_status())
    }

    /// When the next attempt is due, if only time keeps it from that.
    pub(super) fn resizing_deadline(&self) -> Option<Nanos> {
        let underway = self.resizing.now.as_ref()?;
        let held = underway.holds_since.map(|since| since.saturating_add(MOST_HELD));
        [held, Some(underway.again_at)].into_iter().flatten().filter(|at| *at > self.now).min()
    }

    /// Lets requests wait once little is left, and opens the volume with the new size.
    #[inline]
    pub(super) fn go_on_resizing(&mut self) {
        if self.resizing.now.is_some() {
            self.look_at_resizing();
        }
    }

    #[cold]
    fn look_at_resizing(&mut self) {
        let Some(resize) = self.volume.engine().resizing() else { return self.end_resizing() };
        let stops = self.stop.is_asked();
        let Some(underway) = &mut self.resizing.now else { return };
        let is_due = self.now >= underway.again_at;
        let rests = self.volume.backend.in_flight() == 0 && self.notes.is_idle();
        match (resize.stage, underway.holds_since) {
            (ResizeStage::Closed, _) if stops => {
                let error = "the volume was closed to be resized and cannot be opened again".to_owned();
                self.failed.get_or_insert(io::Error::other(error));
            }
            (ResizeStage::Closed, _) if is_due => self.switch(),
            (ResizeStage::Ready, None) if is_due && self.notes.is_idle() => {
                underway.holds_since = Some(self.now);
                self.volume.hold_at_rest(self.now);
            }
            (ResizeStage::Ready | ResizeStage::Emptying, Some(_)) if rests && self.volume.engine().can_resize_now() => {
                self.switch();
            }
            (_, Some(since)) if resize.stage != ResizeStage::Closed && self.now.saturating_sub(since) > MOST_HELD => {
                underway.holds_since = None;
                underway.again_at = self.now.saturating_add(HOLD_AGAIN);
                self.volume.release(self.now);
            }
            _ => {}
        }
    }

    /// Opens the volume with its new size. This thread does nothing else meanwhile: the time depends on the length of the map.
    fn switch(&mut self) {
        self.about.devices.iter().flatten().for_each(Device::drop_cached);
        let notifier = &self.watchdog.notifier;
        let process_death = &self.reopening.process_death;
        let opened = match Files::with_memory(&self.about.devices, process_death) {
            Ok(files) => {
                let mut files = files.notifying(notifier);
                self.volume.engine_mut().tell_time(self.now, unix_s());
                self.volume.engine_mut().resize_now(&mut files).map_err(|error| self.about.named(&error.to_string()))
            }
            Err(error) => Err(error.to_string()),
        };
        self.watchdog.notifier.goes_on();
        match opened {
            Ok(opened) => self.has_switched(opened),
            Err(error) => {
                let Some(underway) = &mut self.resizing.now else { return };
                let since = *underway.fails_since.get_or_insert(self.now);
                underway.again_at = self.now.saturating_add(OPEN_AGAIN);
                tracing::error!(error, "the volume was closed to be resized and cannot be opened again yet");
                if self.now.saturating_sub(since) > OPEN_PATIENCE {
                    self.failed.get_or_insert(io::Error::other(error));
                }
            }
        }
    }

    fn has_switched(&mut self, opened: Opened) {
        self.volume.backend.trust();
        let memory = SharedMemory::begin(&self.reopening.process_death, self.volume.engine_mut(), &self.about.devices);
        self.volume.keep_in(memory);
        let engine = self.volume.engine();
        let (volume, clean, generation) = (engine.volume_size(), opened.clean, opened.generation);
        if let Some(underway) = &self.resizing.now
            && !underway.grows
            && let Some(device) = &mut self.about.devices[underway.device]
        {
            // What it has more may be cut off.
            device.size =
                engine.device_bytes()[underway.device] + engine.warmth().map_or(Bytes::ZERO, |warmth| warmth.room);
        }
        if volume != self.front.export.size {
            let mut export = (*self.front.export).clone();
            export.size = volume;
            self.front.export = Arc::new(export);
            self.heat.grow(volume);
        }
        self.about.events.report(What::Opened { clean, generation });
        self.about.opened = opened;
        self.end_resizing();
    }

    fn end_resizing(&mut self) {
        let end = self.volume.take_resize_end();
        let Some(Underway { device, .. }) = self.resizing.now.take() else { return };
        self.volume.release(self.now);
        let name = self.about.names[device].clone();
        let engine = self.volume.engine();
        let (size, used, volume) = (engine.data_bytes()[device], engine.device_bytes()[device], engine.volume_size());
        let why = match end {
            Some(ResizeEnd::Resized) => None,
            Some(ResizeEnd::Stopped) => Some("it was stopped"),
            Some(ResizeEnd::DeviceGone) => Some("a device of the volume was given up"),
            Some(ResizeEnd::NotClosed) => Some("a device failed a flush, and the volume was opened as after a crash"),
            None => Some("the volume was opened again after a flush had failed"),
        };
        match why {
            None => {
                tracing::info!(device = name, %size, %volume, "the device is resized");
                let (size_bytes, volume_bytes) = (size.0, volume.0);
                self.about.events.report(What::Resized { device: name.clone(), size_bytes, volume_bytes });
            }
            Some(why) => {
                tracing::warn!(device = name, why, "the device is not resized");
                self.about.events.report(What::NotResized { device: name.clone(), why: why.to_owned() });
            }
        }
        self.grow_block_device();
        let keeps = |device: &&BlockDevice| !device.can_grow && device.lacks(volume).is_some();
        let smaller = self.block_device.as_ref().filter(keeps);
        let block_device = smaller.map(|device| device.path());
        self.resizing.last = json!({
            "device": name,
            "succeeded": why.is_none(),
            "why": why,
            "size_bytes": size,
            "used_bytes": used,
            "volume_bytes": volume,
            "block_device_keeps_its_size": block_device,
        });
    }

    /// How far a device is resized, for the status; `null` if none is.
    pub(super) fn resizing_status(&self) -> Value {
        let resize = self.volume.engine().resizing();
        let Some((underway, resize)) = self.resizing.now.as_ref().zip(resize) else { return Value::Null };
        let done = resize.total - resize.left.min(resize.total);
        let took = resize.took.as_s_f64();
        json!({
            "device": self.about.names[underway.device],
            "direction": if resize.shrinks() { "shrink" } else { "grow" },
            "state": if underway.holds_since.is_some() { ResizeStage::Closed.name() } else { resize.stage.name() },
            "from_bytes": resize.before,
            "to_bytes": resize.plan.size,
            "volume_bytes": resize.volume,
            "bytes": resize.total,
            "emptied_bytes": done,
            "bytes_per_s": if took > 0.0 { (done.0 as f64 / took) as u64 } else { 0 },
            "most_bytes_per_s": Some(resize.plan.rate).filter(|rate| *rate > Bytes::ZERO),
            "took_s": took,
            "left_s": Resize::left_time(&resize).map(|left| left.as_s_f64()),
        })
    }

    /// How the last resizing ended, for the status.
    pub(super) fn last_resize(&self) -> Value {
        self.resizing.last.clone()
    }

    /// Gives up resizing a device, because the server stops or a client asks for it.
    pub(super) fn stop_resizing(&mut self) -> Result<(), String> {
        if self.resizing.now.is_none() {
            return Err("no device is being grown or shrunk".to_owned());
        }
        self.volume.stop_resizing(self.now);
        match self.volume.engine().resizing() {
            Some(_) => Err("the volume is being opened with the new size".to_owned()),
            None => {
                self.end_resizing();
                Ok(())
            }
        }
    }
}

impl Handle {
    /// Begins to grow or shrink a device, and returns the state as in the status.
    ///
    /// # Errors
    /// One line: there is no such device, or it cannot be done with this volume.
    pub fn resize(&self, name: &str, new: NewSize) -> Result<Value, String> {
        let known = {
            let name = name.to_owned();
            move |server: &mut Server| {
                let index = server.about.names.iter().position(|known| *known == name);
                let device = index.and_then(|index| server.about.devices[index].clone());
                (index, device, server.about.names.clone())
            }
        };
        let (index, device, names) = self.ask(known).ok_or(ENDED)?;
        let Some(index) = index else {
            return Err(format!("there is no device '{name}': the volume has '{}'", names.join("' and '")));
        };
        let Some(device) = device else {
            return Err(format!("'{name}' is gone: a device that is not part of the volume is not resized"));
        };
        // The kernel may wait for commands in flight here, which the volume's thread must not.
        let room = rustix::fs::seek(&device.file, SeekFrom::End(0));
        let room = room.map_err(|error| format!("{}: {error}", device.path.display()))?;
        self.ask(move |server| server.begin_to_resize(index, Bytes(room), new)).unwrap_or_else(|| Err(ENDED.to_owned()))
    }

    /// Gives up growing or shrinking a device. It keeps its size.
    ///
    /// # Errors
    /// One line: none is being resized, the new size is about to be in force, or the volume is closed.
    pub fn stop_resizing(&self) -> Result<(), String> {
        self.ask(Server::stop_resizing).unwrap_or_else(|| Err(ENDED.to_owned()))
    }
}
