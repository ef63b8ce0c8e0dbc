//! The health and the power condition of SCSI drives, by the log pages of SPC and SBC.

use super::{
    nvme::text,
    report::{DriveHealth, DrivePower, Spoken, Warning},
    transport::{ScsiAnswer, Transport, TransportError},
};

const REQUEST_SENSE: u8 = 0x03;
const INQUIRY: u8 = 0x12;
const START_STOP_UNIT: u8 = 0x1b;
const LOG_SENSE: u8 = 0x4d;
/// The most of a log page that is read.
const PAGE_LEN: usize = 512;
/// The pages: errors of writes and reads, temperature, solid-state media, informational exceptions.
const WRITE_ERRORS: u8 = 0x02;
const READ_ERRORS: u8 = 0x03;
const TEMPERATURE: u8 = 0x0d;
const START_STOPS: u8 = 0x0e;
const SOLID_STATE: u8 = 0x11;
const EXCEPTIONS: u8 = 0x2f;

/// The key and the additional codes of sense data.
fn codes(sense: &[u8]) -> Option<(u8, u8, u8)> {
    match sense.first()? & 0x7f {
        0x70 | 0x71 => Some((sense.get(2)? & 0xf, *sense.get(12)?, *sense.get(13)?)),
        0x72 | 0x73 => Some((sense.get(1)? & 0xf, *sense.get(2)?, *sense.get(3)?)),
        _ => None,
    }
}

pub(super) fn sense_text(sense: &[u8]) -> String {
    match codes(sense) {
        Some((5, ..)) => "it does not know it (illegal request)".to_owned(),
        Some((key, code, qualifier)) => format!("sense {key:x}, {code:02x}/{qualifier:02x}"),
        None => "it gives no reason".to_owned(),
    }
}

fn done(answer: ScsiAnswer) -> Result<usize, TransportError> {
    match answer.status {
        0 => Ok(answer.transferred),
        _ => Err(TransportError::Refused(sense_text(&answer.sense))),
    }
}

/// Whether the drive rests. The question does not wake it.
pub(crate) fn power(drive: &mut dyn Transport) -> Result<DrivePower, TransportError> {
    let mut sense = [0; 64];
    let len = done(drive.scsi(&[REQUEST_SENSE, 0, 0, 0, sense.len() as u8, 0], &mut sense)?)?;
    Ok(match codes(&sense[..len]) {
        Some((_, 0x5e, 0x02 | 0x04 | 0x09 | 0x0a)) => DrivePower::Standby,
        Some((_, 0x5e, _)) => DrivePower::Idle,
        Some((2, 0x04, 0x02)) => DrivePower::Stopped,
        _ => DrivePower::Active,
    })
}

/// Stops the motor now. The power condition "standby" ends with the next command. A drive that does not know it is stopped, if Linux
/// starts it again (`is_restarted`); others would fail every command from then on.
pub(crate) fn stand_by(drive: &mut dyn Transport, is_restarted: bool) -> Result<(), TransportError> {
    let standby = drive.scsi(&[START_STOP_UNIT, 0, 0, 0, 0x30, 0], &mut [])?;
    match done(standby) {
        Err(TransportError::Refused(_)) if is_restarted => {
            done(drive.scsi(&[START_STOP_UNIT, 0, 0, 0, 0, 0], &mut [])?).map(drop)
        }
        other => other.map(drop),
    }
}

