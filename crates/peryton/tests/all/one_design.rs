//! One design: what commands write has no values of their own, and what the planner writes is what it simulated. The fear: a plan of one
//! design, a volume of another, and settings that depend on which command made the file.

use std::{
    fs::{self, File},
    path::Path,
};

use crate::common::{folder, peryton, repository};
use serde_json::Value;

/// The keys of a placement that are no settings with a default: what was asked for, and what formatting fixes.
const ASKED: [&str; 9] = ["mode", "device", "devices", "fast", "slow", "primary", "log", "write", "extent"];

/// Checks that a design has no setting of its own, and the extent that the rule gives.
fn has_defaults_alone(path: &Path) {
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let placement = table["placement"].as_table().unwrap();
    let own: Vec<&String> = placement.keys().filter(|key| !ASKED.contains(&key.as_str())).collect();
    assert!(own.is_empty(), "{}: {own:?}", path.display());
    for name in ["admission", "climb", "partition", "triggers", "endurance"] {
        assert!(!table.contains_key(name), "{}: [{name}]", path.display());
    }
    let Some(extent) = placement.get("extent").and_then(toml::Value::as_str) else { return };
    let mut without = table.clone();
    without["placement"].as_table_mut().unwrap().remove("extent");
    let has_profiles = table["devices"].as_table().unwrap().values().all(|device| device.get("profile").is_some());
    if has_profiles {
        let design = peryton_sim::Design::parse(&toml::to_string(&without).unwrap(), "without", &[]).unwrap();
        let pair = design.placement.hybrid().unwrap();
        assert_eq!(pair.extent.to_string(), extent, "{}: another extent than without the key", path.display());
    }
}

#[test]
fn no_command_writes_a_design_with_a_value_of_its_own() {
    let folder = folder();
    for (name, mib) in [("fast.img", 64), ("slow.img", 512)] {
        File::create(folder.path().join(name)).unwrap().set_len(mib << 20).unwrap();
    }
    for mode in ["caching", "tiering", "partitioned", "logging"] {
        let path = format!("{mode}.toml");
        let made = ["create", &path, "--fast", "fast.img", "--slow", "slow.img", "--mode", mode, "--force"];
        peryton(folder.path(), &made).ok();
        has_defaults_alone(&folder.path().join(&path));
    }
    for mode in ["caching", "tiering", "partitioned", "logging", "linear", "single"] {
        let path = format!("init-{mode}.toml");
        peryton(folder.path(), &["create", &path, "--mode", mode]).ok();
        has_defaults_alone(&folder.path().join(&path));
    }
    let devices = "super-talent-32gb,ibm-ultrastar-36z15";
    let plan =
        ["plan", "--trace", "trace.csv", "--devices", devices, "--latency", "1s", "--runners-up", "8", "--out", "out"];
    peryton(folder.path(), &plan).ok();
    let written = fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().path());
    let designs: Vec<_> = written.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    assert!(designs.len() > 3, "{designs:?}");
    designs.iter().for_each(|path| has_defaults_alone(path));
    fs::create_dir(folder.path().join("recordings")).unwrap();
    for name in ["recordings/a.csv", "recordings/b.csv"] {
        fs::copy(folder.path().join("trace.csv"), folder.path().join(name)).unwrap();
    }
    let fleet = ["plan", "--fleet", "recordings", "--devices", devices, "--latency", "1s", "--out", "fleet"];
    peryton(folder.path(), &fleet).ok();
    for volume in ["a", "b"] {
        has_defaults_alone(&folder.path().join(format!("fleet/drive-1/{volume}.toml")));
    }
    for entry in fs::read_dir(repository().join("examples/designs")).unwrap() {
        has_defaults_alone(&entry.unwrap().path());
    }
}

