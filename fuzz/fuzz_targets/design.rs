//! Design files and overrides: raw bytes, and designs with words from other designs.
#![cfg_attr(fuzzing, no_main)]

use peryton_sim::Design;

const DESIGNS: &[&str] = &[
    include_str!("../../examples/papers/tiering.toml"),
    include_str!("../../examples/papers/caching-back.toml"),
    include_str!("../../examples/papers/griffin.toml"),
    include_str!("../../examples/papers/mixed-array.toml"),
    include_str!("../../examples/papers/mixedstore.toml"),
    include_str!("../../examples/papers/linear.toml"),
    include_str!("../../examples/papers/ssd-only.toml"),
];
const WORDS: &[&str] = &[
    "0",
    "-1",
    "1",
    "4",
    "4294967296",
    "18446744073709551615",
    "1e308",
    "nan",
    "inf",
    "\"\"",
    "\"0B\"",
    "\"1B\"",
    "\"4KiB\"",
    "\"16EiB\"",
    "\"1ns\"",
    "\"500y\"",
    "\"never\"",
    "true",
    "[]",
    "{}",
    "{ a = 1 }",
    "\"ssd\"",
    "\"hdd\"",
    "\"lru\"",
    "\"tiering\"",
    "\"caching\"",
    "\"logging\"",
    "\"fixed\"",
    "\"../../../etc/passwd\"",
    "1979-05-27",
];
const KEYS: &[&str] = &[
    "volume.size",
    "volume.count",
    "placement.mode",
    "placement.extent",
    "placement.promotion.threshold",
    "placement.promotion.window",
    "placement.demotion.low",
    "placement.demotion.high",
    "placement.max_moves",
    "placement.fast",
    "placement.log",
    "placement.write",
    "placement.journal",
    "placement.gather.bytes",
    "devices.ssd.size",
    "devices.ssd.count",
    "devices.ssd.stripe",
    "devices.ssd.profile",
    "devices.hdd.size",
    "devices.ssd.model.over_provisioning",
    "devices.ssd.model.precondition",
    "power.hdd.spin_down_after",
    "endurance.read_effect",
    "admission.by",
    "admission.threshold",
    "admission.adaptive.rate",
    "admission.adaptive.caches",
    "triggers.timeout",
    "triggers.read_share",
    "partition.window",
    "partition.lifetime_years",
    "climb.every",
    "climb.caps.lifetime_years",
    "climb.caps.fast_writes_per_day",
    "climb.wear",
    "seed.value",
];

fn check(bytes: &[u8]) {
    let mut left = bytes.iter().copied();
    let mut byte = move || left.next().unwrap_or(0);
    let mut text = DESIGNS[usize::from(byte()) % DESIGNS.len()].as_bytes().to_vec();
    for _ in 0..byte() % 6 {
        let at = (usize::from(byte()) << 8 | usize::from(byte())) % text.len().max(1);
        let word = WORDS[usize::from(byte()) % WORDS.len()].as_bytes();
        match byte() % 4 {
            0 => text[at] = byte(),
            1 => drop(text.splice(at..at, word.iter().copied())),
            2 => drop(text.drain(at..(at + usize::from(byte() % 40)).min(text.len()))),
            // Replaces a value.
            _ => {
                let from = text[at..].iter().position(|b| *b == b'=').map_or(at, |more| at + more + 1);
                let to = text[from..].iter().position(|b| *b == b'\n').map_or(text.len(), |more| from + more);
                drop(text.splice(from..to, word.iter().copied()));
            }
        }
    }
    let overrides: Vec<String> = (0..byte() % 4)
        .map(|_| {
            format!(
                "{}={}",
                KEYS[usize::from(byte()) % KEYS.len()],
                WORDS[usize::from(byte()) % WORDS.len()].trim_matches('"')
            )
        })
        .collect();
    match Design::parse(&String::from_utf8_lossy(&text), "design.toml", &overrides) {
        Ok(design) => drop(design.config()),
        Err(error) => {
            let line = error.to_string();
            assert!(!line.is_empty() && line.lines().count() == 1, "not one line: {line:?}");
        }
    }
}

peryton_fuzz::target!(check);
