//! Where pages and metrics are served: for programs of this machine only, because they are served without authentication.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

/// Where pages and metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket, which its owner alone may use.
    Unix(PathBuf),
    /// An address that only programs of this machine reach.
    Loopback(SocketAddr),
}

const EXPECTED: &str = "give unix:PATH, or an address of this machine's own such as 127.0.0.1:9469";

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(format!("'{text}' has no path: {EXPECTED}")),
                path => Ok(Address::Unix(path.into())),
            };
        }
        let address = match text.strip_prefix("localhost:").map(str::parse) {
            Some(Ok(port)) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
            _ => text.parse().ok(),
        };
        match address {
            None => Err(format!("'{text}': {EXPECTED}")),
            Some(address) if !address.ip().is_loopback() => Err(format!(
                "{text} can be reached from other machines, and figures are served without authentication: {EXPECTED}, and \
                 a proxy in front of it"
            )),
            Some(address) => Ok(Address::Loopback(address)),
        }
    }
}

impl Address {
    /// What a client is given to get what is at this path; of a unix socket it is the socket.
    pub fn url(&self, path: &str) -> String {
        match self {
            Address::Unix(socket) => format!("unix:{}", socket.display()),
            Address::Loopback(address) => format!("http://{address}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached() {
        for (text, shown) in [
            ("unix:/run/m.sock", "unix:/run/m.sock"),
            ("unix:m", "unix:m"),
            ("127.0.0.1:9469", "http://127.0.0.1:9469/metrics"),
            ("127.9.9.9:1", "http://127.9.9.9:1/metrics"),
            ("[::1]:9469", "http://[::1]:9469/metrics"),
            ("localhost:9469", "http://127.0.0.1:9469/metrics"),
        ] {
            assert_eq!(text.parse::<Address>().map(|address| address.url("/metrics")), Ok(shown.to_owned()));
        }
        for (text, why) in [
            ("0.0.0.0:9469", "other machines"),
            ("[::]:9469", "other machines"),
            ("192.168.1.2:9469", "other machines"),
            ("[::ffff:192.168.1.2]:9469", "other machines"),
            ("example.org:9469", "give unix:PATH"),
            ("127.0.0.1", "give unix:PATH"),
            ("localhost:99999", "give unix:PATH"),
            ("unix:", "has no path"),
            ("/run/m.sock", "give unix:PATH"),
            ("", "give unix:PATH"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
