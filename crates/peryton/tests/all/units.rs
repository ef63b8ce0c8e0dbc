//! The fear: a server that parses what clients send may do more than a volume needs. Skipped where systemd is not installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The exposure that `systemd-analyze security` may find: below 4 it says "OK".
const MOST: f64 = 3.0;

fn extras() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../extras")
}

#[test]
fn units_leave_the_server_few_privileges() {
    let folder = tempfile::tempdir().unwrap();
    for unit in ["peryton", "peryton-nbd"] {
        // A template is analysed as one of its instances.
        let instance = folder.path().join(format!("{unit}@volume.service"));
        fs::copy(extras().join(format!("{unit}@.service")), &instance).unwrap();
        let output = Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(&instance).output();
        let Ok(output) = output else {
            println!("skipped: systemd-analyze is not installed");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let overall = text.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_else(|| {
            panic!("{unit}: {text}{}", String::from_utf8_lossy(&output.stderr));
        });
        let level: f64 = overall.split(": ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(level <= MOST, "{unit}: {overall}\n{text}");
        let text = fs::read_to_string(extras().join(format!("{unit}@.service"))).unwrap();
        for needed in [
            "FileDescriptorStoreMax=",
            "NoNewPrivileges=yes",
            "MemoryDenyWriteExecute=yes",
            "SystemCallFilter=",
            "DeviceAllow=",
        ] {
            assert!(text.contains(needed), "{unit}: without {needed}");
        }
    }
}

/// A removal that cannot find out what is served is refused: without the program no server could take a device over.
#[test]
fn the_package_is_not_removed_if_it_is_not_known_what_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (bin, control) = (folder.path().join("bin"), folder.path().join("ublk-control"));
    fs::create_dir(&bin).unwrap();
    let program = |name: &str, script: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("systemctl", "exit 0");
    let removal = || {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let prerm = extras().join("debian/prerm");
        let output =
            Command::new("sh").arg(prerm).arg("remove").env("PATH", path).env("UBLK_CONTROL", &control).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    program("peryton", "exit 1");
    assert_eq!(removal(), (true, String::new()), "a kernel without ublk");
    fs::write(&control, "").unwrap();
    let (may, why) = removal();
    assert!(!may && why.contains("not known which block devices"), "{why}");
    program("peryton", "echo '[]'");
    assert_eq!(removal(), (true, String::new()));
    program("peryton", "printf '[\\n  {\\n    \"path\": \"/dev/ublkb0\",\\n    \"name\": \"data\"\\n  }\\n]\\n'");
    let (may, why) = removal();
    assert!(!may && why.contains("/dev/ublkb0"), "{why}");
}
