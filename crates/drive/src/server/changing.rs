//! Changes the devices of the volume while it is served: takes back one that was gone, puts an empty one in its place, or lets one go that
//! holds nothing which the others lack. Requests wait meanwhile: the volume comes to rest and is closed in good order, the devices
//! change as they would while it is not served, and it is opened again. That takes about as long as starting a server.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use peryton_engine::{DeviceId, Engine, Opened, Tuning};
use peryton_units::Bytes;
use serde_json::{Value, json};

use super::{
    Server,
    changing_state::{
        Change, EVERY, HOLD_AT_MOST, LITTLE, Leaving, MOST_TRIES, Outcome, PAUSE, What, evacuation_ended,
    },
};
use crate::{
    clock::unix_s, design_file::DesignFile, events, open::Device, shared_memory::SharedMemory, storage::Files,
};

/// So often, with a pause, it is tried to open the volume again.
const MOST_OPENINGS: u32 = 3;
const OPENING_PAUSE: Duration = Duration::from_secs(1);

/// What the closed volume has become.
struct Changed {
    opened: Opened,
    refused: Option<String>,
    /// Extents that are part of the volume again.
    restored: u64,
}

impl Server {
    /// Notes where the devices are according to the design.
    pub(crate) fn let_devices_change(&mut self, paths: Vec<PathBuf>, design: Option<DesignFile>) {
        // Relative ones are so to the directory in which the server runs.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        (self.changing.paths, self.changing.design) = (paths.into_iter().map(absolute).collect(), design);
    }

    /// Why no change can begin now.
    pub(super) fn cannot_change(&self) -> Option<String> {
        let name = |index: usize| &self.about.names[index];
        if self.stop.is_asked() {
            return Some("the volume is being closed".to_owned());
        }
        if let Some(change) = &self.changing.now {
            return Some(match change.what {
                What::Leave(_) => {
                    format!(
                        "'{}' is being evacuated: wait until that is done, or stop it (--stop)",
                        name(change.device)
                    )
                }
                What::Return(_) | What::Empty(_) => format!("'{}' is just being taken in", name(change.device)),
            });
        }
        if let Some(resized) = &self.resizing.now {
            return Some(format!(
                "'{}' is being resized: wait until that is done, or stop it (peryton shrink --stop)",
                name(resized.device)
            ));
        }
        let replaced = self.replacing.now.as_ref()?;
        Some(format!("'{}' is being replaced: wait until that is done, or stop it (--stop)", name(replaced.device)))
    }

    pub(super) fn begin_to_take_in(&mut self, device: usize, what: What, update_design: bool) -> Result<(), String> {
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        if !self.volume.engine().is_given_up(DeviceId(device as u8)) {
            return Err(format!("'{}' is just being given up: try again in a moment", self.about.names[device]));
        }
        self.changing.outcome = None;
        self.changing.now = Some(Change { device, update_design, what, began: self.now, held: None });
        Ok(())
    }

    pub(super) fn begin_to_evacuate(&mut self, name: &str, bytes_per_s: Option<u64>) -> Result<Value, String> {
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        let device = self.index_of(name)?;
        let id = DeviceId(device as u8);
        if self.volume.engine().was_evacuated(id) {
            return Err(format!("'{name}' is evacuated already: the volume goes on without it"));
        }
        self.volume.engine().can_evacuate(id).map_err(|error| self.about.named(&error.to_string()))?;
        let before = self.volume.engine().tuning().clone();
        let tuning = self.volume.engine().leaving_tuning(bytes_per_s.is_some());
        self.volume.retune(self.now, tuning).map_err(|error| error.to_string())?;
        let first = self.volume.engine().dirty_bytes();
        let leaving = Leaving { bytes_per_s, before, first, due: self.now, tries: 0 };
        self.changing.outcome = None;
        let what = What::Leave(Box::new(leaving));
        self.changing.now = Some(Change { device, update_design: false, what, began: self.now, held: None });
        tracing::info!(device = name, dirty_bytes = first.0, "the device is being evacuated");
        self.about.events.report(events::What::Evacuating { device: name.to_owned() });
        Ok(self.evacuation_status())
    }

