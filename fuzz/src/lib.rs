//! A fuzz target is a function of bytes that panics when it finds an error. `cargo +nightly fuzz run NAME` lets a
//! fuzzer choose the bytes; `cargo run --release --bin NAME -- [CASES [FIRST]]` needs no nightly compiler and draws
//! them from a seed, one case after the other.

pub mod damage;
pub mod volumes;

use std::{
    env, fs, panic,
    path::PathBuf,
    process,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

/// The longest input of a case.
const MAX_BYTES: u64 = 400;

/// Makes a binary of a target: for a fuzzer under cargo-fuzz, otherwise a plain program.
#[macro_export]
macro_rules! target {
    ($check:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| $check(bytes));

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::run($check);
        }
    };
}

/// The bytes of a case.
fn input(case: u64) -> Vec<u8> {
    let mut random = Pcg64Mcg::new(u128::from(case) << 1 | 1);
    let mut bytes = vec![0; (random.next_u64() % MAX_BYTES) as usize];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Runs a million cases, or as many as the command line says, on all processors. If a case fails, its number is printed
/// and the exit status is 1. With a folder, the cases are not run but written there, as a fuzzer's first inputs.
pub fn run(check: fn(&[u8])) {
    let mut arguments = env::args().skip(1);
    let mut number = |usual: u64| {
        arguments.next().map_or(usual, |argument| {
            argument.parse().unwrap_or_else(|_| {
                eprintln!(
                    "{argument}: expected a number of cases, then possibly the first case, then possibly a folder"
                );
                process::exit(2)
            })
        })
    };
    let (cases, first) = (number(1_000_000), number(0));
    if let Some(folder) = arguments.next().map(PathBuf::from) {
        for case in first..first + cases {
            if let Err(error) = fs::write(folder.join(case.to_string()), input(case)) {
                eprintln!("{}: {error}", folder.display());
                process::exit(1);
            }
        }
        return;
    }
    let next = AtomicU64::new(first);
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= first + cases {
                        return;
                    }
                    if panic::catch_unwind(|| check(&input(case))).is_err() {
                        eprintln!("case {case} failed; try it alone with the arguments 1 {case}");
                        process::exit(1);
                    }
                }
            });
        }
    });
    println!("{cases} cases in {:.0} s, nothing found", begin.elapsed().as_secs_f64());
}
