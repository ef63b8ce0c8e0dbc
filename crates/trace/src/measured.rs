//! Traces that say how long each request took on a real device: what models are compared with and fitted to.

use std::{path::Path, str::FromStr};

use peryton_units::{Bytes, Nanos, Op};

use crate::{
    MAX_TRANSFER, Request, TraceError,
    decode::{Or, Problem},
    error::shown,
    field::{self, Fields, nanos, whole, words},
    open,
};

/// The most requests of one measured trace, because they are in memory at a time.
pub const MAX_MEASURED: usize = 10_000_000;
/// No device takes an hour for a request; more comes from a wrong column.
const LONGEST: u64 = 3_600_000_000_000;

/// A request and how long the device took for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRequest {
    /// The request, with the time when the device got it.
    pub request: Request,
    /// From then to its completion.
    pub latency: Nanos,
}

/// The formats with measured latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasuredFormat {
    /// `time_ms,latency_us,1|0,size,offset,submission_ms,size` without a header; 1 is a read (FlashNet's replayer).
    Flashnet,
    /// A header that names the columns `time_us`, `op`, `offset`, `length` and `latency_us`, in any order, among others.
    Csv,
    /// MSR Cambridge: `FILETIME,host,disk,Read|Write,offset,size,response`, all times in 100 ns.
    Msr,
    /// DiskSim's validation traces: `R|W Hit|Miss sector sectors service_us think_us`.
    DisksimValidate,
    /// fio's latency log with `log_offset=1`: `end_ms, latency_ns, 0|1|2, size, offset`.
    FioLog,
}

impl MeasuredFormat {
    /// Every format with its name.
    pub const ALL: [(&'static str, MeasuredFormat); 5] = [
        ("flashnet", MeasuredFormat::Flashnet),
        ("csv", MeasuredFormat::Csv),
        ("msr", MeasuredFormat::Msr),
        ("disksim-validate", MeasuredFormat::DisksimValidate),
        ("fio-log", MeasuredFormat::FioLog),
    ];

    /// The format's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    fn expected(self) -> &'static str {
        match self {
            MeasuredFormat::Flashnet => "time_ms,latency_us,1|0,size,offset,submission_ms,size (flashnet; 1 is a read)",
            MeasuredFormat::Csv => "the columns that the header names: time_us, op, offset, length, latency_us",
            MeasuredFormat::Msr => "FILETIME,host,disk,Read|Write,offset,size,response (MSR Cambridge)",
            MeasuredFormat::DisksimValidate => "R|W Hit|Miss sector sectors service_us think_us (DiskSim validation)",
            MeasuredFormat::FioLog => "end_ms, latency_ns, 0|1, size, offset (a latency log of fio with log_offset=1)",
        }
    }

    /// The format of this first line.
    fn of(line: &[u8]) -> Option<MeasuredFormat> {
        if Columns::of(line).is_some() {
            return Some(MeasuredFormat::Csv);
        }
        let fits =
            |format: MeasuredFormat| Decoder::new(format, line).is_some_and(|mut decoder| decoder.line(line).is_ok());
        // A line of FlashNet has at least six columns without blanks, one of fio five or six with blanks after the commas.
        let order = if line.windows(2).any(|pair| pair == b", ") {
            [MeasuredFormat::FioLog, MeasuredFormat::Msr, MeasuredFormat::DisksimValidate, MeasuredFormat::Flashnet]
        } else {
            [MeasuredFormat::Msr, MeasuredFormat::DisksimValidate, MeasuredFormat::Flashnet, MeasuredFormat::FioLog]
        };
        order.into_iter().find(|&format| fits(format))
    }
}

impl FromStr for MeasuredFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<MeasuredFormat, String> {
        let known = MeasuredFormat::ALL.iter().find(|(name, _)| *name == text);
        known.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = MeasuredFormat::ALL.iter().map(|(name, _)| *name).collect();
            format!("no format with measured latencies: expected one of {}", names.join(", "))
        })
    }
}

