//! The modules of a crate, the names in them, and the imports between files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Item, UseTree, visit::Visit};

/// The meaning of a name in a module.
#[derive(Clone, Debug)]
enum Name {
    /// Defined here.
    Defined,
    /// A submodule.
    Module(usize),
    /// Imported, and possibly re-exported, by this path.
    Imported(Vec<String>),
}

#[derive(Debug, Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    names: BTreeMap<String, Name>,
    globs: Vec<Vec<String>>,
    /// All paths of several segments in this module: imports and qualified paths.
    paths: Vec<Vec<String>>,
}

/// A crate, as read from its files.
#[derive(Debug)]
pub struct Crate {
    /// The name without the project's prefix, such as `engine`.
    pub name: String,
    /// Paths relative to `src`.
    pub files: Vec<PathBuf>,
    /// The crates of the project that it depends on.
    pub depends: BTreeSet<String>,
    modules: Vec<Module>,
}

/// All crates of the project.
#[derive(Debug)]
pub struct Workspace {
    /// The crates by name.
    pub crates: BTreeMap<String, Crate>,
}

/// A file: the name of its crate, and its index in [`Crate::files`].
pub type FileOf<'a> = (&'a str, usize);

/// The longest chain of re-exports that is followed; a longer one may be a cycle.
const LONGEST_CHAIN: usize = 16;

impl Workspace {
    /// Reads the crates in the folder `crates` of a checkout.
    ///
    /// # Errors
    /// A message: a file cannot be read or parsed.
    pub fn read(root: &Path) -> Result<Workspace, String> {
        let mut crates = BTreeMap::new();
        let folder = root.join("crates");
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.join("Cargo.toml").exists() {
                let read = Crate::read(&path)?;
                crates.insert(read.name.clone(), read);
            }
        }
        Ok(Workspace { crates })
    }

    /// The imports between files, each from crate and file to crate and file.
    pub fn imports(&self) -> BTreeSet<(FileOf<'_>, FileOf<'_>)> {
        let mut found = BTreeSet::new();
        for (name, read) in &self.crates {
            for (index, module) in read.modules.iter().enumerate() {
                for path in &module.paths {
                    if let Some((of, file)) = self.file_of(name, index, path, LONGEST_CHAIN)
                        && (of, file) != (name.as_str(), module.file)
                    {
                        found.insert(((name.as_str(), module.file), (of, file)));
                    }
                }
            }
        }
        found
    }

    /// The file that defines the name of a path in a module; `None` for modules themselves, and for names outside the
    /// project.
    fn file_of(&self, of: &str, module: usize, path: &[String], left: usize) -> Option<FileOf<'_>> {
        let (name, read) = self.crates.get_key_value(of)?;
        let left = left.checked_sub(1)?;
        let mut at = module;
        let mut rest = path;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = read.modules[at].parent?,
                segment => match read.modules[at].names.get(segment) {
                    Some(Name::Module(inner)) => at = *inner,
                    Some(Name::Defined) => return Some((name, read.modules[at].file)),
                    Some(Name::Imported(target))
                        if target.first().map(String::as_str) != Some(segment) || at != module =>
                    {
                        let whole: Vec<String> = target.iter().chain(after).cloned().collect();
                        return self.file_of(name, at, &whole, left);
                    }
                    _ => return self.elsewhere((name, at), rest, path.len() == rest.len(), left),
                },
            }
            rest = after;
        }
        None
    }

    /// Finds a name that the module does not list: from a glob, or from another crate.
    fn elsewhere(
        &self,
        (of, at): (&str, usize),
        rest: &[String],
        is_start: bool,
        left: usize,
    ) -> Option<(&str, usize)> {
        let (name, read) = self.crates.get_key_value(of)?;
        for glob in &read.modules[at].globs {
            let whole: Vec<String> = glob.iter().chain(rest).cloned().collect();
            if glob.first().map(String::as_str) != Some("super")
                && let Some(found) = self.file_of(name, at, &whole, left)
            {
                return Some(found);
            }
        }
        if is_start {
            let other = rest[0].strip_prefix("peryton_")?;
            let (other, _) = self.crates.get_key_value(other)?;
            return self.file_of(other, 0, &rest[1..], left);
        }
        // The name may be made by a macro of the module itself.
        Some((name, read.modules[at].file))
    }
}

impl Crate {
    fn read(folder: &Path) -> Result<Crate, String> {
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
        let table: toml::Table = text.parse().map_err(|error| format!("{}: {error}", manifest.display()))?;
        let depends = table.get("dependencies").and_then(|list| list.as_table());
        let depends = depends.into_iter().flat_map(|list| list.keys());
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut read = Crate {
            name,
            files: Vec::new(),
            depends: depends.filter_map(|key| key.strip_prefix("peryton-")).map(str::to_owned).collect(),
            modules: Vec::new(),
        };
        let src = folder.join("src");
        for root in ["lib.rs", "main.rs"] {
            if src.join(root).exists() && read.modules.is_empty() {
                read.file(&src, &PathBuf::from(root), None, &src)?;
            }
        }
        Ok(read)
    }

