//! What a Peryton volume keeps on its devices besides data: encode, decode, scan.
//!
//! This crate knows every byte that lies on a device, and nothing about a drive that runs: it has no state that changes, no
//! clock and no thread. The engine writes through it while a volume is in use. Whatever reads a volume that is not in use
//! (recovery, `peryton dump`, `peryton check`, the fuzz targets) reads through it as well. `docs/format.md` and
//! `docs/format-logging.md` of the repository draw every byte.
//!
//! # How a volume lies on its devices
//!
//! ```text
//! a device of a volume with a map (tiering, caching, partitioned)
//!  superblock | journal (a ring) | checkpoint A | checkpoint B | data: places of one extent each | superblock
//!
//! the log device of a volume with a log
//!  superblock | commits (a ring) | segments full of appends                                      | superblock
//!
//! every other device
//!  superblock | (empty to 1 MiB) | data                                                          | superblock
//! ```
//!
//! * All metadata is written in blocks of 4 KiB, each sealed with a checksum that also covers the volume's name ([`block`]).
//! * A [`superblock`] says which volume a device is part of, what the volume is made of ([`geometry`]), and how the device
//!   was left. There are two [`copies`].
//! * The map of a volume says where each extent is ([`entry`]). A [`checkpoint`] holds all of it. The [`journal`] holds the
//!   changes since, in numbered commits. [`map`] puts the two together again. A [`notice`] tells a reader that has only the
//!   slow device what the fast one may hold.
//! * A [`log`] has a format of its own.
//! * [`layout`] and [`log::layout`] say where these parts lie.
//!
//! [`storage::Storage`] is how the crate reaches devices: implement it for a file or for an array in memory.
//!
//! Nothing that is read is trusted. A reader of a damaged or forged volume gets an error or less data, but no panic.
//!
//! # Example: dump a superblock
//!
//! ```
//! use peryton_format::{
//!     geometry::{Arrangement, Geometry, MapPair},
//!     storage::DeviceId,
//!     superblock::{Superblock, Unreadable, VolumeId, VolumeState},
//! };
//! use peryton_units::Bytes;
//!
//! let pair = MapPair { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
//! let superblock = Superblock {
//!     volume: VolumeId(0x1234),
//!     device: DeviceId(1),
//!     generation: 7,
//!     state: VolumeState::Clean,
//!     formatted_unix_s: 1_760_000_000,
//!     touched: [0, 0],
//!     gone: 0,
//!     fingerprint: 0,
//!     geometry: Geometry {
//!         devices: vec![Bytes::gib(8), Bytes::gib(100)],
//!         arrangement: Arrangement::Caching(pair),
//!         spare: 256,
//!     },
//!     notes: String::new(),
//! };
//! let mut block: Vec<u8> = superblock.encode();
//!
//! let read = Superblock::decode(&block)?;
//! assert_eq!(read, superblock);
//! println!("{read}");
//! # assert!(read.to_string().contains("placement.mode: caching"), "{read}");
//!
//! // One flipped bit, and the block is not believed.
//! block[200] ^= 1;
//! assert_eq!(Superblock::decode(&block), Err(Unreadable::Damaged));
//! # Ok::<(), Unreadable>(())
//! ```

pub mod block;
pub mod checkpoint;
pub mod copies;
pub mod entry;
pub mod geometry;
pub mod journal;
pub mod layout;
pub mod log;
pub mod map;
pub mod mutation;
pub mod notice;
pub mod storage;
pub mod superblock;
