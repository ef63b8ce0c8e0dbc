//! Records what clients do and how long it takes, for the twin: the loop hands whole chunks to a thread that writes them.
//!
//! Nothing here waits for the file. The queue before the thread is bounded, what does not fit is dropped and counted, and a file
//! that cannot be written costs what should have been written. Every chunk says how much had been dropped by then.

mod noting;
mod writer;

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::{Duration, SystemTime},
};

use peryton_recording::{End, Figures, Head, RecordedDevice, Row, Rows, SettingsChange, chunk};
use peryton_units::{Bytes, Nanos};
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

pub(crate) use self::noting::Noting;
use self::writer::{Job, Progress, Writer};

/// The bytes of requests that are one chunk, unless they are older than [`OLDEST`].
const CHUNK: usize = 48 << 10;
/// How long an answered request waits at most to be handed to the thread.
const OLDEST: Nanos = Nanos::from_s(1);
/// How often the drive's own counts are recorded while requests come.
const FIGURES_EVERY: Nanos = Nanos::from_s(5);
/// The most chunks that wait for the thread; more are dropped.
const MOST_WAITING: usize = 64;
/// The smallest recording.
pub(crate) const SMALLEST: Bytes = Bytes::mib(1);

/// What to record, and where.
#[derive(Clone, Debug)]
pub struct Record {
    /// The file. An earlier recording there is kept beside it, with `.old` after its name.
    pub path: PathBuf,
    /// The most bytes of the recording. When it is full, the oldest requests go: it is several files, see [`peryton_recording::Files`].
    pub limit: Bytes,
    /// The text of the design.
    pub design: String,
    /// Settings of the command line, `key=value` each.
    pub set: Vec<String>,
    /// The sizes of devices that the design does not give, by name.
    pub sizes: BTreeMap<String, Bytes>,
    /// What formatting has fixed, where that had to be asked: bytes of data on each device, and spare extents.
    pub formatted: Option<(Vec<Bytes>, u32)>,
}

/// Why nothing can be recorded there.
#[derive(Debug, Error)]
pub enum RecordError {
    /// There is another file.
    #[error("{}: is no recording, so it is not replaced: give the path of a new file", .0.display())]
    Foreign(PathBuf),
    /// The bound is too small.
    #[error("a recording of {0} at most is too small: give at least {SMALLEST}")]
    TooSmall(Bytes),
    /// The system refuses.
    #[error("{}: {source}: give a file that can be written", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// The loop's side of a recording.
#[derive(Debug)]
pub(crate) struct Recorder {
    path: PathBuf,
    rows: Rows,
    /// When the oldest row that waits was answered.
    since: Option<Nanos>,
    /// When the counts are due; absent while nothing has happened since the last ones.
    figures_due: Option<Nanos>,
    /// The thread; absent when the recording has ended.
    to: Option<SyncSender<Job>>,
    ended: Receiver<()>,
    progress: Arc<Progress>,
    /// The number of the next chunk.
    number: u64,
    requests: u64,
}

/// What the status says.
#[derive(Clone, Debug, Serialize)]
struct Status {
    path: PathBuf,
    state: &'static str,
    requests: u64,
    bytes: u64,
    files: u64,
    dropped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What there is to say of a volume at the start.
pub(crate) struct Start {
    /// Which build of Peryton serves the volume.
    pub(crate) version: &'static str,
    pub(crate) name: String,
    pub(crate) volume: Bytes,
    pub(crate) devices: Vec<RecordedDevice>,
    /// What the opening read, or why that is not known.
    pub(crate) state: Result<Vec<Vec<u8>>, String>,
}

impl Recorder {
    /// Makes the file, before the volume is opened: nothing is to be undone if that is refused.
    pub(crate) fn create(record: &Record) -> Result<File, RecordError> {
        if record.limit < SMALLEST {
            return Err(RecordError::TooSmall(record.limit));
        }
        writer::create(&record.path)
    }

    /// The side of the loop, with the ends of the channels to a thread and from it.
    fn new(path: PathBuf, (to, ended): (SyncSender<Job>, Receiver<()>), progress: Arc<Progress>) -> Recorder {
        Recorder {
            path,
            rows: Rows::default(),
            since: None,
            figures_due: None,
            to: Some(to),
            ended,
            progress,
            number: 0,
            requests: 0,
        }
    }

