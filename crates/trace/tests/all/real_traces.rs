//! Real traces, if they exist: the requests read must agree with the published counts.

use std::path::PathBuf;

use peryton_trace::{Format, Join, OpenOptions, Request, Source, measured, open, open_all};
use peryton_units::{Bytes, Nanos, Op};

/// A trace outside of the repository, which users do not have.
fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        eprintln!("skipped: {name} is not here");
        return None;
    }
    Some(path)
}

struct Counted {
    format: Format,
    reads: u64,
    writes: u64,
    discards: u64,
    flushes: u64,
    bytes: u64,
    span: Nanos,
    end: u64,
    late: u64,
}

fn count(path: PathBuf, options: &OpenOptions) -> Counted {
    let mut reader = open(&path, options).unwrap();
    let mut counted = Counted {
        format: reader.format(),
        reads: 0,
        writes: 0,
        discards: 0,
        flushes: 0,
        bytes: 0,
        span: Nanos::ZERO,
        end: 0,
        late: 0,
    };
    let mut batch: Vec<Request> = Vec::new();
    loop {
        reader.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            counted.late = reader.account().moved;
            return counted;
        }
        for request in &batch {
            *match request.op {
                Op::Read => &mut counted.reads,
                Op::Write => &mut counted.writes,
                Op::Discard => &mut counted.discards,
                Op::Flush => &mut counted.flushes,
            } += 1;
            counted.bytes += request.len.0;
            assert!(request.at >= counted.span, "time goes back");
            counted.span = request.at;
            counted.end = counted.end.max((request.offset + request.len).0);
        }
    }
}

#[test]
fn cloudphysics() {
    let Some(path) = shared("cloudphysics.vscsi") else { return };
    let counted = count(path, &OpenOptions::default());
    assert_eq!(counted.format, Format::Vscsi);
    // The SCSI commands in the file: 46,974 READ(10), 66,898 WRITE(10).
    assert_eq!((counted.reads, counted.writes), (46_974, 66_898));
}

#[test]
fn websearch_and_tpcc() {
    let Some(path) = shared("websearch-sample.disksim") else { return };
    let websearch = count(path, &OpenOptions::default());
    assert_eq!(websearch.format, Format::Disksim);
    assert_eq!(websearch.reads + websearch.writes, 24_783);
    assert!(websearch.writes < 30, "practically all reads");
    assert!((14_500..15_900).contains(&(websearch.bytes / 24_783)), "15 KB on average");

    let tpcc = count(shared("tpcc-sample.disksim").unwrap(), &OpenOptions::default());
    assert_eq!(tpcc.format, Format::Disksim);
    assert_eq!(tpcc.reads + tpcc.writes, 6_999);
    assert_eq!(tpcc.writes * 100 / 6_999, 37 - 1 + u64::from(tpcc.writes * 100 >= 37 * 6_999));
    assert!((8_000..9_000).contains(&(tpcc.bytes / 6_999)), "8.5 KB on average");
}

#[test]
fn a_developers_machine() {
    let Some(path) = shared("devbox-ext4.csv.xz") else { return };
    let devbox = count(path, &OpenOptions::default());
    assert_eq!(devbox.format, Format::Csv);
    assert_eq!((devbox.reads + 50_000) / 100_000, 14);
    assert_eq!((devbox.writes + 500) / 1_000, 89);
    assert_eq!((devbox.flushes + 500) / 1_000, 9);
    assert_eq!(devbox.span.as_s_f64().round(), 285.0);
}

#[test]
fn a_mail_store() {
    let Some(path) = shared("mailstore-ext4.csv.xz") else { return };
    let mail = count(path, &OpenOptions::default());
    assert_eq!((mail.writes + 500) / 1_000, 975);
    assert_eq!((mail.reads + 500) / 1_000, 183);
    assert_eq!((mail.flushes + 500) / 1_000, 142);
    assert_eq!(mail.span.as_s_f64().round(), 54.0);
}

#[test]
fn ftrace_and_csv_of_one_recording_agree() {
    let Some(path) = shared("devbox-sample.ftrace.zst") else { return };
    let mut ftrace = open(path, &OpenOptions::default()).unwrap();
    assert_eq!(ftrace.format(), Format::Ftrace);
    let mut csv = open(shared("devbox-ext4.csv.xz").unwrap(), &OpenOptions::default()).unwrap();
    let take = |reader: &mut dyn Source, n: usize| {
        let (mut all, mut batch): (Vec<Request>, _) = (Vec::new(), Vec::new());
        while all.len() < n {
            reader.next_batch(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            all.append(&mut batch);
        }
        all.truncate(n);
        all
    };
    let lines = take(&mut ftrace, usize::MAX);
    // 60,000 lines, of which 285 are journal commits (FWFSM): a flush and a write. The CSV left their flush out.
    assert_eq!(lines.len(), 60_285);
    assert_eq!(lines.iter().filter(|request| request.op == Op::Flush).count(), 5_695 + 285);
    let data = |requests: Vec<Request>| requests.into_iter().filter(|request| request.op != Op::Flush);
    let same = data(lines).zip(data(take(&mut csv, 60_000)));
    for (n, (a, b)) in same.enumerate() {
        assert_eq!((a.op, a.offset, a.len), (b.op, b.offset, b.len), "request {n}");
        // The CSV was made in floating point and cut to a microsecond.
        assert!(a.at.0.abs_diff(b.at.0) <= 1_000, "request {n}: {} {}", a.at, b.at);
    }
}

#[test]
fn real_disks() {
    for (disk, mean_ms) in [("cheetah9LP", 4.27), ("ibm18es", 5.26), ("atlas10k", 3.89), ("barracuda", 6.63)] {
        let Some(path) = shared(&format!("real-disks/{disk}.trace")) else { return };
        let counted = count(path.clone(), &OpenOptions::default());
        assert_eq!(counted.format, Format::DisksimValidate);
        assert_eq!(counted.reads + counted.writes, 10_000, "{disk}");
        let all = measured(path, &OpenOptions::default()).unwrap();
        assert_eq!(all.len(), 10_000);
        let mean = all.iter().map(|m| m.latency.as_us_f64() / 1e3).sum::<f64>() / 1e4;
        assert!((mean - mean_ms).abs() < 0.006, "{disk}: {mean} ms");
        for pair in all.windows(2) {
            assert!(pair[1].request.at >= pair[0].request.at + pair[0].latency, "one is in flight at a time");
        }
    }
}

#[test]
fn two_real_traces_in_sequence_and_side_by_side() {
    let Some(first) = shared("websearch-sample.disksim") else { return };
    let second = shared("tpcc-sample.disksim").unwrap();
    let spans =
        [count(first.clone(), &OpenOptions::default()).span, count(second.clone(), &OpenOptions::default()).span];
    let options = OpenOptions { files_as_volumes: true, concatenate: true, ..OpenOptions::default() };
    let mut reader = open_all(&[first, second], Join::InSequence, &options).unwrap();
    let layout = reader.layout().to_vec();
    assert_eq!(layout.len(), 2);
    let (mut requests, mut last, mut batch) = ([0, 0], Nanos::ZERO, Vec::new());
    loop {
        reader.next_batch(&mut batch).unwrap();
        let Some(request) = batch.last() else { break };
        last = request.at;
        for request in &batch {
            requests[usize::from(request.offset >= layout[1].start)] += 1;
        }
    }
    assert_eq!(requests, [24_783, 6_999]);
    assert_eq!(last, spans[0] + spans[1]);
    assert!(layout[1].start.is_multiple_of(Bytes::mib(1)));
}