    /// Reads a file as a module. `inside` is the folder of the files of modules in it.
    fn file(&mut self, src: &Path, file: &Path, parent: Option<usize>, inside: &Path) -> Result<usize, String> {
        let path = src.join(file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        self.files.push(file.to_owned());
        let number = self.files.len() - 1;
        self.module(src, number, parent, (inside, true), &parsed.items)
    }

    fn module(
        &mut self,
        src: &Path,
        file: usize,
        parent: Option<usize>,
        (inside, owns_its_folder): (&Path, bool),
        items: &[Item],
    ) -> Result<usize, String> {
        self.modules.push(Module { file, parent, ..Module::default() });
        let index = self.modules.len() - 1;
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let folder = inside.join(&name);
                    let inner = match &module.content {
                        Some((_, items)) => self.module(src, file, Some(index), (&folder, false), items)?,
                        None => {
                            let flat = inside.join(format!("{name}.rs"));
                            let found = if flat.exists() { flat } else { folder.join("mod.rs") };
                            let found = found.strip_prefix(src).unwrap_or(&found).to_owned();
                            self.file(src, &found, Some(index), &folder)?
                        }
                    };
                    self.modules[index].names.insert(name, Name::Module(inner));
                }
                Item::Use(import) => {
                    let here = &mut self.modules[index];
                    imports(&import.tree, &mut Vec::new(), here);
                }
                other => {
                    if let Some(name) = defined(other) {
                        self.modules[index].names.insert(name, Name::Defined);
                    }
                    Paths(&mut self.modules[index].paths).visit_item(other);
                }
            }
        }
        if owns_its_folder {
            self.modules_of_macros(src, index, inside, items)?;
        }
        Ok(index)
    }

    /// Files that no `mod` item names are modules that a macro declares.
    fn modules_of_macros(&mut self, src: &Path, index: usize, inside: &Path, items: &[Item]) -> Result<(), String> {
        let named = |name: &str| items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == name));
        let Ok(folder) = fs::read_dir(inside) else { return Ok(()) };
        let mut found: Vec<PathBuf> = folder.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        found.sort();
        for path in found.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if named(&name) || matches!(name.as_str(), "mod" | "lib" | "main") {
                continue;
            }
            let relative = path.strip_prefix(src).unwrap_or(path).to_owned();
            let inner = self.file(src, &relative, Some(index), &inside.join(&name))?;
            self.modules[index].names.insert(name, Name::Module(inner));
        }
        Ok(())
    }
}

/// Whether something is compiled for tests only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => attribute.path().is_ident("test"),
    })
}

pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn imports(tree: &UseTree, before: &mut Vec<String>, module: &mut Module) {
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            imports(&path.tree, before, module);
            before.pop();
        }
        UseTree::Name(name) => add(before, &name.ident.to_string(), &name.ident.to_string(), module),
        UseTree::Rename(rename) => add(before, &rename.ident.to_string(), &rename.rename.to_string(), module),
        UseTree::Glob(_) => {
            module.paths.push(before.clone());
            module.globs.push(before.clone());
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| imports(tree, before, module)),
    }
}

fn add(before: &[String], name: &str, alias: &str, module: &mut Module) {
    let mut path = before.to_vec();
    let mut alias = alias;
    if name != "self" {
        path.push(name.to_owned());
    } else if alias == "self" {
        alias = before.last().map_or("self", String::as_str);
    }
    module.paths.push(path.clone());
    // A module that is declared here is not replaced by an import.
    if !matches!(module.names.get(alias), Some(Name::Module(_))) {
        module.names.insert(alias.to_owned(), Name::Imported(path));
    }
}

/// Collects paths of more than one segment.
struct Paths<'a>(&'a mut Vec<Vec<String>>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        tokens(&call.tokens, self.0);
        syn::visit::visit_macro(self, call);
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        // A `use` inside a function: its names do not belong to the module, but it is an import.
        let mut inner = Module::default();
        imports(&import.tree, &mut Vec::new(), &mut inner);
        self.0.append(&mut inner.paths);
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Paths among the tokens of a macro call.
fn tokens(stream: &TokenStream, into: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    for token in stream.clone() {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    finish(&mut path, into);
                }
                path.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                finish(&mut path, into);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    tokens(&group.stream(), into);
                }
            }
        }
    }
    finish(&mut path, into);
}

fn finish(path: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
    let whole = std::mem::take(path);
    if whole.len() > 1 {
        into.push(whole);
    }
}
