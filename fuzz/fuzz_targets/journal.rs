//! Journals of maps with forged content.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use peryton_fuzz::damage::Damaged;

static DAMAGED: LazyLock<Damaged> = LazyLock::new(|| Damaged::new(&[b"PYjl"]));

fn check(bytes: &[u8]) {
    DAMAGED.check(bytes);
}

peryton_fuzz::target!(check);
