//! Whether devices can read straight into the pages of requests (`crate::request_pages`).

use peryton_units::Bytes;

use super::{attach::UblkSettings, control::Control};
use crate::{arena::PAGE, disks::Ability};

/// What the parts of a request's memory have to be aligned to for `devices` to read straight into them.
///
/// # Errors
/// Why they cannot, for the operator.
pub(crate) fn alignment_of_pages(
    control: &Control,
    settings: &UblkSettings,
    devices: impl Iterator<Item = Ability>,
) -> Result<u32, String> {
    if !control.copies_nothing() {
        return Err("the kernel cannot do it (Linux 6.16 and later can)".to_owned());
    }
    alignment(settings.block, devices)
}

fn alignment(of_device: Bytes, devices: impl Iterator<Item = Ability>) -> Result<u32, String> {
    let (block, memory) =
        devices.fold((1, 1), |(block, memory), ability| (ability.block.max(block), ability.memory.max(memory)));
    let alignment = memory.max(of_device.0);
    if block > of_device.0 {
        // A request may then have parts that are shorter than a block of the device.
        return Err(format!("a device has blocks of {block} bytes; give --ublk-block {block}B"));
    }
    if alignment > PAGE as u64 {
        return Err(format!("a device asks for memory aligned to {alignment} bytes, which is more than a page"));
    }
    Ok(alignment as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(block: u64, memory: u64) -> Ability {
        Ability { block, memory, punch: true, zero_range: true, wear: std::sync::Arc::default() }
    }

    #[test]
    fn the_coarsest_device_decides() {
        let found = |of_device, devices: &[Ability]| alignment(Bytes(of_device), devices.iter().cloned());
        assert_eq!(found(512, &[device(512, 4), device(512, 512)]), Ok(512));
        assert_eq!(found(4096, &[device(512, 4), device(4096, 512)]), Ok(4096));
        assert_eq!(found(512, &[device(512, 4096)]), Ok(4096));
        assert!(found(512, &[device(512, 4), device(4096, 4)]).is_err_and(|why| why.contains("--ublk-block 4096B")));
        assert!(found(4096, &[device(512, 8192)]).is_err_and(|why| why.contains("8192")));
    }
}
