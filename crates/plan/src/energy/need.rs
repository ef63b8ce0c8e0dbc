//! Equations (1) to (7).

use serde::Serialize;

use super::{Demand, Figures};

/// What a workload asks most of (section II): speed, or room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DominantNeed {
    /// Its peak bandwidth needs more devices than its data: `S_pb/D_b > S_c/D_c`.
    Capability,
    /// Its data needs more devices than its peak bandwidth.
    Capacity,
}

/// What becomes of devices that the average bandwidth does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// They idle: equations (3) and (5).
    Idle,
    /// They are in standby: equation (7). A device without one that is known idles.
    Standby,
    /// Data is spread over all devices, which are all kept busy: equations (4) and (6).
    AllActive,
}

/// A straight line over the run time in seconds: joules, or dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// At no time at all.
    pub offset: f64,
    /// Per second.
    pub slope: f64,
}

/// When one line is below another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakEven {
    /// At any time.
    Always,
    /// At no time.
    Never,
    /// For longer run times than so many seconds.
    LongerThan(f64),
    /// For shorter run times than so many seconds.
    ShorterThan(f64),
}

impl Line {
    /// The value at a run time.
    pub fn at(&self, seconds: f64) -> f64 {
        self.offset + self.slope * seconds
    }

    /// For which run times this line is below the other.
    pub fn below(&self, other: &Line) -> BreakEven {
        let (offset, slope) = (self.offset - other.offset, other.slope - self.slope);
        // offset < slope × T
        let even = offset / slope;
        match (slope > 0.0, slope < 0.0) {
            (true, _) if even > 0.0 => BreakEven::LongerThan(even),
            (_, true) if even > 0.0 => BreakEven::ShorterThan(even),
            (true, _) => BreakEven::Always,
            (_, true) => BreakEven::Never,
            _ if offset < 0.0 => BreakEven::Always,
            _ => BreakEven::Never,
        }
    }

    /// The sum of two.
    pub fn plus(&self, other: &Line) -> Line {
        Line { offset: self.offset + other.offset, slope: self.slope + other.slope }
    }

    /// Dollars for these joules.
    pub fn priced(&self, usd_per_kwh: f64) -> Line {
        let usd_per_j = usd_per_kwh / 3.6e6;
        Line { offset: self.offset * usd_per_j, slope: self.slope * usd_per_j }
    }
}

/// The properties of a device under a workload that the equations go by (Tables III to VI). Powers over bandwidth in
/// W·s/MB, over capacity in W/MB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Properties {
    /// `P_i/D_b`.
    pub idle_over_bandwidth: f64,
    /// `P_b/D_b`.
    pub busy_over_bandwidth: f64,
    /// `P_i/D_c`.
    pub idle_over_capacity: f64,
    /// `P_b/D_c`.
    pub busy_over_capacity: f64,
    /// `(P_b − P_i)/D_b`.
    pub above_idle_over_bandwidth: f64,
    /// `P_s/D_c`; absent if the device has no standby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_over_capacity: Option<f64>,
    /// `(P_b − P_s)/D_b`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above_standby_over_bandwidth: Option<f64>,
}

impl Properties {
    /// Of a device.
    pub fn of(figures: &Figures) -> Properties {
        let Figures { bandwidth_mb_per_s, capacity_mb, busy_w, idle_w, standby_w, .. } = *figures;
        Properties {
            idle_over_bandwidth: idle_w / bandwidth_mb_per_s,
            busy_over_bandwidth: busy_w / bandwidth_mb_per_s,
            idle_over_capacity: idle_w / capacity_mb,
            busy_over_capacity: busy_w / capacity_mb,
            above_idle_over_bandwidth: (busy_w - idle_w) / bandwidth_mb_per_s,
            standby_over_capacity: standby_w.map(|standby_w| standby_w / capacity_mb),
            above_standby_over_bandwidth: standby_w.map(|standby_w| (busy_w - standby_w) / bandwidth_mb_per_s),
        }
    }

