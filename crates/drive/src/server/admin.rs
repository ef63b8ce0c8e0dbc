//! Requests of the volume's owner: its state, other settings, drills.

use std::sync::mpsc;

use peryton_engine::{DeviceId, LogPart, Losses, Tuning};
use serde_json::{Value, json};

use super::{Handle, Server, cleaning, handle::ENDED, say::Kind, warmth};
use crate::{
    disks::fault::{Effect, Fault, LONGEST_LAG_US},
    division,
    endurance::DeviceEndurance,
    events::What,
    figures::DeviceState,
    line_log::LineLog,
    offline,
    open::{Device, DevicePath},
    recorder::Recorder,
    shared_memory::{NoMemory, SharedMemory},
};

/// The most bytes of settings that the superblocks store.
const MOST_NOTES: usize = 3584;

fn key(setting: &str) -> &str {
    setting.split_once('=').map_or(setting, |(key, _)| key).trim()
}

/// The settings in force after a change.
fn changed(before: &[String], settings: Vec<String>, unset: &[String]) -> Result<Vec<String>, String> {
    let mut all = before.to_vec();
    for gone in unset {
        let count = all.len();
        all.retain(|setting| key(setting) != gone.trim());
        if all.len() == count {
            return Err(format!("{gone}: was not set, so it cannot be unset"));
        }
    }
    for setting in settings {
        if !setting.contains('=') {
            return Err(format!("{setting}: give KEY=VALUE, such as placement.max_moves=4"));
        }
        all.retain(|other| key(other) != key(&setting));
        all.push(setting);
    }
    let notes = serde_json::to_string(&all).map_err(|error| error.to_string())?;
    if notes.len() > MOST_NOTES {
        return Err(format!("the settings together are longer than the {MOST_NOTES} bytes that are kept"));
    }
    Ok(all)
}

/// The fate of acknowledged, unflushed writes if the server is killed, for the status.
fn process_death(memory: &Result<SharedMemory, NoMemory>) -> Value {
    match memory {
        Ok(memory) => {
            let (path, bytes) = memory.place();
            json!({ "kept_in": path, "bytes": bytes })
        }
        Err(why) => json!({ "not_kept": why.to_string(), "unprotected": matches!(why, NoMemory::System { .. }) }),
    }
}

impl Server {
    /// Whether devices may be made to fail on demand.
    pub(crate) fn allow_drills(&mut self, drills: bool) {
        self.about.drills = drills;
    }

    /// Applies the stored settings. Those that the design no longer allows are reported.
    pub(crate) fn restore_settings(&mut self, kept: Vec<String>) {
        let Some(tuner) = self.about.tuner.clone().filter(|_| !kept.is_empty()) else { return };
        let set = |server: &mut Server, settings: Vec<String>| {
            let all = changed(&server.about.settings, settings, &[])?;
            let tuning = tuner.tune(&all)?;
            server.put_in_force(all, tuning)
        };
        if set(self, kept.clone()).is_ok() {
            return;
        }
        for setting in kept {
            if let Err(why) = set(self, vec![setting.clone()]) {
                tracing::warn!("a setting that was kept with the volume is not in force: {why}");
                self.about.events.report(What::NotSet { setting, why });
            }
        }
    }

    fn put_in_force(&mut self, all: Vec<String>, tuning: Tuning) -> Result<(), String> {
        let tuning = self.without_rests(tuning);
        let tuning = self.while_leaving(tuning);
        self.volume.retune(self.now, tuning).map_err(|error| error.to_string())?;
        self.register();
        self.apply_patience();
        self.about.settings.clone_from(&all);
        if let Some(recorder) = &mut self.recorder {
            recorder.settings(self.now, &all);
        }
        self.about.events.report(What::Set { settings: all });
        Ok(())
    }

    /// The status now. While the volume is closed for a change, it is the status from before, with the progress of the change.
    fn status_or_last(&self) -> Value {
        let Some(away) = self.changing.away() else { return self.status() };
        let mut status = away.status.clone();
        status["change"]["state"] = "closed".into();
        status["change"]["requests_wait_s"] = away.since.elapsed().as_secs_f64().into();
        status["change"]["error"] = away.shared.error().into();
        status
    }

