//! The stand-ins of `examples/workloads/msr` have the published figures of the volumes that they represent: requests,
//! share of writes and mean write (MSR Cambridge); the distribution of overwrites and reads (Griffin, section 4); the
//! locality of reads ("Mixed SSD arrays", section VI-D). Longer ones are drawn shortened, with a smaller footprint.

use std::{collections::HashSet, path::PathBuf};

use peryton_trace::{Overwrites, Request, Source, SynthSource, SynthSpec, TraceError};
use peryton_units::{Bytes, Op};

/// Requests a week, writes among 1,000 of them, mean write in KiB.
const PUBLISHED: &[(&str, u64, f64, f64)] = &[
    ("hm_0", 3_993_316, 640.0, 8.0),
    ("mds_0", 1_211_034, 880.0, 7.0),
    ("prn_0", 5_585_886, 890.0, 10.0),
    ("prn_1", 11_233_411, 250.0, 12.0),
    ("proj_0", 4_224_525, 880.0, 41.0),
    ("prxy_0", 12_518_968, 970.0, 5.0),
    ("prxy_1", 168_638_964, 350.0, 9.0),
    ("rsrch_0", 1_433_655, 910.0, 9.0),
    ("src1_0", 37_415_613, 560.0, 16.0),
    ("src1_2", 1_907_773, 750.0, 33.0),
    ("src2_0", 1_557_814, 890.0, 7.0),
    ("src2_2", 1_156_885, 700.0, 51.0),
    ("stg_0", 2_030_915, 850.0, 9.0),
    ("stg_1", 2_196_861, 360.0, 8.0),
    ("ts_0", 1_801_734, 820.0, 8.0),
    ("usr_0", 2_237_889, 600.0, 10.0),
    ("wdev_0", 1_143_261, 800.0, 8.0),
    ("wdev_2", 180_000, 999.0, 8.0),
    ("web_0", 2_029_945, 700.0, 9.0),
    ("web_2", 5_175_368, 7.0, 8.0),
];
const WEAK: &[&str] = &["mds_0", "stg_0", "web_0", "prn_0", "usr_0", "proj_0", "src1_2"];
const STRONG: &[&str] = &["hm_0", "prxy_0", "rsrch_0", "wdev_0"];
/// The number of requests drawn: enough for an accuracy of about a per cent.
const DRAWN: u64 = 60_000;
const WEEK_S: f64 = 604_800.0;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads/msr")
}

struct Seen {
    source: SynthSource,
    requests: u64,
    writes: u64,
    written: u64,
    reads: u64,
    read_pages: HashSet<u64>,
    last_s: f64,
}

impl Seen {
    fn record(&mut self, request: &Request) {
        self.requests += 1;
        self.last_s = request.at.as_s_f64();
        if request.op == Op::Write {
            self.writes += 1;
            self.written += request.len.0;
        } else {
            let pages = request.offset.0 / 4096..(request.offset.0 + request.len.0).div_ceil(4096);
            self.reads += pages.end - pages.start;
            self.read_pages.extend(pages);
        }
    }
}

impl Source for Seen {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(batch)?;
        batch.iter().for_each(|request| self.record(request));
        Ok(())
    }
}

#[test]
fn every_stand_in_is_as_published() {
    for (name, requests, writes_per_mille, mean_write_kib) in PUBLISHED {
        let path = folder().join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("drawn from published") && !text.contains("Overwrites"), "{name} must say what it is");
        let mut spec = SynthSpec::load(&path).unwrap();
        assert_eq!(spec.requests, Some(*requests), "{name}");
        let shorter = (requests / DRAWN).max(1);
        spec.requests = Some(requests / shorter);
        spec.footprint = Bytes((spec.footprint.0 / shorter / 65536).max(1) * 65536);
        let source = SynthSource::new(&spec, name).unwrap();
        let (reads, read_pages) = (0, HashSet::new());
        let mut seen = Seen { source, requests: 0, writes: 0, written: 0, reads, read_pages, last_s: 0.0 };
        let overwrites = Overwrites::of(&mut seen).unwrap();

        let near = |what: &str, got: f64, published: f64, tolerance: f64| {
            assert!((got - published).abs() <= tolerance, "{name}: {what} is {got}, published {published}");
        };
        near("share of writes", seen.writes as f64 / seen.requests as f64, writes_per_mille / 1000.0, 0.005);
        let mean_kib = seen.written as f64 / seen.writes as f64 / 1024.0;
        // The mean of few writes varies.
        let luck = 4.0 * 1.5 * mean_write_kib / (seen.writes as f64).sqrt();
        near("mean write in KiB", mean_kib, *mean_write_kib, (0.02 * mean_write_kib).max(luck));
        // Bursts and silences take 50 s together; the sum of few of them varies.
        let span_s = WEEK_S / shorter as f64;
        near("weeks", seen.last_s / span_s, 1.0, 0.05 + 4.0 / (span_s / 50.0).sqrt());
        near("overwrites on the top 1 %", overwrites.overwrites_on_top_1pct.unwrap(), 0.34, 0.06);
        near("reads on the top 1 %", overwrites.reads_on_top_1pct.unwrap(), 0.01, 0.01);
        let savings = overwrites.ideal_write_savings.unwrap();
        match *name {
            "src1_0" => near("ideal write savings", savings, 0.14, 0.03),
            "wdev_2" => near("ideal write savings", savings, 0.94, 0.02),
            _ => {}
        }
        let new = seen.read_pages.len() as f64 / seen.reads as f64;
        if WEAK.contains(name) {
            assert!(new > 0.5, "{name}: weak locality, but only {new} of the reads are of something new");
        }
        if STRONG.contains(name) {
            assert!(new < 0.4, "{name}: strong locality, but {new} of the reads are of something new");
        }
    }
}

#[test]
fn there_is_a_stand_in_for_each_published_volume_and_no_other() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert!(names.iter().eq(PUBLISHED.iter().map(|(name, ..)| name)), "{names:?}");
}
