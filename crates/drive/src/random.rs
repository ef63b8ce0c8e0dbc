//! Random numbers that cannot be guessed.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// As many random bytes.
///
/// # Errors
/// The system has none.
pub(crate) fn random<const BYTES: usize>() -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let mut have = 0;
    while have < BYTES {
        have += getrandom(&mut bytes[have..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
