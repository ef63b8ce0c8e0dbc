//! `peryton plan --fleet`: many volumes on few drives.

use std::{fs, path::Path};

use crate::common::{folder, peryton};
use serde_json::Value;

/// Small devices that are simulated fast: a disk and flash of MixedStore.
const DEVICES: &[&str] = &["--devices", "super-talent-32gb,ibm-ultrastar-36z15"];

/// A volume that is busy in the first or in the second half of a minute.
fn spec(folder: &Path, name: &str, seed: u64, is_late: bool) {
    let busy = "[[phases]]\nrequests = 1500\narrival = { kind = 'poisson', mean = '20ms' }\n";
    let idle = "[[phases]]\nrequests = 60\narrival = { kind = 'poisson', mean = '500ms' }\n";
    let phases = if is_late { [idle, busy] } else { [busy, idle] }.concat();
    let text = format!(
        "footprint = '1GiB'\nread_share = 0.7\nsize = '8KiB'\nseed = {seed}\naddress = {{ kind = 'zipf', exponent = 1.0, extent = '64KiB' }}\n{phases}"
    );
    fs::write(folder.join(name), text).expect("the folder is there");
}

fn fleet(folder: &Path, late: &[bool]) {
    let recordings = folder.join("recordings");
    fs::create_dir(&recordings).expect("the folder is new");
    for (number, is_late) in late.iter().enumerate() {
        spec(&recordings, &format!("v{number}.toml"), number as u64 + 1, *is_late);
    }
}

fn plan(folder: &Path, more: &[&str]) -> Value {
    let run = peryton(folder, &[&["plan", "--fleet", "recordings"], DEVICES, more, &["--json"]].concat()).ok();
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out))
}

#[test]
fn each_volume_is_on_one_drive_that_was_simulated_whatever_the_number_of_threads() {
    let folder = folder();
    fleet(folder.path(), &[false, true, false, true]);
    let found = plan(folder.path(), &["--latency", "20ms", "--jobs", "1", "--out", "out", "--report", "page.html"]);
    let again = plan(folder.path(), &["--latency", "20ms", "--jobs", "3"]);
    let without = |found: &Value| {
        let mut found = found.clone();
        found.as_object_mut().unwrap().remove("command");
        found
    };
    assert_eq!(without(&found), without(&again), "the number of threads changes the plan");
    assert_eq!((&found["meets"], &found["exact"], &found["one_clock"]), (&true.into(), &true.into(), &true.into()));
    let volumes = found["volumes"].as_array().unwrap();
    let drives = found["drives"].as_array().unwrap();
    for (number, volume) in volumes.iter().enumerate() {
        assert_eq!(volume["volume"], format!("v{number}"));
        let on: Vec<&Value> =
            drives.iter().filter(|drive| drive["volumes"].as_array().unwrap().contains(&volume["volume"])).collect();
        assert!(on.len() == 1 && on[0]["drive"] == volume["drive"], "{volume}");
        let mean = volume["mean_ms"].as_f64().unwrap();
        assert!(mean > 0.0 && mean <= 20.0 && volume["predicted_mean_ms"].as_f64().unwrap() > 0.0, "{volume}");
    }
    let usd = |name: &str| found[name].as_f64().unwrap();
    let sum: f64 = drives.iter().map(|drive| drive["usd"].as_f64().unwrap()).sum();
    assert!((usd("usd") - sum).abs() < 1e-6 && usd("usd") < usd("alone_usd"), "{found}");
    // What is written is the part that was simulated, and a row a volume stands on the page.
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    for volume in volumes {
        let name = volume["volume"].as_str().unwrap();
        let file = format!("out/drive-{}/{name}.toml", volume["drive"]);
        let written = fs::read_to_string(folder.path().join(&file)).unwrap();
        assert!(written.ends_with(volume["design_toml"].as_str().unwrap()), "{file}");
        assert!(page.contains(&format!(">{name}</td>")), "{name} has no row");
    }
}

/// Makes unknown keys errors.
fn strict(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(strict),
        Value::Object(object) => {
            if object.get("properties").is_some_and(Value::is_object) {
                object.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            object.values_mut().for_each(strict);
        }
        _ => {}
    }
}

