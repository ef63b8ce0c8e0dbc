//! The page of a volume that is being served. The fears: it shows what is not so, pages of other origins read it, a request
//! changes anything, the option for metrics alone stops working, or a hostile client keeps browsers away.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::common::{peryton, repository};
use crate::served::Client;
use crate::serving::web::{Web, answer};
use serde_json::{Value, json};

const CACHING: &str = "mode = 'caching'\nfast = 'small'\nslow = 'large'\nextent = '64KiB'\npromotion = { threshold = 0 }\n\
                       demotion = { low = 4, high = 8 }\nwriteback = { delay = '1h' }\n[climb.caps]\n\
                       fast_writes_per_day = '86400MB'\n";
const LOGGING: &str = "mode = 'logging'\nlog = 'small'\nprimary = 'large'\n";
const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

fn volume(placement: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let devices = "[devices.small]\nprofile = 'fixed'\nsize = '8MiB'\npath = 'small.img'\n\
                   [devices.large]\nprofile = 'fixed'\nsize = '16MiB'\npath = 'large.img'\n\
                   [endurance.small]\nwritten = '1TB'\n[placement]\n";
    fs::write(folder.path().join("v.toml"), format!("name = 'a <b>\"name\"'\n{devices}{placement}")).unwrap();
    peryton(folder.path(), &["create", "v.toml"]).ok();
    folder
}

