//! The thread that writes a recording.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::Receiver,
    },
};

use peryton_recording::{
    Head,
    chunk::{self, MAGIC},
    full_file,
};
use peryton_units::Bytes;

use super::RecordError;

/// A file of a recording is full when requests and counts take this part of what the recording may take.
const FILES: u64 = 4;

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
    /// The length of all files.
    pub(super) bytes: AtomicU64,
    /// How many files there are.
    pub(super) files: AtomicU64,
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
    path: PathBuf,
    file: File,
    limit: u64,
    progress: Arc<Progress>,
    /// Where the next chunk goes: what lies behind it is part of a chunk that could not be written.
    end: u64,
    /// How much of the file is the drive and its state, which its share of the limit does not cover.
    start: u64,
    /// The number of the file.
    number: u64,
    /// The full files that are still there, with their lengths, the oldest first.
    full: VecDeque<(u64, u64)>,
    /// What each file begins with: the drive, and the settings that are in force.
    head: Option<Head>,
    settings: Option<Vec<u8>>,
}

impl Writer {
    pub(super) fn new(path: PathBuf, file: File, limit: Bytes, progress: Arc<Progress>) -> Writer {
        progress.files.store(1, Ordering::Relaxed);
        let (end, start, number, full) = (0, 0, 0, VecDeque::new());
        Writer { path, file, limit: limit.0, progress, end, start, number, full, head: None, settings: None }
    }

    /// Writes what comes until nothing more can come.
    pub(super) fn write(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            let dropped = self.progress.dropped.load(Ordering::Relaxed);
            match self.write_one(&job, dropped) {
                Ok(()) => self.progress.set_error(None),
                Err(error) => {
                    self.progress.dropped.fetch_add(job.requests, Ordering::Relaxed);
                    self.progress.dropped_chunks.fetch_add(1, Ordering::Relaxed);
                    self.progress.set_error(Some(error.to_string()));
                }
            }
        }
    }

    fn write_one(&mut self, job: &Job, dropped: u64) -> io::Result<()> {
        let is_start = matches!(job.kind, chunk::HEAD | chunk::STATE);
        match job.kind {
            chunk::HEAD => self.head = serde_json::from_slice(&job.payload).ok(),
            chunk::SETTINGS => self.settings = Some(job.payload.clone()),
            _ => {}
        }
        let bytes = chunk::chunk(job.kind, job.number, dropped, &job.payload);
        let share = self.limit / FILES;
        if !is_start && self.end - self.start + bytes.len() as u64 > share {
            self.begin_file(job.number, dropped)?;
            if self.end + bytes.len() as u64 > share {
                return Err(io::Error::other(
                    "a chunk is longer than a file of the recording may be: raise --record-limit",
                ));
            }
        }
        self.append(&bytes)?;
        if is_start {
            self.start = self.end;
        }
        Ok(())
    }

    /// Begins another file, in place of the oldest ones if there is no room for all.
    fn begin_file(&mut self, number: u64, dropped: u64) -> io::Result<()> {
        let share = self.limit / FILES;
        while self.full_bytes() + self.end + share > self.limit
            && let Some((oldest, len)) = self.full.pop_front()
        {
            if let Err(error) = fs::remove_file(full_file(&self.path, oldest))
                && error.kind() != io::ErrorKind::NotFound
            {
                self.full.push_front((oldest, len));
                return Err(error);
            }
        }
        let mut start = Vec::new();
        if let Some(head) = &self.head {
            let no_state = Some("it was in a file that was replaced by later ones: raise --record-limit".to_owned());
            let head = Head { file: self.number + 1, no_state, ..head.clone() };
            start = chunk::chunk(chunk::HEAD, number, dropped, &serde_json::to_vec(&head)?);
        }
        if let Some(settings) = &self.settings {
            start.extend(chunk::chunk(chunk::SETTINGS, number, dropped, settings));
        }
        // Under its own name there is always a recording that can be read.
        let mut begun = self.path.as_os_str().to_owned();
        begun.push(".begun");
        let (begun, full) = (PathBuf::from(begun), full_file(&self.path, self.number));
        make_way(&begun)?;
        make_way(&full)?;
        let file = new_file(&begun)?;
        file.write_all_at(&start, 0)?;
        fs::hard_link(&self.path, &full).or_else(|_| fs::rename(&self.path, &full))?;
        fs::rename(&begun, &self.path)?;
        self.full.push_back((self.number, self.end));
        self.file = file;
        self.number += 1;
        (self.end, self.start) = (start.len() as u64, 0);
        self.progress.files.store(self.full.len() as u64 + 1, Ordering::Relaxed);
        self.count_bytes();
        Ok(())
    }

    fn full_bytes(&self) -> u64 {
        self.full.iter().map(|(_, len)| len).sum()
    }

    fn count_bytes(&self) {
        self.progress.bytes.store(self.full_bytes() + self.end, Ordering::Relaxed);
    }

    /// A chunk that is written in part is overwritten by the next one; a reader passes over what is left of it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        self.count_bytes();
        Ok(())
    }
}

/// Makes the file. An earlier recording is renamed, with all its files; another file is not touched.
pub(super) fn create(path: &Path) -> Result<File, RecordError> {
    let failed = |source| RecordError::System { path: path.to_owned(), source };
    match OpenOptions::new().read(true).open(path) {
        Ok(mut found) => {
            let about = found.metadata().map_err(failed)?;
            let is_recording = is_recording(&mut found);
            if !about.is_file() || !(is_recording || about.len() == 0) {
                return Err(RecordError::Foreign(path.to_owned()));
            }
            if is_recording {
                let mut old = path.as_os_str().to_owned();
                old.push(".old");
                let old = PathBuf::from(old);
                for (_, file) in full_files(&old).map_err(failed)? {
                    fs::remove_file(file).map_err(failed)?;
                }
                for (number, file) in full_files(path).map_err(failed)? {
                    fs::rename(file, full_file(&old, number)).map_err(failed)?;
                }
                fs::rename(path, old).map_err(failed)?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    new_file(path).map_err(failed)
}

/// What is left of an earlier recording goes; another file is not touched.
fn make_way(path: &Path) -> io::Result<()> {
    let mut found = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.metadata()?.len() > 0 && !is_recording(&mut found) {
        let problem = format!("{} is in the way, and is no recording: move it", path.display());
        return Err(io::Error::other(problem));
    }
    fs::remove_file(path)
}

fn is_recording(file: &mut File) -> bool {
    let mut head = [0; MAGIC.len()];
    file.read_exact(&mut head).is_ok() && head == MAGIC
}

/// The full files of a recording with their numbers.
fn full_files(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let number = entry.path().extension().and_then(|text| text.to_str()?.parse().ok());
        let Some(number) = number.filter(|number| full_file(path, *number).file_name() == Some(&entry.file_name()))
        else {
            continue;
        };
        if entry.file_type()?.is_file() && is_recording(&mut File::open(entry.path())?) {
            found.push((number, entry.path()));
        }
    }
    Ok(found)
}

/// Addresses and times of a volume are its owner's business.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