/// A log page: the parameters that it has, by their codes.
fn log(drive: &mut dyn Transport, page: u8) -> Result<Vec<(u16, Vec<u8>)>, TransportError> {
    let mut data = [0; PAGE_LEN];
    let len = (PAGE_LEN as u16).to_be_bytes();
    // The cumulative values.
    let len = done(drive.scsi(&[LOG_SENSE, 0, 0x40 | page, 0, 0, 0, 0, len[0], len[1], 0], &mut data)?)?;
    let data = &data[..len];
    if data.len() < 4 || data[0] & 0x3f != page {
        return Err(TransportError::Refused("the answer is another page".to_owned()));
    }
    let end = (4 + usize::from(u16::from_be_bytes([data[2], data[3]]))).min(data.len());
    let mut rest = &data[4..end];
    let mut parameters = Vec::new();
    while let [code, low, _, len, after @ ..] = rest {
        let Some((value, next)) = after.split_at_checked(usize::from(*len)) else { break };
        parameters.push((u16::from_be_bytes([*code, *low]), value.to_vec()));
        rest = next;
    }
    Ok(parameters)
}

fn number(parameters: &[(u16, Vec<u8>)], code: u16) -> Option<u64> {
    let (_, value) = parameters.iter().find(|(known, _)| *known == code)?;
    (!value.is_empty() && value.len() <= 8).then(|| value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

/// Reads what the drive says. What it does not answer is noted; only if it answers nothing at all, there is an error.
pub(crate) fn read(drive: &mut dyn Transport, health: &mut DriveHealth) -> Result<(), TransportError> {
    health.protocol = Spoken::Scsi;
    let mut about = [0; 96];
    let len = done(drive.scsi(&[INQUIRY, 0, 0, 0, about.len() as u8, 0], &mut about)?)?;
    if len >= 32 {
        let names = [text(&about[8..16]), text(&about[16..32])];
        health.model = Some(names.into_iter().flatten().collect::<Vec<_>>().join(" ")).filter(|name| !name.is_empty());
    }
    let mut page = |number: u8, what: &str, health: &mut DriveHealth| match log(drive, number) {
        Ok(parameters) => parameters,
        Err(error) => {
            health.not_read.push(format!("{what}: {error}"));
            Vec::new()
        }
    };
    let (writes, reads) =
        (page(WRITE_ERRORS, "errors of writes", health), page(READ_ERRORS, "errors of reads", health));
    (health.bytes_written, health.bytes_read) = (number(&writes, 5), number(&reads, 5));
    let errors = [number(&writes, 6), number(&reads, 6)];
    health.media_errors = errors.into_iter().flatten().reduce(u64::saturating_add);
    let celsius = |value: Option<u64>| value.map(|value| value as u8).filter(|value| *value != 0xff);
    let temperatures = page(TEMPERATURE, "temperature", health);
    health.temperature_c = celsius(number(&temperatures, 0)).map(i32::from);
    let most = celsius(number(&temperatures, 1)).filter(|most| *most > 0).map(i32::from);
    if health.temperature_c.zip(most).is_some_and(|(now, most)| now > most) {
        health.warn(Warning::Temperature);
    }
    let starts = page(START_STOPS, "starts and stops", health);
    health.start_stops = number(&starts, 4);
    let solid = page(SOLID_STATE, "percentage used", health);
    health.percentage_used = number(&solid, 1).map(|value| u32::from(value as u8));
    let exceptions = page(EXCEPTIONS, "its own judgement", health);
    if let Some((_, value)) = exceptions.iter().find(|(code, value)| *code == 0 && value.len() >= 2) {
        // 5Dh: a failure is predicted; 0Bh: a warning, of which 01h is one of temperature.
        match (value[0], value[1]) {
            (0x5d, _) => health.warn(Warning::Failing),
            (0x0b, 0x01) => health.warn(Warning::Temperature),
            _ => {}
        }
        health.passed = Some(value[0] != 0x5d);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::transport::recorded::Recorded, *};

    fn with_log(drive: &mut Recorded, page: u8, parameters: &[(u16, &[u8])]) {
        let mut data = vec![page, 0, 0, 0];
        for (code, value) in parameters {
            data.extend(code.to_be_bytes());
            data.extend([3, value.len() as u8]);
            data.extend(*value);
        }
        data[3] = data.len() as u8 - 4;
        drive.scsi.push((vec![LOG_SENSE, 0, 0x40 | page], Ok((ScsiAnswer::default(), data))));
    }

    fn inquiry(drive: &mut Recorded) {
        let mut about = vec![0; 36];
        about[8..32].copy_from_slice(b"HGST    HUSMM1640ASS204 ");
        drive.scsi.push((vec![INQUIRY], Ok((ScsiAnswer::default(), about))));
    }

    #[test]
    fn log_pages_are_understood() {
        let mut drive = Recorded::default();
        inquiry(&mut drive);
        with_log(&mut drive, WRITE_ERRORS, &[(0, &[0, 9]), (5, &[0, 0, 1, 0, 0, 0, 0, 0]), (6, &[0, 0, 0, 2])]);
        with_log(&mut drive, READ_ERRORS, &[(6, &[1])]);
        with_log(&mut drive, TEMPERATURE, &[(0, &[0, 66]), (1, &[0, 65])]);
        with_log(&mut drive, SOLID_STATE, &[(1, &[0, 0, 0, 4])]);
        with_log(&mut drive, EXCEPTIONS, &[(0, &[0x5d, 0x10, 66])]);
        let mut health = DriveHealth::of("sdb");
        read(&mut drive, &mut health).unwrap();
        assert_eq!(health.model.as_deref(), Some("HGST HUSMM1640ASS204"));
        assert_eq!((health.bytes_written, health.media_errors), (Some(1 << 40), Some(3)));
        assert_eq!((health.temperature_c, health.percentage_used, health.passed), (Some(66), Some(4), Some(false)));
        assert_eq!(health.warnings, [Warning::Failing, Warning::Temperature]);
        assert_eq!(
            health.not_read,
            ["starts and stops: the drive refuses this: it does not know it (illegal request)"]
        );
    }

    #[test]
    fn rubbish_is_no_figure() {
        for data in [vec![], vec![0; 3], vec![0x0d, 0, 0xff, 0xff, 0, 0, 0, 200, 1], vec![2; 64]] {
            let mut drive = Recorded::default();
            inquiry(&mut drive);
            drive.scsi.push((vec![LOG_SENSE], Ok((ScsiAnswer::default(), data))));
            let mut health = DriveHealth::of("sdb");
            read(&mut drive, &mut health).unwrap();
            assert_eq!((health.temperature_c, health.percentage_used, health.passed), (None, None, None));
        }
    }

    #[test]
    fn power_conditions_are_read_without_waking_the_drive() {
        for (codes, power_of) in [
            ((0, 0x5e, 0x04), DrivePower::Standby),
            ((0, 0x5e, 0x03), DrivePower::Idle),
            ((2, 0x04, 0x02), DrivePower::Stopped),
            ((0, 0, 0), DrivePower::Active),
        ] {
            let mut drive = Recorded::default();
            let sense = vec![0x70, 0, codes.0, 0, 0, 0, 0, 10, 0, 0, 0, 0, codes.1, codes.2, 0, 0, 0, 0];
            drive.scsi.push((vec![REQUEST_SENSE], Ok((ScsiAnswer::default(), sense))));
            assert_eq!(power(&mut drive), Ok(power_of));
        }
    }

    #[test]
    fn a_drive_is_stopped_only_if_linux_starts_it_again() {
        let mut drive = Recorded::default();
        assert!(stand_by(&mut drive, false).is_err());
        assert_eq!(drive.asked, [[START_STOP_UNIT, 0, 0, 0, 0x30, 0]]);
        assert!(stand_by(&mut drive, true).is_err());
        assert_eq!(drive.asked[2], [START_STOP_UNIT, 0, 0, 0, 0, 0]);
        drive.scsi.push((vec![START_STOP_UNIT], Ok((ScsiAnswer::default(), vec![]))));
        assert_eq!(stand_by(&mut drive, true), Ok(()));
        assert_eq!(drive.asked.len(), 4, "standby is enough");
    }
}