    pub(super) fn index_of(&self, name: &str) -> Result<usize, String> {
        let known = || format!("there is no device '{name}': the volume has '{}'", self.about.names.join("' and '"));
        self.about.names.iter().position(|other| other == name).ok_or_else(known)
    }

    /// Settings that are given while a device is emptied take effect when it has left, or stays.
    pub(super) fn while_leaving(&mut self, tuning: Tuning) -> Tuning {
        let Some(Change { what: What::Leave(leaving), .. }) = &mut self.changing.now else { return tuning };
        leaving.before = tuning.clone();
        let (engine, slowly) = (self.volume.engine(), leaving.bytes_per_s.is_some());
        let now = engine.leaving_tuning(slowly);
        // What has nothing to do with the copies.
        Tuning { patience: tuning.patience, spin_down_after: tuning.spin_down_after, ..now }
    }

    /// Continues with what can be done now.
    #[inline]
    pub(super) fn go_on_changing(&mut self) {
        if self.changing.now.is_some() {
            self.look_at_change();
        }
    }

    #[cold]
    fn look_at_change(&mut self) {
        let Some(change) = &mut self.changing.now else { return };
        let index = change.device;
        let mut dirty = Bytes::ZERO;
        if let What::Leave(leaving) = &mut change.what {
            if let Err(error) = self.volume.engine().can_evacuate(DeviceId(index as u8)) {
                let why = self.about.named(&error.to_string());
                return self.end_change(Err(why));
            }
            dirty = self.volume.engine().dirty_bytes();
            let took = self.now.saturating_sub(change.began);
            // What has gone home so far, with what has become dirty meanwhile left out.
            let home = leaving.first.0.saturating_sub(dirty.0);
            let allowed = |rate: u64| u128::from(rate) * u128::from(took.0) / 1_000_000_000;
            let ahead = leaving.bytes_per_s.is_some_and(|rate| u128::from(home) > allowed(rate));
            let goes_on = dirty > Bytes::ZERO && (!ahead || change.held.is_some());
            if !goes_on {
                self.volume.pause_writing_back();
            }
            if self.now >= leaving.due {
                leaving.due = self.now.saturating_add(EVERY);
                if goes_on {
                    self.volume.write_all_back(self.now);
                }
            }
        }
        let Some(change) = &mut self.changing.now else { return };
        match change.held {
            None if dirty > LITTLE => {}
            None => {
                change.held = Some(self.now);
                self.volume.hold();
                self.settle_held();
            }
            Some(since) => {
                let is_late = self.now >= since.saturating_add(HOLD_AT_MOST);
                match dirty == Bytes::ZERO && self.rests() {
                    true => self.change_now(),
                    false if is_late => self.did_not_rest(),
                    false => {}
                }
            }
        }
    }

    /// Requests wait from now on: perhaps nothing is under way.
    fn settle_held(&mut self) {
        let is_clean = self.volume.engine().dirty_extents() == 0;
        let leaves = matches!(self.changing.now, Some(Change { what: What::Leave(_), .. }));
        if self.rests() && (is_clean || !leaves) {
            self.change_now();
        }
    }

    /// Whether nothing is under way, and nothing is wrong that closing the volume would make worse.
    fn rests(&self) -> bool {
        let engine = self.volume.engine();
        engine.is_idle()
            && !engine.is_in_doubt()
            && self.volume.backend.in_flight() == 0
            && self.waits_for() == 0
            && self.notes.is_idle()
    }

    /// The devices of the volume that fail and may come back, one bit each.
    fn waits_for(&self) -> u32 {
        self.volume.backend.in_outage() & !self.volume.engine().gone()
    }

