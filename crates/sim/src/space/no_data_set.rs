//! Replaces data sets of Parquet in a build without the feature `parquet`.

use std::{collections::HashMap, path::PathBuf};

use super::{error::SpaceError, point::Row};

/// A folder of rows; this build cannot make one.
#[derive(Debug)]
pub struct DataSet(std::convert::Infallible);

impl DataSet {
    /// Returns an error: this build has no Parquet.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: impl Into<PathBuf>) -> Result<DataSet, SpaceError> {
        Err(SpaceError::NotBuilt)
    }

    /// Whether a point is there, and whether it is there with an error.
    pub fn known(&self, _: &str) -> Option<bool> {
        match self.0 {}
    }

    /// The figures of these names in each row.
    ///
    /// # Errors
    /// None: there is no such data set.
    pub fn figures(&self, _: &[String]) -> Result<Vec<Row>, SpaceError> {
        match self.0 {}
    }

    /// Adds rows.
    ///
    /// # Errors
    /// None: there is no such data set.
    pub fn add(&mut self, _: Vec<Row>) -> Result<(), SpaceError> {
        match self.0 {}
    }

    /// Puts the rows in order.
    ///
    /// # Errors
    /// None: there is no such data set.
    pub fn finish(&mut self, _: &HashMap<String, usize>) -> Result<(), SpaceError> {
        match self.0 {}
    }
}
