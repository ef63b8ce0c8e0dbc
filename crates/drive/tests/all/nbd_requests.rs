//! Commands, one by one: which requests reach the loop, which are refused, and that the stream stays synchronised in
//! any case.

use crate::nbd_client::{
    client::{Client, option_bytes, request_bytes},
    server::Style,
};
use peryton_drive::nbd::{
    BlockSizes, Command, Connection, Errno, Event, Export, ProtocolError, Run, Security,
    wire::{self, command, command_flag},
};
use peryton_units::Bytes;
use proptest::prelude::*;

const SIZE: u64 = 1 << 20;

fn export() -> Export {
    Export::new("volume", Bytes(SIZE))
}

/// One client with simple replies and one with structured replies.
fn both(export: &Export) -> [Client; 2] {
    [Client::ready(export.clone(), false), Client::ready(export.clone(), true)]
}

/// Sends a request that must be refused, and another after it that must be understood.
fn refused(client: &mut Client, flags: u16, command: u16, offset: u64, length: u32, payload: &[u8]) -> u32 {
    let reached = client.server.requests.len();
    let reply = client.request(flags, command, offset, length, payload);
    assert_eq!(client.server.requests.len(), reached, "a refused request reached the loop");
    assert!(reply.data.is_empty() && reply.error != 0);
    let structured = client.server.connection.is_structured();
    assert_eq!(reply.structured, structured, "errors come structured where the client knows that");
    assert_eq!(reply.message.is_empty(), !structured, "and then they say why");
    assert_eq!(client.read(0, 512).len(), 512);
    reply.error
}

#[test]
fn every_command_reaches_the_loop_as_it_was_sent() {
    let fua = command_flag::FUA;
    for mut client in both(&export()) {
        let structured = client.server.connection.is_structured();
        let mut sent = vec![
            (0, command::READ, 0, 512, Command::Read { unfragmented: !structured }),
            (fua, command::READ, 4096, 1, Command::Read { unfragmented: !structured }),
            (0, command::WRITE, 1, 3, Command::Write { fua: false }),
            (fua, command::WRITE, SIZE - 1, 1, Command::Write { fua: true }),
            (0, command::FLUSH, 0, 0, Command::Flush),
            (fua, command::FLUSH, 0, 0, Command::Flush),
            (0, command::TRIM, 0, SIZE as u32, Command::Trim { fua: false }),
            (fua, command::TRIM, 512, 1024, Command::Trim { fua: true }),
            (0, command::CACHE, 0, SIZE as u32, Command::Cache),
            (0, command::WRITE_ZEROES, 0, 4096, Command::WriteZeroes { fua: false, no_hole: false, fast: false }),
            (1 | 2 | 16, command::WRITE_ZEROES, 0, 1, Command::WriteZeroes { fua: true, no_hole: true, fast: true }),
        ];
        if structured {
            sent.push((command_flag::DF, command::READ, 0, 65536, Command::Read { unfragmented: true }));
            sent.push((0, command::BLOCK_STATUS, 0, SIZE as u32, Command::Status { one: false }));
            sent.push((command_flag::REQ_ONE, command::BLOCK_STATUS, 4096, 8192, Command::Status { one: true }));
        }
        for (flags, kind, offset, length, expected) in sent {
            let payload = vec![7; if kind == command::WRITE { length as usize } else { 0 }];
            let reply = client.request(flags, kind, offset, length, &payload);
            assert_eq!(reply.error, 0);
            let request = client.server.requests.last().unwrap();
            assert_eq!((request.command, request.offset.0, request.length.0), (expected, offset, u64::from(length)));
        }
        assert_eq!(client.server.connection.in_flight(), 0);
    }
}

