//! A request of HTTP: one on a connection, of bounded size.

use std::{
    io::{self, Read},
    time::Instant,
};

use super::answer::{Answer, Status};

/// The most bytes of a request's head; a scraper's or a browser's has a few hundred.
pub(super) const LONGEST_HEAD: usize = 8 << 10;
/// The most header lines of a request.
pub(super) const MOST_HEADERS: usize = 64;

/// A request: GET, or HEAD. A body is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Whether the answer is to have no body.
    pub(crate) is_head: bool,
    /// The path, without what follows a question mark.
    pub(crate) path: String,
    /// What follows a question mark.
    query: String,
    headers: Vec<(String, Vec<u8>)>,
}

impl Request {
    /// The values of a header, however often it occurs.
    pub(crate) fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = move |header: &&(String, Vec<u8>)| header.0.eq_ignore_ascii_case(name);
        self.headers.iter().filter(named).map(|header| header.1.as_slice())
    }

    /// The value of a header that may occur once; `None` if it is absent.
    ///
    /// # Errors
    /// It occurs twice, or is no text.
    pub(crate) fn header<'a>(&'a self, name: &'a str) -> Result<Option<&'a str>, Answer> {
        let mut values = self.headers(name);
        match (values.next().map(std::str::from_utf8), values.next()) {
            (None, _) => Ok(None),
            (Some(Ok(text)), None) => Ok(Some(text.trim())),
            _ => Err(Answer::refused(Status::BadRequest, "a header occurs twice or is no text")),
        }
    }

    /// The number in the query under this name; 0 without one, or if it is no number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|pair| pair.0 == name).and_then(|pair| pair.1.parse().ok()).unwrap_or(0)
    }

    /// A request for tests.
    #[cfg(test)]
    pub(crate) fn parsed(text: &str) -> Request {
        match read(&mut Peer(text.as_bytes(), false), Instant::now()) {
            Ok(Some(Ok(request))) => request,
            other => panic!("{text}: {other:?}"),
        }
    }
}

/// A connection with a deadline for each read and write.
pub(super) trait Deadline {
    fn set_deadline(&self, deadline: Instant) -> io::Result<()>;
}

/// Reads a request, or the answer to what is none. `None`: the other end has hung up without asking anything.
///
/// # Errors
/// The connection is broken, or the deadline is over.
pub(super) fn read(
    stream: &mut (impl Read + Deadline),
    deadline: Instant,
) -> io::Result<Option<Result<Request, Answer>>> {
    let (mut bytes, mut len) = ([0; LONGEST_HEAD], 0);
    loop {
        stream.set_deadline(deadline)?;
        match stream.read(&mut bytes[len..]) {
            Ok(0) if len == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        match parse(&bytes[..len]) {
            Ok(None) if len == LONGEST_HEAD => {
                return Ok(Some(Err(Answer::refused(Status::TooLarge, "too long a request"))));
            }
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Some(Ok(request))),
            Err(answer) => return Ok(Some(Err(answer))),
        }
    }
}

/// The request; `None` if more bytes are needed.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Answer> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Answer::refused(Status::TooLarge, "too many headers"));
        }
        Err(_) => return Err(Answer::refused(Status::BadRequest, "this is not HTTP")),
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Answer::refused(Status::NotAllowed, "only GET and HEAD")),
    };
    let (path, query) = request.path.unwrap_or_default().split_once('?').unwrap_or((request.path.unwrap_or(""), ""));
    let headers = request.headers.iter().map(|header| (header.name.to_owned(), header.value.to_vec())).collect();
    Ok(Some(Request { is_head, path: path.to_owned(), query: query.to_owned(), headers }))
}

/// A peer that sends these bytes, then nothing; or the same byte without end.
#[cfg(test)]
pub(super) struct Peer<'a>(pub(super) &'a [u8], pub(super) bool);

#[cfg(test)]
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

#[cfg(test)]
impl Deadline for Peer<'_> {
    fn set_deadline(&self, _: Instant) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMETHEUS: &str = "GET /metrics?x=y&since=17 HTTP/1.1\r\nHost: 127.0.0.1:9469\r\nUser-Agent: Prometheus/2.42.0\r\nAccept: \
        application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;\
        version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip\r\nX-Prometheus-Scrape-Timeout-Seconds: 10\r\n\r\n";

    fn read(text: &[u8], endless: bool) -> io::Result<Option<Result<Request, Answer>>> {
        super::read(&mut Peer(text, endless), Instant::now())
    }

    #[test]
    fn requests_are_understood_in_pieces() {
        let request = Request::parsed(PROMETHEUS);
        assert_eq!((request.is_head, request.path.as_str()), (false, "/metrics"));
        assert_eq!((request.number("since"), request.number("x"), request.number("y")), (17, 0, 0));
        assert_eq!(request.header("HOST").unwrap(), Some("127.0.0.1:9469"));
        assert_eq!(request.header("origin").unwrap(), None);
        assert!(Request::parsed("HEAD / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").is_head, "a body is not read");
        let twice = Request::parsed("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n");
        assert_eq!(twice.header("host").unwrap_err().status, Status::BadRequest);
    }

    #[test]
    fn what_is_no_request_or_too_long_is_refused() {
        let headers = "a: b\r\n".repeat(MOST_HEADERS + 1);
        for (text, status) in [
            ("POST /metrics HTTP/1.1\r\n\r\n".to_owned(), Status::NotAllowed),
            ("OPTIONS * HTTP/1.1\r\n\r\n".to_owned(), Status::NotAllowed),
            ("\x16\x03\x01 hello".to_owned(), Status::BadRequest),
            (format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"), Status::TooLarge),
        ] {
            let answer = read(text.as_bytes(), false).unwrap().unwrap().unwrap_err();
            assert_eq!(answer.status, status, "{text}");
        }
        assert_eq!(read(b"G", true).unwrap().unwrap().unwrap_err().status, Status::TooLarge);
        assert_eq!(read(b"", false).unwrap(), None);
        assert!(read(&PROMETHEUS.as_bytes()[..100], false).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 0_usize..200) {
            let _ = read(&bytes, false);
            let mut nearly = PROMETHEUS.as_bytes()[..cut].to_vec();
            nearly.extend_from_slice(&bytes);
            let _ = read(&nearly, false);
        }
    }
}