#[test]
fn a_volume_is_made_with_the_extent_that_fits_and_any_key_can_be_set() {
    let folder = folder();
    for (name, mib) in [("fast.img", 64), ("slow.img", 512)] {
        File::create(folder.path().join(name)).unwrap().set_len(mib << 20).unwrap();
    }
    let make = |more: &[&str]| {
        let all = [&["create", "volume.toml", "--force", "--json", "--fast", "fast.img", "--slow", "slow.img"], more]
            .concat();
        let value: Value = serde_json::from_str(&peryton(folder.path(), &all).ok().out).unwrap();
        value
    };
    let made = make(&[]);
    assert_eq!(made["extent_bytes"], 16 << 10, "{made}");
    assert!(made["map_bytes"].as_u64().unwrap() > 0);
    let set = ["--set", "placement.extent=64KiB", "--set", "placement.promotion.threshold=2"];
    let made = make(&set);
    assert_eq!(made["extent_bytes"], 64 << 10, "{made}");
    let text = fs::read_to_string(folder.path().join("volume.toml")).unwrap();
    assert!(text.contains("threshold = 2") && text.contains("# "), "{text}");
    // What the volume was made with counts, also where the file does not say it.
    fs::write(folder.path().join("volume.toml"), text.replace("extent = \"64KiB\"", "")).unwrap();
    peryton(folder.path(), &["check", "volume.toml"]).ok();
}

/// Checks that the other verbs find the figures of a plan in its file: on a sample about the same, and the same where they measure the same.
fn says_what_the_plan_says(folder: &Path, design: &str, planned: &Value, plan: &Value) {
    let json = |words: &[&str]| -> Value {
        let all = [words, &["--trace", "load.toml", "--json"]].concat();
        serde_json::from_str(&peryton(folder, &all).ok().out).unwrap()
    };
    let sim = ["sim", design, "--trace", "load.toml", "--warm-up-requests", "30000", "--sample", "0.3", "--json", "-"];
    let report: Value = serde_json::from_str(&peryton(folder, &sim).ok().out).unwrap();
    let figures = &report[0]["sample"]["figures"];
    for (name, planned, scale) in
        [("latency_us.all.mean", &planned["mean_ms"], 1e3), ("fast_hit_ratio", &planned["fast_hit_ratio"], 1.0)]
    {
        let planned = planned.as_f64().unwrap() * scale;
        let (low, high) = (figures[name]["low"].as_f64().unwrap(), figures[name]["high"].as_f64().unwrap());
        assert!((low..=high).contains(&planned), "{design} {name}: {planned} planned, {low} to {high} by a sample");
    }
    // The other verbs ask the same of the same file, without a word more.
    let size = json(&["size", "--design", design, "--points", "3"]);
    let own = size["points"].as_array().unwrap().iter().find(|point| point["size_bytes"] == size["design_bytes"]);
    let tuned = json(&["tune", design, "--evaluations", "1", "--knob", "placement.max_moves=4,64", "--only"]);
    for (verb, found) in [("size", own.unwrap()), ("tune", &tuned["before"])] {
        for figure in ["mean_ms", "p99_ms", "fast_hit_ratio", "lifetime_years"] {
            assert_eq!(found[figure], planned[figure], "{figure} of {verb}, {design}");
        }
    }
    assert_eq!(
        (&size["simulated_share"], &tuned["simulated_share"]),
        (&plan["simulated_share"], &plan["simulated_share"])
    );
}

/// The fear: the planner's small simulation says one thing, and its own file in full size another.
#[test]
fn the_written_design_in_full_size_on_a_sample_gives_the_figures_of_the_plan() {
    let folder = folder();
    let spec = "requests = 60000\nfootprint = '1GiB'\nread_share = 0.7\narrival = { kind = 'poisson', mean = '12ms' }\nsize = '4KiB'\n\
                address = { kind = 'zipf', exponent = 0.9, extent = '64KiB' }\n";
    fs::write(folder.path().join("load.toml"), spec).unwrap();
    let devices = "intel-optane-p4800x-375gb,intel-320-300gb,seagate-st4000dm000";
    let plan = [
        "plan",
        "--trace",
        "load.toml",
        "--devices",
        devices,
        "--latency",
        "8ms",
        "--lifetime",
        "1y",
        "--no-flash-need",
        "--capacity",
        "1TB",
        "--active",
        "4GiB",
        "--duty",
        "20%",
    ];
    let out = ["--out", "out", "--json", "--runners-up", "6"];
    let plan: Value = serde_json::from_str(&peryton(folder.path(), &[&plan[..], &out].concat()).ok().out).unwrap();
    let chosen = std::iter::once(&plan["best"]).chain(plan["runners_up"].as_array().unwrap());
    let hybrid = chosen.into_iter().find(|one| one["mode"] == "caching-back").expect("a cache is among them");
    let design = format!("out/{}.toml", hybrid["design"].as_str().unwrap());
    assert!(plan["simulated_share"].as_f64().unwrap() < 0.3, "{}", plan["simulated_share"]);
    says_what_the_plan_says(folder.path(), &design, hybrid, &plan);
    let simulated = plan["simulated"].as_array().unwrap();
    let three_tiers = simulated.iter().find(|one| one["design"] == plan["three_tiers"]).expect("they are among them");
    assert!(three_tiers["slow_mode"].is_string() && three_tiers["devices"].as_array().unwrap().len() == 3);
    fs::write(folder.path().join("three.toml"), three_tiers["design_toml"].as_str().unwrap()).unwrap();
    says_what_the_plan_says(folder.path(), "three.toml", three_tiers, &plan);
    // A recording of the whole volume is none of the traces that have a share of the load.
    let whole = "time_us,op,offset,length\n0,R,0,4096\n9000,R,900000002048,4096\n";
    fs::write(folder.path().join("whole.csv"), whole).unwrap();
    peryton(folder.path(), &["sim", &design, "--trace", "whole.csv"]).fails(2, &["load.span", "[load]"]);
}

