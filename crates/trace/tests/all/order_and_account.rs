//! What is moved, left out, spread or named is said, whatever the source.

use std::{fs, io::Cursor, path::Path};

use peryton_trace::{
    Account, Characteristics, Join, OpenOptions, Request, Source, TraceError, open, open_all, read, save,
};
use peryton_units::{Nanos, Op};

fn drain(source: &mut dyn Source) -> Result<(Vec<Request>, Account), TraceError> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok((all, source.account()));
        }
        all.append(&mut batch);
    }
}

fn all(text: &str, options: &OpenOptions) -> Result<(Vec<Request>, Account), TraceError> {
    drain(&mut read("t", Cursor::new(text.to_owned().into_bytes()), options)?)
}

fn remarks(account: &Account) -> Vec<String> {
    account.remarks().into_iter().map(|remark| remark.message).collect()
}

fn csv(times_us: impl Iterator<Item = u64>) -> String {
    times_us.fold("time_us,op,offset,length\n".to_owned(), |text, at| text + &format!("{at},R,0,512\n"))
}

#[test]
fn rows_in_reverse_keep_their_span() {
    let (requests, account) = all(&csv((0..300_000).rev().map(|n| n * 100)), &OpenOptions::default()).unwrap();
    assert_eq!(requests.last().unwrap().at, Nanos::from_us(29_999_900));
    assert!(requests.is_sorted_by_key(|request| request.at));
    assert_eq!(account.moved, 299_999);
    assert_eq!(remarks(&account), ["299999 of 300000 requests stood after a later one, and were moved to their time"]);
}

/// The fear: a part of a trace of which more was moved than it has.
#[test]
fn what_was_moved_is_of_what_was_read() {
    let text = csv((0..300_000).rev().map(|n| n * 100));
    let mut trace = read("t", Cursor::new(text.into_bytes()), &OpenOptions::default()).unwrap();
    let mut batch = Vec::new();
    trace.next_batch(&mut batch).unwrap();
    let account = trace.account();
    assert_eq!((account.requests, account.read, account.moved), (batch.len() as u64, 300_000, 299_999));
    assert_eq!(remarks(&account), ["299999 of 300000 requests stood after a later one, and were moved to their time"]);
}

/// The fear: requests without a length make others look smaller than they are.
#[test]
fn requests_without_a_length_are_counted_and_not_averaged() {
    let text = "time_us,op,offset,length\n0,R,0,4096\n1,R,512,0\n2,R,0,0\n3,W,0,8192\n4,D,0,0\n5,F,0,0\n";
    let mut trace = read("t", Cursor::new(text.as_bytes()), &OpenOptions::default()).unwrap();
    let about = Characteristics::of(&mut trace).unwrap();
    assert_eq!((about.requests, about.reads, about.writes, about.without_length), (6, 3, 1, 3));
    let sizes = [&about.request_bytes.all, &about.request_bytes.read, &about.request_bytes.write];
    assert_eq!(sizes.map(|sizes| sizes.as_ref().unwrap().distribution.mean), [6144.0, 4096.0, 8192.0]);
    assert_eq!((about.read_share, about.aligned_4kib_share), (Some(0.5), Some(1.0)));
    assert!(about.to_string().contains("3 of them, which are in no size"), "{about}");
}

#[test]
fn two_days_the_wrong_way_round_are_refused_by_name_or_sorted() {
    let text = csv((100_000..300_000).chain(0..1_000));
    let message = all(&text, &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.contains("request 200001 arrives") && message.contains("--sort"), "{message}");
    let sorted = OpenOptions { sort: true, ..OpenOptions::default() };
    let (requests, account) = all(&text, &sorted).unwrap();
    assert_eq!((requests.len(), requests.last().unwrap().at, account.moved), (201_000, Nanos::from_us(299_999), 1_000));
}

#[test]
fn parquet_keeps_the_start_and_merges_as_csv_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, times: [u64; 2], length: u64| {
        let text = format!("time_us,op,offset,length\n{},R,0,{length}\n{},R,0,{length}\n", times[0], times[1]);
        let mut trace = read(name, Cursor::new(text.into_bytes()), &OpenOptions::default()).unwrap();
        for extension in ["csv", "parquet"] {
            assert_eq!(save(&mut trace, &path(&format!("{name}.{extension}")), "").unwrap(), 2);
            let text = fs::read_to_string(path(&format!("{name}.csv"))).unwrap();
            trace = read(name, Cursor::new(text.into_bytes()), &OpenOptions::default()).unwrap();
        }
    };
    write("late", [2_000_000, 2_000_050], 1024);
    write("early", [1_000_000, 2_000_020], 512);
    let merged = |a: &Path, b: &Path| {
        let mut reader = open_all(&[a, b], Join::ByTime, &OpenOptions::default()).unwrap();
        let (requests, account) = drain(&mut reader).unwrap();
        (requests.iter().map(|request| (request.at.0 / 1_000, request.len.0)).collect::<Vec<_>>(), account.start)
    };
    let expected = (vec![(0, 512), (1_000_000, 1024), (1_000_020, 512), (1_000_050, 1024)], Nanos::from_us(1_000_000));
    for a in ["csv", "parquet"] {
        for b in ["csv", "parquet"] {
            assert_eq!(merged(&path(&format!("late.{a}")), &path(&format!("early.{b}"))), expected, "{a} {b}");
        }
    }
    let mut alone = open(path("late.parquet"), &OpenOptions::default()).unwrap();
    let (requests, account) = drain(&mut alone).unwrap();
    assert_eq!((requests[0].at, account.start), (Nanos::ZERO, Nanos::from_us(2_000_000)));
}

