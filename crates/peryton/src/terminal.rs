//! What is written to standard error besides errors: progress and remarks, which `--quiet` leaves out, and reports of a supervisor.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use indicatif::{ProgressBar, ProgressDrawTarget};

static QUIET: AtomicBool = AtomicBool::new(false);
static WIDE: AtomicBool = AtomicBool::new(false);

/// Leaves progress and remarks out from now on.
pub fn be_quiet() {
    QUIET.store(true, Relaxed);
}

/// Lets tables have all their columns from now on.
pub fn be_wide() {
    WIDE.store(true, Relaxed);
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

/// The columns of a page of text that is printed to no terminal.
const COLUMNS: usize = 80;

/// The columns that printed text may have: those of the terminal, or of a page.
pub fn columns() -> usize {
    own_columns().unwrap_or(COLUMNS)
}

/// The columns that a table may have: those of the terminal. `None`: all that it has, for nothing but a terminal breaks lines.
pub fn table_columns() -> Option<usize> {
    if WIDE.load(Relaxed) { None } else { own_columns() }
}

/// The columns of the terminal; `None` if what is printed goes elsewhere.
fn own_columns() -> Option<usize> {
    use std::io::IsTerminal;
    let terminal = std::io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok()).flatten();
    terminal.map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Lets what the drive warns of while it works on a volume be remarks.
pub fn remark_warnings() {
    if !QUIET.load(Relaxed) {
        let lines = tracing_subscriber::fmt().without_time().with_level(false).with_target(false);
        lines
            .with_ansi(false)
            .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
            .with_writer(std::io::stderr)
            .init();
    }
}

/// Writes a remark: one line that is no error.
pub fn remark(text: &str) {
    if !QUIET.load(Relaxed) {
        report(text);
    }
}

/// Writes a line to standard error. If that is closed or full, there is no one left to report it to.
pub fn report(text: impl Display) {
    let _ = writeln!(io::stderr(), "peryton: {text}");
}
