//! The answer to `activity`: counts since the volume was opened, of which a client compares two.

use serde_json::{Map, Value, json};

use crate::{
    figures::Activity,
    status::{Asked, Histogram},
};

/// The counts as JSON. Of the histograms it has the buckets that are not empty, a few thousand at most, with their upper ends.
pub(super) fn shown(activity: &Activity) -> Value {
    let Activity { heat, latencies } = activity;
    let histogram = |(asked, histogram): (Asked, &Histogram)| {
        let buckets = histogram.buckets().map(|bucket| json!([bucket.to, bucket.count]));
        (asked.name().to_owned(), Value::Array(buckets.collect()))
    };
    let latencies: Map<String, Value> = Asked::ALL.into_iter().zip(latencies.iter()).map(histogram).collect();
    json!({
        "heat": { "part_bytes": heat.part_bytes(), "reads": heat.reads(), "writes": heat.writes() },
        "latency_ns": latencies,
    })
}
