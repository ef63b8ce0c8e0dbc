//! A recording as it was read: the requests that the drive's last counts cover, in the order of their arrival.

use std::path::{Path, PathBuf};

use peryton_recording::{Content, DeviceFigures, Figures, Files, Flags, Head, Row, Scan, SettingsChange};
use peryton_sim::OpenedState;
use peryton_units::Nanos;
use serde_json::Value;

use crate::failure::Failure;

/// The most requests of a recording that are read, the last ones: they are in memory at a time.
const MOST_ROWS: usize = 50_000_000;

/// The most counts that are kept while half of the requests is looked for; then every second one goes.
const MOST_COUNTS: usize = 64;

/// The drive's counts after some of the requests.
#[derive(Debug)]
struct Counts {
    rows: usize,
    figures: Figures,
}

/// A recording.
#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    pub head: Head,
    /// The requests that had been answered at the last counts, in the order of their arrival.
    pub rows: Vec<Row>,
    /// What the drive had counted in the end; without a state of the start, from the end of the warm-up on.
    pub figures: Figures,
    /// When those counts begin.
    pub since: Nanos,
    /// Replies until then. The twin of a recording without a state of the start is warmed up with the first half of the requests.
    pub warm_up: u64,
    /// How many files it is.
    pub files: usize,
    /// Changes of settings before that.
    pub changes: Vec<SettingsChange>,
    /// What the opening read: device, place and content.
    state: Vec<peryton_recording::StateRead>,
    /// Requests after the last counts.
    pub uncounted: usize,
    pub dropped: u64,
    pub damaged_bytes: u64,
}

impl Recording {
    /// Reads it, up to the last whole chunk.
    pub fn read(path: &Path) -> Result<Recording, Failure> {
        Recording::read_last(path, MOST_ROWS)
    }

    /// Reads about so many requests of its end.
    fn read_last(path: &Path, most: usize) -> Result<Recording, Failure> {
        let bad = |problem: &str| Failure::bad_input(format!("{}: {problem}", path.display()));
        let failed = |error: std::io::Error| bad(&format!("{error}: give a recording of peryton serve --record"));
        let files = Files::open(path).map_err(failed)?;
        let count = files.count();
        let mut scan = Scan::new(files);
        let (mut halves, mut left_out) = (Halves::new(), 0);
        let (mut head, mut figures, mut changes, mut state) = (None, None, Vec::new(), Vec::new());
        let (mut rows, mut counted, mut dropped, mut newer) = (Vec::new(), 0_usize, 0, None);
        let mut pending = Vec::new();
        while let Some(chunk) = scan.next_chunk().map_err(failed)? {
            dropped = dropped.max(chunk.dropped);
            newer = newer.or(chunk.other_version());
            match chunk.content() {
                Content::Head(found) => head = head.or(Some(*found)),
                Content::State(reads) => state.extend(reads),
                Content::Requests(more) => {
                    rows.extend(more);
                    if rows.len() > most
                        && let Some(head) = &mut head
                    {
                        let oldest = rows.len() / 4;
                        rows.drain(..oldest);
                        left_out += oldest;
                        counted = counted.saturating_sub(oldest);
                        halves.forget(oldest);
                        head.no_state = Some(format!(
                            "its first {left_out} requests are left out, because more are not simulated at once"
                        ));
                    }
                }
                Content::Settings(change) => pending.push(change),
                Content::Figures(found) => {
                    counted = rows.len();
                    if head.as_ref().is_some_and(|head: &Head| head.no_state.is_some()) {
                        halves.note(counted, &found);
                    }
                    figures = Some(*found);
                    changes.append(&mut pending);
                }
                Content::End(_) | Content::Unknown => {}
            }
        }
        let Some(head) = head else {
            return Err(bad(&newer.map_or_else(
                || "not a recording: peryton serve --record writes them".to_owned(),
                |version| {
                    format!("a recording of version {version}, which this Peryton does not read: use the newer one")
                },
            )));
        };
        let figures = figures.filter(|_| counted > 0).ok_or_else(|| {
            bad("has no request that the counters of the drive include: the drive records its counters every five seconds and at the stop")
        })?;
        let uncounted = rows.len() - counted;
        rows.truncate(counted);
        let damaged_bytes = scan.damaged_bytes();
        let mut recording = Recording {
            path: path.to_owned(),
            head,
            rows,
            figures,
            since: Nanos::ZERO,
            warm_up: 0,
            files: count,
            changes,
            state,
            uncounted,
            dropped,
            damaged_bytes,
        };
        if let Some(half) = halves.half_of(counted) {
            recording.count_from(&half);
        }
        recording.rows.sort_by_key(|row: &Row| row.at);
        if recording.head.file > 0 || left_out > 0 {
            recording.begin_with_the_first();
        }
        Ok(recording)
    }

