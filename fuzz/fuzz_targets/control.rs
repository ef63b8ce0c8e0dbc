//! Input from a client on the control socket: raw bytes, and lines that are almost valid.
#![cfg_attr(fuzzing, no_main)]

use std::io::BufReader;

use peryton_drive::control::{Misunderstood, read_line};

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\n",
    "\\u0000",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"verb\"",
    "\"status\"",
    "\"set\"",
    "\"events\"",
    "\"stop\"",
    "\"fault\"",
    "\"heal\"",
    "\"settings\"",
    "\"follow\"",
    "\"device\"",
    "{\"verb\":\"status\"}\n",
    "{\"verb\":\"set\",\"settings\":",
    "\"placement.max_moves=4\"",
    "{\"verb\":\"events\",\"since\":",
    "{\"verb\":\"fault\",\"device\":\"ssd\",",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":{\"a\":",
];

fn check(bytes: &[u8]) {
    let mut stream = Vec::new();
    let mut left = bytes.iter().copied();
    let raw = left.next().unwrap_or(0) % 4 == 0;
    let cut = 1 + usize::from(left.next().unwrap_or(0));
    if raw {
        stream.extend(left);
    } else {
        while let Some(byte) = left.next() {
            match byte {
                // Sometimes a line is longer than the limit.
                255 => stream.extend(std::iter::repeat_n(b'x', 20_000)),
                250.. => stream.extend(left.next()),
                byte => stream.extend(PIECES[usize::from(byte) % PIECES.len()].as_bytes()),
            }
        }
    }
    let read = |capacity: usize| {
        let mut from = BufReader::with_capacity(capacity, &stream[..]);
        let mut heard = Vec::new();
        while let Some(line) = read_line(&mut from).expect("bytes in memory can be read") {
            let end = matches!(line, Err(Misunderstood::TooLong));
            heard.push(format!("{line:?}"));
            if end {
                break;
            }
        }
        heard
    };
    assert_eq!(read(1 << 16), read(cut), "what is heard depends on how the stream is cut");
}

peryton_fuzz::target!(check);
