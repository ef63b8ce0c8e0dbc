//! Errors of the libraries as exceptions, with their one line.

use std::fmt::Display;

use peryton_plan::{
    capacity::PlanError, energy::QuestionError, fleet::FleetPlanError, lifetime::LifetimeError, size::SizeError,
};
use peryton_sim::{DesignError, MiniatureError, SimError, SpaceError, SweepError};
use peryton_trace::{SaveError, SourceError, TraceError};
use pyo3::{
    PyErr, create_exception,
    exceptions::{PyRuntimeError, PyValueError},
};

create_exception!(
    peryton,
    InputError,
    PyValueError,
    "A trace, design, profile or argument is wrong; the line says where, and what to do."
);
create_exception!(peryton, SimulationError, PyRuntimeError, "The machine or Peryton failed.");

/// The user's mistake.
pub(crate) fn input(message: impl Display) -> PyErr {
    InputError::new_err(in_python(&message.to_string()))
}

/// A failure of the machine or of Peryton.
pub(crate) fn failed(message: impl Display) -> PyErr {
    SimulationError::new_err(in_python(&message.to_string()))
}

/// The values of options that messages name as words of a command line.
const VALUES: &[&str] = &["wrap", "skip", "mirror", "raid5", "raid6"];

/// A message with arguments of functions in place of options of the command line: `--warm-up-requests` is
/// `warm_up_requests`, and `--fit wrap` is `fit="wrap"`.
fn in_python(message: &str) -> String {
    let (mut text, mut rest) = (String::new(), message);
    while let Some(at) = rest.find("--") {
        let (before, option) = (&rest[..at], &rest[at + 2..]);
        let end = option.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(option.len());
        let (name, after) = option.split_at(end);
        text += before;
        let starts = before.chars().last().is_none_or(|c| !c.is_alphanumeric()) && name.starts_with(|c: char| c != '-');
        if !starts || name.is_empty() {
            text += "--";
            rest = option;
            continue;
        }
        text += &match name {
            "for" => "run_for".to_owned(),
            name => name.replace('-', "_"),
        };
        rest = after;
        let value = VALUES.iter().find(|value| {
            let after = after.strip_prefix(' ').and_then(|after| after.strip_prefix(**value));
            after.is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
        });
        if let Some(value) = value {
            text += &format!("=\"{value}\"");
            rest = &after[value.len() + 1..];
        }
    }
    text + rest
}

/// Makes exceptions of errors that are the user's mistakes.
pub(crate) trait InPython<T> {
    /// The value, or the exception.
    fn in_python(self) -> Result<T, PyErr>;
}

macro_rules! input_errors {
    ($($Error:ty),*) => {
        $(impl<T> InPython<T> for Result<T, $Error> {
            fn in_python(self) -> Result<T, PyErr> {
                self.map_err(input)
            }
        })*
    };
}

input_errors!(DesignError, MiniatureError, SweepError, TraceError, SourceError, LifetimeError, QuestionError, String);

impl<T> InPython<T> for Result<T, SimError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| if error.is_bad_input() { input(error) } else { failed(error) })
    }
}

impl<T> InPython<T> for Result<T, SpaceError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| if error.is_bad_input() { input(error) } else { failed(error) })
    }
}

impl<T> InPython<T> for Result<T, SizeError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| match error {
            SizeError::Sim(error) if !error.is_bad_input() => failed(error),
            SizeError::NoFastDevice { design, mode } => input(format!(
                "{design}: placement.mode = \"{mode}\" has no fast device whose size could differ: use a design with tiering, \
                 caching or partitioned, or simulate(..., sweep={{\"devices.NAME.size\": [...]}})"
            )),
            error => input(error),
        })
    }
}

impl<T> InPython<T> for Result<T, FleetPlanError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| match error {
            FleetPlanError::Sim(error) if !error.is_bad_input() => failed(error),
            FleetPlanError::Io { .. } | FleetPlanError::Elsewhere(_) => failed(error),
            error => input(error),
        })
    }
}

impl<T> InPython<T> for Result<T, PlanError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| match error {
            PlanError::Sim(error) if !error.is_bad_input() => failed(error),
            PlanError::Io { .. } | PlanError::Differs { .. } | PlanError::NoneRuns { .. } => failed(error),
            error => input(error),
        })
    }
}

impl<T> InPython<T> for Result<T, SaveError> {
    fn in_python(self) -> Result<T, PyErr> {
        self.map_err(|error| match error {
            SaveError::Trace(error) => input(error),
            error @ SaveError::Write { .. } => failed(error),
        })
    }
}
