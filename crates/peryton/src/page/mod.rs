//! Reports as pages: self-contained HTML files whose charts a script draws, which is in the file as well. They ask for nothing from
//! the network, and their policy (`Content-Security-Policy`) lets them run those scripts only. The page of a volume that is being
//! served (`live`) is drawn by the same scripts, and asks its server.

mod calibration;
mod chart;
mod figure;
mod fleet;
mod frame;
mod live;
mod miss_ratios;
mod over_time;
mod planning;
mod ranking;
mod simulation;
mod sizing;
mod tuning;
mod twin;
mod validation;
mod weights;

pub use calibration::{TRUSTED as TRUSTED_DEMERIT, calibration, no_better};
pub use fleet::{beside, bought, corrected, fleet};
pub use live::live;
pub use miss_ratios::miss_ratios;
pub use planning::{Tables, planning};
pub use ranking::ranking;
pub use simulation::{TraceCurve, is_pictured, simulation};
pub use sizing::sizing;
pub use tuning::{Tuning, tuning};
pub use twin::twin;
pub use validation::validation;

/// The command line of this process, quoted for a shell.
pub fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("peryton".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// A word quoted so that a shell reads it as one word.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