#[test]
fn what_is_written_is_read_in_every_style_of_reply() {
    for style in [Style::Whole, Style::Chunks, Style::Halves] {
        for mut client in both(&export()) {
            client.server.style = style;
            let data: Vec<u8> = (0..20_000_u32).map(|i| (i % 251) as u8).collect();
            client.write(5000, &data);
            let mut expected = vec![0; 40_000];
            expected[5000..25_000].copy_from_slice(&data);
            let reply = client.request(0, command::READ, 0, 40_000, &[]);
            assert_eq!(reply.bytes(), expected);
            let chunked = style == Style::Chunks && reply.structured;
            assert_eq!((reply.data.len(), reply.holes), if chunked { (10, 4) } else { (1, 0) });
            if reply.structured {
                let whole = client.request(command_flag::DF, command::READ, 0, 40_000, &[]);
                assert_eq!((whole.data.len(), whole.bytes()), (1, expected));
            }
        }
    }
}

#[test]
fn replies_come_in_any_order() {
    for mut client in both(&export()) {
        client.write(0, &[1; 512]);
        client.server.hold = true;
        let cookies = [0, 512, 1024].map(|offset| client.post(0, command::READ, offset, 512, &[]));
        assert_eq!((client.replies().len(), client.server.connection.in_flight()), (0, 3));
        client.server.held.reverse();
        client.server.release();
        let replies = client.replies();
        assert_eq!(replies.iter().rev().map(|reply| reply.cookie).collect::<Vec<_>>(), cookies);
        assert_eq!(replies[2].bytes(), [1; 512]);
    }
}

#[test]
fn requests_that_are_not_in_order_are_refused_and_the_next_one_is_understood() {
    for mut client in both(&export()) {
        let structured = client.server.connection.is_structured();
        let payload = [1; 4096];
        let (invalid, no_space) = (22, 28);
        // Beyond the end.
        for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX - 511, 512), (1 << 63, 4096)] {
            let data = &payload[..length as usize];
            assert_eq!(refused(&mut client, 0, command::WRITE, offset, length, data), no_space);
            assert_eq!(refused(&mut client, 0, command::WRITE_ZEROES, offset, length, &[]), no_space);
            for kind in [command::READ, command::TRIM, command::CACHE, command::BLOCK_STATUS] {
                assert_eq!(refused(&mut client, 0, kind, offset, length, &[]), invalid);
            }
        }
        assert_eq!(refused(&mut client, 0, command::TRIM, 0, u32::MAX, &[]), invalid);
        // Flags that a command does not have.
        assert_eq!(refused(&mut client, 1 << 2, command::WRITE, 0, 4096, &payload), invalid);
        assert_eq!(refused(&mut client, 1 << 15, command::WRITE, 0, 4096, &payload), invalid);
        assert_eq!(refused(&mut client, 1 << 3, command::READ, 0, 4096, &[]), invalid);
        assert_eq!(refused(&mut client, 1 << 4, command::TRIM, 0, 4096, &[]), invalid);
        assert_eq!(refused(&mut client, 1 << 1, command::CACHE, 0, 4096, &[]), invalid);
        assert_eq!(refused(&mut client, 1 << 5, command::WRITE_ZEROES, 0, 4096, &[]), invalid);
        if !structured {
            assert_eq!(refused(&mut client, command_flag::DF, command::READ, 0, 4096, &[]), invalid);
            assert_eq!(refused(&mut client, 0, command::BLOCK_STATUS, 0, 4096, &[]), invalid);
        }
        // Commands that do not exist.
        for kind in [8, 9, 255, u16::MAX] {
            assert_eq!(refused(&mut client, 0, kind, 0, 0, &[]), invalid);
        }
        assert_eq!(refused(&mut client, 0, command::FLUSH, 512, 0, &[]), invalid);
        assert_eq!(refused(&mut client, 0, command::FLUSH, 0, 512, &[]), invalid);
        assert!(client.server.disk.iter().all(|byte| *byte == 0), "a refused write wrote");
    }
}

#[test]
fn a_read_only_export_is_not_written() {
    for mut client in both(&Export { read_only: true, ..export() }) {
        assert_eq!(refused(&mut client, 0, command::WRITE, 0, 512, &[1; 512]), 1);
        assert_eq!(refused(&mut client, 0, command::TRIM, 0, 512, &[]), 1);
        assert_eq!(refused(&mut client, 0, command::WRITE_ZEROES, 0, 512, &[]), 1);
        assert_eq!(client.request(0, command::FLUSH, 0, 0, &[]).error, 0);
    }
}

