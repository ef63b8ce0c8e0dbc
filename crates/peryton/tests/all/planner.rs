//! `peryton plan`.

use crate::common::{folder, peryton};
use serde_json::Value;

/// A catalogue of the disk and the flash of MixedStore, of which every design can be tried.
const PLAN: &[&str] = &["plan", "--trace", "trace.csv", "--devices", "super-talent-32gb,ibm-ultrastar-36z15"];

fn plan(folder: &std::path::Path, more: &[&str]) -> Value {
    asked(folder, &[PLAN, more].concat())
}

fn asked(folder: &std::path::Path, plan: &[&str]) -> Value {
    let run = peryton(folder, &[plan, &["--json"]].concat()).ok();
    assert!(run.err.is_empty(), "a pipe gets no progress: {}", run.err);
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out))
}

#[test]
fn a_report_has_what_it_promises_and_nothing_that_does_not_apply() {
    let folder = folder();
    let found = plan(folder.path(), &["--latency", "100s", "--lifetime", "1d", "--runners-up", "2"]);
    let best = &found["best"];
    for key in [
        "design",
        "label",
        "mode",
        "devices",
        "meets",
        "strain",
        "mean_ms",
        "p99_ms",
        "power_w",
        "dollars",
        "ownership_usd",
    ] {
        assert!(!best[key].is_null(), "{key} is missing: {best}");
    }
    assert_eq!(best["meets"], Value::Bool(true));
    assert_eq!(found["runners_up"].as_array().map(Vec::len), Some(2));
    let limits: Vec<f64> =
        found["constraints"].as_array().into_iter().flatten().filter_map(|one| one["limit"].as_f64()).collect();
    assert_eq!(limits, [100_000.0, 1.0 / 365.25]);
    for budget in found["budgets"].as_array().into_iter().flatten() {
        assert!(budget["without"]["objective"].is_number() && budget["without"].get("limit").is_none(), "{budget}");
        assert!(budget["loosened"]["limit"].is_number() && budget["tightened"]["limit"].is_number(), "{budget}");
    }
    assert!(found.get("infeasible").is_none());
    // A disk that is not spun down does not wear.
    let disk =
        found["simulated"].as_array().into_iter().flatten().find(|one| one["design"] == "single_ibm-ultrastar-36z15");
    assert!(disk.is_some_and(|disk| disk.get("lifetime_years").is_none() && disk["mode"] == "single"), "{found}");
}

/// Plans into a folder, runs the commands in it, and compares every figure that both results have.
fn repeated(folder: &std::path::Path, more: &[&str]) -> Value {
    written(folder, &[PLAN, more, &["--latency", "1s"]].concat())
}

