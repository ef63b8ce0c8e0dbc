//! Volumes are found by their names, and their servers by either. The fear: a verb asks another volume's server, or none.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn peryton(at: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peryton"));
    command.args(args).current_dir(at).env("XDG_CONFIG_HOME", at.join("config")).env("XDG_RUNTIME_DIR", at.join("run"));
    command
}

fn run(at: &Path, args: &[&str]) -> Output {
    peryton(at, args).output().unwrap()
}

/// Checks that a run failed with one line that has these parts.
fn fails(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "no '{part}' in: {said}"));
}

/// A server, which is stopped at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_volume_is_found_by_its_name_and_by_its_design() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("config/peryton")).unwrap();
    let name = format!("of-a-test-{}", std::process::id());
    let design = format!("config/peryton/{name}.toml");
    let options =
        ["--fast", "a.img", "--fast-size", "64MiB", "--slow", "b.img", "--size", "256MiB", "--fast-profile", "fixed"];
    let made = run(at, &[&["create", &design][..], &options].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(run(at, &["check", &name]).status.success());
    fails(
        &run(at, &["status", &name]),
        3,
        &[&format!("'{name}' is not being served"), &format!("peryton serve {name}")],
    );

    let mut child = peryton(at, &["serve", &name]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let server = Server(child);
    assert!(line.contains(&format!("run/peryton/{name}/nbd")), "{line}");
    // From another folder, and through a link to the folder of designs.
    fs::create_dir(at.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(at.join("config"), at.join("link")).unwrap();
    for named in [name.clone(), at.join(&design).display().to_string(), format!("link/peryton/{name}.toml")] {
        let status = run(at, &["status", &named]);
        assert!(status.status.success(), "{named}: {}", String::from_utf8_lossy(&status.stderr));
    }
    let listed = String::from_utf8(run(at, &["list"]).stdout).unwrap();
    let row = listed.lines().find(|line| line.contains(&name)).unwrap_or_else(|| panic!("{listed}"));
    assert!(row.contains("served") && !row.contains("not served"), "{row}");
    let socket = format!("run/peryton/{name}/control");
    fails(&run(at, &["status", &socket]), 2, &["is a socket"]);
    assert!(run(at, &["status", &name.to_string(), "--control", &socket]).status.success());
    assert!(run(at, &["writeback", &name, "--wait"]).status.success());
    drop(server);
    fails(&run(at, &["events", &name]), 3, &["is not being served"]);
}

#[test]
fn what_is_absent_or_ambiguous_gets_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::create_dir_all(at.join("config/peryton")).unwrap();
    for name in ["attic", "cellar"] {
        fs::write(at.join(format!("config/peryton/{name}.toml")), "").unwrap();
    }
    fs::write(at.join("attic"), "").unwrap();
    fs::write(at.join("here.toml"), "").unwrap();
    fails(&run(at, &["check", "attic"]), 2, &["may be ", "attic.toml", "./attic", "give the path"]);
    fails(&run(at, &["check", "cellr"]), 2, &["no such volume", "/etc/peryton", "did you mean 'cellar'"]);
    fails(&run(at, &["status", "here"]), 2, &["no such volume", "here.toml is here"]);
    fails(&run(at, &["status", "nowhere.toml"]), 2, &["nowhere.toml", "give the path of a design"]);
    fails(&run(at, &["status", ""]), 2, &["NAME"]);
    fails(&run(at, &["export", "attic"]), 2, &["may be ", "give the path"]);
}