#[test]
fn json_is_as_the_schema_says() {
    let folder = folder();
    fleet(folder.path(), &[false, true]);
    let mut schema: Value = serde_json::from_str(&peryton(folder.path(), &["schema", "--fleet"]).ok().out).unwrap();
    strict(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap();
    for latency in ["1s", "1us"] {
        let run = peryton(
            folder.path(),
            &[&["plan", "--fleet", "recordings", "--latency", latency, "--json"], DEVICES].concat(),
        );
        let found: Value = serde_json::from_str(&run.out).unwrap();
        let errors: Vec<String> = validator.iter_errors(&found).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{latency}: {errors:?}");
    }
}

/// The fear: a question that nothing can meet is answered with a table of nonsense.
#[test]
fn what_cannot_be_met_is_said_with_what_would_have_to_give() {
    let folder = folder();
    fleet(folder.path(), &[false, true, true]);
    let ask = |more: &[&str]| peryton(folder.path(), &[&["plan", "--fleet", "recordings"], DEVICES, more].concat());
    for (more, parts) in [
        (&["--latency", "1us"][..], &["no drive carries 3 of 3 volumes", "comes nearest", "loosen the budgets"][..]),
        (&["--most", "1", "--fill-limit", "2%"], &["no drive has room for 3 of 3 volumes", "raise --most"]),
        (&["--subject-to", "dollars<=1"], &["the budget is 1 USD"]),
    ] {
        let run = ask(more);
        assert_eq!(run.code, 1, "{more:?}: {}", run.err);
        let lines: Vec<&str> = run.out.lines().filter(|line| line.starts_with("Nothing meets this: ")).collect();
        assert_eq!(lines.len(), 1, "{}", run.out);
        parts.iter().for_each(|part| assert!(lines[0].contains(part), "{part}: {}", lines[0]));
        assert!(!run.out.contains("predicted"), "{}", run.out);
    }
}

#[test]
fn rubbish_in_the_folder_and_questions_for_one_volume_are_one_clear_line() {
    let folder = folder();
    let path = folder.path();
    for name in ["empty", "one", "rubbish", "several"] {
        fs::create_dir(path.join(name)).unwrap();
    }
    spec(&path.join("one"), "only.toml", 1, false);
    spec(&path.join("rubbish"), "good.toml", 1, false);
    fs::write(path.join("rubbish/notes.txt"), "these are no requests\nat all\n").unwrap();
    spec(&path.join("several"), "good.toml", 1, false);
    fs::write(path.join("several/two.csv"), "time_us,volume,op,offset,length\n0,7,R,0,512\n5,2,R,0,512\n").unwrap();
    fs::write(path.join("alone.csv"), "time_us,volume,op,offset,length\n0,7,R,0,512\n5,7,R,0,512\n").unwrap();
    fleet(path, &[false, true]);
    for (words, parts) in [
        (&["--fleet", "empty"][..], &["empty: no recordings in this folder"][..]),
        (&["--fleet", "one"], &["one: one recording in this folder"]),
        (&["--fleet", "rubbish"], &["notes.txt", "take the file out of the folder"]),
        (&["--fleet", "several"], &["two.csv", "the volumes 7 and 2"]),
        (&["--fleet", "alone.csv"], &["alone.csv has requests of one volume", "--trace"]),
        (&["--fleet", "nothing"], &["nothing"]),
        (&["--fleet", "recordings", "--subject-to", "p99<=10ms"], &["p99 ≤ 10 ms: is no budget of a fleet", "latency"]),
        (&["--fleet", "recordings", "--objective", "power"], &["power: is no objective of a fleet"]),
        (&["--fleet", "recordings", "--replay", "qd=8"], &["--replay"]),
        (&["--fleet", "recordings", "--capacity", "1TB"], &["--fleet", "--capacity"]),
    ] {
        let run = peryton(path, &[&["plan"], words, DEVICES].concat());
        assert!(run.code != 0 && run.out.is_empty(), "{words:?}: {}", run.out);
        assert_eq!(run.err.trim_end().lines().count(), 1, "{words:?}: {}", run.err);
        parts.iter().for_each(|part| assert!(run.err.contains(part), "{words:?}: {part}: {}", run.err));
    }
}

/// The fear: a trace that names its volumes is another fleet than a folder with each of them.
#[test]
fn a_trace_with_volumes_is_planned_as_a_folder_of_them() {
    let folder = folder();
    let path = folder.path();
    fs::create_dir(path.join("recordings")).unwrap();
    let mut whole = "time_us,volume,op,offset,length\n".to_owned();
    let mut each = [whole.clone(), whole.clone(), whole.clone()];
    for n in 0..3_000u64 {
        let volume = n % 3;
        let line = format!(
            "{},{volume},{},{},4096\n",
            n * 2_000,
            if n.is_multiple_of(7) { "W" } else { "R" },
            n * 7919 % 50_000 * 4096
        );
        whole += &line;
        each[volume as usize] += &line;
    }
    fs::write(path.join("whole.csv"), whole).unwrap();
    for (number, text) in each.iter().enumerate() {
        fs::write(path.join(format!("recordings/{number}.csv")), text).unwrap();
    }
    let drives = |fleet: &str| {
        let run = peryton(path, &[&["plan", "--fleet", fleet, "--latency", "50ms", "--json"], DEVICES].concat()).ok();
        let found: Value = serde_json::from_str(&run.out).unwrap();
        (found["drives"].clone(), found["volumes"].clone())
    };
    assert_eq!(drives("whole.csv"), drives("recordings"));
}
