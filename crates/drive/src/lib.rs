//! The live drive: the engine on real devices, exported as a block device over NBD.
//!
//! One thread owns one volume: front end → engine → io_uring → engine → front end.
