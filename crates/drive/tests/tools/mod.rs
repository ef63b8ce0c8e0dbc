//! External programs that tests run.

use std::process::Output;

/// The output of a tool that must succeed.
pub fn out_of(tool: &str, arguments: &[&str], output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tool} {arguments:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}
