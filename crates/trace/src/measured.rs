//! Traces that say how long each request took on a real device: what models are compared with and fitted to.

use std::path::Path;

use peryton_units::{Bytes, Nanos, Op};

use crate::{OpenOptions, Request, TraceError, open};

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

/// Reads a trace with measured latencies (compressed or not; `-` is standard input), in the order in which the device got
/// the requests, the first at time zero. Flushes, discards and requests of no bytes are left out. It is read as any trace is
/// ([`open`](crate::open)), of every format that has latencies.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("measured.csv");
/// std::fs::write(&path, "time_us,op,offset,length,latency_us\n0,R,4096,4096,85.5\n10,W,0,8192,22\n")?;
/// let requests = peryton_trace::measured(&path, &Default::default())?;
/// assert_eq!(requests.len(), 2);
/// assert_eq!(requests[0].latency.0, 85_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file cannot be read, is of a format without latencies, a line is not a request with its latency, or there is none.
pub fn measured(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Vec<TimedRequest>, TraceError> {
    let (name, mut decode) = open::decoder(path.as_ref(), options)?;
    let wrong = |problem: &str| TraceError::Options {
        path: name.clone(),
        problem: problem.to_owned(),
        remedy:
            "give requests with measured latencies: csv with latency_us, msr, flashnet, disksim-validate, fio-log, \
                 biosnoop, systor17 or a recording"
                .to_owned(),
    };
    let mut all: Vec<TimedRequest> = Vec::new();
    let mut requests = Vec::new();
    decode.latencies().ok_or_else(|| wrong("the format has no latencies"))?;
    loop {
        requests.clear();
        decode.fill(&mut requests)?;
        if requests.is_empty() {
            break;
        }
        let latencies = decode.latencies().unwrap_or_default();
        if latencies.len() != requests.len() {
            return Err(wrong("there are requests without a latency"));
        }
        if all.len() + requests.len() > MAX_MEASURED {
            return Err(wrong("more than 10,000,000 requests"));
        }
        if let Some(latency) = latencies.iter().find(|latency| **latency > LONGEST) {
            return Err(wrong(&format!("a latency of {}, which no device takes", Nanos(*latency))));
        }
        let timed =
            requests.iter().zip(latencies).map(|(&request, latency)| TimedRequest { request, latency: Nanos(latency) });
        all.extend(
            timed.filter(|timed| matches!(timed.request.op, Op::Read | Op::Write) && timed.request.len > Bytes::ZERO),
        );
    }
    let Some(first) = all.iter().map(|timed| timed.request.at).min() else {
        let expected = "reads and writes with their measured latencies".to_owned();
        return Err(TraceError::Empty { path: name, expected });
    };
    // Logs are in the order of completion, or of several threads.
    all.sort_by_key(|timed| timed.request.at);
    all.iter_mut().for_each(|timed| timed.request.at -= first);
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Format;

    fn read(text: &str, format: Option<Format>) -> Result<Vec<TimedRequest>, TraceError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        measured(file.path(), &OpenOptions { format, ..OpenOptions::default() })
    }

    #[test]
    fn each_format_is_recognised_and_gives_the_same_request() {
        for (text, format) in [
            ("5.000,134,1,4096,8192,7.100,4096\n", Format::Flashnet),
            ("length,latency_us,op,time_us,offset\n4096,134,R,7100,8192\n", Format::Csv),
            ("128166372003061629,usr,0,Read,8192,4096,1340\n", Format::Msr),
            ("R Doub 16 8 134.0 100.0\n", Format::DisksimValidate),
            ("7, 134000, 0, 4096, 8192, 0\n", Format::FioLog),
            ("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n1.5 a b 7 sda RM 16 4096 0.134\n", Format::Biosnoop),
        ] {
            let all = read(text, None).unwrap_or_else(|error| panic!("{}: {error}", format.name()));
            let [one] = all[..] else { panic!("{}: {all:?}", format.name()) };
            assert_eq!((one.request.op, one.request.offset, one.request.len), (Op::Read, Bytes(8192), Bytes(4096)));
            assert_eq!((one.request.at, one.latency), (Nanos::ZERO, Nanos(134_000)), "{}", format.name());
            assert_eq!(read(text, Some(format)).unwrap(), all);
        }
    }

    #[test]
    fn requests_come_in_the_order_of_their_submission() {
        let all = read("time_us,op,offset,length,latency_us\n50,W,0,512,1\n40,R,0,1024,2\n", None).unwrap();
        assert_eq!((all[0].request.len, all[1].request.at), (Bytes(1024), Nanos(10_000)));
    }

    #[test]
    fn rubbish_is_one_clear_line() {
        let line = "0.0,134,1,4096,8192,0.1,4096\n";
        for (text, part) in [
            ("".to_owned(), "no request in it"),
            ("hello\n".to_owned(), "fits no trace format"),
            (format!("{line}{line}0.0,x,1,4096,8192,0.1,4096\n"), ":3: the latency is not a number"),
            (format!("{line}{line}0.0,1e19,1,4096,8192,0.1,4096\n"), "the latency is not a number"),
            (format!("{line}{line}0.0,9,2,4096,8192,0.1,4096\n"), "the op is none of"),
            ("7, 134000, 0, 4096, 8192\n8, 134000, 0, 4096, 8192\n9, 134000, 0, 4096\n".to_owned(), "fewer columns"),
            ("time_us,op,offset,length\n0,R,0,512\n".to_owned(), "requests without a latency"),
            ("8,0 1 1 1.0 5 Q R 8 + 8 [x]\n".to_owned(), "requests without a latency"),
        ] {
            let message = read(&text, None).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains('\n'), "{text}: {message}");
        }
    }
}