    /// Begins to record into the file.
    pub(crate) fn begin(record: &Record, file: File, start: Start) -> Result<Recorder, RecordError> {
        let failed = |source| RecordError::System { path: record.path.clone(), source };
        let progress = Arc::new(Progress::default());
        let (to, jobs) = sync_channel(MOST_WAITING);
        let (end, ended) = sync_channel(1);
        let path = std::path::absolute(&record.path).unwrap_or_else(|_| record.path.clone());
        let writer = Writer::new(path.clone(), file, record.limit, Arc::clone(&progress));
        std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || {
                writer.write(&jobs);
                drop(end);
            })
            .map_err(failed)?;
        let mut recorder = Recorder::new(path, (to, ended), progress);
        let (state, no_state) = match start.state {
            Ok(state) => (state, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let head = Head {
            peryton_version: start.version.to_owned(),
            name: start.name,
            began_unix_ms: u64::try_from(since_1970.as_millis()).unwrap_or_default(),
            file: 0,
            design: record.design.clone(),
            set: record.set.clone(),
            sizes: record.sizes.clone(),
            formatted: record.formatted.clone(),
            volume: start.volume,
            devices: start.devices,
            settings: Vec::new(),
            no_state,
            limit: record.limit,
        };
        // No loop waits for these yet, so they may wait for the file.
        recorder.hand_over(chunk::HEAD, json_bytes(&head), 0, true);
        state.into_iter().for_each(|payload| recorder.hand_over(chunk::STATE, payload, 0, true));
        Ok(recorder)
    }

    /// Records a request that is being answered.
    #[inline]
    pub(crate) fn request(&mut self, now: Nanos, row: &Row) {
        if self.to.is_none() {
            return;
        }
        self.rows.push(row);
        self.requests += 1;
        self.since.get_or_insert(now);
        self.figures_due.get_or_insert(now.saturating_add(FIGURES_EVERY));
        if self.rows.bytes() >= CHUNK {
            self.hand_over_rows();
        }
    }

    /// When something is to be handed over.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.to.as_ref()?;
        [self.since.map(|since| since.saturating_add(OLDEST)), self.figures_due].into_iter().flatten().min()
    }

    /// Hands over what has waited long enough. Returns whether the drive's counts are due.
    pub(crate) fn tick(&mut self, now: Nanos) -> bool {
        if self.since.is_some_and(|since| since.saturating_add(OLDEST) <= now) {
            self.hand_over_rows();
        }
        self.to.is_some() && self.figures_due.is_some_and(|due| due <= now)
    }

    /// Records what the drive has counted, all requests that were answered included.
    pub(crate) fn figures(&mut self, figures: &Figures) {
        self.hand_over_rows();
        self.figures_due = None;
        self.hand_over(chunk::FIGURES, json_bytes(figures), 0, false);
    }

    /// Records that these settings are in force from now on.
    pub(crate) fn settings(&mut self, now: Nanos, settings: &[String]) {
        self.hand_over_rows();
        let change = SettingsChange { at: now, settings: settings.to_vec() };
        self.hand_over(chunk::SETTINGS, json_bytes(&change), 0, false);
    }

    fn hand_over_rows(&mut self) {
        self.since = None;
        let count = self.rows.count();
        if count > 0 {
            let payload = self.rows.take();
            self.hand_over(chunk::REQUESTS, payload, count, false);
        }
    }

    /// Gives a chunk to the thread, or drops it if too many wait.
    fn hand_over(&mut self, kind: u32, payload: Vec<u8>, requests: u64, may_wait: bool) {
        let Some(to) = &self.to else { return };
        let job = Job { kind, number: self.number, payload, requests };
        self.number += 1;
        let given =
            if may_wait { to.send(job).is_ok() } else { !matches!(to.try_send(job), Err(TrySendError::Full(_))) };
        if !given {
            self.progress.dropped.fetch_add(requests, Ordering::Relaxed);
            self.progress.dropped_chunks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the recording, and waits for the file, but at most this long.
    pub(crate) fn finish(mut self, now: Nanos, at_most: Duration) {
        self.hand_over_rows();
        self.hand_over(chunk::END, json_bytes(&End { at: now, is_full: false }), 0, false);
        self.to = None;
        // The thread sends nothing: it hangs up when it has written everything.
        let _ = self.ended.recv_timeout(at_most);
        let dropped = self.progress.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, path = %self.path.display(), "requests are missing in the recording");
        }
    }

