//! Volumes with forged metadata, with correct checksums or without. Opening, checking, repairing and detaching may
//! refuse any such volume, but must not panic, and an opened volume must be consistent.

use std::sync::OnceLock;

use peryton_engine::{Config, DeviceId, Trust, closed};
use peryton_units::{Bytes, Op};

use crate::volumes::{BLOCK, Left, Memory, Used, configs, reseal, used};

/// A volume, and the places of its metadata blocks: device and block, by kind.
struct Base {
    config: Config,
    memory: Memory,
    sealed: Vec<([u8; 4], usize, usize)>,
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let each = |config: Config| {
            [Left::Closed, Left::Open, Left::Without].into_iter().filter_map(move |left| {
                let memory = used(&config, left)?;
                let mut sealed = Vec::new();
                for device in 0..memory.devices() {
                    for index in 0..memory.blocks(device) {
                        let kind: [u8; 4] = memory.block(device, index)[4..8].try_into().expect("four bytes");
                        if kind.starts_with(b"PY") {
                            sealed.push((kind, device, index));
                        }
                    }
                }
                Some(Base { config: config.clone(), memory, sealed })
            })
        };
        configs().into_iter().flat_map(each).collect()
    })
}

/// The volumes with metadata of the given kinds, and its places.
pub struct Damaged {
    bases: Vec<(&'static Base, Vec<(usize, usize)>)>,
    anywhere: bool,
}

impl Damaged {
    /// Volumes with these kinds of metadata; if none is named, any block may be damaged.
    pub fn new(kinds: &[&[u8; 4]]) -> Damaged {
        let wanted = |base: &'static Base| {
            let wanted = base.sealed.iter().filter(|(kind, _, _)| kinds.is_empty() || kinds.contains(&kind));
            let places: Vec<_> = wanted.map(|(_, device, index)| (*device, *index)).collect();
            (!places.is_empty()).then_some((base, places))
        };
        Damaged { bases: bases().iter().filter_map(wanted).collect(), anywhere: kinds.is_empty() }
    }

    /// Damages a volume as given by the bytes, and then uses it as far as possible.
    pub fn check(&self, bytes: &[u8]) {
        let mut choices = Choices(bytes);
        let (base, places) = &self.bases[usize::from(choices.byte()) % self.bases.len()];
        let mut memory = base.memory.clone();
        for _ in 0..1 + choices.byte() % 4 {
            let (mut device, mut index) = places[choices.index(places.len())];
            let fate = choices.byte();
            if self.anywhere && fate % 8 == 0 {
                device = usize::from(choices.byte()) % memory.devices();
                index = choices.index(memory.blocks(device));
            }
            if fate / 8 % 16 == 0 {
                // A block from another place, or from the other device.
                let (_, from, other) = base.sealed[choices.index(base.sealed.len())];
                let copied = memory.block(from, other).to_vec();
                memory.block_mut(device, index).copy_from_slice(&copied);
            }
            for _ in 0..1 + choices.byte() % 8 {
                edit(&mut choices, memory.block_mut(device, index));
            }
            if fate / 128 == 0 || choices.byte() % 4 > 0 {
                reseal(memory.block_mut(device, index));
            }
        }
        let config = &base.config;
        let last = DeviceId(config.devices.len() as u8 - 1);
        match choices.byte() % 8 {
            0 => drop(closed::repair(config.clone(), &mut memory.clone(), Trust::None, &[])),
            1 => drop(closed::repair(config.clone(), &mut memory.clone(), Trust::Slow, &[])),
            2 => drop(closed::detach(
                config.clone(),
                &mut memory.clone(),
                peryton_engine::Forgone::default(),
                &mut |_| (),
            )),
            3 => drop(closed::replace(config.clone(), &mut memory.clone(), last, true)),
            how @ (4 | 5) => {
                let without: &[DeviceId] = if how == 4 { &[] } else { &[last] };
                let inspection = closed::inspect(config.clone(), &mut memory.clone(), true, without);
                assert!(inspection.is_ok(), "a look at a damaged volume is no configuration error");
            }
            _ => {}
        }
        let Some(mut used) = Used::open(config, memory) else { return };
        used.engine.check_invariants();
        let size = used.engine.volume_size();
        for n in 0..4u64 {
            let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][usize::from(choices.byte()) % 4];
            let offset = Bytes(u64::from(choices.byte()) * 4096 % (size.0 - 4096));
            let len = if op == Op::Flush { Bytes::ZERO } else { Bytes(4096 * (1 + n % 2)).min(size - offset) };
            used.request(op, offset, len);
        }
        used.engine.check_invariants();
    }
}

/// Choices drawn from bytes; zeros when they are used up.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Draws choices from these bytes.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices(bytes)
    }

    /// The next byte; zero when they are used up.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % len
    }
}

/// Changes a byte or a number.
fn edit(choices: &mut Choices, block: &mut [u8]) {
    let width = [1, 4, 4, 8][usize::from(choices.byte()) % 4];
    // Fields are at the start, entries after them.
    let place = if choices.byte().is_multiple_of(2) { usize::from(choices.byte()) % 128 } else { choices.index(BLOCK) };
    let place = place / width * width;
    let field = &mut block[place..place + width];
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(field);
    let (now, by) = (u64::from_le_bytes(bytes), u64::from(choices.byte()));
    let number = match choices.byte() % 6 {
        0 => by,
        1 => u64::MAX - by,
        2 => now.wrapping_add(by),
        3 => now.wrapping_sub(by),
        4 => now ^ 1 << (by % 64),
        _ => now ^ 1 << (by % (8 * width as u64)),
    };
    field.copy_from_slice(&number.to_le_bytes()[..width]);
}
