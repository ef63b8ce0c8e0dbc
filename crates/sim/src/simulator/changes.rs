//! Settings that come into force during a run, as they did in the drive that was recorded.

use peryton_units::Nanos;

use super::Simulator;
use crate::SimError;

impl<const SEVERAL: bool, const WATCHED: bool> Simulator<'_, SEVERAL, WATCHED> {
    /// Puts the settings into force that are due.
    #[cold]
    pub(super) fn change_settings(&mut self, by: Nanos) -> Result<(), SimError> {
        while let Some((_, tuning)) = self.changes.pop_if(|(at, _)| *at <= by) {
            for volume in 0..self.hosts.len() {
                let engine = &mut self.machine.volumes[volume].engine;
                engine
                    .retune(self.now, tuning.clone(), &mut self.commands)
                    .map_err(|error| SimError::State { problem: error.to_string() })?;
                self.carry_out(volume);
            }
        }
        self.next_change = self.changes.last().map_or(Nanos::MAX, |(at, _)| *at);
        Ok(())
    }
}