    pub(super) fn status(&self) -> Value {
        let engine = self.volume.engine();
        let stats = engine.stats();
        let device = |(index, device): (usize, &Option<Device>)| -> (String, Value) {
            let health = &self.volume.backend.health()[index];
            match device {
                None => (
                    self.about.names[index].clone(),
                    json!({ "state": self.device_state(index).name(), "errors": 0, "retries": 0 }),
                ),
                Some(device) => {
                    let state = self.device_state(index);
                    let outage = self.volume.backend.outage(index).filter(|_| state == DeviceState::Outage);
                    let outage = outage.map(|outage| {
                        json!({
                            "since_s": self.now.saturating_sub(outage.since).as_s_f64(),
                            "patience_left_s": outage.patience_left.as_s_f64(),
                            "commands_waiting": outage.waiting,
                            "full": outage.full,
                            "only_reads": outage.only_reads,
                            "way_out": outage.only_reads.then(|| {
                                let at = DevicePath { name: device.name.clone(), path: device.path.clone() };
                                offline::refuses_writes(&at, DeviceId(index as u8), &engine.placement(), outage.full)
                            }),
                            "error": outage.error,
                        })
                    });
                    let about = json!({
                        "state": state.name(),
                        "path": device.path,
                        "size": device.size,
                        "used": device.used(engine.device_bytes()[index]),
                        "direct": device.is_direct,
                        "errors": health.errors,
                        "retries": health.retries,
                        "failed_flushes": health.failed_flushes,
                        "last_error": health.last_error,
                        "outage": outage,
                        "rest": self.rest_status(index),
                        "endurance": self.endurance_status(index),
                        "health": self.health_status(index),
                    });
                    (device.name.clone(), about)
                }
            }
        };
        let devices: serde_json::Map<String, Value> = self.about.devices.iter().enumerate().map(device).collect();
        let opened = &self.about.opened;
        let has_map = engine.placement().hybrid().is_some();
        let losses = engine.losses(MOST_RANGES);
        json!({
            "name": self.about.name,
            "state": self.volume_state().name(),
            "read_only": self.about.read_only.as_ref().map(|read_only| json!({
                "device": read_only.device.as_ref().map(|(name, _)| name),
                "why": read_only.why,
            })),
            "in_doubt": engine.is_in_doubt(),
            "stopped": engine.has_stopped(),
            "lost": ranges(&losses),
            "displaced": division::told(&self.about.devices, &self.about.names),
            "parts": self.parts_status(),
            "log_age_s": engine.log_age(self.now).map(|age| age.0 as f64 / 1e9),
            "size": engine.volume_size(),
            "volume": format!("{:032x}", opened.volume.0),
            "generation": opened.generation,
            "uptime_s": self.now.0 as f64 / 1e9,
            "opened": {
                "clean": opened.clean,
                "commits": opened.commits,
                "mapped": opened.mapped,
                "dirty": opened.dirty,
                "lost": opened.lost,
                "repaired": opened.repaired,
                "records_taken_over": opened.taken_over,
                "lacks_records": self.about.lacks_records,
            },
            "process_death": process_death(self.volume.memory()),
            "stopping": self.stop.is_asked(),
            "ublk": self.block_device_status(),
            "kernel": self.front.kernel.name(),
            "kernel_calls": self.front.kernel.calls(),
            "clients": self.front.connected(),
            "clients_served": self.front.clients_served,
            "requests_in_flight": self.requests_in_flight(),
            "device_commands_in_flight": self.volume.backend.in_flight(),
            "pool": {
                "bytes": self.front.pool.arena().len(),
                "free_bytes": self.front.pool.free_bytes(),
                "clients_waiting": self.front.buffer_waiters.len(),
            },
            "log": {
                "lines_dropped": self.log.as_ref().map(LineLog::dropped),
                "lines_held_back": self.lines_held_back(),
            },
            "settings": self.about.settings,
            "recording": self.recorder.as_ref().map(Recorder::status),
            "climb": engine.climbing(),
            "adaptive_admission": engine.adaptive_admission(),
            "devices": devices,
            "faults": self.volume.backend.faults().rules(),
            "dirty_extents": has_map.then(|| engine.dirty_extents()),
            "cleaning": cleaning::status(self.cleaning_report()),
            "warm": warmth::status(engine, self.now),
            "lost_extents": has_map.then(|| engine.lost_extents()),
            "fast_hit_ratio": stats.fast_hit_ratio(),
            "traffic": self.latencies.traffic(),
            "ledger": stats,
            "change": self.change_status(),
            "last_change": self.changing.last,
        })
    }
}

