//! What became of a trace on its way: what was skipped, left out, moved in time or cut.

use std::{collections::BTreeMap, fmt};

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{OBJECT_UNIT, VolumeNames, decode::STEP};

/// The bad lines or records that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Number of bad lines or records.
    pub count: u64,
    /// The messages of the first few.
    pub first: Vec<String>,
}

/// What a reader has read so far, where it differs from what stands in the trace. Complete when the trace is read to its end.
///
/// ```
/// use peryton_trace::{OpenOptions, Source, read};
///
/// let text = "time_us,op,offset,length\n9,W,0,4096\n0,R,0,4096\n";
/// let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
/// trace.next_batch(&mut Vec::new())?;
/// let account = trace.account();
/// assert_eq!(account.moved, 1);
/// assert_eq!(account.remarks()[0].message, "1 of 2 requests stood after a later one, and was moved to its time");
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that were read to put these in order: more of them, if the trace was not taken to its end.
    pub read: u64,
    /// Bad lines and records, which were skipped.
    pub skipped: Skipped,
    /// Good lines and records that are no requests of the workload, by the reason why they were left out.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Number of requests that stood after a later one, and were moved to their place in time.
    pub moved: u64,
    /// Number of requests for objects that were cut at [`OBJECT_UNIT`].
    pub cut: u64,
    /// The bytes of these that were cut off.
    pub cut_bytes: Bytes,
    /// Number of requests with the time of the one before, if all times are whole seconds.
    pub together: u64,
    /// Number of requests that were spread over their second.
    pub spread: u64,
    /// Number of requests without a time.
    pub untimed: u64,
    /// The arrival of the first request on the trace's own clock.
    #[serde(rename = "start_ns")]
    pub start: Nanos,
    /// The names of the volumes.
    #[serde(skip)]
    pub names: VolumeNames,
}

/// The share of requests, in percent, that must come together before whole seconds are worth a remark.
const TOGETHER_PERCENT: u64 = 50;

impl Account {
    /// Whether the trace has whole seconds only, and most of its requests come at the time of another.
    pub fn is_of_whole_seconds(&self) -> bool {
        self.spread == 0 && self.requests > 1 && self.together * 100 >= self.requests * TOGETHER_PERCENT
    }

    /// What a person should know of this; nothing if the trace was read as it stands.
    pub fn remarks(&self) -> Vec<Remark> {
        let mut remarks = Vec::new();
        let mut remark = |code, message: String, remedy: &'static str| remarks.push(Remark { code, message, remedy });
        let Account { requests, read, skipped, moved, cut, .. } = self;
        if skipped.count > 0 {
            let first = skipped.first.first().map_or(String::new(), |first| format!(", the first: {first}"));
            let message = format!("skipped {} bad lines or records{first}", skipped.count);
            remark("trace_skipped", message, "leave out --skip-bad to stop at the first");
        }
        if !self.left_out.is_empty() {
            let each: Vec<String> = self.left_out.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let message = format!("left out of the trace as no requests of the workload: {}", each.join(", "));
            remark("trace_left_out", message, "look at docs/record.md if they are");
        }
        if *moved > 0 {
            let was = if *moved == 1 { "was moved to its time" } else { "were moved to their time" };
            let message = format!("{moved} of {read} requests stood after a later one, and {was}");
            remark("trace_moved", message, "peryton trace convert writes the trace in order");
        }
        if *cut > 0 {
            let message = format!(
                "{cut} of {requests} requests are for objects larger than {OBJECT_UNIT} and were cut to it, by {} in all",
                self.cut_bytes
            );
            remark("trace_cut", message, "a drive has blocks; read a trace of objects as objects to keep their sizes");
        }
        if self.is_of_whole_seconds() {
            let message = format!(
                "all times are whole seconds, and {:.1} % of the requests come at the time of another, in bursts that the clock \
                 made",
                self.together as f64 * 100.0 / *requests as f64
            );
            remark("trace_whole_seconds", message, "--spread spreads them over their second");
        }
        if self.untimed > 0 {
            let message =
                format!("the trace has no times: its requests come {STEP} after each other, a million a second");
            remark("trace_untimed", message, "--replay qd=N, or --speed X, gives the pace");
        }
        if self.spread > 0 {
            let message = format!("{} requests with times in whole seconds were spread over their second", self.spread);
            remark("trace_spread", message, "leave out --spread for the times of the trace");
        }
        remarks
    }
}

/// Something that became of a trace on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// A stable code for scripts.
    pub code: &'static str,
    /// What it is, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.remedy)
    }
}
