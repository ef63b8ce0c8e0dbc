//! The figures on the page of a served volume: the last hour, in tables of bounded length.
//!
//! A separate thread gets a copy of the counts from the thread that owns the volume, once a second, whether a page is open or not.
//! It makes the tables from these copies. Pages read the tables only, so they cost the volume nothing, however many there are.

mod distribution;
mod heat_map;
mod report;
mod ring;

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use self::ring::{Ring, Taken, ms};
use crate::{
    events::{Event, Events},
    figures::{DeviceSnapshot, Sample, cleaning_name},
    health::DriveRow,
    metrics::{Described, Machine},
    server::Handle,
};

/// How often the volume's thread is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most events of an answer.
const MOST_EVENTS: usize = 200;

#[derive(Debug, Default)]
struct State {
    ring: Ring,
    stopping: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a time. `false`: there is nothing more to do.
    fn wait_until(&self, due: Instant) -> bool {
        let mut state = self.lock();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if state.stopping || left.is_zero() {
                return !state.stopping;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The last hour of a volume that is being served. Its thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    shared: Arc<Shared>,
    described: Arc<Described>,
    events: Events,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.changed.notify_all();
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Takes a sample each second. While one is awaited, no other is asked for.
fn follow(shared: &Shared, handle: &Handle, described: &Described) {
    let mut due = Instant::now();
    while shared.wait_until(due) {
        let mut awaited = handle.sample();
        let sample = loop {
            match awaited.recv_timeout(INTERVAL) {
                Ok(sample) => break sample,
                // The volume's thread is busy, or has not begun.
                Err(mpsc::RecvTimeoutError::Timeout) if shared.wait_until(Instant::now()) => {}
                Err(mpsc::RecvTimeoutError::Timeout) => return,
                // The volume is closed.
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    if !shared.wait_until(Instant::now() + INTERVAL) {
                        return;
                    }
                    awaited = handle.sample();
                }
            }
        };
        let now = Instant::now();
        shared.lock().ring.push(described, now, unix_ms(SystemTime::now()), sample);
        // Without catching up on seconds that were missed.
        due = (due + INTERVAL).max(now);
    }
}

impl Live {
    /// Begins to follow the volume.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn start(handle: Handle, described: Arc<Described>, events: Events) -> io::Result<Live> {
        let shared = Arc::new(Shared::default());
        let (own, about) = (Arc::clone(&shared), Arc::clone(&described));
        thread::Builder::new().name("live".to_owned()).spawn(move || follow(&own, &handle, &about))?;
        Ok(Live { shared, described, events })
    }

    /// What has happened since a row and an event; `None` before the first sample.
    pub(crate) fn report(&self, row: u64, event: u64) -> Option<Value> {
        let all = self.events.since(event, Duration::ZERO).unwrap_or_default();
        let last_event = all.last().map_or(event, |event| event.number);
        let events: Vec<Value> = all.iter().skip(all.len().saturating_sub(MOST_EVENTS)).map(shown).collect();
        let state = self.shared.lock();
        let ring = &state.ring;
        let taken = ring.last()?;
        Some(present(json!({
            "version": self.described.version,
            // Rows and events of another start have other numbers.
            "started_unix_ms": unix_ms(self.described.started),
            "volume": self.volume(taken),
            "devices": self.devices(&taken.sample),
            "cleaning": cleaning(&taken.sample),
            "admission": taken.sample.snapshot.adaptive.as_ref().map(ToString::to_string),
            "settings": taken.sample.settings,
            "rows": ring.since(row),
            "last_row": ring.last_row(),
            "maps": ring.maps_since(row),
            "distributions": ring.distributions(),
            "events": events,
            "last_event": last_event,
        })))
    }

    fn volume(&self, taken: &Taken) -> Value {
        let (about, sample) = (&*self.described, &taken.sample);
        let now = &sample.snapshot;
        present(json!({
            "name": about.name,
            "id": format!("{:032x}", about.id),
            "placement": about.placement.name(),
            "size_bytes": now.size,
            "state": now.state.name(),
            "in_doubt": now.is_in_doubt,
            // More than some seconds means that the volume's thread is busy, or hangs.
            "silent_ms": taken.at.elapsed().as_millis() as u64,
            "uptime_ms": ms(sample.uptime),
            "openings": sample.openings,
            "clients": now.clients,
            "requests_in_flight": now.requests_in_flight,
            "pool_bytes": now.pool,
            "pool_free_bytes": now.pool_free,
            "clients_waiting": now.clients_waiting,
            "lost_extents": about.has_extents().then_some(now.lost_extents),
            "is_loss_unknown": now.is_loss_unknown,
            "drills": sample.drills,
            "block_device_is_live": now.block_device_is_live,
        }))
    }

    fn devices(&self, sample: &Sample) -> Vec<Value> {
        let now = &sample.snapshot;
        let all = self.described.drives.drives();
        let numbers = (0..self.described.devices.len()).map(|device| self.described.drives.number(device));
        let power = Machine::look(numbers).power;
        let drive = |row: &DriveRow| {
            let warnings = row.health.iter().flat_map(|health| &health.warnings).map(|warning| warning.meaning());
            present(json!({
                "drive": row.about.name,
                "health": row.health,
                "read_ms_ago": row.read.map(|read| read.elapsed().as_millis() as u64),
                "error": row.error,
                "warnings": warnings.collect::<Vec<_>>(),
            }))
        };
        let device = |(index, now): (usize, &DeviceSnapshot)| {
            let budget = sample.snapshot.wear_budget_bytes_per_s;
            let drives = all.iter().filter(|drive| drive.devices >> index & 1 == 1).map(drive);
            present(json!({
                "name": self.described.devices[index],
                "state": now.state.name(),
                "size_bytes": now.size,
                "used_bytes": now.used,
                "errors": now.errors,
                "retries": now.retries,
                "failed_flushes": now.failed_flushes,
                "outages": now.outages,
                "outage": now.outage.map(|outage| json!({
                    "lasts_ms": ms(outage.lasts),
                    "patience_left_ms": ms(outage.patience_left),
                    "only_reads": outage.only_reads,
                    "commands_waiting": outage.commands_waiting,
                })),
                "power_state": power.get(index).copied().flatten(),
                "written_bytes": sample.snapshot.stats.devices[index].bytes_written.iter().sum::<u64>(),
                "endurance": now.endurance(),
                "wear_budget_bytes_per_s": budget.filter(|_| self.described.fast == Some(index)),
                "drives": drives.collect::<Vec<_>>(),
            }))
        };
        now.devices.iter().enumerate().map(device).collect()
    }
}

/// An object without the figures that do not apply.
fn present(mut value: Value) -> Value {
    if let Some(all) = value.as_object_mut() {
        all.retain(|_, figure| !figure.is_null());
    }
    value
}

fn cleaning(sample: &Sample) -> Option<Value> {
    let now = &sample.snapshot;
    let cleaning = now.cleaning?;
    Some(present(json!({
        "state": cleaning_name(cleaning.state),
        "dirty_bytes": cleaning.dirty,
        "limit_bytes": cleaning.most_dirty,
        "oldest_ms": cleaning.oldest.map(ms),
        "max_age_ms": now.dirty_max_age.map(ms),
        "bytes_per_s": cleaning.bytes_per_s,
        "clean_in_ms": cleaning.clean_in.map(ms),
        "throttles_writes": cleaning.throttles,
    })))
}

/// An event with its name and what belongs to it apart.
fn shown(event: &Event) -> Value {
    let mut about = json!(event.what);
    let name = about.as_object_mut().and_then(|about| about.remove("event"));
    json!({ "number": event.number, "unix_ms": event.unix_ms, "event": name, "about": about })
}