impl Server {
    fn endurance_status(&self, index: usize) -> Value {
        let (bears, account) = self.wear_of(index);
        account.map_or(Value::Null, |account| json!(DeviceEndurance::of(bears, &account)))
    }
}

impl Server {
    /// What each of several primaries has; null where a volume has one part.
    fn parts_status(&self) -> Value {
        let parts = self.volume.engine().log_parts();
        if parts.len() < 2 {
            return Value::Null;
        }
        let of = |part: &LogPart| {
            let name = &self.about.names[part.device.index()];
            json!({
                "device": name,
                "export": format!("{}/{name}", self.about.name),
                "offset": part.range.start,
                "size": part.range.end - part.range.start,
                "gone": part.gone,
                "lost_bytes": part.lost,
            })
        };
        parts.iter().map(of).collect()
    }
}

/// The most ranges of lost data that the status lists; the sum includes all of them.
const MOST_RANGES: usize = 256;
/// The most ranges of lost data that an event lists.
pub(super) const MOST_TOLD: usize = 16;

pub(super) fn ranges(losses: &Losses) -> Value {
    let range = |range: &std::ops::Range<peryton_units::Bytes>| json!({ "offset": range.start, "length": range.end - range.start });
    let ranges: Vec<Value> = losses.ranges.iter().map(range).collect();
    let mut told = json!({ "bytes": losses.bytes, "ranges": ranges, "more": losses.more });
    if losses.unknown {
        told["unknown"] = json!(true);
    }
    told
}

impl Handle {
    /// The full state of the volume; `None` if it is closed.
    pub fn status(&self) -> Option<Value> {
        self.ask_always(|server| server.status_or_last())
    }

    /// Changes settings under the keys of the design file (`placement.max_moves=4`), stores them for the next start,
    /// and returns all settings in force in addition to the design. Keys in `unset` return to the value in the design.
    ///
    /// # Errors
    /// One line. Nothing has changed, except if a device could not store the settings.
    pub fn set(&self, settings: Vec<String>, unset: Vec<String>) -> Result<Vec<String>, String> {
        self.may_change()?;
        let ended = || ENDED.to_owned();
        loop {
            // The design is parsed here, so that the volume's thread does not wait for it.
            let known = |server: &mut Server| (server.about.tuner.clone(), server.about.settings.clone());
            let (tuner, before) = self.ask(known).ok_or_else(ended)?;
            let tuner = tuner.ok_or("this volume has no settings that can be changed")?;
            let all = changed(&before, settings.clone(), &unset)?;
            let tuning = tuner.tune(&all)?;
            let (answer, answered) = mpsc::sync_channel(1);
            let set = move |server: &mut Server| {
                if server.about.settings != before {
                    // Another client has changed a setting meanwhile.
                    return Ok(false);
                }
                server.put_in_force(all.clone(), tuning)?;
                tracing::info!(settings = ?all, "settings changed");
                server.keep(all, answer);
                Ok::<bool, String>(true)
            };
            if self.ask(set).ok_or_else(ended)?? {
                return answered.recv().map_err(|_| ENDED.to_owned())?;
            }
        }
    }

