//! What has happened to a drive while it ran, by which the durable map is read.

use crate::{
    cache::drive::CacheDrive,
    cache::interpret::{Facts, State},
};

impl CacheDrive {
    /// What has happened to the drive while it ran: devices may be gone.
    pub(in crate::cache) fn facts(&self) -> Facts {
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        Facts { mode: self.mode, gone: self.gone, all, valid: None, unflushed: false, trusts_origins: false }
    }

    /// Where an extent is that the durable map has so.
    pub(in crate::cache) fn interpret(&self, facts: &Facts, durable: State) -> State {
        let is_on_gone = |place| self.layout.has_place(place) && self.is_on_gone(place);
        facts.interpret(durable, durable.entry.place().is_some_and(is_on_gone))
    }
}
