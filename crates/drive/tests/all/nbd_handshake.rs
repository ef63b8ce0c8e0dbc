//! Options, one by one: the server's answers, its refusals, and that a refusal does not end the session.

use crate::nbd_client::client::{Client, OptionReply, Stream, context_data, go_data, option_bytes};
use peryton_drive::nbd::{
    BlockSizes, Event, Export, Part, ProtocolError, Security,
    wire::{self, command, flag, info, option, option_reply},
};
use peryton_units::Bytes;

fn export() -> Export {
    let mut export = Export::new("volume", Bytes::mib(1));
    export.description = "a test".to_owned();
    export
}

fn fixed() -> Client {
    let mut client = Client::connect(export(), Security::Plain);
    client.flags(3);
    client
}

fn tls_required() -> Client {
    let mut client = Client::connect(export(), Security::TlsRequired);
    client.flags(3);
    client
}

fn ack(option: u32) -> OptionReply {
    OptionReply { option, kind: option_reply::ACK, data: vec![] }
}

const PLAIN_FLAGS: u16 = flag::HAS_FLAGS
    | flag::SEND_FLUSH
    | flag::SEND_FUA
    | flag::SEND_TRIM
    | flag::SEND_WRITE_ZEROES
    | flag::CAN_MULTI_CONN
    | flag::SEND_CACHE
    | flag::SEND_FAST_ZERO;

#[test]
fn an_old_client_gets_124_zeroes_unless_it_declines_them() {
    for (flags, zeroes) in [(0, 124), (1, 124), (2, 0), (3, 0)] {
        for name in [&b""[..], b"volume"] {
            let mut client = Client::connect(export(), Security::Plain);
            client.flags(flags);
            client.send(&option_bytes(option::EXPORT_NAME, name)).unwrap();
            let mut expected = (1_u64 << 20).to_be_bytes().to_vec();
            expected.extend(PLAIN_FLAGS.to_be_bytes());
            expected.extend(vec![0; zeroes]);
            assert_eq!(client.received(), expected);
            assert_eq!(client.server.events, [Event::Ready]);
            assert_eq!(client.read(4096, 512), vec![0; 512]);
        }
    }
}

#[test]
fn a_client_without_fixed_newstyle_may_choose_an_export_only() {
    let mut client = Client::connect(export(), Security::Plain);
    client.flags(2);
    let error = client.send(&option_bytes(option::LIST, &[])).unwrap_err();
    assert_eq!(error, ProtocolError::NotFixed(option::LIST));
    assert_eq!(client.server.feed(b"more").unwrap(), 0, "nothing is taken after an error");
}

#[test]
fn client_flags_that_were_not_offered_end_the_connection() {
    for flags in [4_u32, 7, 1 << 16, u32::MAX] {
        let mut client = Client::connect(export(), Security::Plain);
        assert_eq!(client.send(&flags.to_be_bytes()), Err(ProtocolError::ClientFlags(flags)));
        assert!(client.server.connection.is_closed());
    }
}

#[test]
fn an_unknown_export_is_refused_by_go_and_ends_an_old_client() {
    let mut client = fixed();
    for option in [option::INFO, option::GO] {
        assert_eq!(client.verdict(option, &go_data("other", &[])), option_reply::ERR_UNKNOWN);
    }
    assert!(!client.server.connection.is_ready());
    assert_eq!(client.verdict(option::GO, &go_data("volume", &[])), option_reply::ACK);

    let mut client = fixed();
    let error = client.send(&option_bytes(option::EXPORT_NAME, b"other\xff")).unwrap_err();
    assert_eq!(error, ProtocolError::UnknownExport("other\u{fffd}".to_owned()));
    assert_eq!(client.received(), b"", "it receives no answer");
}

