//! All tests of the running drive that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(missing_docs, clippy::unwrap_used)]

mod changed_in_service;
mod damaged_log;
mod device_death;
mod failed_flush;
mod handshakes;
mod hostile_load;
mod kill_nine;
mod killed_amid_writes;
mod killed_beneath_databases;
mod killed_beneath_ext4;
mod large;
mod large_volumes;
mod model;
mod mounted;
mod nbd_client;
mod nbd_handshake;
mod nbd_hostile_client;
#[cfg(feature = "tls")]
mod nbd_interop;
mod nbd_requests;
#[cfg(feature = "tls")]
mod nbd_tls;
mod one_sided_damage;
mod outage;
mod readmit;
mod removed_disk;
mod replaced_in_service;
mod resized_in_service;
mod reused_number;
mod served;
mod served_volume;
mod supervision;
mod tools;
mod two_servers;
