//! What a device does under a pattern of access: from published measurements, or from our model of it.

use std::collections::BTreeMap;

use peryton_device::{AtWork, Class, ClosedLoop, DataSheet, Model, Profile, ProfileError, at_work};
use peryton_units::Bytes;
use serde::Serialize;
use thiserror::Error;

use super::{Pattern, Zone};

/// Table I: `D_c`, `D_b`, `P_b`, `P_i` and `P_s` of a device under a pattern, and its price.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The profile's name.
    pub device: String,
    /// The kind.
    pub class: Class,
    /// `D_c`, MB.
    pub capacity_mb: f64,
    /// `D_b`, MB/s.
    pub bandwidth_mb_per_s: f64,
    /// `P_b`, at that bandwidth.
    pub busy_w: f64,
    /// `P_i`.
    pub idle_w: f64,
    /// `P_s`; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_w: Option<f64>,
    /// Energy to stop and start; absent if it is not known, or nothing stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycle_j: Option<f64>,
    /// To buy one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_usd: Option<f64>,
    /// The share of such devices that fail in a year; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub afr: Option<f64>,
    /// Bytes that the host may write, in MB: as rated, or all cells as often as they bear it. Absent if neither is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated_written_mb: Option<f64>,
    /// Where bandwidth and busy power come from.
    pub source: Source,
    /// What its maker states, where the figures above are other people's measurements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specified: Option<Specified>,
    /// The figures that rest on estimates, and those, as paths of the profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub estimates: BTreeMap<&'static str, Vec<String>>,
}

/// `D_b`, `P_b` and `P_i` as the maker states them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Specified {
    /// `D_b`, MB/s.
    pub bandwidth_mb_per_s: f64,
    /// `P_b`: of this load, else the most under any load.
    pub busy_w: f64,
    /// `P_i`.
    pub idle_w: f64,
}

/// Where figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Published: the profile's `[measured]`, else its `[data_sheet]`.
    Published,
    /// Our model of the device, run for this.
    Model,
}

/// Why a device has no figures.
#[derive(Debug, Error)]
pub enum FiguresError {
    /// Neither data sheet nor model knows its power.
    #[error("profile '{device}' says nothing of power: give active_w and idle_w in its model, or leave the device out")]
    NoPower {
        /// The profile.
        device: String,
    },
    /// The pattern does not fit the device.
    #[error("profile '{device}' has {capacity}: requests of {request} do not fit")]
    Request {
        /// The profile.
        device: String,
        /// Its capacity.
        capacity: Bytes,
        /// The size of a request.
        request: Bytes,
    },
    /// The model refuses its parameters.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// The tail is as much as a measurement goes over this often, while what is in a disk's RAM does not matter.
const TAIL_SPANS: u64 = 4;
/// Requests of a measurement: enough that what begins and ends it does not matter.
const REQUESTS: u64 = 1_000;
/// Small requests are over sooner.
const SMALL_REQUESTS: u64 = 8_000;

impl Figures {
    /// Of a device under a pattern: as published where that was measured under it, else from the model.
    ///
    /// # Errors
    /// A device whose power is not known, or whose model cannot be built.
    pub fn of(profile: &Profile, pattern: &Pattern) -> Result<Figures, FiguresError> {
        let (idle_w, standby_w) = (stated(profile, |sheet| sheet.idle_w), stated(profile, |sheet| sheet.standby_w));
        let published = [("measured", &profile.measured), ("data_sheet", &profile.data_sheet)]
            .into_iter()
            .find_map(|(table, sheet)| Some((table, published(sheet, &of_device(profile, pattern))?)));
        let (Some((table, stated)), Some((_, idle_w))) = (published, idle_w) else {
            return Figures::modelled(profile, pattern);
        };
        let standby_w = standby_w.map(|(_, watts)| watts);
        let busy = (stated.bandwidth.1, stated.power.1);
        let mut figures = Figures::new(profile, busy, idle_w, standby_w, Source::Published);
        for (figure, key) in [("bandwidth_mb_per_s", stated.bandwidth.0), ("busy_w", stated.power.0)] {
            figures.rests_on(profile, figure, [format!("{table}.{key}")]);
        }
        if table == "measured" {
            figures.specified = specified(&profile.data_sheet, pattern);
        }
        Ok(figures)
    }