#[test]
fn the_minimum_block_size_is_enforced() {
    let block = BlockSizes { minimum: Bytes(512), ..BlockSizes::default() };
    for mut client in both(&Export { block, ..export() }) {
        for (offset, length) in [(1, 512), (0, 511), (256, 512), (512, 513)] {
            assert_eq!(refused(&mut client, 0, command::WRITE, offset, length, &vec![1; length as usize]), 22);
            for kind in [command::READ, command::TRIM, command::WRITE_ZEROES, command::CACHE] {
                assert_eq!(refused(&mut client, 0, kind, offset, length, &[]), 22);
            }
        }
        client.write(512, &[1; 1024]);
    }
}

#[test]
fn a_payload_that_is_too_long_is_read_past_or_ends_the_connection() {
    let block = BlockSizes { maximum: Bytes::mib(1), ..BlockSizes::default() };
    for mut client in both(&Export { size: Bytes::mib(4), block, ..export() }) {
        assert_eq!(refused(&mut client, 0, command::READ, 0, (1 << 20) + 1, &[]), 22);
        assert_eq!(refused(&mut client, 0, command::WRITE, 0, (1 << 20) + 1, &vec![1; (1 << 20) + 1]), 22);
        let limit = wire::MAX_PAYLOAD.0 as u32;
        assert_eq!(refused(&mut client, 0, command::WRITE, 0, limit, &vec![1; limit as usize]), 28);
        client.write(0, &vec![1; 1 << 20]);
        let header = request_bytes(0, command::WRITE, 1, 0, limit + 1);
        assert_eq!(client.send(&header), Err(ProtocolError::WriteTooLong(limit + 1)));
    }
}

#[test]
fn a_refusal_comes_after_the_payload() {
    let mut client = Client::ready(export(), true);
    client.post(0, command::WRITE, SIZE, 1000, &[1; 999]);
    assert_eq!(client.replies(), []);
    client.send(&[1]).unwrap();
    assert_eq!(client.replies()[0].error, 28);
}

#[test]
fn requests_for_no_bytes_are_answered_without_the_loop() {
    for mut client in both(&export()) {
        let kinds = [command::READ, command::WRITE, command::TRIM, command::CACHE, command::WRITE_ZEROES];
        for offset in [0, 77, SIZE] {
            for kind in kinds {
                let reply = client.request(0, kind, offset, 0, &[]);
                assert_eq!((reply.error, reply.bytes().len()), (0, 0));
            }
        }
        assert_eq!(client.server.requests, []);
        assert_eq!(client.request(0, command::BLOCK_STATUS, 0, 0, &[]).error, 22);
        assert_eq!(client.request(0, command::READ, SIZE + 1, 0, &[]).error, 22);
    }
}

#[test]
fn an_error_of_the_loop_is_reported_with_its_message() {
    for mut client in both(&export()) {
        for (error, number) in [(Errno::Io, 5), (Errno::NotSupported, 95), (Errno::NoMemory, 12), (Errno::Overflow, 75)]
        {
            client.server.fail = Some((error, "the fast device is gone".to_owned()));
            let reply = client.request(0, command::READ, 0, 512, &[]);
            assert_eq!(reply.error, number);
            assert!(reply.data.is_empty() && (!reply.structured || reply.message == "the fast device is gone"));
        }
        // A message longer than a string may be is cut between characters.
        client.server.fail = Some((Errno::Io, "ä".repeat(3000)));
        let reply = client.request(0, command::WRITE, 0, 1, &[1]);
        assert!(!reply.structured || reply.message == "ä".repeat(2048));
    }
}

#[test]
fn block_status_reports_allocation_and_place() {
    let mut client = Client::ready(export(), true);
    client.write(8192, &[1; 8192]);
    client.write(20_480, &[1; 1]);
    let reply = client.request(0, command::BLOCK_STATUS, 0, SIZE as u32, &[]);
    let end = SIZE as u32 - 24_576;
    assert_eq!(reply.status[&1], [(8192, 3), (8192, 0), (4096, 3), (4096, 0), (end, 3)], "hole 1, zero 2");
    assert_eq!(reply.status[&2], [(8192, 0), (8192, 2), (4096, 0), (4096, 1), (end, 0)], "bit 0 or bit 1");
    let one = client.request(command_flag::REQ_ONE, command::BLOCK_STATUS, 8192, 65_536, &[]);
    assert_eq!((&one.status[&1][..], &one.status[&2][..]), (&[(8192, 0)][..], &[(8192, 2)][..]));
    let inside = client.request(0, command::BLOCK_STATUS, 8200, 100, &[]);
    assert_eq!(inside.status[&1], [(100, 0)]);
}