    /// Leaves out of the counts what the drive had counted by then, while the twin was still empty.
    fn count_from(&mut self, half: &Counts) {
        let before = &half.figures;
        subtract(&mut self.figures.stats, &before.stats);
        let devices = self.figures.devices.iter().zip(&before.devices);
        self.figures.devices = devices
            .map(|(all, before)| DeviceFigures {
                reads: all.reads.since(&before.reads),
                writes: all.writes.since(&before.writes),
                flushes: all.flushes.since(&before.flushes),
            })
            .collect();
        self.since = before.at;
        // A request that was to be durable is followed by a flush.
        let rows = &self.rows[..half.rows];
        let flushes = rows.iter().filter(|row| row.flags.has(Flags::DURABLE)).count();
        self.warm_up = (rows.len() + flushes) as u64;
    }

    /// Where the first requests are gone, time begins with the first one that is there.
    fn begin_with_the_first(&mut self) {
        let Some(first) = self.rows.first().map(|row| row.at) else { return };
        self.rows.iter_mut().for_each(|row| row.at = row.at.saturating_sub(first));
        self.changes.iter_mut().for_each(|change| change.at = change.at.saturating_sub(first));
        self.figures.at = self.figures.at.saturating_sub(first);
        self.since = self.since.saturating_sub(first);
    }

    /// How long the counts take.
    pub fn counted_for(&self) -> Nanos {
        self.figures.at.saturating_sub(self.since)
    }

    /// Whether the state at the start is part of it.
    pub fn has_state(&self) -> bool {
        self.head.no_state.is_none() && !self.state.is_empty()
    }

    /// The state at the start.
    pub fn opened_state(&self) -> Option<OpenedState> {
        if !self.has_state() {
            return None;
        }
        let mut state = OpenedState::new(self.head.devices.iter().map(|device| device.size).collect());
        for read in &self.state {
            state.add(read.device, read.at, &read.bytes);
        }
        Some(state)
    }
}

/// Counts at equal distances.
#[derive(Debug)]
struct Halves {
    all: Vec<Counts>,
    /// Of so many counts one is kept.
    one_in: u64,
    seen: u64,
}

impl Halves {
    fn new() -> Halves {
        Halves { all: Vec::new(), one_in: 1, seen: 0 }
    }

    fn note(&mut self, rows: usize, figures: &Figures) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.one_in) {
            return;
        }
        self.all.push(Counts { rows, figures: figures.clone() });
        if self.all.len() == MOST_COUNTS {
            self.one_in *= 2;
            let mut is_kept = true;
            self.all.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
    }

    /// The oldest requests are left out.
    fn forget(&mut self, rows: usize) {
        self.all.iter_mut().for_each(|counts| counts.rows = counts.rows.saturating_sub(rows));
        self.all.retain(|counts| counts.rows > 0);
    }

    /// The counts next to half of so many requests.
    fn half_of(self, rows: usize) -> Option<Counts> {
        let far = |counts: &Counts| (counts.rows * 2).abs_diff(rows);
        self.all.into_iter().filter(|counts| counts.rows < rows).min_by_key(far)
    }
}

