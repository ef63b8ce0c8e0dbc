//! Changes for which a served volume is closed for a moment: a device comes back, an empty one takes the place of one that is gone, a device
//! leaves or gets another size, and a volume that has stopped is opened again. Requests wait meanwhile. Clients, the status, control and
//! signs of life go on, because another thread has the engine (`closed.rs`).

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Instant,
};

use peryton_engine::{DeviceId, Opened, ResizeStage, Tuning};
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::{
    Server,
    changing_state::{
        Aim, Away, Change, EVERY, HOLD_AT_MOST, LITTLE, Leaving, MOST_TRIES, Outcome, PAUSE, Shared, Stage, Stoppable,
        progress,
    },
    closed::{self, Back, Job, Work},
};
use crate::{design_file::DesignFile, events, figures::Snapshot, nbd::Export, open::Device, storage::Files};

impl Server {
    /// Notes where the devices are according to the design.
    pub(crate) fn let_devices_change(&mut self, paths: Vec<PathBuf>, design: Option<DesignFile>) {
        // Relative paths begin at the directory in which the server runs.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        (self.changing.paths, self.changing.design) = (paths.into_iter().map(absolute).collect(), design);
    }

    /// Why no change can begin now.
    pub(super) fn cannot_change(&self) -> Option<String> {
        if self.stop.is_asked() {
            return Some("the volume is being closed".to_owned());
        }
        let (device, what) = match (&self.changing.now, &self.replacing.now) {
            (Some(change), _) => match change.aim {
                Aim::Leave(_) => {
                    (change.device, "being evacuated: wait until that is done, or stop it (peryton remove --stop)")
                }
                Aim::Resize { .. } => {
                    (change.device, "being resized: wait until that is done, or stop it (peryton resize --stop)")
                }
                Aim::Return(_) | Aim::Fill(_) => (change.device, "just being taken in"),
                Aim::Reopen => return Some("the volume is being opened again after a failed flush".to_owned()),
            },
            (None, Some(replaced)) => {
                (replaced.device, "being replaced: wait until that is done, or stop it (peryton replace --stop)")
            }
            (None, None) => return None,
        };
        Some(format!("'{}' is {what}", self.about.names[device]))
    }

    pub(super) fn begin_to_take_in(&mut self, device: usize, aim: Aim, update_design: bool) -> Result<(), String> {
        if let Some(why) = self.cannot_change() {
            return Err(why);
        }
        if !self.volume.engine().is_given_up(DeviceId(device as u8)) {
            return Err(format!("'{}' is just being given up: try again in a moment", self.about.names[device]));
        }
        self.begin_change(Change { update_design, ..Change::new(device, aim, self.now) });
        Ok(())
    }

    pub(super) fn begin_change(&mut self, change: Change) {
        (self.changing.outcome, self.changing.pause_s) = (None, None);
        self.changing.now = Some(change);
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
        let aim = Aim::Leave(Box::new(Leaving { bytes_per_s, before, first }));
        self.begin_change(Change::new(device, aim, self.now));
        tracing::info!(device = name, dirty_bytes = first.0, "the device is being evacuated");
        self.about.events.report(events::What::Evacuating { device: name.to_owned() });
        Ok(self.change_status())
    }

    pub(super) fn index_of(&self, name: &str) -> Result<usize, String> {
        let known = || format!("there is no device '{name}': the volume has '{}'", self.about.names.join("' and '"));
        self.about.names.iter().position(|other| other == name).ok_or_else(known)
    }

    /// Settings that are given while a device is emptied take effect when it has left, or stays.
    pub(super) fn while_leaving(&mut self, tuning: Tuning) -> Tuning {
        let Some(Change { aim: Aim::Leave(leaving), .. }) = &mut self.changing.now else { return tuning };
        leaving.before = tuning.clone();
        let now = self.volume.engine().leaving_tuning(leaving.bytes_per_s.is_some());
        // Only settings that do not affect the emptying.
        Tuning { patience: tuning.patience, spin_down_after: tuning.spin_down_after, ..now }
    }