/// Reads a trace with measured latencies (compressed or not; `-` is standard input), in the order in which the device got
/// the requests, the first at time zero. Flushes and discards are left out. Without a format, the first line decides.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("measured.csv");
/// std::fs::write(&path, "time_us,op,offset,length,latency_us\n0,R,4096,4096,85.5\n10,W,0,8192,22\n")?;
/// let requests = peryton_trace::measured(&path, None)?;
/// assert_eq!(requests.len(), 2);
/// assert_eq!(requests[0].latency.0, 85_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file cannot be read, a line is not a request with its latency, or there is none.
pub fn measured(path: impl AsRef<Path>, format: Option<MeasuredFormat>) -> Result<Vec<TimedRequest>, TraceError> {
    let mut input = open::input(path.as_ref())?;
    let name = input.name().clone();
    let failed = |line: u64, content: &[u8], problem: Problem, expected: &'static str| TraceError::Line {
        path: name.to_string(),
        line,
        content: shown(content),
        problem: problem.0.into_owned(),
        expected,
    };
    let mut requests = Vec::new();
    let mut decoder: Option<Decoder> = None;
    while let Some((number, line)) = input.next_line()? {
        let blank = line.iter().all(u8::is_ascii_whitespace);
        if blank {
            continue;
        }
        let Some(decoder) = &mut decoder else {
            let known = format.or_else(|| MeasuredFormat::of(line));
            const ANY: &str =
                "flashnet, csv, msr, disksim-validate or fio-log (docs/calibrating.md has the columns of each)";
            let chosen = known.ok_or_else(|| failed(number, line, "no measured latency".into(), ANY))?;
            let mut new = Decoder::new(chosen, line)
                .ok_or_else(|| failed(number, line, "no header with these columns".into(), chosen.expected()))?;
            if !matches!(new, Decoder::Csv(_)) {
                let first = new.line(line).map_err(|problem| failed(number, line, problem, chosen.expected()))?;
                requests.extend(first);
            }
            decoder = Some(new);
            continue;
        };
        let decoded =
            decoder.line(line).map_err(|problem| failed(number, line, problem, decoder.format().expected()))?;
        if requests.len() == MAX_MEASURED {
            return Err(failed(number, line, "more than 10,000,000 requests".into(), "a shorter trace: cut it"));
        }
        requests.extend(decoded);
    }
    let Some(first) = requests.iter().map(|timed| timed.request.at).min() else {
        let expected = "reads and writes with their measured latencies".to_owned();
        return Err(TraceError::Empty { path: name.to_string(), expected });
    };
    // Logs are in the order of completion, or of several threads.
    requests.sort_by_key(|timed| timed.request.at);
    requests.iter_mut().for_each(|timed| timed.request.at -= first);
    Ok(requests)
}

/// The places of the columns of a file with a header.
struct Columns {
    places: [usize; 5],
}

