//! The text of the traces of the ARC paper (Megiddo and Modha, FAST 2003): `block blocks other number`, in blocks of 512 bytes.
//! The authors say that the third column is to be ignored; the fourth counts the requests from 0. There are no times and no kinds: each request is a
//! read, a fixed time after the one before.

use std::borrow::Cow;

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, lines};
use crate::{
    decode::{LineFormat, Sink},
    field::{whole, words},
    problem::{Decoded, Or},
};

pub(crate) struct Lis;

struct Line {
    block: u64,
    blocks: u64,
    number: u64,
}

fn read(line: &[u8]) -> Result<Line, &'static str> {
    let mut words = words(line);
    let mut next = |what| whole(words.next().unwrap_or(&[])).ok_or(what);
    let block = next("the block is not a whole number")?;
    let blocks = next("the number of blocks is not a whole number")?;
    next("the third column is not a whole number")?;
    let number = next("the number of the request is not a whole number")?;
    match words.next() {
        Some(_) => Err("more than four columns"),
        None => Ok(Line { block, blocks, number }),
    }
}

/// Four columns of numbers are many things, so the requests must be numbered one by one.
pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    let mut expected = None;
    let mut lines = 0;
    for line in head.lines().filter(|line| !line.trim_ascii().is_empty()) {
        let Ok(Line { number, blocks: 1.., .. }) = read(line) else { return 0 };
        if expected.is_some_and(|expected| expected != number) {
            return 0;
        }
        expected = number.checked_add(1);
        lines += 1;
    }
    if lines > 1 { 95 } else { 0 }
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, Lis, options)
}

impl LineFormat for Lis {
    fn expected(&self) -> Cow<'static, str> {
        "block blocks other number, in blocks of 512 bytes (the ARC paper's .lis)".into()
    }

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if line.is_empty() {
            return Ok(());
        }
        let Line { block, blocks, number } = read(line)?;
        let at = sink.time_of(number).or_problem("the number of the request is out of range")?;
        sink.push_sectors(at, 0, Op::Read, block, blocks)
    }
}
