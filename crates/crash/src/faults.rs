//! The faults of a run besides power losses, and their rates: commands that fail, flushes that fail and lose the data that
//! they should have covered, sectors that cannot be read, metadata that rots, devices that die.

use peryton_engine::{Cause, Command, DeviceId};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::{design::Kind, options::Failing};

/// The faults of one run.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) active: bool,
    /// While true, no command fails.
    pub(crate) calm: bool,
    /// One command in this many fails, and at most some of its sectors take effect; 0 for none.
    pub(crate) fail_one_in: u32,
    /// One write of the host in this many fails in addition; 0 for none.
    pub(crate) host_write_fails_one_in: u32,
    /// One flush in this many fails in addition; 0 for none.
    pub(crate) flush_fails_one_in: u32,
    /// Whether failing flushes are the only fault of this run.
    pub(crate) flushes_only: bool,
    /// In one step of this many a device begins to lack space; 0 for none.
    pub(crate) full_one_in: u32,
    /// The device that lacks space: each write to it fails.
    pub(crate) full: Option<DeviceId>,
    /// Whether devices have a cause in common, such as a controller: after a flush of one has failed, the next one of another fails
    /// in half of the cases.
    pub(crate) flushes_fail_together: bool,
    /// The device whose flush failed last, as long as that may bring another one with it.
    last_failed: Option<DeviceId>,
    /// In one step of this many a sector of data goes bad; 0 for none.
    pub(crate) bad_one_in: u32,
    /// In one step of this many a device dies; 0 for none.
    pub(crate) dies_one_in: u32,
    /// Whether the death of a device is the only fault of this run.
    pub(crate) deaths_only: bool,
    /// Whether the metadata of one device rots while the power is off.
    pub(crate) rots: bool,
    /// Whether data in a log rots after a clean close.
    pub(crate) log_rots: bool,
    /// Whether each commit since recovery's last checkpoint was written to both devices.
    pub(crate) mirrored: bool,
}

impl Faults {
    pub(crate) fn new(kind: Kind, active: bool, only: Option<Failing>, rng: &mut Pcg64Mcg) -> Faults {
        let is = |way: Failing, drawn: f64, rng: &mut Pcg64Mcg| {
            active && only.map_or_else(|| rng.random_bool(drawn), |only| only == way)
        };
        if is(Failing::Deaths, 0.3, rng) {
            let dies_one_in = [60, 150, 400][rng.random_range(0..3)];
            let none = Faults::new(kind, false, None, rng);
            return Faults { active: true, dies_one_in, deaths_only: true, ..none };
        }
        if only == Some(Failing::Both) && active {
            let (flush_fails_one_in, dies_one_in) =
                ([5, 10, 20][rng.random_range(0..3)], [60, 150][rng.random_range(0..2)]);
            let none = Faults::new(kind, false, None, rng);
            return Faults { active: true, flush_fails_one_in, flushes_fail_together: true, dies_one_in, ..none };
        }
        if only == Some(Failing::Writes) && active {
            let host_write_fails_one_in = [2, 3, 6, 15][rng.random_range(0..4)];
            let none = Faults::new(kind, false, None, rng);
            return Faults { active: true, host_write_fails_one_in, ..none };
        }
        if only == Some(Failing::Space) && active {
            let full_one_in = [30, 100, 300][rng.random_range(0..3)];
            let none = Faults::new(kind, false, None, rng);
            return Faults { active: true, full_one_in, ..none };
        }
        if is(Failing::Flushes, 0.4, rng) {
            let flush_fails_one_in = [5, 10, 20, 60][rng.random_range(0..4)];
            let flushes_fail_together = rng.random_bool(0.5);
            let none = Faults::new(kind, false, None, rng);
            return Faults { active: true, flush_fails_one_in, flushes_only: true, flushes_fail_together, ..none };
        }
        let log = kind == Kind::Logging;
        let mut pick = |from: [u32; 4]| if active { from[rng.random_range(0..4)] } else { 0 };
        let mut faults = Faults {
            deaths_only: false,
            flushes_only: false,
            flushes_fail_together: false,
            last_failed: None,
            full_one_in: 0,
            full: None,
            host_write_fails_one_in: 0,
            flush_fails_one_in: pick([0, 0, 20, 60]),
            active,
            calm: false,
            fail_one_in: pick(if only.is_some() { [10, 20, 30, 100] } else { [0, 30, 100, 300] }),
            bad_one_in: if log { 0 } else { pick([0, 0, 30, 200]) },
            dies_one_in: pick([0, 0, 0, 150]),
            rots: pick([0, 0, 1, 1]) == 1,
            log_rots: false,
            mirrored: false,
        };
        if log {
            // A log has one copy: if its metadata rots, recovery may rightly refuse the volume.
            (faults.log_rots, faults.rots) = (faults.rots, false);
        }
        faults
    }

    /// Whether the run has any fault other than the death of a device.
    pub(crate) fn fails_at_all(&self) -> bool {
        let writes = self.fail_one_in > 0 || self.host_write_fails_one_in > 0 || self.full_one_in > 0;
        writes || self.flush_fails_one_in > 0 || self.bad_one_in > 0 || self.rots || self.log_rots
    }

    /// Whether this command fails.
    pub(crate) fn fails(&mut self, command: &Command, rng: &mut Pcg64Mcg) -> bool {
        let fails = |one_in: u32, rng: &mut Pcg64Mcg| one_in > 0 && rng.random_range(0..one_in) == 0;
        if self.calm {
            return false;
        }
        if fails(self.fail_one_in, rng) {
            return true;
        }
        if let Command::Write { device, .. } | Command::Zero { device, .. } = command
            && self.full == Some(*device)
        {
            return true;
        }
        if matches!(command, Command::Write { cause: Cause::Host, .. }) && fails(self.host_write_fails_one_in, rng) {
            return true;
        }
        let Command::Flush { device, .. } = *command else { return false };
        let follows = self.last_failed.is_some_and(|last| last != device);
        if follows {
            self.last_failed = None;
        }
        let failed = fails(self.flush_fails_one_in, rng) || follows && rng.random_bool(0.5);
        if failed && !follows && self.flushes_fail_together {
            self.last_failed = Some(device);
        }
        failed
    }
}
