//! What goes wrong besides the power, and how often: commands that fail, sectors that cannot be read, metadata that rots,
//! devices that die.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::design::Kind;

/// How things fail in this run.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) active: bool,
    /// Nothing fails for now.
    pub(crate) calm: bool,
    /// One command in so many fails, and has an effect on some sectors at most; 0 for none.
    pub(crate) fail_one_in: u32,
    /// One step in so many a sector of data goes bad; 0 for none.
    pub(crate) bad_one_in: u32,
    /// One step in so many a device dies; 0 for none.
    pub(crate) dies_one_in: u32,
    /// A death is all that goes wrong.
    pub(crate) deaths_only: bool,
    /// Metadata of one device rots while the power is off.
    pub(crate) rots: bool,
    /// Each commit since the last checkpoint of a recovery went to both devices.
    pub(crate) mirrored: bool,
}

impl Faults {
    pub(crate) fn new(kind: Kind, active: bool, rng: &mut Pcg64Mcg) -> Faults {
        if active && rng.random_bool(0.3) {
            let dies_one_in = [60, 150, 400][rng.random_range(0..3)];
            let none = Faults::new(kind, false, rng);
            return Faults { active: true, dies_one_in, deaths_only: true, ..none };
        }
        let mut pick = |from: [u32; 4]| if active { from[rng.random_range(0..4)] } else { 0 };
        Faults {
            deaths_only: false,
            active,
            calm: false,
            fail_one_in: pick([0, 30, 100, 300]),
            bad_one_in: if kind == Kind::Logging { 0 } else { pick([0, 0, 30, 200]) },
            dies_one_in: pick([0, 0, 0, 150]),
            // A log has no second copy: what rots in it may keep the volume from being opened.
            rots: pick([0, 0, 1, 1]) == 1 && kind != Kind::Logging,
            mirrored: false,
        }
    }

    /// Whether anything but a device's death goes wrong.
    pub(crate) fn fails_at_all(&self) -> bool {
        self.fail_one_in > 0 || self.bad_one_in > 0 || self.rots
    }

    pub(crate) fn fails(&self, rng: &mut Pcg64Mcg) -> bool {
        self.fail_one_in > 0 && !self.calm && rng.random_range(0..self.fail_one_in) == 0
    }
}