#[test]
fn block_status_is_cut_at_its_bound_and_at_the_end_of_the_request() {
    let runs = |length: u64| {
        (0_u32..).map(move |i| Run {
            length: Bytes(length),
            allocated: i % 2 == 0,
            zero: false,
            devices: u32::from(i % 4 < 2),
        })
    };
    let size = Bytes::gib(1);
    let mut client = Client::ready(Export::new("volume", size), true);
    client.server.hold = true;
    client.post(0, command::BLOCK_STATUS, 0, 1 << 30, &[]);
    let request = client.server.held.pop().unwrap();
    client.server.connection.reply_status(&request, runs(512));
    client.server.send();
    let reply = client.replies().remove(0);
    assert_eq!((reply.status[&1].len(), reply.status[&2].len()), (wire::MAX_RUNS, wire::MAX_RUNS));
    assert!(reply.status[&2].iter().all(|(length, _)| *length == 1024));

    client.post(0, command::BLOCK_STATUS, 100, 1000, &[]);
    let request = client.server.held.pop().unwrap();
    client.server.connection.reply_status(&request, runs(u64::MAX));
    client.post(0, command::BLOCK_STATUS, 100, 1000, &[]);
    let request = client.server.held.pop().unwrap();
    client.server.connection.reply_status(&request, []);
    client.server.send();
    let replies = client.replies();
    assert_eq!((&replies[0].status[&1], &replies[1].status[&1]), (&vec![(1000, 0)], &vec![(1000, 0)]));
}

#[test]
fn disconnect_is_the_end_and_has_no_reply() {
    for mut client in both(&export()) {
        client.server.hold = true;
        client.post(0, command::READ, 0, 512, &[]);
        let mut bytes = request_bytes(0, command::DISC, 9, 0, 0);
        bytes.extend(request_bytes(0, command::READ, 10, 0, 512));
        assert_eq!(client.server.feed(&bytes).unwrap(), 28);
        assert!(client.has_said_goodbye() && client.server.connection.is_closed());
        assert_eq!(client.server.connection.in_flight(), 1, "what is in flight is still answered");
        client.server.release();
        assert_eq!(client.replies().len(), 1);
    }
}

#[test]
fn something_else_than_a_request_ends_the_connection() {
    for mut client in both(&export()) {
        let error = client.send(&[b'x'; 28]).unwrap_err();
        assert_eq!(error, ProtocolError::RequestMagic(0x7878_7878));
        assert_eq!(client.server.feed(&request_bytes(0, command::READ, 1, 0, 512)).unwrap(), 0);
    }
}

#[test]
fn a_server_that_shuts_down_answers_what_is_in_flight_and_refuses_the_rest() {
    for mut client in both(&export()) {
        client.server.hold = true;
        client.post(0, command::READ, 0, 512, &[]);
        client.server.connection.shut_down();
        assert_eq!(client.request(0, command::WRITE, 0, 512, &[1; 512]).error, 108);
        assert_eq!(client.request(0, command::FLUSH, 0, 0, &[]).error, 108);
        client.server.release();
        assert_eq!(client.replies()[0].bytes().len(), 512);
    }
}

#[test]
fn a_client_that_does_not_listen_is_not_listened_to() {
    let mut client = Client::ready(export(), true);
    client.server.deaf = true;
    let flood: Vec<u8> = (0..100_000).flat_map(|i| request_bytes(0, 99, i, 0, 0)).collect();
    let mut taken = client.server.feed(&flood).unwrap();
    let waiting = client.server.connection.output().length().0 as usize;
    assert!(taken < flood.len() && waiting < wire::MAX_OWN_OUTPUT + 100, "{taken} taken, {waiting} waiting");
    client.server.deaf = false;
    while taken < flood.len() {
        taken += client.server.feed(&flood[taken..]).unwrap();
    }
    assert_eq!(client.replies().len(), 100_000, "and nothing is forgotten");
}

