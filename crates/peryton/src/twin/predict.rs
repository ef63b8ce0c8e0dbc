//! Replays a recording on models of its devices, with the drive's own engine and settings.

use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use peryton_engine::{Command, IoId};
use peryton_recording::{Distribution, Flags, Row};
use peryton_sim::{
    AsRecorded, Design, DesignText, Formatted, InService, Moment, Options, Replay, Report, SimError, run_as_recorded,
};
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use serde_json::Value;

use peryton_sim::DesignError;

use super::Recording;
use crate::failure::Failure;

/// What stands for the devices: profiles by the names of devices, and other settings.
#[derive(Clone, Debug, Default)]
pub struct Models {
    pub profiles: Vec<(String, String)>,
    pub set: Vec<String>,
    /// Begin with an empty drive, whatever the recording has.
    pub empty: bool,
}

/// The design of a recording, with models of its devices.
#[derive(Debug)]
pub struct Setup {
    text: DesignText,
    known: InService,
    overrides: Vec<String>,
    pub design: Design,
    pub is_empty: bool,
}

impl Setup {
    pub fn of(recording: &Recording, models: &Models) -> Result<Setup, Failure> {
        let head = &recording.head;
        if let Some(device) = head.devices.iter().find(|device| device.size.is_none()) {
            let path = recording.path.display();
            return Err(Failure::bad_input(format!(
                "{path}: the volume was served without its device '{}': only whole volumes have a twin",
                device.name
            )));
        }
        let mut overrides: Vec<String> = head.set.iter().chain(&head.settings).cloned().collect();
        let initial = recording.changes.iter().take_while(|change| change.at == Nanos::ZERO).last();
        overrides.extend(initial.iter().flat_map(|change| change.settings.iter().cloned()));
        for (device, profile) in &models.profiles {
            if !head.devices.iter().any(|known| known.name == *device) {
                let names: Vec<&str> = head.devices.iter().map(|device| device.name.as_str()).collect();
                let names = names.join(", ");
                return Err(Failure::bad_input(format!("--profile {device}={profile}: the devices are {names}")));
            }
            // What the design changes of its own profile's model says nothing of this one.
            overrides.push(format!("devices.{device}.model={{}}"));
            overrides.push(format!("devices.{device}.profile={}", absolute(profile).display()));
        }
        overrides.extend(models.set.iter().cloned());
        let text = DesignText::new(head.design.clone(), head.name.clone());
        let formatted = head.formatted.clone().filter(|_| !gives_a_size(&models.set));
        let formatted = formatted.map(|(data, spare)| Formatted { data, spare });
        let known = InService { sizes: head.sizes.clone(), formatted, ..InService::default() };
        let design = text.in_service(&overrides, &known)?;
        if let Some(device) = design.devices.iter().find(|device| !device.has_profile) {
            let name = &device.name;
            return Err(Failure::bad_input(format!(
                "device '{name}' has no profile, so there is nothing to predict with: give --profile {name}=FILE \
                 (peryton calibrate makes one) or the name of a shipped one (peryton profiles)"
            )));
        }
        Ok(Setup { text, known, overrides, design, is_empty: models.empty })
    }

    /// The design with more settings.
    pub fn with(&self, more: &[String]) -> Result<Design, Failure> {
        let design = self.design_with(more)?;
        if let Some(index) = design.ignored_overrides.first() {
            let ignored = self.overrides.iter().chain(more).nth(*index).map_or("", String::as_str);
            return Err(Failure::bad_input(format!("{ignored}: does not apply to this design")));
        }
        Ok(design)
    }

    /// The same, for simulations that are passed on.
    pub fn design_with(&self, more: &[String]) -> Result<Design, DesignError> {
        let all: Vec<String> = self.overrides.iter().chain(more).cloned().collect();
        let formatted = self.known.formatted.clone().filter(|_| !gives_a_size(more));
        self.text.in_service(&all, &InService { formatted, ..self.known.clone() })
    }

    /// What the replay knows of the recording besides its requests.
    pub fn as_recorded(&self, recording: &Recording, with_changes: bool) -> Result<AsRecorded, Failure> {
        let mut changes = Vec::new();
        for change in recording.changes.iter().filter(|change| with_changes && change.at > Nanos::ZERO) {
            changes.push((change.at, self.with(&change.settings)?.tuning));
        }
        let state = if self.is_empty { None } else { recording.opened_state() };
        // A write that was to be durable is followed by a flush, whose answer is the one that was recorded.
        let took = recording.rows.iter().flat_map(|row| {
            let is_durable = row.flags.has(Flags::DURABLE);
            is_durable.then_some(Nanos::ZERO).into_iter().chain([row.latency])
        });
        Ok(AsRecorded { state, until: recording.figures.at, changes, took: took.collect() })
    }
}

/// Whether settings ask for a drive of other sizes than the one that was recorded.
fn gives_a_size(settings: &[String]) -> bool {
    let keys = settings.iter().filter_map(|setting| setting.split('=').next());
    keys.map(str::trim).any(|key| key == "volume.size" || key.starts_with("devices.") && key.ends_with(".size"))
}

/// A file's path from anywhere; a name stays as it is.
fn absolute(profile: &str) -> PathBuf {
    let path = Path::new(profile);
    if path.is_file() { std::path::absolute(path).unwrap_or_else(|_| path.to_owned()) } else { path.to_owned() }
}

