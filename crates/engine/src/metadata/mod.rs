//! The on-disk format: what a volume keeps on its devices besides data, so that it can be opened again.
//!
//! `block` seals each block of 4 KiB with a checksum; `layout` says where what lies; `superblock`, `journal` and
//! `checkpoint` encode and decode one kind of block each; `image` is the map as it is durable; `recovery` puts it
//! together again. `docs/format.md` draws every byte.

pub(crate) mod block;
pub(crate) mod checkpoint;
pub(crate) mod image;
pub(crate) mod journal;
pub(crate) mod layout;
pub(crate) mod superblock;

pub use superblock::VolumeId;
