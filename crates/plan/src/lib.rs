//! What to buy, before it is bought: the cheapest devices that meet budgets ([`mixcp`]), how long an array of unlike drives
//! lives ([`lifetime`]), which drives need the least energy or money for a workload ([`greenest`]), and better settings for
//! a design ([`tune`]).

pub mod constraint;
pub mod evaluate;
pub mod greenest;
pub mod lifetime;
pub mod mixcp;
pub mod regression;
pub mod tune;
