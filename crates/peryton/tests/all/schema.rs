//! The JSON Schema of reports: it is generated from the types, shipped in `docs/`, and true of real reports.

use std::{collections::BTreeSet, fs};

use crate::common::{folder, peryton, repository};
use serde_json::{Value, json};

/// The schema, in which unknown keys are errors.
fn strict(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(strict),
        Value::Object(object) => {
            if object.get("properties").is_some_and(Value::is_object) {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
            object.values_mut().for_each(strict);
        }
        _ => {}
    }
}

fn schema() -> Value {
    let folder = tempfile::tempdir().unwrap();
    serde_json::from_str(&peryton(folder.path(), &["schema"]).ok().out).unwrap()
}

/// Reports of designs of every kind that has figures of its own.
fn reports() -> Vec<Value> {
    let folder = folder();
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let caching = read("caching.toml");
    let devices = caching.split("[placement]").next().unwrap().to_owned();
    write(
        "adaptive.toml",
        format!(
            "{caching}[admission]\nby = 'probability'\nadaptive = {{ rate = 0.5, caches = 2, frame = 100, target_latency = '1ms' }}\n"
        ),
    );
    write("climbing.toml", format!("{}[climb]\nevery = '100ms'\nrequests = 20\n", read("tiering.toml")));
    write("partitioned.toml", devices.clone() + "[placement]\nmode = 'partitioned'\nfast = 'ssd'\nslow = 'hdd'\n");
    write("linear.toml", devices.clone() + "[placement]\nmode = 'linear'\n");
    write("steady.toml", "[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[placement]\nmode = 'single'\n".to_owned());
    let flash = |model: &str| {
        format!(
            "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '64MiB'\nmodel = {{ {model} }}\n[placement]\nmode = 'single'\n"
        )
    };
    write("merging.toml", flash("ftl = 'log-block'"));
    write("mapping.toml", flash("ftl = 'demand-cached', map_cache = '4KiB'"));
    write("levelling.toml", flash("wear_gap = 2"));
    let log = "[devices.log]\nprofile = 'seagate-st32000641as'\nsize = '32MiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\n\
               size = '64MiB'\nmodel = { precondition = 'random' }\n\
               [placement]\nmode = 'logging'\nprimary = 'ssd'\nlog = 'log'\n[triggers]\nsize = '1MiB'\n";
    write("logging.toml", log.to_owned());
    write("volumes.toml", "[volume]\ncount = 2\nrequests = 'same'\n".to_owned() + &read("logging.toml"));
    write(
        "below.toml",
        format!("{caching}[page_cache]\nsize = '8MiB'\ndirty_expire = '100ms'\nwriteback_interval = '50ms'\n"),
    );
    for inner in ["logging", "caching"] {
        write(
            &format!("{inner}-inside.toml"),
            format!("[devices.home]\ndesign = '{inner}.toml'\n[placement]\nmode = 'single'\n"),
        );
    }
    write("array.toml", "[devices.hdd]\nprofile = 'seagate-st32000641as'\ncount = 3\nredundancy = 'raid5'\nsize = '64MiB'\n[placement]\nmode = 'single'\n".to_owned());
    write(
        "shingled.toml",
        "[volume]\nsize = '64MiB'\n[devices.hdd]\nprofile = 'wd-ultrastar-dc-hc680-28tb'\n[placement]\nmode = 'single'\n".to_owned(),
    );
    // Flushes, discards, requests that do not fit, and one without a length.
    let mut trace = read("trace.csv");
    for n in 0u64..300 {
        trace += &format!(
            "{},F,0,0\n{},D,{},65536\n{},W,999999995904,4096\n",
            n * 5000,
            n * 5000 + 1,
            n * 65536,
            n * 5000 + 2
        );
    }
    trace += "7,R,0,0\n";
    let mut lines: Vec<&str> = trace.lines().skip(1).collect();
    lines.sort_by_key(|line| line.split(',').next().unwrap().parse::<u64>().unwrap());
    write("mixed.csv", format!("time_us,op,offset,length\n{}\n", lines.join("\n")));
    let mut all = Vec::new();
    let mut run = |args: &[&str]| {
        let out = peryton(folder.path(), &[args, &["--json", "-"]].concat()).ok().out;
        all.extend(serde_json::from_str::<Vec<Value>>(&out).unwrap());
    };
    let designs = [
        "single.toml",
        "linear.toml",
        "tiering.toml",
        "caching.toml",
        "adaptive.toml",
        "climbing.toml",
        "partitioned.toml",
        "logging.toml",
        "volumes.toml",
        "array.toml",
        "shingled.toml",
        "below.toml",
        "merging.toml",
        "mapping.toml",
        "levelling.toml",
        "logging-inside.toml",
        "caching-inside.toml",
    ];
    let sim = [&["sim"], &designs[..], &["--trace", "mixed.csv"]].concat();
    run(&[&sim[..], &["--fit", "wrap", "--interval", "100ms", "--set", "seed.value=3"]].concat());
    run(&[&sim[..], &["--fit", "skip", "--new", "--warm-up-requests", "50", "--replay", "qd=4"]].concat());
    run(&[
        "sim",
        "mapping.toml",
        "--trace",
        "trace.csv",
        "--sensitivity",
        "--limit",
        "50",
        "--sweep",
        "seed.value=1,2",
    ]);
    run(&["sim", "single.toml", "--trace", "trace.csv", "--sample", "0.5"]);
    run(&["sim", "caching.toml", "--trace", "trace.csv", "--replicate", "2"]);
    run(&["sim", "steady.toml", "--trace", "trace.csv", "--replicate", "1"]);
    run(&["sim", "caching.toml", "--trace", "trace.csv", "--set", "load.share=0.5", "--fit", "wrap"]);
    all
}

