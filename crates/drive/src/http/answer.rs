//! An answer of HTTP, which is known as a whole when it is sent. The connection is closed after it.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::Arc,
    time::Instant,
};

use super::request::Deadline;

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    NotAllowed,
    TooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::Forbidden => "403 Forbidden",
            Status::NotFound => "404 Not Found",
            Status::NotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    kind: &'static str,
    pub(crate) body: Arc<str>,
    /// What a browser lets the body do (`Content-Security-Policy`).
    policy: Arc<str>,
}

/// The policy of everything that is no page.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";

impl Answer {
    /// What was asked for.
    pub(crate) fn of(kind: &'static str, body: impl Into<Arc<str>>) -> Answer {
        Answer { status: Status::Ok, kind, body: body.into(), policy: NOTHING.into() }
    }

    /// JSON.
    pub(crate) fn json(body: String) -> Answer {
        Answer::of("application/json", body)
    }

    /// A page with this policy.
    pub(crate) fn page(body: Arc<str>, policy: Arc<str>) -> Answer {
        Answer { policy, ..Answer::of("text/html; charset=utf-8", body) }
    }

    /// A line that says why there is nothing else.
    pub(crate) fn refused(status: Status, why: &str) -> Answer {
        Answer { status, ..Answer::of("text/plain; charset=utf-8", format!("{why}\n")) }
    }

    /// Sends it.
    ///
    /// # Errors
    /// The connection is broken, or the deadline is over.
    pub(super) fn send(
        &self,
        stream: &mut (impl Write + Deadline),
        deadline: Instant,
        is_head: bool,
    ) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {}\r\n", self.status.line());
        let length = self.body.len();
        let headers = [
            ("Content-Type", self.kind),
            ("Content-Security-Policy", &self.policy),
            // Figures change, so no cache is to keep them.
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Connection", "close"),
        ];
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").expect("a text in memory can be written");
        }
        let more = if self.status == Status::NotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        write!(head, "{more}Content-Length: {length}\r\n\r\n").expect("a text in memory can be written");
        let body = if is_head { "" } else { &*self.body };
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
}
