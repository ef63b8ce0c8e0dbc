use thiserror::Error;

/// A setting that cannot work.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingError {
    /// A value outside its range.
    #[error("{key} is {value}: {remedy}")]
    Range {
        /// The design key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        remedy: &'static str,
    },
    /// Another setting leaves no use for this one.
    #[error("{key} does not apply with the other settings: remove it")]
    NotApplicable {
        /// The design key.
        key: &'static str,
    },
}
