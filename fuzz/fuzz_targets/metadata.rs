//! What a device may hold when a volume is opened: superblocks, journal, checkpoints, a log's appends and indexes, changed
//! anywhere, with checksums made right again or not. Opening may refuse; it may not panic, and what it opens holds together.
#![cfg_attr(fuzzing, no_main)]

use std::sync::OnceLock;

use peryton_engine::{Config, Engine, Trust};
use peryton_fuzz::volumes::{BLOCK, Memory, Used, configs, reseal, used};
use peryton_units::{Bytes, Op};

/// Volumes, and for each device where blocks of metadata are.
struct Bases(Vec<(Config, Memory, Vec<Vec<usize>>)>);

fn bases() -> &'static Bases {
    static BASES: OnceLock<Bases> = OnceLock::new();
    BASES.get_or_init(|| {
        let each = |config: Config| {
            [true, false].map(|closed| {
                let memory = used(&config, closed);
                let sealed = |bytes: &Vec<u8>| {
                    let blocks = bytes.chunks_exact(BLOCK).enumerate();
                    blocks.filter(|(_, block)| block[4..6] == *b"PY").map(|(at, _)| at).collect::<Vec<_>>()
                };
                let places = memory.0.iter().map(sealed).collect();
                (config.clone(), memory, places)
            })
        };
        Bases(configs().into_iter().flat_map(each).collect())
    })
}

fn check(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut byte = move || bytes.next().unwrap_or(0);
    let Bases(bases) = bases();
    let (config, memory, places) = &bases[usize::from(byte()) % bases.len()];
    let mut memory = memory.clone();
    for _ in 0..1 + byte() % 4 {
        let device = usize::from(byte()) % memory.0.len();
        let known = &places[device];
        // Most blocks of a device hold no metadata: those that do have most of the turns.
        let pick = usize::from(byte()) << 8 | usize::from(byte());
        let at = if byte() % 8 > 0 && !known.is_empty() {
            known[pick % known.len()]
        } else {
            pick % (memory.0[device].len() / BLOCK)
        };
        let resealed = byte() % 4 > 0;
        let edits = 1 + byte() % 8;
        if byte() % 16 == 0 && !known.is_empty() {
            // A block from elsewhere, or from the other device.
            let other = usize::from(byte()) % memory.0.len();
            let from = usize::from(byte()) % (memory.0[other].len() / BLOCK);
            let copied = memory.0[other][from * BLOCK..(from + 1) * BLOCK].to_vec();
            memory.0[device][at * BLOCK..(at + 1) * BLOCK].copy_from_slice(&copied);
        }
        let block = &mut memory.0[device][at * BLOCK..(at + 1) * BLOCK];
        for _ in 0..edits {
            // Fields are at the start, entries behind them.
            let place = if byte() % 2 == 0 {
                usize::from(byte()) % 128
            } else {
                usize::from(byte()) << 8 | usize::from(byte())
            };
            let value = byte();
            block[place % BLOCK] =
                [value, 0, 0xff, value & 7, block[place % BLOCK] ^ 1 << (value % 8)][usize::from(byte()) % 5];
        }
        if resealed {
            reseal(block);
        }
    }
    let inspection = Engine::inspect(config.clone(), &mut memory.clone(), true, &[]);
    assert!(inspection.is_ok(), "a look at a damaged volume is no configuration error");
    if byte() % 4 == 0 {
        let _ = Engine::repair(config.clone(), &mut memory.clone(), Trust::Nobody, &[]);
    }
    let Some(mut used) = Used::open(config, memory) else { return };
    used.engine.check_invariants();
    let size = used.engine.volume_size();
    for n in 0..4u64 {
        let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][usize::from(byte()) % 4];
        let offset = Bytes(u64::from(byte()) * 4096 % (size.0 - 4096));
        used.request(
            op,
            offset,
            if op == Op::Flush { Bytes::ZERO } else { Bytes(4096 * (1 + n % 2)).min(size - offset) },
        );
    }
    used.engine.check_invariants();
}

peryton_fuzz::target!(check);
