//! The answer to `activity`: counts since the volume was opened, of which a client compares two.

use serde_json::{Map, Value, json};

use crate::status::{Asked, Histogram};

/// The counts as JSON. Of the histograms it has the buckets that are not empty, a few thousand at most, with their upper ends.
pub(super) fn shown(latencies: &[Histogram; 5]) -> Value {
    let histogram = |(asked, histogram): (Asked, &Histogram)| {
        let buckets = histogram.buckets().map(|bucket| json!([bucket.to, bucket.count]));
        (asked.name().to_owned(), Value::Array(buckets.collect()))
    };
    let latencies: Map<String, Value> = Asked::ALL.into_iter().zip(latencies).map(histogram).collect();
    json!({ "latency_ns": latencies })
}
