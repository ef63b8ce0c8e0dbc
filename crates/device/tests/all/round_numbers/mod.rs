//! A flash device whose times can be added up by hand.

use peryton_device::{BuildError, Flash, flash::FlashParameters};
use peryton_units::Bytes;

/// Two channels of two dies: a page of 4 KiB takes 50 µs to sense, 10 µs on a channel, 1 µs on the interface, 500 µs to program; an erase takes 2 ms.
pub fn build(extra: &str) -> Result<Flash, BuildError> {
    let base = r#"
        channels = 2
        dies_per_channel = 2
        page = "4KiB"
        pages_per_block = 64
        read = "50us"
        program = "500us"
        erase = "2ms"
        channel_mb_per_s = 409.6
        interface_mb_per_s = 4096
        cycles = 3000
        over_provisioning = 0.25
        idle_w = 1
        standby_w = 0.1
        precondition = "sequential"
        "#;
    let mut table: toml::Table = toml::from_str(base).expect("TOML");
    table.extend(toml::from_str::<toml::Table>(extra).expect("TOML"));
    let parameters: FlashParameters = toml::Value::Table(table).try_into().expect("parameters");
    Flash::new(&parameters, Bytes::mib(64), Bytes::mib(64), 1)
}