    /// Continues with what can be done now.
    #[inline]
    pub(super) fn go_on_changing(&mut self) {
        if self.changing.now.is_some() {
            self.look_at_change();
        } else if self.volume.engine().waits_to_be_reopened() {
            self.reopen_if_due();
        }
    }

    /// Opens the volume again if it has stopped and nothing is in flight.
    #[cold]
    fn reopen_if_due(&mut self) {
        let rests = self.volume.backend.in_flight() == 0 && self.notes.is_idle() && !self.stop.is_asked();
        if rests && self.now >= self.changing.reopen_due {
            self.volume.hold();
            self.begin_change(Change { stage: Stage::Resting, ..Change::new(0, Aim::Reopen, self.now) });
        }
    }

    #[cold]
    fn look_at_change(&mut self) {
        let Some(change) = &self.changing.now else { return };
        if let Err(why) = self.is_still_possible(change) {
            return self.end_change(Err(why));
        }
        let left = self.empty();
        let rests = left == Bytes::ZERO && self.rests();
        let Some(change) = &mut self.changing.now else { return };
        match &change.stage {
            Stage::Emptying { due } if self.now >= *due => {
                change.stage = Stage::Emptying { due: self.now.saturating_add(EVERY) };
                if left <= LITTLE {
                    self.prove();
                }
            }
            Stage::Emptying { .. } | Stage::Resting | Stage::Away(_) => {}
            Stage::Proving(proof) => match proof.try_recv() {
                Ok(Ok(_)) => self.hold(),
                Ok(Err(_)) | Err(mpsc::TryRecvError::Disconnected) => self.end_change(Err(REFUSES_WRITES.to_owned())),
                // The write waits for a device that may come back; the change does not.
                Err(mpsc::TryRecvError::Empty) => {
                    if let Err(why) = self.may_rest() {
                        self.end_change(Err(why));
                    }
                }
            },
            Stage::Holding { since } => {
                let is_late = self.now >= since.saturating_add(HOLD_AT_MOST);
                match rests {
                    true => change.stage = Stage::Resting,
                    false if is_late => self.did_not_rest(),
                    false => {}
                }
            }
        }
    }