    pub(crate) fn status(&self) -> Value {
        let progress = &self.progress;
        let error = progress.error();
        let state = if error.is_some() { "failing" } else { "recording" };
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        json!(Status {
            path: self.path.clone(),
            state,
            requests: self.requests,
            bytes: load(&progress.bytes),
            files: load(&progress.files),
            dropped: load(&progress.dropped),
            error,
        })
    }
}

fn json_bytes(of: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(of).expect("the types of a recording have keys that are texts")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::{fs, path::Path, time::Instant};

    use peryton_recording::{Content, DeviceFigures, Files, Flags, Scan, full_file};
    use peryton_units::Op;

    use super::*;

    fn record(path: &Path, limit: Bytes) -> Record {
        Record {
            path: path.to_owned(),
            limit,
            design: "x = 1".to_owned(),
            set: Vec::new(),
            sizes: BTreeMap::new(),
            formatted: None,
        }
    }

    fn start() -> Start {
        let state = Err("a test".to_owned());
        Start { version: "0.1.0", name: "v".to_owned(), volume: Bytes::gib(1), devices: Vec::new(), state }
    }

    fn begin(path: &Path, limit: Bytes) -> Result<Recorder, RecordError> {
        let record = record(path, limit);
        Recorder::begin(&record, Recorder::create(&record)?, start())
    }

    fn row(number: u64) -> Row {
        Row {
            at: Nanos::from_us(number),
            op: Op::Write,
            flags: Flags::NONE,
            offset: Bytes(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30 << 9),
            len: Bytes(4096),
            latency: Nanos(number % 1000 * 1000),
        }
    }

    fn figures(at: Nanos) -> Figures {
        Figures {
            at,
            stats: json!({ "requests": [1, 2, 3, 4] }),
            devices: vec![DeviceFigures::default()],
            dirty: Bytes(5),
        }
    }

    /// The rows, the figures, the end, and the most dropped.
    fn read(path: &Path) -> (Vec<Row>, Vec<Figures>, Option<End>, u64) {
        let mut scan = Scan::new(Files::open(path).unwrap());
        let (mut rows, mut figures, mut end, mut dropped) = (Vec::new(), Vec::new(), None, 0);
        while let Some(chunk) = scan.next_chunk().unwrap() {
            dropped = dropped.max(chunk.dropped);
            match chunk.content() {
                Content::Requests(more) => rows.extend(more),
                Content::Figures(more) => figures.push(*more),
                Content::End(found) => end = Some(found),
                Content::Unknown => panic!("an unknown chunk"),
                Content::Head(_) | Content::State(_) | Content::Settings(_) => {}
            }
        }
        (rows, figures, end, dropped)
    }

    #[test]
    fn what_was_recorded_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        let mut recorder = begin(&path, Bytes::mib(64)).unwrap();
        for number in 0..20_000 {
            recorder.request(Nanos::from_us(number), &row(number));
        }
        assert_eq!(recorder.deadline().map(|due| due <= Nanos::from_s(2)), Some(true));
        assert!(!recorder.tick(Nanos::from_s(2)) && recorder.tick(Nanos::from_s(9)));
        recorder.figures(&figures(Nanos::from_s(9)));
        assert_eq!(recorder.deadline(), None);
        recorder.finish(Nanos::from_s(10), Duration::from_secs(10));
        let (rows, all, end, dropped) = read(&path);
        assert_eq!(rows, (0..20_000).map(row).collect::<Vec<_>>());
        assert_eq!((all, dropped), (vec![figures(Nanos::from_s(9))], 0));
        assert_eq!(end, Some(End { at: Nanos::from_s(10), is_full: false }));
    }

    /// The requests of a recording, and how many bytes its files have.
    fn record_many(path: &Path, requests: u64) -> u64 {
        let mut recorder = begin(path, SMALLEST).unwrap();
        recorder.settings(Nanos::ZERO, &["x=1".to_owned()]);
        for number in 0..requests {
            recorder.request(Nanos::from_us(number), &row(number));
            if number % 10_000 == 0 {
                std::thread::sleep(Duration::from_millis(3));
                recorder.tick(Nanos::from_us(number));
                recorder.figures(&figures(Nanos::from_us(number)));
            }
        }
        assert_eq!(recorder.status()["state"], "recording");
        recorder.finish(Nanos::from_us(requests), Duration::from_secs(10));
        let names = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let is_of = |name: &PathBuf| !name.to_string_lossy().contains(".old");
        names.filter(is_of).map(|name| fs::metadata(name).unwrap().len()).sum()
    }

