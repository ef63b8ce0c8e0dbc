//! Finds the shipped profiles: every `profiles/*.toml` is built in under the name of its file.

use std::{env, fmt::Write, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=profiles");
    let mut names = Vec::new();
    for entry in fs::read_dir("profiles")? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".toml")) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    let mut list = String::from("&[\n");
    for name in names {
        let path = format!("/profiles/{name}.toml");
        // Writing into a string cannot fail.
        let _ = writeln!(list, "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(PathBuf::from(out).join("shipped.rs"), list)
}
