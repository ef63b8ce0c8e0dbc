//! The health and the power mode of ATA drives, by commands that SCSI carries (ATA PASS-THROUGH, of SAT): the device statistics of ACS,
//! and for drives without these a few attributes of SMART that all manufacturers use in the same way.

use super::{
    nvme::text,
    report::{DriveHealth, DrivePower, Spoken, Warning},
    transport::{Transport, TransportError},
};

const PASS_THROUGH_16: u8 = 0x85;
const NO_DATA: u8 = 3;
const DATA_IN: u8 = 4;
const SECTOR: usize = 512;

const CHECK_POWER_MODE: u8 = 0xe5;
const STANDBY_IMMEDIATE: u8 = 0xe0;
const IDENTIFY: u8 = 0xec;
const READ_LOG_EXT: u8 = 0x2f;
const SMART: u8 = 0xb0;
const SMART_READ_DATA: u8 = 0xd0;
const SMART_READ_LOG: u8 = 0xd5;
const SMART_RETURN_STATUS: u8 = 0xda;
const DEVICE_STATISTICS: u8 = 0x04;

/// A command; registers that are not named are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    pub(super) command: u8,
    pub(super) features: u8,
    pub(super) count: u8,
    pub(super) lba: [u8; 3],
    /// Whether it has the registers of 48 bits.
    pub(super) extended: bool,
}

/// What the registers say when a command has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Registers {
    count: u8,
    lba: [u8; 3],
}

impl Task {
    pub(super) fn bytes(self, reads: bool) -> [u8; 16] {
        let protocol = if reads { DATA_IN } else { NO_DATA };
        // The length is in the count, in sectors, from the drive; without data, the registers are to be returned.
        let how = if reads { 0x0e } else { 0x20 };
        let mut bytes = [0; 16];
        bytes[0] = PASS_THROUGH_16;
        bytes[1] = protocol << 1 | u8::from(self.extended);
        bytes[2] = how;
        (bytes[4], bytes[6]) = (self.features, self.count);
        (bytes[8], bytes[10], bytes[12]) = (self.lba[0], self.lba[1], self.lba[2]);
        bytes[14] = self.command;
        bytes
    }
}

fn smart(features: u8, count: u8, log: u8) -> Task {
    Task { command: SMART, features, count, lba: [log, 0x4f, 0xc2], extended: false }
}

/// Sends a command that reads `data`.
fn read_data(drive: &mut dyn Transport, task: Task, data: &mut [u8]) -> Result<(), TransportError> {
    let answer = drive.scsi(&task.bytes(true), data)?;
    match answer.status {
        0 if answer.transferred == data.len() => Ok(()),
        0 => Err(TransportError::Refused(format!("{} of {} bytes came", answer.transferred, data.len()))),
        _ => Err(refused(&answer.sense)),
    }
}

/// Sends a command without data; returns the registers.
fn send(drive: &mut dyn Transport, task: Task) -> Result<Registers, TransportError> {
    let answer = drive.scsi(&task.bytes(false), &mut [])?;
    registers(&answer.sense).ok_or_else(|| refused(&answer.sense))
}

/// The registers in sense data, if they are there and say that the command succeeded.
fn registers(sense: &[u8]) -> Option<Registers> {
    let (status, registers) = match sense.first()? & 0x7f {
        // A list of descriptors, in which that of ATA has code 9.
        0x72 => {
            let mut at = 8;
            while sense.len() >= at + 14 && sense[at] != 9 {
                at += usize::from(sense[at + 1]) + 2;
            }
            let found = sense.get(at..at + 14).filter(|found| found[0] == 9)?;
            (found[13], Registers { count: found[5], lba: [found[7], found[9], found[11]] })
        }
        // Fixed, with the additional sense "ATA pass through information available".
        0x70 if sense.len() >= 14 && sense[12..14] == [0x00, 0x1d] => {
            (sense[4], Registers { count: sense[6], lba: [sense[9], sense[10], sense[11]] })
        }
        _ => return None,
    };
    // The bits of errors: ERR and DF.
    (status & 0x21 == 0).then_some(registers)
}

fn refused(sense: &[u8]) -> TransportError {
    TransportError::Refused(super::scsi::sense_text(sense))
}