    /// Of a device under a pattern, from the model.
    ///
    /// # Errors
    /// A device whose power is not known, or whose model cannot be built.
    pub fn modelled(profile: &Profile, pattern: &Pattern) -> Result<Figures, FiguresError> {
        if let Model::Fixed(fixed) = &profile.model
            && fixed.active_w + fixed.idle_w <= 0.0
        {
            return Err(FiguresError::NoPower { device: profile.name.clone() });
        }
        if Bytes(profile.capacity.0 / 4) < pattern.request {
            let (device, capacity) = (profile.name.clone(), profile.capacity);
            return Err(FiguresError::Request { device, capacity, request: pattern.request });
        }
        let pattern = &of_device(profile, pattern);
        let requests = if pattern.request >= Bytes::kib(256) { REQUESTS } else { SMALL_REQUESTS };
        let span = match pattern.zone {
            Zone::Head => Bytes::ZERO,
            Zone::Tail => Bytes((TAIL_SPANS * requests * pattern.request.0).min(profile.capacity.0 / 4)),
        };
        let from = match pattern.zone {
            Zone::Head => Bytes::ZERO,
            Zone::Tail => {
                Bytes((profile.capacity.0 - span.0) / pattern.request.0 * pattern.request.0 - pattern.request.0)
            }
        };
        let workload = ClosedLoop {
            read_share: pattern.read_share,
            size: pattern.request,
            random: pattern.random,
            from,
            span,
            queue_depth: pattern.queue_depth,
            requests,
        };
        let AtWork { busy, idle_w, standby_w } = at_work(profile, workload)?;
        // Only a disk stops; for flash standby is what its maker says it is, if he does.
        let of_maker = stated(profile, |sheet| sheet.standby_w).map(|(_, watts)| watts);
        let standby_w = if profile.class == Class::Hdd { Some(standby_w) } else { of_maker };
        let idle_w = stated(profile, |sheet| sheet.idle_w).map_or(idle_w, |(_, watts)| watts);
        let mut figures = Figures::new(profile, (busy.mb_per_s, busy.mean_w), idle_w, standby_w, Source::Model);
        let (estimated, _) = profile.estimated();
        let (powers, times): (Vec<_>, Vec<_>) =
            estimated.iter().map(|path| (*path).to_owned()).partition(|path: &String| is_power(path));
        figures.rests_on(profile, "bandwidth_mb_per_s", times);
        figures.rests_on(profile, "busy_w", powers);
        Ok(figures)
    }

    fn new(
        profile: &Profile,
        (bandwidth_mb_per_s, busy_w): (f64, f64),
        idle_w: f64,
        standby_w: Option<f64>,
        source: Source,
    ) -> Figures {
        let mut figures = Figures {
            estimates: BTreeMap::new(),
            device: profile.name.clone(),
            class: profile.class,
            capacity_mb: profile.capacity.0 as f64 / 1e6,
            bandwidth_mb_per_s,
            busy_w,
            idle_w,
            standby_w,
            power_cycle_j: power_cycle_j(profile),
            price_usd: profile.price_usd,
            afr: profile.afr,
            rated_written_mb: profile.writable().map(|bytes| bytes.0 as f64 / 1e6),
            source,
            specified: None,
        };
        let model = profile.model_name();
        let of_model = |key: &str| match profile.class {
            Class::Hdd => format!("{model}.power.{key}"),
            _ => format!("{model}.{key}"),
        };
        let path = |key: &str, stated: Option<(&str, f64)>| match stated {
            Some((table, _)) => format!("{table}.{key}"),
            None => of_model(key),
        };
        let disk_stops = profile.class == Class::Hdd && source == Source::Model;
        let standby = stated(profile, |sheet| sheet.standby_w).filter(|_| !disk_stops);
        figures.rests_on(profile, "idle_w", [path("idle_w", stated(profile, |sheet| sheet.idle_w))]);
        figures.rests_on(profile, "standby_w", [path("standby_w", standby)]);
        figures.rests_on(profile, "price_usd", ["price_usd".to_owned()]);
        let rating =
            if profile.endurance.written.is_some() { "endurance.written".to_owned() } else { of_model("cycles") };
        figures.rests_on(profile, "rated_written_mb", [rating]);
        figures
    }

