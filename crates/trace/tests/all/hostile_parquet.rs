//! Damaged, truncated and foreign files give one clear error, and never a panic.

use std::{fs, path::Path, sync::Arc};

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use peryton_trace::{ParquetSource, ParquetWriter, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

/// Reads to the end or the first error.
fn read(path: &Path) -> Result<Vec<Request>, TraceError> {
    let mut source = ParquetSource::open(path)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&batch);
    }
}

fn small_trace() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let mut writer = ParquetWriter::create(&path, "to be damaged").unwrap();
    let requests = (0..5000u64).map(|i| Request {
        at: Nanos(i * i),
        offset: Bytes(i * 7919 % 1000 * 512),
        len: Bytes(512 << (i % 5)),
        volume: (i % 3) as u32,
        op: Op::from_code((i % 4) as u8).unwrap(),
    });
    writer.write(&requests.collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    fs::read(path).unwrap()
}

/// Checks that the file can still be read, or that the error is one line with the file's name.
fn is_survived(bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    fs::write(&path, bytes).unwrap();
    if let Err(error) = read(&path) {
        let text = error.to_string();
        assert!(text.contains("damaged.parquet") && !text.contains('\n'), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damaged_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        thread_local!(static TRACE: Vec<u8> = small_trace());
        let mut bytes = TRACE.with(Clone::clone);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        is_survived(&bytes);
    }

    #[test]
    fn a_damaged_footer_never_panics(changes in prop::collection::vec((0usize..900, any::<u8>()), 1..4)) {
        thread_local!(static TRACE: Vec<u8> = small_trace());
        let mut bytes = TRACE.with(Clone::clone);
        for (from_end, value) in changes {
            let at = bytes.len() - 1 - from_end;
            bytes[at] = value;
        }
        is_survived(&bytes);
    }
}

#[test]
fn a_truncated_file_is_an_error_wherever_it_ends() {
    let bytes = small_trace();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.parquet");
    for end in (0..bytes.len()).step_by(97) {
        fs::write(&path, &bytes[..end]).unwrap();
        let error = read(&path).expect_err("a file that ends early must not look whole").to_string();
        assert!(error.contains("short.parquet"), "{error}");
    }
}

fn foreign(columns: Vec<(&str, ArrayRef)>) -> Result<Vec<Request>, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign.parquet");
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(fs::File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    read(&path).map_err(|error| error.to_string())
}

fn int64(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

#[test]
fn files_of_data_frames_are_read() {
    let requests = foreign(vec![
        ("comment", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
        ("time_s", Arc::new(Float64Array::from(vec![1000.5, 1000.75, 1002.0]))),
        ("op", Arc::new(StringArray::from(vec!["R", "write", "D"]))),
        ("sector", Arc::new(Int32Array::from(vec![8, 0, 2]))),
        ("length", int64(&[4096, 512, 1024])),
    ])
    .unwrap();
    let request =
        |at, op, offset, len| Request { at: Nanos(at), op, offset: Bytes(offset), len: Bytes(len), volume: 0 };
    assert_eq!(
        requests,
        [
            request(0, Op::Read, 4096, 4096),
            request(250_000_000, Op::Write, 0, 512),
            request(1_500_000_000, Op::Discard, 1024, 1024)
        ]
    );
}

#[test]
fn wrong_columns_are_named_with_the_remedy() {
    let op = || int64(&[0]);
    let cases: Vec<(Vec<(&str, ArrayRef)>, &str)> = vec![
        (vec![("when", op()), ("op", op()), ("offset", op()), ("length", op())], "no column 'time_ns' or 'time_us'"),
        (vec![("time_ns", op()), ("offset", op()), ("length", op())], "no column 'op'"),
        (vec![("time_ns", int64(&[-1])), ("op", op()), ("offset", op()), ("length", op())], "row 1: time is -1"),
        (vec![("time_ns", op()), ("op", int64(&[4])), ("offset", op()), ("length", op())], "row 1: op has code 4"),
        (
            vec![("time_ns", op()), ("op", int64(&[256])), ("offset", op()), ("length", op())],
            "expected 0 (read), 1 (write)",
        ),
        (
            vec![
                ("time_s", Arc::new(Float64Array::from(vec![f64::NAN])) as _),
                ("op", op()),
                ("offset", op()),
                ("length", op()),
            ],
            "row 1: time is NaN",
        ),
        (
            vec![
                ("time_ns", op()),
                ("op", op()),
                ("offset", op()),
                ("length", Arc::new(StringArray::from(vec!["x"])) as _),
            ],
            "'length' has type Utf8",
        ),
        (
            vec![("time_ns", op()), ("op", op()), ("sector", int64(&[i64::MAX])), ("length", op())],
            "row 1: offset is 9223372036854775807",
        ),
        (
            vec![
                ("time_ns", op()),
                ("op", op()),
                ("offset", op()),
                ("length", Arc::new(Int64Array::from(vec![None])) as _),
            ],
            "row 1: length is null",
        ),
    ];
    for (columns, expected) in cases {
        let error = foreign(columns).unwrap_err();
        assert!(error.contains(expected), "'{error}' does not say '{expected}'");
    }
}

#[test]
fn a_directory_and_a_missing_file_are_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(read(dir.path()).unwrap_err().to_string().contains("directory"));
    assert!(read(&dir.path().join("absent.parquet")).unwrap_err().to_string().contains("absent.parquet"));
}
