//! Finds the commit of the sources, whether they differ from it, and a hash of them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Digits of the commit that are shown.
const DIGITS: usize = 12;
/// What a build is made of, below the root of the sources, besides `crates/*/src`.
const ALSO: [&str; 4] = ["Cargo.toml", "Cargo.lock", "crates/device/profiles", "crates/version/build.rs"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=PERYTON_COMMIT");
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    // In a package of its own, the crate is its own root.
    let root = own.ancestors().nth(2).filter(|root| root.join("crates/version/build.rs").is_file()).unwrap_or(&own);
    let mut files = Vec::new();
    for part in parts(root)? {
        println!("cargo::rerun-if-changed={}", part.display());
        files_of(&part, &mut files)?;
    }
    files.sort_unstable();
    let sources = hash(root, &files)?;
    let version = variable("CARGO_PKG_VERSION")?;
    let build = match commit(&own, root) {
        Some((commit, dirty)) => format!("g{commit}{}", if dirty { ".dirty" } else { "" }),
        None => format!("s{}", &sources[..DIGITS]),
    };
    println!("cargo::rustc-env=PERYTON_VERSION={version}+{build}");
    println!("cargo::rustc-env=PERYTON_SOURCES={sources}");
    Ok(())
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

/// The files and folders that a build is made of.
fn parts(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut parts: Vec<PathBuf> = ALSO.iter().map(|part| root.join(part)).collect();
    parts.push(root.join("src"));
    if let Ok(crates) = fs::read_dir(root.join("crates")) {
        for entry in crates {
            parts.push(entry?.path().join("src"));
        }
    }
    parts.retain(|part| part.exists());
    Ok(parts)
}

fn files_of(path: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            files_of(&entry?.path(), into)?;
        }
    } else {
        into.push(path.to_owned());
    }
    Ok(())
}

/// The hash FNV-1a of the names and contents of files.
fn hash(root: &Path, files: &[PathBuf]) -> io::Result<String> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for byte in (bytes.len() as u64).to_le_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for file in files {
        add(file.strip_prefix(root).unwrap_or(file).to_string_lossy().as_bytes());
        add(&fs::read(file)?);
    }
    Ok(format!("{hash:016x}"))
}

/// The commit, and whether the sources differ from it.
fn commit(own: &Path, root: &Path) -> Option<(String, bool)> {
    let written = own.join("commit");
    println!("cargo::rerun-if-changed={}", written.display());
    let given = env::var("PERYTON_COMMIT").ok().and_then(|text| digits(&text));
    let exported = || fs::read_to_string(&written).ok().and_then(|text| digits(&text));
    if let Some(commit) = given.or_else(exported) {
        return Some((commit, false));
    }
    let packaged = own.join(".cargo_vcs_info.json");
    if let Ok(text) = fs::read_to_string(packaged) {
        let after = text.split("\"sha1\"").nth(1)?;
        return Some((digits(after.split('"').nth(1)?)?, text.contains("\"dirty\": true")));
    }
    // A repository that the sources were unpacked in does not know them.
    git(root, &["ls-files", "--error-unmatch", "crates/version/build.rs"])?;
    let head = git(root, &["rev-parse", "HEAD"])?;
    for path in ["HEAD", "logs/HEAD"] {
        let path = root.join(git(root, &["rev-parse", "--git-path", path])?);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let mut status = vec!["status", "--porcelain", "--", ":(glob)crates/*/src/**"];
    status.extend(ALSO);
    let dirty = git(root, &status).is_none_or(|changed| !changed.is_empty());
    Some((digits(&head)?, dirty))
}

/// The first digits of a commit.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    let is_one = text.len() >= DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_one.then(|| text[..DIGITS].to_ascii_lowercase())
}

/// What Git answers, if there is Git, and it knows the folder.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let answer = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}
