//! Reads the imports of a workspace (`use`, `pub use`, `super::`, qualified paths, also inside macros) and compares
//! them with the tables in ARCHITECTURE.md: which crate may use which, which folder of `engine` may import from which,
//! and how many files may import each other in a circle.
//!
//! Files are parsed with `syn`. Code that is compiled for tests only (`#[cfg(test)]`) does not count. A name that a
//! module re-exports counts as an import of the file that defines it, so a `mod.rs` that only collects names does not
//! connect files. Calls of methods are no imports, because an `impl` block may be in another file than its type: `calls.rs` finds
//! files that call each other in a circle through one type.
//!
//! One more check reads the documents: `references.rs` finds references to files and names that do not exist.

mod calls;
mod files;
mod references;
mod rules;
mod source;

pub use calls::{Circle, Known, call_violations, circles_of_calls};
pub use references::broken_references;
pub use rules::{Rules, violations};
pub use source::{Crate, FileOf, Workspace};
