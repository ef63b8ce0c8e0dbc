//! An entry of the durable map: four bytes for each extent of the volume.

use bytemuck::Zeroable;

/// A place for one extent. Places are counted through the fast device, then the slow one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(pub u32);

/// The durable map's information about an extent: where it is, and whether it is dirty or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroable)]
pub struct MapEntry(u32);

const DIRTY: u32 = 1 << 31;
const LOST: u32 = 1 << 30;
const PLACE: u32 = LOST - 1;

impl MapEntry {
    /// An entry for an extent in this place. `dirty`: the copy on the fast device is newer than the one on the slow
    /// device; `lost`: the newest data was on a device that is gone.
    #[inline]
    pub fn new(place: Option<Place>, dirty: bool, lost: bool) -> MapEntry {
        let place = place.map_or(0, |place| place.0 + 1);
        debug_assert!(place <= PLACE);
        MapEntry(place | if dirty { DIRTY } else { 0 } | if lost { LOST } else { 0 })
    }

    /// Decodes an entry from a block.
    pub fn from_word(word: u32) -> MapEntry {
        MapEntry(word)
    }

    /// The entry as it is encoded in a block.
    pub fn word(self) -> u32 {
        self.0
    }

    /// The place of the extent. A damaged volume may name a place that does not exist.
    pub fn place(self) -> Option<Place> {
        (self.0 & PLACE).checked_sub(1).map(Place)
    }

    /// Whether the copy on the fast device is newer than the data on the slow device.
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether the newest data was on a device that is gone.
    pub fn is_lost(self) -> bool {
        self.0 & LOST != 0
    }

    /// Whether the extent has no place and is neither dirty nor lost, like one that was never written.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}
