//! The figures that the volume's thread hands to other threads: copies of counts, in tables whose length is bounded by the number
//! of devices. Whatever is made of them, texts and quantiles, is made on the thread that asks.

use std::sync::Arc;

use peryton_engine::{AdaptiveView, CleaningReport, CleaningState, Stats, endurance::Endurance};
use peryton_format::wear::Account;
use peryton_units::{Bytes, Nanos};

use crate::{
    endurance::DeviceEndurance,
    heat::Heat,
    status::{Counts, Histogram},
};

/// The state of the volume. Later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeState {
    Healthy,
    /// A device cannot be written, so the volume is only read.
    ReadOnly,
    /// A device fails and may come back.
    Outage,
    /// A device is gone.
    Degraded,
    /// A log has failed a flush, and every request fails.
    Stopped,
}

impl VolumeState {
    pub(crate) const ALL: [VolumeState; 5] =
        [VolumeState::Healthy, VolumeState::ReadOnly, VolumeState::Outage, VolumeState::Degraded, VolumeState::Stopped];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            VolumeState::Healthy => "healthy",
            VolumeState::ReadOnly => "read_only",
            VolumeState::Outage => "outage",
            VolumeState::Degraded => "degraded",
            VolumeState::Stopped => "stopped",
        }
    }
}

/// The state of a device. Later ones take precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceState {
    Ok,
    /// Commands failed for good.
    Errors,
    /// Its file is not at its path any more, so the next server does not find it.
    Moved,
    /// Its file has no name any more, so its data end with the server.
    Deleted,
    /// It fails and may come back.
    Outage,
    /// It was given up (fenced), or left out.
    Gone,
    /// It held nothing that the others lack, and left the volume.
    Evacuated,
}

impl DeviceState {
    pub(crate) const ALL: [DeviceState; 7] = [
        DeviceState::Ok,
        DeviceState::Errors,
        DeviceState::Moved,
        DeviceState::Deleted,
        DeviceState::Outage,
        DeviceState::Gone,
        DeviceState::Evacuated,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            DeviceState::Ok => "ok",
            DeviceState::Errors => "errors",
            DeviceState::Moved => "moved",
            DeviceState::Deleted => "deleted",
            DeviceState::Outage => "outage",
            DeviceState::Gone => "gone",
            DeviceState::Evacuated => "evacuated",
        }
    }
}

/// The name of a state of cleaning, in metrics and on the page.
pub(crate) const fn cleaning_name(state: CleaningState) -> &'static str {
    match state {
        CleaningState::Resting => "resting",
        CleaningState::Idle => "idle",
        CleaningState::Aging => "aging",
        CleaningState::Filling => "filling",
        CleaningState::Overdue => "overdue",
        CleaningState::Full => "full",
        CleaningState::Asked => "asked",
    }
}

/// The figures of a volume at a time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: VolumeState,
    /// The size of the volume, which changes with that of a device.
    pub(crate) size: Bytes,
    /// How often it was opened.
    pub(crate) openings: u64,
    pub(crate) is_in_doubt: bool,
    /// Whether nothing is kept in case the server is killed, although the design asks for that.
    pub(crate) is_unprotected: bool,
    /// In the order of [`Asked::ALL`](crate::status::Asked::ALL).
    pub(crate) requests: [Counts; 5],
    pub(crate) requests_in_flight: usize,
    pub(crate) device_commands_in_flight: u32,
    pub(crate) clients: usize,
    pub(crate) clients_served: u64,
    pub(crate) pool: Bytes,
    pub(crate) pool_free: Bytes,
    pub(crate) clients_waiting: usize,
    pub(crate) log_lines_held_back: u64,
    pub(crate) stats: Stats,
    pub(crate) cleaning: Option<CleaningReport>,
    pub(crate) adaptive: Option<AdaptiveView>,
    /// How long data may be dirty, if there is a bound.
    pub(crate) dirty_max_age: Option<Nanos>,
    /// The rate of writes with which the fast device lasts as long as the design asks for.
    pub(crate) wear_budget_bytes_per_s: Option<f64>,
    pub(crate) log_age: Option<Nanos>,
    pub(crate) lost_extents: u32,
    /// Whether more may be lost, and nothing says what.
    pub(crate) is_loss_unknown: bool,
    pub(crate) devices: Vec<DeviceSnapshot>,
    /// Whether the volume as a block device of this machine can be used, if it is one.
    pub(crate) block_device_is_live: Option<bool>,
}

/// The figures of a device.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSnapshot {
    pub(crate) state: DeviceState,
    /// How large the device is, if it is there, and how much of it the volume uses.
    pub(crate) size: Option<Bytes>,
    pub(crate) used: Bytes,
    pub(crate) errors: u64,
    pub(crate) retries: u64,
    pub(crate) failed_flushes: u64,
    /// How often it failed and might come back.
    pub(crate) outages: u64,
    pub(crate) outage: Option<OutageSnapshot>,
    /// How often its drives were put into standby, for how long altogether, and whether they are now.
    pub(crate) rest_cycles: u64,
    pub(crate) rest: Nanos,
    pub(crate) is_resting: bool,
    /// What it bears in its life, if that is known, and what has worn it.
    pub(crate) bears: Option<Endurance>,
    pub(crate) account: Option<Account>,
}

impl DeviceSnapshot {
    pub(crate) fn endurance(&self) -> Option<DeviceEndurance> {
        self.account.map(|account| DeviceEndurance::of(self.bears, &account))
    }
}

/// A device that fails and may come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutageSnapshot {
    pub(crate) lasts: Nanos,
    pub(crate) patience_left: Nanos,
    pub(crate) only_reads: bool,
    pub(crate) commands_waiting: usize,
}

/// What is asked for where, and how long answers take, in more detail than metrics have.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    pub(crate) heat: Heat,
    /// Response times in ns, in the order of [`Asked::ALL`](crate::status::Asked::ALL).
    pub(crate) latencies: Arc<[Histogram; 5]>,
}

/// What the page of the volume shows of a time.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) snapshot: Snapshot,
    pub(crate) activity: Activity,
    /// How long the volume has been served.
    pub(crate) uptime: Nanos,
    /// How often it was opened.
    pub(crate) openings: u64,
    /// The settings in force in addition to the design.
    pub(crate) settings: Vec<String>,
    /// Faults on demand that are in force.
    pub(crate) drills: usize,
}