#[test]
#[should_panic(expected = "less data than the reply announces")]
fn a_loop_that_answers_with_too_little_data_is_stopped() {
    let mut client = Client::ready(export(), false);
    client.server.hold = true;
    client.post(0, command::READ, 0, 512, &[]);
    let request = client.server.held[0];
    client.server.connection.reply_read(&request, [(vec![0; 511], Bytes(511))]);
}

#[test]
#[should_panic(expected = "every request is answered once")]
fn a_loop_that_answers_twice_is_stopped() {
    let mut client = Client::ready(export(), false);
    client.request(0, command::FLUSH, 0, 0, &[]);
    let request = client.server.requests[0];
    client.server.connection.reply_ok(&request);
}

#[test]
fn an_event_needs_no_more_input_than_its_own() {
    let mut connection: Connection<()> = Connection::new(export().into(), Security::Plain);
    let mut bytes = 1_u32.to_be_bytes().to_vec();
    bytes.extend(option_bytes(wire::option::EXPORT_NAME, b""));
    assert_eq!(connection.receive(&bytes), Ok((bytes.len(), Some(Event::Ready))));
    let header = request_bytes(0, command::WRITE, 5, 0, 512);
    assert_eq!(connection.receive(&header[..27]), Ok((27, None)));
    let (taken, event) = connection.receive(&[header[27], 1, 2, 3]).unwrap();
    let Some(Event::Request(request)) = event else { panic!("{event:?}") };
    assert_eq!((taken, request.payload()), (1, Bytes(512)), "the payload is the loop's");
}

#[derive(Clone, Debug)]
enum Step {
    Read { offset: u64, length: u32, flags: u16 },
    Write { offset: u64, data: Vec<u8> },
    Zero { offset: u64, length: u32 },
    Status { offset: u64, length: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 1..20_000_u32).prop_map(|(offset, length)| (offset, length.min((SIZE - offset) as u32)));
    prop_oneof![
        (range(), 0..2_u16).prop_map(|((offset, length), df)| Step::Read { offset, length, flags: df << 2 }),
        (range(), any::<u8>())
            .prop_map(|((offset, length), byte)| Step::Write { offset, data: vec![byte; length as usize] }),
        range().prop_map(|(offset, length)| Step::Zero { offset, length }),
        range().prop_map(|(offset, length)| Step::Status { offset, length }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_client_reads_what_an_array_would_hold(steps in prop::collection::vec(step(), 1..40), chunks: bool, structured: bool) {
        let mut client = Client::ready(export(), structured);
        client.server.style = if chunks { Style::Chunks } else { Style::Halves };
        let mut array = vec![0; SIZE as usize];
        for step in steps {
            match step {
                Step::Read { offset, length, flags } => {
                    let reply = client.request(if structured { flags } else { 0 }, command::READ, offset, length, &[]);
                    prop_assert_eq!(&reply.bytes()[..], &array[offset as usize..][..length as usize]);
                }
                Step::Write { offset, data } => {
                    client.write(offset, &data);
                    array[offset as usize..][..data.len()].copy_from_slice(&data);
                }
                Step::Zero { offset, length } => {
                    client.request(0, command::WRITE_ZEROES, offset, length, &[]);
                    array[offset as usize..][..length as usize].fill(0);
                }
                Step::Status { offset, length } if structured => {
                    let reply = client.request(0, command::BLOCK_STATUS, offset, length, &[]);
                    let covered: u32 = reply.status[&1].iter().map(|(length, _)| length).sum();
                    prop_assert_eq!(covered, length);
                    let mut at = offset as usize;
                    for (length, flags) in &reply.status[&1] {
                        let zeros = array[at..][..*length as usize].iter().all(|byte| *byte == 0);
                        prop_assert!(zeros || flags & 2 == 0, "data at {} shown as zeros", at);
                        at += *length as usize;
                    }
                }
                Step::Status { .. } => {}
            }
        }
    }
}
