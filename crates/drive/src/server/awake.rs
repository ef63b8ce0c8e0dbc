//! Limits how long processors take to wake up.
//!
//! A client with one request at a time sleeps until its answer comes, and between two requests the server has nothing
//! to do. Idle processors go to sleep, and waking one takes longer than the request: 50 to 200 µs in a virtual machine,
//! and as much from a deep sleep of a real processor. Linux lets a process limit this time for as long as it keeps
//! `/dev/cpu_dma_latency` open (CPU latency QoS, `Documentation/power/pm_qos_interface.rst`). The limit applies to all
//! processors and costs energy, so it is set only while clients get answers so fast that waking up matters.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use peryton_units::Nanos;

use crate::cpu_latency::CpuLatency;

/// Answers are counted over spans of this length.
const SPAN: Nanos = Nanos::from_ms(10);
/// This many answers in a span, one a millisecond, are fast. Answers that wait for a disk's arm can wait for a
/// processor.
const FAST: u32 = 10;
/// After this many spans with fewer answers, the limit is lifted.
const PATIENCE: u32 = 5;
/// The value that means "no limit" to the kernel.
const NO_LIMIT: i32 = -1;

/// The limit, and whether it is set.
#[derive(Debug)]
pub(super) struct Awake {
    /// The limit in microseconds.
    at_most: i32,
    /// The open device file; `None` if it cannot be opened.
    kernel: Option<File>,
    held: bool,
    /// Answers in the current span.
    answered: u32,
    span_ends: Nanos,
    /// Number of spans in a row with few answers.
    slow: u32,
}

impl Awake {
    pub(super) fn new(setting: CpuLatency, path: &Path) -> Awake {
        let at_most = setting.at_most();
        let open = || OpenOptions::new().write(true).open(path);
        let kernel = at_most.and_then(|_| match open() {
            Ok(file) => Some(file),
            Err(error) => {
                let path = path.display();
                if setting == CpuLatency::Auto {
                    tracing::debug!(%error, "{path}: processors sleep as deep as they like");
                } else {
                    tracing::warn!(%error, "{path}: --cpu-latency has no effect");
                }
                None
            }
        });
        let at_most = at_most.map_or(NO_LIMIT, |at_most| i32::try_from(at_most.as_micros()).unwrap_or(i32::MAX));
        Awake { at_most, kernel, held: false, answered: 0, span_ends: Nanos::ZERO, slow: 0 }
    }

    /// Counts an answer to a client.
    #[inline]
    pub(super) fn answered(&mut self) {
        self.answered += 1;
    }

    /// When the current span ends, while the limit is set.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.held.then_some(self.span_ends)
    }

    #[inline]
    pub(super) fn tick(&mut self, now: Nanos) {
        if now >= self.span_ends && self.kernel.is_some() {
            self.end_span(now);
        }
    }

    fn end_span(&mut self, now: Nanos) {
        // The loop slept for longer than a span, so the count does not tell how fast the answers came.
        let is_one_span = now.saturating_sub(self.span_ends).0 < SPAN.0;
        let fast = is_one_span && self.answered >= FAST;
        (self.answered, self.span_ends) = (0, now.saturating_add(SPAN));
        self.slow = if fast { 0 } else { self.slow + 1 };
        if fast && !self.held {
            self.ask(true);
        } else if self.held && self.slow >= PATIENCE {
            self.ask(false);
        }
    }

    fn ask(&mut self, hold: bool) {
        let Some(kernel) = &mut self.kernel else { return };
        let limit = if hold { self.at_most } else { NO_LIMIT };
        match kernel.write_all(&limit.to_ne_bytes()) {
            Ok(()) => self.held = hold,
            Err(error) => self.give_up(&error),
        }
    }

    #[cold]
    fn give_up(&mut self, error: &io::Error) {
        tracing::warn!(%error, "processors cannot be kept awake");
        // Closing the file lifts the limit.
        (self.kernel, self.held) = (None, false);
    }

    /// The limit in microseconds, and whether it is set now.
    pub(super) fn status(&self) -> Option<(i32, bool)> {
        self.kernel.is_some().then_some((self.at_most, self.held))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;

    /// The values that were written to the kernel, in order.
    fn said(path: &Path) -> Vec<i32> {
        let bytes = fs::read(path).unwrap();
        bytes.chunks(4).map(|word| i32::from_ne_bytes(word.try_into().unwrap())).collect()
    }

    /// Simulates an answer every `every`, for `lasts`; the loop runs at each of them, and at the deadline it asked for.
    fn serve(awake: &mut Awake, now: &mut Nanos, every: Nanos, lasts: Nanos) {
        let end = now.saturating_add(lasts);
        while *now < end {
            let next = now.saturating_add(every);
            while let Some(due) = awake.deadline().filter(|due| *due < next) {
                awake.tick(due);
            }
            *now = next;
            awake.answered();
            awake.tick(*now);
        }
    }

    #[test]
    fn processors_are_kept_awake_while_answers_are_fast_and_no_longer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let setting = CpuLatency::AtMost(Duration::from_micros(3));
        let (mut awake, mut now) = (Awake::new(setting, file.path()), Nanos::ZERO);
        serve(&mut awake, &mut now, Nanos::from_ms(8), Nanos::from_s(1));
        assert_eq!(said(file.path()), Vec::<i32>::new(), "a disk's answers");
        serve(&mut awake, &mut now, Nanos::from_us(100), Nanos::from_s(1));
        assert_eq!(said(file.path()), [3], "a fast device's");
        assert_eq!(awake.status(), Some((3, true)));
        // A pause between two batches.
        serve(&mut awake, &mut now, Nanos::from_ms(20), Nanos::from_ms(20));
        serve(&mut awake, &mut now, Nanos::from_us(100), Nanos::from_s(1));
        assert_eq!(said(file.path()), [3], "it is said once");
        let stopped = now;
        let mut turns = 0;
        while let Some(due) = awake.deadline() {
            now = due;
            awake.tick(now);
            turns += 1;
        }
        assert_eq!(said(file.path()), [3, NO_LIMIT], "nobody asks for anything");
        assert!(now.saturating_sub(stopped) <= Nanos::from_ms(70) && turns < 10, "{now} after {stopped}, {turns}");
        serve(&mut awake, &mut now, Nanos::from_us(100), Nanos::from_s(1));
        assert_eq!(said(file.path()), [3, NO_LIMIT, 3]);
    }

    #[test]
    fn bursts_at_long_intervals_do_not_keep_processors_awake() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut awake = Awake::new(CpuLatency::AtMost(Duration::ZERO), file.path());
        // Twenty answers in a burst, every second.
        for second in 1..20 {
            for _ in 0..20 {
                awake.answered();
            }
            awake.tick(Nanos::from_s(second));
            assert_eq!(awake.deadline(), None);
        }
        assert_eq!(said(file.path()), Vec::<i32>::new());
    }

    #[test]
    fn without_permission_no_limit_is_set() {
        let file = tempfile::tempdir().unwrap();
        for setting in [CpuLatency::Auto, CpuLatency::Off, CpuLatency::AtMost(Duration::ZERO)] {
            let (mut awake, mut now) = (Awake::new(setting, &file.path().join("none")), Nanos::ZERO);
            serve(&mut awake, &mut now, Nanos::from_us(100), Nanos::from_s(1));
            assert_eq!((awake.status(), awake.deadline()), (None, None));
        }
    }
}
