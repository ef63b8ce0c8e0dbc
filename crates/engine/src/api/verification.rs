//! The result of comparing data with its checksums.

/// What came of comparing data that a read has brought with its checksums: see [`Engine::verify`](crate::Engine::verify).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The engine's row for what was read.
    pub(crate) slot: u32,
    /// Places in the log, from and to, that do not hold what was appended there.
    pub(crate) damaged: Vec<(u64, u64)>,
    /// Whether there is something among it that nothing can be compared with.
    pub(crate) unverifiable: bool,
}
