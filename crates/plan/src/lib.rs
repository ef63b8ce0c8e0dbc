//! What to buy, before it is bought: how long an array of unlike drives lives ([`lifetime`]), and which drives need the
//! least energy or money for a workload ([`greenest`]).

pub mod constraint;
pub mod evaluate;
pub mod greenest;
pub mod lifetime;
pub mod mixcp;
pub mod regression;
pub mod tune;