    fn is_still_possible(&self, change: &Change) -> Result<(), String> {
        match &change.aim {
            Aim::Leave(_) => {
                let can = self.volume.engine().can_evacuate(DeviceId(change.device as u8));
                can.map_err(|error| self.about.named(&error.to_string()))
            }
            Aim::Resize { .. } if self.volume.engine().resizing().is_none() => {
                Err("a device of the volume was given up, or it was stopped".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Empties the device that is to leave, or its end that is given up. Returns how much is left.
    fn empty(&mut self) -> Bytes {
        let Some(change) = &self.changing.now else { return Bytes::ZERO };
        let (holds, is_due) = (change.holds(), matches!(change.stage, Stage::Emptying { due } if self.now >= due));
        match &change.aim {
            Aim::Return(_) | Aim::Fill(_) | Aim::Reopen => Bytes::ZERO,
            Aim::Resize { .. } => match self.volume.engine().resizing() {
                Some(resize) if resize.stage == ResizeStage::Emptying && !holds => Bytes(u64::MAX),
                Some(_) if holds && !self.volume.engine().can_resize_now() => Bytes(1),
                _ => Bytes::ZERO,
            },
            Aim::Leave(leaving) => {
                let dirty = self.volume.engine().dirty_bytes();
                let took = self.now.saturating_sub(change.began);
                // The bytes written back so far, without those that have become dirty meanwhile.
                let home = leaving.first.0.saturating_sub(dirty.0);
                let allowed = |rate: u64| u128::from(rate) * u128::from(took.0) / 1_000_000_000;
                let is_ahead = leaving.bytes_per_s.is_some_and(|rate| u128::from(home) > allowed(rate));
                if dirty == Bytes::ZERO || is_ahead && !holds {
                    self.volume.pause_writing_back();
                } else if is_due || holds {
                    self.volume.write_all_back(self.now);
                }
                dirty
            }
        }
    }

    /// Writes to every device: its superblock, unchanged.
    fn prove(&mut self) {
        let (sender, proof) = mpsc::sync_channel(1);
        let settings = self.about.settings.clone();
        if let Some(change) = &mut self.changing.now {
            change.stage = Stage::Proving(proof);
        }
        self.keep(settings, sender);
    }

    /// Requests wait from now on: perhaps nothing is under way.
    fn hold(&mut self) {
        if let Err(why) = self.may_rest() {
            return self.end_change(Err(why));
        }
        let Some(change) = &mut self.changing.now else { return };
        change.stage = Stage::Holding { since: self.now };
        match change.aim {
            Aim::Resize { .. } => self.volume.hold_at_rest(self.now),
            _ => self.volume.hold(),
        }
        self.look_at_change();
    }

    /// Whether nothing is under way, and no failure forbids closing the volume.
    fn rests(&self) -> bool {
        let engine = self.volume.engine();
        self.volume.is_idle() && !engine.is_in_doubt() && self.waits_for() == 0 && self.notes.is_idle()
    }

    /// The devices of the volume that fail and may come back, one bit each.
    fn waits_for(&self) -> u32 {
        self.volume.backend.in_outage() & !self.volume.engine().gone()
    }

    /// Refuses a change that would have to wait for a device, or for a client.
    fn may_rest(&self) -> Result<(), String> {
        if self.volume.engine().is_in_doubt() {
            return Err(
                "a flush has failed, and clients have not heard of it yet: try again after their next flush".to_owned()
            );
        }
        if self.waits_for() != 0 {
            return Err("a device does not answer: try again when peryton status shows no outage".to_owned());
        }
        Ok(())
    }

    fn did_not_rest(&mut self) {
        self.volume.release(self.now);
        if let Err(why) = self.may_rest() {
            return self.end_change(Err(why));
        }
        let Some(change) = &mut self.changing.now else { return };
        change.stage = Stage::Emptying { due: self.now.saturating_add(PAUSE) };
        change.tries += 1;
        if change.tries < MOST_TRIES {
            return;
        }
        let why = match self.volume.backend.in_flight() {
            0 => "the volume does not come to rest: try again when less is going on",
            _ => "commands to a device do not come to their end: try again when peryton status shows no outage",
        };
        self.end_change(Err(why.to_owned()));
    }

    /// Hands the engine to another thread, which closes the volume, changes its devices, and opens it again.
    /// `status` and `snapshot` are shown meanwhile.
    pub(super) fn go_away(&mut self, status: Value, snapshot: Snapshot) {
        let Some(mut change) = self.changing.now.take() else { return };
        let device = DeviceId(change.device as u8);
        let work = match &change.aim {
            Aim::Return(_) => Work::Return,
            Aim::Fill(_) => Work::Fill,
            Aim::Leave(_) => Work::Leave,
            Aim::Resize { .. } => Work::Resize,
            Aim::Reopen => Work::Reopen,
        };
        if work == Work::Leave
            && let Err(error) = self.volume.engine().is_evacuated(device)
        {
            let why = self.about.named(&error.to_string());
            self.changing.now = Some(change);
            return self.end_change(Err(why));
        }
        let mut devices = self.about.devices.clone();
        let mut design = None;
        if let Some(comes) = change.aim.comes() {
            devices[change.device] = Some(comes.clone());
            let file = || self.changing.design.clone().ok_or_else(no_design);
            let name = &self.about.names[change.device];
            design = change.update_design.then(|| (file(), name.clone(), comes.path.clone()));
        }
        let shared = Arc::new(Shared::default());
        let placement = self.volume.engine().placement();
        let (engine, memory) = self.volume.lend();
        let job = Job {
            engine,
            memory,
            work,
            device,
            placement,
            devices,
            design,
            handoff: self.changing.handoff.clone(),
            notifier: self.watchdog.notifier.clone(),
            now: self.now,
            shared: Arc::clone(&shared),
        };
        match closed::begin(job, self.handle.clone()) {
            Ok(()) => {
                change.stage =
                    Stage::Away(Away { since: Instant::now(), shared, status, snapshot: Box::new(snapshot) });
                self.changing.now = Some(change);
            }
            Err((error, job)) => {
                self.volume.take_back(job.engine, job.memory);
                self.changing.now = Some(change);
                self.end_change(Err(format!("there is no thread for it: {error}")));
            }
        }
    }

    /// The engine is back.
    pub(super) fn came_back(&mut self, back: Back) {
        let Back { engine, memory, devices, opened, refused, read_only, restored, design } = back;
        self.volume.take_back(engine, memory);
        let Some(mut change) = self.changing.now.take() else { return };
        let pause_s = match std::mem::replace(&mut change.stage, Stage::Holding { since: self.now }) {
            Stage::Away(away) => away.since.elapsed().as_secs_f64(),
            _ => 0.0,
        };
        self.changing.pause_s = Some(pause_s);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return self.is_not_open(change, &error),
        };
        self.volume.backend.trust();
        if let Some(read_only) = read_only {
            tracing::error!("the volume is only read from now on: {}", read_only.why);
            self.volume.only_read();
            let export = Export { read_only: true, ..(*self.front.export).clone() };
            self.front.export = Arc::new(export);
            self.about.read_only = Some(read_only);
        }
        let refused = refused.map(|why| self.about.named(&why));
        let outcome = match change.aim {
            Aim::Return(_) | Aim::Fill(_) | Aim::Leave(_) => {
                self.devices_changed(&change, devices, &opened);
                self.has_opened(opened);
                refused.map_or_else(|| Ok(self.taken_in(&change, restored, pause_s, design)), Err)
            }
            Aim::Resize { grows } => {
                self.has_opened(opened);
                self.size_has_changed(change.device, grows);
                refused.map_or(Ok(Value::Null), Err)
            }
            Aim::Reopen => {
                tracing::warn!(
                    generation = opened.generation,
                    commits = opened.commits,
                    pause_s,
                    "the volume had stopped after a failed flush; it was recovered and goes on"
                );
                self.changing.reopening_succeeded();
                self.has_opened(opened);
                Ok(Value::Null)
            }
        };
        self.changing.now = Some(change);
        self.end_change(outcome);
    }

    /// The volume could not be opened. If it had stopped, it is tried again. If it was closed for a change, the server ends.
    fn is_not_open(&mut self, change: Change, error: &str) {
        let error = self.about.named(error);
        match change.aim {
            Aim::Reopen => {
                let pause_s = self.changing.reopening_failed(self.now).as_s_f64();
                tracing::error!(error, pause_s, "the volume has stopped and cannot be opened again yet");
                self.volume.release(self.now);
            }
            _ => {
                self.failed = Some(io::Error::other(format!(
                    "the volume was closed for a change and cannot be opened again: {error}"
                )));
            }
        }
    }

    /// Puts the devices in force with which the volume was opened.
    fn devices_changed(&mut self, change: &Change, mut devices: Vec<Option<Device>>, opened: &Opened) {
        let index = change.device;
        let is_there = opened.gone >> index & 1 == 0;
        match (change.aim.comes(), is_there) {
            // The device at the path is not used, and may be taken away.
            (Some(device), false) => device.unlock(),
            (None, false) => self.about.devices[index].iter().for_each(Device::unlock),
            (_, true) => {}
        }
        let mut now = devices[index].take().filter(|_| is_there);
        if let (Some(now), Some(before)) = (&mut now, &self.about.devices[index])
            && now.identity() == before.identity()
        {
            now.ability.wear = Arc::clone(&before.ability.wear);
        }
        if let Err(error) = self.front.kernel.set_file(index, now.as_ref().map(|device| device.file.clone())) {
            // Commands to the device fail, so the engine gives it up.
            tracing::error!(%error, "the kernel does not take the file of a device");
        }
        self.volume.backend.set_device(DeviceId(index as u8), now.as_ref().map(|device| device.ability.clone()));
        self.about.devices[index] = now;
        self.about.device_changed(index);
        self.drives_changed(index);
    }

    /// Adapts the server after the volume was opened again.
    fn has_opened(&mut self, opened: Opened) {
        self.volume.tick(self.now);
        let engine = self.volume.engine();
        self.reported_gone = self.reported_gone & engine.gone() | engine.evacuated_devices();
        let Opened { clean, generation, .. } = opened;
        self.about.events.report(events::What::Opened { clean, generation, lacks_records: false });
        self.about.opened = opened;
    }

    /// The result of taking a device in, or of letting it go.
    fn taken_in(
        &mut self,
        change: &Change,
        restored: u64,
        pause_s: f64,
        design: Option<Result<PathBuf, String>>,
    ) -> Value {
        let name = self.about.names[change.device].clone();
        let (design, design_error) = self.design_told(&name, design);
        let engine = self.volume.engine();
        // A log migrates by itself, and nothing waits for that.
        let dirty = engine.cleaning(self.now).map_or(Bytes::ZERO, |report| report.dirty);
        let lost = engine.losses(0).bytes;
        let used = engine.device_bytes()[change.device];
        match &change.aim {
            Aim::Return(device) => {
                let path = device.path.display().to_string();
                let restored_extents = restored;
                tracing::warn!(
                    device = name,
                    path,
                    restored_extents,
                    pause_s,
                    "the device is part of the volume again"
                );
                let event = events::What::Readmitted { device: name.clone(), path: path.clone(), restored_extents };
                self.about.events.report(event);
                json!({
                    "device": name, "path": path, "restored_extents": restored, "used_bytes": used, "dirty_bytes": dirty,
                    "lost_bytes": lost, "pause_s": pause_s, "design": design, "design_error": design_error,
                })
            }
            Aim::Fill(device) => {
                let path = device.path.display().to_string();
                let old = self.changing.paths[change.device].display().to_string();
                tracing::warn!(
                    device = name,
                    path,
                    pause_s,
                    "an empty device has taken the place of the one that was gone"
                );
                self.about.events.report(events::What::Replaced { device: name.clone(), path: path.clone(), old });
                json!({
                    "device": name, "path": path, "state": "succeeded", "lost_bytes": lost, "pause_s": pause_s,
                    "design": design, "design_error": design_error,
                })
            }
            Aim::Leave(_) | Aim::Resize { .. } | Aim::Reopen => json!({ "device": name, "pause_s": pause_s }),
        }
    }

    /// Ends the change under way.
    fn end_change(&mut self, outcome: Outcome) {
        let Some(change) = self.changing.now.take() else { return };
        if change.holds() {
            self.volume.release(self.now);
        }
        let (name, kind) = (self.about.names[change.device].clone(), change.aim.kind());
        if let Err(why) = &outcome {
            tracing::warn!(device = name, why, "the change is not made");
        }
        let mut why = outcome.as_ref().err().cloned();
        let mut more = outcome.as_ref().ok().cloned().unwrap_or_default();
        match change.aim {
            Aim::Leave(leaving) => {
                self.volume.pause_writing_back();
                if let Err(error) = self.volume.retune(self.now, leaving.before) {
                    tracing::error!(%error, "the settings from before the evacuation are not in force again");
                }
                let device = name.clone();
                let event = match why.clone() {
                    None => {
                        tracing::warn!(device, "the device is evacuated, and can be taken out");
                        events::What::Evacuated { device }
                    }
                    Some(why) => events::What::NotEvacuated { device, why },
                };
                self.about.events.report(event);
            }
            Aim::Return(new) | Aim::Fill(new) => {
                let ours = self.about.devices[change.device].as_ref();
                if outcome.is_err() && ours.is_none_or(|ours| ours.identity() != new.identity()) {
                    new.unlock();
                }
            }
            Aim::Resize { .. } => (why, more) = self.end_resizing(change.device, why),
            Aim::Reopen => {}
        }
        self.changing.outcome = Some(outcome);
        // What had stopped was the volume, and no device.
        let device = (kind != Aim::Reopen.kind()).then_some(name.as_str());
        self.note_end(kind, device, why, more);
    }

    /// Sets the path of a device in the design, and returns the result.
    pub(super) fn set_in_design(&mut self, name: &str, path: &Path) -> (Value, Value) {
        let set = self.changing.design.as_ref().ok_or_else(no_design).and_then(|design| design.set(name, path));
        self.design_told(name, Some(set))
    }

    /// The result of setting a path in the design, for a report: the file, or the error.
    fn design_told(&self, name: &str, set: Option<Result<PathBuf, String>>) -> (Value, Value) {
        match set {
            None => (Value::Null, Value::Null),
            Some(Ok(design)) => {
                tracing::info!(device = name, design = %design.display(), "the design has the new path");
                (json!(design), Value::Null)
            }
            Some(Err(error)) => {
                tracing::warn!(device = name, error, "the design has the path from before: set the new one by hand");
                (Value::Null, json!(error))
            }
        }
    }

    /// Gives up a change, because the server stops or a client asks for it.
    pub(super) fn stop_changing(&mut self, why: &str) {
        if self.changing.is_resizing().is_some() {
            self.volume.stop_resizing(self.now);
        }
        self.end_change(Err(why.to_owned()));
    }

    /// Gives up the change of this kind, which a client asks for.
    pub(super) fn stop_change(&mut self, kind: Stoppable) -> Result<(), String> {
        match (kind, &self.changing.now) {
            (Stoppable::Remove, Some(Change { aim: Aim::Leave(_), .. }))
            | (Stoppable::Resize, Some(Change { aim: Aim::Resize { .. }, .. })) => {
                self.stop_changing("it was stopped");
            }
            (Stoppable::Replace, None) if self.replacing.now.is_some() => self.volume.stop_replacing(self.now),
            _ => return Err(format!("no {} is under way that can be given up", kind.name())),
        }
        Ok(())
    }

    /// Notes for the status how a change has ended, and what else is known of that.
    pub(super) fn note_end(&mut self, kind: &str, device: Option<&str>, why: Option<String>, more: Value) {
        let mut last = json!({
            "kind": kind, "device": device, "succeeded": why.is_none(), "why": why, "pause_s": self.changing.pause_s.take(),
        });
        if let (Some(last), Value::Object(more)) = (last.as_object_mut(), more) {
            last.extend(more);
        }
        self.changing.last = last;
    }

    /// The change under way, for the status; `null` without one.
    pub(super) fn change_status(&self) -> Value {
        let Some(change @ Change { device, aim, began, .. }) = &self.changing.now else {
            return self.replacement_status();
        };
        let name = self.about.names[*device].as_str();
        match aim {
            Aim::Leave(leaving) => {
                let dirty = self.volume.engine().dirty_bytes();
                let (took, home) = (self.now.saturating_sub(*began), Bytes(leaving.first.0.saturating_sub(dirty.0)));
                let rate = home.0 as f64 / took.as_s_f64().max(f64::MIN_POSITIVE);
                let left = (rate >= 1.0 && home > Bytes::ZERO).then(|| Nanos((dirty.0 as f64 / rate * 1e9) as u64));
                let mut status = progress(
                    ("remove", name, change.state()),
                    (leaving.first, home, home),
                    (leaving.bytes_per_s, took, left),
                );
                status["dirty_bytes"] = json!(dirty);
                status
            }
            Aim::Resize { .. } => self.resizing_status(change),
            Aim::Reopen => json!({ "kind": aim.kind(), "device": null, "state": change.state() }),
            Aim::Return(_) | Aim::Fill(_) => json!({ "kind": aim.kind(), "device": name, "state": change.state() }),
        }
    }
}

/// Why a change is refused that could not be made durable.
const REFUSES_WRITES: &str =
    "a device does not take writes, so the change could not be made durable: the volume goes on as it is";

pub(super) fn no_design() -> String {
    "the server knows of no design file: set the path by hand".to_owned()
}

/// The devices that were evacuated, of those that are open: the volume is opened without them.
pub(crate) fn let_evacuated_go(
    config: &peryton_engine::Config,
    devices: &mut [Option<Device>],
    without: &mut Vec<DeviceId>,
) -> io::Result<()> {
    let evacuated = peryton_engine::closed::evacuated(config, &mut Files::new(devices)?);
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