/// Whether a refusal means that this is no ATA drive.
pub(super) fn identify(drive: &mut dyn Transport) -> Result<[u8; SECTOR], TransportError> {
    let mut about = [0; SECTOR];
    read_data(drive, Task { command: IDENTIFY, count: 1, ..Task::default() }, &mut about)?;
    if about.iter().all(|byte| *byte == about[0]) {
        return Err(TransportError::Refused("the answer is empty".to_owned()));
    }
    Ok(about)
}

/// Whether the drive rests. The question does not wake it.
pub(crate) fn power(drive: &mut dyn Transport) -> Result<DrivePower, TransportError> {
    let task = Task { command: CHECK_POWER_MODE, ..Task::default() };
    Ok(match send(drive, task)?.count {
        0x00 | 0x01 => DrivePower::Standby,
        0x40 | 0x80..=0x83 => DrivePower::Idle,
        _ => DrivePower::Active,
    })
}

/// Stops the motor now. The next command starts it.
pub(crate) fn stand_by(drive: &mut dyn Transport) -> Result<(), TransportError> {
    send(drive, Task { command: STANDBY_IMMEDIATE, ..Task::default() }).map(drop)
}

fn word(about: &[u8; SECTOR], index: usize) -> u16 {
    u16::from_le_bytes([about[2 * index], about[2 * index + 1]])
}

/// Texts are in words, the first sign in the high byte.
fn words_text(about: &[u8; SECTOR], from: usize, to: usize) -> Option<String> {
    let swapped: Vec<u8> = (from..to).flat_map(|index| word(about, index).to_be_bytes()).collect();
    text(&swapped)
}

fn sector_bytes(about: &[u8; SECTOR]) -> u64 {
    let about_sizes = word(about, 106);
    let is_valid = about_sizes & 0xc000 == 0x4000;
    let words = u64::from(word(about, 117)) | u64::from(word(about, 118)) << 16;
    if is_valid && about_sizes & 0x1000 != 0 && words >= 256 { words * 2 } else { SECTOR as u64 }
}

/// Reads what the drive says. `about`: what it has answered to IDENTIFY DEVICE.
pub(crate) fn read(drive: &mut dyn Transport, about: &[u8; SECTOR], health: &mut DriveHealth) {
    health.protocol = Spoken::Ata;
    (health.serial, health.model) = (words_text(about, 10, 20), words_text(about, 27, 47));
    let sector = sector_bytes(about);
    match passed(drive) {
        Ok(passed) => health.passed = Some(passed),
        Err(error) => health.not_read.push(format!("its own judgement: {error}")),
    }
    if health.passed == Some(false) {
        health.warn(Warning::Failing);
    }
    if let Err(error) = statistics(drive, sector, health) {
        health.not_read.push(format!("device statistics: {error}"));
    }
    // What the statistics do not have, attributes may.
    let lacks =
        health.power_on_hours.is_none() || health.temperature_c.is_none() || health.reallocated_sectors.is_none();
    if lacks && let Err(error) = attributes(drive, health) {
        health.not_read.push(format!("attributes of SMART: {error}"));
    }
    let is_flash = word(about, 217) == 1;
    if is_flash && health.percentage_used.is_none() {
        let why = "the drive has no such statistic; attributes of its manufacturer's own may (smartctl -A)";
        health.not_read.push(format!("percentage used: {why}"));
    }
}

fn passed(drive: &mut dyn Transport) -> Result<bool, TransportError> {
    match send(drive, smart(SMART_RETURN_STATUS, 0, 0))?.lba {
        [_, 0x4f, 0xc2] => Ok(true),
        [_, 0xf4, 0x2c] => Ok(false),
        _ => Err(TransportError::Refused("an answer that means nothing".to_owned())),
    }
}

/// A page of the log of device statistics.
fn page(drive: &mut dyn Transport, number: u8) -> Result<[u8; SECTOR], TransportError> {
    let mut page = [0; SECTOR];
    let task = Task {
        command: READ_LOG_EXT,
        count: 1,
        lba: [DEVICE_STATISTICS, number, 0],
        extended: true,
        ..Task::default()
    };
    let general = read_data(drive, task, &mut page);
    if let Err(TransportError::Refused(_)) = general {
        // Older drives have the log for SMART alone, which is read from its beginning.
        let mut pages = vec![0; SECTOR * (usize::from(number) + 1)];
        read_data(drive, smart(SMART_READ_LOG, number + 1, DEVICE_STATISTICS), &mut pages)?;
        page.copy_from_slice(&pages[SECTOR * usize::from(number)..]);
    } else {
        general?;
    }
    match page[2] == number {
        true => Ok(page),
        false => Err(TransportError::Refused(format!("page {number} is not there"))),
    }
}

