//! The fear: the extension module needs a library of Python, which many machines do not have, or Python does not find it.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{env, fs};

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
#[cfg(target_os = "linux")]
fn the_module_has_its_entry_and_needs_no_library_of_python() {
    let beside = env::current_exe().unwrap();
    let bytes = fs::read(beside.with_file_name("libperyton_python.so")).unwrap();
    assert!(contains(&bytes, "PyInit__native"));
    assert!(!contains(&bytes, "libpython3"), "it is linked with a library of Python");
}
