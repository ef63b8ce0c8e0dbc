//! The end of the program after a failure: one line on standard error, and an exit code.

use std::{fmt::Display, io, process::ExitCode};

use peryton_drive::{OfflineError, ServeError, UblkError, control::ControlError};
use peryton_sim::{DesignError, MiniatureError, SimError, SweepError, TableError};
use peryton_trace::{SynthError, TraceError};

use crate::exit_code;

/// The longest time to write the last line.
const LAST_LINE: std::time::Duration = std::time::Duration::from_secs(1);

/// The reason why the program ends.
#[derive(Debug)]
pub struct Failure {
    /// The line to print, if any.
    message: Option<String>,
    code: u8,
}

impl Failure {
    /// A failure that the user can correct.
    pub fn bad_input(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: exit_code::BAD_INPUT }
    }

    /// A failure of the machine or of Peryton.
    pub fn failed(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: exit_code::FAILED }
    }

    /// The volume has no server, and the verb needs one.
    pub fn not_served(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: exit_code::NOT_SERVED }
    }

    /// Data of the volume are lost, so the verb cannot do what it was asked to.
    pub fn lost(message: impl Display) -> Failure {
        Failure { message: Some(message.to_string()), code: exit_code::LOST }
    }

    /// An early end without a message.
    pub fn quiet() -> Failure {
        Failure { message: None, code: 0 }
    }

    /// An end without a message; the exit code is the result.
    pub fn quietly(code: u8) -> Failure {
        Failure { message: None, code }
    }

    /// Writing to `to` failed. If the reader closed the pipe early (`| head`), no message is printed.
    pub fn writing(to: &str, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::quiet();
        }
        Failure::failed(format!("{to}: {error}"))
    }

    /// Prints the message and returns the exit code.
    pub fn report(self) -> ExitCode {
        if let Some(message) = self.message {
            let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let line = format!("peryton: {}\n", line.trim());
            // If printing fails too, there is no one left to report it to, and a pipe without a reader must not block
            // the program.
            let (sender, written) = std::sync::mpsc::channel();
            let write = move || {
                let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
                let _ = sender.send(());
            };
            if std::thread::Builder::new().spawn(write).is_ok() {
                let _ = written.recv_timeout(LAST_LINE);
            }
        }
        ExitCode::from(self.code)
    }
}

impl From<SimError> for Failure {
    fn from(error: SimError) -> Failure {
        if error.is_bad_input() { Failure::bad_input(error) } else { Failure::failed(error) }
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Failure {
        match error {
            TableError::Io { .. } | TableError::Taken { .. } => Failure::failed(error),
            TableError::NotEmpty { .. } | TableError::NotBuilt => Failure::bad_input(format!("--out {error}")),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Failure {
        match error {
            ServeError::System { .. }
            | ServeError::Close(_)
            | ServeError::InDoubt { .. }
            | ServeError::Outage { .. }
            | ServeError::Ublk(UblkError::System { .. }) => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
    }
}

impl From<UblkError> for Failure {
    fn from(error: UblkError) -> Failure {
        match error {
            UblkError::System { .. } => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
    }
}

impl From<OfflineError> for Failure {
    fn from(error: OfflineError) -> Failure {
        match error {
            OfflineError::Lost(_) => Failure::lost(error),
            OfflineError::Failed(_) | OfflineError::System(_) => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Failure {
        match error {
            ControlError::Answer { .. } => Failure::failed(error),
            _ => Failure::bad_input(error),
        }
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

bad_input!(DesignError, MiniatureError, SweepError, TraceError, SynthError, peryton_device::ProfileError);

bad_input!(peryton_plan::energy::DemandError, peryton_plan::lifetime::LifetimeError);