    fn did_not_rest(&mut self) {
        self.volume.release(self.now);
        let Some(change) = &mut self.changing.now else { return };
        change.held = None;
        if let What::Leave(leaving) = &mut change.what
            && leaving.tries < MOST_TRIES
        {
            leaving.tries += 1;
            leaving.due = self.now.saturating_add(PAUSE);
            return;
        }
        let engine = self.volume.engine();
        let why = match () {
            () if engine.is_in_doubt() => "a flush has failed, and clients have not heard of it yet",
            () if self.waits_for() != 0 => "a device does not answer",
            () if self.volume.backend.in_flight() > 0 => "commands to a device do not come to their end",
            () => "the volume does not come to rest",
        };
        self.end_change(Err(format!("{why}: try again when peryton status shows no outage")));
    }

    /// Closes the volume, changes its devices, and opens it again.
    fn change_now(&mut self) {
        let Some(change) = self.changing.now.take() else { return };
        let index = change.device;
        let began = std::time::Instant::now();
        let mut devices = self.about.devices.clone();
        match &change.what {
            What::Return(device) | What::Empty(device) => devices[index] = Some(device.clone()),
            What::Leave(_) => {}
        }
        let changed = self.close_and_open(&devices, &change);
        let pause_s = began.elapsed().as_secs_f64();
        let Changed { opened, refused, restored } = match changed {
            Ok(changed) => changed,
            Err(error) => {
                let name = &self.about.names[index];
                tracing::error!(
                    device = name,
                    error,
                    "the volume cannot be opened again after its devices were to change"
                );
                self.failed = Some(io::Error::other(format!("the volume cannot be opened again: {error}")));
                return;
            }
        };
        let is_there = opened.gone >> index & 1 == 0;
        let (now, then) = (devices[index].clone(), self.about.devices[index].clone());
        let now = if is_there { now } else { None };
        match (&change.what, is_there) {
            // What is at the path is not used, and may be taken away.
            (What::Return(device) | What::Empty(device), false) => device.unlock(),
            (What::Leave(_), false) => then.iter().for_each(Device::unlock),
            (_, true) => {}
        }
        if let Err(error) = self.front.kernel.set_file(index, now.as_ref().map(|device| device.file.clone())) {
            // The engine takes a device for dead whose commands go nowhere.
            tracing::error!(%error, "the kernel does not take the file of a device");
        }
        self.volume.backend.set_device(DeviceId(index as u8), now.as_ref().map(|device| device.ability));
        self.volume.backend.trust();
        self.about.devices[index] = now;
        self.after_opening(opened);
        self.volume.release(self.now);
        self.drives_changed(index);
        let name = self.about.names[index].clone();
        let set = match &change.what {
            What::Return(device) | What::Empty(device) if is_there && change.update_design => {
                Some(self.set_in_design(&name, &device.path))
            }
            _ => None,
        };
        let (design, design_error) = design_told(set);
        let outcome = match (refused, &change.what) {
            (Some(why), _) => Err(self.about.named(&why)),
            (None, What::Return(device)) => {
                let path = device.path.display().to_string();
                let (dirty, lost) = (self.volume.engine().dirty_bytes(), self.volume.engine().losses(0).bytes);
                let used = self.volume.engine().device_bytes()[index];
                tracing::warn!(
                    device = name,
                    path,
                    restored_extents = restored,
                    pause_s,
                    "the device is part of the volume again"
                );
                self.about.events.report(events::What::Readmitted {
                    device: name.clone(),
                    path: path.clone(),
                    restored_extents: restored,
                });
                Ok(json!({
                    "device": name, "path": path, "restored_extents": restored, "used_bytes": used, "dirty_bytes": dirty,
                    "lost_bytes": lost, "pause_s": pause_s, "design": design, "design_error": design_error,
                }))
            }
            (None, What::Empty(device)) => {
                let path = device.path.display().to_string();
                let old = self.changing.paths[index].display().to_string();
                tracing::warn!(
                    device = name,
                    path,
                    pause_s,
                    "an empty device has taken the place of the one that was gone"
                );
                self.about.events.report(events::What::Replaced { device: name.clone(), path: path.clone(), old });
                self.replacing.last = json!({
                    "device": name, "path": path, "succeeded": true, "why": null, "design": design, "design_error": design_error,
                });
                let lost = self.volume.engine().losses(0).bytes;
                Ok(
                    json!({ "device": name, "path": path, "state": "succeeded", "lost_bytes": lost, "pause_s": pause_s, "design": design, "design_error": design_error }),
                )
            }
            (None, What::Leave(_)) => Ok(json!({ "device": name, "pause_s": pause_s })),
        };
        self.changing.now = Some(change);
        self.end_change(outcome);
    }

