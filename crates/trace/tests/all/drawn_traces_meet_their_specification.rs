//! A drawn trace has the characteristics that its specification requires, as measured by the same code that describes
//! real traces; impossible specifications are refused with the key and the remedy.

use std::{collections::HashMap, path::PathBuf};

use peryton_trace::{Characteristics, Request, Source, SynthSource, SynthSpec};
use peryton_units::{Bytes, Op};
use proptest::prelude::*;

fn source(text: &str) -> SynthSource {
    let spec = SynthSpec::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    SynthSource::new(&spec, "test.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn draw(text: &str) -> Vec<Request> {
    let mut source = source(text);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

fn measure(text: &str) -> Characteristics {
    Characteristics::of(&mut source(text)).unwrap()
}

fn refusal(text: &str) -> String {
    let checked = SynthSpec::parse(text, "test.toml").and_then(|spec| SynthSource::new(&spec, "test.toml"));
    let error = checked.err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
    assert!(!error.contains('\n') && error.starts_with("test.toml"), "{error}");
    error
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} ± {tolerance}");
}

const BASE: &str = r#"
    requests = 200_000
    footprint = "1GiB"
    read_share = 0.7
    arrival = { kind = "poisson", mean = "1ms" }
    size = "4KiB"
"#;

/// `BASE` with lines replaced or added.
fn with(lines: &str) -> String {
    let key = |line: &str| line.split('=').next().unwrap_or("").trim().to_owned();
    let replaced: Vec<String> = lines.lines().take_while(|line| !line.trim().starts_with('[')).map(key).collect();
    let kept = BASE.lines().filter(|line| !replaced.contains(&key(line)) || line.trim().is_empty());
    kept.chain(lines.lines()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn shares_and_counts_are_met() {
    let c = measure(&with("flush = { share = 0.05 }"));
    assert_eq!(c.requests, 200_000);
    near(c.flushes as f64 / 200_000.0, 0.05, 0.003);
    near(c.read_share.unwrap(), 0.7, 0.005);
    near(c.inter_arrival_us.unwrap().distribution.mean, 1000.0, 15.0);
    assert_eq!(c.aligned_4kib_share, Some(1.0));
    assert!(c.volumes[0].end_bytes <= Bytes::gib(1).0);
    let every = measure(&with("flush = { every_writes = 10 }"));
    near(every.flushes as f64 / every.writes as f64, 0.1, 0.001);
}

#[test]
fn arrivals_have_their_mean_and_burstiness() {
    let arrivals = |text: &str| measure(&with(&format!("arrival = {text}"))).inter_arrival_us.unwrap().distribution;
    let constant = arrivals("\"250us\"");
    assert_eq!(
        (constant.mean, constant.min, constant.max, constant.coefficient_of_variation),
        (250.0, 250.0, 250.0, 0.0)
    );
    let poisson = arrivals("{ kind = \"poisson\", mean = \"1ms\" }");
    near(poisson.mean, 1000.0, 15.0);
    near(poisson.coefficient_of_variation, 1.0, 0.02);
    let pareto = arrivals("{ kind = \"pareto\", mean = \"1ms\", shape = 3.0 }");
    near(pareto.mean, 1000.0, 20.0);
    near(pareto.min, 1000.0 * 2.0 / 3.0, 1.0);
    // Bursts of 10 requests within 1 ms, and 9 ms of silence: a request a millisecond on average. There are 20,000
    // cycles, and the number and the lengths of the silences both vary with √n: 0.9 % of standard deviation.
    let bursty = arrivals("{ kind = \"bursty\", interval = \"100us\", on = \"1ms\", off = \"9ms\" }");
    near(bursty.mean, 1000.0, 35.0);
    assert!(bursty.coefficient_of_variation > 3.0, "{bursty:?}");
    near(bursty.p50, 80.0, 10.0);
}

#[test]
fn sizes_have_their_distribution() {
    let sizes = |text: &str| measure(&with(&format!("size = {text}"))).request_bytes.all.unwrap().distribution;
    let uniform = sizes("{ kind = \"uniform\", min = \"4KiB\", max = \"64KiB\" }");
    near(uniform.mean, 34.0 * 1024.0, 250.0);
    assert_eq!((uniform.min, uniform.max), (4096.0, 65536.0));
    let weighted = sizes("{ kind = \"weighted\", choices = [[\"4KiB\", 3], [\"64KiB\", 1]] }");
    near(weighted.mean, 19.0 * 1024.0, 250.0);
    let lognormal = sizes("{ kind = \"lognormal\", mean = \"64KiB\", sigma = 0.5, max = \"4MiB\" }");
    near(lognormal.mean, 65536.0, 500.0);
    near(lognormal.coefficient_of_variation, (0.25f64.exp() - 1.0).sqrt(), 0.02);
    let gamma = sizes("{ kind = \"gamma\", mean = \"128KiB\", shape = 1.5, max = \"4MiB\" }");
    near(gamma.mean, 131072.0, 1000.0);
    near(gamma.coefficient_of_variation, 1.5f64.sqrt().recip(), 0.02);
}

#[test]
fn sequentiality_is_met_by_its_definition() {
    let c = measure(&with("sequential_share = 0.4"));
    near(c.sequential_share.all.unwrap(), 0.4, 0.005);
    let c = measure(&with("[read]\nsequential_share = 0.6\n[write]\nsequential_share = 0.1"));
    near(c.sequential_share.read.unwrap(), 0.6, 0.005);
    near(c.sequential_share.write.unwrap(), 0.1, 0.005);
    assert!(c.sequential_share.streams.unwrap() >= c.sequential_share.all.unwrap());
}

#[test]
fn zipf_has_the_head_and_the_scatter_of_zipf() {
    let requests = draw(&with("address = { kind = \"zipf\", exponent = 1.0, extent = \"64KiB\" }"));
    let extents = Bytes::gib(1).0 / Bytes::kib(64).0;
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for request in &requests {
        *counts.entry(request.offset.0 / Bytes::kib(64).0).or_default() += 1;
    }
    let mut ranked: Vec<(u64, u64)> = counts.into_iter().map(|(extent, count)| (count, extent)).collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let total: f64 = (1..=extents).map(|k| 1.0 / k as f64).sum();
    for (rank, &(count, _)) in ranked.iter().take(5).enumerate() {
        let expected = requests.len() as f64 / (rank + 1) as f64 / total;
        near(count as f64, expected, 5.0 * expected.sqrt());
    }
    let low_half = ranked.iter().take(100).filter(|(_, extent)| *extent < extents / 2).count();
    assert!((25..=75).contains(&low_half), "popular extents crowd at one end: {low_half} of 100");
    let starts: std::collections::HashSet<u64> =
        requests.iter().filter(|r| r.offset.0 / Bytes::kib(64).0 == ranked[0].1).map(|r| r.offset.0).collect();
    assert_eq!(starts.len(), 16, "every page of the hottest extent is hit");
}

#[test]
fn hot_and_cold_regions_take_their_shares() {
    let regions = "[{ accesses = 0.5, space = 0.01 }, { accesses = 0.3, space = 0.1 }]";
    let requests = draw(&with(&format!("address = {{ kind = \"hot_cold\", regions = {regions} }}")));
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for request in &requests {
        *counts.entry(request.offset.0 / 4096).or_default() += 1;
    }
    let mut ranked: Vec<u64> = counts.into_values().collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let pages = Bytes::gib(1).0 / 4096;
    let hottest: u64 = ranked.iter().take((pages / 100) as usize).sum();
    near(hottest as f64 / requests.len() as f64, 0.5, 0.02);
}

#[test]
fn reads_and_writes_can_be_hot_in_different_places() {
    let hot = "{ kind = \"hot_cold\", regions = [{ accesses = 1.0, space = 0.01 }] }";
    let apart = measure(&with(&format!("[read]\naddress = {hot}\n[write]\naddress = {hot}")));
    let together = measure(&with(&format!("address = {hot}")));
    let overlap = |c: &Characteristics| c.footprint.pages_read_and_written as f64 / c.footprint.pages as f64;
    assert!(overlap(&apart) < 0.02, "{}", overlap(&apart));
    assert!(overlap(&together) > 0.9, "{}", overlap(&together));
}

#[test]
fn gamma_popularity_widens_with_gamma() {
    let files = |gamma: u32| {
        let table = format!(
            "address = {{ kind = \"files\", gamma = {gamma}, scale = 100, file_size = \"64KiB\", access = \"whole\" }}"
        );
        let requests = draw(&with(&table).replace("requests = 200_000", "requests = 50_000"));
        assert!(requests.iter().all(|r| r.len == Bytes::kib(64) && r.offset.is_multiple_of(Bytes::kib(64))));
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for request in &requests {
            *counts.entry(request.offset.0).or_default() += 1;
        }
        // The number of files that get half of the accesses.
        let mut ranked: Vec<u64> = counts.into_values().collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        ranked
            .iter()
            .take_while(|&&count| {
                sum += count;
                sum < 25_000
            })
            .count() as f64
    };
    // Exponential with scale 100: half of the accesses go to the first 100 × ln 2 files.
    near(files(1), 69.3, 7.0);
    // Standard deviation 200 and 400: half lies within about 2 × 0.6745 deviations, in the densest place.
    near(files(4), 2.0 * 0.6745 * 200.0, 35.0);
    near(files(16), 2.0 * 0.6745 * 400.0, 70.0);
}

#[test]
fn large_files_come_in_pieces_one_after_the_other() {
    let table = "address = { kind = \"files\", gamma = 2, file_size = \"100KiB\", max_request = \"64KiB\" }\nalignment = \"1KiB\"";
    let requests = draw(&with(table));
    for pair in requests.chunks_exact(2) {
        assert_eq!((pair[0].len, pair[1].len, pair[0].op), (Bytes::kib(64), Bytes::kib(36), pair[1].op));
        assert_eq!(pair[0].offset + pair[0].len, pair[1].offset);
    }
    let partial =
        "address = { kind = \"files\", gamma = 2, file_size = \"100KiB\", access = \"partial\" }\nalignment = \"4KiB\"";
    for request in draw(&with(partial)) {
        let file = request.offset.0 / Bytes::kib(100).0;
        assert!(request.offset.0 + request.len.0 <= (file + 1) * Bytes::kib(100).0);
    }
}

#[test]
fn rewrites_raise_the_share_of_overwrites() {
    let fresh = "footprint = \"1TiB\"\nread_share = 0.0\n";
    let without = measure(&with(fresh)).overwrite_share.unwrap();
    let c = measure(&with(&format!("{fresh}rewrite = {{ share = 0.5, recent = 100 }}")));
    assert!(without < 0.01, "{without}");
    near(c.overwrite_share.unwrap(), 0.5, 0.01);
}

#[test]
fn phases_follow_one_another() {
    let text = with("").replace("requests = 200_000", "")
        + "
        [[phases]]
        requests = 10_000
        read_share = 1.0
        [[phases]]
        requests = 5_000
        read_share = 0.0
        size = \"64KiB\"
    ";
    let requests = draw(&text);
    assert_eq!(requests.len(), 15_000);
    assert!(requests[..10_000].iter().all(|r| r.op == Op::Read && r.len == Bytes::kib(4)));
    assert!(requests[10_000..].iter().all(|r| r.op == Op::Write && r.len == Bytes::kib(64)));
    assert!(requests.is_sorted_by_key(|r| r.at), "time goes on from phase to phase");
}

/// FNV-1a over every field, so that any change of a drawn request changes it.
fn fingerprint(requests: &[Request]) -> u64 {
    let words = requests.iter().flat_map(|r| [r.at.0, r.offset.0, r.len.0, u64::from(r.volume), r.op as u64]);
    words
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn the_same_seed_draws_the_same_trace_on_every_machine() {
    let text = with(
        "seed = 42\narrival = { kind = \"pareto\", mean = \"1ms\", shape = 1.5 }\n\
         size = { kind = \"lognormal\", mean = \"32KiB\", sigma = 1.0, max = \"1MiB\" }\n\
         address = { kind = \"zipf\", exponent = 0.8, extent = \"1MiB\" }\nsequential_share = 0.3\n\
         [write]\naddress = { kind = \"files\", gamma = 4, file_size = { kind = \"gamma\", mean = \"64KiB\", shape = 1.5, max = \"1MiB\" }, access = \"partial\" }",
    );
    let drawn = fingerprint(&draw(&text));
    assert_eq!(drawn, GOLDEN, "drawn traces have changed: old results cannot be compared with new ones any more");
    assert_ne!(drawn, fingerprint(&draw(&text.replace("seed = 42", "seed = 43"))));
}

/// The fingerprint of 200,000 requests. It may only change together with a note in the change log.
const GOLDEN: u64 = 8_489_713_552_004_931_981;

#[test]
fn impossible_specifications_name_the_key_and_the_remedy() {
    let cases = [
        (with("reqests = 5"), "did you mean 'requests'"),
        (with("read_share = 1.5"), "read_share: is 1.5, expected a share from 0 to 1"),
        (with("read_share = nan"), "read_share: is NaN"),
        (with("size = \"5000B\""), "size: 5000B is not a multiple of the alignment 4KiB"),
        (with("size = \"2GiB\""), "size: of up to 2GiB exceeds the footprint 1GiB"),
        (with("footprint = \"0B\""), "footprint: is zero"),
        (with("start = \"8192PiB\""), "footprint: with start ends past 8 EiB"),
        (with("alignment = \"0B\""), "alignment: is zero"),
        (with("arrival = { kind = \"poison\", mean = \"1ms\" }"), "did you mean 'poisson'"),
        (with("arrival = { kind = \"pareto\", mean = \"1ms\", shape = 1.0 }"), "arrival.shape: is 1"),
        (
            with("arrival = { kind = \"bursty\", interval = \"0s\", on = \"1s\", off = \"1s\" }"),
            "arrival.interval: is zero",
        ),
        (with("arrival = \"5\""), "'5' has no unit: write a time such as 5s"),
        (with("arrival = \"1y\""), "years"),
        (with("address = \"zipf\""), "write { kind = \"zipf\""),
        (with("address = { kind = \"zipf\", exponent = -1 }"), "address.exponent: is -1"),
        (with("address = { kind = \"zipf\", exponent = 1, extent = \"2GiB\" }"), "address.extent: 2GiB divides"),
        (with("address = { kind = \"zipf\", exponent = 1, extnt = \"2MiB\" }"), "did you mean 'extent'"),
        (
            with("address = { kind = \"hot_cold\", regions = [{ accesses = 0.9, space = 1.0 }] }"),
            "address.regions: leave 0.1000 of the accesses, but no space",
        ),
        (
            with(
                "address = { kind = \"hot_cold\", regions = [{ accesses = 0.9, space = 0.5 }, { accesses = 0.9, space = 0.1 }] }",
            ),
            "both must be at most 1",
        ),
        (with("address = { kind = \"files\", gamma = 1, file_size = \"2GiB\" }"), "address.file_size: no file fits"),
        (with("address = { kind = \"files\", gamma = 0, file_size = \"2MiB\" }"), "address.gamma: is 0"),
        (with("rewrite = { share = 0.5, recent = 0 }"), "rewrite.recent: is 0"),
        (with("flush = { every_writes = 0 }"), "flush.every_writes: is zero"),
        (with("flush = 1"), "expected a table: { every_writes = 1 }"),
        (with("flush = { share = 0.1, every_writes = 2 }"), "one of share and every_writes"),
        (with("[write]\nsize = \"100B\""), "write.size: 100B is not a multiple"),
        (with("[[phases]]\nrequests = 5"), "requests: phases have their own"),
        (
            with("[[phases]]\nrequests = 5\nread_share = 2").replace("requests = 200_000", ""),
            "phases[0].read_share: is 2",
        ),
        (with("").replace("requests = 200_000", ""), "requests: is missing"),
        (with("").replace("size = \"4KiB\"", ""), "size: is missing"),
        (with("size = "), "test.toml:"),
        (with("size = { kind = \"weighted\", choices = [] }"), "size.choices: the weights"),
        (with("size = { kind = \"uniform\", min = \"64KiB\", max = \"4KiB\" }"), "size.min: is above size.max"),
    ];
    for (text, expected) in cases {
        let error = refusal(&text);
        assert!(error.contains(expected), "'{error}' does not say '{expected}'");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_is_accepted_stays_within_its_bounds(
        footprint in 1u64..5000, start in 0u64..100, size in 1u64..200, max in 1u64..200, extent in 1u64..300,
        read_share in 0.0..=1.0f64, sequential in 0.0..=1.0f64, rewrite in 0.0..=1.0f64, address in 0usize..5, seed in any::<u64>(),
    ) {
        let kib = |units: u64| format!("\"{}KiB\"", units * 4);
        let address = match address {
            0 => "\"uniform\"".to_owned(),
            1 => format!("{{ kind = \"zipf\", exponent = {}, extent = {} }}", seed % 40 / 10, kib(extent)),
            2 => format!("{{ kind = \"hot_cold\", extent = {}, regions = [{{ accesses = 0.8, space = 0.3 }}] }}", kib(extent)),
            3 => format!("{{ kind = \"files\", gamma = 0.5, file_size = {}, access = \"partial\" }}", kib(extent)),
            _ => format!("{{ kind = \"files\", gamma = 16, file_size = {}, max_request = {} }}", kib(extent), kib(max)),
        };
        let text = format!(
            "requests = 3000\nfootprint = {}\nstart = {}\nseed = {}\nread_share = {read_share}\nsequential_share = {sequential}\n\
             arrival = \"1ms\"\nsize = {{ kind = \"uniform\", min = {}, max = {} }}\naddress = {address}\n\
             rewrite = {{ share = {rewrite}, recent = 7 }}\n",
            kib(footprint), kib(start), seed >> 1, kib(size.min(max)), kib(max),
        );
        let spec = SynthSpec::parse(&text, "test.toml").unwrap();
        let Ok(mut source) = SynthSource::new(&spec, "test.toml") else { return Ok(()) };
        let mut batch = Vec::new();
        let mut count = 0;
        loop {
            source.next_batch(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            count += batch.len();
            for r in &batch {
                prop_assert!(r.len.0 > 0 && r.len.is_multiple_of(Bytes::kib(4)) && r.offset.is_multiple_of(Bytes::kib(4)), "{r:?}");
                prop_assert!(r.offset >= spec.start && r.offset + r.len <= spec.start + spec.footprint, "{r:?}");
            }
        }
        prop_assert_eq!(count, 3000);
    }

    #[test]
    fn a_damaged_specification_never_panics(at in any::<prop::sample::Index>(), text in "[ -~\n]{0,6}") {
        let mut spec = with("address = { kind = \"zipf\", exponent = 1.0 }\nflush = { share = 0.1 }").replace("200_000", "50");
        let at = at.index(spec.len());
        spec.insert_str(at, &text);
        if let Ok(spec) = SynthSpec::parse(&spec, "test.toml")
            && let Ok(mut source) = SynthSource::new(&spec, "test.toml")
        {
            source.next_batch(&mut Vec::new()).unwrap();
        }
    }
}

#[test]
fn the_shipped_workloads_are_accepted() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads");
    let (mut count, mut folders, mut files) = (0, vec![directory], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "toml" => files.push(path),
                _ => {}
            }
        }
    }
    for path in files {
        let spec = SynthSpec::load(&path).unwrap_or_else(|error| panic!("{error}"));
        let mut source = SynthSource::new(&spec, &path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
        let mut batch = Vec::new();
        source.next_batch(&mut batch).unwrap();
        assert!(!batch.is_empty());
        count += 1;
    }
    assert!(count >= 27, "{count} workloads");
}

#[test]
fn the_stand_ins_have_the_figures_of_greendm_table_3() {
    let of = |name: &str| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/workloads").join(name);
        let spec = SynthSpec::load(&path).unwrap();
        Characteristics::of(&mut SynthSource::new(&spec, name).unwrap()).unwrap()
    };
    let mean = |sizes: &Option<peryton_trace::SizeDistribution>| sizes.as_ref().unwrap().distribution.mean / 1024.0;
    let web = of("websearch.toml");
    assert_eq!(web.requests, 1_055_448);
    near(web.writes as f64, 212.0, 60.0);
    near(mean(&web.request_bytes.read), 16.0, 0.1);
    near(mean(&web.request_bytes.write), 8.0, 0.0);
    assert!(web.volumes[0].end_bytes <= 32_000_000_000);
    let fiu = of("fiu-online.toml");
    assert_eq!(fiu.requests, 4_867_312);
    near(fiu.reads as f64, 655_526.0, 4_000.0);
    near(mean(&fiu.request_bytes.read), 8.0, 0.1);
    near(mean(&fiu.request_bytes.write), 4.0, 0.0);
    for gamma in [1, 4, 16] {
        let server = of(&format!("fileserver-gamma{gamma}.toml"));
        near(mean(&server.request_bytes.all), 128.0, 4.0);
        near(server.read_share.unwrap(), 0.6, 0.01);
    }
}
