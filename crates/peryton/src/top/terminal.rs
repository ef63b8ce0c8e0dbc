//! The terminal: it is taken over, and given back however the program ends.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, SyncSender, TryRecvError},
    },
    thread,
    time::Duration,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{sample::Sample, screen::draw, view::View};
use crate::{failure::Failure, naming::Served};

/// How long a key waits at most before it is obeyed.
const KEYS: Duration = Duration::from_millis(50);
const FOOTER: &str = "q ends";
const FIRST: &str = "q ends; measuring";

/// The terminal in the state in which it is drawn on. When this is dropped, and in a panic, it is as it was before.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> io::Result<Screen> {
        // This also makes a panic give the terminal back before its message is printed.
        ratatui::try_init().map(Screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure means that the terminal has gone.
        let _ = ratatui::try_restore();
    }
}

/// Draws until a key, a signal, or the end of the server.
pub fn watch(volume: &Served, interval: Duration) -> Result<(), Failure> {
    // The server is asked before the terminal changes, so that a wrong name is said as usual.
    let first = Sample::take(volume)?;
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(Failure::failed)?;
    }
    // At most one sample waits: a terminal that is slow gets fewer.
    let (sender, samples) = mpsc::sync_channel(1);
    let volume = volume.clone();
    thread::Builder::new()
        .name("samples".to_owned())
        .spawn(move || sample(&volume, interval, &sender))
        .map_err(Failure::failed)?;
    let mut screen = Screen::take().map_err(|error| Failure::failed(format!("the terminal: {error}")))?;
    let result = show(&mut screen.0, first, &samples, &ended);
    drop(screen);
    result
}

/// Asks the server again and again, on a thread of its own, because the server may be slow to answer.
fn sample(volume: &Served, interval: Duration, to: &SyncSender<Result<Sample, Failure>>) {
    loop {
        thread::sleep(interval);
        let sample = Sample::take(volume);
        let is_last = sample.is_err();
        if to.send(sample).is_err() || is_last {
            return;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    first: Sample,
    samples: &Receiver<Result<Sample, Failure>>,
    ended: &AtomicBool,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::failed(format!("the terminal: {error}"));
    let mut view = View::between(None, &first, None);
    let (mut last, mut footer, mut changed) = (first, FIRST, true);
    while !ended.load(Ordering::Relaxed) {
        match samples.try_recv() {
            Ok(sample) => {
                let sample = sample?;
                view = View::between(Some(&last), &sample, Some(&view));
                (last, footer, changed) = (sample, FOOTER, true);
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                return Err(Failure::failed("the thread that asks the server has ended"));
            }
        }
        if changed {
            terminal.draw(|frame| draw(frame, &view, footer)).map_err(failed)?;
        }
        changed = false;
        if event::poll(KEYS).map_err(failed)? {
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                        return Ok(());
                    }
                }
                Event::Resize(..) => changed = true,
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::Read as _,
        mem::MaybeUninit,
        os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        process::{Command, Stdio},
    };

    use super::*;

    /// Not a test: the program that the next one runs on a terminal of its own.
    #[test]
    #[ignore = "is run by the test below"]
    fn a_program_that_panics_while_it_draws() {
        let mut screen = Screen::take().expect("a terminal");
        screen.0.draw(|_| panic!("a fault in drawing")).expect("it is not reached");
    }

    fn local_modes(terminal: RawFd) -> u32 {
        let mut settings = MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the structure is a local buffer for the result.
        unsafe {
            assert_eq!(libc::tcgetattr(terminal, settings.as_mut_ptr()), 0);
            settings.assume_init().c_lflag
        }
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        let (mut master, mut slave, null) = (0, 0, std::ptr::null_mut());
        // SAFETY: the numbers are local buffers for the results; the others may be null.
        let (master, slave) = unsafe {
            assert_eq!(libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()), 0);
            (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
        };
        let before = local_modes(slave.as_raw_fd());
        let stdio = || Stdio::from(slave.try_clone().expect("a terminal"));
        let name = "top::terminal::tests::a_program_that_panics_while_it_draws";
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env("RUST_BACKTRACE", "0")
            .stdin(stdio())
            .stdout(stdio())
            .stderr(stdio())
            .spawn()
            .expect("it starts");
        assert!(!child.wait().expect("it ends").success());
        assert_eq!(local_modes(slave.as_raw_fd()), before);
        drop(slave);
        let mut text = Vec::new();
        // Reading ends with an error when the last program has closed the terminal.
        let _ = File::from(master).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let (taken, left) = (text.find("\u{1b}[?1049h"), text.find("\u{1b}[?1049l"));
        let message = text.find("a fault in drawing");
        assert!(taken.is_some() && taken < left && left < message, "{text:?}");
    }
}
