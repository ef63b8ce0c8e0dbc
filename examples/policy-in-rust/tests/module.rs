//! The fear: the template no longer builds. `cargo test` builds the module because of this test; crates/python/tests use it.

#[test]
#[cfg(target_os = "linux")]
fn the_module_has_its_entry() {
    let beside = std::env::current_exe().expect("a program has a path").with_file_name("libmy_policies.so");
    let bytes = std::fs::read(&beside).unwrap_or_else(|error| panic!("{}: {error}", beside.display()));
    assert!(bytes.windows(19).any(|window| window == b"PyInit_my_policies\0"));
}
