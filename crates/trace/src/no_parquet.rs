//! Replaces Parquet in a build without the feature `parquet`: files are refused.

use std::{convert::Infallible, path::Path};

use peryton_units::Nanos;

use crate::{Account, Request, Source, TraceError, decode::Decode};

fn not_built(path: &Path) -> TraceError {
    TraceError::Options {
        path: path.display().to_string(),
        problem: "this build has no Parquet".to_owned(),
        remedy: "build it with the feature parquet, or use another format".to_owned(),
    }
}

/// A Parquet trace, which this build cannot read.
#[derive(Debug)]
pub struct ParquetSource(Infallible);

impl ParquetSource {
    /// Returns an error.
    ///
    /// # Errors
    /// Always: this build has no Parquet.
    pub fn open(path: impl AsRef<Path>) -> Result<ParquetSource, TraceError> {
        Err(not_built(path.as_ref()))
    }

    /// Never called.
    pub fn origin(&self) -> Option<&str> {
        match self.0 {}
    }

    /// Never called.
    pub fn requests(&self) -> u64 {
        match self.0 {}
    }
}

impl Source for ParquetSource {
    fn next_batch(&mut self, _: &mut Vec<Request>) -> Result<(), TraceError> {
        match self.0 {}
    }
}

/// A Parquet trace, which this build cannot write.
#[derive(Debug)]
pub struct ParquetWriter(Infallible);

impl ParquetWriter {
    /// Returns an error.
    ///
    /// # Errors
    /// Always: this build has no Parquet.
    pub fn create(path: impl AsRef<Path>, _origin: &str) -> Result<ParquetWriter, TraceError> {
        Err(not_built(path.as_ref()))
    }

    /// Never called.
    pub fn starts_at(&mut self, _: Nanos) {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn write(&mut self, _: &[Request]) -> Result<(), TraceError> {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<u64, TraceError> {
        match self.0 {}
    }
}

/// The rows of a Parquet trace, which this build cannot read.
pub(crate) struct ParquetRows(Infallible);

impl ParquetRows {
    pub(crate) fn open(path: &Path) -> Result<ParquetRows, TraceError> {
        Err(not_built(path))
    }

    pub(crate) fn is_in_order(&self) -> bool {
        match self.0 {}
    }
}

impl Decode for ParquetRows {
    fn fill(&mut self, _: &mut Vec<Request>) -> Result<(), TraceError> {
        match self.0 {}
    }

    fn add_to(&self, _: &mut Account) {
        match self.0 {}
    }
}
