//! One reading of a drive: in its own protocol, and without waking it.

use std::path::Path;

use super::{
    ata, nvme,
    report::{DriveHealth, DrivePower, Warning},
    scsi,
    transport::{Ioctl, Transport, TransportError},
};
use crate::block::{Beneath, Linux, PhysicalDrive, Protocol};

/// What is remembered of a drive between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) nvme: nvme::Known,
    /// Whether a drive of SCSI understands ATA.
    speaks_ata: Option<bool>,
}

/// Reads the health of a drive. One that sleeps is not woken: then the answer has its power state, and `not_read` says so.
pub(crate) fn read(
    drive: &mut dyn Transport,
    about: &PhysicalDrive,
    known: &mut Known,
) -> Result<DriveHealth, TransportError> {
    let mut health = DriveHealth::of(&about.name);
    match about.protocol {
        Protocol::Nvme => nvme::read(drive, &mut known.nvme, &mut health)?,
        Protocol::Scsi => read_scsi(drive, known, &mut health)?,
    }
    health.estimate();
    Ok(health)
}

fn read_scsi(drive: &mut dyn Transport, known: &mut Known, health: &mut DriveHealth) -> Result<(), TransportError> {
    let asleep = "the drive sleeps, and is not woken for this";
    let may_speak_ata = known.speaks_ata != Some(false);
    let ata_power = match may_speak_ata.then(|| ata::power(drive)) {
        Some(Err(error @ (TransportError::NotAllowed | TransportError::TimedOut))) => return Err(error),
        other => other.and_then(Result::ok),
    };
    health.power = ata_power.or_else(|| scsi::power(drive).ok());
    if health.power.is_some_and(DrivePower::sleeps) {
        health.not_read.push(asleep.to_owned());
        return Ok(());
    }
    match may_speak_ata.then(|| ata::identify(drive)) {
        Some(Ok(about)) => {
            known.speaks_ata = Some(true);
            ata::read(drive, &about, health);
            Ok(())
        }
        Some(Err(error)) if !matches!(error, TransportError::Refused(_)) => Err(error),
        _ => {
            scsi::read(drive, health)?;
            known.speaks_ata = Some(false);
            Ok(())
        }
    }
}

/// Puts a drive into standby.
pub(crate) fn stand_by(drive: &mut dyn Transport, about: &PhysicalDrive) -> Result<(), TransportError> {
    match about.protocol {
        Protocol::Nvme => Err(TransportError::Refused("NVMe drives rest by themselves".to_owned())),
        Protocol::Scsi => match ata::stand_by(drive) {
            Err(TransportError::Refused(_)) => scsi::stand_by(drive, about.is_restarted),
            other => other,
        },
    }
}

/// The health of the drives beneath a path.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathHealth {
    /// The path.
    pub path: String,
    /// The drives beneath it, in the order of their names.
    pub drives: Vec<DriveHealth>,
    /// The used share of life in per cent, of the most worn drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_used: Option<u32>,
    /// Whether the drives are healthy: false if one reports a failure, absent if none reports its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// The reasons why no drive, or no figure of a drive, was found: a line each.
    pub not_read: Vec<String>,
}

impl PathHealth {
    pub(crate) fn of(path: &Path, drives: Vec<DriveHealth>, not_read: Vec<String>) -> PathHealth {
        let judged: Vec<bool> = drives.iter().filter_map(|drive| drive.passed).collect();
        PathHealth {
            path: path.display().to_string(),
            percentage_used: drives.iter().filter_map(|drive| drive.percentage_used).max(),
            passed: (!judged.is_empty()).then(|| judged.iter().all(|passed| *passed)),
            drives,
            not_read,
        }
    }

    /// Whether a drive fails or warns of something.
    pub fn has_warnings(&self) -> bool {
        self.passed == Some(false) || self.drives.iter().any(|drive| !drive.warnings.is_empty())
    }

    /// Whether every drive that Linux knows of has answered.
    pub fn was_read(&self) -> bool {
        self.not_read.is_empty()
    }

    /// All warnings of its drives, each once.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut all: Vec<Warning> = self.drives.iter().flat_map(|drive| drive.warnings.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Linux {
    /// Reads the health of the drives beneath a path, once. It may take as long as the drives do.
    pub fn health(&self, path: &Path) -> PathHealth {
        let Beneath { drives, without: mut not_read, .. } = self.beneath(path);
        let mut all = Vec::new();
        for about in drives {
            let read = Ioctl::open(&about.node).and_then(|mut drive| read(&mut drive, &about, &mut Known::default()));
            match read {
                Ok(health) => all.push(health),
                Err(error) => not_read.push(format!("{}: {error}", about.name)),
            }
        }
        PathHealth::of(path, all, not_read)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::transport::recorded::Recorded, *};

    fn about(protocol: Protocol) -> PhysicalDrive {
        PhysicalDrive { name: "sda".to_owned(), node: "/dev/sda".into(), protocol, is_restarted: false }
    }

    fn health(drive: &mut Recorded) -> DriveHealth {
        read(drive, &about(Protocol::Scsi), &mut Known::default()).unwrap()
    }

    #[test]
    fn a_drive_that_sleeps_is_asked_nothing_that_wakes_it() {
        let mut drive = ata::tests::disk();
        ata::tests::power_mode(&mut drive, 0);
        let asleep = health(&mut drive);
        assert_eq!((asleep.power, asleep.temperature_c, drive.asked.len()), (Some(DrivePower::Standby), None, 1));
        assert!(asleep.not_read[0].contains("sleeps"));
        drop(drive.scsi.remove(0));
        ata::tests::power_mode(&mut drive, 0xff);
        assert_eq!((health(&mut drive).power, health(&mut drive).temperature_c), (Some(DrivePower::Active), Some(34)));
    }

    #[test]
    fn errors_are_told_apart_from_what_a_drive_does_not_know() {
        for error in [TransportError::NotAllowed, TransportError::TimedOut] {
            let mut drive = Recorded::default();
            drive.scsi.push((vec![], Err(error.clone())));
            assert_eq!(read(&mut drive, &about(Protocol::Scsi), &mut Known::default()), Err(error));
        }
        let mut drive = Recorded::default();
        assert!(matches!(
            read(&mut drive, &about(Protocol::Scsi), &mut Known::default()),
            Err(TransportError::Refused(_))
        ));
        assert!(matches!(stand_by(&mut drive, &about(Protocol::Nvme)), Err(TransportError::Refused(_))));
    }

    #[test]
    fn of_several_drives_the_worst_counts() {
        let used = |percentage_used, passed| DriveHealth { percentage_used, passed, ..DriveHealth::of("sda") };
        let of = |drives| PathHealth::of(Path::new("/dev/md0"), drives, vec![]);
        let both = of(vec![used(Some(3), Some(true)), used(Some(40), Some(false)), used(None, None)]);
        assert_eq!((both.percentage_used, both.passed, both.has_warnings()), (Some(40), Some(false), true));
        assert_eq!((of(vec![]).percentage_used, of(vec![]).passed, of(vec![]).has_warnings()), (None, None, false));
    }
}