fn written(folder: &std::path::Path, plan: &[&str]) -> Value {
    let _ = std::fs::remove_dir_all(folder.join("out"));
    let found = asked(folder, &[plan, &["--out", "out"]].concat());
    let script = std::fs::read_to_string(folder.join("out/reproduce.sh")).expect("it was written");
    let command = script.lines().find(|line| line.starts_with("peryton ")).expect("it has a command");
    // The path of the test's folder contains no character that a shell would quote.
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let run = peryton(&folder.join("out"), &words).ok();
    // One document, whatever the number of designs.
    let reports: Vec<Value> = serde_json::from_str(&run.out).expect("reports");
    let planned: Vec<&Value> =
        std::iter::once(&found["best"]).chain(found["runners_up"].as_array().into_iter().flatten()).collect();
    assert_eq!(reports.len(), planned.len());
    let kept: Value = serde_json::from_slice(&std::fs::read(folder.join("out/plan.json")).expect("it was written"))
        .expect("it is JSON");
    assert_eq!(kept["best"], found["best"]);
    for (one, report) in planned.into_iter().zip(&reports) {
        assert_eq!(report["design"], one["design"]);
        assert_eq!(report["trace_hash"], found["trace_hash"]);
        let all = &report["latency_us"]["all"];
        let figures = [
            ("mean_ms", &all["mean"], 1e3),
            ("p50_ms", &all["p50"], 1e3),
            ("p99_ms", &all["p99"], 1e3),
            ("write_mean_ms", &report["latency_us"]["write"]["mean"], 1e3),
            ("lifetime_years", &report["lifetime_years"], 1.0),
            ("lifetime_years_low", &report["lifetime_years_low"], 1.0),
            ("lifetime_years_high", &report["lifetime_years_high"], 1.0),
            ("power_w", &report["mean_power_w"], 1.0),
            ("fast_hit_ratio", &report["fast_hit_ratio"], 1.0),
            ("dollars", &report["cost"]["devices_usd"], 1.0),
        ];
        for (key, simulated, scale) in figures {
            // Reading decimals back may lose the last bit.
            let same = match (one[key].as_f64(), simulated.as_f64()) {
                (Some(planned), Some(simulated)) => {
                    planned == simulated / scale || (simulated / scale / planned - 1.0).abs() < 1e-12
                }
                (planned, simulated) => planned.is_none() && simulated.is_none(),
            };
            assert!(same, "{command}: {key} is {simulated}, planned {}", one[key]);
        }
        // Whatever part of the data is simulated, the price is that of all.
        let (cost, gb) = (&report["cost"], report["volume_bytes"].as_f64().map(|bytes| bytes / 1e9));
        let whole = cost["devices_usd"].as_f64().zip(gb).map(|(dollars, gb)| dollars / gb);
        let per_gb = cost["usd_per_gb"].as_f64();
        assert!(
            whole.zip(per_gb).is_none_or(|(whole, per_gb)| (per_gb - whole).abs() <= whole * 1e-3),
            "{command}: {per_gb:?} and not {whole:?}"
        );
        // The file contains the command, and the version that made it.
        let name = format!("{}.toml", one["design"].as_str().expect("it is a name"));
        let file = std::fs::read_to_string(folder.join("out").join(&name)).expect("it was written");
        let options = command.split_once(" --trace ").map_or("?", |(_, options)| options.trim_end_matches(" --json -"));
        let own = format!("peryton sim {name} --trace {options}");
        for part in [
            own.as_str(),
            "peryton plan --trace",
            env!("CARGO_PKG_VERSION"),
            found["trace_hash"].as_str().unwrap_or("?"),
        ] {
            assert!(file.contains(part), "'{part}' is not in {file}");
        }
    }
    found
}

#[test]
fn the_commands_in_the_folder_give_the_figures_of_the_plan() {
    let folder = folder();
    let found = repeated(folder.path(), &["--price", "super-talent-32gb=50"]);
    assert_eq!(found["best"]["dollars"], 50.0);
    assert_eq!(found["simulated_share"], 1.0);
    // Other replay options, and devices with all figures.
    repeated(folder.path(), &["--speed", "3", "--warm-up-requests", "200"]);
    repeated(folder.path(), &["--replay", "qd=4", "--lifetime", "1d", "--runners-up", "1"]);
}

