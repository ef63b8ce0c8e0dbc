//! A recording as it was read: the requests that the drive's last counts cover, in the order of their arrival.

use std::path::{Path, PathBuf};

use peryton_recording::{Content, DeviceFigures, Figures, Files, Flags, Head, Row, Scan, SettingsChange};
use peryton_sim::OpenedState;
use peryton_units::Nanos;
use serde_json::Value;

use crate::failure::Failure;

/// The most requests of a recording that are read: they are in memory at a time.
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
        let bad = |problem: &str| Failure::bad_input(format!("{}: {problem}", path.display()));
        let failed = |error: std::io::Error| bad(&format!("{error}: give a recording of peryton serve --record"));
        let files = Files::open(path).map_err(failed)?;
        let count = files.count();
        let mut scan = Scan::new(files);
        let mut halves = Vec::new();
        let (mut head, mut figures, mut changes, mut state) = (None, None, Vec::new(), Vec::new());
        let (mut rows, mut counted, mut dropped, mut newer) = (Vec::new(), 0, 0, None);
        let mut pending = Vec::new();
        while let Some(chunk) = scan.next_chunk().map_err(failed)? {
            dropped = dropped.max(chunk.dropped);
            newer = newer.or(chunk.other_version());
            match chunk.content() {
                Content::Head(found) => head = head.or(Some(*found)),
                Content::State(reads) => state.extend(reads),
                Content::Requests(more) if rows.len() + more.len() > MOST_ROWS => {
                    return Err(bad(&format!("more than {MOST_ROWS} requests: record with a smaller --record-limit")));
                }
                Content::Requests(more) => rows.extend(more),
                Content::Settings(change) => pending.push(change),
                Content::Figures(found) => {
                    counted = rows.len();
                    if head.as_ref().is_some_and(|head: &Head| head.no_state.is_some()) {
                        note_counts(&mut halves, Counts { rows: counted, figures: (*found).clone() });
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
            bad("no request in it that the drive had counted: the drive counts every five seconds, and when it is stopped")
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
        let far = |counts: &Counts| (counts.rows * 2).abs_diff(counted);
        if let Some(half) = halves.into_iter().filter(|counts| counts.rows > 0 && counts.rows < counted).min_by_key(far)
        {
            recording.count_from(&half);
        }
        recording.rows.sort_by_key(|row: &Row| row.at);
        recording.begin_with_the_first();
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

    /// Where the first files are gone, time begins with the first request.
    fn begin_with_the_first(&mut self) {
        let Some(first) = self.rows.first().map(|row| row.at).filter(|_| self.head.file > 0) else { return };
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

fn note_counts(all: &mut Vec<Counts>, counts: Counts) {
    if all.len() == MOST_COUNTS {
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            index % 2 == 0
        });
    }
    all.push(counts);
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
