//! The types of the engine's interface: requests and commands, settings, errors, statistics, and descriptions of a
//! volume.

pub(crate) mod cleaning;
pub(crate) mod command;
pub(crate) mod config;
pub mod endurance;
pub(crate) mod error;
pub(crate) mod evacuation;
pub(crate) mod excuses;
pub(crate) mod location;
pub(crate) mod logging;
pub(crate) mod opened;
pub(crate) mod resizing;
pub(crate) mod stats;
pub(crate) mod succession;
pub(crate) mod verification;
pub(crate) mod warmth;
