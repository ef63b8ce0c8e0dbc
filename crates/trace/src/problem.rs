//! Why a line or record is not a request.

use std::borrow::Cow;

/// The reason why a line or record is not a request.
pub(crate) struct Problem(pub(crate) Cow<'static, str>);
pub(crate) type Decoded = Result<(), Problem>;

impl From<&'static str> for Problem {
    #[cold]
    fn from(text: &'static str) -> Problem {
        Problem(text.into())
    }
}

/// Converts an `Option` to a `Result`, with a problem for `None`.
pub(crate) trait Or<T> {
    fn or_problem(self, problem: &'static str) -> Result<T, Problem>;
}
impl<T> Or<T> for Option<T> {
    #[inline]
    fn or_problem(self, problem: &'static str) -> Result<T, Problem> {
        match self {
            Some(value) => Ok(value),
            None => Err(problem.into()),
        }
    }
}
