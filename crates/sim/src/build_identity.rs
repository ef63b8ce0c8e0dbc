//! Which build of Peryton simulates, for reports and for rows that may be used again.

use std::sync::OnceLock;

/// Which build of Peryton a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version, with the commit.
    pub version: &'static str,
    /// A hash of its sources, which tells apart builds of one version that differ.
    pub sources: &'static str,
}

static BUILD: OnceLock<Build> = OnceLock::new();

/// The build of this program, as [`built_as`] was told; for other programs that use this library, its version.
pub fn build() -> Build {
    BUILD.get().copied().unwrap_or(Build { version: env!("CARGO_PKG_VERSION"), sources: "" })
}

/// Tells what build this is. A program does so once, before it simulates; what is told later is not heeded.
pub fn built_as(build: Build) {
    let _ = BUILD.set(build);
}
