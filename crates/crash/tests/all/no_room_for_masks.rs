//! The fear: a volume that was made for whole extents, and whose map has no room to become longer, is changed before that is noticed, or
//! opens no more.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use peryton_engine::{
    Config, DeviceError, DeviceId, Engine, Fill, Formatting, Hybrid, OpenError, Placement, Storage, Tuning, VolumeId,
};
use peryton_units::Bytes;

const BLOCK: usize = 4096;
const EXTENT: Bytes = Bytes::kib(4);

/// Large devices that keep what is not zeros.
struct Sparse {
    sizes: [Bytes; 2],
    blocks: HashMap<(u8, u64), Box<[u8]>>,
    writes: u32,
}

impl Storage for Sparse {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.sizes.get(device.index()).copied()
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        for (index, block) in (at.0 / BLOCK as u64..).zip(into.chunks_mut(BLOCK)) {
            match self.blocks.get(&(device.0, index)) {
                Some(bytes) => block.copy_from_slice(bytes),
                None => block.fill(0),
            }
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.writes += 1;
        for (index, block) in (at.0 / BLOCK as u64..).zip(from.chunks(BLOCK)) {
            self.blocks.insert((device.0, index), block.into());
        }
        Ok(())
    }

    fn flush(&mut self, _: DeviceId) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn config(fast: u64, slow: u64, fill: Fill) -> Config {
    Config {
        devices: vec![EXTENT * fast, EXTENT * slow],
        placement: Placement::Caching(Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: EXTENT }),
        tuning: Tuning { fill, ..Tuning::default() },
    }
}

/// A volume with whole extents, of so many of them.
fn of_whole_extents(fast: u64, slow: u64) -> Sparse {
    let config = config(fast, slow, Fill::Extent);
    let sizes = [0, 1].map(|device: usize| config.sizes().unwrap().devices[device]);
    let mut storage = Sparse { sizes, blocks: HashMap::new(), writes: 0 };
    let new = Formatting { volume: VolumeId(7), unix_s: 1, zeroed: true, notes: String::new() };
    Engine::format(&config, new, &mut storage).unwrap();
    storage
}

fn opens(storage: &mut Sparse, fast: u64, slow: u64, fill: Fill) -> Result<bool, OpenError> {
    let (mut engine, opened) = Engine::open(config(fast, slow, fill), storage)?;
    engine.close(storage).unwrap();
    Ok(opened.upgraded)
}

#[test]
fn it_is_found_before_anything_is_written_and_the_message_says_how_small_the_cache_must_be() {
    let (fast, slow) = (1_080_000, 1_120_000);
    let mut storage = of_whole_extents(fast, slow);
    let before = storage.writes;
    let Err(OpenError::Upgrade { why }) = opens(&mut storage, fast, slow, Fill::Auto) else { panic!("it has no room") };
    assert_eq!(storage.writes, before, "{why}");
    assert!(why.contains("shrink device 0 to ") && why.contains("peryton resize"), "{why}");
    assert_eq!(opens(&mut storage, fast, slow, Fill::Extent), Ok(false));
    let most = why.split("device 0 to ").nth(1).unwrap().split(" or less").next().unwrap();
    let most: Bytes = most.parse().unwrap();
    // It is rounded down to a MiB. A volume as large as that has the same room, and one that is larger has not enough of it.
    let most = most.0 / EXTENT.0;
    assert!(most > fast * 3 / 4, "{most} of {fast}");
    assert_eq!(opens(&mut of_whole_extents(most, slow), most, slow, Fill::Auto), Ok(true));
    assert!(opens(&mut of_whole_extents(most + 256, slow), most + 256, slow, Fill::Auto).is_err());
}
