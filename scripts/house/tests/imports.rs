//! The fear: the layers in ARCHITECTURE.md differ from those of the code.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{fs, path::Path};

use house::{Rules, Workspace, violations};

#[test]
fn imports_go_as_architecture_md_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = Rules::read(&root.join("ARCHITECTURE.md")).unwrap();
    let found = violations(&Workspace::read(&root).unwrap(), &rules);
    assert!(found.is_empty(), "{} imports break the tables of ARCHITECTURE.md:\n{}", found.len(), found.join("\n"));
}

const TABLES: &str = "\
<!-- imports: crates -->
| crate | may use |
|---|---|
| `low` | – |
| `core` | low |
| `top` | low, core/face |

<!-- imports: core/src -->
| room | may import from |
|---|---|
| `lib.rs` | `face`, `high`, `base` |
| `high` | base, face |
| `face` | base |
| `base` | – |
";

/// A workspace of these files, with crates that depend as TABLES allows.
fn judge(files: &[(&str, &str)]) -> Vec<String> {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("ARCHITECTURE.md", TABLES);
    put("crates/low/Cargo.toml", "[package]\nname = 'peryton-low'\n");
    put("crates/core/Cargo.toml", "[package]\nname = 'peryton-core'\n[dependencies]\nperyton-low = '1'\n");
    put("crates/top/Cargo.toml", "[package]\nname = 'peryton-top'\n[dependencies]\nperyton-core = '1'\n");
    put("crates/low/src/lib.rs", "pub struct Low;\n");
    put("crates/top/src/lib.rs", "use peryton_core::Face;\npub struct Top(Face);\n");
    put("crates/core/src/lib.rs", "mod base;\nmod face;\nmod high;\npub use face::Face;\npub use high::High;\n");
    put("crates/core/src/base/mod.rs", "mod inner;\npub(crate) use inner::Base;\n");
    put("crates/core/src/base/inner.rs", "pub(crate) struct Base;\n");
    put("crates/core/src/face/mod.rs", "pub struct Face(crate::base::Base);\n");
    put("crates/core/src/high/mod.rs", "use crate::{base::Base, face::Face};\npub struct High(Face, Base);\n");
    for (path, text) in files {
        put(path, text);
    }
    let rules = Rules::read(&root.path().join("ARCHITECTURE.md")).unwrap();
    violations(&Workspace::read(root.path()).unwrap(), &rules)
}

fn assert_one(found: &[String], what: &str) {
    assert!(found.len() == 1 && found[0].contains(what), "wanted one line with '{what}', got {found:?}");
}

#[test]
fn a_house_in_order_has_nothing_to_say() {
    assert_eq!(judge(&[]), Vec::<String>::new());
}

#[test]
fn an_import_that_points_up_is_found_however_it_is_written() {
    let up = "base may not import from high";
    let base = "crates/core/src/base/inner.rs";
    for text in [
        "use crate::high::High;\npub(crate) struct Base;\n",
        "use crate::{high::{self, High}};\npub(crate) struct Base;\n",
        "use crate::high as tall;\npub(crate) struct Base;\nfn f(_: tall::High) {}\n",
        "use super::super::high::High;\npub(crate) struct Base;\n",
        "pub(crate) struct Base;\nfn f(_: crate::high::High) {}\n",
        "pub(crate) struct Base;\nfn f() { use crate::high::High; }\n",
        "pub(crate) struct Base;\nfn f() { println!(\"{:?}\", [crate::high::High::new()]); }\n",
        // Imported through the crate's `lib.rs`: the file that defines the name counts.
        "pub(crate) struct Base;\nfn f(_: crate::High) {}\n",
        "use crate::*;\npub(crate) struct Base;\nfn f(_: crate::high::High) {}\n",
    ] {
        assert_one(&judge(&[(base, text)]), up);
    }
}

#[test]
fn modules_that_a_macro_declares_count() {
    let files = [
        ("crates/core/src/base/mod.rs", "mod inner;\npub(crate) use inner::Base;\nmodules! { other }\n"),
        ("crates/core/src/base/other.rs", "use crate::high::High;\nfn f(_: High) {}\n"),
    ];
    assert_one(&judge(&files), "base may not import from high");
}

#[test]
fn tests_may_import_what_they_like() {
    let text = "pub(crate) struct Base;\n#[cfg(test)]\nmod tests { use crate::high::High; }\n#[cfg(test)]\nuse crate::high::High;\n";
    assert!(judge(&[("crates/core/src/base/inner.rs", text)]).is_empty());
}

#[test]
fn a_crate_that_uses_one_it_may_not_is_found() {
    let text = "[package]\nname = 'peryton-low'\n[dependencies]\nperyton-top = '1'\n";
    assert_one(&judge(&[("crates/low/Cargo.toml", text)]), "low may not use top");
}

#[test]
fn a_crate_that_uses_more_of_another_than_it_may_is_found() {
    let text = "use peryton_core::{Face, High};\npub struct Top(Face, High);\n";
    assert_one(&judge(&[("crates/top/src/lib.rs", text)]), "top may use of core only face");
}

#[test]
fn a_room_that_no_table_knows_is_found() {
    let files = [
        (
            "crates/core/src/lib.rs",
            "mod base;\nmod face;\nmod high;\nmod attic;\npub use face::Face;\npub use high::High;\n",
        ),
        ("crates/core/src/attic.rs", "use crate::base::Base;\nfn f(_: Base) {}\n"),
    ];
    assert_one(&judge(&files), "attic.rs is not in the table");
}

#[test]
fn seven_files_in_a_circle_are_found_and_six_are_not() {
    let ring = |files: usize| {
        let mut made = Vec::new();
        let mut door = String::from("pub struct Low;\n");
        for index in 0..files {
            door += &format!("mod f{index};\n");
            let next = (index + 1) % files;
            let text = format!("use crate::f{next}::T{next};\npub(crate) struct T{index};\nfn f(_: T{next}) {{}}\n");
            made.push((format!("crates/low/src/f{index}.rs"), text));
        }
        made.push(("crates/low/src/lib.rs".to_owned(), door));
        made
    };
    let judged = |files: usize| {
        let made = ring(files);
        judge(&made.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
    };
    assert!(judged(6).is_empty());
    assert_one(&judged(7), "7 files import each other in a circle");
}
