//! The options of a replay.

use std::{fmt, num::NonZeroU32, str::FromStr, sync::Arc};

use peryton_units::Nanos;
use thiserror::Error;

use crate::{AsRecorded, sampling::share::Sampling};

/// The rule by which requests arrive.
///
/// ```
/// use peryton_sim::Replay;
///
/// assert_eq!("qd=32".parse(), Ok(Replay::Depth(32)));
/// assert_eq!(Replay::Timed { speed: 2.0 }.to_string(), "timed, speed 2");
/// let error = "qd=0".parse::<Replay>().unwrap_err();
/// assert!(error.to_string().contains("use timed, sync, or qd=N"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replay {
    /// At the times of the trace (an open loop), compressed by a factor: at speed 2 in half the time.
    Timed {
        /// The factor by which the replay is faster than the recording.
        speed: f64,
    },
    /// Each request arrives when the previous one has been answered, without think time (GreenDM, section 3).
    Sync,
    /// This many requests in flight at all times (a closed loop).
    Depth(u32),
    /// This many requests in flight at most, each of which waits for the reply of one before it, and for some time of thought (a closed
    /// loop with think time).
    Thinking {
        /// The most requests in flight.
        depth: u32,
        /// The time of thought.
        think: Think,
    },
}

/// How long the host thinks between a reply and the request that depends on it.
///
/// ```
/// use peryton_sim::Think;
/// use peryton_units::Nanos;
///
/// assert_eq!("1ms".parse(), Ok(Think::Fixed(Nanos::from_ms(1))));
/// assert_eq!("trace".parse(), Ok(Think::Recorded));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Think {
    /// So long after each reply, as with fio's `thinktime`.
    Fixed(Nanos),
    /// As long as the trace has between the two requests, less the recorded response time where that is known. A drive that answers as
    /// soon as the recorded one, or sooner, gets each request at its time in the trace, and what takes longer delays what depends on it.
    Recorded,
}

impl FromStr for Think {
    type Err = String;
    fn from_str(text: &str) -> Result<Think, String> {
        match text {
            "trace" => Ok(Think::Recorded),
            time => time.parse().map(Think::Fixed).map_err(|error| format!("{error}, or give trace")),
        }
    }
}

impl fmt::Display for Think {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Think::Fixed(time) => time.fmt(f),
            Think::Recorded => f.write_str("trace"),
        }
    }
}

impl Replay {
    /// The same at this speed, if one is given: only a timed replay has one.
    ///
    /// # Errors
    /// The speed is not above 0, or the replay is not timed.
    pub fn at_speed(self, speed: Option<f64>) -> Result<Replay, String> {
        match (self, speed) {
            (replay, None) => Ok(replay),
            (Replay::Timed { .. }, Some(speed)) if speed > 0.0 && speed.is_finite() => Ok(Replay::Timed { speed }),
            (Replay::Timed { .. }, Some(speed)) => Err(format!("--speed {speed}: give a number above 0, such as 2")),
            (_, Some(_)) => Err("--speed: only --replay timed has a speed, leave it out".to_owned()),
        }
    }

    /// The same with this think time, if one is given: only a closed loop has one.
    ///
    /// # Errors
    /// The replay is timed.
    pub fn thinking(self, think: Option<Think>) -> Result<Replay, String> {
        match (self, think) {
            (replay, None) => Ok(replay),
            (Replay::Timed { .. }, Some(_)) => {
                Err("--think-time: only a closed loop has one, give --replay sync or --replay qd=N with it".to_owned())
            }
            (Replay::Sync, Some(think)) => Ok(Replay::Thinking { depth: 1, think }),
            (Replay::Depth(depth) | Replay::Thinking { depth, .. }, Some(think)) => {
                Ok(Replay::Thinking { depth, think })
            }
        }
    }
}

/// The deepest closed loop: each request in flight takes some memory.
const DEEPEST: u32 = 65_536;

/// A text that names no replay mode.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a replay: use timed, sync, or qd=N with N from 1 to 65536, such as qd=32, perhaps with a think time, such as qd=32:think=1ms"
)]
pub struct ParseReplayError(String);