/// Asks as a browser of this machine does.
fn get(web: &Web, path: &str) -> (String, String) {
    web.ask(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nSec-Fetch-Site: same-origin\r\n\r\n", web.port))
}

fn live(web: &Web, path: &str) -> Value {
    let (head, body) = get(web, path);
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/json"), "{head}{body}");
    serde_json::from_str(&body).unwrap()
}

/// What is reported once there are so many rows.
fn after(web: &Web, rows: u64) -> Value {
    let began = Instant::now();
    loop {
        let (head, body) = get(web, "/live.json");
        let report: Value = serde_json::from_str(&body).unwrap_or_default();
        if head.starts_with("HTTP/1.1 200") && report["last_row"].as_u64().unwrap() >= rows {
            return report;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no rows come: {head}{body}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn sum(report: &Value, of: &str) -> u64 {
    report["rows"].as_array().unwrap().iter().map(|row| row.pointer(of).and_then(Value::as_u64).unwrap_or(0)).sum()
}

#[test]
fn the_page_shows_what_the_volume_does() {
    let folder = volume(CACHING);
    let web = Web::start(folder.path(), &HTTP);
    let at = web.start["http"].as_str().unwrap();
    assert_eq!(web.start["metrics"], format!("{at}metrics"), "one listener has both");
    let (head, page) = get(&web, "/");
    assert!(head.contains("text/html") && page.starts_with("<!DOCTYPE html>"), "{head}");
    for header in [
        "Content-Security-Policy: default-src 'none'; ",
        "connect-src 'self'; frame-ancestors 'none'",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Cross-Origin-Resource-Policy: same-origin",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    assert!(page.contains("a &lt;b&gt;&quot;name&quot;") && !page.contains("a <b>"), "the name is markup");

    let status = || -> Value {
        serde_json::from_str(&peryton(folder.path(), &["status", "v.toml", "--json"]).ok().out).unwrap()
    };
    after(&web, 1);
    let mut client = Client::connect(&folder.path().join("v.nbd"));
    let mut count = 0_u64;
    // How soon an extent is cached depends on the machine.
    while count < 50 || status()["cleaning"]["dirty_bytes"] == 0 {
        assert!(count < 2000, "no write makes an extent dirty");
        client.write(count % 8 * 65536, &[count as u8; 65536], false).unwrap();
        client.read(15 << 20, 4096).unwrap();
        count += 1;
    }
    client.flush().unwrap();
    let last = live(&web, "/live.json")["last_row"].as_u64().unwrap();
    let report = after(&web, last + 2);
    assert_eq!((sum(&report, "/writes"), sum(&report, "/written_bytes")), (count, count << 16), "{report}");
    let reads = (sum(&report, "/reads"), sum(&report, "/read_bytes"), sum(&report, "/flushes"));
    assert_eq!(reads, (count, count << 12, 1));
    // The first sample is older than the client, so all accesses are in rows.
    let status = status();
    for (of, key) in [("/cache/fast_hits", "fast_hits"), ("/cache/fast_misses", "fast_misses")] {
        assert_eq!(Some(sum(&report, of)), status["ledger"][key].as_u64(), "{of}");
    }
    assert_eq!(report["cleaning"]["dirty_bytes"], status["cleaning"]["dirty_bytes"]);
    assert!(report["cleaning"]["dirty_bytes"].as_u64().unwrap() > 0, "{}", report["cleaning"]);
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["writes"].as_u64() > Some(0)).unwrap();
    let quantiles = &row["write_ns"];
    assert!(quantiles["p50"].as_u64() > Some(0) && quantiles["max"].as_u64() >= quantiles["p50"].as_u64(), "{row}");
    assert!(report["rows"][0].get("flush_ns").is_none(), "a figure that does not apply is absent");
    // The last minute and all the time have them, too.
    for distribution in report["distributions"].as_array().unwrap() {
        let writes: u64 = distribution["write"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
        assert_eq!(writes, count, "{distribution}");
    }
    // 16 MiB in cells of 256 KiB: the writes begin in the first two, the reads in the sixtieth.
    let map = &report["maps"][0];
    assert_eq!((&map["cells"], &map["cell_bytes"]), (&64.into(), &(256 << 10).into()), "{map}");
    let total = |kind: &str, cell: usize| -> i64 {
        let columns = map["columns"].as_array().unwrap().iter();
        let unpacked = columns.map(|column| {
            let packed = column[kind].as_array().unwrap().iter().map(|count| count.as_i64().unwrap());
            let all: Vec<i64> =
                packed.flat_map(|count| if count < 0 { vec![0; -count as usize] } else { vec![count] }).collect();
            assert_eq!(all.len(), 64, "{column}");
            all[cell]
        });
        unpacked.sum()
    };
    let count = count as i64;
    assert_eq!((total("writes", 0) + total("writes", 1), total("reads", 60), total("reads", 0)), (count, count, 0));
    let names: Vec<&str> =
        report["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert!(names.contains(&"opened") && names.contains(&"connected"), "{names:?}");
    let small = &report["devices"][0];
    assert_eq!(
        (&small["endurance"]["limit_bytes_written"], &small["wear_budget_bytes_per_s"]),
        (&json!(1_000_000_000_000_u64), &json!(1e6))
    );
    assert!(report["devices"][1].get("wear_budget_bytes_per_s").is_none());

    peryton(folder.path(), &["set", "v.toml", "placement.max_moves=5"]).ok();
    let next = after(&web, report["last_row"].as_u64().unwrap() + 2);
    assert_eq!(next["settings"], json!(["placement.max_moves=5"]));
    assert!(next["events"].as_array().unwrap().iter().any(|event| event["event"] == "set"), "{}", next["events"]);

    // Only what is new is sent.
    let (row, event) = (next["last_row"].as_u64().unwrap(), next["last_event"].as_u64().unwrap());
    let more = live(&web, &format!("/live.json?since={row}&events={event}"));
    assert!(more["rows"].as_array().unwrap().len() < 5 && more["events"] == json!([]), "{more}");
    assert!(more["rows"].as_array().unwrap().iter().all(|one| one["number"].as_u64() > Some(row)));
    let beyond = live(&web, "/live.json?since=18446744073709551615&events=18446744073709551615");
    assert_eq!((&beyond["rows"], &beyond["events"]), (&json!([]), &json!([])));
    for odd in ["?since=-1", "?since=x&events", "?since=99999999999999999999999", "?&&==&since=%00"] {
        assert!(live(&web, &format!("/live.json{odd}"))["rows"].as_array().unwrap().len() > 1, "{odd}");
    }
}

#[test]
fn figures_that_do_not_apply_are_absent() {
    for placement in [CACHING, LOGGING, "mode = 'linear'\ndevices = ['small', 'large']\n"] {
        let folder = volume(placement);
        let web = Web::start(folder.path(), &HTTP);
        let mut client = Client::connect(&folder.path().join("v.nbd"));
        after(&web, 1);
        client.write(0, &[1; 65536], true).unwrap();
        client.read(0, 4096).unwrap();
        let report = after(&web, 4);
        let keys = |path: &str| report.pointer(path).is_some();
        assert_eq!(keys("/rows/0/cache"), placement != LOGGING, "{placement}");
        assert_eq!(
            (keys("/rows/0/log"), keys("/cleaning")),
            (placement == LOGGING, placement == CACHING),
            "{placement}"
        );
        let objects = ["/volume", "/cleaning", "/devices/0", "/rows/0"].map(|path| report.pointer(path));
        for object in objects.into_iter().flatten().chain([&report]) {
            assert!(object.as_object().unwrap().values().all(|figure| !figure.is_null()), "{object}");
        }
    }
}

/// The fear: the page or `top` hides that the threshold breaks its target, or says another thing than `status`.
#[test]
fn the_page_top_and_status_say_the_same_of_the_adaptive_admission() {
    for (target, holds) in [("1h", "within the target of 60 min"), ("1ns", "over the target of 0.000001 ms")] {
        let adaptive = format!("adaptive = {{ rate = 0.5, caches = 2, frame = 20, target_latency = '{target}' }}");
        let folder = volume(&format!("{CACHING}[admission]\nby = 'probability'\n{adaptive}\n"));
        let web = Web::start(folder.path(), &HTTP);
        let mut client = Client::connect(&folder.path().join("v.nbd"));
        for n in 0..400_u64 {
            client.write(n * 7919 % 900 * 4096, &[n as u8; 8192], false).unwrap();
            client.read(n * 104_729 % 900 * 4096, 4096).unwrap();
        }
        let report = after(&web, live(&web, "/live.json")["last_row"].as_u64().unwrap() + 2);
        let admission = report["admission"].as_str().unwrap();
        assert!(admission.starts_with("threshold ") && admission.ends_with(holds), "{admission}");
        // A line of `top` is folded at the width of its screen.
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for command in [&["status", "v.toml"][..], &["top", "v.toml", "--once"]] {
            let shown = plain(&peryton(folder.path(), command).ok().out);
            assert!(shown.contains(&plain(&format!("admission: {admission}"))), "{admission}: {shown}");
        }
    }
}

#[test]
fn only_addresses_of_this_machine_are_taken() {
    let folder = volume(CACHING);
    for address in ["0.0.0.0:9469", "[::]:9469", "10.1.2.3:9469"] {
        peryton(folder.path(), &["serve", "v.toml", "--http", address])
            .fails(2, &["without authentication", "127.0.0.1:9469"]);
    }
}

/// The fear: a server that refuses leaves the volume as a killed one does.
#[test]
fn a_server_that_refuses_leaves_the_volume_closed() {
    let folder = volume(CACHING);
    let before = peryton(folder.path(), &["check", "v.toml"]);
    for refused in [&["--http", "unix:/no-such-folder/page"][..], &["--pool", "900TiB"], &["--move-memory", "0"]] {
        let served = peryton(folder.path(), &[&["serve", "v.toml"], refused].concat());
        assert!(served.code != 0 && served.err.contains("peryton: "), "{}", served.err);
        assert_eq!(served.out, "", "{refused:?}: it says that it serves before it refuses");
        let after = peryton(folder.path(), &["check", "v.toml"]);
        assert_eq!((after.code, before.code), (0, 0), "{refused:?}: {}", after.out);
    }
}

#[test]
fn names_of_other_machines_get_nothing() {
    let folder = volume(CACHING);
    let web = Web::start(folder.path(), &HTTP);
    after(&web, 1);
    let ask = |path: &str, headers: &str| {
        let (head, body) = web.ask(&format!("GET {path} HTTP/1.1\r\n{headers}\r\n"));
        (head.split(' ').nth(1).unwrap_or_default().to_owned(), body)
    };
    for path in ["/", "/live.json", "/metrics"] {
        for (headers, status) in [
            ("Host: localhost\r\n", "200"),
            ("Host: 127.0.0.1:80\r\n", "200"),
            ("Host: [::1]:8080\r\n", "200"),
            ("Host: rebound.example\r\n", "403"),
            ("Host: rebound.example:9469\r\n", "403"),
            ("Host: 192.168.1.5\r\n", "403"),
            ("Host: localhost\r\nHost: rebound.example\r\n", "400"),
            ("", "400"),
        ] {
            let (said, body) = ask(path, headers);
            assert_eq!(said, status, "{path} {headers}");
            assert!(status == "200" || body.len() < 200, "{body}");
        }
    }
    assert_eq!(ask("/live.json", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n").0, "403");
    assert_eq!(ask("/live.json", "Host: localhost\r\nOrigin: http://evil.example\r\n").0, "403");
    // A link on another page may lead here.
    assert_eq!(ask("/", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n").0, "200");
    // Scrapes within a moment show the same figures.
    thread::sleep(Duration::from_millis(150));
    let (_, page) = ask("/metrics", "Host: localhost\r\n");
    let is_it =
        |line: &&str| line.starts_with("peryton_scrapes_refused_total{") && line.contains("reason=\"forbidden\"");
    let refused = page.lines().find(is_it).unwrap_or_default();
    assert!(refused.ends_with(" 11"), "{refused}");
}

#[test]
fn metrics_go_on_where_they_were() {
    let folder = volume(CACHING);
    let scraped = |web: &Web| {
        let (head, body) = web.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        head.starts_with("HTTP/1.1 200") && body.contains("peryton_volume_size_bytes")
    };
    {
        let web = Web::start(folder.path(), &["--metrics", "127.0.0.1:0"]);
        assert!(scraped(&web) && web.start.get("http").is_none(), "{}", web.start);
        for path in ["/", "/live.json"] {
            let (head, body) = get(&web, path);
            assert!(
                head.starts_with("HTTP/1.1 404") && body.contains("/metrics") && body.contains("--http"),
                "{head}{body}"
            );
        }
        let (head, body) = web.ask("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 403") && !body.contains("peryton_"), "{head}{body}");
    }
    {
        // Two addresses, if they are asked for.
        let web = Web::start(folder.path(), &["--metrics", "127.0.0.1:0", "--http", "unix:page.sock"]);
        assert!(scraped(&web) && web.start["http"] == "unix:page.sock", "{}", web.start);
        assert_eq!(fs::metadata(folder.path().join("page.sock")).unwrap().permissions().mode() & 0o777, 0o600);
        let mut stream = UnixStream::connect(folder.path().join("page.sock")).unwrap();
        // No browser comes this way by itself, so the name does not matter.
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(answer(stream).1.contains("peryton_volume_size_bytes"));
    }
    // The same address twice is one listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let web = Web::start(folder.path(), &["--metrics", &free, "--http", &free]);
    assert_eq!(web.start["http"], format!("http://{free}/"));
    assert!(get(&web, "/").1.starts_with("<!DOCTYPE html>"));
}

#[test]
fn hostile_clients_keep_no_browser_away() {
    let folder = volume(CACHING);
    let web = Web::start(folder.path(), &HTTP);
    after(&web, 1);
    let host = "Host: localhost\r\n";
    for (request, status) in [
        (format!("GET /../../etc/passwd HTTP/1.1\r\n{host}\r\n"), "404"),
        (format!("POST / HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n"), "405"),
        (format!("DELETE /live.json HTTP/1.1\r\n{host}\r\n"), "405"),
        (format!("CONNECT localhost:22 HTTP/1.1\r\n{host}\r\n"), "405"),
        (format!("POST /settings HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "405"),
        (format!("OPTIONS /live.json HTTP/1.1\r\n{host}Origin: http://evil.example\r\n\r\n"), "405"),
        (format!("GET / HTTP/1.1\r\n{host}{}\r\n", "x: y\r\n".repeat(65)), "431"),
        (format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(9000)), "431"),
        ("\u{16}\u{3}\u{1}\r\n\r\n".to_owned(), "400"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), "4"),
    ] {
        let (head, _) = web.ask(&request);
        // Bytes that the server does not read make the kernel drop the answer.
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")) || head == "\r\n", "{head}: {request:.60}");
    }
    // One that sends half of a request, and one that sends a byte now and then, are cut off.
    let mut half = web.connect();
    half.write_all(format!("GET / HTTP/1.1\r\n{host}").as_bytes()).unwrap();
    let mut slow = web.connect();
    let began = Instant::now();
    while slow.write_all(b"G").is_ok() && began.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(100));
    }
    assert!((Duration::from_millis(1500)..Duration::from_secs(9)).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert_eq!(half.read(&mut [0; 10]).unwrap_or(0), 0);
    // Many that say nothing, and some that do not take their answer.
    let silent: Vec<TcpStream> = (0..40).map(|_| web.connect()).collect();
    for stream in &silent[20..] {
        let mut stream = stream;
        let _ = stream.write_all(format!("GET / HTTP/1.1\r\n{host}\r\n").as_bytes());
    }
    let began = Instant::now();
    assert!(get(&web, "/").1.contains("</html>"));
    assert!(live(&web, "/live.json")["last_row"].as_u64() >= Some(1));
    assert!(began.elapsed() < Duration::from_secs(15), "a browser waited {:?}", began.elapsed());
    let threads = fs::read_dir(format!("/proc/{}/task", web.child.id())).unwrap();
    let names = threads.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    assert!(names.filter(|name| name.trim() == "http").count() <= 8);
    // The volume was served all the time.
    let mut client = Client::connect(&folder.path().join("v.nbd"));
    client.write(0, &[1; 4096], true).unwrap();
    drop(silent);
}

#[test]
fn a_browser_shows_values_that_change_and_goes_on_after_the_server_was_killed() {
    let is_there =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success());
    if !is_there("chromium") && !is_there("chromium-browser") {
        println!("skipped: chromium is not installed");
        return;
    }
    let folder = volume(CACHING);
    let (path, stop) = (folder.path().join("v.nbd"), Arc::new(AtomicBool::new(false)));
    let stopping = Arc::clone(&stop);
    // A client that goes on with the next server; it panics when its server is killed.
    let writer = thread::spawn(move || {
        let written = Arc::new(AtomicU64::new(0));
        while !stopping.load(Ordering::Relaxed) {
            let (path, stopping, written) = (path.clone(), Arc::clone(&stopping), Arc::clone(&written));
            let one = thread::spawn(move || {
                let Ok(mut client) = Client::try_connect(&path) else { return };
                while !stopping.load(Ordering::Relaxed) {
                    let count = written.fetch_add(1, Ordering::Relaxed);
                    let (at, len) = (count * 7919 % 200 * 65536, 4096 << (count % 5));
                    client.write(at, &vec![1; len], count % 16 == 0).unwrap();
                    client.read(at, 4096).unwrap();
                    thread::sleep(Duration::from_millis(2));
                }
            });
            let _ = one.join();
            thread::sleep(Duration::from_millis(50));
        }
        written.load(Ordering::Relaxed)
    });
    let script = repository().join("scripts/pages.py");
    let mut look = Command::new("python3");
    if let Some(shots) = std::env::var_os("PERYTON_SHOTS") {
        look.arg(&script).arg("--shots").arg(shots);
    } else {
        look.arg(&script);
    }
    look.args(["--live", env!("CARGO_BIN_EXE_peryton"), "serve", "v.toml"]).current_dir(folder.path());
    let output = look.output().unwrap();
    stop.store(true, Ordering::Relaxed);
    let written = writer.join().unwrap_or(0);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && written > 0, "{written} writes\n{text}");
    for title in
        ["Requests", "Response time", "Hits", "Moves", "Dirty data", "Wear", "Answered within", "Where requests begin"]
    {
        assert!(text.contains(title), "'{title}' is not on the page: {text}");
    }
}
