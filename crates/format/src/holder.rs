//! Who serves a volume: multi-mount protection. Behind the first superblock of each device lies the holder block. A server renews it every
//! few seconds, and another server reads it before it begins. Recovery does not use it. It also has the counts of the device's wear.
//!
//! The block has the same place in every volume, so it is found by any name of the device and on any machine. It is sealed without a
//! volume's identity, so that it can be read before that is known.

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, get_u32, get_u64, has_kind, is_sealed, put_u32, put_u64, seal},
    superblock::VolumeId,
    wear::{ACCOUNT_LEN, Account},
};

/// Where the block lies on each device.
pub const HOLDER_AT: Bytes = Bytes(BLOCK);
/// What lies before the other metadata: a superblock, and this block.
pub(crate) const RESERVED: u64 = 2 * BLOCK;
/// How often a server renews the block, in seconds.
pub const RENEWED_EVERY_S: u64 = 5;

const HELD: u32 = 1;
const HOST_AT: usize = 80;
const LONGEST_HOST: usize = 255;
const ACCOUNT_AT: usize = 512;

/// A server that has the volume, or had it when it died.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// A random number, so that no two servers have the same.
    pub nonce: u64,
    /// How often it has renewed the block.
    pub renewals: u64,
    /// Its process.
    pub pid: u32,
    /// The identity of the namespace in which the process has that number.
    pub pid_namespace: u64,
    /// When the process was started, in ticks since its machine was.
    pub started: u64,
    /// The kernel's identity of that start of its machine.
    pub boot: u128,
    /// Since when it has the volume, in seconds since 1970.
    pub since_unix_s: u64,
    /// The name of its machine.
    pub host: String,
}

/// The block names no server, and does not say that there is none: a crash has torn it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

/// What the block says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The server that has the volume, if there is one.
    pub holder: Option<Holder>,
    /// What has worn the device.
    pub account: Account,
}

/// Encodes the block: the server that has the volume, if there is one, and the device's wear.
pub fn encode(holder: Option<&Holder>, account: &Account) -> Vec<u8> {
    let mut block = vec![0; BLOCK_LEN];
    account.encode(&mut block[ACCOUNT_AT..ACCOUNT_AT + ACCOUNT_LEN]);
    if let Some(holder) = holder {
        put_u32(&mut block, 8, HELD);
        put_u32(&mut block, 12, holder.pid);
        put_u64(&mut block, 16, holder.nonce);
        put_u64(&mut block, 24, holder.renewals);
        put_u64(&mut block, 32, holder.since_unix_s);
        block[40..56].copy_from_slice(&holder.boot.to_le_bytes());
        put_u64(&mut block, 56, holder.pid_namespace);
        put_u64(&mut block, 64, holder.started);
        let host = holder.host.as_bytes();
        let len = host.len().min(LONGEST_HOST);
        put_u32(&mut block, 72, len as u32);
        block[HOST_AT..HOST_AT + len].copy_from_slice(&host[..len]);
    }
    seal(&mut block, Kind::Holder, VolumeId::default());
    block
}

/// Decodes the block. A block of another kind means that no server has the volume, and that no wear was counted.
///
/// # Errors
/// It is torn.
pub fn decode(block: &[u8]) -> Result<Held, Torn> {
    if !has_kind(block, Kind::Holder) {
        return Ok(Held::default());
    }
    if !is_sealed(block, Kind::Holder, VolumeId::default()) {
        return Err(Torn);
    }
    let account = Account::decode(&block[ACCOUNT_AT..ACCOUNT_AT + ACCOUNT_LEN]);
    if get_u32(block, 8) != HELD {
        return Ok(Held { holder: None, account });
    }
    let len = (get_u32(block, 72) as usize).min(LONGEST_HOST);
    let holder = Holder {
        pid: get_u32(block, 12),
        nonce: get_u64(block, 16),
        renewals: get_u64(block, 24),
        since_unix_s: get_u64(block, 32),
        boot: u128::from_le_bytes(block[40..56].try_into().expect("sixteen bytes")),
        pid_namespace: get_u64(block, 56),
        started: get_u64(block, 64),
        host: String::from_utf8_lossy(&block[HOST_AT..HOST_AT + len]).into_owned(),
    };
    Ok(Held { holder: Some(holder), account })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let holder = Holder {
            nonce: 1 << 63 | 5,
            renewals: 6,
            pid: 7,
            pid_namespace: 4_026_531_836,
            started: 9,
            boot: 10 << 100,
            since_unix_s: 1_760_000_000,
            host: "a.example".to_owned(),
        };
        let account = Account { since_unix_s: 1, unclosed: 2, ..Account::default() };
        assert_eq!(decode(&encode(Some(&holder), &account)), Ok(Held { holder: Some(holder.clone()), account }));
        assert_eq!(decode(&encode(None, &account)), Ok(Held { holder: None, account }));
        assert_eq!(decode(&[0; BLOCK_LEN]), Ok(Held::default()));
        let mut torn = encode(Some(&holder), &account);
        torn[3000] ^= 1;
        assert_eq!(decode(&torn), Err(Torn));
        let long = Holder { host: "x".repeat(400), ..holder };
        let read = decode(&encode(Some(&long), &account)).expect("it is whole");
        assert_eq!((read.holder.map(|holder| holder.host.len()), read.account), (Some(255), account));
    }

    proptest! {
        #[test]
        fn no_content_of_a_block_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), BLOCK_LEN), sealed: bool) {
            let mut block = bytes;
            if sealed {
                put_u32(&mut block, 8, HELD);
                seal(&mut block, Kind::Holder, VolumeId::default());
            }
            let _ = decode(&block);
        }
    }
}
