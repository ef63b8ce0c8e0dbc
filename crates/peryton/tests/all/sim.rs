//! `peryton sim`: a table, JSON, and one line for each mistake.

use crate::common::{folder, peryton, repository};
use serde_json::Value;

#[test]
fn a_comparison_is_a_table_and_a_file() {
    let folder = folder();
    let args = ["sim", "single.toml", "tiering.toml", "caching.toml", "--trace", "trace.csv", "--json", "out.json"];
    let run = peryton(folder.path(), &args).ok();
    assert!(run.err.is_empty(), "a pipe gets no progress: {}", run.err);
    for word in ["design", "IOPS", "single", "tiering", "caching", "–"] {
        assert!(run.out.contains(word), "'{word}' is not in\n{}", run.out);
    }
    let json: Value = serde_json::from_slice(&std::fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    let reports = json.as_array().unwrap();
    let names: Vec<_> = reports.iter().map(|report| report["design"].as_str().unwrap()).collect();
    assert_eq!(names, ["single", "tiering", "caching"]);
    for report in reports {
        assert_eq!(report["requests"], 2_000);
        assert_eq!(report["trace"], "trace.csv");
        assert!(report["iops"].as_f64().unwrap() > 0.0);
        assert!(report["latency_us"]["read"]["p99"].as_f64().unwrap() > 0.0);
    }
    assert!(reports[0].get("moves").is_none() && reports[1]["moves"]["promotions"].is_u64());
    assert!(reports[2]["devices"]["hdd"]["standby_s"].is_f64());
    // No other files are left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn json_on_standard_output_is_only_json_and_the_same_twice() {
    let folder = folder();
    let args = ["sim", "caching.toml", "--trace", "trace.csv", "--replay", "qd=4", "--new", "--json", "-"];
    let (first, second) = (peryton(folder.path(), &args).ok(), peryton(folder.path(), &args).ok());
    assert_eq!(first.out, second.out);
    let json: Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!(json[0]["replay"], "qd=4");
    assert_eq!(json[0]["new_volume"], true);
}

/// The fears: a share that is taken for another one, and a sample of everything that is not the whole.
#[test]
fn a_share_that_is_none_is_one_line_and_a_sample_of_all_is_the_whole() {
    let folder = folder();
    let args = ["sim", "caching.toml", "--trace", "trace.csv"];
    for share in ["0", "2", "nan", "-1", "1%", ""] {
        peryton(folder.path(), &[&args[..], &["--sample", share]].concat())
            .fails(2, &["--sample", "a number above 0 and up to 1"]);
    }
    let run = |more: &[&str]| peryton(folder.path(), &[&args[..], more].concat()).ok().out;
    assert_eq!(run(&["--sample", "1"]), run(&[]));
    let of_all: Value = serde_json::from_str(&run(&["--sample", "1", "--json", "-"])).unwrap();
    let mut whole: Value = serde_json::from_str(&run(&["--json", "-"])).unwrap();
    // The command differs, and nothing else.
    whole[0]["command"] = of_all[0]["command"].clone();
    assert_eq!(of_all, whole);
    for other in [["--sensitivity", "--sample"], ["--interval=1s", "--sample"]] {
        peryton(folder.path(), &[&args[..], &other, &["0.5", "--json", "-"]].concat()).fails(2, &["--sample", "leave"]);
    }
}

/// The fear: "7.03 years" from fourteen minutes of trace.
#[test]
fn a_lifetime_says_how_sure_it_is_and_what_it_rests_on() {
    let folder = folder();
    let run = |more: &[&str]| {
        // Writes are not throttled once enough is dirty, which would make the parts of the trace differ.
        let unbounded = "placement.writeback.dirty_target=1";
        let args = ["sim", "caching.toml", "--trace", "trace.csv", "--json", "-", "--set", unbounded];
        let found: Value = serde_json::from_str(&peryton(folder.path(), &[&args, more].concat()).ok().out).unwrap();
        found[0].clone()
    };
    let report = run(&[]);
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key}: {report}"));
    let (low, years, high) = (number("lifetime_years_low"), number("lifetime_years"), number("lifetime_years_high"));
    // The trace writes at a constant rate, so that its parts are alike.
    assert!(low <= years && years <= high && high < 2.0 * low, "{low} {years} {high}");
    let span = number("lifetime_parts") * number("lifetime_part_s");
    assert!(span <= number("simulated_s") && span > 0.9 * number("simulated_s"), "{span}");
    assert!(["rated", "physical"].contains(&report["lifetime_limited_by"].as_str().unwrap()));
    assert!(report["devices"]["ssd"]["lifetime_years_low"].is_f64());
    let short = run(&["--limit", "6"]);
    assert!(short.get("lifetime_years_low").is_none() && short["lifetime_worn_parts"].as_u64() < Some(8), "{short}");
    let text = peryton(folder.path(), &["sim", "caching.toml", "--trace", "trace.csv", "--limit", "6"]).ok().out;
    assert!(text.contains("without an interval") && text.contains("take a longer trace"), "{text}");
}