impl Columns {
    fn of(header: &[u8]) -> Option<Columns> {
        let place = |wanted: &str| {
            Fields::new(header, b',').position(|name| name.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        let [Some(a), Some(b), Some(c), Some(d), Some(e)] =
            ["time_us", "op", "offset", "length", "latency_us"].map(place)
        else {
            return None;
        };
        Some(Columns { places: [a, b, c, d, e] })
    }
}

enum Decoder {
    Flashnet,
    Csv(Columns),
    Msr,
    Disksim { now: u64 },
    FioLog,
}

type Decoded = Result<Option<TimedRequest>, Problem>;

impl Decoder {
    fn new(format: MeasuredFormat, first: &[u8]) -> Option<Decoder> {
        Some(match format {
            MeasuredFormat::Flashnet => Decoder::Flashnet,
            MeasuredFormat::Csv => Decoder::Csv(Columns::of(first)?),
            MeasuredFormat::Msr => Decoder::Msr,
            MeasuredFormat::DisksimValidate => Decoder::Disksim { now: 0 },
            MeasuredFormat::FioLog => Decoder::FioLog,
        })
    }

    fn format(&self) -> MeasuredFormat {
        match self {
            Decoder::Flashnet => MeasuredFormat::Flashnet,
            Decoder::Csv(_) => MeasuredFormat::Csv,
            Decoder::Msr => MeasuredFormat::Msr,
            Decoder::Disksim { .. } => MeasuredFormat::DisksimValidate,
            Decoder::FioLog => MeasuredFormat::FioLog,
        }
    }

    fn line(&mut self, line: &[u8]) -> Decoded {
        let fields: Vec<&[u8]> = match self {
            Decoder::Disksim { .. } => words(line).collect(),
            _ => Fields::new(line, b',').map(<[u8]>::trim_ascii).collect(),
        };
        let get = |index: usize| fields.get(index).copied().unwrap_or_default();
        let time = |text: &[u8], unit: u64, problem: &'static str| nanos(text, unit).or_problem(problem);
        let latency = |text: &[u8], unit: u64| time(text, unit, "the latency is not a number");
        let number = |text: &[u8], problem: &'static str| whole(text).or_problem(problem);
        match self {
            Decoder::Flashnet => {
                if !(5..=7).contains(&fields.len()) {
                    return Err("not five to seven columns".into());
                }
                // The submission is when the device got it; the first column is when the trace asked for it.
                let at = if fields.len() > 5 { get(5) } else { get(0) };
                time(get(0), 1_000_000, "the time is not a number")?;
                let op = match get(2) {
                    b"1" => Op::Read,
                    b"0" => Op::Write,
                    _ => return Err("the third column is neither 1 (read) nor 0 (write)".into()),
                };
                let (size, offset) = (
                    number(get(3), "the size is not a whole number")?,
                    number(get(4), "the offset is not a whole number")?,
                );
                timed(time(at, 1_000_000, "the submission is not a number")?, op, offset, size, latency(get(1), 1_000)?)
            }
            Decoder::Csv(columns) => {
                let [at, op, offset, length, took] = columns.places.map(get);
                let op = field::op(op).or_problem("the operation is neither read nor write")?;
                if matches!(op, Op::Flush | Op::Discard) {
                    return Ok(None);
                }
                let (offset, length) = (
                    number(offset, "the offset is not a whole number")?,
                    number(length, "the length is not a whole number")?,
                );
                timed(time(at, 1_000, "the time is not a number")?, op, offset, length, latency(took, 1_000)?)
            }
            Decoder::Msr => {
                if fields.len() != 7 {
                    return Err("not seven columns".into());
                }
                let op = match get(3) {
                    b"Read" | b"read" => Op::Read,
                    b"Write" | b"write" => Op::Write,
                    _ => return Err("neither Read nor Write".into()),
                };
                let (offset, size) = (
                    number(get(4), "the offset is not a whole number")?,
                    number(get(5), "the size is not a whole number")?,
                );
                let at = number(get(0), "the time is not a whole number")?
                    .checked_mul(100)
                    .or_problem("the time is out of range")?;
                timed(at, op, offset, size, latency(get(6), 100)?)
            }
            Decoder::Disksim { now } => {
                if fields.len() != 6 {
                    return Err("not six columns".into());
                }
                let op = match get(0) {
                    b"R" => Op::Read,
                    b"W" => Op::Write,
                    _ => return Err("neither R nor W".into()),
                };
                if ![&b"Hit"[..], b"Miss"].contains(&get(1)) {
                    return Err("neither Hit nor Miss".into());
                }
                let sectors = |text: &[u8], problem| {
                    number(text, problem)?.checked_mul(512).or_problem("the sector is out of range")
                };
                let (offset, size) = (
                    sectors(get(2), "the sector is not a whole number")?,
                    sectors(get(3), "the number of sectors is not a whole number")?,
                );
                let took = latency(get(4), 1_000)?;
                let think = time(get(5), 1_000, "the think time is not a number")?;
                let at = *now;
                *now = at
                    .checked_add(took)
                    .and_then(|end| end.checked_add(think))
                    .or_problem("the sum of the times is out of range")?;
                timed(at, op, offset, size, took)
            }
            Decoder::FioLog => {
                if fields.len() == 4 {
                    return Err("four columns, without the offset: let fio write it with log_offset=1".into());
                }
                if !(5..=7).contains(&fields.len()) {
                    return Err("not five to seven columns".into());
                }
                let op = match get(2) {
                    b"0" => Op::Read,
                    b"1" => Op::Write,
                    b"2" => return Ok(None),
                    _ => return Err("the third column is neither 0 (read), 1 (write) nor 2 (trim)".into()),
                };
                let took = latency(get(1), 1)?;
                let end = time(get(0), 1_000_000, "the time is not a number")?;
                let (size, offset) = (
                    number(get(3), "the size is not a whole number")?,
                    number(get(4), "the offset is not a whole number")?,
                );
                // fio logs a request when it ends; its clock here has milliseconds.
                timed(end.saturating_sub(took), op, offset, size, took)
            }
        }
    }
}

fn timed(at: u64, op: Op, offset: u64, len: u64, latency: u64) -> Decoded {
    if len == 0 {
        return Err("a request of no bytes".into());
    }
    if len > MAX_TRANSFER.0 || offset.checked_add(len).is_none_or(|end| end > 1 << 62) {
        return Err("a request of more than 4 GiB, or past 2^62 bytes".into());
    }
    if latency > LONGEST {
        return Err("a latency of more than an hour".into());
    }
    let request = Request { at: Nanos(at), offset: Bytes(offset), len: Bytes(len), volume: 0, op };
    Ok(Some(TimedRequest { request, latency: Nanos(latency) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str, format: Option<MeasuredFormat>) -> Result<Vec<TimedRequest>, TraceError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        measured(file.path(), format)
    }

    #[test]
    fn each_format_is_recognised_and_gives_the_same_request() {
        for (text, format) in [
            ("5.000,134,1,4096,8192,7.100,4096\n", MeasuredFormat::Flashnet),
            ("length,latency_us,op,time_us,offset\n4096,134,R,7100,8192\n", MeasuredFormat::Csv),
            ("128166372003061629,usr,0,Read,8192,4096,1340\n", MeasuredFormat::Msr),
            ("R Miss 16 8 134.0 100.0\n", MeasuredFormat::DisksimValidate),
            ("7, 134000, 0, 4096, 8192, 0\n", MeasuredFormat::FioLog),
        ] {
            let all = read(text, None).unwrap_or_else(|error| panic!("{}: {error}", format.name()));
            let [one] = all[..] else { panic!("{}: {all:?}", format.name()) };
            assert_eq!((one.request.op, one.request.offset, one.request.len), (Op::Read, Bytes(8192), Bytes(4096)));
            assert_eq!((one.request.at, one.latency), (Nanos::ZERO, Nanos(134_000)), "{}", format.name());
            assert_eq!(read(text, Some(format)).unwrap(), all);
            assert_eq!(format.name().parse(), Ok(format));
        }
    }

    #[test]
    fn requests_come_in_the_order_of_their_submission() {
        let all = read("time_us,op,offset,length,latency_us\n50,W,0,512,1\n40,R,0,1024,2\n", None).unwrap();
        assert_eq!((all[0].request.len, all[1].request.at), (Bytes(1024), Nanos(10_000)));
    }

    #[test]
    fn rubbish_is_one_clear_line() {
        for (text, part) in [
            ("", "no request in it"),
            ("hello\n", "no measured latency"),
            ("0.0,134,1,4096,8192,0.1,4096\n0.0,x,1,4096,8192,0.1,4096\n", ":2: the latency is not a number"),
            ("0.0,134,1,4096,8192,0.1,4096\n0.0,1e19,1,4096,8192,0.1,4096\n", ":2: the latency is not a number"),
            ("0.0,134,1,4096,8192,0.1,4096\n0.0,9,2,4096,8192,0.1,4096\n", "neither 1 (read) nor 0 (write)"),
            ("0.0,134,1,4096,8192,0.1,4096\n0.0,9,1,0,8192,0.1,4096\n", "a request of no bytes"),
            ("7, 134000, 0, 4096, 8192\n9, 134000, 0, 4096\n", "log_offset=1"),
        ] {
            let message = read(text, None).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{text}: {message}");
        }
        let message = read("a,b\n", Some(MeasuredFormat::Csv)).unwrap_err().to_string();
        assert!(message.contains("no header with these columns"), "{message}");
    }
}
