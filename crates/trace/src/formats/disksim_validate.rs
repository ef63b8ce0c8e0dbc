//! DiskSim's validation format: `R|W Hit|Miss sector sectors service think`, one line for each request that was
//! measured on a real disk, sectors of 512 bytes, service and think time in µs with decimals. One request was in flight
//! at a time; the next one came after the think time that followed its completion. In the trace, requests arrive when
//! they arrived on the real disk: at the sum of the service and think times before.

use std::path::Path;

use peryton_units::{Nanos, Op};

use super::{Head, Input, Opened, ReadOptions, likeness, lines};
use crate::{
    Request, TraceError,
    decode::{Decoded, LineFormat, Or, Problem, Sink},
    error::shown,
    field::{nanos, whole, words},
    open,
};

#[derive(Default)]
pub(crate) struct DisksimValidate {
    now: u64,
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    likeness(head, DisksimValidate::default())
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    lines(input, DisksimValidate::default(), options)
}

impl DisksimValidate {
    fn measured(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Result<Option<(u64, u64, bool)>, Problem> {
        let mut words = words(line);
        let op = match words.next() {
            None => return Ok(None),
            Some(b"R") => Op::Read,
            Some(b"W") => Op::Write,
            Some(_) => return Err("neither R nor W".into()),
        };
        let hit = match words.next() {
            Some(b"Hit") => true,
            Some(b"Miss") => false,
            _ => return Err("neither Hit nor Miss".into()),
        };
        let sector = words.next().and_then(whole).or_problem("the sector is not a whole number")?;
        let sectors = words.next().and_then(whole).or_problem("the number of sectors is not a whole number")?;
        let mut time = |problem| words.next().and_then(|word| nanos(word, 1_000)).or_problem(problem);
        let service = time("the service time is not a number of microseconds")?;
        let think = time("the think time is not a number of microseconds")?;
        if words.next().is_some() {
            return Err("more than six columns".into());
        }
        let next = self.now.checked_add(service).and_then(|then| then.checked_add(think));
        let next = next.or_problem("the sum of the times is out of range")?;
        sink.push_sectors(self.now, 0, op, sector, sectors)?;
        self.now = next;
        Ok(Some((service, think, hit)))
    }
}

impl LineFormat for DisksimValidate {
    const EXPECTED: &'static str = "R|W Hit|Miss sector sectors service_us think_us (DiskSim validation)";

    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) -> Decoded {
        self.measured(line, sink).map(|_| ())
    }
}

/// One request of a validation trace, as measured on the real disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// The request, with its arrival in the measurement.
    pub request: Request,
    /// The disk's service time.
    pub service: Nanos,
    /// The time from this completion to the arrival of the next request.
    pub think: Nanos,
    /// Whether the measurement classified it as a hit in the disk's buffer; informative only.
    pub buffer_hit: bool,
}

/// The requests of a validation trace, from [`measurements`].
pub struct Measurements {
    input: Input,
    format: DisksimValidate,
}

/// Opens a trace of DiskSim's validation format (compressed or not; `-` is standard input) with the times of the real
/// disk, for the validation of a disk model.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("measured");
/// # std::fs::write(&path, "R Miss 2048 16 9500.0 100.0\nR Hit 2064 16 400.0 100.0\n")?;
/// for measured in peryton_trace::measurements(&path)? {
///     let measured = measured?;
///     println!("{:?} took {} on the disk", measured.request, measured.service);
///     # assert_eq!(measured.request.len.0, 8192);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file cannot be opened, or its compression is broken.
pub fn measurements(path: impl AsRef<Path>) -> Result<Measurements, TraceError> {
    Ok(Measurements { input: open::input(path.as_ref())?, format: DisksimValidate::default() })
}

impl Iterator for Measurements {
    type Item = Result<MeasuredRequest, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let path = self.input.name().clone();
        let mut requests = Vec::with_capacity(1);
        loop {
            let (number, line) = match self.input.next_line() {
                Ok(next) => next?,
                Err(error) => return Some(Err(error)),
            };
            match self.format.measured(line, &mut Sink::new(&mut requests)) {
                Ok(None) => {}
                Ok(Some((service, think, buffer_hit))) => {
                    let (service, think) = (Nanos(service), Nanos(think));
                    return Some(Ok(MeasuredRequest { request: requests[0], service, think, buffer_hit }));
                }
                Err(problem) => {
                    return Some(Err(TraceError::Line {
                        path: path.to_string(),
                        line: number,
                        content: shown(line),
                        problem: problem.0.into_owned(),
                        expected: DisksimValidate::EXPECTED,
                    }));
                }
            }
        }
    }
}