#[test]
fn mirrors_and_parity_are_in_the_report() {
    let folder = folder();
    let design = |count: u32, scheme: &str| {
        format!(
            "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'fixed'\ncount = {count}\nredundancy = '{scheme}'\nspares = 1\n\
             [placement]\nmode = 'single'\n"
        )
    };
    for (count, scheme, commands) in [(2, "mirror", 2.0), (5, "raid5", 4.0), (6, "raid6", 6.0)] {
        std::fs::write(folder.path().join("array.toml"), design(count, scheme)).unwrap();
        let run = peryton(folder.path(), &["sim", "array.toml", "--trace", "trace.csv", "--json", "-"]).ok();
        let found: Value = serde_json::from_str(&run.out).unwrap();
        let array = &found[0]["redundancy"]["ssd"];
        assert_eq!((&array["scheme"], &array["small_write_commands"]), (&scheme.into(), &(commands as u64).into()));
        // Writes of 8 KiB, of which few cross a stripe of 64 KiB.
        let per_write = array["commands_per_write"].as_f64().unwrap();
        assert!((per_write / commands - 1.0).abs() < 0.1, "{scheme}: {per_write}");
    }
    for (text, parts) in [
        (design(3, "mirror"), ["array.toml", "pairs of devices"]),
        (design(3, "raid6"), ["array.toml", "4 devices at least"]),
        (design(3, "foo"), ["array.toml", "raid5"]),
    ] {
        std::fs::write(folder.path().join("array.toml"), text).unwrap();
        peryton(folder.path(), &["sim", "array.toml", "--trace", "trace.csv"]).fails(2, &parts);
    }
}

/// A page without the content of its three scripts: data, library, and what draws.
fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (script, rest) = part.split_once("</script>").expect("a script ends");
        assert!(!script.contains("<script"), "a script in a script");
        text += rest;
    }
    text
}

/// The elements of a page, which must be closed in the order in which they were opened.
fn well_formed(page: &str) -> usize {
    let page = without_scripts(page);
    let (mut open, mut count) = (Vec::new(), 0);
    for tag in page.split('<').skip(1) {
        let tag = &tag[..tag.find('>').unwrap_or_else(|| panic!("<{tag} does not end"))];
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        count += 1;
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}> closes another element"),
            None if matches!(name, "!DOCTYPE" | "link" | "meta") => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    count
}

#[test]
fn a_page_is_one_whole_file_that_asks_nobody() {
    let folder = folder();
    let hostile = "<script>alert('&')</script>.csv";
    std::fs::create_dir_all(folder.path().join("<script>alert('&')<")).unwrap();
    std::fs::copy(folder.path().join("trace.csv"), folder.path().join(hostile)).unwrap();
    let args = ["sim", "single.toml", "tiering.toml", "caching.toml", "--trace", hostile, "--report", "out.html"];
    let run = peryton(folder.path(), &args).ok();
    assert!(run.out.contains("tiering"), "the table is printed as well");
    let page = std::fs::read_to_string(folder.path().join("out.html")).unwrap();
    assert!(well_formed(&page) > 200 && page.len() < 2_000_000);
    for word in ["3 designs on", "Mean response time", "single, ", "caching, hdd", "tiering", "peryton sim single.toml"]
    {
        assert!(page.contains(word), "'{word}' is not in\n{page}");
    }
    assert_eq!(page.matches("<script").count(), 3);
    // An empty icon, so that a browser does not ask for one.
    let bare = without_scripts(&page).replacen(r#"<link rel="icon" href="data:,">"#, "", 1);
    for word in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!bare.contains(word), "'{word}' is in\n{page}");
    }
    let out = peryton(folder.path(), &["sim", "single.toml", "--trace", "trace.csv", "--report", "-"]).ok().out;
    assert!(out.starts_with("<!DOCTYPE html>") && well_formed(&out) > 50);
    let both = ["sim", "single.toml", "--trace", "trace.csv", "--report", "-", "--json", "-"];
    peryton(folder.path(), &both).fails(2, &["--report - and --json -", "give the other a file"]);
}

