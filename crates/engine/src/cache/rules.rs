//! What has happened to a drive while it ran, by which the durable map is read: the rules of `interpret.rs` for this drive.

use crate::{
    cache::drive::CacheDrive,
    cache::interpret::{RecoveryRules, State},
};

impl CacheDrive {
    /// What has happened to the drive while it ran: devices may be gone.
    pub(in crate::cache) fn recovery_rules(&self) -> RecoveryRules {
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        RecoveryRules { mode: self.mode, gone: self.gone, all, valid: None, unflushed: false, trusts_origins: false }
    }

    /// Where an extent is whose entry in the durable map is `durable`.
    pub(in crate::cache) fn interpret(&self, rules: &RecoveryRules, durable: State) -> State {
        let is_on_gone = |place| self.layout.has_place(place) && self.is_on_gone(place);
        rules.interpret(durable, durable.entry.place().is_some_and(is_on_gone))
    }
}
