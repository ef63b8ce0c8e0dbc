//! How the program ends when it does not end well: one line, and an exit code.

use std::{fmt::Display, io, process::ExitCode};

use peryton_sim::{DesignError, MiniatureError, SimError};
use peryton_trace::{SynthError, TraceError};

/// Exit code for bad input: a command line, design, trace or profile.
const BAD_INPUT: u8 = 2;
/// Exit code for everything else.
const FAILED: u8 = 1;

/// Why the program ends.
#[derive(Debug)]
pub struct Failure {
    /// Nothing where there is nothing to say.
    message: Option<String>,
    code: u8,
}

impl Failure {
    /// The user can mend it.
    pub fn bad_input(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: BAD_INPUT }
    }

    /// The machine, or Peryton.
    pub fn failed(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: FAILED }
    }

    /// An early end without a complaint.
    pub fn quiet() -> Failure {
        Failure { message: None, code: 0 }
    }

    /// Writing to `to` failed. A reader that has seen enough (`| head`) is no reason to complain.
    pub fn writing(to: &str, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::quiet();
        }
        Failure::failed(format!("{to}: {error}"))
    }

    /// Says it, and turns it into an exit code.
    pub fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            // Nobody is left to tell if this fails too.
            let _ = io::Write::write_all(&mut io::stderr(), format!("peryton: {}\n", line.trim()).as_bytes());
        }
        ExitCode::from(self.code)
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Failure {
        if error.is_bad_input() { Failure::bad_input(error) } else { Failure::failed(error) }
    }
}

macro_rules! bad_input {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::bad_input(error)
            }
        })*
    };
}

bad_input!(
    DesignError,
    MiniatureError,
    TraceError,
    SynthError,
    peryton_device::ProfileError,
    peryton_plan::greenest::DemandError,
    peryton_plan::lifetime::LifetimeError
);