#[test]
fn what_misleads_is_in_table_page_and_json_and_flushes_are_as_well() {
    let folder = folder();
    let mut trace = String::from("time_us,op,offset,length\n");
    for n in 0u64..900 {
        let at = n * 900;
        // The last write has been answered before the last flush, which covers it.
        let flushed = if n == 899 { at + 1_000_000 } else { at + 500 };
        trace += &format!("{at},W,{},8192\n{},R,{},4096\n{flushed},F,0,0\n", n * 37 % 1000 * 8192, at + 200, n * 4096);
    }
    std::fs::write(folder.path().join("flushed.csv"), trace).unwrap();
    let args =
        ["sim", "single.toml", "caching.toml", "--trace", "flushed.csv", "--json", "out.json", "--report", "out.html"];
    let run = peryton(folder.path(), &args).ok();
    assert!(run.err.is_empty(), "{}", run.err);
    let page = std::fs::read_to_string(folder.path().join("out.html")).unwrap();
    let json: Value = serde_json::from_slice(&std::fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    for report in json.as_array().unwrap() {
        for kind in ["flush", "write_then_flush"] {
            assert_eq!(report["latency_us"][kind]["count"], 900, "{kind}");
        }
        assert_eq!(report["peryton_version"], peryton_version::VERSION);
        assert!(report["trace_hash"].as_str().unwrap().len() == 16 && report["trace_requests"] == 2_700);
        assert!(report["design_toml"].as_str().unwrap().contains("[placement]"));
        for warning in report["warnings"].as_array().unwrap() {
            for key in ["code", "message", "remedy"] {
                assert!(!warning[key].as_str().unwrap().is_empty());
            }
            let code = warning["code"].as_str().unwrap();
            assert!(page.contains(&format!("id=\"{code}\"")), "{code} is not on the page");
            let remedy = warning["remedy"].as_str().unwrap();
            assert!(run.out.contains(remedy), "'{remedy}' is not in\n{}", run.out);
        }
    }
    let cold = json[1]["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "cold_start");
    assert!(cold && json[0]["warnings"].as_array().unwrap().iter().all(|warning| warning["code"] != "cold_start"));
    for word in ["flush ms", "write+", "write+flush: mean time", "(900 of 900 writes)"] {
        assert!(run.out.contains(word), "'{word}' is not in\n{}", run.out);
    }
    for word in ["Write until it is durable", "write to flushed", json[0]["trace_hash"].as_str().unwrap()] {
        assert!(page.contains(word), "'{word}' is not on the page");
    }
    // A trace without flushes has no columns for them.
    let out = peryton(folder.path(), &["sim", "single.toml", "--trace", "trace.csv"]).ok().out;
    assert!(!out.contains("flush ms") && out.contains("the trace has no flushes"), "{out}");
}

#[test]
fn what_rests_on_estimates_is_said_and_what_they_change() {
    let folder = folder();
    let design = |name: &str, profile: &str| {
        let text =
            format!("[devices.only]\nprofile = '{profile}'\n[volume]\nsize = '1GiB'\n[placement]\nmode = 'single'\n");
        std::fs::write(folder.path().join(name), text).unwrap();
    };
    design("flash.toml", "samsung-870-evo-1tb");
    design("none.toml", "fixed");
    let sim = ["sim", "flash.toml", "none.toml", "--trace", "trace.csv"];
    let plain = peryton(folder.path(), &sim).ok().out;
    assert!(plain.contains("Rests on estimated values: ") && plain.contains("of samsung-870-evo-1tb"), "{plain}");
    assert!(!plain.contains("of fixed"), "{plain}");
    let run = peryton(folder.path(), &[&sim[..], &["--sensitivity", "--json", "out.json"]].concat()).ok();
    assert!(run.out.contains("samsung-870-evo-1tb flash.") && run.out.contains("Not tried"), "{}", run.out);
    let json: Value = serde_json::from_slice(&std::fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    assert!(json[0]["estimated_values"]["samsung-870-evo-1tb"].as_array().unwrap().contains(&"flash.read".into()));
    let swings = json[0]["sensitivity"].as_array().unwrap();
    let of = |off_by: f64| {
        let one = swings.iter().find(|one| one["value"] == "flash.read" && one["off_by"] == off_by);
        one.unwrap_or_else(|| panic!("flash.read is tried: {swings:?}"))["figures"]["mean_ms"].as_f64().unwrap()
    };
    assert!(of(0.3) >= of(-0.3));
    assert_eq!(json[1]["sensitivity"].as_array().map(Vec::len), Some(0));
    assert!(json[1].get("estimated_values").is_none());
}

#[test]
fn overrides_change_what_they_name() {
    let folder = folder();
    let json = |more: &[&str]| -> Value {
        let args = [&["sim", "single.toml", "caching.toml", "--trace", "trace.csv", "--json", "-"], more].concat();
        serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap()
    };
    let (before, after) = (json(&[]), json(&["--set", "placement.promotion.threshold=1000000"]));
    assert!(before[1]["moves"]["promotions"].as_u64() > Some(0));
    assert_eq!(after[1]["moves"]["promotions"], 0);
    assert_eq!(after[1]["overrides"][0], "placement.promotion.threshold=1000000");
    let but_for_the_command = |report: &Value| {
        let mut report = report.clone();
        let command = report.as_object_mut().unwrap().remove("command").unwrap();
        assert!(command.as_str().unwrap().starts_with("peryton sim single.toml caching.toml --trace trace.csv"));
        report
    };
    let (before, after) = (but_for_the_command(&before[0]), but_for_the_command(&after[0]));
    assert_eq!(before, after, "the key means nothing to a single device");
}

#[test]
fn rubbish_gets_one_line() {
    let folder = folder();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("bad.csv", b"time_us,op,offset,length\n0,R,0,4096\n1,R,zero,4096\n");
    write("binary.toml", &[0xff, 0xfe, 0, 1]);
    write("typo.toml", b"[devices.ssd]\nprofile = 'fixed'\nsize = '64MiB'\n[placement]\nmoed = 'single'\n");
    write("large.toml", b"[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '1TiB'\n[placement]\nmode = 'single'\n");
    write("small.toml", b"[devices.ssd]\nprofile = 'fixed'\nsize = '1MiB'\n[placement]\nmode = 'single'\n");
    write("empty.csv", b"");
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["DESIGN.toml"]),
        (&["single.toml"], &["--trace"]),
        (&["nothing.toml", "--trace", "trace.csv"], &["nothing.toml", "No such file"]),
        (&[".", "--trace", "trace.csv"], &["not a regular file"]),
        (&["binary.toml", "--trace", "trace.csv"], &["binary.toml", "not text"]),
        (&["typo.toml", "--trace", "trace.csv"], &["typo.toml", "placement.mode"]),
        (&["large.toml", "--trace", "trace.csv"], &["large.toml:3", "devices.ssd.size", "intel-320-300gb"]),
        (&["small.toml", "--trace", "trace.csv"], &["past the end of the volume of 1MiB", "--fit wrap"]),
        (&["single.toml", "--trace", "nothing.csv"], &["nothing.csv", "No such file"]),
        (&["single.toml", "--trace", "empty.csv"], &["empty.csv"]),
        (&["single.toml", "--trace", "bad.csv"], &["bad.csv:3", "zero"]),
        (&["single.toml", "--trace", "trace.csv", "--format", "mrs"], &["mrs"]),
        (&["single.toml", "--trace", "trace.csv", "--replay", "qd=0"], &["qd=0", "qd=32"]),
        (&["single.toml", "--trace", "trace.csv", "--replay", "fast"], &["timed, sync"]),
        (&["single.toml", "--trace", "trace.csv", "--speed", "0"], &["--speed 0"]),
        (&["single.toml", "--trace", "trace.csv", "--speed", "2", "--replay", "sync"], &["--speed", "timed"]),
        (&["single.toml", "--trace", "trace.csv", "--set", "placement.mod=1"], &["did you mean 'mode'"]),
        (&["single.toml", "--trace", "trace.csv", "--set", "x"], &["--set x", "key=value"]),
        (&["single.toml", "--trace", "trace.csv", "--set", "placement.write=back"], &["does not apply to any"]),
        (&["single.toml", "--trace", "trace.csv", "--trase", "x"], &["--trase"]),
        (&["single.toml", "tiering.toml", "--trace", "-"], &["standard input"]),
        (&["single.toml", "--trace", "trace.csv", "--warm-up-requests", "5000"], &["warm-up"]),
        (&["single.toml", "--trace", "trace.csv", "--volumes", "7"], &["7"]),
        (&["single.toml", "--trace", "single.toml"], &["single.toml"]),
    ];
    for (args, parts) in table {
        peryton(folder.path(), &[&["sim"], *args].concat()).fails(2, parts);
    }
    // The cause is the machine, not the user's input.
    let nowhere = ["sim", "single.toml", "--trace", "trace.csv", "--json", "no/such/folder/x.json"];
    peryton(folder.path(), &nowhere).fails(1, &["no/such/folder/x.json"]);
}

#[test]
fn bad_lines_can_be_skipped_and_are_counted() {
    let folder = folder();
    let text = "time_us,op,offset,length\n0,R,0,4096\nx\n1,R,zero,4096\n5,W,4096,4096\n";
    std::fs::write(folder.path().join("bad.csv"), text).unwrap();
    let args = ["sim", "single.toml", "--trace", "bad.csv", "--skip-bad", "--json", "-"];
    let run = peryton(folder.path(), &args).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json[0]["requests"], 2);
    let warnings = json[0]["warnings"].as_array().unwrap();
    let skipped = warnings.iter().find(|warning| warning["code"] == "trace_skipped");
    assert!(
        skipped.is_some_and(|warning| warning["message"].as_str().unwrap().contains("2 bad lines")),
        "{warnings:?}"
    );
}