    fn close_and_open(&mut self, devices: &[Option<Device>], change: &Change) -> Result<Changed, String> {
        let device = DeviceId(change.device as u8);
        let notifier = self.watchdog.notifier.clone();
        let files = || Files::new(devices).map(|files| files.notifying(&notifier)).map_err(|error| error.to_string());
        let engine = self.volume.engine_mut();
        engine.tell_time(self.now, unix_s());
        let mut storage = files()?;
        let leaving = matches!(change.what, What::Leave(_)).then_some(device);
        let mut refused = match leaving {
            Some(device) => engine.is_evacuated(device).err().map(|error| error.to_string()),
            None => None,
        };
        let closed = engine.close(&mut storage);
        let mut restored = 0;
        if closed.is_err() {
            refused = Some("a device has failed while the volume was closed for a moment".to_owned());
        } else {
            self.volume.forget_memory();
            refused = refused.or_else(|| self.take_in(&mut storage, device, &change.what, &mut restored).err());
        }
        let leaving = leaving.filter(|_| refused.is_none());
        let mut tried = 0;
        loop {
            tried += 1;
            match self.volume.engine_mut().open_again(&mut files()?, leaving) {
                Ok(opened) => return Ok(Changed { opened, refused, restored }),
                // Perhaps the others do not show that they have everything.
                Err(error) if leaving.is_some() => {
                    let opened = self.volume.engine_mut().open_again(&mut files()?, None);
                    let refused = Some(error.to_string());
                    return opened
                        .map(|opened| Changed { opened, refused, restored })
                        .map_err(|error| error.to_string());
                }
                Err(error) if tried >= MOST_OPENINGS => return Err(error.to_string()),
                Err(error) => {
                    tracing::warn!(%error, "the volume cannot be opened again yet");
                    thread::sleep(OPENING_PAUSE);
                }
            }
        }
    }

    fn take_in(
        &self,
        storage: &mut Files<'_>,
        device: DeviceId,
        what: &What,
        restored: &mut u64,
    ) -> Result<(), String> {
        let engine = self.volume.engine();
        match what {
            What::Return(_) => {
                *restored = engine.take_back(storage, device).map_err(|error| error.to_string())?.restored;
            }
            What::Empty(_) => {
                engine.take_in(storage, device).map_err(|error| error.to_string())?;
            }
            What::Leave(_) => {}
        }
        Ok(())
    }

    /// The volume was opened again: what follows from that for the server.
    fn after_opening(&mut self, opened: Opened) {
        let memory = SharedMemory::begin(&self.reopening.process_death, self.volume.engine_mut(), &self.about.devices);
        self.volume.keep_in(memory);
        self.volume.tick(self.now);
        let engine = self.volume.engine();
        self.reported_gone = self.reported_gone & engine.gone() | engine.evacuated_devices();
        let Opened { clean, generation, .. } = opened;
        self.about.events.report(events::What::Opened { clean, generation });
        self.about.opened = opened;
    }

