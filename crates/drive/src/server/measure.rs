//! Takes the figures of the volume on its thread, for others that ask.

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use peryton_engine::{DeviceId, MapPart, Regulation, Tuning, endurance::Endurance};
use peryton_format::wear::Account;
use peryton_recording::Flags;
use peryton_units::{Bytes, Nanos};

use super::{BlockDevice, Handle, Server, handle::answered};
use crate::{
    clock::unix_s,
    figures::{Activity, DeviceSnapshot, DeviceState, OutageSnapshot, Sample, Snapshot, VolumeState},
    open::Place,
    shared_memory::NoMemory,
    status::Asked,
};

/// So much of the map is looked at in one turn of the volume's thread: that takes less than a millisecond.
const MOST_EXTENTS_AT_ONCE: u32 = 8192;

impl Server {
    pub(super) fn volume_state(&self) -> VolumeState {
        let engine = self.volume.engine();
        match () {
            () if engine.has_stopped() => VolumeState::Stopped,
            () if engine.gone() & !engine.evacuated_devices() != 0 => VolumeState::Degraded,
            () if self.volume.backend.in_outage() != 0 => VolumeState::Outage,
            () if self.about.read_only.is_some() => VolumeState::ReadOnly,
            () => VolumeState::Healthy,
        }
    }

    pub(super) fn device_state(&self, index: usize) -> DeviceState {
        let is_absent = self.about.devices.get(index).is_none_or(Option::is_none);
        match self.volume.backend.health()[index].errors {
            _ if self.volume.engine().was_evacuated(DeviceId(index as u8)) => DeviceState::Evacuated,
            _ if is_absent || self.volume.engine().is_gone(DeviceId(index as u8)) => DeviceState::Gone,
            _ if self.volume.backend.in_outage() >> index & 1 == 1 => DeviceState::Outage,
            _ if self.outages.places[index] == Place::Nowhere => DeviceState::Deleted,
            _ if self.outages.places[index] == Place::Elsewhere => DeviceState::Moved,
            0 => DeviceState::Ok,
            _ => DeviceState::Errors,
        }
    }

    /// Counts a request that is being answered.
    #[inline]
    pub(super) fn record(&mut self, asked: Asked, took: Nanos, offset: Bytes, len: Bytes, flags: Flags) {
        self.latencies.record(asked, took, len, !flags.has(Flags::FAILED));
        self.heat.record(asked, offset);
        if self.recorder.is_some() {
            self.record_request(asked, took, offset, len, flags);
        }
    }

    /// The figures now, or those from before while the volume is closed for a moment.
    fn snapshot_or_last(&mut self) -> Snapshot {
        match self.changing.away() {
            Some(away) => (*away.snapshot).clone(),
            None => self.snapshot(),
        }
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let engine = self.volume.engine();
        let tuning = engine.tuning();
        let max_age = tuning.cleaning.max_age.max(tuning.writeback_delay);
        let block_device = self.block_device.as_ref();
        Snapshot {
            state: self.volume_state(),
            size: engine.volume_size(),
            openings: self.about.opened.generation,
            is_in_doubt: engine.is_in_doubt(),
            is_unprotected: matches!(self.volume.memory(), Err(NoMemory::System { .. })),
            requests: *self.latencies.counts(),
            requests_in_flight: self.requests_in_flight(),
            device_commands_in_flight: self.volume.backend.in_flight(),
            clients: self.front.connected(),
            clients_served: self.front.clients_served,
            pool: Bytes(self.front.pool.arena().len() as u64),
            pool_free: Bytes(self.front.pool.free_bytes() as u64),
            clients_waiting: self.front.buffer_waiters.len(),
            log_lines_held_back: self.lines_held_back(),
            stats: engine.stats().clone(),
            cleaning: self.cleaning_report(),
            adaptive: engine.adaptive_admission(),
            dirty_max_age: Some(max_age).filter(|age| *age < Nanos(u64::MAX)),
            wear_budget_bytes_per_s: wear_budget(tuning, self.fast_worn()),
            log_age: engine.log_age(self.now),
            lost_extents: engine.lost_extents(),
            is_loss_unknown: self.about.opened.is_loss_unknown,
            devices: (0..self.about.names.len()).map(|index| self.device_snapshot(index)).collect(),
            block_device_is_live: block_device.map(BlockDevice::is_live),
        }
    }