#[test]
fn whole_seconds_are_remarked_on_and_spread() {
    let text: String = (0..400).map(|n| format!("{},8,8,0,7\n", 1_538_323_200 + n / 100)).collect();
    let (requests, account) = all(&text, &OpenOptions::default()).unwrap();
    assert_eq!((requests[99].at, requests[100].at, account.together), (Nanos::ZERO, Nanos::from_ms(1_000), 396));
    let said = account.remarks()[0].to_string();
    assert!(said.contains("99.0 % of the requests come at the time of another") && said.contains("--spread"), "{said}");
    let spread = OpenOptions { spread: true, ..OpenOptions::default() };
    let (requests, account) = all(&text, &spread).unwrap();
    let expected: Vec<Nanos> = (0..400).map(|n| Nanos::from_ms(n * 10)).collect();
    assert_eq!(requests.iter().map(|request| request.at).collect::<Vec<_>>(), expected);
    assert!(remarks(&account).join("").contains("396 requests with times in whole seconds were spread"), "{account:?}");
    let message = all(&csv((0..400).map(|n| n * 10_000)), &spread).unwrap_err().to_string();
    assert!(message.contains("fractions of a second"), "{message}");
    let (_, account) = all(&csv((0..400).map(|n| n * 10_000)), &OpenOptions::default()).unwrap();
    assert_eq!(remarks(&account), Vec::<String>::new());
}

/// The fear: a line without `+` is dropped as a completed flush.
#[test]
fn a_request_is_not_dropped_without_a_word() {
    let good = "8,0 1 1 1.0 5 Q R 8 + 8 [x]\n8,0 1 2 1.1 5 Q R 16 + 8 [x]\n";
    let bare = "8,0 1 3 1.2 5 Q W 274432 2048\n";
    let message = all(&format!("{good}{bare}"), &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.contains("t:3: the size may be bytes or sectors") && message.contains("--unit size="), "{message}");
    for (unit, length) in [("bytes", 2_048), ("sectors", 1 << 20)] {
        let options = OpenOptions { units: format!("size={unit}").parse().unwrap(), ..OpenOptions::default() };
        let (requests, _) = all(&format!("{good}{bare}"), &options).unwrap();
        assert_eq!((requests.len(), requests[2].len.0, requests[2].op), (3, length, Op::Write), "{unit}");
    }
    let message = all(&format!("{good}8,0 1 3 1.2 5 Q W 274432\n"), &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.contains("t:3: a request without a size"), "{message}");
    let (requests, account) =
        all(&format!("{good}8,0 1 3 1.2 5 Q R 36 (12 00 00) [smartd]\n"), &OpenOptions::default()).unwrap();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        remarks(&account),
        ["left out of the trace as no requests of the workload: 1 commands of programs to a driver"]
    );
}

#[test]
fn a_device_is_called_as_linux_calls_it() {
    let text =
        "253,0 1 1 0.0 7 Q R 0 + 8 [p]\n8,0 1 2 0.1 7 A R 2048 + 8 <- (253,0) 0\n8,0 1 3 0.2 7 Q R 2048 + 8 [p]\n";
    let (requests, account) = all(text, &OpenOptions::default()).unwrap();
    let volumes: Vec<u32> = requests.iter().map(|request| request.volume).collect();
    assert_eq!(volumes.iter().map(|volume| account.names.name(*volume)).collect::<Vec<_>>(), ["253,0", "8,0"]);
    let advice = account.names.advice(&volumes).unwrap();
    assert!(advice.contains("--volumes 253,0"), "{advice}");
    // As the command line splits it.
    let only = OpenOptions { volumes: Some(vec!["253".to_owned(), "0".to_owned()]), ..OpenOptions::default() };
    assert_eq!(all(text, &only).unwrap().0.len(), 1);
    let other = OpenOptions { volumes: Some(vec!["8".to_owned(), "16".to_owned()]), ..OpenOptions::default() };
    let message = all(text, &other).unwrap_err().to_string();
    assert_eq!(message, "t: no request of volume 8,16: the trace has volumes 8,0, 253,0");
}

#[test]
fn files_of_fio_that_are_merged_share_the_names_of_their_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, rows: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("fio version 3 iolog\n{rows}")).unwrap();
        path
    };
    let a = log("a", "1 x add\n2 x read 0 512\n");
    let b = log("b", "1 y add\n3 y read 0 512\n4 x read 512 512\n");
    let mut reader = open_all(&[a, b], Join::ByTime, &OpenOptions::default()).unwrap();
    let (requests, account) = drain(&mut reader).unwrap();
    let names: Vec<String> = requests.iter().map(|request| account.names.name(request.volume)).collect();
    assert_eq!(names, ["x", "y", "x"]);
}

#[test]
fn the_unit_of_times_is_the_users() {
    let log = "fio version 3 iolog\n0 d add\n0 d write 0 4096\n1000000 d write 4096 4096\n";
    let ns = OpenOptions { units: "time=ns".parse().unwrap(), ..OpenOptions::default() };
    assert_eq!(all(log, &OpenOptions::default()).unwrap().0[1].at, Nanos::from_ms(1_000));
    assert_eq!(all(log, &ns).unwrap().0[1].at, Nanos::from_ms(1));
}
