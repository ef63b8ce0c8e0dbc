//! A recording as it was read: the requests that the drive's last counts cover, in the order of their arrival.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use peryton_recording::{Content, Figures, Head, Row, Scan, SettingsChange};
use peryton_sim::OpenedState;

use crate::failure::Failure;

/// The most requests of a recording that are read: they are in memory at a time.
const MOST_ROWS: usize = 50_000_000;

/// A recording.
#[derive(Debug)]
pub struct Recording {
    pub path: PathBuf,
    pub head: Head,
    /// The requests that had been answered at the last counts, in the order of their arrival.
    pub rows: Vec<Row>,
    /// The last counts.
    pub figures: Figures,
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
        let mut scan = Scan::new(File::open(path).map_err(failed)?);
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
                    figures = Some(*found);
                    counted = rows.len();
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
        rows.sort_by_key(|row: &Row| row.at);
        let damaged_bytes = scan.damaged_bytes();
        Ok(Recording { path: path.to_owned(), head, rows, figures, changes, state, uncounted, dropped, damaged_bytes })
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