/// The fear: a design of three tiers is written that gives other figures, of which a device is missing in a table, or that cannot be made.
#[test]
fn three_tiers_are_written_with_the_figures_of_the_plan_and_can_be_made() {
    let folder = folder();
    let path = folder.path();
    std::fs::create_dir(path.join("devices")).expect("a folder");
    for (name, price, model) in [
        ("rust", 5, "read = '4ms'\nwrite = '4ms'\ncapacity = '400MiB'"),
        ("brick", 40, "read = '500us'\nwrite = '500us'\ncapacity = '120MiB'\ncycles = 3000"),
        ("spark", 10, "read = '20us'\nwrite = '20us'\ncapacity = '48MiB'\ncycles = 90000"),
    ] {
        let profile = format!(
            "name = '{name}'\ndescription = '{name}'\nclass = 'fixed'\nprice_usd = {price}\nafr = 0.01\n\n[fixed]\n{model}\n\
             active_w = 2\nidle_w = 1\n"
        );
        std::fs::write(path.join(format!("devices/{name}.toml")), profile).expect("written");
    }
    let spec = "requests = 40000\nfootprint = '160MiB'\nread_share = 0.6\nseed = 3\narrival = { kind = 'poisson', mean = '5ms' }\n\
                size = '8KiB'\naddress = { kind = 'zipf', exponent = 0.9, extent = '64KiB' }\n";
    std::fs::write(path.join("load.toml"), spec).expect("written");
    let ask = ["plan", "--trace", "load.toml", "--devices", "devices", "--fill-limit", "100%", "--most", "2"];
    let ask = [&ask[..], &["--latency", "850us", "--lifetime", "60s", "--runners-up", "1"]].concat();
    let found = written(path, &ask);
    let best = &found["best"];
    assert_eq!(
        (best["mode"].as_str(), best["dollars"].as_f64(), &found["three_tiers"]),
        (Some("caching-back"), Some(55.0), &best["design"]),
        "{best}"
    );
    let text = peryton(path, &ask).ok().out;
    for part in ["Buy: spark caching (brick caching rust", "slow.fast", "slow.slow", "No redundancy in tier slow.slow"]
    {
        assert!(text.contains(part), "'{part}' is not in {text}");
    }
    // A plan whose answer is another names the best of three tiers beneath it.
    let loose =
        ["plan", "--trace", "load.toml", "--devices", "devices", "--most", "2", "--latency", "1s", "--lifetime", "60s"];
    let text = peryton(path, &loose).ok().out;
    assert!(text.contains("\n  three tiers: spark caching ("), "{text}");
    let page = peryton(path, &[&ask[..], &["--report", "-"]].concat()).ok().out;
    assert!(page.contains("Buy spark caching (brick caching rust") && page.contains("slow.design.devices.fast"));

    // What the file says about serving it.
    let name = best["design"].as_str().expect("a name");
    let outer = std::fs::read_to_string(path.join(format!("out/{name}.toml"))).expect("written");
    for line in [format!("#   peryton create {name}.slow.toml"), format!("#   peryton serve {name}.slow.toml --ublk")] {
        assert!(outer.lines().any(|one| one == line), "{line}: {outer}");
    }
    let inner = peryton_sim::Design::load(path.join(format!("out/{name}.slow.toml")), &[]).expect("a design");
    let sizes = [("spark", 48u64), ("brick", 120), ("rust", 400), ("inner", inner.volume.0 >> 20)];
    for (name, mib) in sizes {
        let file = std::fs::File::create(path.join(format!("{name}.img"))).expect("a file");
        file.set_len(mib << 20).expect("a size");
    }
    let make = |design: &str, fast: &str, slow: &str| {
        let path_of = |name: &str, image: &str| format!("devices.{name}.path={}", path.join(image).display());
        let (fast, slow) = (path_of("fast", fast), path_of("slow", slow));
        let words = ["create", design, "--set", &fast, "--set", &slow, "--json"];
        let made: Value = serde_json::from_str(&peryton(path, &words).ok().out).expect("JSON");
        made["size"].as_u64().expect("a size")
    };
    let file = format!("out/{name}.slow.toml");
    assert_eq!(make(&file, "brick.img", "rust.img"), inner.volume.0);
    assert_eq!(Some(make(&format!("out/{name}.toml"), "spark.img", "inner.img")), found["capacity_bytes"].as_u64());
}

/// The fear: a device that is smaller than its profile lives, costs or answers otherwise in the design that the plan writes.
#[test]
fn flash_in_any_capacity_is_planned_and_gives_its_figures_again() {
    let folder = folder();
    let many = ["--flash", "any", "--capacity", "8GB", "--objective", "latency"];
    let budgets = [
        &["--active", "50MB", "--subject-to", "dollars<=113,lifetime>=1h"][..],
        &["--active", "50MB", "--subject-to", "dollars<=130,lifetime>=2h"],
    ];
    for more in budgets {
        let found = repeated(folder.path(), &[&many[..], more].concat());
        let best = &found["best"];
        let bought = &best["devices"][0];
        let capacity = bought["capacity_bytes"].as_u64().unwrap_or_else(|| panic!("{best}"));
        assert_eq!(
            (&best["flash"]["each_bytes"], &best["flash"]["devices"], &found["flash"]),
            (&capacity.into(), &1.into(), &"any".into())
        );
        let usd = bought["price_usd"].as_f64().expect("a price");
        assert!((usd / (800.0 * capacity as f64 / 32e9) - 1.0).abs() < 0.1 && usd < 30.0, "{usd} for {capacity}");
        assert!(best["flash"]["whole"]["dollars"].as_f64() > best["dollars"].as_f64(), "{best}");
        let file = folder.path().join(format!("out/{}.toml", best["design"].as_str().unwrap_or("?")));
        assert!(std::fs::read_to_string(file).expect("it was written").contains("\ncapacity = \""));
    }
    let words = [PLAN, &many, budgets[0], &["--latency", "1s"]].concat();
    let text = peryton(folder.path(), &words).ok().out;
    assert!(
        text.contains("Flash: ") && text.contains("whole devices of the catalogue") && text.contains("--flash any"),
        "{text}"
    );
    peryton(folder.path(), &[&words[..], &["--report", "plan.html"]].concat()).ok();
    let page = std::fs::read_to_string(folder.path().join("plan.html")).expect("it was written");
    assert!(page.contains("How much flash") && page.contains("flash GB of the best"));
}

