//! The parts of a report about one of several volumes.

use peryton_engine::LoggingStats;
use peryton_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    AdmissionReport, Design, DeviceReport, FtlReport, Latency, latency_report::latency_of, lifetime::Lifetime,
    outcome::VolumeOutcome, report::is_zero,
};

/// The result of one of several volumes that share a log device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VolumeReport {
    /// Requests answered within the measured span.
    pub requests: u64,
    /// Response times in µs, from arrival to reply.
    pub latency_us: Latency,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_savings: Option<f64>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_savings_emptied: Option<f64>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_penalty: Option<f64>,
    /// The statistics of its part of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<LoggingStats>,
    /// As in [`Report`](crate::Report), for its own primary.
    pub ftl_bounds: FtlReport,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionReport>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub climb: Option<peryton_engine::ClimbView>,
    /// Energy of its own devices, and an equal part of those that it shares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Mean power of these devices over the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
    /// Years until the first of the volume's devices is worn out, shared ones included, at the rate of the measured
    /// span: the smaller of the next two figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_rated_years: Option<f64>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_physical_years: Option<f64>,
    /// As in [`Report`](crate::Report).
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_requests: u64,
}

/// The report of one of several volumes; `devices` are those of the whole report.
pub(crate) fn volume_report(
    design: &Design,
    devices: &[(String, DeviceReport)],
    span: Nanos,
    number: usize,
    volume: &VolumeOutcome,
) -> VolumeReport {
    let logged = volume.stats.logging.as_ref();
    let (mut energy_j, mut lifetime) = (Some(0.0), Lifetime::default());
    let mut rest = devices;
    for device in &design.devices {
        let (of_device, behind) = rest.split_at((device.count * device.copies) as usize);
        rest = behind;
        // A shared device has one copy, used by all volumes.
        let from = if device.copies > 1 { number * device.count as usize } else { 0 };
        for (_, member) in &of_device[from..from + device.count as usize] {
            let part = member.energy_j.map(|energy| energy / f64::from(device.regions));
            energy_j = energy_j.zip(part).map(|(sum, part)| sum + part);
            lifetime = lifetime.shorter(member.lifetime());
        }
    }
    let span_s = span.as_s_f64();
    VolumeReport {
        requests: volume.answered(),
        latency_us: latency_of(&volume.times),
        write_savings: logged.and_then(LoggingStats::write_savings),
        write_savings_emptied: volume.drained.logging.as_ref().and_then(LoggingStats::write_savings),
        read_penalty: logged.and_then(LoggingStats::read_penalty),
        logging: volume.stats.logging.clone(),
        ftl_bounds: volume.bounds.expect("only a log is shared").report(),
        admission: AdmissionReport::of(design, volume.stats.bypassed, volume.adaptive.clone()),
        climb: volume.climb.clone(),
        energy_j,
        mean_power_w: energy_j.filter(|_| span_s > 0.0).map(|energy| energy / span_s),
        lifetime_years: lifetime.years(),
        lifetime_rated_years: lifetime.rated,
        lifetime_physical_years: lifetime.physical,
        failed_requests: volume.stats.failed_requests,
    }
}
