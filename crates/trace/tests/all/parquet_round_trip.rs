//! Written requests are read back unchanged; an interrupted write leaves nothing.

use std::fs;

use peryton_trace::{BATCH, ParquetSource, ParquetWriter, Request, Source};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

fn read_all(source: &mut dyn Source) -> Vec<Request> {
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        source.next_batch(&mut batch).unwrap();
        assert!(batch.len() <= BATCH);
        if batch.is_empty() {
            return all;
        }
        all.extend_from_slice(&batch);
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    (any::<u64>(), 0..=u64::MAX / 2, 0..=u64::MAX / 2, any::<u32>(), 0u8..4).prop_map(
        |(at, offset, len, volume, op)| Request {
            at: Nanos(at),
            offset: Bytes(offset),
            len: Bytes(len),
            volume,
            op: Op::from_code(op).unwrap(),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_written_reads_back(requests in prop::collection::vec(any_request(), 0..3 * BATCH / 2), pieces in 1usize..5) {
        // A file keeps the order of time; times are counted from the first.
        let mut requests = requests;
        requests.sort_by_key(|request| request.at);
        let first = requests.first().map_or(Nanos::ZERO, |first| first.at);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.parquet");
        let mut writer = ParquetWriter::create(&path, "a property test").unwrap();
        for piece in requests.chunks(requests.len() / pieces + 1) {
            writer.write(piece).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap(), requests.len() as u64);
        let mut source = ParquetSource::open(&path).unwrap();
        prop_assert_eq!(source.origin(), Some("a property test"));
        prop_assert_eq!(source.requests(), requests.len() as u64);
        requests.iter_mut().for_each(|request| request.at -= first);
        prop_assert_eq!(read_all(&mut source), requests);
        prop_assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file is left");
    }
}

#[test]
fn an_interrupted_write_leaves_the_old_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    fs::write(&path, "what was there before").unwrap();
    let request = Request { at: Nanos(0), offset: Bytes(0), len: Bytes(512), volume: 0, op: Op::Read };
    let mut writer = ParquetWriter::create(&path, "interrupted").unwrap();
    writer.write(&[request; 100]).unwrap();
    drop(writer);
    assert_eq!(fs::read_to_string(&path).unwrap(), "what was there before");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error = ParquetWriter::create("no/such/directory/trace.parquet", "").err().unwrap().to_string();
    assert!(error.starts_with("no/such/directory/trace.parquet"), "{error}");
}

/// The fear: a file that promises the order of time has another.
#[test]
fn requests_out_of_order_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let at = |at| Request { at: Nanos(at), offset: Bytes(0), len: Bytes(512), volume: 0, op: Op::Read };
    let mut writer = ParquetWriter::create(dir.path().join("trace.parquet"), "").unwrap();
    writer.write(&[at(5), at(5)]).unwrap();
    let message = writer.write(&[at(4)]).unwrap_err().to_string();
    assert!(message.contains("request 3 arrives"), "{message}");
}

#[test]
fn more_than_one_row_group_reads_as_one_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let count = (1 << 20) + 12_345u64;
    let requests: Vec<_> = (0..count)
        .map(|i| Request {
            at: Nanos(i * 1000),
            offset: Bytes(i % 777 * 4096),
            len: Bytes(4096),
            volume: 0,
            op: Op::Write,
        })
        .collect();
    let mut writer = ParquetWriter::create(&path, "two row groups").unwrap();
    writer.write(&requests).unwrap();
    writer.finish().unwrap();
    assert!(read_all(&mut ParquetSource::open(&path).unwrap()) == requests);
}
