//! Input from a client after the handshake: raw bytes, or requests that are almost valid.
#![cfg_attr(fuzzing, no_main)]

#[path = "../../crates/drive/tests/all/nbd_client/mod.rs"]
mod nbd_client;

use nbd_client::{
    hostile::{self, Choices},
    server::Style,
};
use peryton_drive::nbd::{Event, Security};

fn check(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let export = hostile::export(&mut choices);
    let style = choices.of(&[Style::Whole, Style::Chunks, Style::Halves]);
    let cut = 1 + 8 * usize::from(choices.byte());
    let session = if choices.byte() % 8 == 0 {
        let mut handshake = hostile::requests(&mut Choices(&choices.0[..choices.0.len().min(1)]));
        handshake.extend(choices.0);
        handshake
    } else {
        hostile::requests(&mut choices)
    };
    let whole = hostile::run(&export, Security::Plain, style, &session, || usize::MAX);
    let pieces = hostile::run(&export, Security::Plain, style, &session, || cut);
    assert_eq!(whole, pieces, "the answer depends on how the stream is cut");
    assert_eq!(whole.events.first(), Some(&Event::Ready));
    assert!(!export.read_only || whole.disk.0 == 0, "a read-only export was written");
}

peryton_fuzz::target!(check);
