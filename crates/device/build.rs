//! Finds the shipped profiles: every `profiles/*.toml` is built in, under the name of its file, or, where it describes a family of
//! devices, under the names of its members.

use std::{env, fmt::Write, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=profiles");
    let mut names = Vec::new();
    for entry in fs::read_dir("profiles")? {
        let path = entry?.path();
        let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".toml")) else { continue };
        let text = fs::read_to_string(&path)?;
        let members = text.lines().filter_map(|line| line.strip_prefix("[member.\"")?.strip_suffix("\"]"));
        let mut members: Vec<String> = members.map(str::to_owned).collect();
        if members.is_empty() {
            members.push(file.to_owned());
        }
        names.extend(members.into_iter().map(|name| (name, file.to_owned())));
    }
    names.sort_unstable();
    let mut list = String::from("&[\n");
    for (name, file) in names {
        let path = format!("/profiles/{file}.toml");
        // Writing into a string cannot fail.
        let _ = writeln!(list, "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))),");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(PathBuf::from(out).join("shipped.rs"), list)
}
