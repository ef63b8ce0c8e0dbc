//! Which build of Peryton this is. A build script finds the commit (`build.rs`).

/// The version: that of the package, with the commit and `.dirty` if the sources are not those of the commit, as
/// `0.1.0+g3b574468a1c2.dirty`. Without a commit it ends with the hash of the sources.
pub const VERSION: &str = env!("PERYTON_VERSION");

/// A hash of the sources, which tells apart two builds whose sources are not those of one commit. Sixteen hexadecimal digits.
pub const SOURCES: &str = env!("PERYTON_SOURCES");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_a_commit_or_the_hash_of_the_sources() {
        let (package, build) = VERSION.split_once('+').expect("it has a build");
        assert_eq!(package, env!("CARGO_PKG_VERSION"));
        let (commit, dirty) = build.split_once('.').map_or((build, None), |(commit, dirty)| (commit, Some(dirty)));
        assert!(commit.starts_with(['g', 's']) && commit.len() >= 8, "{VERSION}");
        assert!(commit[1..].bytes().all(|digit| digit.is_ascii_hexdigit()), "{VERSION}");
        assert!(dirty.is_none_or(|dirty| dirty == "dirty"), "{VERSION}");
        assert!(SOURCES.len() == 16 && SOURCES.bytes().all(|digit| digit.is_ascii_hexdigit()), "{SOURCES}");
    }
}
