//! Reports of the drives beneath the volume, and orders to them: the loop's side of [`crate::health`].

use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

use peryton_engine::{DeviceId, Tuning};
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::Server;
use crate::{
    block::Linux,
    health::{News, Table, Watch},
};

/// The idle time after which a device goes into standby.
fn after(tuning: &Tuning, index: usize) -> Option<Nanos> {
    tuning.spin_down_after.get(index).copied().flatten()
}

/// Drives are asked what was written to their flash no more often than this.
const COUNT_AGAIN: Nanos = Nanos::from_s(2);
const HOUR: Nanos = Nanos::from_s(3600);

fn age(hours: Option<u64>) -> Option<Nanos> {
    hours.map(|hours| Nanos(HOUR.0.saturating_mul(hours)))
}

impl Server {
    /// Begins to watch the drives. `fast`: the device to which a budget for wear applies.
    pub(crate) fn watch_drives(&mut self, table: Arc<Table>, fast: Option<usize>) -> io::Result<()> {
        self.drives.fast = fast;
        let handle = self.handle.clone();
        let tell = Arc::new(move |news| handle.send(Box::new(move |server| server.drive_news(news))));
        self.volume.backend.rests.share(&table);
        for index in (0..self.about.names.len()).filter(|index| table.cannot_rest(*index).is_some()) {
            self.volume.backend.rests.impossible(self.now, DeviceId(index as u8));
        }
        let wanted = self.volume.engine().tuning().clone();
        for (index, name) in self.about.names.iter().enumerate() {
            if let (Some(why), Some(_)) = (table.cannot_rest(index), after(&wanted, index)) {
                tracing::warn!("{name} is served without standby (power.{name}.spin_down_after): {why}");
            }
        }
        self.retune_rests(wanted);
        self.drives.watch = Some(Watch::start(table, &self.about.names, &self.about.events, &(tell as _))?);
        Ok(())
    }

    /// Another device is in this place, or none: its drives are asked from now on, and it rests if it can.
    pub(super) fn drives_changed(&mut self, index: usize) {
        let path = self.about.devices[index].as_ref().map(|device| device.path.clone());
        let Some(drives) = &mut self.drives.watch else { return };
        if let Err(error) = drives.follow(&Linux::default(), index, path.as_deref()) {
            tracing::warn!(%error, "the drives of the new device are not watched");
        }
        let cannot = drives.table().cannot_rest(index);
        self.volume.backend.rests.another(self.now, DeviceId(index as u8), cannot.is_some());
        let mut wanted = self.volume.engine().tuning().clone();
        wanted.spin_down_after.clone_from(&self.drives.rests_after);
        if let (Some(why), Some(_), Some(_)) = (cannot, after(&wanted, index), path) {
            let name = &self.about.names[index];
            tracing::warn!("{name} is served without standby (power.{name}.spin_down_after): {why}");
        }
        self.retune_rests(wanted);
    }

    /// Removes standby of devices that cannot sleep from a tuning: the engine would otherwise spare them in vain. The wish is kept for the
    /// status.
    pub(super) fn without_rests(&mut self, mut wanted: Tuning) -> Tuning {
        self.drives.rests_after.clone_from(&wanted.spin_down_after);
        for (index, after) in wanted.spin_down_after.iter_mut().enumerate() {
            if index < self.about.names.len() && self.volume.backend.rests.of(index).impossible {
                *after = None;
            }
        }
        wanted
    }

    fn retune_rests(&mut self, wanted: Tuning) {
        let tuning = self.without_rests(wanted);
        if tuning.spin_down_after != self.volume.engine().tuning().spin_down_after
            && let Err(error) = self.volume.retune(self.now, tuning)
        {
            tracing::warn!(%error, "the engine goes on as if devices rested that cannot");
        }
    }

    fn drive_news(&mut self, news: News) {
        let device = |index: usize| DeviceId(index as u8);
        match news {
            News::Rested(index) => self.volume.backend.rested(device(index)),
            News::CannotRest(index) => {
                self.volume.backend.rests.impossible(self.now, device(index));
                let mut wanted = self.volume.engine().tuning().clone();
                wanted.spin_down_after.clone_from(&self.drives.rests_after);
                self.retune_rests(wanted);
            }
            News::Programmed(index, bytes) => self.volume.programmed(device(index), Bytes(bytes)),
            News::Worn(index, used_ppm, hours) => self.volume.worn(device(index), used_ppm, age(hours)),
        }
    }

    /// The wear that the fast device of a partitioned drive reports: the used share of its life, in parts per million, and its age.
    pub(super) fn fast_worn(&self) -> Option<(u32, Option<Nanos>)> {
        let (used_ppm, hours) = self.drives.watch.as_ref()?.table().rows().worn(self.drives.fast?)?;
        Some((used_ppm, age(hours)))
    }

    /// Hands orders to the drives' threads. None of this waits.
    pub(super) fn order_drives(&mut self) {
        let Some(drives) = &self.drives.watch else { return };
        let orders = std::mem::take(&mut self.volume.backend.rests.orders);
        for index in (0..self.about.names.len()).filter(|index| orders >> index & 1 == 1) {
            // A drive that takes no orders now is asked again when the device has been used and is idle.
            drives.rest(index);
        }
        let counted = drives.table().counts_programs.load(Ordering::Acquire);
        if counted != 0
            && self.now >= self.drives.count_programs_from
            && let Some(device) = self.volume.asks_what_was_programmed(self.now)
            && counted >> device.index() & 1 == 1
        {
            self.drives.count_programs_from = self.now.saturating_add(COUNT_AGAIN);
            drives.count_programs(device.index());
        }
    }

    /// The health of a device, for the status.
    pub(super) fn health_status(&self, index: usize) -> Value {
        self.drives.watch.as_ref().map_or(Value::Null, |drives| drives.table().status(index))
    }

    /// Whether a device rests, for the status.
    pub(super) fn rest_status(&self, index: usize) -> Value {
        let rest = self.volume.backend.rests.of(index);
        let after = self.drives.rests_after.get(index).copied().flatten();
        let cannot = self.drives.watch.as_ref().and_then(|drives| drives.table().cannot_rest(index));
        json!({
            "after_s": after.map(Nanos::as_s_f64),
            "resting": rest.is_resting(),
            "cycles": rest.cycles,
            "total_s": rest.total(self.now).as_s_f64(),
            "cannot": cannot.filter(|_| after.is_some()),
        })
    }
}