    fn activity(&self) -> Activity {
        Activity { heat: self.heat.clone(), latencies: Arc::new(self.latencies.histograms()) }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            snapshot: self.snapshot_or_last(),
            activity: self.activity(),
            uptime: self.now,
            openings: self.about.opened.generation,
            settings: self.about.settings.clone(),
            drills: self.volume.backend.faults().rules().len(),
        }
    }

    fn device_snapshot(&self, index: usize) -> DeviceSnapshot {
        let (disks, state) = (&self.volume.backend, self.device_state(index));
        let (health, rest) = (&disks.health()[index], disks.rests.of(index));
        let outage = disks.outage(index).filter(|_| state == DeviceState::Outage);
        let (device, used) = (self.about.devices[index].as_ref(), self.volume.engine().device_bytes()[index]);
        let (bears, account) = self.wear_of(index);
        DeviceSnapshot {
            state,
            size: device.map(|device| device.size),
            used: device.map_or(used, |device| device.used(used)),
            errors: health.errors,
            retries: health.retries,
            failed_flushes: health.failed_flushes,
            outages: self.outages.count[index],
            outage: outage.map(|outage| OutageSnapshot {
                lasts: self.now.saturating_sub(outage.since),
                patience_left: outage.patience_left,
                only_reads: outage.only_reads,
                commands_waiting: outage.waiting,
            }),
            rest_cycles: rest.cycles,
            rest: rest.total(self.now),
            is_resting: rest.is_resting(),
            bears,
            account,
        }
    }

    /// The endurance of a device and its wear so far, as far as they are known.
    pub(super) fn wear_of(&self, index: usize) -> (Option<Endurance>, Option<Account>) {
        let bears = self.volume.engine().tuning().endurance.get(index).copied().flatten();
        (bears, self.about.devices[index].as_ref().and_then(|device| device.ability.wear.account()))
    }

    /// Requests of clients and of the block device that have not been answered.
    pub(super) fn requests_in_flight(&self) -> usize {
        let block_device = self.block_device.as_ref().map_or(0, |device| device.serving() as usize);
        self.front.requests.pending.used() + block_device
    }

    /// Lines that were not logged because there were too many of their kind.
    pub(super) fn lines_held_back(&self) -> u64 {
        self.limits.held_back + self.front.limits.held_back
    }
}

/// The rate of writes that the design's bound on wear allows: that of the hill climbing, or of a partitioned drive, of which the fast device
/// may say how worn it is.
fn wear_budget(tuning: &Tuning, worn: Option<(u32, Option<Nanos>)>) -> Option<f64> {
    const DAY_S: f64 = 86_400.0;
    if let Some(bytes) = tuning.climb.as_ref().and_then(|climb| climb.fast_bytes_per_day) {
        return Some(bytes.0 as f64 / DAY_S);
    }
    let (Regulation::ShareBeyond { budget, .. } | Regulation::Lifetime(budget)) = &tuning.partition.regulation else {
        return None;
    };
    let programmed = budget.programmable.map(|bytes| bytes.0 as f64 * 1e3 / f64::from(budget.amplification.max(1)));
    let life = programmed.map_or(budget.endurance.0 as f64, |bytes| bytes.min(budget.endurance.0 as f64));
    let share = worn.map_or(1.0, |(used_ppm, age)| budget.share_when_worn(used_ppm, age));
    (budget.lifetime > Nanos::ZERO).then(|| life / budget.lifetime.as_s_f64() * share)
}

impl Handle {
    /// The figures of the volume; `None` if it is closed, or its thread does not answer in this time.
    pub(crate) fn snapshot(&self, within: Duration) -> Option<Snapshot> {
        self.ask_within(within, Server::snapshot_or_last)
    }

    /// Begins a second count of the devices' wear; `false` if the volume is closed.
    pub(crate) fn mark(&self) -> bool {
        let mark = |server: &mut Server| {
            server.about.devices.iter().flatten().for_each(|device| device.ability.wear.mark(unix_s()));
        };
        self.ask_always(mark).is_some()
    }

    /// The names of the devices, and a part of the map from an offset on; `None` if the volume is closed.
    pub(crate) fn map_part(&self, from: Bytes) -> Option<(Vec<String>, MapPart)> {
        self.ask(move |server| {
            let part = server.volume.engine().map_part(from, MOST_EXTENTS_AT_ONCE);
            (server.about.names.clone(), part)
        })
    }

    /// Response times, and requests by address; `None` if the volume is closed.
    pub(crate) fn activity(&self) -> Option<Activity> {
        self.ask_always(|server| server.activity())
    }

    /// Asks for what the page shows, without waiting for it. The receiver fails if the volume is closed.
    pub(crate) fn sample(&self) -> mpsc::Receiver<Sample> {
        let (call, sample) = answered(|server| server.sample());
        self.send_always(call);
        sample
    }
}
