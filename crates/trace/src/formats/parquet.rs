//! Peryton's own Parquet schema (`docs/parquet-trace.md`). It is read from its end, so [`open`](crate::open) reads it
//! from its path, and this file only recognises it.

use super::{Head, Opened, ReadOptions};
use crate::{TraceError, input::Input};

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if head.bytes.starts_with(b"PAR1") { 100 } else { 0 }
}

/// A pipe or a compressed file cannot be read from its end.
pub(crate) fn reader(input: Input, _: &ReadOptions) -> Opened {
    Err(TraceError::Options {
        path: input.name().to_string(),
        problem: "Parquet is read from its end, so not from a pipe or a compressed file".to_owned(),
        remedy: "save it in a plain file first".to_owned(),
    })
}
