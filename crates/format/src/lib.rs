//! The metadata of a Peryton volume: encode, decode, scan.
//!
//! This crate defines every byte that Peryton writes to a device besides data. It has no running state, no clock and no
//! thread. The engine writes through it while a volume is in use. Everything that reads a volume that is not in use
//! (recovery, `peryton dump`, `peryton check`, the fuzz targets) reads through it too. `docs/format.md` of the repository
//! describes every byte.
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
//! * All metadata is written in blocks of 4 KiB, each with a checksum that also covers the volume's identity
//!   ([`block`]).
//! * A [`superblock`] says which volume a device belongs to, what the volume consists of ([`geometry`]), and in what
//!   state the device was left. There are two [`copies`].
//! * The map of a volume says where each extent is ([`entry`]). A [`checkpoint`] holds all of it. The [`journal`] holds
//!   the changes since, in numbered commits. [`map`] reads both and combines them. A [`notice`] tells a reader of
//!   the slow device alone what may be on the fast one.
//! * The fast device may have a part of an extent. [`blocks`] says which part.
//! * A [`log`] has a format of its own.
//! * A [`snapshot`] holds what a cache has learnt. No data depends on it.
//! * [`layout`] and [`log::layout`] compute the places of these parts; [`places`] has those of a volume that was resized.
//!
//! The crate reaches devices through [`storage::Storage`]: implement it for a file or for an array in memory.
//!
//! The readers trust no input. For a damaged or forged volume they return an error or less data, and never panic.
//!
//! # Example: dump a superblock
//!
//! ```
//! use peryton_format::{
//!     geometry::{Placement, Geometry, Hybrid},
//!     storage::DeviceId,
//!     superblock::{Superblock, Unreadable, VolumeId},
//! };
//! use peryton_units::Bytes;
//!
//! let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
//! let devices = vec![Bytes::gib(8), Bytes::gib(100)];
//! let geometry = Geometry { devices, placement: Placement::Caching(pair), spare: 256, displaced: None, places: None };
//! let superblock = Superblock { device: DeviceId(1), generation: 7, ..Superblock::new(VolumeId(0x1234), geometry) };
//! let mut block: Vec<u8> = superblock.encode();
//!
//! let read = Superblock::decode(&block)?;
//! assert_eq!(read, superblock);
//! println!("{read}");
//! # assert!(read.to_string().contains("placement.mode: caching"), "{read}");
//!
//! // One flipped bit, and the block is refused.
//! block[200] ^= 1;
//! assert_eq!(Superblock::decode(&block), Err(Unreadable::Damaged));
//! # Ok::<(), Unreadable>(())
//! ```

pub mod adoption;
pub mod block;
pub mod blocks;
pub mod checkpoint;
pub mod copies;
pub mod device_id;
pub mod displaced;
pub mod entry;
pub mod geometry;
pub mod handoff;
pub mod holder;
pub mod journal;
pub mod layout;
pub mod log;
pub mod map;
pub mod mutation;
pub mod notice;
pub mod places;
pub mod regions;
pub mod snapshot;
pub mod storage;
pub mod superblock;
pub mod translated;
pub mod wear;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
