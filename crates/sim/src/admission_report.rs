//! What admission did, in a report and in its intervals.

use peryton_engine::{AdaptiveView, AdmitBy};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Design;

/// The statistics of admission.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AdmissionReport {
    /// Misses that were not admitted.
    pub bypassed: u64,
    /// The state of the adaptive threshold at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<AdaptiveView>,
}

impl AdmissionReport {
    /// `None` if everything is admitted.
    pub(crate) fn of(design: &Design, bypassed: u64, adaptive: Option<AdaptiveView>) -> Option<AdmissionReport> {
        (design.tuning.admission.by != AdmitBy::All).then_some(AdmissionReport { bypassed, adaptive })
    }
}
