//! Report pages as a browser shows them. The fears: a chart is empty or clipped, an error is logged, the network is asked, hostile text
//! becomes markup, the page is too large or wide, or the keyboard does nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{folder, peryton};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A name that ends elements and scripts, if something lets it.
const HOSTILE: &str = "<b class=hostile>&amp;'x'<script>window.hostile=1<";

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Looks at pages in a browser; what it finds is in the panic.
fn look_at(pages: &[PathBuf]) {
    if !is_there("chromium") && !is_there("chromium-browser") {
        println!("skipped: chromium is not installed");
        return;
    }
    let script = Path::new(ROOT).join("scripts/pages.py");
    let output = Command::new("python3").arg(script).args(pages).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    for page in pages {
        let name = page.file_name().unwrap().to_string_lossy();
        assert!(text.contains(&format!("{name}: ")), "{name} was not looked at: {text}");
    }
    println!("{text}");
}

fn page(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn charts(path: &Path) -> Vec<serde_json::Value> {
    let text = page(path);
    let data = text.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    data["charts"].as_array().unwrap().clone()
}

fn titled(path: &Path) -> Vec<String> {
    charts(path).iter().map(|chart| chart["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_page_of_sim_shows_what_happened() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("<b class=hostile>&amp;'x'<script>window.hostile=1<")).unwrap();
    let trace = format!("{HOSTILE}/trace.csv");
    fs::copy(at("trace.csv"), at(&trace)).unwrap();
    // The design's name is hostile, too.
    let design = format!("{}.toml", HOSTILE.replace('/', ""));
    let text = fs::read_to_string(at("caching.toml")).unwrap();
    fs::write(at(&design), &text).unwrap();
    fs::write(at("dear.toml"), format!("{text}\n[cost]\nelectricity_usd_per_kwh = 0.3\n")).unwrap();
    let args = ["sim", "single.toml", "tiering.toml", "dear.toml", &design, "--trace", &trace, "--report", "sim.html"];
    peryton(folder.path(), &args).ok();
    let sweep = ["sim", "caching.toml", "--trace", "trace.csv", "--sweep", "placement.replacement=lru,arc,sieve"];
    peryton(folder.path(), &[&sweep[..], &["--report", "sweep.html"]].concat()).ok();
    peryton(folder.path(), &["sim", "single.toml", "--trace", "trace.csv", "--report", "one.html"]).ok();
    let titles = titled(&at("sim.html"));
    for title in [
        "Choice by weights",
        "Answered within",
        "Slower than",
        "Miss ratio",
        "Throughput",
        "Response time",
        "Hit ratio",
        "Moves",
        "Power",
        "Devices busy",
        "What the host used",
        "What moved",
    ] {
        assert!(titles.iter().any(|one| one == title), "'{title}' is not among {titles:?}");
    }
    // The maps add up to what the trace asks for: a third of 2,000 requests of 8 KiB are writes.
    let charts = charts(&at("sim.html"));
    let map = &charts.iter().find(|chart| chart["title"] == "What the host used").unwrap()["maps"][0];
    let kib = |layer: usize| -> f64 {
        let cells = map["layers"][layer]["cells"].as_array().unwrap();
        cells.iter().map(|cell| cell.as_f64().unwrap().max(0.0)).sum()
    };
    assert!((kib(2) / 5_336.0 - 1.0).abs() < 0.01 && (kib(1) / 10_664.0 - 1.0).abs() < 0.01, "{} {}", kib(1), kib(2));
    let text = page(&at("sim.html"));
    assert!(text.contains("id=\"cold_start\"") && text.contains("&lt;b class=hostile&gt;&amp;amp;'x'"), "{text}");
    look_at(&[at("sim.html"), at("sweep.html"), at("one.html")]);
}

#[test]
fn the_pages_of_the_other_verbs_show_their_answers() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let run = |args: &[&str]| peryton(folder.path(), args).ok();
    let trace = ["--trace", "trace.csv"];
    run(&["trace", "mrc", "trace.csv", "--replacement", "lru,arc,opt", "--rate", "0.5", "--report", "mrc.html"]);
    run(&[
        "energy",
        "--capacity",
        "200TB",
        "--peak",
        "2GB",
        "--average",
        "500MB",
        "--era",
        "all",
        "--report",
        "greenest.html",
    ]);
    let size =
        ["size", "--design", "caching.toml", "--sizes", "4MiB,8MiB,16MiB", "--speed", "0.1", "--report", "size.html"];
    run(&[&size[..], &trace].concat());
    let tune = ["tune", "caching.toml", "--evaluations", "6", "--report", "tune.html"];
    run(&[&tune[..], &trace].concat());
    let plan = ["plan", "--devices", "intel-320-300gb,seagate-st32000641as", "--price"];
    let more = [
        "intel-320-300gb=529",
        "--price",
        "seagate-st32000641as=189",
        "--subject-to",
        "p99<=1s",
        "--report",
        "plan.html",
    ];
    run(&[&plan[..], &more, &trace].concat());
    for (name, title) in [
        ("mrc.html", "Miss ratio"),
        ("greenest.html", "Choice by weights"),
        ("size.html", "Response time"),
        ("plan.html", "Choice by weights"),
    ] {
        assert!(
            titled(&at(name)).iter().any(|one| one == title),
            "'{title}' is not on {name}: {:?}",
            titled(&at(name))
        );
    }
    assert!(page(&at("plan.html")).contains("Buy ") && page(&at("tune.html")).contains("as it is"));
    look_at(&["mrc.html", "greenest.html", "size.html", "tune.html", "plan.html"].map(at));
    // To standard output it stands in place of the table, and only one thing goes there.
    let out = peryton(folder.path(), &["trace", "mrc", "trace.csv", "--report", "-"]).ok().out;
    assert!(out.starts_with("<!DOCTYPE html>") && !out.contains("─"), "{out}");
    let both = ["trace", "mrc", "trace.csv", "--report", "-", "--json"];
    peryton(folder.path(), &both).fails(2, &["--report and --json", "standard output takes one"]);
}

#[test]
fn the_policy_names_the_scripts_and_the_library_is_the_one_of_npm() {
    let check = "import base64, hashlib, pathlib, sys\n\
        page = pathlib.Path(sys.argv[1])\n\
        digest = lambda name: hashlib.sha256((page / name).read_bytes())\n\
        for file, names in [('policy.txt', ['uplot/uPlot.iife.min.js', 'page.js']),\n\
        \x20                   ('live-policy.txt', ['uplot/uPlot.iife.min.js', 'page.js', 'live.js'])]:\n\
        \x20   policy = (page / file).read_text()\n\
        \x20   if policy.count('sha256-') != len(names): sys.exit(f'{file} does not have {len(names)} hashes')\n\
        \x20   for name in names:\n\
        \x20       wanted = \"'sha256-\" + base64.b64encode(digest(name).digest()).decode() + \"'\"\n\
        \x20       if wanted not in policy: sys.exit(f'{file} does not have {name}: {wanted}')\n\
        for name, wanted in [('uplot/uPlot.iife.min.js', '19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f'),\n\
        \x20                    ('uplot/uPlot.min.css', 'df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04')]:\n\
        \x20   if digest(name).hexdigest() != wanted: sys.exit(f'{name} is not that of uPlot 1.6.32')\n";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/page");
    let output = Command::new("python3").args(["-c", check]).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
