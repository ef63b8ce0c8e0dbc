//! What a plan is asked.

use std::str::FromStr;

use peryton_sim::Options;
use peryton_units::Bytes;

use super::{flash::Flash, protection::Protection};
use crate::{
    constraint::{Constraint, Metric},
    evaluate::Account,
};

/// A request for a plan.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The budgets that a design must meet.
    pub constraints: Vec<Constraint>,
    /// The figure that is minimised or maximised.
    pub objective: Metric,
    /// Bytes to be stored; if absent, the range of addresses that the trace uses.
    pub capacity: Option<Bytes>,
    /// How much of it is in use over a time as long as the trace; where absent, the same share of it as of what the trace
    /// reaches over.
    pub active: Option<Active>,
    /// The most devices of a kind: 1 to 256.
    pub most: u32,
    /// Number of designs to report besides the best.
    pub runners_up: usize,
    /// What every design keeps for the day when devices fail.
    pub protection: Protection,
    /// In which capacities flash can be bought.
    pub flash: Flash,
    /// Whether to find out how much of the flash of the best design the workload needs, if that is a hybrid of whole devices.
    pub flash_need: bool,
    /// The rules for the cost of ownership.
    pub account: Account,
    /// The share of the time in which the load goes on: with 1, day and night.
    pub duty: f64,
    /// How the trace is replayed.
    pub options: Options,
}

/// How much of the stored data is in use over a time as long as the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Active {
    /// This share of it.
    Share(f64),
    /// This many bytes.
    Size(Bytes),
}

impl FromStr for Active {
    type Err = String;
    /// `5%` or `1.8GiB`.
    fn from_str(text: &str) -> Result<Active, String> {
        let expected = || format!("'{text}' is no share and no size: write one such as 5% or 200GiB");
        match text.trim().strip_suffix('%') {
            Some(number) => {
                let share: f64 = number.trim().parse().map_err(|_| expected())?;
                if share > 0.0 && share <= 100.0 { Ok(Active::Share(share / 100.0)) } else { Err(expected()) }
            }
            None => text.parse().ok().filter(|size| *size > Bytes::ZERO).map(Active::Size).ok_or_else(expected),
        }
    }
}
