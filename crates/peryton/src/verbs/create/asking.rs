//! Questions on a terminal, each with a default.

use std::io::{BufRead, Write};

use crate::failure::Failure;

/// How often a question is asked.
const MOST_TRIES: u32 = 10;
/// The longest answer.
const LONGEST: u64 = 4096;

/// Someone to ask, or nobody: then each question has its default as its answer.
pub struct Asking<'a>(Option<(&'a mut dyn BufRead, &'a mut dyn Write)>);

impl<'a> Asking<'a> {
    pub fn of(input: &'a mut dyn BufRead, out: &'a mut dyn Write) -> Asking<'a> {
        Asking(Some((input, out)))
    }

    pub fn nobody() -> Asking<'a> {
        Asking(None)
    }

    /// Whether there is someone to ask.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Asks until `read` understands the answer; an empty one is the default.
    pub fn answer<T>(
        &mut self,
        question: &str,
        default: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let Some((input, out)) = &mut self.0 else { return read(default).map_err(Failure::bad_input) };
        let failed = |error: std::io::Error| Failure::failed(format!("the terminal: {error}"));
        write!(out, "{question}\n[{default}] ").and_then(|()| out.flush()).map_err(failed)?;
        for _ in 0..MOST_TRIES {
            let mut line = String::new();
            let length = std::io::Read::take(&mut **input, LONGEST).read_line(&mut line).map_err(failed)?;
            if length == 0 {
                return Err(Failure::bad_input(
                    "no answer: nothing was written; give options in place of answers, or --yes",
                ));
            }
            let text = line.trim();
            match read(if text.is_empty() { default } else { text }) {
                Ok(value) => return Ok(value),
                Err(problem) => write!(out, "  {problem}\n[{default}] ").and_then(|()| out.flush()).map_err(failed)?,
            }
        }
        Err(Failure::bad_input(format!("'{question}' was not answered in {MOST_TRIES} tries: nothing was written")))
    }
}