    #[test]
    fn a_long_recording_keeps_its_bound_and_what_came_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        let bytes = record_many(&path, 400_000);
        assert!(bytes <= SMALLEST.0 && bytes > SMALLEST.0 * 6 / 10, "{bytes}");
        let (rows, all, end, dropped) = read(&path);
        assert_eq!((dropped, end.map(|end| end.at)), (0, Some(Nanos::from_us(400_000))));
        assert!(rows.len() > 30_000 && rows.len() < 100_000, "{}", rows.len());
        let first = 400_000 - rows.len() as u64;
        assert_eq!(rows, (first..400_000).map(row).collect::<Vec<_>>(), "without a gap, up to the last one");
        assert!(all.len() > 2);
        // Each file says what the drive is, and which settings are in force.
        let mut scan = Scan::new(fs::File::open(&path).unwrap());
        let mut first = || scan.next_chunk().unwrap().map(|chunk| chunk.content());
        let Some(Content::Head(head)) = first() else { panic!("no head") };
        assert!(head.file > 3 && head.no_state.is_some(), "{head:?}");
        assert!(matches!(first(), Some(Content::Settings(change)) if change.settings == ["x=1"]));
    }

    #[test]
    fn an_earlier_recording_of_several_files_is_kept_and_other_files_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        record_many(&path, 200_000);
        let before = read(&path).0;
        fs::write(full_file(&path, 99_999), "a letter").unwrap();
        assert!(record_many(&path, 300_000) <= SMALLEST.0 + 8);
        assert_eq!(read(&folder.path().join("v.recording.old")).0, before);
        assert_eq!(read(&path).0.last(), Some(&row(299_999)));
        record_many(&path, 3);
        assert_eq!(read(&folder.path().join("v.recording.old")).0.last(), Some(&row(299_999)));
        assert_eq!(fs::read(full_file(&path, 99_999)).unwrap(), b"a letter");
    }

    /// The fear: a file on a full or a stuck disk holds the drive up.
    #[test]
    fn a_file_that_cannot_be_written_costs_its_rows_and_no_time() {
        let path = Path::new("/dev/full");
        let progress = Arc::new(Progress::default());
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let (to, jobs) = sync_channel(MOST_WAITING);
        let writer = Writer::new(path.to_owned(), file, Bytes::mib(64), Arc::clone(&progress));
        let (end, ended) = sync_channel(1);
        std::thread::spawn(move || {
            writer.write(&jobs);
            drop(end);
        });
        let mut recorder = Recorder::new(path.to_owned(), (to, ended), Arc::clone(&progress));
        let began = Instant::now();
        (0..100_000).for_each(|number| recorder.request(Nanos::from_us(number), &row(number)));
        assert!(began.elapsed() < Duration::from_secs(5));
        recorder.finish(Nanos::from_s(1), Duration::from_secs(10));
        assert_eq!(progress.dropped.load(Ordering::Relaxed), 100_000);
        assert!(progress.error().unwrap().contains("space"), "{:?}", progress.error());
    }

    #[test]
    fn a_thread_that_is_stuck_costs_rows_and_no_memory() {
        let (to, jobs) = sync_channel(MOST_WAITING);
        let (_end, ended) = sync_channel(1);
        let progress = Arc::new(Progress::default());
        let mut recorder = Recorder::new(PathBuf::from("x"), (to, ended), Arc::clone(&progress));
        (0..1_000_000).for_each(|number| recorder.request(Nanos::from_us(number), &row(number)));
        let dropped = progress.dropped.load(Ordering::Relaxed);
        assert!(dropped > 500_000, "{dropped}");
        let began = Instant::now();
        recorder.finish(Nanos::from_s(1), Duration::from_millis(50));
        assert!(began.elapsed() < Duration::from_secs(5));
        // What waited is bounded, and its numbers show where something is missing.
        let waiting: Vec<Job> = jobs.try_iter().collect();
        assert!(waiting.len() <= MOST_WAITING && waiting.iter().all(|job| job.payload.len() < CHUNK + 100));
        let kept: u64 = waiting.iter().map(|job| job.requests).sum();
        assert_eq!(kept + progress.dropped.load(Ordering::Relaxed), 1_000_000);
    }

    #[test]
    fn an_earlier_recording_is_kept_and_another_file_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.recording");
        for requests in [3, 5] {
            let mut recorder = begin(&path, Bytes::mib(64)).unwrap();
            (0..requests).for_each(|number| recorder.request(Nanos::ZERO, &row(number)));
            recorder.finish(Nanos::ZERO, Duration::from_secs(10));
        }
        assert_eq!(read(&path).0.len(), 5);
        assert_eq!(read(&folder.path().join("v.recording.old")).0.len(), 3);
        fs::write(&path, "a letter").unwrap();
        let error = begin(&path, Bytes::mib(64)).unwrap_err();
        assert!(error.to_string().contains("no recording"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"a letter");
        let error = begin(&path, Bytes::kib(4)).unwrap_err();
        assert!(error.to_string().contains("too small"), "{error}");
    }
}
