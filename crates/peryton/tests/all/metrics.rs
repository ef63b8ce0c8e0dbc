//! The fear: metrics are not what they say, or a scraper disturbs the volume.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::openmetrics::{self, Page, parse};
use crate::common::{peryton, repository};
use crate::served::Client;
use crate::serving::web::{Web, answer};
use peryton_drive::metrics::{FAMILIES, Type};
use serde_json::Value;

const DEVICES: &str = "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n\
                       [devices.large]\nprofile = 'fixed'\nsize = '16MiB'\npath = 'large.img'\n\
                       [endurance.small]\nwritten = '1TB'\n[placement]\n";
const PAIR: &str = "fast = 'small'\nslow = 'large'\nextent = '64KiB'\npromotion = { threshold = 0 }\n\
                    demotion = { low = 4, high = 8 }\n";
const OPENMETRICS: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";

fn placements() -> [(&'static str, String); 6] {
    [
        (
            "caching",
            format!(
                "mode = 'caching'\n{PAIR}writeback = {{ delay = '1h' }}\n[climb.caps]\nfast_writes_per_day = '86400MB'\n\
                 [admission]\nby = 'probability'\n\
                 adaptive = {{ rate = 0.5, caches = 2, frame = 20, target_latency = '1h' }}\n"
            ),
        ),
        ("tiering", format!("mode = 'tiering'\n{PAIR}")),
        ("partitioned", "mode = 'partitioned'\nfast = 'small'\nslow = 'large'\nextent = '64KiB'\n".to_owned()),
        ("logging", "mode = 'logging'\nlog = 'small'\nprimary = 'large'\n".to_owned()),
        ("linear", "mode = 'linear'\ndevices = ['small', 'large']\n".to_owned()),
        ("single", "mode = 'single'\n".to_owned()),
    ]
}

/// Serves the design in the folder; `metrics` is the option's value.
fn serve(folder: &Path, metrics: &str) -> Web {
    Web::start(folder, &["--metrics", metrics])
}

fn scrape(serving: &Web) -> Page {
    let (head, body) = serving.ask(&format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{OPENMETRICS}\r\n"));
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    parse(&body).unwrap_or_else(|why| panic!("{why}\n{body}"))
}

fn volume(placement: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // A placement on one device has no other.
    let large = "[devices.large]\nprofile = 'fixed'\nsize = '16MiB'\npath = 'large.img'\n[placement]\n";
    let devices = if placement.contains("single") { large } else { DEVICES };
    fs::write(folder.path().join("v.toml"), format!("name = 'a \"name\" \\\\ '\n{devices}{placement}")).unwrap();
    peryton(folder.path(), &["create", "v.toml"]).ok();
    folder
}

fn status(folder: &Path) -> Value {
    serde_json::from_str(&peryton(folder, &["status", "v.toml", "--json"]).ok().out).unwrap()
}

#[test]
fn a_scrape_is_strictly_valid_and_agrees_with_the_status() {
    openmetrics::refuses_what_is_wrong();
    let mut seen = std::collections::BTreeSet::new();
    for (placement, text) in placements() {
        let folder = volume(&text);
        let serving = serve(folder.path(), "127.0.0.1:0");
        let mut client = Client::connect(&folder.path().join("v.nbd"));
        for n in 0..400_u64 {
            client.write(n * 7919 % 900 * 4096, &[n as u8; 8192], n % 8 == 0).unwrap();
            client.read(n * 104_729 % 900 * 4096, 4096).unwrap();
        }
        client.flush().unwrap();
        client.trim(0, 65536).unwrap();
        client.cache(0, 4096).unwrap();
        assert!(client.read(client.size, 4096).is_err(), "a request beyond the end");
        if placement == "caching" {
            peryton(folder.path(), &["writeback", "v.toml", "--wait"]).ok();
            let shown = peryton(folder.path(), &["status", "v.toml"]).ok().out;
            assert!(shown.contains("\nadmission: threshold ") && shown.contains("within the target of "), "{shown}");
            dirty_one_extent(&mut client, folder.path());
        }
        // Moves and commits end after a while; then nothing changes between the two.
        let (page, status) = settled(&serving, folder.path());
        let name = page.0["peryton_volume"].samples.keys().next().unwrap().1.clone();
        let label = |wanted: &str| name.iter().find(|(label, _)| label == wanted).map(|(_, value)| value.as_str());
        assert_eq!((label("volume"), label("placement")), (Some("a \"name\" \\\\ "), Some(placement)));
        agrees(&page, &status, placement);
        assert_eq!(
            page.value("peryton_dirty_bytes", &[]).is_some(),
            ["caching", "partitioned"].contains(&placement),
            "{placement}"
        );
        assert_eq!(page.value("peryton_logging_appended_bytes_total", &[]).is_some(), placement == "logging");
        assert_eq!(page.value("peryton_fast_hits_total", &[]).is_some(), !["single", "logging"].contains(&placement));
        let rated = page.value("peryton_device_rated_writes_bytes", &[("device", "small")]);
        assert_eq!(rated, (placement != "single").then_some(1e12));
        let budget = page.value("peryton_device_wear_budget_bytes_per_second", &[]);
        assert_eq!(budget, (placement == "caching").then_some(1e6), "{placement}");
        described(&page);
        seen.extend(page.0.into_keys());
    }
    // What needs a device that fails, or that this machine does not have, or a cleaning that is under way.
    let absent = ["peryton_block_device_live", "peryton_device_power_state", "peryton_cleaning_remaining_seconds"];
    let of_drives = FAMILIES.iter().map(|family| family.name()).filter(|name| name.starts_with("peryton_drive"));
    let of_drives: Vec<String> = of_drives.collect();
    let outage =
        ["peryton_device_outage_seconds", "peryton_device_outage_patience_seconds", "peryton_device_outage_commands"];
    let missing: Vec<String> =
        FAMILIES.iter().map(|family| family.name()).filter(|name| !seen.contains(name)).collect();
    let expected: Vec<&str> = absent
        .iter()
        .chain(&outage)
        .copied()
        .chain(of_drives.iter().map(String::as_str))
        .filter(|name| missing.iter().any(|other| other == name))
        .collect();
    assert_eq!(missing.len(), expected.len(), "{missing:?} are never there");
}

/// Writes until the cache holds something dirty. How many writes it takes depends on the machine: an extent that was discarded
/// has to be missed before it is cached, its promotion takes a while, and a cap on the writes to the fast device may refuse it.
fn dirty_one_extent(client: &mut Client, folder: &Path) {
    let began = Instant::now();
    while status(folder)["cleaning"]["dirty_bytes"] == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no write makes an extent dirty");
        client.write(0, &[1; 65536], false).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
}

/// A scrape and a status of the same state.
fn settled(serving: &Web, folder: &Path) -> (Page, Value) {
    let began = Instant::now();
    loop {
        let before = status(folder);
        thread::sleep(Duration::from_millis(150));
        let page = scrape(serving);
        let after = status(folder);
        if before["ledger"] == after["ledger"] && before["device_commands_in_flight"] == 0 {
            return (page, after);
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it never rests");
    }
}

fn agrees(page: &Page, status: &Value, placement: &str) {
    let is = |sample: &str, labels: &[(&str, &str)], value: &Value| {
        let (found, value) = (page.value(sample, labels), value.as_f64());
        assert_eq!(found, value, "{placement}: {sample} {labels:?}");
    };
    let (traffic, all) = (&status["traffic"], &status["ledger"]);
    for kind in ["read", "write", "flush"] {
        is("peryton_request_duration_seconds_count", &[("kind", kind)], &traffic[kind]["requests"]);
        let mean = traffic[kind]["mean_us"].as_f64().unwrap() / 1e6;
        let sum = page.value("peryton_request_duration_seconds_sum", &[("kind", kind)]).unwrap();
        let count = traffic[kind]["requests"].as_f64().unwrap();
        assert!((sum / count / mean - 1.0).abs() < 0.02, "{kind}: {sum} of {count} is not {mean} each");
    }
    let count = |kind| page.value("peryton_request_duration_seconds_count", &[("kind", kind)]).unwrap();
    assert_eq!((Some(count("discard") + count("other")), count("other")), (traffic["other"]["requests"].as_f64(), 1.0));
    is("peryton_request_bytes_total", &[("kind", "read")], &traffic["bytes_read"]);
    is("peryton_request_bytes_total", &[("kind", "write")], &traffic["bytes_written"]);
    assert_eq!(Some(page.sum("peryton_request_failures_total")), traffic["failed"].as_f64());
    is("peryton_volume_state", &[("state", "healthy")], &1.into());
    is("peryton_volume_state", &[("state", "degraded")], &0.into());
    is("peryton_volume_size_bytes", &[], &status["size"]);
    is("peryton_volume_openings_total", &[], &status["generation"]);
    is("peryton_clients", &[], &status["clients"]);
    is("peryton_client_connections_total", &[], &status["clients_served"]);
    is("peryton_pool_size_bytes", &[], &status["pool"]["bytes"]);
    is("peryton_pool_free_bytes", &[], &status["pool"]["free_bytes"]);
    for (index, device) in status["devices"].as_object().unwrap().keys().map(String::as_str).enumerate() {
        let (row, about) = (&all["devices"][index], &status["devices"][device]);
        for (cause, name) in ["host", "promotion", "demotion", "writeback", "metadata"].into_iter().enumerate() {
            let labels = [("device", device), ("cause", name)];
            is("peryton_device_reads_total", &labels, &row["reads"][cause]);
            is("peryton_device_writes_total", &labels, &row["writes"][cause]);
            is("peryton_device_read_bytes_total", &labels, &row["bytes_read"][cause]);
            is("peryton_device_written_bytes_total", &labels, &row["bytes_written"][cause]);
        }
        is("peryton_device_flushes_total", &[("device", device)], &row["flushes"]);
        is("peryton_device_errors_total", &[("device", device)], &about["errors"]);
        is("peryton_device_size_bytes", &[("device", device)], &about["size"]);
        is("peryton_device_used_bytes", &[("device", device)], &about["used"]);
        is("peryton_device_state", &[("device", device), ("state", "ok")], &1.into());
    }
    if page.0.contains_key("peryton_fast_hits") {
        is("peryton_fast_hits_total", &[], &all["fast_hits"]);
        is("peryton_fast_misses_total", &[], &all["fast_misses"]);
    }
    if page.0.contains_key("peryton_moves") {
        is("peryton_moves_total", &[("kind", "promotion")], &all["moves"]["promotions"]);
        is("peryton_moves_total", &[("kind", "writeback")], &all["moves"]["writebacks"]);
        is("peryton_moves_cancelled_total", &[("reason", "in_use")], &all["moves"]["cancelled"]["in_use"]);
        is("peryton_move_written_bytes_total", &[], &all["moves"]["bytes"]);
        is("peryton_journal_commits_total", &[], &all["commits"]);
    }
    if status["cleaning"].is_object() {
        is("peryton_dirty_bytes", &[], &status["cleaning"]["dirty_bytes"]);
        is("peryton_dirty_limit_bytes", &[], &status["cleaning"]["most_dirty_bytes"]);
        let state = status["cleaning"]["state"].as_str().unwrap();
        is("peryton_cleaning_state", &[("state", state)], &1.into());
        assert_eq!(page.sum("peryton_cleaning_state"), 1.0);
        let ages = (page.value("peryton_dirty_oldest_age_seconds", &[]), status["cleaning"]["oldest_s"].as_f64());
        assert!(matches!(ages, (None, None)) || (ages.0.unwrap() - ages.1.unwrap()).abs() < 5.0, "{ages:?}");
    }
    let adaptive = &status["adaptive_admission"];
    assert_eq!(adaptive.is_object(), placement == "caching");
    if adaptive.is_object() {
        let seconds = |key: &str| (adaptive[key].as_f64().unwrap() / 1e6).into();
        is("peryton_admission_threshold", &[], &adaptive["threshold"]);
        is("peryton_admission_score", &[], &adaptive["score"]);
        is("peryton_admission_latency_seconds", &[], &seconds("measured_latency_us"));
        is("peryton_admission_target_latency_seconds", &[], &3600.into());
        assert_eq!(adaptive["target_holds"], true);
        is("peryton_admission_target_holds", &[], &1.into());
    }
    if let Value::Object(log) = &all["logging"] {
        is("peryton_logging_appended_bytes_total", &[], &log["bytes_appended"]);
        is("peryton_logging_reads_total", &[("from", "log")], &log["reads_from_log"]);
    }
}

/// Each metric is as the list of them says.
fn described(page: &Page) {
    for (name, family) in &page.0 {
        let listed =
            FAMILIES.iter().find(|listed| listed.name() == *name).unwrap_or_else(|| panic!("{name} is not listed"));
        assert_eq!((family.help.as_str(), family.unit.as_deref().unwrap_or("")), (listed.help, listed.unit.name()));
        for (_, labels) in family.samples.keys() {
            let names: Vec<&str> =
                labels.iter().map(|(label, _)| label.as_str()).filter(|label| *label != "le").collect();
            let mut expected = [listed.labels, &["volume"]].concat();
            expected.sort_unstable();
            assert_eq!(names, expected, "{name}");
        }
    }
}

#[test]
fn an_outage_is_seen_while_it_lasts_and_counted_after_it() {
    let folder = volume(&placements()[0].1);
    let serving = Web::start(folder.path(), &["--metrics", "127.0.0.1:0", "--drills"]);
    let control = |line: &str| {
        let mut stream = UnixStream::connect(folder.path().join("v.control")).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("\"ok\":true"), "{answer}");
    };
    control("{\"verb\":\"fault\",\"fault\":{\"device\":1,\"effect\":\"outage\"}}");
    let path = folder.path().join("v.nbd");
    let reader = thread::spawn(move || Client::connect(&path).read(12 << 20, 4096));
    let large = [("device", "large")];
    let began = Instant::now();
    let page = loop {
        let page = scrape(&serving);
        if page.value("peryton_device_outage_seconds", &large).is_some_and(|lasts| lasts > 0.5) {
            break page;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no outage is seen");
        thread::sleep(Duration::from_millis(50));
    };
    described(&page);
    assert_eq!(page.value("peryton_volume_state", &[("state", "outage")]), Some(1.0));
    assert_eq!(page.value("peryton_device_state", &[("device", "large"), ("state", "outage")]), Some(1.0));
    assert!(page.value("peryton_device_outage_patience_seconds", &large).unwrap() > 1.0);
    assert!(page.value("peryton_device_outage_commands", &large).unwrap() >= 1.0);
    assert_eq!(page.value("peryton_device_outages_total", &large), Some(1.0));
    control("{\"verb\":\"heal\"}");
    assert!(reader.join().unwrap().is_ok());
    thread::sleep(Duration::from_millis(150));
    let page = scrape(&serving);
    assert_eq!(page.value("peryton_device_outage_seconds", &large), None);
    assert_eq!(page.value("peryton_device_outages_total", &large), Some(1.0));
}

#[test]
fn only_this_machine_and_this_user_can_scrape() {
    let folder = volume(&placements()[5].1);
    for address in ["0.0.0.0:9469", "[::]:9469", "10.1.2.3:9469"] {
        peryton(folder.path(), &["serve", "v.toml", "--metrics", address])
            .fails(2, &["without authentication", "127.0.0.1:9469"]);
    }
    peryton(folder.path(), &["serve", "v.toml", "--metrics", "/run/x"]).fails(2, &["unix:PATH"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    peryton(folder.path(), &["serve", "v.toml", "--metrics", &address]).fails(2, &[&address, "a free port"]);
    let _serving = serve(folder.path(), "unix:m.sock");
    let socket = folder.path().join("m.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream.write_all(format!("GET /metrics HTTP/1.1\r\n{OPENMETRICS}\r\n").as_bytes()).unwrap();
    parse(&answer(stream).1).unwrap();
}

#[test]
fn slow_and_hostile_clients_are_dropped_and_keep_no_scraper_away() {
    let folder = volume(&placements()[5].1);
    let serving = serve(folder.path(), "127.0.0.1:0");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "405"),
        ("hello\r\n\r\n".to_owned(), "400"),
        (format!("GET /metrics HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000)), "431"),
    ] {
        let (head, _) = serving.ask(&request);
        // Bytes that the server does not read make the kernel drop the answer.
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")) || status == "431" && head == "\r\n", "{head}");
    }
    let (head, body) = serving.ask("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}{body}");
    // One that sends its request byte by byte is cut off after two seconds.
    let mut slow = serving.connect();
    slow.write_all(b"GET /met").unwrap();
    let began = Instant::now();
    assert_eq!(slow.read(&mut [0; 10]).unwrap_or(0), 0);
    assert!((Duration::from_millis(1500)..Duration::from_secs(10)).contains(&began.elapsed()), "{:?}", began.elapsed());
    // Many that say nothing, and some that do not take their answer. The scraper has one of the eight places, so five of the silent
    // ones at least have to give up theirs.
    let silent: Vec<TcpStream> = (0..20).map(|_| serving.connect()).collect();
    for stream in &silent[12..] {
        let mut stream = stream;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    let began = Instant::now();
    let page = scrape(&serving);
    assert!(began.elapsed() < Duration::from_secs(10), "a scraper waited {:?}", began.elapsed());
    let refused = |reason| page.value("peryton_scrapes_refused_total", &[("reason", reason)]).unwrap();
    assert_eq!((refused("bad_request"), refused("timeout"), refused("unavailable")), (4.0, 1.0, 0.0));
    assert_eq!(refused("forbidden"), 0.0);
    assert!(refused("displaced") >= 4.0, "{}", refused("displaced"));
    let threads = fs::read_dir(format!("/proc/{}/task", serving.child.id())).unwrap();
    let scrapers = threads.filter(|task| {
        let name = fs::read_to_string(task.as_ref().unwrap().path().join("comm")).unwrap_or_default();
        name.trim() == "http"
    });
    assert!(scrapers.count() <= 8);
    drop(silent);
}

/// The program, if it is there; says otherwise what is skipped.
fn program(name: &str) -> Option<String> {
    let found = ["/usr/bin/", "/usr/local/bin/"]
        .iter()
        .map(|folder| format!("{folder}{name}"))
        .find(|path| Path::new(path).exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed (Debian: prometheus)");
    }
    found
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() {
    let Some(promtool) = program("promtool") else { return };
    for (placement, text) in placements() {
        let folder = volume(&text);
        let serving = serve(folder.path(), "127.0.0.1:0");
        let (head, body) = serving.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let mut check = Command::new(&promtool);
        let check =
            check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().unwrap();
        check.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
        let output = check.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.is_empty(), "{placement}: {said}");
    }
    for args in [["check", "rules", "peryton.rules.yml"], ["test", "rules", "peryton.rules.test.yml"]] {
        let output =
            Command::new(&promtool).args(args).current_dir(repository().join("extras/prometheus")).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("SUCCESS"), "{args:?}: {said}");
    }
}

#[test]
fn a_real_prometheus_scrapes_every_sample() {
    let Some(prometheus) = program("prometheus") else { return };
    let folder = volume(&placements()[0].1);
    let serving = serve(folder.path(), "127.0.0.1:0");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms }}\nscrape_configs:\n  - job_name: peryton\n    \
         static_configs: [{{ targets: ['127.0.0.1:{}'] }}]\nrule_files: ['{}']\n",
        serving.port,
        repository().join("extras/prometheus/peryton.rules.yml").canonicalize().unwrap().display()
    );
    fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let log = fs::File::create(folder.path().join("prometheus.log")).unwrap();
    let child = Command::new(prometheus)
        .args([
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            &format!("--web.listen-address=127.0.0.1:{free}"),
        ])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let prometheus = Web { child, start: Value::Null, port: free };
    let query = |query: &str| -> Value {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", free)) else { return Value::Null };
        let request = format!("GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n");
        if stream.write_all(request.as_bytes()).is_err() {
            return Value::Null;
        }
        let answer: Value = serde_json::from_str(&answer(stream).1).unwrap_or_default();
        answer["data"]["result"][0]["value"][1].clone()
    };
    let log = || fs::read_to_string(folder.path().join("prometheus.log")).unwrap();
    let began = Instant::now();
    while query("up") != "1" {
        assert!(began.elapsed() < Duration::from_secs(60), "it scrapes nothing: {}", log());
        thread::sleep(Duration::from_millis(100));
    }
    let samples: usize = scrape(&serving).0.values().map(|family| family.samples.len()).sum();
    let scraped: usize = query("scrape_samples_scraped").as_str().unwrap().parse().unwrap();
    assert_eq!(scraped, samples, "{}", log());
    assert_eq!(query("peryton_volume_size_bytes"), status(folder.path())["size"].to_string().as_str());
    assert_ne!(query("histogram_quantile(0.5,sum%20by%20(le)(peryton_request_duration_seconds_bucket))"), Value::Null);
    drop(prometheus);
}

/// The names of samples that a text mentions.
fn mentioned(text: &str) -> Vec<&str> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("peryton_") || word.starts_with("process_")).collect()
}

/// The names under which queries find a metric.
fn samples(family: &peryton_drive::metrics::Family) -> Vec<String> {
    let suffixes: &[&str] = match family.kind {
        Type::Counter => &["_total"],
        Type::Gauge => &[""],
        Type::Histogram => &["_bucket", "_count", "_sum"],
        Type::Info => &["_info"],
    };
    suffixes.iter().map(|suffix| family.name() + suffix).collect()
}

#[test]
fn dashboard_and_alerts_use_only_metrics_that_exist() {
    let known: Vec<String> = FAMILIES.iter().flat_map(samples).collect();
    for path in [
        "extras/grafana/peryton.json",
        "extras/prometheus/peryton.rules.yml",
        "extras/prometheus/peryton.rules.test.yml",
    ] {
        let text = fs::read_to_string(repository().join(path)).unwrap();
        let names = mentioned(&text);
        assert!(names.len() > 10, "{path}: {names:?}");
        let unknown: Vec<&&str> = names.iter().filter(|name| !known.iter().any(|other| other == *name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    let dashboard = fs::read_to_string(repository().join("extras/grafana/peryton.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let places = dashboard["panels"].as_array().unwrap().iter().map(|panel| &panel["gridPos"]);
    let cells: Vec<(u64, u64)> = places
        .flat_map(|at| {
            let number = |key: &str| at[key].as_u64().unwrap();
            let (x, y) = (number("x"), number("y"));
            assert!(x + number("w") <= 24, "{at}");
            (x..x + number("w")).flat_map(move |column| (y..y + number("h")).map(move |row| (column, row)))
        })
        .collect();
    let distinct: std::collections::BTreeSet<_> = cells.iter().collect();
    assert_eq!(distinct.len(), cells.len(), "panels lie on each other");
}

#[test]
fn every_metric_is_documented_with_its_type_and_labels() {
    let text = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rows: Vec<[String; 3]> = text
        .lines()
        .filter(|line| line.starts_with("| `p"))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 7, "{line}");
            assert!(!cells[4].is_empty(), "{line}");
            [cells[1], cells[2], cells[3]].map(|cell| cell.replace('`', ""))
        })
        .collect();
    let listed: Vec<[String; 3]> = FAMILIES
        .iter()
        .map(|family| {
            let name = match family.kind {
                Type::Histogram => family.name(),
                _ => samples(family).remove(0),
            };
            [name, format!("{:?}", family.kind).to_lowercase(), family.labels.join(", ")]
        })
        .collect();
    for row in &listed {
        assert!(rows.contains(row), "docs/metrics.md has no row {row:?}");
    }
    assert_eq!(rows.len(), listed.len(), "docs/metrics.md has rows of metrics that do not exist");
}