    /// Ends the change under way.
    fn end_change(&mut self, outcome: Outcome) {
        let Some(Change { device, what, held, .. }) = self.changing.now.take() else { return };
        if held.is_some() {
            self.volume.release(self.now);
        }
        let name = self.about.names[device].clone();
        if let Err(why) = &outcome {
            tracing::warn!(device = name, why, "the devices of the volume stay as they were");
        }
        match what {
            What::Leave(leaving) => {
                let Leaving { before, .. } = *leaving;
                self.volume.pause_writing_back();
                if let Err(error) = self.volume.retune(self.now, before) {
                    tracing::error!(%error, "the settings from before the evacuation are not in force again");
                }
                let why = outcome.as_ref().err().cloned();
                self.changing.last_evacuation = evacuation_ended(&name, why.as_deref());
                let event = match why {
                    None => {
                        tracing::warn!(device = name, "the device is evacuated, and can be taken out");
                        events::What::Evacuated { device: name }
                    }
                    Some(why) => events::What::NotEvacuated { device: name, why },
                };
                self.about.events.report(event);
            }
            What::Return(new) | What::Empty(new) => {
                let is_ours = self.about.devices[device].as_ref().is_some_and(|ours| ours.identity() == new.identity());
                if outcome.is_err() && !is_ours {
                    new.unlock();
                }
            }
        }
        self.changing.outcome = Some(outcome);
    }

    /// Sets the path of a device in the design.
    pub(super) fn set_in_design(&mut self, name: &str, path: &Path) -> Result<PathBuf, String> {
        let set = self.changing.design.as_ref().ok_or_else(no_design).and_then(|design| design.set(name, path));
        match &set {
            Ok(design) => {
                tracing::info!(device = name, path = %path.display(), design = %design.display(), "the design has the new path")
            }
            Err(error) => {
                tracing::warn!(device = name, error, "the design has the path from before: set the new one by hand")
            }
        }
        set
    }

    /// Gives up a change, because the server stops or a client asks for it.
    pub(super) fn stop_changing(&mut self, why: &str) {
        self.end_change(Err(why.to_owned()));
    }

    pub(super) fn stop_evacuating(&mut self) -> Result<(), String> {
        match &self.changing.now {
            Some(Change { what: What::Leave(_), .. }) => self.stop_changing("it was stopped"),
            _ => return Err("no device is being evacuated".to_owned()),
        }
        Ok(())
    }

    /// How far an evacuation is, for the status; `null` if there is none.
    pub(super) fn evacuation_status(&self) -> Value {
        let Some(Change { device, what: What::Leave(leaving), began, held, .. }) = &self.changing.now else {
            return Value::Null;
        };
        let dirty = self.volume.engine().dirty_bytes();
        let took = self.now.saturating_sub(*began).as_s_f64();
        let home = leaving.first.0.saturating_sub(dirty.0);
        let rate = if took > 0.0 { home as f64 / took } else { 0.0 };
        json!({
            "device": self.about.names[*device],
            "state": if held.is_some() { "leaving" } else { "emptying" },
            "bytes": leaving.first,
            "dirty_bytes": dirty,
            "bytes_per_s": rate as u64,
            "most_bytes_per_s": leaving.bytes_per_s,
            "took_s": took,
            "left_s": (rate >= 1.0).then(|| dirty.0 as f64 / rate),
        })
    }

    /// How the last evacuation ended, for the status.
    pub(super) fn last_evacuation(&self) -> Value {
        self.changing.last_evacuation.clone()
    }
}

pub(super) fn no_design() -> String {
    "the server knows of no design file: set the path by hand".to_owned()
}

/// What came of setting a path in the design, for a report: where that is, or why not.
pub(super) fn design_told(set: Option<Result<PathBuf, String>>) -> (Value, Value) {
    match set {
        None => (Value::Null, Value::Null),
        Some(Ok(design)) => (json!(design), Value::Null),
        Some(Err(error)) => (Value::Null, json!(error)),
    }
}

/// The devices that were evacuated, of those that are open: the volume is opened without them.
pub(crate) fn let_evacuated_go(
    config: &peryton_engine::Config,
    devices: &mut [Option<Device>],
    without: &mut Vec<DeviceId>,
) -> io::Result<()> {
    let evacuated = Engine::evacuated(config, &mut Files::new(devices)?);
    for (index, device) in devices.iter_mut().enumerate().filter(|(index, _)| evacuated >> index & 1 == 1) {
        let id = DeviceId(index as u8);
        if !without.contains(&id) {
            without.push(id);
        }
        if let Some(device) = device.take() {
            device.unlock();
        }
    }
    Ok(())
}