/// A statistic, of this many bytes, if the drive supports it and its value is valid.
fn statistic(page: &[u8; SECTOR], at: usize, bytes: usize) -> Option<u64> {
    let field: [u8; 8] = page[at..at + 8].try_into().expect("the field is in the page");
    let value = u64::from_le_bytes(field);
    let mask = u64::MAX >> (64 - 8 * bytes);
    (field[7] & 0xc0 == 0xc0).then_some(value & mask)
}

fn statistics(drive: &mut dyn Transport, sector: u64, health: &mut DriveHealth) -> Result<(), TransportError> {
    let list = page(drive, 0)?;
    let count = usize::from(list[8]).min(SECTOR - 9);
    let there = |number: u8| list[9..9 + count].contains(&number);
    let mut of = |number: u8| match there(number).then(|| page(drive, number)) {
        Some(Err(TransportError::Refused(_))) | None => Ok(None),
        Some(page) => page.map(Some),
    };
    if let Some(general) = of(1)? {
        health.power_cycles = statistic(&general, 0x08, 4);
        health.power_on_hours = statistic(&general, 0x10, 4);
        health.bytes_written = statistic(&general, 0x18, 6).and_then(|sectors| sectors.checked_mul(sector));
        health.bytes_read = statistic(&general, 0x28, 6).and_then(|sectors| sectors.checked_mul(sector));
    }
    if let Some(rotating) = of(3)? {
        health.start_stops = statistic(&rotating, 0x18, 4);
        health.reallocated_sectors = statistic(&rotating, 0x20, 4);
        health.pending_sectors = statistic(&rotating, 0x38, 4);
    }
    if let Some(errors) = of(4)? {
        health.media_errors = statistic(&errors, 0x08, 4);
    }
    if let Some(temperatures) = of(5)? {
        let celsius = |at| statistic(&temperatures, at, 1).map(|value| i32::from(value as u8 as i8));
        health.temperature_c = celsius(0x08);
        let (most, least) = (celsius(0x58), celsius(0x68));
        if let Some(now) = health.temperature_c {
            let is_too_hot = most.is_some_and(|most| most > 0 && now > most);
            // Manufacturers that state no least temperature say 0.
            let is_too_cold = least.is_some_and(|least| least != 0 && now < least);
            if is_too_hot || is_too_cold {
                health.warn(Warning::Temperature);
            }
        }
    }
    if let Some(solid) = of(7)? {
        health.percentage_used = statistic(&solid, 0x08, 1).map(|value| value as u32);
    }
    Ok(())
}

