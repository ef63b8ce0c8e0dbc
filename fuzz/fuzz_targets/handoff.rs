//! Forged data of a killed server in memory: records with any extent, place and sequence, with correct checksums, or
//! words that differ from the stored ones. It may be refused, but nothing panics, and an opened volume is consistent.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use peryton_engine::{
    Config, Engine, Placement,
    handoff::{Contents, Found, Label, MOST_DEVICES, Record, Writer},
};
use peryton_format::{
    blocks::Masks,
    entry::{MapEntry, Place},
    log::ring::CommitRecord,
};
use peryton_fuzz::{
    damage::Choices,
    volumes::{Left, Memory, Used, VOLUME, configs, used},
};
use peryton_units::{Bytes, Op};

struct Base {
    config: Config,
    memory: Memory,
    label: Label,
}

/// Volumes after a crash, and the identity in their servers' records.
static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    let base = |config: Config| {
        let memory = used(&config, Left::Open)?;
        let (engine, _) = Engine::open(config.clone(), &mut memory.clone()).ok()?;
        let label = engine.label_of_records()?;
        Some(Base { config, memory, label: Label { generation: label.generation - 1, ..label } })
    };
    configs().into_iter().filter_map(base).collect()
});

fn words(label: &Label) -> Vec<u64> {
    let mut block = [0; 4096];
    label.encode(&mut block);
    let mut words: Vec<u64> = block.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.resize(label.contents.words() as usize, 0);
    words
}

/// Any number, usually a small one.
fn number(choices: &mut Choices<'_>) -> u64 {
    let low = u64::from(choices.byte());
    match choices.byte() % 6 {
        0 => u64::MAX - low,
        1 => low << (choices.byte() % 64),
        2 => low * 4096,
        _ => low,
    }
}

fn record(choices: &mut Choices<'_>, contents: Contents, next: &mut u64) -> Record {
    match (choices.byte() % 16, contents) {
        (0, _) => Record::Gone { devices: u32::from(choices.byte() % 4) },
        (1, _) => Record::Suspended { is: choices.byte().is_multiple_of(2) },
        (2, _) => Record::Settled { upto: number(choices) },
        (3, _) => Record::Complete { before: number(choices) },
        (kind, Contents::Map { places, .. }) if kind % 2 == 0 && places > 0 => {
            let place = (choices.index(1 << 16) as u64 % places) as u32;
            Record::Masks { place, masks: Masks::from_word(number(choices) as u32) }
        }
        (_, Contents::Map { extents, .. }) => {
            let place = number(choices).min(u64::from(u32::MAX >> 3)) as u32;
            let flags = choices.byte();
            let entry = MapEntry::new(place.checked_sub(1).map(Place), flags & 1 != 0, flags & 2 != 0);
            Record::Entry { extent: (choices.index(1 << 16) as u64 % extents) as u32, entry }
        }
        (kind, Contents::Log { .. }) => {
            let (a, b, c) = (number(choices) >> 8, number(choices), number(choices));
            let record = match kind % 4 {
                0 => CommitRecord::Void { offset: a, len: b, before: c },
                1 => CommitRecord::Absent { from: b, to: c, next_at: a },
                2 => CommitRecord::Listed { segment: a as u32 >> 8, count: b as u32, opened: b, as_of: c },
                _ => CommitRecord::Left { offset: a, at: b >> 24, len: c >> 40 },
            };
            *next += u64::from(!choices.byte().is_multiple_of(8));
            Record::Log { number: *next, record }
        }
    }
}

fn check(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let base = &BASES[usize::from(choices.byte()) % BASES.len()];
    let mut label = base.label;
    match choices.byte() {
        0 => label.generation = number(&mut choices),
        1 => {
            let (extents, places) = (1 + number(&mut choices) % 5000, number(&mut choices) % 500);
            label.contents = Contents::Map { extents, places };
        }
        2 => label.contents = Contents::Log { records: 1 + number(&mut choices) % 100 },
        3 => label.devices = [number(&mut choices); MOST_DEVICES],
        _ => {}
    }
    let (mut words, mut writer, mut next) = (words(&label), Writer::new(&label), 0);
    for _ in 0..choices.byte() % 32 {
        let record = record(&mut choices, label.contents, &mut next);
        writer.store(record, &mut words);
    }
    for _ in 0..choices.byte() % 4 {
        let at = choices.index(words.len());
        words[at] ^= number(&mut choices);
    }
    if choices.byte().is_multiple_of(16) {
        words.truncate(choices.index(words.len()));
    }
    let decoded = Found::decode(&words, VOLUME);
    if let Ok(found) = &decoded {
        assert!(found.entries.len() as u64 <= found.label.contents.words());
    }
    let mut memory = base.memory.clone();
    memory.left = decoded.ok();
    let Some(mut used) = Used::open(&base.config, memory) else { return };
    used.engine.check_invariants();
    let size = used.engine.volume_size();
    for _ in 0..4 {
        let op = [Op::Read, Op::Write, Op::Discard, Op::Flush][usize::from(choices.byte()) % 4];
        let offset = Bytes(u64::from(choices.byte()) * 4096 % (size.0 - 4096));
        used.request(op, offset, if op == Op::Flush { Bytes::ZERO } else { Bytes(4096) });
    }
    used.engine.check_invariants();
    debug_assert!(!matches!(base.config.placement, Placement::Single { .. }), "it keeps no records");
}

peryton_fuzz::target!(check);
