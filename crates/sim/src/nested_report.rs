//! The report of a drive that is in the place of a device.

use std::collections::BTreeMap;

use peryton_engine::{LoggingStats, Stats};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Design, MoveReport,
    report::{self, MetadataReport},
};

/// The work of an inner drive in the measured span. Its devices are among those of the whole report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NestedReport {
    /// The name of the inner design.
    pub design: String,
    /// The size of the inner volume.
    pub volume_bytes: u64,
    /// Share of the inner drive's accesses that its fast device, or RAM, served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Moves between the inner devices (tiering, caching).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveReport>,
    /// Map updates and journal (tiering, caching).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataReport>,
    /// Share of the bytes written to it that did not have to be written to its primary (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_savings: Option<f64>,
    /// Share of reads that needed its log (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_penalty: Option<f64>,
}

/// The drives of a design, by the names of the devices in whose place they are: `cold`, and `cold.colder` inside it.
pub(crate) fn of(design: &Design, drives: &[Stats]) -> BTreeMap<String, NestedReport> {
    let mut named = Vec::new();
    collect(design, "", &mut named);
    named.into_iter().zip(drives).map(|((name, drive), stats)| (name, report(drive, stats))).collect()
}

fn collect<'a>(design: &'a Design, before: &str, into: &mut Vec<(String, &'a Design)>) {
    for device in &design.devices {
        let Some(drive) = &device.drive else { continue };
        let name = format!("{before}{}", device.name);
        into.push((name.clone(), &**drive));
        collect(drive, &format!("{name}."), into);
    }
}

fn report(design: &Design, stats: &Stats) -> NestedReport {
    let hybrid = design.placement.hybrid().is_some();
    NestedReport {
        design: design.name.clone(),
        volume_bytes: design.volume.0,
        fast_hit_ratio: stats.fast_hit_ratio().filter(|_| hybrid),
        moves: hybrid.then(|| report::moves(stats)),
        metadata: hybrid.then(|| report::metadata(stats)),
        write_savings: stats.logging.as_ref().and_then(LoggingStats::write_savings),
        read_penalty: stats.logging.as_ref().and_then(LoggingStats::read_penalty),
    }
}