#[test]
fn what_is_owned_costs_nothing_to_buy() {
    let folder = folder();
    let disk = "ibm-ultrastar-36z15";
    let plain = repeated(folder.path(), &[]);
    let own = format!("{disk}=3");
    let owned = repeated(folder.path(), &["--own", &own]);
    let of = |plan: &Value, design: &str| {
        let all = plan["simulated"].as_array().into_iter().flatten();
        all.into_iter().find(|one| one["design"] == design).cloned()
    };
    // Three devices were tried, though three is no power of two.
    let three = of(&owned, &format!("single_{disk}x3")).unwrap_or_else(|| panic!("{owned}"));
    assert_eq!((&three["dollars"], &three["devices"][0]["owned"]), (&0.0.into(), &3.into()));
    let one = |plan: &Value| of(plan, &format!("single_{disk}")).expect("it was simulated");
    let (bought, had) = (one(&plain), one(&owned));
    assert!(bought["devices"][0].get("owned").is_none());
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!(number(&had["dollars"]), 0.0);
    // The electricity of owned devices still costs money.
    let spared = number(&bought["ownership_usd"]) - number(&had["ownership_usd"]);
    assert!((spared - number(&bought["dollars"])).abs() < 1e-9, "{spared}");
    assert_eq!(had["power_w"], bought["power_w"]);
    assert_eq!(number(&owned["best"]["dollars"]), 0.0);
    for (own, part) in [("nobody=1", "name of a profile"), ("nobody", "such as"), ("ibm-ultrastar-36z15=0", "1 to 256")]
    {
        peryton(folder.path(), &[PLAN, &["--latency", "1s", "--own", own]].concat()).fails(2, &["--own", part]);
    }
}

/// The fear: an answer that loses all data with its first failed drive, and does not say so.
#[test]
fn redundancy_and_spares_are_bought_simulated_and_reckoned_with() {
    let folder = folder();
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    // At a fiftieth of its pace the trace is no overload for a disk.
    let slow = ["--speed", "0.02"];
    let bare = repeated(folder.path(), &slow);
    let tier = &bare["best"]["failures"]["tiers"][0];
    assert_eq!((&tier["redundancy"], &tier["survives_failures"]), (&"none".into(), &0.into()));
    let text = peryton(folder.path(), &[PLAN, &slow, &["--latency", "1s"]].concat()).ok().out;
    assert!(text.contains("No redundancy in tier") && text.contains("loses all data"), "{text}");
    for (scheme, devices) in [("mirror", 2.0), ("raid5", 3.0), ("raid6", 4.0)] {
        let found = repeated(folder.path(), &["--redundancy", scheme, "--spares", "1", "--speed", "0.02"]);
        let all = found["simulated"].as_array().into_iter().flatten();
        let singles: Vec<&Value> = all.filter(|one| one["mode"] == "single").collect();
        assert!(!singles.is_empty(), "{scheme}");
        let (best, plain) = (singles[0], &bare["best"]);
        let bought = &best["devices"][0];
        assert_eq!(
            (&bought["redundancy"], &bought["spares"], number(&bought["count"])),
            (&scheme.into(), &1.into(), devices)
        );
        assert_eq!(number(&best["dollars"]), (devices + 1.0) * number(&bought["price_usd"]), "{scheme}");
        assert!(number(&best["power_w"]) > 1.5 * number(&plain["power_w"]), "all devices draw power: {scheme}");
        let (was, is) = (&plain["failures"], &best["failures"]);
        assert!(number(&is["data_loss_probability"]) < 0.1 * number(&was["data_loss_probability"]), "{is} {was}");
        assert!(number(&is["device_failures_per_year"]) > number(&was["device_failures_per_year"]));
        assert!(is["sector_loss_probability"].is_number() && was.get("sector_loss_probability").is_none());
    }
    let twice = ["--redundancy", "mirror", "--latency", "1s", "--afr", "ibm-ultrastar-36z15=3%", "--speed", "0.02"];
    let found = plan(folder.path(), &[&twice[..], &["--devices", "ibm-ultrastar-36z15"]].concat());
    let tier = &found["best"]["failures"]["tiers"][0];
    assert!(tier.get("afr_estimated").is_none());
    // Two disks, each of which the other may follow within the time of its replacement.
    let rate = -(0.97f64.ln());
    let exposed = number(&tier["exposed_hours"]) / 8766.0;
    let expected = 1.0 - (-5.0 * 2.0 * rate * (1.0 - (-rate * exposed).exp())).exp();
    assert!((number(&tier["data_loss_probability"]) / expected - 1.0).abs() < 1e-9, "{tier}");
    assert!((number(&tier["exposed_hours"]) - number(&tier["rebuild_hours"]) - 168.0).abs() < 1e-9, "{tier}");
}