    /// Of these values of the profile, those that are estimates are what a figure rests on.
    fn rests_on(&mut self, profile: &Profile, figure: &'static str, paths: impl IntoIterator<Item = String>) {
        let estimates: Vec<String> = paths.into_iter().filter(|path| profile.is_estimate(path)).collect();
        if !estimates.is_empty() {
            self.estimates.insert(figure, estimates);
        }
    }
}

/// Whether a value of a model is one of power or energy.
fn is_power(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path);
    name.ends_with("_w") || name.ends_with("_uj") || name.ends_with("_uj_per_kib") || name.ends_with("_j_per_mb")
}

/// A figure as others measured it, else as its maker states it, with the name of the profile's table.
fn stated(profile: &Profile, of: fn(&DataSheet) -> Option<f64>) -> Option<(&'static str, f64)> {
    let measured = of(&profile.measured).map(|value| ("measured", value));
    measured.or_else(|| Some(("data_sheet", of(&profile.data_sheet)?)))
}

/// The pattern as it is on this device: only a disk has tracks, and random accesses reach over all.
fn of_device(profile: &Profile, pattern: &Pattern) -> Pattern {
    let zone = if profile.class == Class::Hdd && !pattern.random { pattern.zone } else { Zone::Head };
    Pattern { zone, ..*pattern }
}

/// Bandwidth and power with their keys.
struct Stated {
    bandwidth: (&'static str, f64),
    power: (&'static str, f64),
}

/// Bandwidth and power as published for large requests, where a table has both.
fn published(sheet: &DataSheet, pattern: &Pattern) -> Option<Stated> {
    if (Pattern { zone: Zone::Head, ..*pattern }) != Pattern::large(pattern.random, pattern.read_share) {
        return None;
    }
    let ((bandwidth, mb_per_s), (power, watts)) = match (pattern.random, pattern.read_share, pattern.zone) {
        (false, 1.0, Zone::Head) => (("seq_read_mb_per_s", sheet.seq_read_mb_per_s), ("seq_read_w", sheet.seq_read_w)),
        (false, 0.0, Zone::Head) => {
            (("seq_write_mb_per_s", sheet.seq_write_mb_per_s), ("seq_write_w", sheet.seq_write_w))
        }
        (false, 1.0, Zone::Tail) => {
            (("seq_read_tail_mb_per_s", sheet.seq_read_tail_mb_per_s), ("seq_read_tail_w", sheet.seq_read_tail_w))
        }
        (false, 0.0, Zone::Tail) => {
            (("seq_write_tail_mb_per_s", sheet.seq_write_tail_mb_per_s), ("seq_write_tail_w", sheet.seq_write_tail_w))
        }
        (true, 1.0, _) => (("rand_read_mb_per_s", sheet.rand_read_mb_per_s), ("rand_read_w", sheet.rand_read_w)),
        (true, 0.5, _) => (("rand_mixed_mb_per_s", sheet.rand_mixed_mb_per_s), ("rand_mixed_w", sheet.rand_mixed_w)),
        _ => return None,
    };
    Some(Stated { bandwidth: (bandwidth, mb_per_s?), power: (power, watts?) })
}

/// What a maker's data sheet says of such a load; makers do not distinguish head and tail, nor state power by load.
fn specified(sheet: &DataSheet, pattern: &Pattern) -> Option<Specified> {
    let (bandwidth, power) = match (pattern.random, pattern.read_share) {
        (false, 1.0) => (sheet.seq_read_mb_per_s, sheet.seq_read_w),
        (false, 0.0) => (sheet.seq_write_mb_per_s, sheet.seq_write_w),
        (true, 1.0) => (sheet.rand_read_mb_per_s, sheet.rand_read_w),
        (true, 0.5) => (sheet.rand_mixed_mb_per_s, sheet.rand_mixed_w),
        _ => (None, None),
    };
    Some(Specified { bandwidth_mb_per_s: bandwidth?, busy_w: power.or(sheet.active_w)?, idle_w: sheet.idle_w? })
}

fn power_cycle_j(profile: &Profile) -> Option<f64> {
    let Model::Disk(disk) = &profile.model else { return None };
    Some(disk.power.spin_up_j + disk.power.spin_down_j).filter(|joules| *joules > 0.0)
}
