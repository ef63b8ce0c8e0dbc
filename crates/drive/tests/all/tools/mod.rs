//! External programs that tests run.

// Each test uses some of these.
#![allow(dead_code)]

use std::process::{Command, Output};

/// The output of a tool, without white space around it; `None` if the tool is absent or fails.
pub fn output_of(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The output of a tool that must succeed.
pub fn out_of(tool: &str, arguments: &[&str], output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tool} {arguments:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}
