//! Commands that belong to no placement: a device that is being replaced is copied, and its successor, which has no row among the devices,
//! is put in charge.

use peryton_units::{Bytes, Op};

use super::{InFlight, Io, Purpose, Step};
use crate::api::command::{Buffer, Cause, DeviceId, IoId};

impl<S: Step> Io<S> {
    /// Registers a command that is not accounted to any device.
    pub(crate) fn start_aside(
        &mut self,
        purpose: Purpose<S>,
        op: Op,
        (device, at): (DeviceId, Bytes),
        len: Bytes,
        buffer: Buffer,
    ) -> IoId {
        if let Some(state) = self.devices.get_mut(device.index()) {
            state.standby = false;
        }
        let (began, cause, zeroes, again) = (self.now, Cause::Metadata, false, false);
        self.commands.insert(InFlight { purpose, device, op, at, len, buffer, began, cause, zeroes, again })
    }

    /// Removes such a command.
    pub(crate) fn finish_aside(&mut self, id: IoId) {
        self.commands.remove(id);
    }

    /// The ids of all commands in flight.
    pub(crate) fn all_in_flight(&self) -> impl Iterator<Item = IoId> + '_ {
        self.commands.ids()
    }
}