#[test]
fn a_trace_without_times_is_planned_at_no_pace_that_nobody_named() {
    let folder = folder();
    let lines: String = (0..400).map(|number| format!("{} 1 0 {number}\n", number * 37 % 97 * 8)).collect();
    fs::write(folder.path().join("order.lis"), lines).unwrap();
    let plan = ["plan", "--devices", "super-talent-32gb,ibm-ultrastar-36z15", "--trace", "order.lis"];
    let size = ["size", "--design", "caching.toml", "--trace", "order.lis"];
    let tune = ["tune", "caching.toml", "--trace", "order.lis", "--evaluations", "4"];
    for verb in [&plan[..], &size, &tune] {
        peryton(folder.path(), verb).fails(2, &["no times", "--replay qd=N"]);
        let paced = peryton(folder.path(), &[verb, &["--replay", "qd=2"]].concat()).said();
        assert!(paced.err.contains("has no times"), "{}", paced.err);
    }
    peryton(folder.path(), &["energy", "--trace", "order.lis"]).fails(2, &["no times", "--peak"]);
    let sim = peryton(folder.path(), &["sim", "caching.toml", "--trace", "order.lis"]).ok();
    assert!(sim.out.contains("the trace has no times") && sim.out.contains("a million a second"), "{}", sim.out);
}

#[test]
fn a_tier_is_in_use_unless_the_volume_is_new() {
    let folder = folder();
    let sim = |more: &[&str]| -> Value {
        let all = [&["sim", "tiering.toml", "--trace", "trace.csv", "--json", "-"], more].concat();
        serde_json::from_str::<Value>(&peryton(folder.path(), &all).ok().out).unwrap()[0].clone()
    };
    let (used, new) = (sim(&[]), sim(&["--new"]));
    assert!(
        used["fast_hit_ratio"].as_f64() < new["fast_hit_ratio"].as_f64(),
        "{} {}",
        used["fast_hit_ratio"],
        new["fast_hit_ratio"]
    );
    assert!(used.get("new_volume").is_none() && new["new_volume"] == true);
}

#[test]
fn what_nothing_meets_is_answered_by_what_would_have_to_give() {
    let folder = folder();
    let plan = ["plan", "--trace", "trace.csv", "--devices", "ibm-ultrastar-36z15", "--speed", "20"];
    let run = peryton(folder.path(), &[&plan[..], &["--latency", "50ms"]].concat());
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(run.out.contains("Nothing meets this") && run.out.contains("the load: "), "{}", run.out);
    assert!(
        !run.out.contains("lifetime") && !run.out.contains('─'),
        "a table of figures that mean nothing:\n{}",
        run.out
    );
    let json = peryton(folder.path(), &[&plan[..], &["--latency", "50ms", "--json"]].concat());
    let value: Value = serde_json::from_str(&json.out).unwrap();
    let load = &value["infeasible"]["gives"][0];
    assert_eq!((&load["what"], &value["infeasible"]["overloaded"]), (&"load".into(), &true.into()), "{value}");
    assert!((0.001..1.0).contains(&load["share"].as_f64().unwrap()), "{load}");
}

