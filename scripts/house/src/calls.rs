//! Circles of calls, which imports do not show: a type whose methods stand in several files is one object, however many
//! files it is cut into, and each of these files may call each other through `self`.
//!
//! A function belongs to a type if it is in an `impl` of it (inherent or of a trait), or if its first parameter besides
//! `self` is an exclusive reference to it, so that a circle does not end where `self.step()` becomes `step(drive)`. A call
//! counts if it is made on such a value or is given one: `self.step()`, `drive.step()`, `Self::step()`, `step(drive)`,
//! `self.moves.step(drive)`. It is found by its name among the functions of that type, in macros as well. A value that a
//! closure or a local variable has by another name is not seen.
//!
//! Judged are types of which three files or more have an `impl`, or functions that stand alone and take it so: others are
//! passed along, as a clock is, and are not what is cut into files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::{Expr, FnArg, Pat, Signature, Type, visit::Visit};

use crate::source::{Workspace, is_for_tests};

/// The most files of one type that may call each other in a circle.
pub const MOST_FILES: usize = 6;
/// The most lines that these files may have.
pub const MOST_LINES: usize = 1_500;

/// A type is judged if as many files have functions of it.
const FEWEST_FILES: usize = 3;

/// Files of one type that call each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The crate.
    pub name: String,
    /// The type.
    pub kind: String,
    /// The files, relative to `src`.
    pub files: Vec<PathBuf>,
    /// Their lines without tests.
    pub lines: usize,
}

impl Circle {
    fn is_too_large(&self) -> bool {
        self.files.len() > MOST_FILES || self.lines > MOST_LINES
    }
}

/// A circle that is too large, and known: crate, type, files, lines. It may only shrink.
pub type Known = (&'static str, &'static str, usize, usize);

/// A function of a type, and whom it calls by name: pairs of type and function.
#[derive(Debug)]
struct Function {
    file: usize,
    /// The type in whose `impl` it is, and the one that it is given.
    of: Option<String>,
    given: Option<String>,
    name: String,
    calls: BTreeSet<(String, String)>,
}

/// The largest circle of each type of the workspace whose functions are in several files.
///
/// # Errors
/// A message: a file cannot be read or parsed.
pub fn circles_of_calls(root: &Path, workspace: &Workspace) -> Result<Vec<Circle>, String> {
    let mut found = Vec::new();
    for (name, read) in &workspace.crates {
        let mut lines = Vec::new();
        let mut all = Functions::default();
        for (file, path) in read.files.iter().enumerate() {
            let path = root.join("crates").join(name).join("src").join(path);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
            lines.push(text[..tests].lines().count());
            all.file = file;
            all.visit_file(&parsed);
        }
        found.extend(all.circles().into_iter().map(|(kind, mut files)| {
            files.sort_by_key(|file| &read.files[*file]);
            Circle {
                name: name.clone(),
                kind,
                lines: files.iter().map(|file| lines[*file]).sum(),
                files: files.into_iter().map(|file| read.files[file].clone()).collect(),
            }
        }));
    }
    Ok(found)
}

/// What is wrong with these circles, a line each: too large and not known, larger than it was known, or known and no more.
pub fn call_violations(circles: &[Circle], known: &[Known]) -> Vec<String> {
    let mut found = Vec::new();
    let large = || circles.iter().filter(|circle| circle.is_too_large());
    for circle in large() {
        let entry = known.iter().find(|(name, kind, ..)| (*name, *kind) == (&*circle.name, &*circle.kind));
        let (files, lines) = entry.map_or((MOST_FILES, MOST_LINES), |(_, _, files, lines)| (*files, *lines));
        if circle.files.len() > files || circle.lines > lines {
            let names: Vec<String> = circle.files.iter().map(|file| file.display().to_string()).collect();
            found.push(format!(
                "crates/{}: {} files with {} lines call each other in a circle through {}, and {files} with {lines} may: {}",
                circle.name,
                circle.files.len(),
                circle.lines,
                circle.kind,
                names.join(", ")
            ));
        }
    }
    for (name, kind, ..) in known {
        if !large().any(|circle| (*name, *kind) == (&*circle.name, &*circle.kind)) {
            found.push(format!("crates/{name}: the circle of {kind} is gone: take it out of the table of known ones"));
        }
    }
    found
}

#[derive(Default)]
struct Functions {
    file: usize,
    /// The type of the `impl` that is being read.
    of: Option<String>,
    functions: Vec<Function>,
    /// The files in which a type has an `impl` of its own.
    own: BTreeMap<String, BTreeSet<usize>>,
    /// Other names of types.
    aliases: BTreeMap<String, String>,
}

impl Functions {
    fn function(&mut self, signature: &Signature, block: &syn::Block) {
        let mut values = BTreeMap::new();
        let mut inputs = signature.inputs.iter().peekable();
        let receiver = inputs.next_if(|input| matches!(input, FnArg::Receiver(_)));
        if let (Some(_), Some(of)) = (receiver, &self.of) {
            values.insert("self".to_owned(), of.clone());
        }
        let given = match inputs.next() {
            Some(FnArg::Typed(typed)) => match (&*typed.pat, &*typed.ty) {
                (Pat::Ident(value), Type::Reference(kind)) if kind.mutability.is_some() => {
                    name_of(&kind.elem).map(|kind| (value.ident.to_string(), kind))
                }
                _ => None,
            },
            _ => None,
        };
        values.extend(given.clone());
        let given = given.map(|(_, kind)| kind);
        if let (None, Some(kind)) = (&self.of, &given) {
            self.own.entry(kind.clone()).or_default().insert(self.file);
        }
        let mut calls = Calls { values: &values, of: self.of.as_deref(), found: BTreeSet::new() };
        calls.visit_block(block);
        let (calls, name) = (calls.found, signature.ident.to_string());
        self.functions.push(Function { file: self.file, of: self.of.clone(), given, name, calls });
    }

