//! A running `peryton serve` with a listener for browsers or scrapers.
#![allow(dead_code)] // not every test uses all of it

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;

/// A server with an address of HTTP, which is killed with the test.
pub struct Web {
    pub child: Child,
    /// The line that it prints at the start.
    pub start: Value,
    /// The port of the metrics; 0 on a unix socket.
    pub port: u16,
}

impl Web {
    /// Serves `v.toml` in the folder with more arguments.
    pub fn start(folder: &Path, more: &[&str]) -> Web {
        let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
        command.args(["serve", "v.toml", "--json"]).args(more).current_dir(folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let start: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("it does not start: {line}"));
        let address = start["metrics"].as_str().unwrap();
        let port = address.split(':').nth(2).and_then(|rest| rest.split('/').next());
        Web { port: port.map_or(0, |port| port.parse().unwrap()), child, start }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// The head and the body of an answer.
    pub fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        // A server that refuses early may have closed the connection already.
        let _ = stream.write_all(request.as_bytes());
        answer(stream)
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

/// The head and the body of an answer, to its end.
pub fn answer(mut stream: impl Read) -> (String, String) {
    let mut text = Vec::new();
    // A reset after the answer means that not all of the request was read.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (format!("{head}\r\n"), body.to_owned())
}