/// Subtracts counts from the later ones of the same names.
fn subtract(from: &mut Value, before: &Value) {
    match (from, before) {
        (Value::Object(all), Value::Object(before)) => {
            all.iter_mut().for_each(|(key, value)| {
                if let Some(before) = before.get(key) {
                    subtract(value, before);
                }
            });
        }
        (Value::Array(all), Value::Array(before)) => {
            all.iter_mut().zip(before).for_each(|(value, before)| subtract(value, before));
        }
        (from @ Value::Number(_), Value::Number(before)) => {
            let whole = from.as_u64().zip(before.as_u64()).map(|(from, before)| from.saturating_sub(before).into());
            let difference = || Some((from.as_f64()? - before.as_f64()?).into());
            if let Some(difference) = whole.or_else(difference) {
                *from = difference;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use peryton_recording::{Rows, chunk};
    use peryton_units::{Bytes, Op};
    use serde_json::json;

    use super::*;

    /// A recording of so many chunks of a hundred requests, one request a millisecond; the drive counts after each.
    fn written(path: &Path, chunks: u64, no_state: Option<String>) {
        let head = Head { name: "v".to_owned(), no_state, ..Head::default() };
        let mut file = chunk(chunk::HEAD, 0, 0, &serde_json::to_vec(&head).unwrap());
        for number in 0..chunks {
            let (mut rows, mut device) = (Rows::default(), DeviceFigures::default());
            for index in 0..100 {
                let at = Nanos::from_ms(number * 100 + index);
                let (op, flags) = (Op::Read, Flags::DURABLE.when(index == 7));
                rows.push(&Row { at, op, flags, offset: Bytes(0), len: Bytes(512), latency: Nanos(1) });
            }
            file.extend(chunk(chunk::REQUESTS, 0, 0, &rows.take()));
            (0..(number + 1) * 10).for_each(|us| device.reads.record(Nanos::from_us(us)));
            let stats =
                json!({ "hits": number + 1, "reads": [10 * (number + 1), 7], "share": 0.5 * (number + 1) as f64 });
            let at = Nanos::from_ms((number + 1) * 100);
            let figures = Figures { at, stats, devices: vec![device], dirty: Bytes(0) };
            file.extend(chunk(chunk::FIGURES, 0, 0, &serde_json::to_vec(&figures).unwrap()));
        }
        fs::write(path, file).unwrap();
    }

    #[test]
    fn without_a_state_the_first_half_is_a_warm_up_and_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        written(&path, 10, None);
        let all = Recording::read(&path).unwrap();
        assert_eq!(
            (all.rows.len(), all.warm_up, all.since, all.figures.stats["hits"].as_u64()),
            (1000, 0, Nanos::ZERO, Some(10))
        );
        written(&path, 10, Some("a test".to_owned()));
        let half = Recording::read(&path).unwrap();
        // A request of each hundred is followed by a flush.
        assert_eq!((half.rows.len(), half.warm_up, half.since), (1000, 505, Nanos::from_ms(500)));
        assert_eq!(half.counted_for(), Nanos::from_ms(500));
        assert_eq!(half.figures.stats, json!({ "hits": 5, "reads": [50, 0], "share": 2.5 }));
        assert_eq!(half.figures.devices[0].reads.count, 50);
        // Of many counts some are kept, and one of them is near the middle.
        written(&path, 500, Some("a test".to_owned()));
        let many = Recording::read(&path).unwrap();
        let middle = many.warm_up as f64 / 1.01 / 50_000.0;
        assert!((middle - 0.5).abs() < 0.03, "{middle}");
    }

    #[test]
    fn of_too_many_requests_the_last_ones_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        written(&path, 100, None);
        let last = Recording::read_last(&path, 3000).unwrap();
        assert!(last.rows.len() <= 3000 && last.rows.len() > 2000, "{}", last.rows.len());
        assert_eq!((last.rows[0].at, last.uncounted), (Nanos::ZERO, 0));
        let span = Nanos::from_ms(last.rows.len() as u64);
        assert_eq!(last.figures.at, span, "the times begin with the first request that is left");
        assert!(last.warm_up > last.rows.len() as u64 / 4 && last.warm_up < last.rows.len() as u64 * 3 / 4);
        assert!(!last.has_state() && last.head.no_state.unwrap().contains("left out"));
    }
}