    /// The type that a name means.
    fn meant<'a>(&'a self, kind: &'a str) -> &'a str {
        self.aliases.get(kind).map_or(kind, String::as_str)
    }

    /// The types to which a function belongs.
    fn kinds<'a>(&'a self, function: &'a Function) -> impl Iterator<Item = &'a str> {
        [&function.of, &function.given].into_iter().flatten().map(|kind| self.meant(kind))
    }

    /// The largest circle of files of each type.
    fn circles(&self) -> Vec<(String, Vec<usize>)> {
        let mut own: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (kind, files) in &self.own {
            own.entry(self.meant(kind)).or_default().extend(files);
        }
        own.retain(|_, files| files.len() >= FEWEST_FILES);
        let mut named: BTreeMap<(&str, &str), BTreeSet<usize>> = BTreeMap::new();
        for function in &self.functions {
            for kind in self.kinds(function).filter(|kind| own.contains_key(kind)) {
                named.entry((kind, &function.name)).or_default().insert(function.file);
            }
        }
        let mut graphs: BTreeMap<&str, DiGraphMap<usize, ()>> = BTreeMap::new();
        for function in &self.functions {
            let kinds: BTreeSet<&str> = self.kinds(function).collect();
            for (kind, name) in &function.calls {
                let kind = self.meant(kind);
                for file in named.get(&(kind, name)).into_iter().flatten().filter(|_| kinds.contains(kind)) {
                    if *file != function.file {
                        graphs.entry(kind).or_default().add_edge(function.file, *file, ());
                    }
                }
            }
        }
        let largest = |graph: &DiGraphMap<usize, ()>| tarjan_scc(graph).into_iter().max_by_key(Vec::len);
        let circles = graphs.iter().filter_map(|(kind, graph)| Some(((*kind).to_owned(), largest(graph)?)));
        circles.filter(|(_, files)| files.len() > 1).collect()
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_for_tests(crate::source::attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = std::mem::replace(&mut self.of, name_of(&item.self_ty));
        if let Some(kind) = &self.of {
            self.own.entry(kind.clone()).or_default().insert(self.file);
        }
        syn::visit::visit_item_impl(self, item);
        self.of = before;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.function(&function.sig, &function.block);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let of = self.of.take();
        self.function(&function.sig, &function.block);
        self.of = of;
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        if let Some(kind) = name_of(&item.ty) {
            self.aliases.insert(item.ident.to_string(), kind);
        }
    }
}

/// The name of a type, behind references.
fn name_of(kind: &Type) -> Option<String> {
    match kind {
        Type::Reference(inner) => name_of(&inner.elem),
        Type::Paren(inner) => name_of(&inner.elem),
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Whom the body of a function calls.
struct Calls<'a> {
    /// The types of the values that it was given.
    values: &'a BTreeMap<String, String>,
    of: Option<&'a str>,
    found: BTreeSet<(String, String)>,
}

impl Calls<'_> {
    fn kind(&self, value: &Expr) -> Option<&String> {
        match value {
            Expr::Path(path) => self.values.get(&path.path.get_ident()?.to_string()),
            Expr::Reference(inner) => self.kind(&inner.expr),
            Expr::Paren(inner) => self.kind(&inner.expr),
            Expr::Unary(inner) => self.kind(&inner.expr),
            _ => None,
        }
    }

    fn call<'b>(&mut self, name: &syn::Ident, values: impl Iterator<Item = &'b Expr>) {
        let kinds: Vec<String> = values.filter_map(|value| self.kind(value).cloned()).collect();
        self.found.extend(kinds.into_iter().map(|kind| (kind, name.to_string())));
    }

    /// `T::name` and `Self::name`.
    fn qualified(&mut self, kind: &str, name: &str) {
        let kind = if kind == "Self" { self.of } else { Some(kind) };
        self.found.extend(kind.map(|kind| (kind.to_owned(), name.to_owned())));
    }

    fn tokens(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let is = |index: usize, character: char| matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == character);
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(value) => {
                    let value = value.to_string();
                    let (dot, colons) = (is(index + 1, '.'), is(index + 1, ':') && is(index + 2, ':'));
                    let at = index + if dot { 2 } else { 3 };
                    let Some(TokenTree::Ident(name)) = tokens.get(at) else { continue };
                    let called = matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
                    let is_field = index > 0 && is(index - 1, '.');
                    match self.values.get(&value) {
                        Some(kind) if dot && called && !is_field => {
                            self.found.insert((kind.clone(), name.to_string()));
                        }
                        None if colons && called => self.qualified(&value, &name.to_string()),
                        _ => {}
                    }
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Calls<'_> {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.call(&call.method, std::iter::once(&*call.receiver).chain(&call.args));
        syn::visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(path) = &*call.func {
            let segments: Vec<&syn::Ident> = path.path.segments.iter().map(|segment| &segment.ident).collect();
            if let [.., name] = segments[..] {
                self.call(name, call.args.iter());
            }
        }
        syn::visit::visit_expr_call(self, call);
    }

    /// Also where it is passed on and not called: `map(Self::step)`.
    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let segments: Vec<String> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let [.., kind, name] = &segments[..] {
            self.qualified(kind, name);
        }
        syn::visit::visit_expr_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.tokens(call.tokens.clone());
    }

    fn visit_item(&mut self, _: &'ast syn::Item) {}
}
