//! The same input gives the same bytes, alone or beside others.

use crate::common;

use common::{design, hybrid, listed, random_requests, simulate};
use peryton_sim::{Options, Replay, run};

#[test]
fn the_same_run_gives_the_same_bytes() {
    let requests = random_requests(5_000, 64 << 20, 500, 3);
    let flash = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '64MiB'\nmodel = { precondition = 'random' }\n\
                 [placement]\nmode = 'single'\n";
    let designs = [hybrid("tiering", ""), hybrid("caching", "write = 'through'"), flash.to_owned()];
    for replay in [Replay::Sync, Replay::Depth(16), Replay::Timed { speed: 3.0 }] {
        let options = Options { replay, ..Options::default() };
        let alone = |text: &String| serde_json::to_string(&simulate(text, &requests, &options).unwrap()).unwrap();
        let first: Vec<String> = designs.iter().map(alone).collect();
        let second: Vec<String> = designs.iter().map(alone).collect();
        assert_eq!(first, second, "{replay}");
        let many: Vec<_> = designs.iter().map(|text| design(text)).collect();
        let together = run(&many, "trace", &|| Ok(listed(&requests)), &options, &|_| {}).unwrap();
        let together: Vec<String> = together.iter().map(|report| serde_json::to_string(report).unwrap()).collect();
        assert_eq!(first, together, "{replay}: in parallel");
    }
}

#[test]
fn another_seed_is_another_run() {
    let requests = random_requests(2_000, 64 << 20, 500, 3);
    let with = |seed: u64| {
        let text = format!(
            "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '64MiB'\nmodel = {{ precondition = 'random' }}\n\
             [placement]\nmode = 'single'\n[seed]\nvalue = {seed}\n"
        );
        let mut report = simulate(&text, &requests, &Options::default()).unwrap();
        report.seed = 0;
        report
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

/// Rows of a sweep come from other machines as JSON, and are rows of this one.
#[test]
fn numbers_come_back_from_json_to_the_bit() {
    let mut bits = 1u64;
    for _ in 0..100_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = f64::from_bits(bits);
        if number.is_finite() {
            let back: f64 = serde_json::from_str(&serde_json::to_string(&number).unwrap()).unwrap();
            assert_eq!(back.to_bits(), bits, "{number:e}");
        }
    }
}