/// Attributes whose meaning is the same for all manufacturers, where the statistics have said nothing.
fn attributes(drive: &mut dyn Transport, health: &mut DriveHealth) -> Result<(), TransportError> {
    let mut data = [0; SECTOR];
    read_data(drive, Task { count: 1, ..smart(SMART_READ_DATA, 1, 0) }, &mut data)?;
    if data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
        return Err(TransportError::Refused("the checksum of the answer is wrong".to_owned()));
    }
    for row in data[2..362].chunks_exact(12) {
        let raw = u64::from(u32::from_le_bytes([row[5], row[6], row[7], row[8]]));
        let figure = match row[0] {
            5 => &mut health.reallocated_sectors,
            9 => &mut health.power_on_hours,
            12 => &mut health.power_cycles,
            187 => &mut health.media_errors,
            193 => &mut health.start_stops,
            197 => &mut health.pending_sectors,
            190 | 194 if (1..125).contains(&row[5]) => {
                health.temperature_c.get_or_insert(i32::from(row[5]));
                continue;
            }
            _ => continue,
        };
        // Some put minutes or flags into the higher bytes.
        figure.get_or_insert(if row[0] == 9 { raw & 0xff_ffff } else { raw });
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{
        super::transport::{ScsiAnswer, recorded::Recorded},
        *,
    };

    /// Sense data with the registers of ATA, as SAT defines them.
    pub(crate) fn sense(count: u8, lba: [u8; 3], status: u8) -> ScsiAnswer {
        let mut sense =
            vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 0, 0, 0, count, 0, lba[0], 0, lba[1], 0, lba[2], 0x40];
        sense.push(status);
        ScsiAnswer { status: 2, sense, transferred: 0 }
    }

    fn with(drive: &mut Recorded, task: Task, data: Vec<u8>) {
        drive.scsi.push((task.bytes(true).to_vec(), Ok((ScsiAnswer::default(), data))));
    }

    fn with_page(drive: &mut Recorded, number: u8, rows: &[(usize, u64)]) {
        let mut page = vec![0; SECTOR];
        (page[0], page[2]) = (1, number);
        for (at, value) in rows {
            page[*at..at + 8].copy_from_slice(&(value | 0xc0 << 56).to_le_bytes());
        }
        let lba = [DEVICE_STATISTICS, number, 0];
        with(drive, Task { command: READ_LOG_EXT, count: 1, lba, extended: true, ..Task::default() }, page);
    }

    pub(crate) fn about(flash: bool) -> [u8; SECTOR] {
        let mut about = [0; SECTOR];
        let mut put = |word: usize, text: &str| {
            for (index, pair) in text.as_bytes().chunks(2).enumerate() {
                about[2 * (word + index)] = *pair.get(1).unwrap_or(&b' ');
                about[2 * (word + index) + 1] = pair[0];
            }
        };
        put(10, "WW12345");
        put(27, "ST4000VN006-3CW104");
        about[434] = u8::from(flash);
        about
    }

    /// An IronWolf of Seagate: the values that smartctl printed of its device statistics in an issue of smartmontools (406).
    pub(crate) fn disk() -> Recorded {
        let mut drive = Recorded::default();
        with(&mut drive, Task { command: IDENTIFY, count: 1, ..Task::default() }, about(false).to_vec());
        let mut list = vec![0; SECTOR];
        list[8..14].copy_from_slice(&[5, 0, 1, 3, 4, 5]);
        let lba = [DEVICE_STATISTICS, 0, 0];
        with(&mut drive, Task { command: READ_LOG_EXT, count: 1, lba, extended: true, ..Task::default() }, list);
        with_page(
            &mut drive,
            1,
            &[(0x08, 33), (0x10, 1627), (0x18, 22_089_031_738), (0x20, 22_496_093), (0x28, 7_833_204_217)],
        );
        with_page(
            &mut drive,
            3,
            &[(0x08, 1532), (0x10, 1507), (0x18, 534), (0x20, 0), (0x28, 0), (0x30, 0), (0x38, 0), (0x40, 57)],
        );
        with_page(&mut drive, 4, &[(0x08, 0), (0x10, 12)]);
        with_page(&mut drive, 5, &[(0x08, 34), (0x58, 70)]);
        let status = smart(SMART_RETURN_STATUS, 0, 0).bytes(false).to_vec();
        drive.scsi.push((status, Ok((sense(0, [0, 0x4f, 0xc2], 0x50), vec![]))));
        drive
    }

    pub(crate) fn power_mode(drive: &mut Recorded, count: u8) {
        let check = Task { command: CHECK_POWER_MODE, ..Task::default() };
        drive.scsi.insert(0, (check.bytes(false).to_vec(), Ok((sense(count, [0; 3], 0x50), vec![]))));
    }

    fn health_of(drive: &mut Recorded) -> DriveHealth {
        let mut health = DriveHealth::of("sda");
        let about = identify(drive).unwrap();
        read(drive, &about, &mut health);
        health
    }

    #[test]
    fn recorded_statistics_are_understood() {
        let mut drive = disk();
        let health = health_of(&mut drive);
        assert_eq!((health.model.as_deref(), health.serial.as_deref()), (Some("ST4000VN006-3CW104"), Some("WW12345")));
        assert_eq!((health.passed, health.power_on_hours, health.power_cycles), (Some(true), Some(1627), Some(33)));
        assert_eq!(health.bytes_written, Some(22_089_031_738 * 512));
        assert_eq!(health.bytes_read, Some(7_833_204_217 * 512));
        assert_eq!(
            (health.start_stops, health.reallocated_sectors, health.media_errors),
            (Some(534), Some(0), Some(0))
        );
        assert_eq!((health.temperature_c, health.percentage_used), (Some(34), None));
        assert_eq!(
            (health.warnings, health.not_read),
            (vec![], Vec::<String>::new()),
            "a disk does not wear by writes"
        );
        assert!(!drive.asked.iter().any(|command| command[4] == SMART_READ_DATA), "attributes are not needed");
    }

    #[test]
    fn statistics_that_are_not_valid_do_not_count() {
        let mut page = [0; SECTOR];
        page[8..16].copy_from_slice(&(5_u64 | 0x80 << 56).to_le_bytes());
        assert_eq!(statistic(&page, 8, 1), None, "supported, but not valid");
        page[15] = 0xc0;
        page[14] = 0xee;
        assert_eq!((statistic(&page, 8, 1), statistic(&page, 8, 6)), (Some(5), Some(5)), "the rest is not the value");
    }

    #[test]
    fn too_hot_and_failing_are_warnings() {
        let mut drive = disk();
        drive.scsi.retain(|(command, _)| command[14] != READ_LOG_EXT || command[10] != 5);
        with_page(&mut drive, 5, &[(0x08, 71), (0x58, 70), (0x68, 0)]);
        drive.scsi.retain(|(command, _)| command[4] != SMART_RETURN_STATUS);
        let status = smart(SMART_RETURN_STATUS, 0, 0).bytes(false).to_vec();
        drive.scsi.push((status, Ok((sense(0, [0, 0xf4, 0x2c], 0x50), vec![]))));
        let health = health_of(&mut drive);
        assert_eq!((health.passed, health.warnings), (Some(false), vec![Warning::Failing, Warning::Temperature]));
    }

    /// What QEMU's disk has: no general logs, and five attributes.
    #[test]
    fn attributes_take_the_place_of_statistics() {
        let mut data = vec![0; SECTOR];
        for (index, (id, raw)) in [(9, 0x0300_0005_u32), (12, 7), (190, 31), (5, 2), (231, 90)].into_iter().enumerate()
        {
            let row = &mut data[2 + 12 * index..][..12];
            row[0] = id;
            row[5..9].copy_from_slice(&raw.to_le_bytes());
        }
        data[511] = 0_u8.wrapping_sub(data.iter().fold(0, |sum, byte| sum.wrapping_add(*byte)));
        let mut drive = Recorded::default();
        with(&mut drive, Task { command: IDENTIFY, count: 1, ..Task::default() }, about(true).to_vec());
        with(&mut drive, smart(SMART_READ_DATA, 1, 0), data.clone());
        let health = health_of(&mut drive);
        assert_eq!((health.power_on_hours, health.power_cycles, health.temperature_c), (Some(5), Some(7), Some(31)));
        assert_eq!((health.reallocated_sectors, health.percentage_used), (Some(2), None), "231 has many meanings");
        assert!(health.not_read.iter().any(|line| line.starts_with("device statistics")), "{:?}", health.not_read);
        assert!(health.not_read.iter().any(|line| line.starts_with("percentage used")), "{:?}", health.not_read);
        data[100] ^= 1;
        drive.scsi.pop();
        with(&mut drive, smart(SMART_READ_DATA, 1, 0), data);
        let health = health_of(&mut drive);
        assert!(health.power_on_hours.is_none() && health.not_read.iter().any(|line| line.contains("checksum")));
    }

    #[test]
    fn an_answer_that_ends_early_is_refused() {
        let mut drive = Recorded::default();
        with(&mut drive, Task { command: IDENTIFY, count: 1, ..Task::default() }, vec![1; 100]);
        assert!(matches!(identify(&mut drive), Err(TransportError::Refused(why)) if why.contains("100 of 512")));
        with(&mut drive, smart(SMART_READ_DATA, 1, 0), vec![]);
        assert!(attributes(&mut drive, &mut DriveHealth::of("sda")).is_err());
    }

    #[test]
    fn power_modes_are_read_from_either_form_of_sense_data() {
        for (count, power_of) in
            [(0, DrivePower::Standby), (1, DrivePower::Standby), (0x81, DrivePower::Idle), (0xff, DrivePower::Active)]
        {
            let mut drive = Recorded::default();
            power_mode(&mut drive, count);
            assert_eq!(power(&mut drive), Ok(power_of));
            let mut fixed = vec![0x70, 0, 1, 0, 0x50, 0x40, count, 10, 0, 0, 0, 0, 0, 0x1d];
            fixed.resize(18, 0);
            assert_eq!(registers(&fixed).unwrap().count, count);
        }
        assert_eq!(registers(&sense(0, [0; 3], 0x51).sense), None, "the command failed");
        for cut in 0..22 {
            assert_eq!(registers(&sense(0, [0; 3], 0x50).sense[..cut]), None, "{cut}");
        }
        let mut drive = Recorded::default();
        assert!(matches!(stand_by(&mut drive), Err(TransportError::Refused(_))));
        assert_eq!(drive.asked[0], [0x85, 6, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0, 0]);
    }
}
