//! The lines of the control protocol: one JSON object each way. `docs/control.md` describes them.

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::disks::fault::Fault;

/// The longest line of a request.
pub const LONGEST_LINE: usize = 16 << 10;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verb", deny_unknown_fields)]
pub enum Ask {
    /// Everything that is known of the volume.
    Status,
    /// Change settings, under the keys of the design file.
    Set {
        /// `key=value` each.
        #[serde(default)]
        settings: Vec<String>,
        /// Keys that go back to what the design says.
        #[serde(default)]
        unset: Vec<String>,
    },
    /// What happened.
    Events {
        /// Only what came after the event with this number.
        #[serde(default)]
        after: u64,
        /// Go on with what happens from now on.
        #[serde(default)]
        follow: bool,
    },
    /// Make a device fail or lag, as a drill.
    Fault {
        /// How.
        fault: Fault,
    },
    /// End all faults.
    Heal,
    /// Stop serving and close the volume.
    Stop,
}

/// A request that cannot be understood.
#[derive(Debug, PartialEq, Eq)]
pub enum Misunderstood {
    /// The line is longer than [`LONGEST_LINE`]: a client that sends that is hung up on.
    TooLong,
    /// The line is not a request; the next one may be.
    NotARequest(String),
}

/// Reads a line; `None` at the end. Never keeps more than [`LONGEST_LINE`] bytes.
///
/// # Errors
/// Those of the stream.
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<Result<Ask, Misunderstood>>> {
    let mut line = Vec::new();
    loop {
        let some = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if some.is_empty() {
            // A line that was cut off is not obeyed.
            return Ok(None);
        }
        let end = some.iter().position(|byte| *byte == b'\n');
        let take = end.unwrap_or(some.len());
        if line.len() + take > LONGEST_LINE {
            return Ok(Some(Err(Misunderstood::TooLong)));
        }
        line.extend_from_slice(&some[..take]);
        from.consume(take + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(Some(parse(&line)));
        }
    }
}

fn parse(line: &[u8]) -> Result<Ask, Misunderstood> {
    serde_json::from_slice(line).map_err(|error| {
        let text = error.to_string();
        let problem = text.split(" at line ").next().unwrap_or_default();
        Misunderstood::NotARequest(format!("{problem}: expected a line such as {{\"verb\":\"status\"}}"))
    })
}

/// The answer that all is well, with more in it.
pub(crate) fn well(more: &Value) -> Value {
    let mut answer = json!({ "ok": true });
    if let (Some(answer), Some(more)) = (answer.as_object_mut(), more.as_object()) {
        answer.extend(more.clone());
    }
    answer
}

/// The answer that it is not.
pub(crate) fn wrong(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(line: &str) -> Result<Ask, Misunderstood> {
        read_line(&mut line.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn what_the_document_says_is_understood() {
        assert_eq!(ask("{\"verb\":\"status\"}\n"), Ok(Ask::Status));
        let set = Ask::Set { settings: vec!["placement.max_moves=4".into()], unset: vec![] };
        assert_eq!(ask("{\"verb\":\"set\",\"settings\":[\"placement.max_moves=4\"]}\n"), Ok(set));
        let fault =
            "{\"verb\":\"fault\",\"fault\":{\"device\":0,\"only\":\"writes\",\"effect\":\"fail\",\"times\":3}}\n";
        assert!(matches!(ask(fault), Ok(Ask::Fault { fault }) if fault.times == Some(3)), "{:?}", ask(fault));
        let lag = "{\"verb\":\"fault\",\"fault\":{\"device\":1,\"effect\":\"lag\",\"lag_us\":1000}}\n";
        assert!(matches!(ask(lag), Ok(Ask::Fault { .. })), "{:?}", ask(lag));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        struct Endless(Vec<u8>);
        impl io::Read for Endless {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                into.fill(b'x');
                Ok(into.len())
            }
        }
        impl BufRead for Endless {
            fn fill_buf(&mut self) -> io::Result<&[u8]> {
                Ok(&self.0)
            }
            fn consume(&mut self, _: usize) {}
        }
        let line = read_line(&mut Endless(vec![b'x'; 100])).unwrap();
        assert_eq!(line, Some(Err(Misunderstood::TooLong)));
    }

    proptest! {
        /// Rubbish is refused in one line; the next request is still understood.
        #[test]
        fn rubbish_does_no_harm(line in prop::collection::vec(any::<u8>().prop_filter("a line", |b| *b != b'\n'), 0..600)) {
            let mut bytes = line;
            bytes.extend_from_slice(b"\n{\"verb\":\"heal\"}\n");
            let mut from = &bytes[..];
            let first = read_line(&mut from).unwrap().unwrap();
            if let Err(Misunderstood::NotARequest(why)) = &first {
                prop_assert!(!why.contains('\n'));
            }
            prop_assert_eq!(read_line(&mut from).unwrap(), Some(Ok(Ask::Heal)));
        }

        /// Whatever is nearly a request: nested, large, of other types.
        #[test]
        fn what_is_nearly_a_request_does_no_harm(
            verb in "status|set|events|fault|heal|stop|x", key in "settings|unset|after|follow|fault|zzz",
            value in prop_oneof!["[0-9]{1,30}", "\\[\"a=b\"\\]", "\"x\"", "\\{\\}", "-1", "1e400", "\\[{50}"],
        ) {
            let line = format!("{{\"verb\":\"{verb}\",\"{key}\":{value}}}\n");
            let _ = ask(&line);
        }
    }
}
