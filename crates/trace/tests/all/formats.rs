//! Every format against golden requests: compressed, in pieces, and with bad lines.

use crate::samples;

use std::{
    fs,
    io::{self, Read, Write},
};

use peryton_trace::{BlockEvent, Format, Join, OpenOptions, Reader, Request, Source, TraceError, open, open_all, read};
use peryton_units::{Bytes, Nanos, Op};

fn drain(mut reader: Reader) -> Result<Vec<Request>, TraceError> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.append(&mut batch);
    }
}

fn requests(bytes: &[u8], options: &OpenOptions) -> Result<Vec<Request>, TraceError> {
    drain(read("t", io::Cursor::new(bytes.to_vec()), options)?)
}

fn given(format: Format) -> OpenOptions {
    OpenOptions { format: Some(format), ..OpenOptions::default() }
}

struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Read for Trickle {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.step.min(out.len()).min(self.bytes.len() - self.at);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[test]
fn each_sample_reads_as_written() {
    for sample in samples::all() {
        for options in [OpenOptions::default(), given(sample.format)] {
            assert_eq!(requests(&sample.bytes, &options).unwrap(), sample.requests, "{}", sample.name);
        }
    }
}

#[test]
fn a_pipe_that_hands_out_few_bytes_changes_nothing() {
    for sample in samples::all() {
        for step in [1, 7, 47] {
            let pipe = Trickle { bytes: sample.bytes.clone(), at: 0, step };
            let reader = read("t", pipe, &OpenOptions::default()).unwrap();
            assert_eq!(drain(reader).unwrap(), sample.requests, "{} by {step}", sample.name);
        }
    }
}

fn compress(codec: &str, bytes: &[u8]) -> Vec<u8> {
    match codec {
        "gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => zstd::encode_all(bytes, 1).unwrap(),
        "xz" => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
    }
}

const CODECS: [&str; 4] = ["gzip", "zstd", "xz", "bzip2"];

#[test]
fn compressed_in_one_piece_or_in_several() {
    for codec in CODECS {
        for sample in samples::all() {
            let whole = compress(codec, &sample.bytes);
            assert_eq!(requests(&whole, &OpenOptions::default()).unwrap(), sample.requests, "{codec} {}", sample.name);
            let (a, b) = sample.bytes.split_at(sample.bytes.len() / 3);
            let pieces = [compress(codec, a), compress(codec, b)].concat();
            assert_eq!(requests(&pieces, &OpenOptions::default()).unwrap(), sample.requests, "{codec} {}", sample.name);
        }
    }
}

#[test]
fn a_truncated_compressed_trace_is_an_error_wherever_it_is_cut() {
    let line = |n: u64| format!("{},host,0,Read,{},4096,1\n", n + 128_166_372_003_061_629, n * 7919 % 1_000_003 * 4096);
    let text: String = (0..2_000).map(line).collect();
    for codec in CODECS {
        let whole = compress(codec, text.as_bytes());
        assert_eq!(requests(&whole, &OpenOptions::default()).unwrap().len(), 2_000);
        for cut in (1..40).map(|n| whole.len() * n / 40).chain([whole.len() - 1]) {
            for skip_bad in [false, true] {
                let options = OpenOptions { skip_bad, ..given(Format::Msr) };
                let error = requests(&whole[..cut], &options).expect_err(codec).to_string();
                assert!(error.contains("truncated") && error.contains(codec), "{codec} cut at {cut}: {error}");
            }
        }
    }
}

#[test]
fn a_bad_line_stops_with_its_place_or_is_skipped_and_counted() {
    let bad_lines = [
        (Format::Msr, "128166372003061630,src1,0,Read,-1,32768,413"),
        (Format::Msr, "128166372003061630,src1,0,Erase,1,32768,413"),
        (Format::Msr, "228166372003061630,src1,0,Read,1,1,413"),
        (Format::Msr, "128166372003061630,src1,0,Read,9223372036854775807,1,413"),
        (Format::Msr, "128166372003061630,src1,0,Read,0,4294967297,413"),
        (Format::Msr, "128166372003061630,src1,0,Read"),
        (Format::Spc, "0,303567,3584,w,nan"),
        (Format::Spc, "0,36028797018963968,3584,w,1.0"),
        (Format::Fiu, "1000 42 httpd 100 8 X 8 0"),
        (Format::Alibaba, "419,W,8792731648,16384,18446744073709551615"),
        (Format::Lis, "230027 8 x 3"),
        (Format::Lis, "230027 8 0 3 4"),
        (Format::Tencent, "1538323200,12910952,128,2,1063"),
        (Format::Systor17, "-1.0,,R,4,27918336,4096"),
        (Format::Disksim, "11413000 0 657728 16"),
        (Format::DisksimValidate, "R Hit 5 5 inf 3"),
        (Format::Fio, "/dev/sda scribble 0 0"),
        (Format::Csv, "15,R,0"),
        (Format::Csv, "15,Q,0,5"),
        (Format::Blkparse, "8,0 3 2 0.000001829 697 Q W 223490 + many [kjournald]"),
        (Format::Ftrace, "rm-1 [0] .. 7090.1: block_bio_queue: 7,0 RM + 8 [x]"),
        (Format::Ftrace, "Segmentation fault"),
    ];
    for (format, bad) in bad_lines {
        let sample = samples::all().into_iter().find(|sample| sample.format == format).unwrap();
        let text = String::from_utf8(sample.bytes).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        // The position after the last relevant event, before the summary.
        let at = lines.iter().position(|line| line.starts_with("CPU0")).unwrap_or(lines.len());
        lines.insert(at, bad);
        let text = lines.join("\n");
        let error = requests(text.as_bytes(), &given(format)).expect_err(bad);
        let message = error.to_string();
        assert!(matches!(error, TraceError::Line { .. }), "{message}");
        assert!(message.starts_with(&format!("t:{}: ", at + 1)), "{message}");
        assert!(message.contains(bad) && message.contains("expected ") && !message.contains('\n'), "{message}");

        let options = OpenOptions { skip_bad: true, ..given(format) };
        let mut reader = read("t", io::Cursor::new(text.into_bytes()), &options).unwrap();
        let mut batch = Vec::new();
        reader.next_batch(&mut batch).unwrap();
        assert_eq!(batch, sample.requests, "{bad}");
        let skipped = reader.account().skipped;
        assert_eq!((skipped.count, skipped.first), (1, vec![message]));
    }
}

#[test]
fn bad_records_stop_or_are_skipped() {
    let mut blktrace = samples::blktrace(7, false);
    let good = requests(&blktrace, &OpenOptions::default()).unwrap();
    blktrace.splice(57..57, *b"noise");
    let message = requests(&blktrace, &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.starts_with("t: byte 57: no magic number in '6e6f697365"), "{message}");
    let options = OpenOptions { skip_bad: true, ..OpenOptions::default() };
    assert_eq!(requests(&blktrace, &options).unwrap(), good);

    let mut newer = samples::blktrace(7, true);
    newer[3] = 9;
    let message = requests(&newer, &OpenOptions::default()).unwrap_err().to_string();
    assert!(message.starts_with("t: byte 0: version 9 in"), "{message}");

    for sample in samples::all() {
        if !matches!(sample.format, Format::Vscsi | Format::OracleGeneral | Format::Blktrace) {
            continue;
        }
        let cut = &sample.bytes[..sample.bytes.len() - 3];
        let message = requests(cut, &given(sample.format)).unwrap_err().to_string();
        assert!(message.contains("ends inside a record"), "{message}");
        let options = OpenOptions { skip_bad: true, ..given(sample.format) };
        let read = requests(cut, &options).unwrap();
        assert_eq!(read[..], sample.requests[..sample.requests.len() - 1], "{}", sample.name);
    }
}

#[test]
fn good_requests_come_before_the_error() {
    let sample = samples::all().remove(0);
    let text = [&sample.bytes[..], b"garbage\n"].concat();
    let mut reader = read("t", io::Cursor::new(text), &OpenOptions::default()).unwrap();
    let mut batch = Vec::new();
    reader.next_batch(&mut batch).unwrap();
    assert_eq!(batch, sample.requests);
    assert!(reader.next_batch(&mut batch).is_err() && batch.is_empty());
    assert!(reader.next_batch(&mut batch).is_ok() && batch.is_empty());
}

#[test]
fn a_trace_of_nothing_but_bad_lines_is_not_an_empty_success() {
    let options = OpenOptions { skip_bad: true, ..given(Format::Msr) };
    let message = requests(b"a\nb\nc\n", &options).unwrap_err().to_string();
    assert!(message.contains("3 were bad") && message.contains("t:1:"), "{message}");
    let message = requests(b"time_us,op,offset,length\n", &given(Format::Csv)).unwrap_err().to_string();
    assert!(message.contains("no request"), "{message}");
}

#[test]
fn volumes_are_selected_and_a_wrong_number_gets_the_list() {
    let sample = samples::all().into_iter().find(|sample| sample.name == "tencent").unwrap();
    let select = |volumes: &[u32]| {
        let volumes = volumes.iter().map(u32::to_string).collect();
        requests(&sample.bytes, &OpenOptions { volumes: Some(volumes), ..OpenOptions::default() })
    };
    assert_eq!(select(&[1063]).unwrap().len(), 2);
    assert_eq!(select(&[5, 1064]).unwrap().len(), 1);
    let message = select(&[7]).unwrap_err().to_string();
    assert_eq!(message, "t: no request of volume 7: the trace has volumes 1063, 1064");
}

#[test]
fn volumes_are_laid_one_after_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.csv.gz");
    let text = "time_us,op,offset,length,volume\n0,W,1048576,512,9\n1,R,0,4096,2\n2,R,1048576,512,2\n3,F,0,0,9\n";
    fs::write(&path, compress("gzip", text.as_bytes())).unwrap();
    let options = OpenOptions { concatenate: true, ..OpenOptions::default() };
    let reader = open(&path, &options).unwrap();
    let layout: Vec<_> = reader.layout().iter().map(|v| (v.volume, v.start, v.len)).collect();
    assert_eq!(layout, [(2, Bytes(0), Bytes::mib(2)), (9, Bytes::mib(2), Bytes::mib(2))]);
    assert_eq!(reader.name(), "two.csv.gz");
    let read: Vec<_> = drain(reader).unwrap().iter().map(|r| (r.volume, r.offset.0, r.op)).collect();
    let data: Vec<_> = read.iter().filter(|r| r.2 != Op::Flush).copied().collect();
    assert_eq!(data, [(0, 3 << 20, Op::Write), (0, 0, Op::Read), (0, 1 << 20, Op::Read)]);
    // For a pipe the message names a remedy.
    let pipe = io::Cursor::new(text.as_bytes().to_vec());
    let message = peryton_trace::read("t", pipe, &options).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("save it in a file"), "{message}");
}