#[test]
fn devices_are_not_planned_full_to_the_brim() {
    let folder = folder();
    let count = |more: &[&str]| {
        let args = ["--latency", "100s", "--capacity", "33GB", "--devices", "ibm-ultrastar-36z15", "--speed", "0.02"];
        let found = plan(folder.path(), &[&args[..], more].concat());
        (found["best"]["devices"][0]["count"].as_u64(), found["fill_limit"].as_f64(), found["assumptions"].to_string())
    };
    let (devices, limit, assumed) = count(&[]);
    assert_eq!((devices, limit), (Some(2), Some(0.8)));
    assert!(assumed.contains("filled to at most 80 %") && assumed.contains("--fill-limit"), "{assumed}");
    assert_eq!(count(&["--fill-limit", "100%"]).0, Some(1));
    // What stays free is spare for the flash.
    let spare = |limit: &str| {
        let found = plan(folder.path(), &["--latency", "1s", "--fill-limit", limit, "--speed", "0.02"]);
        let all = found["simulated"].as_array().cloned().unwrap_or_default();
        let flash = all.into_iter().find(|one| one["design"] == "single_super-talent-32gb");
        flash.expect("it was simulated")["design_toml"].as_str().unwrap_or("").contains("over_provisioning")
    };
    assert!(spare("50%") && !spare("100%"));
}

#[test]
fn every_design_is_warmed_up_in_the_same_way() {
    let folder = folder();
    let found = repeated(folder.path(), &[]);
    assert_eq!(found["best"]["requests"], 1_000);
    assert!(found["assumptions"].to_string().contains("the first 1000 of 2000 requests warm every design up"));
    for one in found["simulated"].as_array().into_iter().flatten() {
        let cold = one["warnings"].as_array().into_iter().flatten().any(|warning| warning["code"] == "cold_start");
        assert!(one["requests"] == 1_000 && !cold, "{one}");
    }
    let cold = repeated(folder.path(), &["--warm-up-requests", "0"]);
    assert_eq!(cold["best"]["requests"], 2_000);
}

#[test]
fn data_that_the_trace_does_not_touch_is_not_taken_for_a_cache_that_holds_everything() {
    let folder = folder();
    let devices = "samsung-870-evo-1tb,seagate-st4000dm000";
    let found = repeated(folder.path(), &["--capacity", "3TB", "--devices", devices]);
    // The share of the 3 TB that is in use equals the share of the trace's address span.
    let like = &found["workload"];
    let number = |value: &Value| value.as_f64().expect("a number");
    let share = number(&like["footprint_bytes"]) / number(&like["reach_bytes"]);
    assert!((number(&found["active_bytes"]) / 3e12 / share - 1.0).abs() < 1e-6);
    assert!(
        (number(&found["simulated_share"]) * number(&found["active_bytes"]) / number(&like["footprint_bytes"]) - 1.0)
            .abs()
            < 1e-6
    );
    assert!(
        found["assumptions"][0].as_str().is_some_and(|text| text.contains("within the duration of the trace")),
        "{}",
        found["assumptions"]
    );
    // The full-size design is also written, with readable sizes.
    let bought = std::fs::read_to_string(
        folder.path().join(format!("out/{}.toml", found["best"]["design"].as_str().unwrap_or("?"))),
    );
    let bought = bought.expect("it was written");
    assert!(bought.contains("\"3TB\"") || bought.contains("TiB\"") || bought.contains("GiB\""), "{bought}");
    // With a smaller share in use, a smaller cache is enough.
    let less = repeated(folder.path(), &["--capacity", "3TB", "--active", "2%", "--devices", devices]);
    assert!(number(&less["simulated_share"]) > number(&found["simulated_share"]));
    let given = |active: &str| {
        let more = ["--capacity", "3TB", "--active", active, "--latency", "1s"];
        peryton(folder.path(), &[PLAN, &more].concat())
    };
    given("1KiB").fails(2, &["--active 1KiB", "that the trace touches"]);
    given("4TB").fails(2, &["--active", "more than the", "stored"]);
    given("some").fails(2, &["no share and no size"]);
}