/// What the models say.
#[derive(Debug)]
pub struct Prediction {
    pub report: Report,
    /// The statistics of the engine, as the drive has them.
    pub stats: Value,
    /// The response time of each row of the recording; `None`: it was not answered, or was replayed as two requests.
    pub latencies: Vec<Option<Nanos>>,
    /// How long the commands of each device took: reads, writes, flushes.
    pub devices: Vec<[Distribution; 3]>,
}

/// What is seen of a run.
#[derive(Debug, Default)]
struct Seen {
    /// The rows in the order in which they are submitted; `None` for a flush that a request entailed.
    order: Vec<Option<usize>>,
    submitted: usize,
    /// The arrival and the row of each request in flight.
    in_flight: HashMap<u64, (Nanos, Option<usize>)>,
    /// The time, device and kind of each command in flight.
    commands: HashMap<IoId, (Nanos, usize, usize)>,
    latencies: Vec<Option<Nanos>>,
    devices: Vec<[Distribution; 3]>,
    /// Commands that complete before that are of the warm-up.
    since: Nanos,
}

impl Seen {
    fn see(&mut self, now: Nanos, moment: Moment, arrivals: Option<&[Nanos]>) {
        match moment {
            Moment::Submitted(id, _) => {
                let row = self.order.get(self.submitted).copied().flatten();
                let arrival = arrivals.and_then(|arrivals| arrivals.get(self.submitted)).copied().unwrap_or(now);
                self.submitted += 1;
                self.in_flight.insert(id.0, (arrival, row));
            }
            Moment::Completed(io) => {
                if let Some((since, device, kind)) = self.commands.remove(&io)
                    && let Some(devices) = self.devices.get_mut(device)
                    && now >= self.since
                {
                    devices[kind].record(now.saturating_sub(since));
                }
            }
            Moment::Commanded(command) => self.commanded(now, &command),
            _ => {}
        }
    }

    fn commanded(&mut self, now: Nanos, command: &Command) {
        let (io, device, kind) = match *command {
            Command::Reply { id, .. } => {
                if let Some((arrival, Some(row))) = self.in_flight.remove(&id.0) {
                    self.latencies[row] = Some(now.saturating_sub(arrival));
                }
                return;
            }
            Command::Read { io, device, .. } => (io, device, 0),
            Command::Write { io, device, .. } | Command::Zero { io, device, .. } => (io, device, 1),
            Command::Flush { io, device } => (io, device, 2),
            _ => return,
        };
        self.commands.insert(io, (now, device.index(), kind));
    }
}

/// The requests of a recording at the times when they arrived.
#[derive(Clone, Debug)]
pub struct Requests {
    all: Arc<Vec<Request>>,
    at: usize,
}

impl Requests {
    /// Those of these rows. A request that was to be durable before its answer is followed by a flush.
    pub fn of(rows: &[Row]) -> Requests {
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            all.push(Request { at: row.at, offset: row.offset, len: row.len, volume: 0, op: row.op });
            if row.flags.has(Flags::DURABLE) {
                all.push(Request { offset: Bytes::ZERO, len: Bytes::ZERO, op: Op::Flush, ..all[all.len() - 1] });
            }
        }
        Requests { all: Arc::new(all), at: 0 }
    }

    fn arrivals(&self) -> Vec<Nanos> {
        self.all.iter().map(|request| request.at).collect()
    }
}

impl Source for Requests {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.at + BATCH).min(self.all.len());
        batch.extend_from_slice(&self.all[self.at..end]);
        self.at = end;
        Ok(())
    }
}

impl Prediction {
    /// Replays the recording.
    pub fn of(recording: &Recording, setup: &Setup, replay: Replay) -> Result<Prediction, Failure> {
        let recorded = setup.as_recorded(recording, true)?;
        Prediction::on(&setup.design, recording, recorded, replay)
    }

    /// Replays the recording on a design.
    pub fn on(
        design: &Design,
        recording: &Recording,
        recorded: AsRecorded,
        replay: Replay,
    ) -> Result<Prediction, Failure> {
        let requests = Requests::of(&recording.rows);
        let mut order = Vec::with_capacity(requests.all.len());
        for (index, row) in recording.rows.iter().enumerate() {
            let is_durable = row.flags.has(Flags::DURABLE);
            order.push((!is_durable).then_some(index));
            order.extend(is_durable.then_some(None));
        }
        let seen = Rc::new(RefCell::new(Seen {
            order,
            latencies: vec![None; recording.rows.len()],
            devices: vec![Default::default(); design.devices.len()],
            since: recording.since,
            ..Seen::default()
        }));
        // In a closed loop a request arrives when it is submitted.
        let arrivals = matches!(replay, Replay::Timed { .. }).then(|| requests.arrivals());
        let sink = Rc::clone(&seen);
        let observer = Box::new(move |now, _, moment| sink.borrow_mut().see(now, moment, arrivals.as_deref()));
        let (recorded, warm_up_requests) = (Some(Arc::new(recorded)), recording.warm_up);
        let options = Options { replay, recorded, warm_up_requests, ..Options::default() };
        let run = run_as_recorded(design, &recording.head.name, Box::new(requests), &options, observer);
        let (report, stats) = run.map_err(|error| match error {
            SimError::PastTheEnd { request, volume, .. } => Failure::bad_input(format!(
                "{}: request {request} lies past the end of the {volume} that the volume had at first: it was resized meanwhile, which a \
                 twin does not repeat; record again",
                recording.path.display()
            )),
            error => error.into(),
        })?;
        let stats = serde_json::to_value(stats).map_err(Failure::failed)?;
        let Seen { latencies, devices, .. } = seen.take();
        Ok(Prediction { report, stats, latencies, devices })
    }
}
