//! The fear: documents name files and tests that no longer exist.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{fs, path::Path};

use house::broken_references;

#[test]
fn what_documents_refer_to_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = broken_references(&root).unwrap();
    assert!(found.is_empty(), "{} references lead nowhere:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_link_a_path_and_a_name_that_do_not_exist_are_found() {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        fs::create_dir_all(root.path().join(path).parent().unwrap()).unwrap();
        fs::write(root.path().join(path), text).unwrap();
    };
    put("crates/a.rs", "fn a_test_that_is_there() {}");
    put(
        "docs/a.md",
        "[a](z.md#c) [b](../crates/a.rs) [c](https://x.y/z) [d](#e)\n`crates/b.rs` `crates/a.rs` `crates/*.rs`\n",
    );
    put(
        "docs/b.md",
        "```\nrun crates/a.rs --x=crates/c.rs 'crates/*.rs' crates/*.py\n```\nrun crates/d.rs\n    run crates/e.rs\n",
    );
    put("docs/c.md", "`a_test_that_is_there` `a_test_that_is_gone` `three_words_only` `a_test that_is not_a_name`\n");
    put("CHANGELOG.md", "`a_name_that_was_changed` [a](gone.md)\n");
    let found = broken_references(root.path()).unwrap();
    let wanted = [
        "CHANGELOG.md:1: 'gone.md' does not exist",
        "docs/a.md:1: 'z.md' does not exist",
        "docs/a.md:2: 'crates/b.rs' does not exist",
        "docs/b.md:2: 'crates/c.rs' does not exist",
        "docs/b.md:2: 'crates/*.py' does not exist",
        "docs/b.md:5: 'crates/e.rs' does not exist",
        "docs/c.md:1: 'a_test_that_is_gone' does not exist",
    ];
    assert_eq!(found, wanted);
}
