//! The lines of the control protocol: one JSON object each way. `docs/control.md` describes them.

use std::{
    io::{self, BufRead},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{disks::fault::Fault, server::Stoppable};

/// The longest line of a request, in bytes.
pub const LONGEST_LINE: usize = 16 << 10;

/// The requests of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Each variant has braces: serde refuses unknown keys beside a tag only in those.
#[serde(rename_all = "snake_case", tag = "verb", deny_unknown_fields)]
pub enum Ask {
    /// Return the full state of the volume.
    Status {},
    /// Return which parts of the volume are used how often, and all response times.
    Activity {},
    /// Change settings, under the keys of the design file.
    Set {
        /// Settings in the form `key=value`.
        #[serde(default)]
        settings: Vec<String>,
        /// Keys that return to the value in the design.
        #[serde(default)]
        unset: Vec<String>,
    },
    /// Return the events so far.
    Events {
        /// Only events with a number above this.
        #[serde(default)]
        after: u64,
        /// Whether to continue with events as they happen.
        #[serde(default)]
        follow: bool,
    },
    /// Let a device fail or lag, as a drill.
    Fault {
        /// The fault.
        fault: Fault,
    },
    /// End all faults.
    Heal {},
    /// Return the map: where each extent is, and how it was used.
    Map {},
    /// Count what wears the devices from now on, besides what is counted already.
    Mark {},
    /// Hint that the host has dropped a range from its own cache, and will read it from the volume next time.
    Evict {
        /// Where the range begins.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// Write back everything that is dirty now, without delay.
    Writeback {},
    /// Copy a device to another one, which then takes its place.
    Replace {
        /// The name of the device.
        device: String,
        /// The new one: a file or block device.
        path: PathBuf,
        /// The most bytes to copy in a second; without a bound if absent.
        #[serde(default)]
        bytes_per_s: Option<u64>,
        /// Whether what cannot be read may read as zeros.
        #[serde(default)]
        accept_loss: bool,
        /// Whether to overwrite what the new one holds.
        #[serde(default)]
        force: bool,
        /// Whether to set its path in the design.
        #[serde(default)]
        update_design: bool,
    },
    /// Take a device back that was gone, with what it holds.
    ReAdd {
        /// The name of the device.
        device: String,
        /// Where it is, from the root; `None`: where it was.
        #[serde(default)]
        path: Option<PathBuf>,
        /// Whether to set its path in the design.
        #[serde(default)]
        update_design: bool,
    },
    /// Empty a device, which then leaves the volume.
    Remove {
        /// The name of the device.
        device: String,
        /// The most bytes that are written back in a second; no bound if absent.
        #[serde(default)]
        bytes_per_s: Option<u64>,
    },
    /// Let a device have more of data, after it was made larger, or less: then what is beyond is written back and given up.
    Resize {
        /// The name of the device.
        device: String,
        /// How much data it is to have; as much as it has room for if absent.
        #[serde(default)]
        size: Option<u64>,
        /// The most bytes that are written back in a second; without a bound if absent.
        #[serde(default)]
        bytes_per_s: Option<u64>,
    },
    /// Give up the change of a device that is under way.
    StopChange {
        /// Which one.
        kind: Stoppable,
    },
    /// Stop serving and close the volume.
    Stop {},
}

/// Why a line is not a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Misunderstood {
    /// The line is longer than [`LONGEST_LINE`]; the client is disconnected.
    TooLong,
    /// The line is not a request; the next one may be.
    NotARequest(String),
}

/// Reads a line; `None` at the end of the stream. Keeps at most [`LONGEST_LINE`] bytes.
///
/// # Errors
/// Reading from the stream fails.
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<Result<Ask, Misunderstood>>> {
    let mut line = Vec::new();
    loop {
        let some = match from.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if some.is_empty() {
            // A line without its end may be incomplete, so it is not carried out.
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

/// The answer to a request that succeeded, with `more` added.
pub(crate) fn well(more: &Value) -> Value {
    let mut answer = json!({ "ok": true });
    if let (Some(answer), Some(more)) = (answer.as_object_mut(), more.as_object()) {
        answer.extend(more.clone());
    }
    answer
}

/// The answer to a request that failed.
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
    fn documented_requests_are_understood() {
        assert_eq!(ask("{\"verb\":\"status\"}\n"), Ok(Ask::Status {}));
        assert_eq!(ask("{\"verb\":\"activity\"}\n"), Ok(Ask::Activity {}));
        let set = Ask::Set { settings: vec!["placement.max_moves=4".into()], unset: vec![] };
        assert_eq!(ask("{\"verb\":\"set\",\"settings\":[\"placement.max_moves=4\"]}\n"), Ok(set));
        let fault =
            "{\"verb\":\"fault\",\"fault\":{\"device\":0,\"only\":\"writes\",\"effect\":\"fail\",\"times\":3}}\n";
        assert!(matches!(ask(fault), Ok(Ask::Fault { fault }) if fault.times == Some(3)), "{:?}", ask(fault));
        let lag = "{\"verb\":\"fault\",\"fault\":{\"device\":1,\"effect\":\"lag\",\"lag_us\":1000}}\n";
        assert!(matches!(ask(lag), Ok(Ask::Fault { .. })), "{:?}", ask(lag));
    }

    #[test]
    fn no_verb_takes_a_key_that_it_has_not() {
        for verb in ["status", "heal", "stop", "writeback", "events"] {
            let asked = ask(&format!("{{\"verb\":\"{verb}\",\"colour\":1}}\n"));
            assert!(matches!(&asked, Err(Misunderstood::NotARequest(why)) if why.contains("colour")), "{asked:?}");
        }
    }

    #[test]
    fn an_endless_line_is_not_kept() {
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
        /// Garbage is refused with one line; the next request is still understood.
        #[test]
        fn garbage_does_no_harm(line in prop::collection::vec(any::<u8>().prop_filter("a line", |b| *b != b'\n'), 0..600)) {
            let mut bytes = line;
            bytes.extend_from_slice(b"\n{\"verb\":\"heal\"}\n");
            let mut from = &bytes[..];
            let first = read_line(&mut from).unwrap().unwrap();
            if let Err(Misunderstood::NotARequest(why)) = &first {
                prop_assert!(!why.contains('\n'));
            }
            prop_assert_eq!(read_line(&mut from).unwrap(), Some(Ok(Ask::Heal {})));
        }

        /// Lines that resemble a request: nested, large, with values of other types.
        #[test]
        fn what_is_nearly_a_request_does_no_harm(
            verb in "status|activity|set|events|fault|heal|clean|stop|x", key in "settings|unset|after|follow|fault|zzz",
            value in prop_oneof!["[0-9]{1,30}", "\\[\"a=b\"\\]", "\"x\"", "\\{\\}", "-1", "1e400", "\\[{50}"],
        ) {
            let line = format!("{{\"verb\":\"{verb}\",\"{key}\":{value}}}\n");
            let _ = ask(&line);
        }
    }
}
