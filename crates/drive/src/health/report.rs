//! The health that a drive reports, and the figures that are estimated from it.

use serde::Serialize;

/// The protocol in which a drive spoke of its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Spoken {
    /// The health logs of NVMe.
    Nvme,
    /// ATA: device statistics, or attributes of SMART.
    Ata,
    /// The log pages of SCSI.
    Scsi,
    /// It has not answered.
    #[default]
    Unknown,
}

/// Whether a drive rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DrivePower {
    /// It works, or could at once.
    Active,
    /// It rests and turns.
    Idle,
    /// The motor has stopped; the next command starts it.
    Standby,
    /// The motor was stopped by a command, and Linux has to start it.
    Stopped,
}

impl DrivePower {
    pub(crate) const ALL: [DrivePower; 4] =
        [DrivePower::Active, DrivePower::Idle, DrivePower::Standby, DrivePower::Stopped];

    /// The state as users see it.
    pub const fn name(self) -> &'static str {
        match self {
            DrivePower::Active => "active",
            DrivePower::Idle => "idle",
            DrivePower::Standby => "standby",
            DrivePower::Stopped => "stopped",
        }
    }

    /// Whether a reading would have to wake it.
    pub(crate) const fn sleeps(self) -> bool {
        matches!(self, DrivePower::Standby | DrivePower::Stopped)
    }
}

/// A warning of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DriveWarning"))]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// The drive itself reports that it fails.
    Failing,
    /// Less spare is left than its threshold says.
    Spare,
    /// It is hotter, or colder, than it may be.
    Temperature,
    /// Errors have made it less reliable.
    Reliability,
    /// It has become read-only.
    ReadOnly,
    /// What protects its memory from a power loss has failed.
    PowerLossProtection,
}

impl Warning {
    pub(crate) const ALL: [Warning; 6] = [
        Warning::Failing,
        Warning::Spare,
        Warning::Temperature,
        Warning::Reliability,
        Warning::ReadOnly,
        Warning::PowerLossProtection,
    ];

    /// The name in metrics and events.
    pub const fn name(self) -> &'static str {
        match self {
            Warning::Failing => "failing",
            Warning::Spare => "spare",
            Warning::Temperature => "temperature",
            Warning::Reliability => "reliability",
            Warning::ReadOnly => "read_only",
            Warning::PowerLossProtection => "power_loss_protection",
        }
    }

    /// What it means, as the end of a sentence about the drive.
    pub const fn meaning(self) -> &'static str {
        match self {
            Warning::Failing => "says that it fails: replace it",
            Warning::Spare => "has less spare than its threshold: replace it",
            Warning::Temperature => "is outside of the temperatures that it may have: look at its cooling",
            Warning::Reliability => "is less reliable, because of errors: replace it",
            Warning::ReadOnly => "has become read-only: replace it",
            Warning::PowerLossProtection => "has lost its protection from a power loss: replace it",
        }
    }
}

/// The health of a drive, as the drive reports it. A figure that the drive does not report is absent. Only the figures in
/// `estimates` are computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriveHealth {
    /// The name that Linux uses, such as `nvme0n1`.
    pub drive: String,
    /// The protocol of the drive's answer.
    pub protocol: Spoken,
    /// Model of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The power state of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<DrivePower>,
    /// Whether the drive itself reports that it is healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed: Option<bool>,
    /// Warnings of the drive.
    pub warnings: Vec<Warning>,
    /// Temperature of the drive in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<i32>,
    /// The used share of the life that the maker expects, in per cent; it may exceed 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_used: Option<u32>,
    /// The remaining spare, in per cent of a new drive's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_percent: Option<u32>,
    /// The spare below which the drive warns, in per cent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare_threshold_percent: Option<u32>,
    /// Number of times that data could not be read or written, or differed from the written data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_errors: Option<u64>,
    /// Sectors that the drive remapped to spare ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reallocated_sectors: Option<u64>,
    /// Sectors that could not be read and are to be reallocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_sectors: Option<u64>,
    /// Bytes that hosts have read in the drive's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_read: Option<u64>,
    /// Bytes that hosts have written in the drive's life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
    /// Bytes written to the drive's flash in its life, including the drive's own moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nand_bytes_written: Option<u64>,
    /// Time with power, in hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_on_hours: Option<u64>,
    /// Number of times that the drive was powered on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cycles: Option<u64>,
    /// Number of starts of the motor, or loads of the heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_stops: Option<u64>,
    /// Number of times that the drive lost power without warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsafe_shutdowns: Option<u64>,
    /// The maximum power of the present power state in watts, as the drive describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state_w: Option<f64>,
    /// Figures computed from those above.
    pub estimates: Estimates,
    /// Figures that could not be read, and the reasons: a line each.
    pub not_read: Vec<String>,
}

/// Figures computed from those that a drive reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DriveEstimates"))]
pub struct Estimates {
    /// Bytes written to flash, divided by bytes that hosts wrote, over the drive's life. Absent if the drive does not count its
    /// writes to flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// Remaining years, if wear goes on at the mean rate of the time with power so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub years_left: Option<f64>,
}

const HOURS_A_YEAR: f64 = 8766.0;

impl DriveHealth {
    /// A drive that has not answered yet.
    pub(crate) fn of(drive: &str) -> DriveHealth {
        DriveHealth { drive: drive.to_owned(), ..DriveHealth::default() }
    }

    /// The share of its life that is used up, in parts per million.
    pub fn used_ppm(&self) -> Option<u32> {
        Some(self.percentage_used?.saturating_mul(10_000))
    }

    /// Computes the estimates from the other figures.
    pub(crate) fn estimate(&mut self) {
        let both = self.nand_bytes_written.zip(self.bytes_written).filter(|(_, host)| *host > 0);
        let years_left = |used: u32, hours: u64| {
            // A percentage is a whole number: below one the rest of the life is not known.
            let left = f64::from(100_u32.saturating_sub(used)) / f64::from(used);
            (used > 0 && hours > 0).then_some(hours as f64 / HOURS_A_YEAR * left)
        };
        self.estimates = Estimates {
            write_amplification: both.map(|(nand, host)| nand as f64 / host as f64),
            years_left: self.percentage_used.zip(self.power_on_hours).and_then(|(used, hours)| years_left(used, hours)),
        };
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
            self.warnings.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_need_all_that_they_are_made_of() {
        let mut drive = DriveHealth { percentage_used: Some(20), ..DriveHealth::of("nvme0n1") };
        drive.estimate();
        assert_eq!(drive.estimates, Estimates::default());
        (drive.power_on_hours, drive.bytes_written, drive.nand_bytes_written) = (Some(8766), Some(100), Some(250));
        drive.estimate();
        assert_eq!(drive.estimates, Estimates { write_amplification: Some(2.5), years_left: Some(4.0) });
        (drive.percentage_used, drive.bytes_written) = (Some(0), Some(0));
        drive.estimate();
        assert_eq!(drive.estimates, Estimates::default(), "nothing is infinite");
        drive.percentage_used = Some(130);
        drive.estimate();
        assert_eq!(drive.estimates.years_left, Some(0.0));
    }
}
