//! Writes of a client that are noted in a model of the volume.
#![allow(missing_docs, clippy::unwrap_used)]

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

use crate::served::Client;

const UNIT: usize = 4096;

/// Random writes, each noted in the model.
pub fn write(client: &mut Client, model: &mut [u8], count: usize, random: &mut Pcg64) {
    for _ in 0..count {
        let units = [1, 1, 2, 8][random.random_range(0..4)];
        let at = random.random_range(0..model.len() / UNIT - units) * UNIT;
        let mut data = vec![0; units * UNIT];
        random.fill_bytes(&mut data);
        client.write(at as u64, &data, false).unwrap();
        model[at..at + data.len()].copy_from_slice(&data);
        if random.random_range(0..8) == 0 {
            client.flush().unwrap();
        }
    }
}
