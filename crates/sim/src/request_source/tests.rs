#![allow(clippy::unwrap_used)]
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Mutex,
};

use peryton_trace::TraceError;
use peryton_units::{Nanos, Op};

use super::*;

/// Batches of requests, and what comes after them.
struct Given {
    batches: Vec<Vec<Request>>,
    at: usize,
    then: Then,
}

#[derive(Clone, Copy)]
enum Then {
    End,
    Fail,
    Panic,
}

impl Source for Given {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        self.at += 1;
        match (self.batches.get(self.at - 1), self.then) {
            (Some(next), _) => batch.extend_from_slice(next),
            (None, Then::End) => {}
            (None, Then::Fail) => {
                return Err(TraceError::Io { path: "the disk".to_owned(), source: io::Error::other("is gone") });
            }
            (None, Then::Panic) => resume_unwind(Box::new("stopped")),
        }
        Ok(())
    }
}

/// Twenty batches on two volumes, with times that go back, flushes, and requests past the end.
fn given(then: Then) -> Given {
    let one = |batch: u64, index: u64| Request {
        at: Nanos((batch * 1000 + index) ^ 3),
        offset: Bytes(if index % 5 == 4 { 2 << 20 } else { (batch * 7 + index * 13) % 200 * 4096 }),
        len: Bytes(4096 * (1 + index % 3)),
        volume: if batch > 9 && index % 2 == 1 { 8 } else { 2 },
        op: [Op::Read, Op::Write, Op::Flush][(index % 3) as usize],
    };
    let batch = |batch| (0..if batch % 4 == 3 { 1 } else { 50 }).map(|index| one(batch, index)).collect();
    Given { batches: (0..20).map(batch).collect(), at: 0, then }
}

type Found = (Vec<Request>, Result<(String, usize, u64, u64), String>, Vec<u64>);

fn read(then: Then, fit: Fit, limit: Option<u64>, spread: Option<Spread>, ahead: bool) -> Found {
    let told = Mutex::new(Vec::new());
    let progress = |requests: u64| told.lock().unwrap().push(requests);
    let mut source = RequestSource::new(Box::new(given(then)), Bytes::mib(1), 2, fit, limit, &progress).unwrap();
    if let Some(spread) = spread {
        source.spread(spread);
    }
    let mut source = if ahead { source.read_ahead() } else { source };
    let mut requests = Vec::new();
    let end = loop {
        match source.take() {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => {
                break Ok((source.hash().to_string(), source.volumes_seen(), source.wrapped(), source.skipped()));
            }
            Err(error) => break Err(error.to_string()),
        }
    };
    drop(source);
    (requests, end, told.into_inner().unwrap())
}

/// The fear: a batch that is lost, taken twice or hashed in part when threads change.
#[test]
fn what_is_read_ahead_is_what_would_be_read_here() {
    let spread = Spread { copies: 1, apart: Bytes::mib(1) };
    let copied = Spread { copies: 2, apart: Bytes::mib(1) };
    for fit in [Fit::Wrap, Fit::Skip] {
        for limit in [None, Some(1), Some(50), Some(333)] {
            for spread in [None, Some(spread), Some(copied)] {
                let here = read(Then::End, fit, limit, spread, false);
                assert_eq!(read(Then::End, fit, limit, spread, true), here);
                assert!(here.1.is_ok() && here.0.len() >= limit.unwrap_or(600).min(600) as usize * 3 / 5);
            }
        }
    }
}

#[test]
fn errors_come_after_the_requests_before_them() {
    let here = read(Then::Fail, Fit::Wrap, None, None, false);
    assert_eq!(here.1.clone().unwrap_err(), "the disk: is gone");
    assert_eq!(read(Then::Fail, Fit::Wrap, None, None, true), here);
    let strict = |ahead| {
        let given = Given { batches: given(Then::End).batches.split_off(8), at: 0, then: Then::End };
        // The first batch fits, those behind it do not.
        let mut given = given;
        given.batches[0].retain(|request| request.offset.0 + request.len.0 <= 1 << 20);
        let source = RequestSource::new(Box::new(given), Bytes::mib(1), 2, Fit::Strict, None, &|_| {}).unwrap();
        let mut source = if ahead { source.read_ahead() } else { source };
        let mut taken = 0;
        loop {
            match source.take() {
                Ok(next) => taken += next.map(|_| 1).expect("it does not fit"),
                Err(error) => return (taken, error.to_string()),
            }
        }
    };
    assert_eq!(strict(true), strict(false));
}

#[test]
fn a_panic_of_the_source_is_handed_on() {
    let found = catch_unwind(AssertUnwindSafe(|| read(Then::Panic, Fit::Wrap, None, None, true))).unwrap_err();
    assert_eq!(found.downcast_ref::<&str>(), Some(&"stopped"));
}

#[test]
fn a_trace_that_is_not_read_to_its_end_keeps_no_thread_waiting() {
    let (ended, end) = std::sync::mpsc::channel();
    struct Endless(std::sync::mpsc::Sender<()>);
    impl Source for Endless {
        fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
            batch.clear();
            batch.extend(&given(Then::End).batches[0][..4]);
            Ok(())
        }
    }
    impl Drop for Endless {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let source = RequestSource::new(Box::new(Endless(ended)), Bytes::mib(1), 1, Fit::Wrap, None, &|_| {}).unwrap();
    let mut source = source.read_ahead();
    source.take().unwrap().unwrap();
    drop(source);
    end.recv_timeout(std::time::Duration::from_secs(20)).expect("the thread ends and drops the trace");
}
