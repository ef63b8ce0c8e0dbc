//! Grows or shrinks a device while the volume is served: lets the engine empty what is given up, and begins the change that opens the volume
//! with its new size (`changing.rs`).

use std::sync::Arc;

use peryton_engine::{DeviceId, Resize, ResizeEnd, ResizeError, ResizePlan};
use peryton_units::Bytes;
use rustix::fs::SeekFrom;
use serde_json::{Value, json};

use super::{
    BlockDevice, Handle, Server,
    changing_state::{Aim, Change, NewSize, progress},
};
use crate::events::What;

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
        self.begin_change(Change::new(device, Aim::Resize { grows: plan.size >= before }, self.now));
        Ok(self.change_status())
    }

    /// The volume was opened with another size of the device.
    pub(super) fn size_has_changed(&mut self, index: usize, grows: bool) {
        self.volume.size_has_changed();
        let engine = self.volume.engine();
        let volume = engine.volume_size();
        if !grows && let Some(device) = &mut self.about.devices[index] {
            // The rest of the device may be cut off.
            device.size = engine.device_bytes()[index] + engine.warmth().map_or(Bytes::ZERO, |warmth| warmth.room);
        }
        if volume != self.front.export.size {
            let mut export = (*self.front.export).clone();
            export.size = volume;
            self.front.export = Arc::new(export);
            self.heat.grow(volume);
        }
    }

    /// Ends a resizing, with success or for this reason without. Returns why not, and the sizes now.
    pub(super) fn end_resizing(&mut self, device: usize, given_up: Option<String>) -> (Option<String>, Value) {
        if given_up.is_some() && self.volume.engine().resizing().is_some() {
            self.volume.stop_resizing(self.now);
        }
        let end = self.volume.take_resize_end();
        let name = self.about.names[device].clone();
        let engine = self.volume.engine();
        let (size, used, volume) = (engine.data_bytes()[device], engine.device_bytes()[device], engine.volume_size());
        let why = match (end, given_up) {
            (Some(ResizeEnd::Resized), _) => None,
            (Some(ResizeEnd::DeviceGone), _) => Some("a device of the volume was given up".to_owned()),
            (Some(ResizeEnd::NotClosed), _) => {
                Some("a device failed a flush, and the volume was opened as after a crash".to_owned())
            }
            (_, Some(why)) => Some(why),
            (Some(ResizeEnd::Stopped), None) => Some("it was stopped".to_owned()),
            (None, None) => Some("the volume was opened again after a flush had failed".to_owned()),
        };
        match &why {
            None => {
                tracing::info!(device = name, %size, %volume, "the device is resized");
                let (size_bytes, volume_bytes) = (size.0, volume.0);
                self.about.events.report(What::Resized { device: name.clone(), size_bytes, volume_bytes });
            }
            Some(why) => {
                tracing::warn!(device = name, why, "the device is not resized");
                self.about.events.report(What::NotResized { device: name.clone(), why: why.clone() });
            }
        }
        self.grow_block_device();
        let keeps = |device: &&BlockDevice| !device.can_grow && device.lacks(volume).is_some();
        let block_device = self.block_device.as_ref().filter(keeps).map(BlockDevice::path);
        let sizes = json!({
            "size_bytes": size,
            "used_bytes": used,
            "volume_bytes": volume,
            "block_device_keeps_its_size": block_device,
        });
        (why, sizes)
    }

    /// How far a device is resized, for the status.
    pub(super) fn resizing_status(&self, change: &Change) -> Value {
        let name = self.about.names[change.device].as_str();
        let Some(resize) = self.volume.engine().resizing() else {
            return json!({ "kind": "resize", "device": name, "state": "ending" });
        };
        let done = resize.total - resize.left.min(resize.total);
        let mut status = progress(
            ("resize", name, if change.holds() { change.state() } else { resize.stage.name() }),
            (resize.total, done, done),
            (Some(resize.plan.rate.0), resize.took, Resize::left_time(&resize)),
        );
        status["direction"] = json!(if resize.shrinks() { "shrink" } else { "grow" });
        status["from_bytes"] = json!(resize.before);
        status["to_bytes"] = json!(resize.plan.size);
        status["volume_bytes"] = json!(resize.volume);
        status
    }
}

impl Handle {
    /// Begins to grow or shrink a device, and returns the state as in the status.
    ///
    /// # Errors
    /// One line: there is no such device, or it cannot be done with this volume.
    pub fn resize(&self, name: &str, new: NewSize) -> Result<Value, String> {
        self.may_change()?;
        let known = name.to_owned();
        let (index, device) = self.try_ask(move |server| {
            let index = server.index_of(&known)?;
            Ok((index, server.about.devices[index].clone()))
        })?;
        let Some(device) = device else {
            return Err(format!("'{name}' is gone: a device that is not part of the volume is not resized"));
        };
        // The kernel may wait for commands in flight here, which the volume's thread must not.
        let room = rustix::fs::seek(&device.file, SeekFrom::End(0));
        let room = room.map_err(|error| format!("{}: {error}", device.path.display()))?;
        self.try_ask(move |server| server.begin_to_resize(index, Bytes(room), new))
    }
}
