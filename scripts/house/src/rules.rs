//! The tables of ARCHITECTURE.md, and the imports that violate them.

use std::{collections::BTreeMap, fs, path::Path};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};

use crate::source::{Crate, Workspace};

/// The allowed imports.
#[derive(Debug, Default)]
pub struct Rules {
    /// For each crate, the crates that it may use; `engine/api` means only names that are defined in that folder of
    /// `engine`.
    pub crates: BTreeMap<String, Vec<String>>,
    /// For each crate with a table of its own: the allowed imports of each of its folders and files below `src`.
    pub folders: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// The most files that may import each other in a circle.
pub const LARGEST_CIRCLE: usize = 6;

impl Rules {
    /// Reads the tables that follow the lines `<!-- imports: crates -->` and `<!-- imports: NAME/src -->`, where NAME is a
    /// crate: rows of a name in back-quotes, and the names that it may import from.
    ///
    /// # Errors
    /// A message: the file cannot be read, or has no such table.
    pub fn read(path: &Path) -> Result<Rules, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut rules = Rules::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(what) = line.trim().strip_prefix("<!-- imports: ").and_then(|rest| rest.strip_suffix(" -->"))
            else {
                continue;
            };
            let rows =
                lines.by_ref().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
            let table = rows.filter_map(row).collect();
            match what.strip_suffix("/src") {
                Some(name) => rules.folders.insert(name.to_owned(), table).map(drop),
                None => {
                    rules.crates = table;
                    None
                }
            };
        }
        if rules.crates.is_empty() {
            return Err(format!("{}: it has no table after '<!-- imports: crates -->'", path.display()));
        }
        Ok(rules)
    }
}

/// A row whose first cell is a name in back-quotes; a dash means an empty list.
fn row(line: &str) -> Option<(String, Vec<String>)> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
    let list = cells.next()?.split(',').map(|name| name.trim().trim_matches('`').to_owned());
    Some((name.to_owned(), list.filter(|name| !name.is_empty() && name != "–").collect()))
}

/// The folder or file below `src` that a file belongs to.
fn room(read: &Crate, file: usize) -> String {
    let first = read.files[file].components().next();
    first.map(|part| part.as_os_str().to_string_lossy().into_owned()).unwrap_or_default()
}

/// The violations of the rules, a line each.
pub fn violations(workspace: &Workspace, rules: &Rules) -> Vec<String> {
    let mut found = Vec::new();
    for (name, read) in &workspace.crates {
        let Some(allowed) = rules.crates.get(name) else {
            found.push(format!("the crate {name} is not in the table of crates"));
            continue;
        };
        let may = |other: &str| allowed.iter().any(|entry| entry.split('/').next() == Some(other));
        for other in read.depends.iter().filter(|other| !may(other)) {
            found.push(format!("crates/{name}/Cargo.toml: {name} may not use {other}"));
        }
    }
    let mut graph = DiGraphMap::<(&str, usize), ()>::new();
    for ((from, file), (to, other)) in workspace.imports() {
        let (reader, read) = (&workspace.crates[from], &workspace.crates[to]);
        let (path, taken) = (reader.files[file].display(), read.files[other].display());
        if from != to {
            let parts: Vec<_> = rules.crates.get(from).into_iter().flatten().collect();
            let folders: Vec<_> = parts.iter().filter_map(|part| part.strip_prefix(to)?.strip_prefix('/')).collect();
            if !folders.is_empty() && !folders.contains(&room(read, other).as_str()) {
                found.push(format!(
                    "crates/{from}/src/{path}: {from} may use of {to} only {}, and this is from {taken}",
                    folders.join(", ")
                ));
            }
            continue;
        }
        graph.add_edge((from, file), (to, other), ());
        let Some(folders) = rules.folders.get(from) else { continue };
        let (above, below) = (room(reader, file), room(read, other));
        match folders.get(&above) {
            None => found.push(format!("crates/{from}/src/{path}: {above} is not in the table of {from}")),
            Some(allowed) if above != below && !allowed.contains(&below) => {
                found.push(format!("crates/{from}/src/{path}: {above} may not import from {below} ({taken})"));
            }
            Some(_) => {}
        }
    }
    for circle in tarjan_scc(&graph).iter().filter(|circle| circle.len() > LARGEST_CIRCLE) {
        let mut files: Vec<String> = circle
            .iter()
            .map(|&(name, file)| format!("crates/{name}/src/{}", workspace.crates[name].files[file].display()))
            .collect();
        files.sort();
        found.push(format!(
            "{} files import each other in a circle, and {LARGEST_CIRCLE} may: {}",
            files.len(),
            files.join(", ")
        ));
    }
    found
}
