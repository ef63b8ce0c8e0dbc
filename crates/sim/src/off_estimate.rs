//! What the figures of a design become if an estimated value of its devices is off; part of a report on demand.

use schemars::JsonSchema;
use serde::Serialize;

/// The figures of a design with one estimated value off.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OffEstimate {
    /// The profile of the value.
    pub profile: String,
    /// The path of the value, such as `flash.read`.
    pub value: String,
    /// The change, as a share: 0.3 is 30 % more.
    pub off_by: f64,
    /// The figures with the changed value.
    pub figures: MainFigures,
}

/// The figures that are looked at.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MainFigures {
    /// Mean response time of all requests, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<f64>,
    /// 99th percentile of the response times of all requests, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Years until the first device is worn out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Mean power of all devices together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
}