/// The demo of the README, on the trace that ships.
#[test]
fn the_shipped_designs_run_on_the_shipped_trace() {
    let designs = ["ssd-only", "hdd-only", "linear", "tiering", "caching-back", "caching-through"]
        .map(|name| format!("examples/papers/{name}.toml"));
    let mut args = vec!["sim"];
    args.extend(designs.iter().map(String::as_str));
    args.extend(["--trace", "examples/traces/pgbench-ext4.parquet", "--limit", "20000", "--json", "-"]);
    let run = peryton(&repository(), &args).ok();
    let json: Value = serde_json::from_str(&run.out).unwrap();
    let mean: Vec<f64> =
        json.as_array().unwrap().iter().map(|report| report["latency_us"]["all"]["mean"].as_f64().unwrap()).collect();
    let fastest = mean.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = mean.iter().copied().fold(0.0, f64::max);
    assert_eq!((fastest, slowest), (mean[0], mean[1]), "SSD only is fastest and HDD only slowest: {mean:?}");
}

/// The fears: a volume gets another one's requests or times, rows come in the order in which threads end, and a bad volume is not named.
#[test]
fn each_volume_alone_is_a_row_as_if_it_had_been_chosen() {
    let folder = folder();
    let lines: String = (0..300)
        .map(|n| {
            format!("{},{},{},{},4096\n", n * 100, [9, 10, 2][n % 3], if n % 2 == 0 { "R" } else { "W" }, n % 7 * 4096)
        })
        .collect();
    std::fs::write(folder.path().join("v.csv"), format!("time_us,volume,op,offset,length\n{lines}")).unwrap();
    let json = |more: &[&str]| -> Vec<Value> {
        let args = [&["sim", "single.toml", "caching.toml", "--trace", "v.csv", "--json", "-"], more].concat();
        serde_json::from_str(&peryton(folder.path(), &args).ok().out).unwrap()
    };
    let each = json(&["--each-volume"]);
    let names: Vec<&str> = each.iter().map(|report| report["design"].as_str().unwrap()).collect();
    let of = |volume| ["single", "caching"].map(|design| format!("{design} volume={volume}"));
    assert_eq!(names, [of("2"), of("9"), of("10")].concat());
    for (rows, volume) in each.chunks(2).zip(["2", "9", "10"]) {
        for (row, mut chosen) in rows.iter().zip(json(&["--volumes", volume])) {
            assert_eq!(row["sweep"]["volume"], volume);
            for key in ["design", "command", "sweep", "trace_account", "account"] {
                chosen[key] = row[key].clone();
            }
            let differs = |(key, value): &(&String, &Value)| chosen[key.as_str()] != **value;
            let other: Vec<_> = row.as_object().unwrap().iter().filter(differs).map(|(key, _)| key).collect();
            assert!(other.is_empty(), "{volume}: {other:?} differ");
        }
    }
    let table = peryton(folder.path(), &["trace", "mrc", "v.csv", "--each-volume", "--sizes", "16KiB"]).ok().out;
    assert_eq!(table.lines().filter(|line| line.contains("lru") && line.contains("16KiB")).count(), 3, "{table}");
    std::fs::write(
        folder.path().join("far.csv"),
        "time_us,volume,op,offset,length\n0,1,R,0,512\n1,5,R,4503599627370496,512\n",
    )
    .unwrap();
    let far = peryton(folder.path(), &["sim", "single.toml", "--trace", "far.csv", "--each-volume"]);
    far.fails(2, &["volume 5: request 1 of the trace"]);
}
