//! The thread that writes a recording.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Receiver,
    },
};

use peryton_recording::{
    End,
    chunk::{self, HEADER, MAGIC},
};
use peryton_units::{Bytes, Nanos};

use super::RecordError;

/// Space that is kept for the last chunk of a recording that is full.
const RESERVED: u64 = 4 << 10;

/// A chunk to be written.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) kind: u32,
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
    /// The number of requests in it.
    pub(super) requests: u64,
}

/// What both sides know.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests that were not written, because too many waited or the file could not be written.
    pub(super) dropped: AtomicU64,
    /// Chunks of any kind, likewise.
    pub(super) dropped_chunks: AtomicU64,
    /// The length of the file.
    pub(super) bytes: AtomicU64,
    /// Whether it has as many bytes as it may have.
    pub(super) is_full: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Progress {
    /// Why the last chunk could not be written, if it could not.
    pub(super) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_error(&self, error: Option<String>) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    limit: u64,
    progress: Arc<Progress>,
    /// Where the next chunk goes: what lies behind it is part of a chunk that could not be written.
    end: u64,
}

impl Writer {
    pub(super) fn new(file: File, limit: Bytes, progress: Arc<Progress>) -> Writer {
        Writer { file, limit: limit.0, progress, end: 0 }
    }

    /// Writes what comes until nothing more can come, or the file is full.
    pub(super) fn write(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            let dropped = self.progress.dropped.load(Ordering::Relaxed);
            let is_last = job.kind == chunk::END;
            let len = (HEADER + job.payload.len()) as u64;
            if self.end + len + RESERVED > self.limit && !is_last {
                return self.end_full(&job, dropped);
            }
            let bytes = chunk::chunk(job.kind, job.number, dropped, &job.payload);
            match self.append(&bytes) {
                Ok(()) => self.progress.set_error(None),
                Err(error) => {
                    self.progress.dropped.fetch_add(job.requests, Ordering::Relaxed);
                    self.progress.dropped_chunks.fetch_add(1, Ordering::Relaxed);
                    self.progress.set_error(Some(error.to_string()));
                }
            }
        }
    }

    fn end_full(&mut self, job: &Job, dropped: u64) {
        self.progress.is_full.store(true, Ordering::Relaxed);
        let end = serde_json::to_vec(&End { at: Nanos::ZERO, is_full: true }).expect("its keys are texts");
        if let Err(error) = self.append(&chunk::chunk(chunk::END, job.number, dropped, &end)) {
            self.progress.set_error(Some(error.to_string()));
        }
    }

    /// A chunk that is written in part is overwritten by the next one; a reader passes over what is left of it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.progress.bytes.store(self.end, Ordering::Relaxed);
        Ok(())
    }
}

/// Makes the file. An earlier recording is renamed; another file is not touched.
pub(super) fn create(path: &Path) -> Result<File, RecordError> {
    let failed = |source| RecordError::System { path: path.to_owned(), source };
    match OpenOptions::new().read(true).open(path) {
        Ok(mut found) => {
            let mut head = [0; MAGIC.len()];
            let is_recording = found.read_exact(&mut head).is_ok() && head == MAGIC;
            let is_empty = found.metadata().map_err(failed)?.len() == 0;
            if !found.metadata().map_err(failed)?.is_file() || !(is_recording || is_empty) {
                return Err(RecordError::Foreign(path.to_owned()));
            }
            if is_recording {
                let mut old = path.as_os_str().to_owned();
                old.push(".old");
                fs::rename(path, PathBuf::from(old)).map_err(failed)?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    // Addresses and times of a volume are its owner's business.
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)
}
