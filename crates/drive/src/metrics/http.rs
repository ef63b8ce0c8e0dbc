//! As much of HTTP as a scrape needs: one GET on a connection, whose answer is known as a whole.

use std::{
    io::{self, Read, Write},
    time::Instant,
};

/// The most bytes of a request; a scraper's has a few hundred.
pub(super) const LONGEST_REQUEST: usize = 8 << 10;
/// The most header lines of a request.
pub(super) const MOST_HEADERS: usize = 64;

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// What Prometheus has asked for since 2018.
    OpenMetrics,
    /// The older text format, for everything else.
    Plain,
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Metrics {
        format: Format,
        with_body: bool,
    },
    /// An answer without metrics, and why.
    Refused(&'static str, &'static str),
}

/// A connection with a deadline for each read and write.
pub(super) trait Deadline {
    fn set_deadline(&self, deadline: Instant) -> io::Result<()>;
}

/// Reads a request. `None`: the other end has hung up without asking anything.
///
/// # Errors
/// The connection is broken, or the deadline is over.
pub(super) fn read(stream: &mut (impl Read + Deadline), deadline: Instant) -> io::Result<Option<Asked>> {
    let (mut bytes, mut len) = ([0; LONGEST_REQUEST], 0);
    loop {
        stream.set_deadline(deadline)?;
        match stream.read(&mut bytes[len..]) {
            Ok(0) if len == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(asked) = parse(&bytes[..len]) {
            return Ok(Some(asked));
        }
        if len == LONGEST_REQUEST {
            return Ok(Some(Asked::Refused("431 Request Header Fields Too Large", "too long a request\n")));
        }
    }
}

/// What the bytes ask for; `None` if more are needed.
fn parse(bytes: &[u8]) -> Option<Asked> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Some(Asked::Refused("431 Request Header Fields Too Large", "too many headers\n"));
        }
        Err(_) => return Some(Asked::Refused("400 Bad Request", "this is not HTTP\n")),
    }
    let with_body = match request.method {
        Some("GET") => true,
        Some("HEAD") => false,
        _ => return Some(Asked::Refused("405 Method Not Allowed", "only GET\n")),
    };
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    if path != "/metrics" {
        return Some(Asked::Refused("404 Not Found", "see /metrics\n"));
    }
    let accepts = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("accept");
    let accepted = request.headers.iter().filter(accepts);
    let openmetrics = b"application/openmetrics-text";
    let asks = |value: &[u8]| value.to_ascii_lowercase().windows(openmetrics.len()).any(|part| part == openmetrics);
    let format = if accepted.map(|header| header.value).any(asks) { Format::OpenMetrics } else { Format::Plain };
    Some(Asked::Metrics { format, with_body })
}

/// Sends an answer; the connection is closed after it.
///
/// # Errors
/// The connection is broken, or the deadline is over.
pub(super) fn answer(
    stream: &mut (impl Write + Deadline),
    deadline: Instant,
    (status, format, body, with_body): (&str, Format, &str, bool),
) -> io::Result<()> {
    let kind = if status.starts_with("200") { format.content_type() } else { "text/plain; charset=utf-8" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if with_body { body } else { "" };
    for part in [head.as_bytes(), body.as_bytes()] {
        let mut rest = part;
        while !rest.is_empty() {
            stream.set_deadline(deadline)?;
            match stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMETHEUS: &str = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9469\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: \
        application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;\
        version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n";

    fn metrics(format: Format) -> Option<Asked> {
        Some(Asked::Metrics { format, with_body: true })
    }

    #[test]
    fn scrapers_are_understood_and_others_refused() {
        assert_eq!(parse(PROMETHEUS.as_bytes()), metrics(Format::OpenMetrics));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nAccept: */*\r\n\r\n"), metrics(Format::Plain));
        assert_eq!(parse(b"GET /metrics?x=y HTTP/1.0\r\n\r\n"), metrics(Format::Plain));
        let head = Some(Asked::Metrics { format: Format::Plain, with_body: false });
        assert_eq!(parse(b"HEAD /metrics HTTP/1.1\r\n\r\n"), head);
        let headers = "a: b\r\n".repeat(MOST_HEADERS + 1);
        for (text, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET http://x/metrics HTTP/1.1\r\n\r\n", "404"),
            ("\x16\x03\x01 hello", "400"),
            (&format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"), "431"),
        ] {
            assert!(matches!(parse(text.as_bytes()), Some(Asked::Refused(is, _)) if is.starts_with(status)), "{text}");
        }
    }

    /// A peer that sends these bytes, then nothing; or the same byte without end.
    struct Peer<'a>(&'a [u8], bool);

    impl Read for Peer<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.1 {
                into.fill(self.0[0]);
                return Ok(into.len());
            }
            let len = into.len().min(self.0.len()).min(7);
            into[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    impl Deadline for Peer<'_> {
        fn set_deadline(&self, _: Instant) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_request_may_come_in_pieces_and_an_endless_one_is_not_kept() {
        let now = Instant::now();
        let read = |bytes, endless| read(&mut Peer(bytes, endless), now);
        assert_eq!(read(PROMETHEUS.as_bytes(), false).unwrap(), metrics(Format::OpenMetrics));
        assert_eq!(read(b"", false).unwrap(), None);
        assert!(read(&PROMETHEUS.as_bytes()[..100], false).is_err());
        assert!(matches!(read(b"G", true).unwrap(), Some(Asked::Refused("431 Request Header Fields Too Large", _))));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 0_usize..200) {
            let _ = read(&mut Peer(&bytes, false), Instant::now());
            let mut nearly = PROMETHEUS.as_bytes()[..cut].to_vec();
            nearly.extend_from_slice(&bytes);
            let _ = read(&mut Peer(&nearly, false), Instant::now());
        }
    }
}
