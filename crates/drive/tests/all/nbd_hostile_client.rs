//! Clients that send invalid bytes, cut anywhere: no panic, no growth of memory, and the same answer for any cut.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use crate::nbd_client::{
    client::{Client, option_bytes, request_bytes},
    hostile::{self, Choices, Outcome},
    server::Style,
};
use peryton_drive::nbd::{Connection, Event, Export, Security, wire};
use peryton_units::Bytes;
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;

/// Counts the memory that a thread has allocated.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        MOST.with(|most| most.set(most.get().max(held.get())));
    });
}

// SAFETY: all calls are passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory in use at once during `work`, beyond that in use before.
fn most_memory(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    work();
    (MOST.get() - before) as usize
}

/// The most memory of a connection: an option and its copies, and twice the output that it makes without the loop.
const BOUND: usize = 4 * wire::MAX_OPTION as usize + 4 * wire::MAX_OWN_OUTPUT;

/// Sends bytes without end to a connection whose output is sent only when the connection requires it.
fn flood(connection: &mut Connection<Vec<u8>>, bytes: &[u8], times: usize) -> usize {
    most_memory(|| {
        for _ in 0..times {
            let mut rest = bytes;
            while !rest.is_empty() {
                match connection.receive(rest) {
                    Ok((0, None)) if connection.output().is_empty() => return,
                    Ok((0, None)) => connection.output().clear(),
                    Ok((taken, _)) => rest = &rest[taken..],
                    Err(_) => return,
                }
            }
        }
    })
}

#[test]
fn no_flood_of_options_or_refused_requests_takes_memory() {
    let export = Export::new("volume", Bytes::mib(1));
    let connect = || {
        let mut connection = Connection::new(export.clone().into(), Security::Plain);
        connection.receive(&3_u32.to_be_bytes()).unwrap();
        connection
    };
    let longest = option_bytes(99, &vec![0; wire::MAX_OPTION as usize]);
    let too_long = option_bytes(99, &vec![0; wire::MAX_SKIPPED_OPTION as usize]);
    let queries = option_bytes(9, &[&[0; 4][..], &3000_u32.to_be_bytes(), &[0; 12_000]].concat());
    for option in [longest, too_long, queries, option_bytes(3, &[])] {
        let mut connection = connect();
        connection.receive(&option_bytes(8, &[])).unwrap();
        let most = flood(&mut connection, &option, 1000);
        assert!(most < BOUND, "options took {most} bytes");
        assert!(connection.is_closed(), "1000 options are too many");
    }
    let mut connection = connect();
    connection.receive(&option_bytes(1, b"")).unwrap();
    let mut refused = request_bytes(0, 1, 1, u64::MAX, 40_000);
    refused.extend([1; 40_000]);
    refused.extend(request_bytes(0, 55, 1, 0, 0).repeat(1000));
    let most = flood(&mut connection, &refused, 1000);
    assert!(most < BOUND, "refused requests took {most} bytes");
}

/// Runs the session as a whole and in pieces; the results must be equal.
fn whole_and_cut(export: &Export, security: Security, style: Style, bytes: &[u8], seed: u64) -> Outcome {
    let whole = hostile::run(export, security, style, bytes, || usize::MAX);
    let mut random = Pcg64Mcg::new(u128::from(seed) << 1 | 1);
    let most = *[3, 40, 5000].get(seed as usize % 3).unwrap();
    let cut = hostile::run(export, security, style, bytes, || random.random_range(1..=most));
    assert_eq!(whole, cut);
    whole
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000), security in 0..2_usize, seed: u64) {
        let security = [Security::Plain, Security::TlsRequired][security];
        let export = Export::new("volume", Bytes::mib(1));
        whole_and_cut(&export, security, Style::Whole, &bytes, seed);
    }

    #[test]
    fn handshakes_that_are_nearly_right_do_no_harm(choices in prop::collection::vec(any::<u8>(), 0..300), security in 0..2_usize, seed: u64) {
        let security = [Security::Plain, Security::TlsRequired][security];
        let mut choices = Choices(&choices);
        let export = hostile::export(&mut choices);
        let bytes = hostile::options(&mut choices);
        whole_and_cut(&export, security, Style::Whole, &bytes, seed);
    }

    #[test]
    fn requests_that_are_nearly_right_do_no_harm(choices in prop::collection::vec(any::<u8>(), 0..300), chunks: bool, seed: u64) {
        let mut choices = Choices(&choices);
        let export = hostile::export(&mut choices);
        let bytes = hostile::requests(&mut choices);
        let outcome = whole_and_cut(&export, Security::Plain, if chunks { Style::Chunks } else { Style::Halves }, &bytes, seed);
        prop_assert_eq!(&outcome.events[0], &Event::Ready);
        prop_assert!(!export.read_only || outcome.disk.0 == 0);
    }
}

#[test]
fn hostile_sessions_reach_the_requests_behind_the_refusals() {
    let mut random = Pcg64Mcg::new(1);
    let (mut requests, mut errors, mut farewells) = (0, 0, 0);
    for _ in 0..300 {
        let bytes: Vec<u8> = (0..200).map(|_| random.random()).collect();
        let mut choices = Choices(&bytes);
        let export = hostile::export(&mut choices);
        let session = hostile::requests(&mut choices);
        let outcome = hostile::run(&export, Security::Plain, Style::Whole, &session, || 4096);
        requests += outcome.requests;
        errors += usize::from(outcome.error.is_some());
        farewells += usize::from(outcome.events.contains(&Event::Disconnect));
    }
    assert!(
        requests > 600 && errors > 30 && farewells > 10,
        "{requests} requests, {errors} errors, {farewells} farewells"
    );
}

#[test]
fn one_clients_rubbish_is_not_another_clients_trouble() {
    let export = Export::new("volume", Bytes::mib(1));
    let mut good = Client::ready(export.clone(), true);
    let mut bad = Client::ready(export, false);
    good.write(0, &[1; 4096]);
    bad.send(&request_bytes(0, 1, 7, 0, 4096)).unwrap();
    bad.send(&[2; 1000]).unwrap();
    assert!(bad.server.requests.len() == 1 && bad.replies().is_empty(), "half a write is no write");
    assert_eq!(good.read(0, 4096), [1; 4096]);
}
