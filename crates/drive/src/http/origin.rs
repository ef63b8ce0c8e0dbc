//! Whether a request comes from this machine's own user, as far as a browser says. Any page of the network can make a browser send
//! requests here: under a name of its own that it lets point here (DNS rebinding), or from its own origin.

use std::net::IpAddr;

use super::{
    answer::{Answer, Status},
    request::Request,
};

/// Whether the text of a `Host` header, or of an origin after its scheme, names this machine: `localhost` or a loopback
/// address, with any port, because the way here may lead through another one (`ssh -L`).
fn is_own(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((name, rest)) => (name, rest.strip_prefix(':').or(rest.is_empty().then_some("0"))),
        None if host.starts_with('[') => return false,
        None => host.split_once(':').map_or((host, Some("0")), |(name, port)| (name, Some(port))),
    };
    if port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return false;
    }
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() && (address.is_ipv6() == host.starts_with('[')),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Refuses requests under a name that is not this machine's.
///
/// # Errors
/// The answer to the request.
pub(crate) fn check_host(request: &Request) -> Result<(), Answer> {
    match request.header("host")? {
        Some(host) if is_own(host) => Ok(()),
        Some(_) => Err(Answer::refused(
            Status::Forbidden,
            "this address is served under the names localhost and 127.0.0.1 only; a proxy has to send one of them as Host",
        )),
        None => Err(Answer::refused(Status::BadRequest, "the request has no Host")),
    }
}

/// Refuses requests that a browser makes for a page of another origin.
///
/// # Errors
/// The answer to the request.
pub(crate) fn check_origin(request: &Request) -> Result<(), Answer> {
    let foreign = || Answer::refused(Status::Forbidden, "pages of other origins get nothing here");
    if request.header("sec-fetch-site")?.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err(foreign());
    }
    let Some(origin) = request.header("origin")? else { return Ok(()) };
    let same = origin.strip_prefix("http://").zip(request.header("host")?);
    if same.is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host)) { Ok(()) } else { Err(foreign()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        for own in ["localhost", "LocalHost:9469", "127.0.0.1", "127.0.0.1:80", "127.8.9.1:1", "[::1]", "[::1]:9469"] {
            assert!(is_own(own), "{own}");
        }
        for foreign in [
            "",
            "example.org",
            "example.org:9469",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "127.0.0.1:9469.example.org",
            "127.0.0.1@example.org",
            "192.168.1.1:9469",
            "[::2]",
            "[::1",
            "[::1]x",
            "::1",
            "[127.0.0.1]",
            "0.0.0.0",
            "2130706433",
            "localhost:",
            "localhost:x",
        ] {
            assert!(!is_own(foreign), "{foreign}");
        }
    }

    #[test]
    fn requests_of_foreign_pages_are_refused() {
        let ask = |headers: &str| Request::parsed(&format!("GET / HTTP/1.1\r\n{headers}\r\n"));
        let host = |headers: &str| check_host(&ask(headers)).map_err(|answer| answer.status);
        assert_eq!(host("Host: localhost:1\r\n"), Ok(()));
        assert_eq!(host("Host: rebound.example:9469\r\n"), Err(Status::Forbidden));
        assert_eq!(host(""), Err(Status::BadRequest));
        assert_eq!(host("Host: localhost\r\nHost: x\r\n"), Err(Status::BadRequest));
        let origin = |headers: &str| {
            check_origin(&ask(&format!("Host: localhost:1\r\n{headers}"))).map_err(|answer| answer.status)
        };
        for fine in
            ["", "Origin: http://localhost:1\r\n", "Sec-Fetch-Site: same-origin\r\n", "Sec-Fetch-Site: none\r\n"]
        {
            assert_eq!(origin(fine), Ok(()), "{fine}");
        }
        for foreign in [
            "Origin: http://localhost:2\r\n",
            "Origin: https://localhost:1\r\n",
            "Origin: null\r\n",
            "Origin: http://example.org\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\n",
        ] {
            assert_eq!(origin(foreign), Err(Status::Forbidden), "{foreign}");
        }
    }
}
