//! How commands reach a drive: the two system calls by which Linux passes them on, and a trait, so that tests answer in their place.

use std::{
    fs::{File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
    time::Duration,
};

/// How long Linux waits for a drive's answer to a command. A disk that starts its motor has answered by then.
pub(crate) const COMMAND_TIME: Duration = Duration::from_secs(30);

/// A command of NVMe's admin set that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NvmeCommand {
    pub(crate) opcode: u8,
    pub(crate) namespace: u32,
    pub(crate) word_10: u32,
}

/// The answer to a SCSI command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScsiAnswer {
    /// 0: done; 2: the sense data say more.
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    /// How many bytes came.
    pub(crate) transferred: usize,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("this needs root: run as root, or give CAP_SYS_ADMIN and CAP_SYS_RAWIO")]
    NotAllowed,
    #[error("the drive did not answer within {} s", COMMAND_TIME.as_secs())]
    TimedOut,
    #[error("the drive refuses this: {0}")]
    Refused(String),
    #[error("{0}")]
    System(String),
}

impl From<io::Error> for TransportError {
    fn from(error: io::Error) -> TransportError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TransportError::NotAllowed,
            Some(libc::ETIMEDOUT | libc::ETIME) => TransportError::TimedOut,
            Some(libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP) => {
                TransportError::Refused("Linux does not pass such commands on to it".to_owned())
            }
            _ => TransportError::System(error.to_string()),
        }
    }
}

/// Sends commands to one drive, and waits for the answers.
pub(crate) trait Transport {
    /// Sends an admin command that fills `data`; returns the first word of its completion.
    fn nvme(&mut self, command: NvmeCommand, data: &mut [u8]) -> Result<u32, TransportError>;

    /// Sends a SCSI command that reads into `data`, or has no data if that is empty.
    fn scsi(&mut self, command: &[u8], data: &mut [u8]) -> Result<ScsiAnswer, TransportError>;
}

/// A drive of this machine.
#[derive(Debug)]
pub(crate) struct Ioctl(File);

impl Ioctl {
    /// Opens the device node of a drive, for commands alone.
    pub(crate) fn open(node: &Path) -> Result<Ioctl, TransportError> {
        // O_NONBLOCK: opening must not wait for a medium. Read-only: closing must not make udev look at the drive again.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(node)?;
        Ok(Ioctl(file))
    }
}

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Debug, Default)]
struct NvmePassthrough {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    word_2: u32,
    word_3: u32,
    metadata: u64,
    address: u64,
    metadata_len: u32,
    data_len: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<NvmePassthrough>() == 72);

/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN_COMMAND: libc::c_ulong = 0xc048_4e41;

/// `struct sg_io_hdr` of `scsi/sg.h`.
#[repr(C)]
#[derive(Debug)]
struct SgIo {
    interface: i32,
    direction: i32,
    command_len: u8,
    most_sense: u8,
    vectors: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residue: i32,
    duration_ms: u32,
    info: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<SgIo>() == 88);

const SG_IO: libc::c_ulong = 0x2285;
const NO_DATA: i32 = -1;
const FROM_DRIVE: i32 = -3;
/// `DID_TIME_OUT` of the host status.
const HOST_TIMED_OUT: u16 = 3;

impl Transport for Ioctl {
    fn nvme(&mut self, command: NvmeCommand, data: &mut [u8]) -> Result<u32, TransportError> {
        let mut passed = NvmePassthrough {
            opcode: command.opcode,
            namespace: command.namespace,
            address: if data.is_empty() { 0 } else { data.as_mut_ptr() as u64 },
            data_len: data.len() as u32,
            words_10_to_15: [command.word_10, 0, 0, 0, 0, 0],
            timeout_ms: COMMAND_TIME.as_millis() as u32,
            ..NvmePassthrough::default()
        };
        // SAFETY: the structure has the layout that the kernel expects, and it names `data` and its length, which outlive the call.
        // The commands that are sent only read from the drive into it.
        let status = unsafe { libc::ioctl(self.0.as_raw_fd(), ADMIN_COMMAND as _, &raw mut passed) };
        match status {
            0 => Ok(passed.result),
            // A status of NVMe; its highest bits say whether to try again.
            1.. => Err(TransportError::Refused(format!("status {:#x}", status & 0x7ff))),
            _ => Err(io::Error::last_os_error().into()),
        }
    }

