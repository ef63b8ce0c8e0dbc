//! The health of NVMe drives: the SMART / Health Information log (02h of the base specification) and, for what is written to flash, the
//! SMART / Health Information Extended log of the Open Compute Project (C0h).

use super::{
    report::{DriveHealth, DrivePower, Spoken, Warning},
    transport::{NvmeCommand, Transport, TransportError},
};

const GET_LOG: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0a;
const ALL_NAMESPACES: u32 = u32::MAX;
const HEALTH_LOG: u8 = 0x02;
const OCP_LOG: u8 = 0xc0;
const LOG_LEN: usize = 512;
const IDENTIFY_LEN: usize = 4096;
/// The identifier at the end of the log of OCP ("Datacenter NVMe SSD Specification"): others use the number C0h for logs of their own.
const OCP_GUID: [u8; 16] =
    [0xc5, 0xaf, 0x10, 0x28, 0xea, 0xbf, 0xf2, 0xa4, 0x9c, 0x4f, 0x6f, 0x7c, 0xc9, 0x14, 0xd5, 0xaf];
/// A data unit of the health log: a thousand sectors of 512 bytes.
const DATA_UNIT: u128 = 512_000;

/// What is remembered of a drive from one reading to the next, so that it is not asked in vain: a log that a drive does not have counts
/// as an error in its error log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whether it has the log of OCP.
    pub(crate) has_ocp_log: Option<bool>,
}

pub(super) const fn get_log(page: u8, len: usize) -> NvmeCommand {
    let words = (len / 4 - 1) as u32;
    NvmeCommand { opcode: GET_LOG, namespace: ALL_NAMESPACES, word_10: page as u32 | words << 16 }
}

pub(super) const IDENTIFY_CONTROLLER: NvmeCommand = NvmeCommand { opcode: IDENTIFY, namespace: 0, word_10: 1 };
pub(super) const POWER_STATE: NvmeCommand = NvmeCommand { opcode: GET_FEATURES, namespace: 0, word_10: 2 };

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the field is in the page")
}

/// A count of 128 bits; one that does not fit into 64 is no count.
fn count(bytes: &[u8], at: usize, unit: u128) -> Option<u64> {
    u128::from_le_bytes(number(bytes, at)).checked_mul(unit)?.try_into().ok()
}

pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text: String = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Reads what the drive says. What it does not answer is noted; only if it answers nothing at all, there is an error.
pub(crate) fn read(
    drive: &mut dyn Transport,
    known: &mut Known,
    health: &mut DriveHealth,
) -> Result<(), TransportError> {
    health.protocol = Spoken::Nvme;
    health.power = Some(DrivePower::Active);
    let mut page = [0; LOG_LEN];
    drive.nvme(get_log(HEALTH_LOG, LOG_LEN), &mut page)?;
    match page.iter().all(|byte| *byte == page[0]) {
        true => health.not_read.push("the health log is empty".to_owned()),
        false => parse_health(&page, health),
    }
    let mut about = vec![0; IDENTIFY_LEN];
    match drive.nvme(IDENTIFY_CONTROLLER, &mut about) {
        Ok(_) => {
            (health.serial, health.model) = (text(&about[4..24]), text(&about[24..64]));
            match drive.nvme(POWER_STATE, &mut []) {
                Ok(state) => health.power_state_w = watts(&about, state),
                Err(error) => health.not_read.push(format!("power state: {error}")),
            }
        }
        Err(error) => health.not_read.push(format!("model and power states: {error}")),
    }
    match nand_bytes_written(drive, known) {
        Ok(Some(bytes)) => health.nand_bytes_written = Some(bytes),
        Ok(None) => health.not_read.push(
            "bytes written to flash: the drive has no log of OCP, so its write amplification can only be estimated"
                .to_owned(),
        ),
        Err(error) => health.not_read.push(format!("bytes written to flash: {error}")),
    }
    Ok(())
}

