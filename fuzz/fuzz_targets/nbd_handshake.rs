//! Input from a client during the handshake: raw bytes, or options that are almost valid.
#![cfg_attr(fuzzing, no_main)]

#[path = "../../crates/drive/tests/all/nbd_client/mod.rs"]
mod nbd_client;

use nbd_client::{
    hostile::{self, Choices},
    server::Style,
};
use peryton_drive::nbd::Security;

fn check(bytes: &[u8]) {
    let mut choices = Choices(bytes);
    let export = hostile::export(&mut choices);
    let security = choices.of(&[Security::Plain, Security::TlsRequired]);
    let cut = 1 + usize::from(choices.byte());
    let session = if choices.byte() % 2 == 0 { choices.0.to_vec() } else { hostile::options(&mut choices) };
    let whole = hostile::run(&export, security, Style::Whole, &session, || usize::MAX);
    let pieces = hostile::run(&export, security, Style::Whole, &session, || cut);
    assert_eq!(whole, pieces, "the answer depends on how the stream is cut");
}

peryton_fuzz::target!(check);