#[test]
fn the_schema_that_is_shipped_is_that_of_the_types() {
    let folder = tempfile::tempdir().unwrap();
    let printed = peryton(folder.path(), &["schema"]).ok().out;
    let shipped = fs::read_to_string(repository().join("docs/reports.schema.json")).unwrap_or_default();
    assert!(
        printed == shipped,
        "docs/reports.schema.json is not of this source: peryton schema > docs/reports.schema.json"
    );
    let one: Value = serde_json::from_str(&peryton(folder.path(), &["schema", "--one"]).ok().out).unwrap();
    assert_eq!(one["properties"], schema()["$defs"]["Report"]["properties"]);
}

/// The fear: the schema and what is written differ.
#[test]
fn real_reports_are_what_the_schema_says() {
    let mut schema = schema();
    jsonschema::meta::validate(&schema).unwrap_or_else(|error| panic!("it is no JSON Schema: {error}"));
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    let check = |reports: &Value| -> Vec<String> {
        validator.iter_errors(reports).map(|error| format!("{}: {error:.200}", error.instance_path())).collect()
    };
    let reports = reports();
    let found = check(&json!(reports));
    assert!(found.is_empty(), "{}", found.join("\n"));

    // Keys that have to be there, that may not be null, that nothing knows, and of another type are errors.
    let broken = |change: &dyn Fn(&mut Value)| {
        let mut report = reports[2].clone();
        change(&mut report);
        check(&json!([report])).join("\n")
    };
    for (key, value) in [
        ("requests", None),
        ("devices", None),
        ("warnings", None),
        ("iops", Some(Value::Null)),
        ("moves", Some(Value::Null)),
        ("requests", Some(json!(-1))),
        ("requests", Some(json!(1.5))),
        ("energy_j", Some(json!("much"))),
        ("colour", Some(json!("red"))),
    ] {
        let errors = broken(&|report| {
            let report = report.as_object_mut().unwrap();
            match &value {
                None => drop(report.remove(key)),
                Some(value) => drop(report.insert(key.to_owned(), value.clone())),
            }
        });
        assert!(errors.contains(key), "{key} = {value:?}: '{errors}'");
    }
    let deep = broken(&|report| drop(report["devices"]["ssd"].as_object_mut().unwrap().remove("busy_s")));
    assert!(deep.contains("busy_s"), "{deep}");

    absent_where_they_do_not_apply(&reports);
    every_figure_of_the_schema_occurs(&schema, &reports);
}

