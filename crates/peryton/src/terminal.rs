//! What is written to standard error besides errors: progress and remarks. `--quiet` leaves them out.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressDrawTarget};

static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves progress and remarks out from now on.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// A progress bar for so much work (0 if that is not known yet). It is shown on a terminal only.
pub fn bar(length: u64) -> ProgressBar {
    quiet(ProgressBar::new(length))
}

/// A spinner for work whose amount is not known.
pub fn spinner() -> ProgressBar {
    quiet(ProgressBar::new_spinner())
}

fn quiet(bar: ProgressBar) -> ProgressBar {
    if QUIET.load(Relaxed) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

/// Writes a remark: one line that is no error.
pub fn remark(text: &str) {
    if !QUIET.load(Relaxed) {
        eprintln!("peryton: {text}");
    }
}
