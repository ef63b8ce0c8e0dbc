use std::{io, path::PathBuf};

use peryton_trace::SourceError;
use thiserror::Error;

use crate::DesignError;

/// The most points of a space: what is known of them is kept in memory.
pub const MOST_POINTS: usize = 100_000;

/// The reason why a sweep cannot begin, or ended. Every message is one line.
#[derive(Debug, Error)]
pub enum SpaceError {
    /// The description of the space is wrong.
    #[error("{place}: {problem}")]
    Wrong {
        /// The file and the key.
        place: String,
        /// The problem, and the remedy.
        problem: String,
    },
    /// A design cannot be read, or none of the designs takes a key.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// A trace cannot be opened.
    #[error(transparent)]
    Trace(#[from] SourceError),
    /// There are too many points.
    #[error(
        "{place}: {points} simulations, more than {MOST_POINTS}: give fewer values, or draw some of them with [draw]"
    )]
    TooMany {
        /// The file.
        place: String,
        /// Their number.
        points: usize,
    },
    /// Another sweep writes into the folder.
    #[error("{}: another sweep writes into this folder: wait for it, or give another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// There is something in the folder that is no part of a data set.
    #[error("{}: has '{found}', which no sweep wrote: give an empty folder, or that of a sweep", path.display())]
    NotADataSet {
        /// The folder.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// This build cannot write Parquet.
    #[error("FOLDER: this build has no Parquet: build it with the feature parquet")]
    NotBuilt,
    /// An error of the operating system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl SpaceError {
    /// Whether the cause is the user's input, and not the machine or Peryton.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, SpaceError::Io { .. })
    }
}