#[test]
fn budgets_that_nothing_meets_end_with_an_answer_and_exit_code_1() {
    let folder = folder();
    let run = peryton(folder.path(), &[PLAN, &["--latency", "1us", "--out", "designs"]].concat());
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    assert!(
        run.out.contains("Nothing meets this: latency ≤ 0.001 ms") && run.out.contains("the best is "),
        "{}",
        run.out
    );
    assert_eq!(std::fs::read_dir(folder.path().join("designs")).map(Iterator::count).unwrap_or(0), 0);
}

#[test]
fn a_plan_says_which_estimates_would_change_it() {
    let folder = folder();
    let devices = "intel-d7-p5500-7.68tb,intel-320-300gb";
    let ask = ["plan", "--trace", "trace.csv", "--devices", devices, "--runners-up", "1", "--latency", "1s"];
    let plan = |more: &[&str]| -> Value {
        serde_json::from_str(&peryton(folder.path(), &[&ask[..], more, &["--json"]].concat()).ok().out).expect("a plan")
    };
    let plain = plan(&[]);
    // Both prices are estimates: whichever is bought, something of it is.
    let names: Vec<&String> = plain["estimated_values"].as_object().expect("estimates").keys().collect();
    assert!(!names.is_empty() && plain.get("sensitivity").is_none(), "{names:?}");
    let found = plan(&["--sensitivity"]);
    assert_eq!(found["best"], plain["best"], "it changes nothing");
    let swings = found["sensitivity"]["swings"].as_array().expect("a list");
    let best = found["best"]["design"].as_str().expect("a name");
    let dollars = |off_by: f64| {
        let one = swings
            .iter()
            .find(|one| one["value"] == "price_usd" && one["off_by"] == off_by && one["designs"].get(best).is_some());
        one.expect("its price is tried")["designs"][best]["dollars"].as_f64().expect("a price")
    };
    let now = found["best"]["dollars"].as_f64().expect("a price");
    assert!((dollars(0.3) / now - 1.3).abs() < 1e-9 && (dollars(-0.3) / now - 0.7).abs() < 1e-9);
    let text = peryton(folder.path(), &[&ask[..], &["--sensitivity"]].concat());
    assert!(text.out.contains("30 % off") || text.out.contains("buy "), "{}", text.out);
}

