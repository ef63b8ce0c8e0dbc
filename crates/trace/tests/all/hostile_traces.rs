//! Random, damaged and cut traces give an error or requests that a volume could have; they neither panic nor run
//! forever.

use crate::samples;

use std::io::{self, Read};

use peryton_trace::{BATCH, Format, MAX_TRANSFER, OpenOptions, Source, read};
use peryton_units::{Nanos, Op};
use proptest::prelude::*;

/// A reader that returns pieces of changing size.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.step = self.step * 5 % 97 + 1;
        let n = self.step.min(out.len()).min(self.bytes.len() - self.at);
        out[..n].copy_from_slice(&self.bytes[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Reads to the end or to an error, and checks the requests.
fn exercise(bytes: Vec<u8>, format: Option<Format>, skip_bad: bool, step: usize) -> Result<usize, String> {
    let size = bytes.len();
    let options = OpenOptions { format, skip_bad, ..OpenOptions::default() };
    let mut reader = read("t", Pieces { bytes, at: 0, step }, &options).map_err(|error| one_line(&error))?;
    let (mut count, mut last, mut batch) = (0, Nanos::ZERO, Vec::new());
    loop {
        reader.next_batch(&mut batch).map_err(|error| one_line(&error))?;
        assert!(batch.len() <= BATCH);
        if batch.is_empty() {
            assert!(skip_bad || reader.account().skipped.count == 0);
            assert!(reader.account().skipped.first.iter().all(|message| !message.contains('\n')));
            return Ok(count);
        }
        for request in &batch {
            assert!(request.at >= last);
            last = request.at;
            let end = request.offset.0.checked_add(request.len.0);
            assert!(end.is_some_and(|end| end <= i64::MAX as u64));
            assert!(request.op == Op::Discard || request.len <= MAX_TRANSFER);
            assert!(request.op != Op::Flush || request.len.0 == 0);
        }
        count += batch.len();
        assert!(count <= size, "more requests than bytes");
    }
}

fn one_line(error: &dyn std::error::Error) -> String {
    let message = error.to_string();
    assert!(!message.contains('\n') && message.starts_with('t') && message.chars().count() < 1_000, "{message}");
    message
}

fn any_format() -> impl Strategy<Value = Option<Format>> {
    prop_oneof![Just(None), proptest::sample::select(Format::ALL).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..4096), format in any_format(), skip: bool, step in 1..97usize) {
        let _ = exercise(bytes, format, skip, step);
    }

    /// Bytes that are common in traces reach more of the code than random ones.
    #[test]
    fn random_text(text in "[0-9RWDFQ.,:;+\\-\\[\\] \"\t\n]{0,600}", format in any_format(), skip: bool, step in 1..97usize) {
        let _ = exercise(text.into_bytes(), format, skip, step);
    }

    #[test]
    fn damaged_samples(
        which in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..4u8), 0..8),
        cut in proptest::option::of(any::<proptest::sample::Index>()),
        right_format: bool,
        other in any_format(),
        skip: bool,
        step in 1..97usize,
    ) {
        let samples = samples::all();
        let sample = which.get(&samples);
        let mut bytes = sample.bytes.clone();
        for (at, byte, kind) in damage {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => { let piece = bytes[at..].to_vec(); bytes.extend(piece); }
                _ => bytes[at] = b'9',
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = exercise(bytes, if right_format { Some(sample.format) } else { other }, skip, step);
    }

    /// A damaged compressed stream must not crash the process either.
    #[test]
    fn damaged_streams(
        which in any::<proptest::sample::Index>(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        codec in 0..4usize,
        skip: bool,
    ) {
        let samples = samples::all();
        let sample = which.get(&samples);
        let mut bytes = match codec {
            0 => zstd::encode_all(&sample.bytes[..], 1).unwrap(),
            1 => {
                let mut out = Vec::new();
                flate2::bufread::GzEncoder::new(&sample.bytes[..], flate2::Compression::fast()).read_to_end(&mut out).unwrap();
                out
            }
            2 => {
                let mut out = Vec::new();
                liblzma::bufread::XzEncoder::new(&sample.bytes[..], 1).read_to_end(&mut out).unwrap();
                out
            }
            _ => {
                let mut out = Vec::new();
                bzip2::bufread::BzEncoder::new(&sample.bytes[..], bzip2::Compression::fast()).read_to_end(&mut out).unwrap();
                out
            }
        };
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let options = OpenOptions { skip_bad: skip, ..OpenOptions::default() };
        if let Ok(mut reader) = read("t", io::Cursor::new(bytes), &options) {
            let mut batch = Vec::new();
            while reader.next_batch(&mut batch).is_ok() && !batch.is_empty() {}
        }
    }
}

#[test]
fn every_cut_of_every_sample() {
    for sample in samples::all() {
        for end in 0..=sample.bytes.len() {
            for skip in [false, true] {
                let read = exercise(sample.bytes[..end].to_vec(), Some(sample.format), skip, end);
                if end == sample.bytes.len() {
                    assert_eq!(read, Ok(sample.requests.len()), "{}", sample.name);
                }
            }
        }
    }
}

/// A gigabyte of one endless line, and of only bad lines: memory stays that of one buffer.
#[test]
fn what_never_ends_is_not_stored() {
    struct Repeat(u64, &'static [u8]);
    impl Read for Repeat {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.0.min(out.len() as u64) as usize;
            out[..n].iter_mut().zip(self.1.iter().cycle()).for_each(|(out, byte)| *out = *byte);
            self.0 -= n as u64;
            Ok(n)
        }
    }
    let drain = |bytes, pattern, format, skip_bad| {
        let options = OpenOptions { format: Some(format), skip_bad, ..OpenOptions::default() };
        let mut reader = read("t", Repeat(bytes, pattern), &options).unwrap();
        let mut batch = Vec::new();
        let ended = loop {
            match reader.next_batch(&mut batch) {
                Ok(()) if batch.is_empty() => break None,
                Ok(()) => {}
                Err(error) => break Some(error.to_string()),
            }
        };
        (ended, reader.account().skipped)
    };
    let before = resident();
    for skip in [false, true] {
        let (ended, skipped) = drain(1 << 27, b"x", Format::Msr, skip);
        assert!(ended.is_some_and(|message| message.contains("longer than")));
        assert_eq!(skipped.count, u64::from(skip));
    }
    let (ended, skipped) = drain(1 << 26, b"not a line\n", Format::Msr, true);
    assert!(ended.is_some() && skipped.count > 1_000_000 && skipped.first.len() == 5);
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after < before + (64 << 20), "{before} bytes before, {after} after");
    }
}

/// The most memory that this process has used, in bytes.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}
