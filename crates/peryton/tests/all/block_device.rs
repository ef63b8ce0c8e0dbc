//! The fear: on a machine without ublk, or without permission for it, the errors do not say what to do. (What works where there is
//! ublk is tested by `scripts/kernel/block_device.py`.)

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn peryton(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_peryton")).args(arguments).output().unwrap()
}

fn design(folder: &Path) -> String {
    let design = folder.join("my.toml");
    let text = "[devices.disk]\nprofile = \"fixed\"\nsize = \"8MiB\"\npath = \"disk.img\"\n[placement]\nmode = \"single\"\ndevice = \"disk\"\n";
    fs::write(&design, text).unwrap();
    design.to_str().unwrap().to_owned()
}

/// The only line that the program wrote to standard error.
fn error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), text.lines().count()), (Some(2), 1), "{text}");
    text
}

#[test]
fn without_ublk_the_error_names_the_kernel_the_module_and_nbd() {
    if Path::new("/dev/ublk-control").exists() {
        eprintln!("skipped: this machine has ublk");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let design = design(folder.path());
    assert!(peryton(&["create", &design]).status.success());
    // What a verb says of a way out is a way that it has.
    for (arguments, way) in [
        (&["serve", &design, "--ublk"][..], "(leave out --ublk, and use nbd-client)"),
        (&["supervise", &design, "--give-up-after", "1s"], "; peryton serve needs no ublk, for NBD"),
        (&["disconnect", "/dev/ublkb0"], "of 6.5 or later"),
    ] {
        let error = error(&peryton(arguments));
        for word in ["6.0", "6.5", "ublk_drv"] {
            assert!(error.contains(word), "{arguments:?}: no '{word}' in {error}");
        }
        assert!(error.trim_end().ends_with(way), "{arguments:?}: {error}");
    }
    // Nothing was opened: the volume is as it was.
    assert!(peryton(&["check", &design]).status.success());
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let design = design(folder.path());
    for other in ["--no-io-uring", "--no-direct"] {
        let error = error(&peryton(&["serve", &design, "--ublk", other]));
        assert!(error.contains("--ublk") && error.contains(other), "{error}");
    }
    for (option, value) in [("--ublk-queues", "2"), ("--ublk-depth", "8"), ("--ublk-block", "4KiB")] {
        let error = error(&peryton(&["serve", &design, option, value]));
        assert!(error.contains("--ublk"), "{error}");
    }
}