#[test]
fn devices_without_a_price_are_named_and_take_part_with_one() {
    let folder = folder();
    let ask = ["plan", "--trace", "trace.csv", "--runners-up", "0", "--latency", "1s", "--json"];
    let plan = |more: &[&str]| -> Value {
        serde_json::from_str(&peryton(folder.path(), &[&ask[..], more].concat()).ok().out).expect("a plan")
    };
    let names = |found: &Value| -> Vec<String> {
        found["catalogue"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    // Every device of today has a price; of these years, one of Griffin's disks has none.
    let era = ["--most", "1", "--era", "2007-2008"];
    let found = plan(&era);
    let assumed = found["assumptions"].to_string();
    assert!(assumed.contains("griffin-wd-10k") && assumed.contains("--price"), "{assumed}");
    assert!(
        !names(&found).iter().any(|name| name.contains("intel-320")),
        "that is of another era: {:?}",
        names(&found)
    );
    assert!(!names(&found).iter().any(|name| name == "griffin-wd-10k"), "{:?}", names(&found));
    let with = names(&plan(&[&era[..], &["--price", "griffin-wd-10k=150"]].concat()));
    assert!(with.iter().any(|name| name == "griffin-wd-10k"), "{with:?}");
    let old = names(&plan(&["--most", "1", "--era", "2010-2012"]));
    assert!(old.iter().any(|name| name == "intel-320-300gb"), "{old:?}");
    peryton(folder.path(), &[&ask[..], &["--era", "1990"]].concat()).fails(2, &["1990-1990", "--era"]);
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let folder = folder();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    write("one.csv", "time_us,op,offset,length\n0,R,0,4096\n");
    write("at-once.csv", "time_us,op,offset,length\n5,R,0,4096\n5,W,0,4096\n");
    write("none.csv", "time_us,op,offset,length\n");
    write("two.csv", "time_us,op,offset,length,volume\n0,R,0,4096,0\n9,R,0,4096,1\n");
    write("broken.toml", "name = 'broken'\n[disk]\nrpm = 'fast'\n");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--latency", "0s"], &["latency", "above zero"]),
        (&["--lifetime", "0y"], &["lifetime", "above zero"]),
        (&["--latency", "2"], &["--latency", "'2' has no unit: write a time such as 5s"]),
        (&["--latency", "2 fortnights"], &["unknown unit"]),
        (&["--subject-to", "p99<=10"], &["--subject-to", "a time such as"]),
        (&["--subject-to", "speed<=10ms"], &["no figure of a design"]),
        (&["--latency", "1ms", "--subject-to", "latency<=2ms"], &["two budgets"]),
        (&["--objective", "beauty"], &["beauty", "p99", "ownership"]),
        (&["--capacity", "1000PB"], &["raise --most"]),
        (&["--capacity", "1MiB"], &["less than the"]),
        (&["--most", "0"], &["--most", "1 to 256"]),
        (&["--runners-up", "99999999999"], &["--runners-up", "0 to 50"]),
        (&["--for", "0s"], &["--for"]),
        (&["--electricity=-1"], &["--electricity"]),
        (&["--speed", "0"], &["--speed"]),
        (&["--price", "super-talent-32gb=0"], &["--price", "above 0"]),
        (&["--price", "super-talent-32gb=1e308"], &["--price", "at most a billion USD"]),
        (&["--price", "nobody=5"], &["--price", "name of a device"]),
        (&["--redundancy", "foo"], &["foo", "mirror, raid5 or raid6"]),
        (&["--spares", "-1"], &["-1", "number of spares"]),
        (&["--spares", "200%"], &["200%", "number of spares"]),
        (&["--fill-limit", "0"], &["no fill limit", "80%"]),
        (&["--fill-limit", "120%"], &["no fill limit"]),
        (&["--afr", "super-talent-32gb=0%"], &["--afr", "above 0%"]),
        (&["--afr", "nobody=1%"], &["--afr", "name of a device"]),
        (&["--afr", "super-talent-32gb"], &["--afr", "such as"]),
        (&["--replace-within", "soon"], &["soon"]),
        (&["--flash", "half"], &["half", "whole", "any"]),
    ];
    for (more, parts) in cases {
        peryton(folder.path(), &[PLAN, more].concat()).fails(2, parts);
    }
    let with = |trace: &str, devices: &str| {
        peryton(folder.path(), &["plan", "--trace", trace, "--devices", devices, "--latency", "1ms"])
    };
    for trace in ["one.csv", "at-once.csv"] {
        with(trace, "super-talent-32gb").fails(2, &["no rate to plan for"]);
    }
    with("two.csv", "super-talent-32gb").fails(2, &["2 volumes", "--volumes"]);
    with("none.csv", "super-talent-32gb").fails(2, &[]);
    with("nothing.csv", "super-talent-32gb").fails(2, &["nothing.csv"]);
    with("trace.csv", "griffin-wd-10k").fails(2, &["has no price", "--price griffin-wd-10k=USD"]);
    with("trace.csv", "broken.toml").fails(2, &["broken.toml"]);
    with("trace.csv", "nothing.toml").fails(2, &["nothing.toml"]);
    with("-", "super-talent-32gb").fails(2, &["several times"]);
    peryton(folder.path(), &["plan", "--latency", "1ms"]).fails(2, &["--trace"]);
}