impl FromStr for Replay {
    type Err = ParseReplayError;
    fn from_str(text: &str) -> Result<Replay, ParseReplayError> {
        let depth = |text: &str| text.parse().ok().filter(|depth| (1..=DEEPEST).contains(depth));
        match text.strip_prefix("qd=") {
            Some(number) => match number.split_once(":think=") {
                None => depth(number).map(Replay::Depth),
                Some((number, think)) => {
                    depth(number).zip(think.parse().ok()).map(|(depth, think)| Replay::Thinking { depth, think })
                }
            },
            None if text == "timed" => Some(Replay::Timed { speed: 1.0 }),
            None if text == "sync" => Some(Replay::Sync),
            None => None,
        }
        .ok_or_else(|| ParseReplayError(crate::document::one_line(text)))
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Replay::Timed { speed: 1.0 } => f.write_str("timed"),
            Replay::Timed { speed } => write!(f, "timed, speed {speed}"),
            Replay::Sync => f.write_str("sync"),
            Replay::Depth(depth) => write!(f, "qd={depth}"),
            Replay::Thinking { depth, think } => write!(f, "qd={depth}:think={think}"),
        }
    }
}

/// The handling of requests past the end of the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Stop with an error.
    #[default]
    Strict,
    /// Take its offset modulo the size of the volume.
    Wrap,
    /// Leave the request out.
    Skip,
}

impl Fit {
    /// Each of them by its name in commands and files.
    pub const NAMES: [(&str, Fit); 3] = [("error", Fit::Strict), ("wrap", Fit::Wrap), ("skip", Fit::Skip)];
}

/// The options of a replay.
///
/// ```
/// use peryton_sim::{Options, Replay};
///
/// // At the times of the trace, on an empty drive.
/// assert_eq!(Options::default().replay, Replay::Timed { speed: 1.0 });
/// // 32 requests at all times; the first 10,000 fill the cache and are not measured.
/// let options = Options { replay: "qd=32".parse()?, warm_up_requests: 10_000, ..Options::default() };
/// assert_eq!(options.replay, Replay::Depth(32));
/// # Ok::<(), peryton_sim::ParseReplayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// When requests arrive.
    pub replay: Replay,
    /// How requests past the end of the volume are treated.
    pub fit: Fit,
    /// The volume is new: a tier begins empty, with flash that was never written. Otherwise it is in use: the fast device of a tier is full
    /// before the first request, of data that no request has asked for yet.
    pub new_volume: bool,
    /// Number of warm-up requests. The measured span begins after their replies; all statistics are then set to zero.
    pub warm_up_requests: u64,
    /// The most requests to take from the trace, including the warm-up.
    pub limit: Option<u64>,
    /// Also report what is counted in each interval of this length ([`Report::intervals`](crate::Report::intervals)).
    pub interval: Option<Nanos>,
    /// Also keep what a page draws of the run: its course over time, and which parts of the volume were used and moved
    /// ([`Report::picture`](crate::Report::picture)). It takes a few megabytes, however long the run.
    pub picture: bool,
    /// Also report how precise the figures are ([`Report::precision`](crate::Report::precision)): by equal parts of the measured
    /// requests, and by this many runs with seeds that follow each other.
    pub replications: Option<NonZeroU32>,
    /// Simulate a sample of the trace, on a design that is smaller by as much, and report how far its figures may be from those of
    /// the whole ([`Report::sample`](crate::Report::sample)).
    pub sample: Option<Sampling>,
    /// Begin and end as a recording of a drive in service did. A sample begins empty.
    pub recorded: Option<Arc<AsRecorded>>,
}

impl Default for Options {
    fn default() -> Options {
        let replay = Replay::Timed { speed: 1.0 };
        Options {
            replay,
            fit: Fit::Strict,
            new_volume: false,
            warm_up_requests: 0,
            limit: None,
            interval: None,
            picture: false,
            replications: None,
            sample: None,
            recorded: None,
        }
    }
}
