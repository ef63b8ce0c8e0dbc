//! placeholder
pub mod block;
pub mod checkpoint;
pub mod copies;
pub mod entry;
pub mod geometry;
pub mod journal;
pub mod layout;
pub mod log;
pub mod mutation;
pub mod notice;
pub mod storage;
pub mod superblock;
