//! Commands that belong to no placement: a device that is being replaced is copied, and its successor, which has no row among the devices,
//! is put in charge.

use peryton_units::{Bytes, Op};

use super::{Call, InFlight, Io, Purpose, Step};
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
        (0..self.commands.rows()).filter_map(|index| self.commands.id_at(index))
    }
}

impl<S: Step> Call<'_, S> {
    /// Writes a superblock that puts the successor of a device in charge.
    pub(crate) fn write_succession(&mut self, place: (DeviceId, Bytes), len: Bytes) {
        self.write_for(place, len, Buffer::Metadata, Purpose::Copy, Cause::Metadata);
    }

    /// Flushes such a superblock.
    pub(crate) fn flush_succession(&mut self, device: DeviceId) {
        self.flush_for(device, Purpose::Copy);
    }
}