#[test]
fn a_bad_line_in_one_of_several_files_does_not_smuggle_other_volumes_in() {
    let directory = tempfile::tempdir().unwrap();
    let csv = |name: &str, rows: &str| {
        let path = directory.path().join(name);
        fs::write(&path, format!("time_us,op,offset,length,volume\n{rows}")).unwrap();
        path
    };
    let a = csv("a.csv", "10,W,0,512,1\n20,W,0,512,2\n");
    let b = csv("b.csv", "15,R,0,512,1\n16,R,0,512,2\nbad\n");
    for (join, times) in [(Join::ByTime, [0, 5]), (Join::InSequence, [0, 10])] {
        let options = OpenOptions { volumes: Some(vec!["1".to_owned()]), ..OpenOptions::default() };
        let mut reader = open_all(&[&a, &b], join, &options).unwrap();
        let (mut good, mut batch) = (Vec::new(), Vec::new());
        let error = loop {
            match reader.next_batch(&mut batch) {
                Ok(()) => good.append(&mut batch),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("b.csv:4: "), "{error}");
        assert!(good.iter().all(|request| request.volume == 1), "{good:?}");
        let read: Vec<_> = good.iter().map(|request| request.at.0 / 1_000).collect();
        assert_eq!(read, times[..read.len()]);
        assert!(join == Join::ByTime || read.len() == 2);
        let message = open_all(&[&a, &b], join, &OpenOptions { skip_bad: true, ..options }).unwrap();
        assert_eq!(drain(message).unwrap().len(), 2);
    }
}

#[test]
fn the_files_of_all_cpus_are_one_trace() {
    let directory = tempfile::tempdir().unwrap();
    let events = samples::blktrace(7, false);
    // Records go to two CPUs in turn; a third was idle.
    let (mut cpus, mut at, mut cpu) = ([Vec::new(), Vec::new()], 0, 0);
    while at < events.len() {
        let pdu = u16::from_le_bytes([events[at + 46], events[at + 47]]);
        let end = at + 48 + usize::from(pdu);
        cpus[cpu].extend(&events[at..end]);
        (at, cpu) = (end, 1 - cpu);
    }
    for (cpu, bytes) in cpus.iter().chain([&Vec::new()]).enumerate() {
        fs::write(directory.path().join(format!("sda.blktrace.{cpu}")), bytes).unwrap();
    }
    let whole = requests(&events, &OpenOptions::default()).unwrap();
    for name in ["sda", "sda.blktrace.0", "sda.blktrace.1"] {
        let reader = open(directory.path().join(name), &OpenOptions::default()).unwrap();
        assert_eq!(reader.format(), Format::Blktrace);
        assert_eq!(drain(reader).unwrap(), whole, "{name}");
    }
    // The fear: of the files of two CPUs one is compressed, and half of the requests is missing without a word.
    let plain = directory.path().join("sda.blktrace.1");
    fs::write(directory.path().join("sda.blktrace.1.gz"), compress("gzip", &fs::read(&plain).unwrap())).unwrap();
    for both in [true, false] {
        for name in ["sda", "sda.blktrace.0", "sda.blktrace.1.gz"] {
            let reader = open(directory.path().join(name), &OpenOptions::default()).unwrap();
            assert_eq!(drain(reader).unwrap(), whole, "{name}, both {both}");
        }
        let _ = fs::remove_file(&plain);
    }
}

/// The fear: blkparse's text that is called like the binary is refused.
#[test]
fn text_with_the_name_of_the_binary_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let sample = samples::all().into_iter().find(|sample| sample.name == "blkparse").unwrap();
    let path = directory.path().join("sda.blktrace.0");
    fs::write(&path, &sample.bytes).unwrap();
    let reader = open(&path, &OpenOptions::default()).unwrap();
    assert_eq!((reader.format(), drain(reader).unwrap()), (Format::Blkparse, sample.requests));
}

