//! All tests of the models of devices that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(clippy::unwrap_used)]

mod accounts_add_up;
mod catalogue;
mod disk_calibration;
mod disk_hostile_files;
mod disk_kinds;
mod disk_remapped;
mod disk_service;
mod fit;
mod flash_garbage_collection;
mod flash_greenest_ssd1;
mod flash_loses_nothing;
mod flash_modes;
mod flash_shared_log;
mod flash_theory;
mod flash_timing;
mod flash_translation;
mod flash_waits;
mod measure;
mod profiles;
mod real_disks;
mod round_numbers;
mod theory;
