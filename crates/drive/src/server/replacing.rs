//! Replaces a device while the volume is served: opens the new one on the thread of the control client, lets the engine copy the old one,
//! and puts the new one in charge when everything is copied.

use std::path::{Path, PathBuf};

use peryton_engine::{DeviceId, SuccessionEnd, SuccessionPlan, SuccessionStage};
use peryton_format::superblock::VolumeState;
use peryton_units::Bytes;
use serde_json::{Value, json};

use super::{
    Handle, Server, Successor,
    attached::{nothing_new, open_unused},
    changing_state::{Stoppable, progress},
    replacing_state::Replacement,
};
use crate::{
    events::What,
    format::refuse_data,
    open::{Device, same_file},
    own_sizes::any_superblock,
};

/// The most ranges that cannot be read that the status lists.
const MOST_RANGES: usize = 64;

impl Server {
    /// Notes how devices are opened that take the place of others.
    pub(crate) fn let_devices_be_replaced(&mut self, direct: bool) {
        self.replacing.direct = direct;
    }

    fn begin_to_replace(&mut self, device: usize, other: Device, new: &Successor) -> Result<Value, String> {
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        let plan = SuccessionPlan {
            device: DeviceId(device as u8),
            size: other.size,
            rate: Bytes(new.bytes_per_s.unwrap_or(0)),
            accept_loss: new.accept_loss,
        };
        self.volume.engine().can_replace_in_service(plan).map_err(|error| self.about.named(&error.to_string()))?;
        let spare = self.about.names.len();
        let system = |error: std::io::Error| format!("{}: {error}", other.path.display());
        self.front.kernel.set_file(spare, Some(other.file.clone())).map_err(system)?;
        self.volume.backend.add_spare(other.ability.clone());
        if let Err(error) = self.volume.replace_in_service(self.now, plan) {
            let _ = self.front.kernel.set_file(spare, None);
            return Err(error);
        }
        let (name, path) = (self.about.names[device].clone(), other.path.display().to_string());
        tracing::info!(device = name, path, "the device is being copied to its replacement");
        self.about.events.report(What::Replacing { device: name, path: path.clone() });
        self.replacing.now = Some(Replacement {
            device,
            other,
            path,
            update_design: new.update_design,
            is_succeeding: false,
            has_succeeded: false,
        });
        Ok(self.change_status())
    }

    /// Whether superblocks of a replacement are being written, before which no superblocks with settings may be written.
    pub(super) fn is_succeeding(&self) -> bool {
        self.replacing.now.as_ref().is_some_and(|replacement| replacement.is_succeeding)
    }

    /// Lets the new device take its place once everything is copied, and ends a finished replacement.
    #[inline]
    pub(super) fn go_on_replacing(&mut self) {
        if self.replacing.now.is_some() {
            self.look_at_replacement();
        }
    }

    #[cold]
    fn look_at_replacement(&mut self) {
        let Some(replacement) = &mut self.replacing.now else { return };
        if let Some((device, successor)) = self.volume.backend.take_exchanged() {
            let old = self.about.devices[device.index()].replace(replacement.other.clone());
            if let Some(old) = old {
                replacement.other = old;
            }
            replacement.has_succeeded = true;
            let files = [(device, &self.about.devices[device.index()]), (successor, &Some(replacement.other.clone()))];
            for (device, file) in files {
                let file = file.as_ref().map(|device| device.file.clone());
                if let Err(error) = self.front.kernel.set_file(device.index(), file) {
                    // Commands to the device fail, so the engine gives it up.
                    tracing::error!(%error, "the kernel does not take the file of a new device");
                }
            }
            if let Ok(memory) = self.volume.memory_mut() {
                memory.set_devices(&self.about.devices, None);
            }
            self.about.device_changed(device.index());
            self.drives_changed(device.index());
        }
        let Some(succession) = self.volume.engine().succession(0) else { return self.end_replacement() };
        let is_ready = succession.stage == SuccessionStage::Copied && self.notes.is_idle() && !self.stop.is_asked();
        let Some(replacement) = &mut self.replacing.now else { return };
        let is_succeeding = succession.stage == SuccessionStage::Succeeding;
        if is_ready {
            // If the server is killed, the next one may find either of the two devices in charge.
            if let Ok(memory) = self.volume.memory_mut() {
                memory.set_devices(&self.about.devices, Some(replacement.device));
            }
            replacement.is_succeeding = self.volume.succeed(self.now).is_ok();
        } else if replacement.is_succeeding && !is_succeeding && !replacement.has_succeeded {
            // Part of it has to be copied again.
            replacement.is_succeeding = false;
            self.keep_next_if_idle();
        }
    }