    fn scsi(&mut self, command: &[u8], data: &mut [u8]) -> Result<ScsiAnswer, TransportError> {
        let mut sense = [0; 64];
        let mut passed = SgIo {
            interface: i32::from(b'S'),
            direction: if data.is_empty() { NO_DATA } else { FROM_DRIVE },
            command_len: command.len() as u8,
            most_sense: sense.len() as u8,
            vectors: 0,
            data_len: data.len() as u32,
            data: data.as_mut_ptr(),
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: COMMAND_TIME.as_millis() as u32,
            flags: 0,
            pack: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            residue: 0,
            duration_ms: 0,
            info: 0,
        };
        // SAFETY: the structure has the layout that the kernel expects. It names the command, `data` and `sense` with their lengths, which
        // outlive the call; the kernel writes into the latter two alone.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), SG_IO as _, &raw mut passed) };
        if result < 0 {
            return Err(io::Error::last_os_error().into());
        }
        match passed.host_status {
            0 => {}
            HOST_TIMED_OUT => return Err(TransportError::TimedOut),
            other => return Err(TransportError::System(format!("the drive's controller reports error {other:#x}"))),
        }
        let residue = usize::try_from(passed.residue).unwrap_or(0).min(data.len());
        let sense = sense[..usize::from(passed.sense_len).min(sense.len())].to_vec();
        Ok(ScsiAnswer { status: passed.status, sense, transferred: data.len() - residue })
    }
}

/// A drive that answers from a table, in place of a real one.
#[cfg(test)]
pub(crate) mod recorded {
    use super::{NvmeCommand, ScsiAnswer, Transport, TransportError};

    type NvmeAnswer = Result<(u32, Vec<u8>), TransportError>;
    type ScsiRecord = Result<(ScsiAnswer, Vec<u8>), TransportError>;

    /// Answers the commands that it knows, and refuses all others.
    #[derive(Default)]
    pub(crate) struct Recorded {
        pub(crate) nvme: Vec<(NvmeCommand, NvmeAnswer)>,
        /// By the bytes with which a command begins.
        pub(crate) scsi: Vec<(Vec<u8>, ScsiRecord)>,
        /// What was asked, in order.
        pub(crate) asked: Vec<Vec<u8>>,
    }

    impl Transport for Recorded {
        fn nvme(&mut self, command: NvmeCommand, data: &mut [u8]) -> Result<u32, TransportError> {
            self.asked.push(vec![command.opcode, command.word_10 as u8]);
            let found = self.nvme.iter().find(|(known, _)| *known == command);
            let refused = || Err(TransportError::Refused("status 0x109".to_owned()));
            let (word, bytes) = found.map_or_else(refused, |(_, answer)| answer.clone())?;
            let len = bytes.len().min(data.len());
            data[..len].copy_from_slice(&bytes[..len]);
            Ok(word)
        }

        fn scsi(&mut self, command: &[u8], data: &mut [u8]) -> Result<ScsiAnswer, TransportError> {
            self.asked.push(command.to_vec());
            let Some((_, answer)) = self.scsi.iter().find(|(known, _)| command.starts_with(known)) else {
                // Illegal request: invalid operation code.
                let sense = vec![0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x20, 0];
                return Ok(ScsiAnswer { status: 2, sense, transferred: 0 });
            };
            let (answer, bytes) = answer.clone()?;
            let len = bytes.len().min(data.len());
            data[..len].copy_from_slice(&bytes[..len]);
            Ok(ScsiAnswer { transferred: len, ..answer })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_drive_refuses_commands() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut data = [0; 512];
        let mut drive = Ioctl::open(file.path()).unwrap();
        let refused = |result: Result<(), TransportError>| matches!(result, Err(TransportError::Refused(_)));
        assert!(refused(drive.nvme(NvmeCommand { opcode: 2, namespace: !0, word_10: 2 }, &mut data).map(drop)));
        assert!(refused(drive.scsi(&[0; 6], &mut []).map(drop)));
        assert!(matches!(Ioctl::open(Path::new("/none")), Err(TransportError::System(_))));
    }
}