    /// Equation (3): joules of a capability workload over its run time, with many devices and α = 1.
    pub fn capability(&self, demand: &Demand) -> Line {
        let Demand { peak_mb_per_s, average_mb_per_s, .. } = *demand;
        let watts =
            self.idle_over_bandwidth * (peak_mb_per_s - average_mb_per_s) + self.busy_over_bandwidth * average_mb_per_s;
        Line { offset: 0.0, slope: watts }
    }

    /// Equation (4): the same with all devices kept busy.
    pub fn capability_all_active(&self, demand: &Demand) -> Line {
        Line { offset: 0.0, slope: demand.peak_mb_per_s * self.busy_over_bandwidth }
    }

    /// Equation (5), divided by `S_c`: joules per MB of data of a capacity workload over the time `T = S_c/S_ab` that it
    /// takes, with unneeded devices idle.
    pub fn capacity_per_mb(&self) -> Line {
        Line { offset: self.above_idle_over_bandwidth, slope: self.idle_over_capacity }
    }

    /// Equation (6), divided by `S_c`: with all devices kept busy.
    pub fn capacity_all_active_per_mb(&self) -> Line {
        Line { offset: 0.0, slope: self.busy_over_capacity }
    }

    /// Equation (7), divided by `S_c`: with unneeded devices in standby.
    pub fn capacity_standby_per_mb(&self) -> Option<Line> {
        let (slope, offset) = (self.standby_over_capacity?, self.above_standby_over_bandwidth?);
        Some(Line { offset, slope })
    }
}

impl Figures {
    /// Equation (2): how many devices a demand needs, at least one.
    pub fn needed(&self, demand: &Demand) -> u64 {
        let for_speed = demand.peak_mb_per_s / self.bandwidth_mb_per_s;
        let for_room = demand.capacity_mb / self.capacity_mb;
        // A ratio that is whole but for rounding needs no device more.
        (for_speed.max(for_room) * (1.0 - 1e-12)).ceil().max(1.0) as u64
    }

    /// What a demand asks most of this device.
    pub fn kind(&self, demand: &Demand) -> DominantNeed {
        let (speed, room) = (demand.peak_mb_per_s / self.bandwidth_mb_per_s, demand.capacity_mb / self.capacity_mb);
        if speed > room { DominantNeed::Capability } else { DominantNeed::Capacity }
    }

    /// `α × N_min`: how many devices are busy on average, where `N_min = S_ab/D_b`. No more than there are.
    pub fn busy(&self, demand: &Demand, alpha: f64, devices: u64) -> f64 {
        (alpha * demand.average_mb_per_s / self.bandwidth_mb_per_s).min(devices as f64)
    }

    /// The power of `devices` whole devices: the first lines of equations (3), (5) and (7), and (4) and (6). In standby
    /// whole devices rest: one that is busy for a part of the time idles for the other.
    pub fn power_w(&self, demand: &Demand, alpha: f64, devices: u64, policy: Policy) -> f64 {
        let (all, busy) = (devices as f64, self.busy(demand, alpha, devices));
        match policy {
            Policy::AllActive => all * self.busy_w,
            Policy::Idle => self.idle_w * (all - busy) + self.busy_w * busy,
            Policy::Standby => {
                let awake = busy.ceil().min(all);
                self.rest_w() * (all - awake) + self.idle_w * (awake - busy) + self.busy_w * busy
            }
        }
    }

    /// The least power at rest: in standby, or idle where the device has no standby that is known.
    pub fn rest_w(&self) -> f64 {
        self.standby_w.unwrap_or(self.idle_w)
    }

    /// How long a device must rest before standby pays for the power cycle: `E_cycle / (P_i − P_s)`, in seconds.
    pub fn standby_pays_after_s(&self) -> Option<f64> {
        let saved_w = self.idle_w - self.standby_w?;
        Some(self.power_cycle_j? / saved_w).filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }
}
