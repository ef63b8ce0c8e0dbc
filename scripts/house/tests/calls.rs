//! The fear: one object is cut into files that call each other in a circle, so that no file can be read alone.
#![allow(missing_docs, clippy::unwrap_used)]

use std::{fs, path::Path};

use house::{Circle, Known, Workspace, call_violations, circles_of_calls};

/// Circles that are larger than they may be: crate, type, files, lines. They only shrink, and leave the table when they are small enough.
const KNOWN: &[Known] = &[];

#[test]
fn no_large_circle_of_calls_but_those_that_are_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let circles = circles_of_calls(&root, &Workspace::read(&root).unwrap()).unwrap();
    let found = call_violations(&circles, KNOWN);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The circles of a small crate of these files.
fn circles(files: &[(&str, String)]) -> Vec<Circle> {
    let root = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = root.path().join("crates/low").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("Cargo.toml", "[package]\nname = 'peryton-low'\n");
    let modules: String = files.iter().map(|(name, _)| format!("mod {name};\n")).collect();
    put("src/lib.rs", &format!("pub struct Low;\n{modules}"));
    for (name, text) in files {
        put(&format!("src/{name}.rs"), text);
    }
    circles_of_calls(root.path(), &Workspace::read(root.path()).unwrap()).unwrap()
}

/// Files of which each calls the next one, and the last one the first, in this way.
fn ring(files: usize, text: impl Fn(usize, usize) -> String) -> Vec<Circle> {
    let names: Vec<String> = (0..files).map(|index| format!("f{index}")).collect();
    let made: Vec<(&str, String)> =
        names.iter().enumerate().map(|(index, name)| (&**name, text(index, (index + 1) % files))).collect();
    circles(&made)
}

#[test]
fn a_circle_is_found_however_the_calls_are_written() {
    let ways: [fn(usize, usize) -> String; 8] = [
        |at, next| {
            format!("impl crate::Low {{ pub(crate) fn m{at}(&mut self) {{ if true {{ self.m{next}(); }} }} }}\n")
        },
        |at, next| format!("use crate::Low;\nimpl Low {{ fn m{at}(&mut self) {{ Self::m{next}(self); }} }}\n"),
        |at, next| {
            format!("use crate::Low;\nimpl Low {{ fn m{at}(&mut self) {{ let _ = [1].map(|_| self.m{next}()); }} }}\n")
        },
        |at, next| {
            format!("use crate::Low;\nimpl Low {{ fn m{at}(&mut self) {{ assert!(1 > 0 && !self.m{next}()); }} }}\n")
        },
        |at, next| format!("use crate::Low;\npub(crate) fn m{at}(low: &mut Low) {{ crate::f{next}::m{next}(low); }}\n"),
        |at, next| format!("use crate::Low;\npub(crate) fn m{at}(low: &mut Low) {{ (*low).m{next}(); }}\n"),
        |at, next| {
            format!(
                "use crate::Low;\nimpl Low {{}}\nstruct T{at};\nimpl T{at} {{ fn m{at}(&self, low: &mut Low) {{ self.x.m{next}(&mut *low); }} }}\n"
            )
        },
        |at, next| {
            format!("use crate::Low;\ntype L = Low;\nimpl Run{at} for L {{ fn m{at}(&self) {{ self.m{next}(); }} }}\n")
        },
    ];
    for (way, text) in ways.into_iter().enumerate() {
        let found = ring(7, text);
        assert_eq!(
            found.iter().map(|circle| (&*circle.kind, circle.files.len())).collect::<Vec<_>>(),
            [("Low", 7)],
            "way {way}"
        );
        assert_eq!(call_violations(&found, &[]).len(), 1, "way {way}");
        assert!(call_violations(&ring(6, text), &[]).is_empty(), "way {way}: six may");
    }
}

#[test]
fn lines_count_and_those_of_tests_do_not() {
    let call = |at: usize, next: usize| format!("impl crate::Low {{ fn m{at}(&self) {{ self.m{next}(); }} }}\n");
    let long = |at, next| call(at, next) + &"// a line\n".repeat(600);
    let tested = |at, next| call(at, next) + "#[cfg(test)]\nmod tests {\n" + &"// a line\n".repeat(800) + "}\n";
    let found = ring(3, long);
    assert_eq!((found[0].files.len(), found[0].lines), (3, 1803));
    assert_eq!(call_violations(&found, &[]).len(), 1);
    assert!(call_violations(&ring(3, tested), &[]).is_empty());
}

#[test]
fn calls_that_go_down_or_to_another_object_are_no_circle() {
    let down = circles(&[
        ("a", "impl crate::Low { fn a(&self) { self.b(); } }".to_owned()),
        ("b", "impl crate::Low { fn b(&self) { self.rows.a(); other.a(); } }\n#[cfg(test)]\nmod tests { impl crate::Low { fn t(&self) { self.a(); } } }".to_owned()),
    ]);
    assert_eq!(down, []);
}

#[test]
fn a_known_circle_may_only_shrink() {
    let found = ring(8, |at, next| format!("impl crate::Low {{ fn m{at}(&self) {{ self.m{next}(); }} }}\n"));
    let lines = found[0].lines;
    assert!(call_violations(&found, &[("low", "Low", 8, lines)]).is_empty());
    assert!(call_violations(&found, &[("low", "Low", 9, lines + 5)]).is_empty());
    for grown in [("low", "Low", 7, lines), ("low", "Low", 8, lines - 1)] {
        let said = call_violations(&found, &[grown]);
        assert!(said.len() == 1 && said[0].contains("8 files"), "{said:?}");
    }
    let said = call_violations(&[], &[("low", "Low", 8, lines)]);
    assert!(said.len() == 1 && said[0].contains("is gone"), "{said:?}");
}
