//! The stand-ins of `examples/workloads/mixedstore` have the figures of Table 2 of MixedStore.

use std::path::PathBuf;

use peryton_trace::{BATCH, Source, SynthSource, SynthSpec};
use peryton_units::Op;

/// Mean request in KiB, read share, sequential share, time between requests in ms.
const TABLE_2: [(&str, f64, f64, f64, f64); 4] = [
    ("financial", 4.38, 0.09, 0.02, 133.50),
    ("financial-bursty", 4.38, 0.09, 0.02, 133.50),
    ("cello99", 5.03, 0.35, 0.01, 41.01),
    ("tpc-h", 12.82, 0.95, 0.18, 155.56),
];

#[test]
fn every_stand_in_has_the_figures_of_table_2() {
    for (name, kib, reads, sequential, gap_ms) in TABLE_2 {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads/mixedstore");
        let spec = SynthSpec::load(folder.join(format!("{name}.toml"))).unwrap();
        let mut source = SynthSource::new(&spec, name).unwrap();
        let (mut count, mut read, mut bytes, mut continued, mut next, mut last_s) = (0.0, 0.0, 0.0, 0.0, u64::MAX, 0.0);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            source.next_batch(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                count += 1.0;
                read += f64::from(u8::from(request.op == Op::Read));
                bytes += request.len.0 as f64;
                continued += f64::from(u8::from(request.offset.0 == next));
                next = request.offset.0 + request.len.0;
                last_s = request.at.as_s_f64();
            }
        }
        let near = |what: &str, got: f64, published: f64, tolerance: f64| {
            assert!((got - published).abs() <= tolerance, "{name}: {what} is {got}, in Table 2 {published}");
        };
        near("mean request in KiB", bytes / count / 1024.0, kib, 0.02 * kib);
        near("read share", read / count, reads, 0.005);
        near("sequential share", continued / count, sequential, 0.01);
        // There are only sixty cycles of bursts and silences, so their number varies.
        let luck = if name == "financial-bursty" { 0.4 } else { 0.02 };
        near("time between requests in ms", last_s * 1e3 / count, gap_ms, luck * gap_ms);
    }
}