#[test]
fn the_event_and_the_unit_can_be_chosen() {
    for (name, event, count) in
        [("blkparse", BlockEvent::Issue, 1), ("blktrace", BlockEvent::Complete, 1), ("ftrace", BlockEvent::Issue, 1)]
    {
        let sample = samples::all().into_iter().find(|sample| sample.name == name).unwrap();
        let options = OpenOptions { event: Some(event), ..OpenOptions::default() };
        assert_eq!(requests(&sample.bytes, &options).unwrap().len(), count, "{name}");
        let none = OpenOptions { event: Some(BlockEvent::Insert), ..OpenOptions::default() };
        assert!(requests(&sample.bytes, &none).unwrap_err().to_string().contains("no request"));
    }
    let options = OpenOptions { units: "time=us".parse().unwrap(), ..OpenOptions::default() };
    let read = requests(b"5 0 0 8 1\n7 0 0 8 1\n", &options).unwrap();
    assert_eq!(read[1].at, Nanos::from_us(2));
    let message = requests(b"5 0 0 8 1\n", &given(Format::Vscsi)).unwrap_err().to_string();
    assert!(message.contains("vscsi") && message.contains("5 0 0 8 1"), "{message}");
}

#[test]
fn what_is_not_there_is_named() {
    for path in ["/nonexistent/trace.csv", "/"] {
        let message = open(path, &OpenOptions::default()).map(|_| ()).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{path}: ")) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_long_trace_keeps_order_and_count() {
    // Enough lines for several buffers, batches and windows; they differ in length, so that boundaries fall anywhere in
    // a line.
    let n = 300_000u64;
    let mut text = String::from("time_ns,op,offset,length\n");
    for i in 0..n {
        text += &format!("{},{},{},{}\n", i * 3, if i % 3 == 0 { "W" } else { "read" }, i * i % (1 << 40), i % 5_000);
    }
    let read = requests(text.as_bytes(), &OpenOptions::default()).unwrap();
    assert_eq!(read.len() as u64, n);
    for (i, request) in (0..).zip(&read) {
        let op = if i % 3 == 0 { Op::Write } else { Op::Read };
        let (at, offset, len) = (Nanos(i * 3), Bytes(i * i % (1 << 40)), Bytes(i % 5_000));
        assert_eq!(*request, Request { at, offset, len, volume: 0, op });
    }
}