#[test]
fn a_load_that_is_not_always_there_wears_so_much_less() {
    let folder = folder();
    let plan = |more: &[&str]| -> Value {
        let devices = [
            "plan",
            "--trace",
            "trace.csv",
            "--devices",
            "super-talent-32gb",
            "--most",
            "1",
            "--latency",
            "1s",
            "--json",
        ];
        serde_json::from_str(&peryton(folder.path(), &[&devices[..], more].concat()).ok().out).unwrap()
    };
    let years = |plan: &Value| plan["best"]["lifetime_years"].as_f64().unwrap();
    let (always, seldom) = (plan(&[]), plan(&["--duty", "5%", "--out", "out"]));
    assert!((years(&seldom) / years(&always) / 20.0 - 1.0).abs() < 1e-9);
    let design = format!("out/{}.toml", seldom["best"]["design"].as_str().unwrap());
    let warm_up = (seldom["workload"]["requests"].as_u64().unwrap() / 2).to_string();
    let sim = |more: &[&str]| -> Value {
        let words = ["sim", &design, "--trace", "trace.csv", "--warm-up-requests", &warm_up, "--json", "-"];
        serde_json::from_str(&peryton(folder.path(), &[&words[..], more].concat()).ok().out).unwrap()
    };
    let found = sim(&[]);
    assert_eq!(
        found[0]["lifetime_years"], seldom["best"]["lifetime_years"],
        "the design says how long the load goes on"
    );
    let warnings = found[0]["warnings"].to_string();
    assert!(warnings.contains("goes on for 5 % of the time (load.duty)"), "{warnings}");
    let low = |report: &Value| report[0]["lifetime_years_low"].as_f64().unwrap();
    assert!((low(&found) / low(&sim(&["--set", "load.duty=1"])) / 20.0 - 1.0).abs() < 1e-9);
    peryton(folder.path(), &["sim", &design, "--trace", "trace.csv", "--set", "load.duty=2"])
        .fails(2, &["load.duty", "is 2"]);
    let written = always["workload"]["written_bytes"].as_f64().unwrap()
        / always["workload"]["span_s"].as_f64().unwrap()
        * 86_400.0;
    let day = plan(&["--per-day", &format!("{}B", (written / 10.0) as u64)]);
    assert!((years(&day) / years(&always) / 10.0 - 1.0).abs() < 1e-6);
    let devices = ["plan", "--trace", "trace.csv", "--devices", "super-talent-32gb", "--per-day", "1PB"];
    peryton(folder.path(), &devices).fails(2, &["--per-day", "for a day"]);
}

#[test]
fn prices_of_a_file_count_and_the_plan_says_where_the_answer_changes() {
    let folder = folder();
    fs::write(
        folder.path().join("prices.csv"),
        "name,usd\nsuper-talent-32gb,64\nibm-ultrastar-36z15,20\nintel-320-300gb,9\n",
    )
    .unwrap();
    let plan = [
        "plan",
        "--trace",
        "trace.csv",
        "--devices",
        "super-talent-32gb,ibm-ultrastar-36z15",
        "--latency",
        "1s",
        "--speed",
        "0.02",
    ];
    let found = peryton(folder.path(), &[&plan[..], &["--prices", "prices.csv", "--json"]].concat()).ok().out;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["best"]["dollars"], 20.0, "{}", found["best"]["label"]);
    let turn = &found["turns"]["cheaper_flash"];
    assert!((turn["factor"].as_f64().unwrap() - 20.0 / 64.0).abs() < 1e-9, "{turn}");
    let text = peryton(folder.path(), &[&plan[..], &["--prices", "prices.csv"]].concat()).ok().out;
    assert!(text.contains("This holds until flash costs less than") && text.contains("of data"), "{text}");
    for (bad, part) in [
        ("name,usd\nx,1\n", "no device or class is called 'x'"),
        ("name,usd\nfixed,-1\n", ":2: usd = -1: expected dollars above 0"),
        ("name,eur\nfixed,1\n", ":1: unknown column 'eur'"),
        ("fixed,1\n", ":1: unknown column 'fixed'"),
        ("", "no line"),
    ] {
        fs::write(folder.path().join("bad.csv"), bad).unwrap();
        peryton(folder.path(), &[&plan[..], &["--prices", "bad.csv"]].concat()).fails(2, &["bad.csv", part]);
    }
}
