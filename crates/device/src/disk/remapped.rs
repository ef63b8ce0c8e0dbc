//! Defective sectors whose data lie elsewhere.

use super::{geometry::Zone, parameters::ZoneParameters};

/// A defective sector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defect {
    pub address: u64,
    /// The zone, and in it the physical sector that has its data.
    pub zone: usize,
    pub instead: u64,
}

/// The defective sectors of a disk in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct Remapped(Vec<Defect>);

impl Remapped {
    /// Those that the parameters name, of the zones that hold data. One that is its own replacement stays where it is.
    pub fn new(parameters: &[ZoneParameters], zones: &[Zone]) -> Remapped {
        let mut found = Vec::new();
        for (index, zone) in zones.iter().enumerate() {
            let named = parameters.iter().filter(|named| named.first_cylinder == zone.first_cylinder);
            for &(defect, instead) in
                named.flat_map(|named| &named.remapped).filter(|(defect, instead)| defect != instead)
            {
                found.extend(zone.address(defect).map(|address| Defect { address, zone: index, instead }));
            }
        }
        Remapped(found)
    }

    /// The first one from `sector` on.
    #[inline]
    pub fn next(&self, sector: u64) -> Option<Defect> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(self.0.partition_point(|defect| defect.address < sector)).copied()
    }
}