    fn end_replacement(&mut self) {
        let end = self.volume.take_succession_end();
        let Some(Replacement { device, other, path, update_design, .. }) = self.replacing.now.take() else { return };
        let name = self.about.names[device].clone();
        let why = match end {
            Some(SuccessionEnd::Succeeded) => None,
            Some(SuccessionEnd::Stopped) => Some("it was stopped".to_owned()),
            Some(SuccessionEnd::SuccessorFailed) => {
                let error = self.volume.backend.health()[self.about.names.len()].last_error.clone();
                Some(format!(
                    "the new device has failed ({})",
                    error.as_deref().unwrap_or("too many commands, or a flush")
                ))
            }
            Some(SuccessionEnd::DeviceGone) => Some("a device of the volume was given up".to_owned()),
            Some(SuccessionEnd::DeviceRefuses) => Some("a device of the volume refuses writes".to_owned()),
            None => Some("the volume was opened again after a flush had failed".to_owned()),
        };
        let _ = self.front.kernel.set_file(self.about.names.len(), None);
        if let Ok(memory) = self.volume.memory_mut() {
            memory.set_devices(&self.about.devices, None);
        }
        other.unlock();
        match &why {
            None => {
                let old = other.path.display().to_string();
                tracing::info!(
                    device = name,
                    path,
                    old,
                    "the device is replaced: set its path in the design to the new one"
                );
                self.about.events.report(What::Replaced { device: name.clone(), path: path.clone(), old });
            }
            Some(why) => {
                tracing::warn!(device = name, path, why, "the device is not replaced");
                let event = What::NotReplaced { device: name.clone(), path: path.clone(), why: why.clone() };
                self.about.events.report(event);
            }
        }
        let (design, error) = match why.is_none() && update_design {
            true => self.set_in_design(&name, Path::new(&path)),
            false => (Value::Null, Value::Null),
        };
        let more = json!({ "path": path, "design": design, "design_error": error });
        self.note_end("replace", Some(&name), why, more);
        self.keep_next_if_idle();
    }

    /// How far a device is replaced, for the status; `null` if none is.
    pub(super) fn replacement_status(&self) -> Value {
        let Some(replacement) = &self.replacing.now else { return Value::Null };
        let name = self.about.names[replacement.device].as_str();
        let Some(succession) = self.volume.engine().succession(MOST_RANGES) else {
            // It has ended in this turn of the loop.
            return json!({ "kind": "replace", "device": name, "path": replacement.path, "state": "ending" });
        };
        let ranges: Vec<Value> = succession
            .ranges
            .iter()
            .map(|range| json!({ "offset": range.start, "length": range.end - range.start }))
            .collect();
        let mut status = progress(
            ("replace", name, succession.stage.name()),
            (succession.total, succession.copied, succession.done),
            (Some(succession.plan.rate.0), succession.took, succession.left()),
        );
        status["path"] = json!(replacement.path);
        status["unreadable"] =
            json!({ "bytes": succession.unreadable, "ranges": ranges, "accepted": succession.plan.accept_loss });
        status
    }

    /// The name of a device for messages; a device that is not part of the volume has none.
    pub(super) fn name_of(&self, device: DeviceId) -> String {
        let named = self.about.names.get(device.index()).cloned();
        let other = || self.replacing.now.as_ref().map(|replacement| replacement.other.path.display().to_string());
        named.or_else(other).unwrap_or_else(|| "a device that is not part of the volume".to_owned())
    }
}

impl Handle {
    /// Begins to copy a device to another one, which then takes its place, and returns the state as in the status.
    ///
    /// # Errors
    /// One line: there is no such device, the new one is in use or holds data, or it cannot be done with this volume.
    pub fn replace(&self, name: &str, new: Successor) -> Result<Value, String> {
        self.may_change()?;
        if new.update_design {
            self.can_update_design(name)?;
        }
        if self.is_gone(name) {
            return self.replace_gone(name, &new);
        }
        let known = name.to_owned();
        let (device, volume, paths, direct) = self.try_ask(move |server| {
            let devices = server.about.devices.iter().flatten();
            let paths: Vec<PathBuf> = devices.map(|device| device.path.clone()).collect();
            Ok((server.index_of(&known)?, server.about.opened.volume, paths, server.replacing.direct))
        })?;
        if new.path.is_relative() {
            return Err(format!("{}: give the whole path, from the root", new.path.display()));
        }
        if let Some(path) = paths.iter().find(|path| same_file(path, &new.path)) {
            return Err(format!("{}: is a device of the volume already: name another one", path.display()));
        }
        let other = open_unused(name, &new.path, direct)?.ok_or_else(|| nothing_new(&new.path))?;
        // An earlier attempt that was stopped, or whose server was killed, has left a copy there that is no part of the volume.
        let is_own_copy =
            any_superblock(&other).is_some_and(|found| found.state == VolumeState::Aside && found.volume == volume);
        refuse_data(&other, new.force || is_own_copy).map_err(|error| error.to_string())?;
        self.try_ask(move |server| server.begin_to_replace(device, other, &new))
    }

    /// Gives up the change under way: the device stays, and keeps its size.
    ///
    /// # Errors
    /// One line: there is none that can be given up, or the volume is closed.
    pub fn stop_change(&self, kind: Stoppable) -> Result<(), String> {
        self.try_ask(move |server| server.stop_change(kind))
    }
}
