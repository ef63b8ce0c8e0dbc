//! Faults besides a power loss, and how often each happens: commands that fail, sectors that cannot be read, metadata
//! that rots, devices that die.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::design::Kind;

/// The faults of one run.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) active: bool,
    /// While true, no command fails.
    pub(crate) calm: bool,
    /// One command in this many fails, and at most some of its sectors take effect; 0 for none.
    pub(crate) fail_one_in: u32,
    /// In one step of this many a data sector becomes unreadable; 0 for none.
    pub(crate) bad_one_in: u32,
    /// In one step of this many a device dies; 0 for none.
    pub(crate) dies_one_in: u32,
    /// Whether the death of a device is the only fault of this run.
    pub(crate) deaths_only: bool,
    /// Whether the metadata of one device rots while the power is off.
    pub(crate) rots: bool,
    /// Whether each commit since recovery's last checkpoint was written to both devices.
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
            // A log has one copy: if its metadata rots, recovery may rightly refuse the volume.
            rots: pick([0, 0, 1, 1]) == 1 && kind != Kind::Logging,
            mirrored: false,
        }
    }

    /// Whether the run has any fault other than the death of a device.
    pub(crate) fn fails_at_all(&self) -> bool {
        self.fail_one_in > 0 || self.bad_one_in > 0 || self.rots
    }

    pub(crate) fn fails(&self, rng: &mut Pcg64Mcg) -> bool {
        self.fail_one_in > 0 && !self.calm && rng.random_range(0..self.fail_one_in) == 0
    }
}
