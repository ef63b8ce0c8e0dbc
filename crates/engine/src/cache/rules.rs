//! What has happened to a drive while it ran, by which the durable map is read: the rules of `interpret.rs` for this drive.

use crate::{
    api::config::WritePolicy,
    cache::drive::CacheDrive,
    cache::interpret::{RecoveryRules, State},
    cache::map::extent::Valid,
    cache::step::CacheIo,
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

    /// Which of copy and origin is valid where a crash may have cut a write to one of them or to both.
    pub(in crate::cache) fn valid(&self, io: &CacheIo) -> Valid {
        let copy = io.tuning.write == WritePolicy::Back || self.controller.is_some();
        if copy { Valid::Copy } else { Valid::Origin }
    }
}
