//! All metadata of a device when a volume is opened, changed anywhere.
#![cfg_attr(fuzzing, no_main)]

use std::sync::LazyLock;

use peryton_fuzz::damage::Damaged;

static DAMAGED: LazyLock<Damaged> = LazyLock::new(|| Damaged::new(&[]));

fn check(bytes: &[u8]) {
    DAMAGED.check(bytes);
}

peryton_fuzz::target!(check);
