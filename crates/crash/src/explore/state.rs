//! What tells one state from another, as a number.

use std::{
    collections::hash_map::DefaultHasher,
    fmt::Write as _,
    hash::{Hash, Hasher},
};

use peryton_engine::Command;

use crate::{disk::Payload, drive::Drive, driver::Pending, model::Model};

/// Parts of the engine on which nothing depends that it does later.
const COUNTS: &[&str] = &["stats: Stats {", "tuning: Tuning {"];

/// The number of a state. Ids of commands count up, so they are left out: their places in the engine's table are there.
pub(super) fn of(drive: &Drive, model: &Model, counts: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    counts.hash(&mut hasher);
    let mut text = String::with_capacity(1 << 16);
    write!(text, "{:?}", drive.engine).expect("a string takes everything");
    without_counts(&text, &mut hasher);
    for disk in &drive.disks {
        disk.identify(&mut hasher);
    }
    let told = |pending: &Pending<Payload>| {
        let covers = drive.disks[pending.disk().index()].covered(pending.mark);
        let io = place(&pending.command);
        let mut inner = DefaultHasher::new();
        (without_io(&pending.command), &pending.payload, covers, pending.lost).hash(&mut inner);
        (io, inner.finish())
    };
    let mut under_way: Vec<(usize, u64)> = drive.pending.iter().map(told).collect();
    under_way.sort();
    under_way.hash(&mut hasher);
    for (id, asked) in &drive.requests {
        (id, asked.request.op as u8, &asked.data).hash(&mut hasher);
    }
    let asked: Vec<u32> = drive.requests.values().map(|asked| asked.from).collect();
    model.identify(&asked, drive.oldest_read(), &mut hasher);
    hasher.finish()
}

/// The place of a command in the engine's table.
fn place(command: &Command) -> usize {
    match command {
        Command::Read { io, .. }
        | Command::Write { io, .. }
        | Command::Flush { io, .. }
        | Command::Discard { io, .. }
        | Command::Zero { io, .. } => io.index(),
        _ => unreachable!("done at once"),
    }
}

/// A command in words, without its id.
fn without_io(command: &Command) -> String {
    let text = format!("{command:?}");
    let Some((before, rest)) = text.split_once("IoId(") else { return text };
    before.to_owned() + rest.split_once(')').map_or("", |(_, rest)| rest)
}

/// Hashes a text without those parts.
fn without_counts(text: &str, hasher: &mut impl Hasher) {
    let mut rest = text;
    let next = |rest: &str| COUNTS.iter().filter_map(|part| Some(rest.find(part)? + part.len())).min();
    while let Some(at) = next(rest) {
        rest[..at].hash(hasher);
        let mut depth = 1;
        let end = rest[at..].bytes().position(|byte| {
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            depth == 0
        });
        rest = &rest[at + end.expect("what opens closes")..];
    }
    rest.hash(hasher);
}