/// Reads how much was written to the flash in the drive's life; `None` if it does not count that.
pub(crate) fn nand_bytes_written(drive: &mut dyn Transport, known: &mut Known) -> Result<Option<u64>, TransportError> {
    if known.has_ocp_log == Some(false) {
        return Ok(None);
    }
    let mut page = [0; LOG_LEN];
    match drive.nvme(get_log(OCP_LOG, LOG_LEN), &mut page) {
        Ok(_) => {
            let is_there = page[496..512] == OCP_GUID;
            known.has_ocp_log = Some(is_there);
            Ok(count(&page, 0, 1).filter(|_| is_there))
        }
        Err(TransportError::Refused(_)) => {
            known.has_ocp_log = Some(false);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn parse_health(page: &[u8; LOG_LEN], health: &mut DriveHealth) {
    const CRITICAL: [(u8, Warning); 6] = [
        (0x01, Warning::Spare),
        (0x02, Warning::Temperature),
        (0x04, Warning::Reliability),
        (0x08, Warning::ReadOnly),
        (0x10, Warning::PowerLossProtection),
        (0x20, Warning::ReadOnly),
    ];
    let kelvin = u16::from_le_bytes(number(page, 1));
    // A drive that does not measure says 0; below 150 K and above 500 K none works.
    health.temperature_c = (150..500).contains(&kelvin).then(|| i32::from(kelvin) - 273);
    let percent = |at: usize| Some(u32::from(page[at])).filter(|value| *value <= 100);
    (health.spare_percent, health.spare_threshold_percent) = (percent(3), percent(4));
    health.percentage_used = Some(u32::from(page[5]));
    health.bytes_read = count(page, 32, DATA_UNIT);
    health.bytes_written = count(page, 48, DATA_UNIT);
    health.power_cycles = count(page, 112, 1);
    health.power_on_hours = count(page, 128, 1);
    health.unsafe_shutdowns = count(page, 144, 1);
    health.media_errors = count(page, 160, 1);
    for (bit, warning) in CRITICAL {
        if page[0] & bit != 0 {
            health.warn(warning);
        }
    }
    if health.spare_percent.zip(health.spare_threshold_percent).is_some_and(|(spare, least)| spare < least) {
        health.warn(Warning::Spare);
    }
    let bad = [Warning::Spare, Warning::Reliability, Warning::ReadOnly];
    health.passed = Some(!health.warnings.iter().any(|warning| bad.contains(warning)));
}

/// The most power of a power state, by its descriptor.
fn watts(about: &[u8], state: u32) -> Option<f64> {
    let states = u32::from(about[263]) + 1;
    let state = state & 0x1f;
    let at = 2048 + 32 * state as usize;
    let most = u16::from_le_bytes(number(about, at));
    let unit = if about[at + 3] & 1 == 1 { 1e-4 } else { 1e-2 };
    (state < states && most > 0).then(|| f64::from(most) * unit)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{super::transport::recorded::Recorded, *};

    /// The first lines of the log of a consumer drive, as `nvme get-log -i 2` printed them in an issue of nvme-cli (2759). Its later lines
    /// were not kept: the three counts that follow are ours.
    pub(crate) fn health_log() -> Vec<u8> {
        let mut page = vec![0; LOG_LEN];
        page[..6].copy_from_slice(&[0x00, 0x38, 0x01, 0x64, 0x0a, 0x01]);
        page[0x20..0x24].copy_from_slice(&[0x3a, 0xbc, 0x28, 0x08]);
        page[0x30..0x34].copy_from_slice(&[0xc4, 0xfc, 0x4c, 0x03]);
        page[0x40..0x44].copy_from_slice(&[0x2a, 0x46, 0xac, 0x1c]);
        page[0x50..0x54].copy_from_slice(&[0xd9, 0xe5, 0x8b, 0x2f]);
        page[0x60..0x62].copy_from_slice(&[0xd7, 0x04]);
        (page[0x70], page[0x80], page[0x90]) = (9, 200, 3);
        page
    }

    /// A log of OCP of version 3 with this count; the identifier is that of nvme-cli's `ocp` plugin.
    pub(crate) fn ocp_log(written: u128) -> Vec<u8> {
        let mut page = vec![0; LOG_LEN];
        page[..16].copy_from_slice(&written.to_le_bytes());
        page[494] = 3;
        page[496..].copy_from_slice(&OCP_GUID);
        page
    }

    /// The controller of QEMU: one power state of 25 W.
    pub(crate) fn identify() -> Vec<u8> {
        let mut about = vec![0; IDENTIFY_LEN];
        about[4..24].copy_from_slice(b"serial-1            ");
        about[24..64].copy_from_slice(format!("{:40}", "QEMU NVMe Ctrl").as_bytes());
        about[2048..2050].copy_from_slice(&2500_u16.to_le_bytes());
        about
    }

    pub(crate) fn drive(health: Vec<u8>, ocp: Option<Vec<u8>>) -> Recorded {
        let mut drive = Recorded::default();
        drive.nvme.push((get_log(HEALTH_LOG, LOG_LEN), Ok((0, health))));
        drive.nvme.push((IDENTIFY_CONTROLLER, Ok((0, identify()))));
        drive.nvme.push((POWER_STATE, Ok((0, vec![]))));
        if let Some(ocp) = ocp {
            drive.nvme.push((get_log(OCP_LOG, LOG_LEN), Ok((0, ocp))));
        }
        drive
    }

    fn health_of(drive: &mut Recorded) -> (DriveHealth, Known) {
        let (mut known, mut health) = (Known::default(), DriveHealth::of("nvme0n1"));
        read(drive, &mut known, &mut health).unwrap();
        (health, known)
    }

    #[test]
    fn a_recorded_log_is_understood() {
        assert_eq!(get_log(HEALTH_LOG, LOG_LEN).word_10, 0x007f_0002);
        let (health, known) = health_of(&mut drive(health_log(), None));
        assert_eq!(health.temperature_c, Some(39));
        assert_eq!(health.spare_percent.zip(health.spare_threshold_percent), Some((100, 10)));
        assert_eq!((health.percentage_used, health.passed), (Some(1), Some(true)));
        assert_eq!(health.bytes_read, Some(0x0828_bc3a * 512_000));
        assert_eq!(health.bytes_written, Some(0x034c_fcc4 * 512_000));
        assert_eq!(
            (health.power_cycles, health.power_on_hours, health.unsafe_shutdowns),
            (Some(9), Some(200), Some(3))
        );
        assert_eq!((health.media_errors, health.power_state_w), (Some(0), Some(25.0)));
        assert_eq!((health.model.as_deref(), health.serial.as_deref()), (Some("QEMU NVMe Ctrl"), Some("serial-1")));
        assert_eq!((health.nand_bytes_written, known.has_ocp_log), (None, Some(false)));
        assert!(health.not_read[0].contains("OCP"), "{:?}", health.not_read);
    }

    #[test]
    fn bytes_of_the_flash_count_only_with_the_identifier_of_ocp() {
        let (health, known) = health_of(&mut drive(health_log(), Some(ocp_log(7 << 40))));
        assert_eq!((health.nand_bytes_written, known.has_ocp_log), (Some(7 << 40), Some(true)));
        let mut other = ocp_log(7 << 40);
        other[500] ^= 1;
        let mut drive = drive(health_log(), Some(other));
        let (health, mut known) = health_of(&mut drive);
        assert_eq!((health.nand_bytes_written, known.has_ocp_log), (None, Some(false)));
        let before = drive.asked.len();
        assert_eq!(nand_bytes_written(&mut drive, &mut known), Ok(None));
        assert_eq!(drive.asked.len(), before, "a log that is not there is asked for once");
    }

    #[test]
    fn rubbish_is_no_figure() {
        let (health, _) = health_of(&mut drive(vec![0; LOG_LEN], None));
        assert_eq!((health.temperature_c, health.percentage_used, health.passed), (None, None, None));
        assert!(health.not_read.iter().any(|line| line.contains("empty")));
        let mut full = vec![0xff; LOG_LEN];
        full[5] = 3;
        let (health, _) = health_of(&mut drive(full, None));
        assert_eq!((health.temperature_c, health.spare_percent, health.bytes_written), (None, None, None));
        assert_eq!(health.percentage_used, Some(3));
        // An answer that ends early leaves the rest as zeros.
        let (health, _) = health_of(&mut drive(vec![0, 0x38], None));
        assert_eq!(health.temperature_c, None);
    }

    #[test]
    fn each_critical_bit_is_a_warning() {
        for (bit, warning, passed) in [
            (0x01, Warning::Spare, false),
            (0x02, Warning::Temperature, true),
            (0x04, Warning::Reliability, false),
            (0x08, Warning::ReadOnly, false),
            (0x10, Warning::PowerLossProtection, true),
            (0x20, Warning::ReadOnly, false),
        ] {
            let mut page = health_log();
            page[0] = bit;
            let (health, _) = health_of(&mut drive(page, None));
            assert_eq!((health.warnings, health.passed), (vec![warning], Some(passed)), "{bit}");
        }
        let mut page = health_log();
        page[3] = 9;
        assert_eq!(health_of(&mut drive(page, None)).0.warnings, [Warning::Spare]);
    }

    #[test]
    fn a_drive_that_does_not_answer_is_an_error() {
        let mut silent = Recorded::default();
        silent.nvme.push((get_log(HEALTH_LOG, LOG_LEN), Err(TransportError::TimedOut)));
        let mut health = DriveHealth::of("nvme0n1");
        assert_eq!(read(&mut silent, &mut Known::default(), &mut health), Err(TransportError::TimedOut));
    }
}
