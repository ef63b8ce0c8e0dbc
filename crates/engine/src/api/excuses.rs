//! Devices that fail and are not given up.

use peryton_format::geometry::MOST_DEVICES;

use super::command::DeviceId;

/// Why a device that fails is not given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// It may come back. What waits for it goes on waiting.
    MayComeBack,
    /// It can be read. It is not given up while it has data that no other device has, or while it is the last. Flushes that wait for it fail.
    TakesReads,
    /// It lacks space, and has lacked it for longer than one waits. Flushes that wait for it fail.
    LacksSpace,
}

/// The devices that the driver excuses ([`Engine::excuse`](crate::Engine::excuse)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excuses([Option<Excuse>; MOST_DEVICES]);

impl Excuses {
    /// Every device has this excuse.
    pub const fn all(excuse: Excuse) -> Excuses {
        Excuses([Some(excuse); MOST_DEVICES])
    }

    /// The excuse of a device; `None` if it has none, as one that is to take the place of another.
    pub fn of(&self, device: DeviceId) -> Option<Excuse> {
        self.0.get(device.index()).copied().flatten()
    }

    /// Excuses a device.
    pub fn set(&mut self, device: DeviceId, excuse: Option<Excuse>) {
        self.0[device.index()] = excuse;
    }
}