fn absent_where_they_do_not_apply(reports: &[Value]) {
    let of = |design: &str| reports.iter().find(|report| report["design"] == design).unwrap();
    for (key, has) in [
        ("fast_hit_ratio", &["tiering", "caching", "partitioned"][..]),
        ("moves", &["tiering", "caching", "partitioned"]),
        ("bypasses", &["tiering", "caching", "adaptive", "climbing"]),
        ("admission", &["adaptive"]),
        ("climb", &["climbing"]),
        ("partition", &["partitioned"]),
        ("logging", &["logging", "volumes"]),
        ("ftl_bounds", &["logging", "volumes"]),
        ("volumes", &["volumes"]),
        ("redundancy", &["array"]),
    ] {
        for design in [
            "single",
            "linear",
            "tiering",
            "caching",
            "adaptive",
            "climbing",
            "partitioned",
            "logging",
            "volumes",
            "array",
        ] {
            // These two are caching and tiering.
            let also = matches!((key, design), ("fast_hit_ratio" | "moves", "adaptive" | "climbing"));
            assert_eq!(of(design).get(key).is_some(), has.contains(&design) || also, "{key} of {design}");
        }
    }
    let single = of("single");
    assert!(single["devices"]["ssd"].get("standby_s").is_none(), "a device with constant latencies has no standby");
}

/// The fear: the schema describes keys that are never written, or under other names.
fn every_figure_of_the_schema_occurs(schema: &Value, reports: &[Value]) {
    fn visit(schema: &Value, at: &Value, value: &Value, seen: &mut BTreeSet<String>) {
        let target = at["$ref"].as_str().map_or(at, |place| schema.pointer(&place[1..]).unwrap());
        let name = at["$ref"].as_str().unwrap_or("");
        match value {
            Value::Array(items) => items.iter().for_each(|item| visit(schema, &target["items"], item, seen)),
            Value::Object(map) => map.iter().for_each(|(key, value)| match target["properties"].get(key) {
                Some(property) => {
                    seen.insert(format!("{name}/{key}"));
                    visit(schema, property, value, seen);
                }
                None => visit(schema, &target["additionalProperties"], value, seen),
            }),
            _ => {}
        }
    }
    let mut seen = BTreeSet::new();
    visit(schema, schema, &json!(reports), &mut seen);
    // What a served volume answers is in a test of its own (`live_page.rs`), as plans of fleets are (`fleet.rs`); health and wear of
    // devices need devices.
    let is_elsewhere = |name: &str| name.starts_with("Live") || name.starts_with("Fleet");
    let others = ["PathHealth", "DriveHealth", "DriveEstimates", "DriveWarning", "DeviceEndurance", "DeviceWear"];
    let simulated = schema["$defs"].as_object().unwrap().iter();
    let simulated = simulated.filter(|(name, _)| !is_elsewhere(name) && !others.contains(&name.as_str()));
    let defined = simulated.flat_map(|(name, definition)| {
        let keys = definition["properties"].as_object().into_iter().flatten();
        keys.map(move |(key, _)| format!("#/$defs/{name}/{key}"))
    });
    // What needs damage, much time, or another device.
    let rare = [
        "LoggingStats/damaged_bytes",
        "Report/failed_requests",
        "VolumeReport/failed_requests",
        "FtlStats/slc_cache_used",
        "PageCacheReport/failed_writes",
        // Several volumes share a log, and logs have neither.
        "VolumeReport/admission",
        "VolumeReport/climb",
    ];
    let never: Vec<String> =
        defined.filter(|key| !seen.contains(key) && !rare.iter().any(|rare| key.ends_with(rare))).collect();
    assert!(never.is_empty(), "no report has {never:?}");
}

#[test]
fn the_health_of_a_path_is_what_its_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("volume.img"), [0; 4096]).unwrap();
    let printed = |words: &[&str]| serde_json::from_str::<Value>(&peryton(folder.path(), words).out).unwrap();
    let found = printed(&["health", "volume.img", "--json"]);
    jsonschema::validate(&printed(&["schema", "--health"]), &found).unwrap();
    // What lies beneath a file depends on the machine: drives, or the reasons why there are none.
    assert_eq!(found[0]["path"], "volume.img");
    let entries = |key: &str| found[0][key].as_array().map_or(0, Vec::len);
    assert!(entries("drives") + entries("not_read") > 0, "{found}");
}
