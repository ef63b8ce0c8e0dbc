//! A log that never blocks or ends the program: lines that cannot be written are dropped and counted.
//!
//! A write to a pipe that is not read blocks for ever, and a write to a full file system or a closed pipe fails. So a
//! separate thread writes the lines, and the queue before it is bounded.

use std::{
    collections::VecDeque,
    io::{self, Write},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// The most bytes of lines that wait to be written; further lines are dropped.
const MOST_WAITING: usize = 256 << 10;
/// Longer lines are cut, because they may contain what peers send.
const LONGEST_LINE: usize = 4 << 10;

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    dropped: u64,
    /// How many of `dropped` the log itself has reported.
    reported: u64,
    /// Whether the thread is writing a line.
    busy: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log. Clones write to the same log. As [`Write`] it takes one line a call, and never fails.
#[derive(Clone, Debug)]
pub struct LineLog(Arc<Shared>);

impl LineLog {
    /// Writes lines to `to` from a thread that lives as long as the program.
    ///
    /// # Errors
    /// The system refuses to create a thread.
    pub fn new(to: impl Write + Send + 'static) -> io::Result<LineLog> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || write(&writer, to))?;
        Ok(LineLog(shared))
    }

    /// The number of lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Waits until everything is written, but at most this long.
    pub fn finish(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut queue = self.0.lock();
        while !queue.lines.is_empty() || queue.busy {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            queue = self.0.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn line(&self, bytes: &[u8]) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let mut queue = self.0.lock();
        if queue.bytes + bytes.len().min(LONGEST_LINE) > MOST_WAITING {
            queue.dropped += 1;
            return;
        }
        if queue.dropped > queue.reported {
            queue.reported = queue.dropped;
            let news = format!("{} lines of the log could not be written so far and were dropped", queue.dropped);
            queue.push(news.as_bytes());
        }
        queue.push(bytes);
        drop(queue);
        self.0.changed.notify_all();
    }
}

impl Queue {
    fn push(&mut self, line: &[u8]) {
        let cut = &line[..line.len().min(LONGEST_LINE)];
        // Control characters are replaced, so that one line stays one line.
        let mut line: Vec<u8> = cut.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte }).collect();
        line.push(b'\n');
        self.bytes += line.len();
        self.lines.push_back(line);
    }
}

impl Write for LineLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write(shared: &Shared, mut to: impl Write) {
    let mut queue = shared.lock();
    loop {
        let Some(line) = queue.lines.pop_front() else {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        queue.bytes -= line.len();
        queue.busy = true;
        drop(queue);
        let written = to.write_all(&line).and_then(|()| to.flush());
        queue = shared.lock();
        queue.busy = false;
        queue.dropped += u64::from(written.is_err());
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Accepts a line when the test allows it, like a pipe that is read now and then, and passes on what it accepted.
    struct Gate(mpsc::Receiver<bool>, mpsc::Sender<Vec<u8>>);

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.recv() {
                Ok(true) => {
                    let _ = self.1.send(bytes.to_vec());
                    Ok(bytes.len())
                }
                _ => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (LineLog, mpsc::Sender<bool>, mpsc::Receiver<Vec<u8>>) {
        let ((open, gate), (sender, taken)) = (mpsc::channel(), mpsc::channel());
        (LineLog::new(Gate(gate, sender)).unwrap(), open, taken)
    }

    #[test]
    fn unread_lines_are_bounded_dropped_and_counted() {
        let (mut log, open, taken) = gated();
        let began = Instant::now();
        for number in 0..100_000 {
            log.write_all(format!("line {number} of a flood, with some more words in it").as_bytes()).unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(5), "a line waited");
        let dropped = log.dropped();
        assert!(dropped > 90_000, "{dropped}");
        assert!(log.0.lock().bytes <= MOST_WAITING + LONGEST_LINE);
        log.finish(Duration::from_millis(10));
        // Once the log is read again, it reports what is missing.
        for _ in 0..20_000 {
            open.send(true).unwrap();
        }
        log.finish(Duration::from_secs(10));
        log.write_all(b"after").unwrap();
        log.finish(Duration::from_secs(10));
        let lines: Vec<String> = taken.try_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap(), "after\n", "{dropped} of 100000 dropped, {} written", lines.len());
        assert!(lines[lines.len() - 2].starts_with(&format!("{dropped} lines")), "{}", lines[lines.len() - 2]);
        let written = lines.iter().filter(|line| line.starts_with("line ")).count();
        assert_eq!(written as u64, 100_000 - dropped);
    }

    #[test]
    fn a_full_file_system_costs_lines_and_nothing_else() {
        let (mut log, open, taken) = gated();
        // The second line carries the report about the first before it.
        for (line, may) in [("first", &[false][..]), ("second", &[false, false]), ("third", &[true, true])] {
            log.write_all(line.as_bytes()).unwrap();
            may.iter().for_each(|may| open.send(*may).unwrap());
            log.finish(Duration::from_secs(10));
        }
        assert_eq!(log.dropped(), 3);
        let lines: Vec<Vec<u8>> = taken.try_iter().collect();
        assert_eq!(lines[0], b"3 lines of the log could not be written so far and were dropped\n");
        assert_eq!(lines[1], b"third\n");
    }

    #[test]
    fn one_line_stays_one_line_and_is_cut() {
        let (mut log, open, taken) = gated();
        open.send(true).unwrap();
        let long = format!("a\nb\x1b{}", "x".repeat(10 * LONGEST_LINE));
        log.write_all(long.as_bytes()).unwrap();
        let line = taken.recv().unwrap();
        assert!(line.starts_with(b"a b x") && line.len() == LONGEST_LINE + 1);
    }
}