    /// The events so far that are still remembered.
    pub fn events(&self) -> Vec<Value> {
        let remembered =
            |server: &mut Server| server.about.events.since(0, std::time::Duration::ZERO).unwrap_or_default();
        let events = self.ask_always(remembered).unwrap_or_default();
        events.iter().filter_map(|event| serde_json::to_value(event).ok()).collect()
    }

    /// Lets a device fail or lag from now on; returns the number of faults in force.
    ///
    /// # Errors
    /// One line: there is no such device, or there are too many faults.
    pub fn fault(&self, fault: Fault) -> Result<usize, String> {
        let add = move |server: &mut Server| {
            let devices = server.about.devices.len();
            if usize::from(fault.device) >= devices {
                return Err(format!("there is no device {}: give 0 to {}", fault.device, devices - 1));
            }
            if matches!(fault.effect, Effect::Lag { lag_us } if lag_us > LONGEST_LAG_US) {
                return Err(format!(
                    "a command can be held back for {LONGEST_LAG_US} us at most: give a smaller lag_us"
                ));
            }
            if !server.about.drills {
                return Err("this server carries out no drills: start it with --drills".to_owned());
            }
            if server.stop.is_asked() {
                return Err("the volume is being closed: drills have ended".to_owned());
            }
            let faults = server.volume.backend.faults_mut();
            if !faults.add(fault) {
                return Err("too many faults are in force: end them first (heal)".to_owned());
            }
            let faults = faults.rules().len();
            server.about.events.report(What::Faults { faults });
            Ok(faults)
        };
        self.try_ask(add)
    }

    /// Ends all faults.
    ///
    /// # Errors
    /// The volume is closed.
    pub fn heal(&self) -> Result<(), String> {
        let heal = |server: &mut Server| {
            server.volume.backend.heal();
            server.about.events.report(What::Faults { faults: 0 });
        };
        self.ask(heal).ok_or_else(|| ENDED.to_owned())
    }
}

impl Server {
    /// Reports device failures as events. Of an outage, which is an event itself, only the first command that fails is one.
    pub(super) fn complain(&mut self) {
        for failure in std::mem::take(&mut self.volume.backend.failures) {
            let bit = 1 << failure.operation.device.index();
            let is_more_of_outage = self.outages.reported & self.outages.failing & bit != 0;
            self.outages.failing |= bit;
            if is_more_of_outage || !self.limits.allow(Kind::Devices, self.now) {
                continue;
            }
            let device = self.name_of(failure.operation.device);
            let crate::backend::Operation { action, at, len, .. } = failure.operation;
            let (action, error) = (format!("{action:?}").to_lowercase(), failure.error);
            tracing::warn!(device, action, at, len, error, "device error");
            self.about.events.report(What::DeviceError { device, action, at, len, error });
        }
        let vanished = std::mem::take(&mut self.volume.backend.vanished);
        for device in (0..self.about.names.len() as u8).filter(|device| vanished >> device & 1 == 1) {
            self.volume.device_failed(self.now, DeviceId(device));
        }
    }

    /// Reports a fenced device, once that is durable, with the lost data.
    #[cold]
    pub(super) fn report_deaths(&mut self) {
        let engine = self.volume.engine();
        let new = (0..self.about.names.len() as u8)
            .map(DeviceId)
            .filter(|device| engine.is_given_up(*device) && self.reported_gone >> device.index() & 1 == 0);
        let new: Vec<DeviceId> = new.collect();
        if new.is_empty() {
            return;
        }
        let losses = engine.losses(MOST_TOLD);
        // Nothing is written back from now on, so write-back on demand has ended.
        self.volume.pause_writing_back();
        for device in new {
            self.reported_gone |= 1 << device.index();
            if self.volume.engine().was_evacuated(device) {
                continue;
            }
            let (device, lost) = (self.about.names[device.index()].clone(), ranges(&losses));
            tracing::error!(
                device,
                lost_bytes = losses.bytes.0,
                "the device is given up; the data that only it had cannot be read from now on"
            );
            self.about.events.report(What::DeviceGone { device, lost });
        }
    }
}
