//! The fear: private words return to documents, comments and messages.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{fs, path::Path};

use house::{Kind, forbidden_words, in_text};

#[test]
fn no_private_word_is_in_the_prose_of_this_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = forbidden_words(&root).unwrap();
    assert!(found.is_empty(), "{} private words:\n{}", found.len(), found.join("\n"));
}

fn lines(kind: Kind, text: &str) -> Vec<(usize, &'static str)> {
    in_text(kind, text).into_iter().map(|(line, word, _)| (line, word)).collect()
}

#[test]
fn comments_and_messages_of_rust_are_read_and_names_are_not() {
    let text = "//! In limbo.\nfn books() -> char { '\"' } // told\nlet a = \"a\\\" strand\"; /* Anew\nbooks */\n";
    assert_eq!(lines(Kind::Rust, text), [(1, "limbo"), (2, "told"), (3, "strand"), (3, "anew"), (4, "books")]);
    let text = "fn told<'a>(limbo: &'a str) {}\nlet b = r#\"say \"whoever\"\"#; let ledger = br\"x\"; // `parked`\nparked();\n";
    assert_eq!(lines(Kind::Rust, text), [(2, "whoever")]);
    assert_eq!(lines(Kind::Rust, "let a = \"one\n two\";\n// told\n"), [(3, "told")]);
    assert!(lines(Kind::Rust, "status[\"ledger\"]").is_empty(), "a key is a name");
    assert_eq!(lines(Kind::Rust, "format!(\"{told} was told\")"), [(1, "told")]);
}

#[test]
fn code_and_quotations_in_markdown_are_not_read() {
    let text = "The paper says \"told\nanew\", and `books` too.\n```\nlimbo\n```\nWhoever reads this.\n\nA 3.5\" disk is parked.\n\nTold.\n";
    assert_eq!(lines(Kind::Markdown, text), [(6, "whoever"), (10, "told")]);
}

#[test]
fn parts_of_words_and_qualified_words_are_allowed() {
    assert!(lines(Kind::Plain, "notebooks retold\nfragmentation\nbusting\n").is_empty());
    assert_eq!(lines(Kind::Plain, "# busting fragmentation"), [(1, "busting")]);
}

#[test]
fn the_file_and_the_better_word_are_named() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("docs")).unwrap();
    fs::create_dir_all(root.path().join("target")).unwrap();
    fs::write(root.path().join("docs/a.md"), "Fine.\nIn limbo.\n").unwrap();
    fs::write(root.path().join("target/b.md"), "In limbo.\n").unwrap();
    fs::write(root.path().join("c.bin"), [0xff, 0xfe]).unwrap();
    assert_eq!(forbidden_words(root.path()).unwrap(), ["docs/a.md:2: 'limbo': say pending free"]);
}