#[test]
fn list_names_the_volume() {
    let mut client = fixed();
    let server = OptionReply { option: 3, kind: option_reply::SERVER, data: b"\0\0\0\x06volumea test".to_vec() };
    assert_eq!(client.option(option::LIST, &[]), [server, ack(3)]);
    assert_eq!(client.verdict(option::LIST, b"x"), option_reply::ERR_INVALID);
}

/// The items of a positive answer to info or go.
fn items(replies: &[OptionReply]) -> Vec<(u16, Vec<u8>)> {
    let (last, items) = replies.split_last().unwrap();
    assert_eq!(last.kind, option_reply::ACK);
    let item = |reply: &OptionReply| {
        assert_eq!(reply.kind, option_reply::INFO);
        let mut stream = Stream(&reply.data);
        (stream.u16().unwrap(), stream.0.to_vec())
    };
    items.iter().map(item).collect()
}

#[test]
fn info_has_size_flags_name_description_and_block_sizes() {
    let mut client = fixed();
    let mut size = (1_u64 << 20).to_be_bytes().to_vec();
    size.extend(PLAIN_FLAGS.to_be_bytes());
    assert_eq!(items(&client.option(option::INFO, &go_data("", &[]))), [(info::EXPORT, size.clone())]);
    let all = [info::BLOCK_SIZE, info::NAME, info::DESCRIPTION, info::EXPORT, 77];
    let info = items(&client.option(option::INFO, &go_data("volume", &all)));
    let sizes = [1_u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
    let expected = [
        (info::EXPORT, size),
        (info::NAME, b"volume".to_vec()),
        (info::DESCRIPTION, b"a test".to_vec()),
        (info::BLOCK_SIZE, sizes),
    ];
    assert_eq!(info, expected);
    assert!(!client.server.connection.is_ready(), "info does not go");
    assert_eq!(items(&client.option(option::GO, &go_data("volume", &all))), expected);
    assert_eq!(client.server.events, [Event::Ready]);
}

#[test]
fn unfragmented_reads_are_offered_with_structured_replies_only() {
    let mut client = fixed();
    assert_eq!(client.option(option::STRUCTURED_REPLY, &[]), [ack(8)]);
    assert_eq!(client.option(option::STRUCTURED_REPLY, &[]), [ack(8)], "asking twice does no harm");
    let info = items(&client.option(option::GO, &go_data("", &[])));
    assert_eq!(info[0].1[8..], (PLAIN_FLAGS | flag::SEND_DF).to_be_bytes());
}

#[test]
fn a_read_only_rotational_export_says_so_and_offers_nothing_that_writes() {
    let export = Export { read_only: true, rotational: true, ..export() };
    let mut client = Client::connect(export, Security::Plain);
    client.flags(3);
    let info = items(&client.option(option::GO, &go_data("", &[])));
    let writing = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
    assert_eq!(info[0].1[8..], (PLAIN_FLAGS & !writing | flag::READ_ONLY | flag::ROTATIONAL).to_be_bytes());
}

#[test]
fn malformed_options_are_refused_and_the_next_one_is_understood() {
    let mut client = fixed();
    let good = go_data("volume", &[info::NAME]);
    let mut with_more = good.clone();
    with_more.push(0);
    let mut huge_name = good.clone();
    huge_name[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    for option in [option::INFO, option::GO] {
        for data in [&good[..good.len() - 1], &good[..5], &[], &with_more, &huge_name] {
            assert_eq!(client.verdict(option, data), option_reply::ERR_INVALID, "{data:?}");
        }
    }
    assert_eq!(client.verdict(option::STRUCTURED_REPLY, b"x"), option_reply::ERR_INVALID);
    assert!(!client.server.connection.is_structured());
    client.option(option::STRUCTURED_REPLY, &[]);
    let good = context_data("volume", &["base:allocation"]);
    let mut many = good.clone();
    many[10..14].copy_from_slice(&u32::MAX.to_be_bytes());
    let mut long = good.clone();
    long[14..18].copy_from_slice(&u32::MAX.to_be_bytes());
    for option in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
        for data in [&good[..good.len() - 1], &good[..9], &[], &many, &long] {
            assert_eq!(client.verdict(option, data), option_reply::ERR_INVALID, "{data:?}");
        }
    }
    assert_eq!(client.verdict(option::GO, &go_data("", &[])), option_reply::ACK);
}

#[test]
fn unknown_options_are_unsupported_with_or_without_data() {
    let mut client = fixed();
    for option in [0, 4, 11, 12, 1 << 31, u32::MAX] {
        for data in [&[][..], &[0; 100], &[0xff; wire::MAX_OPTION as usize]] {
            assert_eq!(client.verdict(option, data), option_reply::ERR_UNSUP);
        }
    }
}

#[test]
fn an_option_that_is_too_long_is_read_past_or_ends_the_connection() {
    let mut client = fixed();
    for length in [wire::MAX_OPTION as usize + 1, wire::MAX_SKIPPED_OPTION as usize] {
        assert_eq!(client.verdict(option::GO, &vec![0; length]), option_reply::ERR_TOO_BIG);
    }
    assert_eq!(client.verdict(option::LIST, &[]), option_reply::ACK);
    let mut header = option_bytes(option::GO, &[]);
    let length = wire::MAX_SKIPPED_OPTION + 1;
    header[12..].copy_from_slice(&length.to_be_bytes());
    assert_eq!(client.send(&header), Err(ProtocolError::OptionTooLong { option: option::GO, length }));
}

#[test]
fn options_without_end_end_the_connection() {
    let mut client = fixed();
    for _ in 0..wire::MAX_OPTIONS {
        client.option(option::LIST, &[]);
    }
    let error = client.send(&option_bytes(option::LIST, &[])).unwrap_err();
    assert_eq!(error, ProtocolError::TooManyOptions(wire::MAX_OPTIONS));
}

#[test]
fn something_else_than_an_option_ends_the_connection() {
    let mut client = fixed();
    let error = client.send(b"GET / HTTP/1.1\r\n").unwrap_err();
    assert_eq!(error, ProtocolError::OptionMagic(u64::from_be_bytes(*b"GET / HT")));
}

#[test]
fn abort_is_acknowledged_and_is_the_end() {
    let mut client = fixed();
    assert_eq!(client.option(option::ABORT, b"bye"), [ack(2)]);
    assert!(client.has_said_goodbye() && client.server.connection.is_closed());
    assert_eq!(client.server.feed(&option_bytes(option::LIST, &[])).unwrap(), 0);
}

fn contexts(replies: &[OptionReply]) -> Vec<(u32, String)> {
    let (last, contexts) = replies.split_last().unwrap();
    assert_eq!(last.kind, option_reply::ACK);
    let context = |reply: &OptionReply| {
        assert_eq!(reply.kind, option_reply::META_CONTEXT);
        let mut stream = Stream(&reply.data);
        (stream.u32().unwrap(), String::from_utf8(stream.0.to_vec()).unwrap())
    };
    contexts.iter().map(context).collect()
}

#[test]
fn contexts_are_listed_by_name_and_by_namespace() {
    let mut client = fixed();
    client.option(option::STRUCTURED_REPLY, &[]);
    let mut list = |queries: &[&str]| contexts(&client.option(option::LIST_META_CONTEXT, &context_data("", queries)));
    let allocation = || (0, "base:allocation".to_owned());
    let place = || (0, "x-peryton:place".to_owned());
    assert_eq!(list(&[]), [allocation(), place()]);
    assert_eq!(list(&["base:"]), [allocation()]);
    assert_eq!(list(&["x-peryton:", "x-peryton:place"]), [place()]);
    assert_eq!(
        list(&["base:allocation", "qemu:dirty-bitmap:x", "base:other", "", ":", "base", "place"]),
        [allocation()]
    );
    assert_eq!(list(&["x-other:"]), []);
}

#[test]
fn contexts_are_chosen_by_name_and_the_last_choice_counts_even_if_it_failed() {
    let mut client = fixed();
    client.option(option::STRUCTURED_REPLY, &[]);
    let mut set =
        |queries: &[&str]| contexts(&client.option(option::SET_META_CONTEXT, &context_data("volume", queries)));
    let both = set(&["x-peryton:place", "base:allocation", "base:allocation"]);
    assert_eq!(both.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["base:allocation", "x-peryton:place"]);
    assert_ne!(both[0].0, both[1].0);
    assert_eq!(set(&["base:", "x-peryton:"]), [], "wildcards choose nothing");
    assert_eq!(set(&[]), []);
    assert_eq!(set(&["x-peryton:place"])[0].1, "x-peryton:place");
    let unknown = client.verdict(option::SET_META_CONTEXT, &context_data("other", &["base:allocation"]));
    assert_eq!(unknown, option_reply::ERR_UNKNOWN);
    client.option(option::GO, &go_data("", &[]));
    let reply = client.request(0, wire::command::BLOCK_STATUS, 0, 4096, &[]);
    assert_eq!(reply.error, 22, "the failed choice left none");
}

#[test]
fn contexts_need_structured_replies() {
    let mut client = fixed();
    for option in [option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
        assert_eq!(client.verdict(option, &context_data("", &[])), option_reply::ERR_INVALID);
    }
}

#[test]
fn a_socket_without_tls_says_so() {
    assert_eq!(fixed().verdict(option::STARTTLS, &[]), option_reply::ERR_POLICY);
}

#[test]
fn nothing_is_answered_before_tls() {
    let mut client = tls_required();
    for option in [option::LIST, option::INFO, option::GO, option::STRUCTURED_REPLY, 10, 11, 99] {
        assert_eq!(client.option(option, &[])[0].kind, option_reply::ERR_TLS_REQD);
    }
    assert_eq!(client.verdict(option::GO, &vec![0; wire::MAX_OPTION as usize + 1]), option_reply::ERR_TLS_REQD);
    assert_eq!(client.verdict(option::STARTTLS, b"x"), option_reply::ERR_INVALID);
    let error = client.send(&option_bytes(option::EXPORT_NAME, b"")).unwrap_err();
    assert_eq!(error, ProtocolError::TlsRequired);
    assert_eq!(client.received(), b"");

    let mut client = tls_required();
    assert_eq!(client.option(option::ABORT, &[]), [ack(2)], "one may leave without TLS");
    let mut client = Client::connect(export(), Security::TlsRequired);
    client.flags(0);
    assert_eq!(client.send(&option_bytes(option::STARTTLS, &[])), Err(ProtocolError::NotFixed(5)));
}

#[test]
fn plain_text_behind_start_tls_is_not_taken_for_options() {
    let mut client = tls_required();
    let mut bytes = option_bytes(option::STARTTLS, &[]);
    let first = bytes.len();
    bytes.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
    assert_eq!(client.server.feed(&bytes).unwrap(), first);
    assert_eq!(client.server.events, [Event::StartTls]);
    assert_eq!(client.server.feed(&bytes[first..]).unwrap(), 0);
    client.received();
    client.server.connection.tls_started();
    assert_eq!(client.verdict(option::LIST, &[]), option_reply::ACK);
    assert_eq!(client.verdict(option::STARTTLS, &[]), option_reply::ERR_INVALID, "once is enough");
    assert_eq!(client.verdict(option::GO, &go_data("", &[])), option_reply::ACK);
    assert!(!client.server.connection.is_structured());
}

#[test]
#[should_panic(expected = "the client did not ask for it")]
fn tls_cannot_start_unasked() {
    tls_required().server.connection.tls_started();
}

#[test]
fn a_server_that_shuts_down_lets_nobody_in() {
    let mut client = fixed();
    client.server.connection.shut_down();
    for option in [option::LIST, option::GO, option::STARTTLS, 99] {
        assert_eq!(client.verdict(option, &[]), option_reply::ERR_SHUTDOWN);
    }
    assert_eq!(client.send(&option_bytes(option::EXPORT_NAME, b"")), Err(ProtocolError::ShuttingDown));
    let mut client = fixed();
    client.server.connection.shut_down();
    assert_eq!(client.option(option::ABORT, &[]), [ack(2)]);
}

#[test]
fn every_byte_may_come_alone() {
    let mut whole = fixed();
    let mut bytes = option_bytes(option::STRUCTURED_REPLY, &[]);
    bytes.extend(option_bytes(option::SET_META_CONTEXT, &context_data("volume", &["base:allocation"])));
    bytes.extend(option_bytes(77, &[1; 300]));
    bytes.extend(option_bytes(option::GO, &go_data("volume", &[info::BLOCK_SIZE])));
    whole.send(&bytes).unwrap();
    let mut dribble = fixed();
    for byte in &bytes {
        dribble.send(&[*byte]).unwrap();
    }
    assert_eq!(whole.received(), dribble.received());
    assert!(dribble.server.connection.is_ready());
}

#[test]
fn an_export_that_the_protocol_cannot_express_is_an_error() {
    let sizes = BlockSizes::default();
    let with = |block: BlockSizes| Export { block, ..export() };
    export().check().unwrap();
    let minimum = with(BlockSizes { minimum: Bytes(3), ..sizes });
    let large = with(BlockSizes { minimum: Bytes::kib(128), preferred: Bytes::kib(128), ..sizes });
    let preferred = with(BlockSizes { preferred: Bytes(256), ..sizes });
    let maximum = with(BlockSizes { maximum: Bytes::gib(1), ..sizes });
    let size = Export { size: Bytes(1000), block: BlockSizes { minimum: Bytes(512), ..sizes }, ..export() };
    let huge = Export { size: Bytes(u64::MAX), ..export() };
    let name = Export { name: "x".repeat(4097), ..export() };
    for export in [minimum, large, preferred, maximum, size, huge, name] {
        let message = export.check().unwrap_err().to_string();
        assert!(message.contains("expected") || message.contains("at most"), "{message}");
    }
}

/// The fear: a client of one part reaches the data of another.
#[test]
fn each_part_is_an_export_of_its_own() {
    let part = |name: &str, from, size| Part { name: name.to_owned(), from: Bytes(from), size: Bytes(size) };
    let parts = vec![part("a", 0, 3 << 18), part("b", 3 << 18, 1 << 18)];
    for structured in [false, true] {
        let mut client = Client::connect(Export { parts: parts.clone(), ..export() }, Security::Plain);
        client.flags(3);
        let listed = client.option(option::LIST, &[]);
        let names: Vec<&[u8]> = listed.iter().filter_map(|reply| reply.data.get(4..12)).collect();
        assert_eq!((names, listed.len()), (vec![&b"volume/a"[..], b"volume/b"], 3));
        for other in ["", "volume", "volume/c", "b"] {
            assert_eq!(client.verdict(option::GO, &go_data(other, &[])), option_reply::ERR_UNKNOWN, "{other:?}");
        }
        if structured {
            client.option(option::STRUCTURED_REPLY, &[]);
        }
        let found = items(&client.option(option::GO, &go_data("volume/b", &[])));
        assert_eq!(found[0].1[..8], (1_u64 << 18).to_be_bytes());
        let last = (1 << 18) - 512;
        assert_eq!(client.read(last, 512).len(), 512);
        assert_eq!(client.server.requests.last().map(|request| request.offset), Some(Bytes((1 << 20) - 512)));
        assert_ne!(client.request(0, command::READ, last + 512, 512, &[]).error, 0);
        assert_ne!(client.request(0, command::WRITE, last, 1024, &[1; 1024]).error, 0);
        assert_eq!(client.request(0, command::FLUSH, 0, 0, &[]).error, 0);
    }
}
